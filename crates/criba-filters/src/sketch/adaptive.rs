//! How many distinct keys there were, by linear counting while there are few and by LogLog later.
//!
//! Cai, Pan, Kwok, Hwang, "Fast and accurate traffic matrix measurement using adaptive cardinality
//! counting" (2005): the registers of [`LogLog`](super::LogLog) also tell what a bitmap would, which
//! of them a key has fallen to. While more than 5.1 % of the `m` registers are empty, the estimate is
//! that of linear counting (Whang, Vander-Zanden, Taylor, "A linear-time probabilistic counting
//! algorithm for database applications", 1990): `m ln(m / empty ones)`. From then on, it is that of
//! LogLog.
//!
//! Errors: with `t` keys per register, linear counting has a standard deviation of
//! `sqrt(e^t - t - 1) / (t sqrt(m))` of the number (section 4 of the paper of 1990). At the switch,
//! `t = -ln 0.051 = 2.98`, that is `1.33 / sqrt(m)`, and LogLog has `1.30 / sqrt(m)` there and beyond,
//! so `1.33 / sqrt(m)` is the most at any size.
//!
//! Memory: as LogLog. [`HyperLogLog`](super::HyperLogLog), two years younger, has the same idea and a
//! smaller error where there are many keys.

use super::distinct::{Distinct, Estimator};
use super::loglog::Geometric;
use super::registers::Histogram;

/// The share of empty registers up to which LogLog is as good as linear counting.
const SWITCH: f64 = 0.051;

/// An adaptive counting sketch: linear counting and LogLog joined.
///
/// Formulas, use, what was measured and what it costs: `docs/filters/adaptive.md`.
///
/// ```
/// use criba_filters::{AdaptiveCounting, Sketch};
///
/// let mut distinct = AdaptiveCounting::with_error(0.05)?; // 1,024 registers
/// for word in "the quick brown fox jumps over the lazy dog".split(' ') {
///     distinct.insert(word);
/// }
/// assert_eq!(distinct.estimate().round(), 8.0);
/// # Ok::<(), criba_filters::Error>(())
/// ```
pub type AdaptiveCounting = Distinct<Adaptive>;

/// The estimate from the empty registers while there are enough of them, from the geometric mean of
/// all later.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Adaptive;

impl Estimator for Adaptive {
    const KIND: [u8; 4] = *b"ADAP";
    const DEVIATION: f64 = 1.33;

    fn estimate(counts: &Histogram, index_bits: u8) -> f64 {
        let registers = f64::from(1_u32 << index_bits);
        let empty = f64::from(counts[0]);
        if empty > SWITCH * registers {
            return registers * (registers / empty).ln();
        }
        Geometric::estimate(counts, index_bits)
    }
}
