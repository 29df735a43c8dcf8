//! How many distinct keys there were, in a few kilobytes, at any size.
//!
//! Flajolet, Fusy, Gandouet, Meunier, "HyperLogLog: the analysis of a near-optimal cardinality
//! estimation algorithm" (2007): registers as those of [`LogLog`](super::LogLog), whose harmonic mean
//! is taken, which large ranks hardly move. The standard deviation is `1.04 / sqrt(m)` of the number.
//!
//! - [`HyperLogLog::estimate`] is that of Ertl, "New cardinality estimation algorithms for HyperLogLog
//!   sketches" (2017), section 2.5: without bias at any size, without tables.
//! - [`HyperLogLog::estimate_2007`] is that of the first paper, figure 3, with its correction for small
//!   numbers (the share of registers that are zero, up to `2.5 m`): it is some percent off around
//!   `2.5 m` to `5 m`, where the correction ends. There is none for large numbers, as hashes have 64
//!   bits.
//!
//! Memory: a byte for each register, and less at first: registers that are not zero are a list until
//! that would take more. While there are few keys, numbers are nearly exact.

use crate::error::Result;
use crate::filter::KeyHash;
use crate::filter::family::{Unreadable, frame};

use super::registers::{Registers, check_index_bits, index_bits_for, sizes_differ};
use super::{ertl, rank_bytes};

const KIND: frame::Kind = *b"HYLL";
const VERSION: u8 = 1;

/// Standard deviation of the relative error, times the square root of the number of registers.
const DEVIATION: f64 = 1.04;

/// A HyperLogLog sketch.
#[doc(alias = "hll")]
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct HyperLogLog {
    registers: Registers,
}

impl HyperLogLog {
    /// A sketch whose estimates have a standard deviation of at most `error`, a share of the number.
    ///
    /// # Errors
    ///
    /// If that would need fewer than 16 or more than 65,536 registers.
    pub fn with_error(error: f64) -> Result<HyperLogLog> {
        HyperLogLog::with_index_bits(index_bits_for(error, DEVIATION)?)
    }

    /// A sketch of `2^index_bits` registers, 4 to 16.
    ///
    /// # Errors
    ///
    /// If the number of bits is out of its bounds.
    pub fn with_index_bits(index_bits: u8) -> Result<HyperLogLog> {
        let registers = Registers::new(check_index_bits(index_bits)?);
        Ok(HyperLogLog { registers })
    }

    /// Adds a key; again is the same as once.
    pub fn insert(&mut self, hash: KeyHash) {
        self.registers.insert(hash);
    }

    /// The number of distinct keys. Takes some microseconds.
    #[must_use]
    pub fn estimate(&self) -> f64 {
        ertl::estimate(&self.registers.histogram(), self.registers.index_bits())
    }

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

    /// Adds all that another sketch has seen: the result is the sketch of both streams in one.
    ///
    /// # Errors
    ///
    /// If the sketches differ in the number of registers.
    pub fn merge(&mut self, other: &HyperLogLog) -> Result<()> {
        sizes_differ(&self.registers, &other.registers)?;
        self.registers.merge(&other.registers);
        Ok(())
    }

    /// Whether no key was added.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.registers.is_empty()
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
    pub fn from_bytes(bytes: &[u8]) -> Result<HyperLogLog, Unreadable> {
        let registers = rank_bytes::decode(KIND, VERSION, bytes)?;
        Ok(HyperLogLog { registers })
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
