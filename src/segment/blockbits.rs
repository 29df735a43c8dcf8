//! One bit for each data block of a segment.

use std::sync::atomic::{AtomicU64, Ordering};

/// Bits that threads set. Relaxed: they tell where something is worth looking for, and
/// what is found there says by itself whether it is.
#[derive(Debug)]
pub(super) struct BlockBits(Box<[AtomicU64]>);

impl BlockBits {
    /// None are set.
    pub(super) fn new(block_count: u32) -> BlockBits {
        let words = (block_count as usize).div_ceil(64);
        BlockBits((0..words).map(|_| AtomicU64::new(0)).collect())
    }

    #[inline]
    pub(super) fn get(&self, block: u32) -> bool {
        let word = self.0.get(block as usize / 64);
        word.is_some_and(|word| word.load(Ordering::Relaxed) & bit(block) != 0)
    }

    pub(super) fn set(&self, block: u32) {
        if let Some(word) = self.0.get(block as usize / 64) {
            word.fetch_or(bit(block), Ordering::Relaxed);
        }
    }

    /// Sets those that are set in the other.
    pub(super) fn set_all_of(&self, other: &BlockBits) {
        for (word, other) in self.0.iter().zip(&other.0) {
            word.fetch_or(other.load(Ordering::Relaxed), Ordering::Relaxed);
        }
    }
}

fn bit(block: u32) -> u64 {
    1 << (block % 64)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bits_are_of_one_block_each() {
        for block in [0, 63, 64, 69] {
            let bits = BlockBits::new(70);
            assert!(!bits.get(block));
            bits.set(block);
            let set: Vec<u32> = (0..200).filter(|&block| bits.get(block)).collect();
            assert_eq!(set, [block]);
        }
    }

    #[test]
    fn there_are_none_of_blocks_that_are_not() {
        let bits = BlockBits::new(0);
        bits.set(0);
        assert!(!bits.get(0));
    }
}
