//! What other filters would cost in a segment, by calculation.

use crate::theory::{blocked_bloom_rate, bloomier_rate};

/// Space of a Bloomier filter for each bit of its values: what bumped ribbons need.
const RIBBON_OVERHEAD: f64 = 1.02;

/// Fewest bits that a block ordinal is given; what it does not need rejects absent keys.
const BLOCK_BITS_MIN: u32 = 7;

/// One filter that could be there.
pub(crate) struct Choice {
    pub(crate) name: &'static str,
    pub(crate) bytes: f64,
    /// Data blocks read in vain for each absent key within the segment's range.
    pub(crate) rate: f64,
}

/// The settings that `study` compares, for a segment of so many keys and blocks, with at most so
/// many groups in a block.
pub(crate) fn choices(keys: u64, blocks: u64, groups_max: u64) -> Vec<Choice> {
    let keys = keys as f64;
    let block_bits = bits_for(blocks).max(BLOCK_BITS_MIN);
    let slot_bits = bits_for(groups_max);
    let bloom = |name, bits: f64| Choice {
        name,
        bytes: keys * bits / 8.0,
        rate: blocked_bloom_rate(bits),
    };
    let bloomier = |name, bits: u32, rate: f64| Choice {
        name,
        bytes: keys * f64::from(bits) * RIBBON_OVERHEAD / 8.0,
        rate,
    };
    let block_rate = bloomier_rate(f64::from(block_bits));
    // A slot that no block has refutes the key too.
    let slot_rate = block_rate * groups_max.max(1) as f64 / f64::from(slot_bits).exp2();
    vec![
        Choice {
            name: "none",
            bytes: 0.0,
            rate: 1.0,
        },
        bloom("bloom:10", 10.0),
        bloom("bloom:15", 15.0),
        bloomier("bloomier:block", block_bits, block_rate),
        bloomier("bloomier:slot", block_bits + slot_bits, slot_rate),
    ]
}

/// Bits that tell so many things apart.
fn bits_for(count: u64) -> u32 {
    u64::BITS - count.saturating_sub(1).leading_zeros()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bits_tell_things_apart() {
        assert_eq!(
            [0, 1, 2, 3, 4, 5, 1024, 1025].map(bits_for),
            [0, 0, 1, 2, 2, 3, 10, 11]
        );
    }

    #[test]
    fn more_blocks_refute_more() {
        let rate = |blocks| choices(1_000_000, blocks, 8)[3].rate;
        assert_eq!(rate(1024), 1.0 / 1024.0);
        assert!(rate(16384) < rate(1024));
        assert_eq!(choices(1_000_000, 1024, 9)[4].rate, 9.0 / 16.0 / 1024.0);
        assert_eq!(choices(0, 0, 0)[4].bytes, 0.0);
    }
}
