//! A Bloom filter of prefixes of one length, as RocksDB has it, with the length in bits that does best.
//!
//! A range is refuted if the filter denies all prefixes from that of its lower bound to that of its
//! upper one. Many keys may share a prefix, so each prefix may have more bits than a key.

use criba_filters::{Classic, Design, Insert as _, Membership as _};

use super::{KeyRange, RangeSet, mask};
use crate::exit::Failure;
use crate::lab::bench::made;

/// A range with more prefixes is not refuted.
const PREFIXES_MAX: usize = 16;

/// Lengths that are tried, in steps of bits behind what all keys share.
const STEP: usize = 2;
const STEPS: usize = 48;

/// The filter, and the keys, for what theory says.
pub(crate) struct PrefixBloom<'a> {
    keys: &'a [Vec<u8>],
    length: usize,
    design: Design,
    filter: Option<Classic>,
    /// That the filter contains a prefix that it does not hold.
    rate: f64,
}

impl PrefixBloom<'_> {
    /// For sorted keys, with the length that has the least expected rate on some empty ranges.
    ///
    /// # Errors
    ///
    /// When a filter cannot be made of so few bits.
    pub(crate) fn new<'a>(
        keys: &'a [Vec<u8>],
        bits_per_key: f64,
        ranges: &[KeyRange],
    ) -> Result<PrefixBloom<'a>, Failure> {
        let shared = |pair: &[Vec<u8>]| shared_bits(&pair[0], &pair[1]);
        let shared: Vec<usize> = keys.windows(2).map(shared).collect();
        let least = shared.iter().copied().min().unwrap_or(0);
        let bits = (bits_per_key * keys.len() as f64) as u64;
        let mut best: Option<(f64, PrefixBloom<'a>)> = None;
        for step in 1..=STEPS {
            let length = least + step * STEP;
            let distinct = 1 + shared.iter().filter(|&&shared| shared < length).count();
            let one = PrefixBloom::of_length(keys, (length, distinct as u64), bits)?;
            let sum: f64 = ranges.iter().filter_map(|range| one.expected(range)).sum();
            if best.as_ref().is_none_or(|(least, _)| sum < *least) {
                best = Some((sum, one));
            }
        }
        let (_, mut best) = best.ok_or_else(|| Failure::usage("there is no length to try"))?;
        let mut filter = made(Classic::new(best.design))?;
        for key in keys {
            made(filter.insert(&prefix(key, best.length)))?;
        }
        best.filter = Some(filter);
        Ok(best)
    }

    /// Without its keys.
    fn of_length(
        keys: &[Vec<u8>],
        (length, distinct): (usize, u64),
        bits: u64,
    ) -> Result<PrefixBloom<'_>, Failure> {
        let design = made(Design::for_bits(distinct, bits))?;
        // Broder and Mitzenmacher 2004, section 2.
        let probes = f64::from(design.probes);
        let fill = 1.0 - (-probes * distinct as f64 / bits as f64).exp();
        Ok(PrefixBloom {
            keys,
            length,
            design,
            filter: None,
            rate: fill.powf(probes),
        })
    }

    fn is_present(&self, wanted: &[u8]) -> bool {
        let order = |key: &Vec<u8>| {
            let bytes = (0..wanted.len()).map(|at| byte_of_prefix(key, at, self.length));
            bytes.cmp(wanted.iter().copied())
        };
        let from = self.keys.partition_point(|key| order(key).is_lt());
        self.keys.get(from).is_some_and(|key| order(key).is_eq())
    }

    /// The prefixes of a range; `None` for too many.
    fn prefixes(&self, (lower, upper): &KeyRange) -> Option<Vec<Vec<u8>>> {
        let (mut at, last) = (prefix(lower, self.length), prefix(upper, self.length));
        let mut prefixes = vec![at.clone()];
        while at < last {
            if prefixes.len() == PREFIXES_MAX {
                return None;
            }
            increment(&mut at, self.length);
            prefixes.push(at.clone());
        }
        Some(prefixes)
    }
}

/// Bits that both keys begin with, when they are filled up with zeros.
fn shared_bits(one: &[u8], other: &[u8]) -> usize {
    for at in 0..one.len().max(other.len()) {
        let byte = |key: &[u8]| key.get(at).copied().unwrap_or(0);
        let differing = byte(one) ^ byte(other);
        if differing != 0 {
            return at * 8 + differing.leading_zeros() as usize;
        }
    }
    usize::MAX
}

fn byte_of_prefix(key: &[u8], at: usize, length: usize) -> u8 {
    let byte = key.get(at).copied().unwrap_or(0);
    if at == length / 8 {
        byte & mask(length)
    } else {
        byte
    }
}

/// The first bits of a key, filled up with zeros.
fn prefix(key: &[u8], length: usize) -> Vec<u8> {
    let bytes = 0..length.div_ceil(8);
    bytes.map(|at| byte_of_prefix(key, at, length)).collect()
}

/// The next prefix in their order.
fn increment(prefix: &mut [u8], length: usize) {
    let mut carry = 1_u16 << ((8 - length % 8) % 8);
    for byte in prefix.iter_mut().rev() {
        let sum = u16::from(*byte) + carry;
        *byte = (sum & 0xff) as u8;
        carry = sum >> 8;
    }
}

impl RangeSet for PrefixBloom<'_> {
    fn may_hold(&self, range: &KeyRange) -> bool {
        let (Some(prefixes), Some(filter)) = (self.prefixes(range), &self.filter) else {
            return true;
        };
        prefixes.iter().any(|one| filter.may_contain(one))
    }

    fn bits(&self) -> f64 {
        self.design.bits as f64
    }

    fn expected(&self, range: &KeyRange) -> Option<f64> {
        let Some(prefixes) = self.prefixes(range) else {
            return Some(1.0);
        };
        if prefixes.iter().any(|one| self.is_present(one)) {
            return Some(1.0);
        }
        Some(1.0 - (1.0 - self.rate).powi(prefixes.len() as i32))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn prefixes_follow_one_another() {
        assert_eq!(prefix(b"\xff\xff", 12), [0xff, 0xf0]);
        assert_eq!(prefix(b"\xff\xff", 8), [0xff]);
        assert_eq!(prefix(b"\xff", 16), [0xff, 0]);
        let mut one = vec![0x01, 0xf0];
        increment(&mut one, 12);
        assert_eq!(one, [0x02, 0x00]);
        let mut one = vec![0x01, 0xff];
        increment(&mut one, 16);
        assert_eq!(one, [0x02, 0x00]);
        assert_eq!(
            (shared_bits(b"ab", b"ac"), shared_bits(b"a", b"ab")),
            (15, 9)
        );
    }
}
