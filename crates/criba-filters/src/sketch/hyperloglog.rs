//! How many distinct keys there were, in a few kilobytes, at any size.
//!
//! Flajolet, Fusy, Gandouet, Meunier, "HyperLogLog: the analysis of a near-optimal cardinality
//! estimation algorithm" (2007): registers as those of [`LogLog`](super::LogLog), whose harmonic
//! mean is taken, which large ranks hardly move. The standard deviation is `1.04 / sqrt(m)` of the
//! number.
//!
//! - [`HyperLogLog::estimate`](super::Distinct::estimate) is that of Ertl, "New cardinality
//!   estimation algorithms for HyperLogLog sketches" (2017), section 2.5: without bias at any size,
//!   without tables.
//! - [`HyperLogLog::estimate_2007`] is that of the first paper, figure 3, with its correction for
//!   small numbers (the share of registers that are zero, up to `2.5 m`): it is some percent off
//!   around `2.5 m` to `5 m`, where the correction ends. There is none for large numbers, as hashes
//!   have 64 bits.
//!
//! Memory: a byte for each register, and less at first: registers that are not zero are a list
//! until that would take more. While there are few keys, numbers are nearly exact.

use super::distinct::{Distinct, Estimator};
use super::ertl;
use super::registers::Histogram;

/// A HyperLogLog sketch.
///
/// Formulas, use, what was measured and what it costs: `docs/filters/hyperloglog.md`.
///
/// ```
/// use criba_filters::{HyperLogLog, Sketch};
///
/// let mut distinct = HyperLogLog::with_error(0.02)?; // 4,096 registers
/// for word in "the quick brown fox jumps over the lazy dog".split(' ') {
///     distinct.insert(word);
/// }
/// assert_eq!(distinct.estimate().round(), 8.0);
/// # Ok::<(), criba_filters::Error>(())
/// ```
#[doc(alias = "hll")]
pub type HyperLogLog = Distinct<Harmonic>;

/// The estimate from the harmonic mean of the registers.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Harmonic;

impl Estimator for Harmonic {
    const KIND: [u8; 4] = *b"HYLL";
    const DEVIATION: f64 = 1.04;

    fn estimate(counts: &Histogram, index_bits: u8) -> f64 {
        ertl::estimate(counts, index_bits)
    }
}

impl Distinct<Harmonic> {
    /// The number of distinct keys as the paper of 2007 estimates it.
    #[must_use]
    pub fn estimate_2007(&self) -> f64 {
        let counts = self.registers.histogram();
        let registers = self.registers.count() as f64;
        let terms = (0_i32..).zip(counts);
        let sum: f64 = terms
            .map(|(rank, count)| f64::from(count) * f64::from(-rank).exp2())
            .sum();
        let raw = alpha(registers) * registers * registers / sum;
        let zero = f64::from(counts[0]);
        if raw <= 2.5 * registers && zero > 0.0 {
            // As many keys as leave that share of the registers empty.
            return registers * (registers / zero).ln();
        }
        raw
    }
}

/// The factor that takes away the bias of the harmonic mean (figure 3 of the paper).
fn alpha(registers: f64) -> f64 {
    match registers as usize {
        16 => 0.673,
        32 => 0.697,
        64 => 0.709,
        _ => 0.7213 / (1.0 + 1.079 / registers),
    }
}
