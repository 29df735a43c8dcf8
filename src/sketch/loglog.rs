//! How many distinct keys there were, from registers whose size is the logarithm of a logarithm.
//!
//! Durand, Flajolet, "Loglog counting of large cardinalities" (2003), section 2: the mean of the ranks
//! of `m` registers is about the binary logarithm of the keys in each, so `alpha_m m 2^mean` is their
//! number, with a standard deviation of `1.30 / sqrt(m)`. Memory: a byte for each register.
//!
//! Registers that no key fell to count as rank 0, so small numbers come out far too high, `0.397 m` for
//! none at all: below about `3 m` keys it cannot be used. [`HyperLogLog`](super::HyperLogLog) has a
//! smaller error in the same memory at any size and should be used instead; this is the structure that
//! it is to be compared with. The truncation of the paper's section 4 is not built here.

use crate::error::Result;
use crate::filter::KeyHash;
use crate::filter::family::{Unreadable, frame};

use super::rank_bytes;
use super::registers::{Registers, check_index_bits, index_bits_for, sizes_differ};

const KIND: frame::Kind = *b"LOGL";
const VERSION: u8 = 1;

/// Standard deviation of the relative error, times the square root of the number of registers.
const DEVIATION: f64 = 1.30;

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
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct LogLog {
    registers: Registers,
}

impl LogLog {
    /// A sketch whose estimates have a standard deviation of at most `error`, a share of the number.
    ///
    /// # Errors
    ///
    /// If that would need fewer than 16 or more than 65,536 registers.
    pub fn with_error(error: f64) -> Result<LogLog> {
        LogLog::with_index_bits(index_bits_for(error, DEVIATION)?)
    }

    /// A sketch of `2^index_bits` registers, 4 to 16.
    ///
    /// # Errors
    ///
    /// If the number of bits is out of its bounds.
    pub fn with_index_bits(index_bits: u8) -> Result<LogLog> {
        let registers = Registers::new(check_index_bits(index_bits)?);
        Ok(LogLog { registers })
    }

    /// Adds a key; again is the same as once.
    pub fn insert(&mut self, hash: KeyHash) {
        self.registers.insert(hash);
    }

    /// The number of distinct keys, if it is at least about three times that of the registers. Takes
    /// some microseconds.
    #[must_use]
    pub fn estimate(&self) -> f64 {
        let registers = self.registers.count() as f64;
        let counts = (0_u32..).zip(self.registers.histogram());
        let sum: f64 = counts
            .map(|(rank, count)| f64::from(rank) * f64::from(count))
            .sum();
        alpha(registers) * registers * (sum / registers).exp2()
    }

    /// Adds all that another sketch has seen: the result is the sketch of both streams in one.
    ///
    /// # Errors
    ///
    /// If the sketches differ in the number of registers.
    pub fn merge(&mut self, other: &LogLog) -> Result<()> {
        sizes_differ(&self.registers, &other.registers)?;
        self.registers.merge(&other.registers);
        Ok(())
    }

    /// The number of registers.
    #[must_use]
    pub fn registers(&self) -> usize {
        self.registers.count()
    }

    /// The standard deviation of the relative error of [`estimate`](Self::estimate).
    #[must_use]
    pub fn standard_error(&self) -> f64 {
        DEVIATION / (self.registers.count() as f64).sqrt()
    }

    /// Bytes of memory, at most one for each register.
    #[must_use]
    pub fn memory_bytes(&self) -> usize {
        size_of::<Self>() + self.registers.heap_bytes()
    }

    /// The sketch as bytes: 2 and the lesser of 3 for each register that is not zero and 1 for each,
    /// framed.
    #[must_use]
    pub fn to_bytes(&self) -> Vec<u8> {
        rank_bytes::encode(&self.registers, KIND, VERSION)
    }

    /// Reads what [`to_bytes`](Self::to_bytes) wrote.
    ///
    /// # Errors
    ///
    /// [`Unreadable`] for anything else.
    pub fn from_bytes(bytes: &[u8]) -> Result<LogLog, Unreadable> {
        let registers = rank_bytes::decode(KIND, VERSION, bytes)?;
        Ok(LogLog { registers })
    }
}

/// The factor that takes away the bias of the mean, `(gamma(-1/m) (1 - 2^(1/m)) / ln 2)^-m` (theorem 1),
/// where `gamma(-x) = -gamma(1 - x) / x`.
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
