//! Bits of filters as they are sent to others.

use criba_filters::{CountingBloom, Membership};

use crate::{Error, Result};

/// The plain bits of a counting filter: one is set for each counter that is not zero. With them, others can
/// ask it, but not remove keys from it.
pub fn bits_of(filter: &CountingBloom) -> Vec<u8> {
    let (cells, _) = filter.shape();
    let bytes = filter.to_bytes();
    // They end with the counters, two in a byte, the lower half first.
    let counters = &bytes[bytes.len() - cells.div_ceil(2) as usize..];
    let bits = |four: &[u8]| {
        let pairs = four.iter().zip([0, 2, 4, 6]);
        pairs.fold(0, |bits, (pair, at)| {
            bits | u8::from(pair & 15 > 0) << at | u8::from(pair >> 4 > 0) << (at + 1)
        })
    };
    counters.chunks(4).map(bits).collect()
}

/// The places at which bits differ.
fn changes(before: &[u8], after: &[u8]) -> Vec<u64> {
    let mut places = Vec::new();
    for ((before, after), byte) in before.iter().zip(after).zip(0..) {
        let mut difference = before ^ after;
        while difference > 0 {
            places.push(8 * byte + u64::from(difference.trailing_zeros()));
            difference &= difference - 1;
        }
    }
    places
}

/// Makes these changes.
fn apply(changes: &[u64], bits: &mut [u8]) {
    for place in changes {
        bits[(place / 8) as usize] ^= 1 << (place % 8);
    }
}

/// Sends the changes to a proxy that has the bits as they were, and returns their number.
///
/// # Errors
///
/// If it does not have the new bits then.
pub fn send_changes(now: &[u8], kept: &mut [u8]) -> Result<u64> {
    let changes = changes(kept, now);
    apply(&changes, kept);
    if kept != now {
        return Err(Error::Wrong(
            "the changes do not give the new digest".into(),
        ));
    }
    Ok(changes.len() as u64)
}

/// How many bits of a filter change, by theory, when `new` of its objects are others than before.
///
/// A bit becomes set if no object of the old content has it, and one of the new objects does. As many are no
/// longer set.
pub fn changes_for((bits, probes): (u64, u8), objects: f64, new: f64) -> f64 {
    let none = |objects: f64| {
        let drawn = f64::from(probes) * objects;
        (drawn * (-1.0 / bits as f64).ln_1p()).exp()
    };
    2.0 * bits as f64 * none(objects) * (1.0 - none(new))
}

#[cfg(test)]
mod tests {
    use criba_filters::{Delete, Insert};

    use super::*;

    #[test]
    fn changes_give_the_new_bits() {
        let mut filter = CountingBloom::with_shape(1_001, 3).unwrap();
        let mut kept = bits_of(&filter);
        assert_eq!(kept, [0; 126]);
        for key in 0..100_u32 {
            filter.insert(&key.to_le_bytes()).unwrap();
        }
        let full = bits_of(&filter);
        let ones = |bits: &[u8]| bits.iter().map(|byte| byte.count_ones()).sum::<u32>();
        assert_eq!(f64::from(ones(&full)), (filter.fill() * 1_001.0).round());
        let places = changes(&kept, &full);
        assert_eq!(places.len() as u32, ones(&full));
        assert!(places.iter().all(|place| *place < 1_001));
        apply(&places, &mut kept);
        assert_eq!(kept, full);
        for key in 0..100_u32 {
            filter.remove(&key.to_le_bytes());
        }
        apply(&changes(&full, &bits_of(&filter)), &mut kept);
        assert_eq!(kept, [0; 126]);
    }

    #[test]
    fn changes_are_as_many_as_calculated() {
        let mut filter = CountingBloom::with_shape(80_000, 6).unwrap();
        for key in 0..10_000_u32 {
            filter.insert(&key.to_le_bytes()).unwrap();
        }
        let before = bits_of(&filter);
        for key in 0..500_u32 {
            filter.remove(&key.to_le_bytes());
            filter.insert(&(key + 10_000).to_le_bytes()).unwrap();
        }
        let measured = changes(&before, &bits_of(&filter)).len() as f64;
        let expected = changes_for((80_000, 6), 10_000.0, 500.0);
        assert!(
            (measured / expected - 1.0).abs() < 0.06,
            "{measured} {expected}"
        );
    }
}
