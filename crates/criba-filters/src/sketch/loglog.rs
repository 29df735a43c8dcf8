//! How many distinct keys there were, from registers whose size is the logarithm of a logarithm.
//!
//! Durand, Flajolet, "Loglog counting of large cardinalities" (2003), section 2: the mean of the
//! ranks of `m` registers is about the binary logarithm of the keys in each, so `alpha_m m 2^mean`
//! is their number, with a standard deviation of `1.30 / sqrt(m)`. Memory: a byte for each
//! register.
//!
//! Registers that no key fell to count as rank 0, so small numbers come out far too high, `0.397 m`
//! for none at all: below about `3 m` keys it cannot be used. [`HyperLogLog`](super::HyperLogLog)
//! has a smaller error in the same memory at any size and should be used instead; this is the
//! structure that it is to be compared with. The truncation of the paper's section 4 is not built
//! here.

use super::distinct::{Distinct, Estimator};
use super::registers::Histogram;

/// Euler's constant, and the zeta function at 2, 3, ...: the series of the logarithm of the gamma
/// function near 1.
const EULER: f64 = 0.577_215_664_901_532_9;
const ZETA: [f64; 8] = [
    1.644_934_066_848_226_4,
    1.202_056_903_159_594_3,
    1.082_323_233_711_138_2,
    1.036_927_755_143_37,
    1.017_343_061_984_449,
    1.008_349_277_381_923,
    1.004_077_356_197_944_3,
    1.002_008_392_826_082_2,
];

/// A LogLog sketch.
///
/// Formulas, use, what was measured and what it costs: `docs/filters/hyperloglog.md`.
///
/// ```
/// use criba_filters::{LogLog, Sketch};
///
/// let mut distinct = LogLog::with_index_bits(6)?; // 64 registers, good from 200 keys on
/// for key in 0..10_000_u64 {
///     distinct.insert(&key.to_le_bytes());
/// }
/// assert!((7_000.0..13_000.0).contains(&distinct.estimate()));
/// # Ok::<(), criba_filters::Error>(())
/// ```
pub type LogLog = Distinct<Geometric>;

/// The estimate from the geometric mean of the registers.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Geometric;

impl Estimator for Geometric {
    const KIND: [u8; 4] = *b"LOGL";
    const DEVIATION: f64 = 1.30;

    fn estimate(counts: &Histogram, index_bits: u8) -> f64 {
        let registers = f64::from(1_u32 << index_bits);
        let counts = (0_u32..).zip(counts);
        let sum: f64 = counts
            .map(|(rank, count)| f64::from(rank) * f64::from(*count))
            .sum();
        alpha(registers) * registers * (sum / registers).exp2()
    }
}

/// The factor that takes away the bias of the mean, `(gamma(-1/m) (1 - 2^(1/m)) / ln 2)^-m`
/// (theorem 1), where `gamma(-x) = -gamma(1 - x) / x`.
fn alpha(registers: f64) -> f64 {
    let x = 1.0 / registers;
    let series = (2..)
        .zip(ZETA)
        .map(|(power, zeta)| zeta * x.powi(power) / f64::from(power));
    let log_gamma = EULER * x + series.sum::<f64>();
    let log_rest = ((x * std::f64::consts::LN_2).exp_m1() / (x * std::f64::consts::LN_2)).ln();
    (-registers * (log_gamma + log_rest)).exp()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The formula of theorem 1, calculated with the gamma function itself, and its limit 0.39701.
    #[test]
    fn the_factor_is_that_of_the_paper() {
        for (registers, expected) in [
            (16.0, 0.376_032_697),
            (64.0, 0.391_781_119),
            (1024.0, 0.396_685_153),
            (65536.0, 0.397_006_7),
        ] {
            let found = alpha(registers);
            assert!((found - expected).abs() < 1e-7, "{registers}: {found}");
        }
    }
}
