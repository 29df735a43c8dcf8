//! Randomness that a seed repeats: hashes of keys, orders, values.

/// Steele, Lea, Flood 2014: a sequence of 64-bit numbers, good enough to deal and to shuffle.
pub(crate) struct SplitMix(u64);

impl SplitMix {
    pub(crate) fn new(seed: u64) -> SplitMix {
        SplitMix(seed)
    }

    pub(crate) fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        mix(self.0)
    }

    /// A number below `bound`, which is not 0. The bias is below 2^-32 for bounds below 2^32.
    pub(crate) fn below(&mut self, bound: u64) -> u64 {
        ((u128::from(self.next()) * u128::from(bound)) >> 64) as u64
    }

    pub(crate) fn shuffle<T>(&mut self, items: &mut [T]) {
        for last in (1..items.len()).rev() {
            let other = self.below(last as u64 + 1) as usize;
            items.swap(last, other);
        }
    }
}

/// A permutation of all 64-bit numbers.
pub(crate) fn mix(mut bits: u64) -> u64 {
    bits = (bits ^ (bits >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    bits = (bits ^ (bits >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    bits ^ (bits >> 31)
}

/// A hash of a key. Stores hash with a secret of their own, so this one is independent of theirs.
pub(crate) fn hash(key: &[u8], seed: u64) -> u64 {
    criba_filters::hash_key(seed, key).0
}

/// The value of a key in a run: any other key, and any other run, has another one.
pub(crate) fn fill_value(key: &[u8], run: u32, seed: u64, value: &mut [u8]) {
    let mut random = SplitMix::new(hash(key, mix(seed).wrapping_add(u64::from(run))));
    for chunk in value.chunks_mut(8) {
        let bytes = random.next().to_le_bytes();
        chunk.copy_from_slice(&bytes[..chunk.len()]);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_shuffle_keeps_everything() {
        let mut items: Vec<u32> = (0..1000).collect();
        SplitMix::new(7).shuffle(&mut items);
        assert_ne!(items[..20], (0..20).collect::<Vec<_>>());
        items.sort_unstable();
        assert_eq!(items, (0..1000).collect::<Vec<_>>());
        assert!((0..1000).all(|_| SplitMix::new(3).below(10) < 10));
    }

    #[test]
    fn values_tell_keys_and_runs_apart() {
        let value = |key: &[u8], run| {
            let mut value = [0; 20];
            fill_value(key, run, 1, &mut value);
            value
        };
        assert_eq!(value(b"a", 0), value(b"a", 0));
        assert_ne!(value(b"a", 0), value(b"b", 0));
        assert_ne!(value(b"a", 0), value(b"a", 1));
    }
}
