//! SNARF (Vaidya, Chatterjee, Knorr, Mitzenmacher, Idreos, Kraska 2022, "SNARF: A Learning-Enhanced
//! Range Filter", section 3).
//!
//! A model learns where in the sorted set an integer would be, a part from 0 to 1, and so maps it to one
//! of `n K` positions. The positions of the keys are stored as a compressed bit array. A range is
//! refuted if no bit is set from the position of its lower bound to that of its upper one.

use super::integers::{Integers, elias_fano_bits, has_between, universe_for};
use super::{KeyRange, RangeSet};

/// Keys between two knots of the model, which is linear in between. With 64 bits of key for each
/// knot, the model takes a quarter of a bit for each key.
const KEYS_PER_KNOT: usize = 256;

/// The model and the positions that are set, counted as Elias-Fano would take them. The published one
/// has Golomb codes by blocks, which take about the same.
pub(crate) struct Snarf {
    integers: Integers,
    /// Each with the number of keys before it.
    knots: Vec<(u64, usize)>,
    positions: Vec<u64>,
    /// Positions for each key.
    density: f64,
    bits: f64,
}

impl Snarf {
    /// For sorted keys.
    pub(crate) fn new(keys: &[Vec<u8>], bits_per_key: f64) -> Snarf {
        let integers = Integers::of(keys);
        let all = integers.all(keys);
        let mut knots: Vec<(u64, usize)> = all
            .iter()
            .enumerate()
            .step_by(KEYS_PER_KNOT)
            .map(|(rank, &integer)| (integer, rank))
            .collect();
        if let Some(&last) = all.last() {
            knots.push((last, all.len() - 1));
        }
        let model_bits = knots.len() as f64 * 64.0;
        let wanted = (bits_per_key * keys.len() as f64 - model_bits) / all.len().max(1) as f64;
        let universe = universe_for(all.len(), wanted);
        let mut snarf = Snarf {
            integers,
            knots,
            positions: Vec::new(),
            density: universe / all.len().max(1) as f64,
            bits: model_bits + elias_fano_bits(all.len(), universe),
        };
        let mut positions: Vec<u64> = all.iter().map(|&number| snarf.position(number)).collect();
        positions.dedup();
        snarf.positions = positions;
        snarf
    }

    /// Monotone in the integer.
    fn position(&self, integer: u64) -> u64 {
        let above = self.knots.partition_point(|knot| knot.0 <= integer);
        let (Some(&from), to) = (self.knots.get(above.wrapping_sub(1)), self.knots.get(above))
        else {
            return 0;
        };
        let Some(&to) = to else {
            return (from.1 as f64 * self.density) as u64;
        };
        let part = (integer - from.0) as f64 / (to.0 - from.0) as f64;
        let rank = from.1 as f64 + part * (to.1 - from.1) as f64;
        (rank * self.density) as u64
    }

    /// The rate on keys that are spread evenly, 1 / K (section 4).
    pub(crate) fn rate_on_uniform(&self) -> f64 {
        (1.0 / self.density).min(1.0)
    }
}

impl RangeSet for Snarf {
    fn may_hold(&self, range: &KeyRange) -> bool {
        let (lower, upper) = self.integers.range(range);
        has_between(
            &self.positions,
            (self.position(lower), self.position(upper)),
        )
    }

    fn bits(&self) -> f64 {
        self.bits
    }
}
