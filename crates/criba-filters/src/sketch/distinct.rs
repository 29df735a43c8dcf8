//! Registers of ranks and what is estimated from them: what LogLog, adaptive counting and HyperLogLog have
//! in common, which is all but the estimate.

use std::marker::PhantomData;

use crate::error::Result;
use crate::family::frame;
use crate::{KeyHash, Merge, Sketch};

use super::rank_bytes;
use super::registers::{Histogram, Registers, check_index_bits, index_bits_for, sizes_differ};

/// The version of the bytes.
const VERSION: u8 = 1;

/// How the number of distinct keys is estimated from registers.
pub trait Estimator {
    /// What the bytes of a sketch begin with. Must not be changed.
    const KIND: frame::Kind;

    /// Standard deviation of the relative error, times the square root of the number of registers.
    const DEVIATION: f64;

    /// The number of distinct keys, from how many of `2^index_bits` registers have each rank.
    fn estimate(counts: &Histogram, index_bits: u8) -> f64;
}

/// A count of distinct keys: [`LogLog`](super::LogLog),
/// [`AdaptiveCounting`](super::AdaptiveCounting), [`HyperLogLog`](super::HyperLogLog).
///
/// ```
/// use criba_filters::{Distinct, Estimator, Harmonic, Sketch};
///
/// fn about<E: Estimator>(distinct: &Distinct<E>) -> String {
///     format!("{:.0} within {:.0} %", distinct.estimate(), 100.0 * distinct.standard_error())
/// }
///
/// let mut distinct = Distinct::<Harmonic>::with_error(0.02)?;
/// ["apple", "melon", "apple"].map(|key| distinct.insert(key));
/// assert_eq!(about(&distinct), "2 within 2 %");
/// # Ok::<(), criba_filters::Error>(())
/// ```
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Distinct<E> {
    pub(super) registers: Registers,
    estimator: PhantomData<E>,
}

impl<E: Estimator> Distinct<E> {
    fn of(registers: Registers) -> Distinct<E> {
        Distinct {
            registers,
            estimator: PhantomData,
        }
    }

    /// A sketch whose estimates have a standard deviation of at most `error`, a share of the
    /// number.
    ///
    /// # Errors
    ///
    /// If that would need fewer than 16 or more than 65,536 registers.
    pub fn with_error(error: f64) -> Result<Distinct<E>> {
        Distinct::with_index_bits(index_bits_for(error, E::DEVIATION)?)
    }

    /// A sketch of `2^index_bits` registers, 4 to 16.
    ///
    /// # Errors
    ///
    /// If the number of bits is out of its bounds.
    pub fn with_index_bits(index_bits: u8) -> Result<Distinct<E>> {
        Ok(Distinct::of(Registers::new(check_index_bits(index_bits)?)))
    }

    /// The number of distinct keys; of a [`LogLog`](super::LogLog) only if it is at least about
    /// three times that of the registers. Takes some microseconds.
    #[must_use]
    pub fn estimate(&self) -> f64 {
        E::estimate(&self.registers.histogram(), self.registers.index_bits())
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
        E::DEVIATION / (self.registers.count() as f64).sqrt()
    }
}

impl<E: Estimator> Sketch for Distinct<E> {
    #[inline]
    fn insert_hash(&mut self, hash: KeyHash) {
        self.registers.insert(hash);
    }

    /// Bytes of memory, at most one for each register.
    fn memory_bytes(&self) -> usize {
        size_of::<Self>() + self.registers.heap_bytes()
    }

    /// The sketch as bytes: 2 and the lesser of 3 for each register that is not zero and 1 for
    /// each, framed.
    fn to_bytes(&self) -> Vec<u8> {
        rank_bytes::encode(&self.registers, E::KIND, VERSION)
    }

    fn from_bytes(bytes: &[u8]) -> Result<Distinct<E>> {
        Ok(Distinct::of(rank_bytes::decode(E::KIND, VERSION, bytes)?))
    }
}

impl<E: Estimator> Merge for Distinct<E> {
    /// Adds all that another sketch has seen: the result is the sketch of both streams in one.
    fn merge(&mut self, other: &Self) -> Result<()> {
        sizes_differ(&self.registers, &other.registers)?;
        self.registers.merge(&other.registers);
        Ok(())
    }
}
