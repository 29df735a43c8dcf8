//! A doorkeeper: a table of fixed size with 16-bit fingerprints of what was seen lately.

use std::sync::atomic::{AtomicU64, Ordering};

/// Fingerprints of things, four at each place, the newest first: a fifth drives out the oldest.
///
/// Another thing may have the same place and fingerprint: one of 16,000 that meet at a place.
#[derive(Debug)]
pub(crate) struct Doorkeeper {
    places: Box<[AtomicU64]>,
}

const BITS: u32 = u16::BITS;
const AT_A_PLACE: u32 = 4;

impl Doorkeeper {
    /// Remembers about this many things, in two bytes each.
    pub(crate) fn new(things: u64) -> Doorkeeper {
        Doorkeeper {
            places: (0..things / u64::from(AT_A_PLACE))
                .map(|_| AtomicU64::new(0))
                .collect(),
        }
    }

    /// Whether it is remembered; it is from now on.
    pub(crate) fn again(&self, thing: (u64, u64)) -> bool {
        let (hash, place) = self.find(thing);
        let Some(place) = self.places.get(place) else {
            return false;
        };
        // Zero stands for none.
        let fingerprint = u64::from((hash as u16).max(1));
        // Relaxed: one that gets lost to another thread was not remembered.
        let there = place.load(Ordering::Relaxed);
        let is_there = (0..AT_A_PLACE).any(|n| (there >> (n * BITS)) as u16 == fingerprint as u16);
        if !is_there {
            place.store(there << BITS | fingerprint, Ordering::Relaxed);
        }
        is_there
    }

    /// A hash of a thing, and the place that it has, if there are any.
    fn find(&self, (left, right): (u64, u64)) -> (u64, usize) {
        // Two rounds of a multiplicative hash: any odd number with mixed bits does.
        const MIX: u64 = 0x9e37_79b9_7f4a_7c15;
        let hash = (left.rotate_left(40) ^ right).wrapping_mul(MIX);
        let hash = (hash ^ (hash >> 32)).wrapping_mul(MIX);
        let place = (u128::from(hash) * self.places.len() as u128) >> 64;
        (hash, place as usize)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn remembers_about_as_many_as_it_was_made_for() {
        let lately = Doorkeeper::new(4096);
        for n in 0..1000 {
            lately.again((1, n));
        }
        let remembered = (0..1000).filter(|&n| lately.again((1, n))).count();
        assert!((950..=1000).contains(&remembered), "{remembered}");
        for n in 0..100_000 {
            lately.again((2, n));
        }
        let remembered = (0..1000).filter(|&n| lately.again((1, n))).count();
        assert!(remembered < 10, "{remembered}");
    }

    #[test]
    fn of_none_nothing_is_remembered() {
        let lately = Doorkeeper::new(0);
        assert!(!lately.again((1, 1)));
        assert!(!lately.again((1, 1)));
    }
}
