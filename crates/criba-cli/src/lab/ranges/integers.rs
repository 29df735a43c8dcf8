//! Keys as integers of 64 bits, for filters that know no others.

use super::KeyRange;

/// Reads the first 8 bytes behind the prefix that all keys share, the first byte highest. A key that
/// ends earlier is filled up with zeros. So integers are in the order of the keys, but longer keys may
/// have the same one.
pub(super) struct Integers {
    prefix: Vec<u8>,
}

impl Integers {
    /// For sorted keys.
    pub(super) fn of(keys: &[Vec<u8>]) -> Integers {
        let (Some(first), Some(last)) = (keys.first(), keys.last()) else {
            return Integers { prefix: Vec::new() };
        };
        let pairs = first.iter().zip(last);
        let shared = pairs.take_while(|(one, other)| one == other).count();
        Integers {
            prefix: first[..shared].to_vec(),
        }
    }

    pub(super) fn integer(&self, key: &[u8]) -> u64 {
        let shared = key.len().min(self.prefix.len());
        match key[..shared].cmp(&self.prefix[..shared]) {
            std::cmp::Ordering::Less => return 0,
            std::cmp::Ordering::Greater => return u64::MAX,
            std::cmp::Ordering::Equal => {}
        }
        let rest = &key[shared..];
        let mut bytes = [0; 8];
        let len = rest.len().min(8);
        bytes[..len].copy_from_slice(&rest[..len]);
        bytes
            .iter()
            .fold(0, |number, byte| number << 8 | u64::from(*byte))
    }

    pub(super) fn range(&self, range: &KeyRange) -> (u64, u64) {
        (self.integer(&range.0), self.integer(&range.1))
    }

    pub(super) fn all(&self, keys: &[Vec<u8>]) -> Vec<u64> {
        let mut all: Vec<u64> = keys.iter().map(|key| self.integer(key)).collect();
        all.dedup();
        all
    }
}

/// Whether a sorted vector has a number from `lower` to `upper`, both included.
pub(super) fn has_between(sorted: &[u64], (lower, upper): (u64, u64)) -> bool {
    let from = sorted.partition_point(|&number| number < lower);
    sorted.get(from).is_some_and(|&number| number <= upper)
}

/// Bits of an Elias-Fano code of so many numbers below `universe` (Elias 1974, Fano 1971): the low bits
/// of each, and the differences of the others in unary. Directories for jumps are not counted.
pub(super) fn elias_fano_bits(count: usize, universe: f64) -> f64 {
    let count = count.max(1) as f64;
    let low = (universe / count).log2().floor().max(0.0);
    count * (low + 1.0) + (universe / low.exp2()).ceil()
}

/// The universe for which an Elias-Fano code takes so many bits for each of `count` numbers; at least 2
/// bits.
pub(super) fn universe_for(count: usize, bits_per_number: f64) -> f64 {
    // Of each number `low` bits, 1 bit of unary, and `part`, from 1 to 2, of the universe.
    let spare = (bits_per_number - 1.0).max(1.0);
    let low = (spare - 1.0).floor();
    let part = spare - low;
    (count as f64 * part * low.exp2()).max(1.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn integers_keep_the_order() {
        let keys = [b"ab1".to_vec(), b"ab1234567890".to_vec(), b"abz".to_vec()];
        let integers = Integers::of(&keys);
        let all = integers.all(&keys);
        assert!(all.is_sorted() && all.len() == 3);
        assert_eq!(
            (integers.integer(b"aa"), integers.integer(b"b")),
            (0, u64::MAX)
        );
        assert!(integers.integer(b"a") <= all[0]);
        assert!(has_between(&[1, 5], (2, 5)) && !has_between(&[1, 5], (2, 4)));
    }

    #[test]
    fn a_universe_takes_the_bits_it_was_chosen_for() {
        for bits in [2.0, 3.0, 8.0, 8.25, 11.9] {
            let universe = universe_for(1000, bits);
            let taken = elias_fano_bits(1000, universe) / 1000.0;
            assert!((taken - bits).abs() < 0.01, "{bits}: {taken}");
        }
    }
}
