//! The bytes of a join by filters, as calculated, and the size of the filter that needs the fewest.
//!
//! Site A has `n` keys. Of the rows of site B, `others` have no partner, with `w` bytes each. With `b` bits
//! per key of the filter, `others e^(-decay b)` of them come in vain.

use std::f64::consts::LN_2;

use crate::exact_join::Exact;
use crate::relation::{bytes_of_rows, number_of};

/// The costs of a join, from the relations themselves; a planner has estimates of them.
#[derive(Debug, Clone, Copy)]
pub struct Costs {
    /// Keys of A.
    pub keys: f64,
    /// Rows of B that are not wanted and that no filter holds back.
    pub others: f64,
    /// Bytes of such a row in a message, in the mean.
    pub row_bytes: f64,
    /// Bytes that travel in any case: rows that are wanted, and numbers in the map.
    pub fixed_bytes: f64,
    /// Each bit per key multiplies the rows that come in vain by `e^-decay`.
    pub decay: f64,
}

/// Each bit of a Bloom filter with the best number of probes, by which the rate is `0.6185^bits`.
const BLOOM_DECAY: f64 = LN_2 * LN_2;
/// Each check bit of a map.
const MAP_DECAY: f64 = LN_2;

impl Costs {
    /// Of a Bloom filter of A's keys.
    pub fn of_bloom(exact: &Exact) -> Costs {
        let others = (exact.right.len() - exact.all.len()) as f64;
        let fixed_bytes = bytes_of_rows(exact.all.iter().map(|(key, _, value)| (key, value)));
        let other_bytes = bytes_of_rows(exact.right.iter()) - fixed_bytes;
        Costs {
            keys: exact.left.len() as f64,
            others,
            row_bytes: other_bytes as f64 / others.max(1.0),
            fixed_bytes: fixed_bytes as f64,
            decay: BLOOM_DECAY,
        }
    }

    /// Of a Bloom filter, for a planner that does not know how large the join will be: all rows of B are
    /// taken for unwanted.
    pub fn planned(exact: &Exact) -> Costs {
        Costs {
            others: exact.right.len() as f64,
            ..Costs::of_bloom(exact)
        }
    }

    /// Of a map from A's keys to its numbers.
    pub fn of_map(exact: &Exact) -> Costs {
        let (costs, value_bits) = (Costs::of_bloom(exact), exact.value_bits());
        // The map has any number for an absent key. The row passes if its own number is above that.
        let numbers = (1_u64 << value_bits) as f64;
        let passes = |(_, value): (_, &Vec<u8>)| (number_of(value) as f64 / numbers).min(1.0);
        let rows = exact.right.iter();
        let absent = rows.filter(|(key, _)| !exact.left.contains_key(*key));
        let wanted = bytes_of_rows(exact.above.iter().map(|(key, _, value)| (key, value)));
        Costs {
            others: absent.map(passes).sum(),
            fixed_bytes: costs.keys * f64::from(value_bits) / 8.0 + wanted as f64,
            decay: MAP_DECAY,
            ..costs
        }
    }

    /// Rows in vain with `b` bits per key: `others e^(-decay b)`.
    pub fn in_vain(&self, bits: f64) -> f64 {
        self.others * (-self.decay * bits).exp()
    }

    /// Bytes with `b` bits per key: `n b / 8`, those of the rows in vain, and the fixed ones.
    pub fn bytes(&self, bits: f64) -> f64 {
        self.keys * bits / 8.0 + self.in_vain(bits) * self.row_bytes + self.fixed_bytes
    }

    /// Where one more bit costs as much as it saves: the derivative of `bytes` is zero if
    /// `n / 8 = decay others w e^(-decay b)`. No bits are best if that `b` is below zero.
    pub fn best_bits(&self) -> f64 {
        let ratio = 8.0 * self.decay * self.others * self.row_bytes / self.keys;
        (ratio.ln() / self.decay).max(0.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_best_size_needs_the_fewest_bytes() {
        let mut costs = Costs {
            keys: 1_000.0,
            others: 50_000.0,
            row_bytes: 100.0,
            fixed_bytes: 7.0,
            decay: BLOOM_DECAY,
        };
        let best = costs.best_bits();
        // log(8 * 0.4805 * 50,000 * 100 / 1,000) / 0.4805.
        assert!((best - 20.53).abs() < 0.01, "{best}");
        for other in [best - 0.5, best + 0.5] {
            assert!(costs.bytes(other) > costs.bytes(best), "{other}");
        }
        // Few rows in vain are not worth a filter.
        costs.others = 2.0;
        assert_eq!(costs.best_bits(), 0.0);
    }
}
