//! What the store keeps of the keys of each segment: how many distinct ones there are, and how many
//! two sets have in common.
//!
//! A sketch is a [`HyperLogLog`](super::HyperLogLog) of 4096 registers in the form that
//! `docs/format.md` gives it. Estimates are those of Ertl, "New cardinality estimation algorithms
//! for HyperLogLog sketches" (2017): the improved raw estimator (section 2.5) for one sketch, which
//! needs neither tables nor a switch between ranges, and the Poisson likelihood of two sketches
//! (section 4) for what they have in common.
//!
//! The relative error of [`KeySketch::estimate`] is 1.04 / 64 = 1.6 % (standard deviation) at any
//! size. Sizes of single sets are known exactly in a store, so what is asked for is the overlap:
//! see [`Union`], which is better.
//!
//! Invariants:
//! 1. Equal sets of hashes give equal sketches and equal bytes, in whatever order and with
//!    whatever repetition they were added.
//! 2. Bytes from anywhere are refused or are a sketch; they never panic.

mod atomic;
mod bytes;
mod overlap;
#[cfg(test)]
mod tests;
mod union;

pub use atomic::AtomicSketch;
pub use union::{Set, Union};

use super::ertl;
use super::registers::{self, Registers};
use crate::KeyHash;

/// Bits of a hash that choose the register. Written to disk by its effect; must not be changed.
const INDEX_BITS: u8 = 12;

/// Registers of a sketch.
const REGISTERS: usize = 1 << INDEX_BITS;

/// The greatest rank: no bit of the rest of the hash is set.
const RANK_MAX: u8 = registers::rank_max(INDEX_BITS);

/// Registers that are not zero, up to which they are kept as a list: more would take more bytes
/// on disk than all 4096.
const SPARSE_MAX: usize = registers::sparse_max(INDEX_BITS);

/// The distinct hashes of a set, in 4 KiB of memory or less.
///
/// ```
/// use criba_filters::KeyHash;
/// use criba_filters::store::KeySketch;
///
/// let mut keys = KeySketch::default();
/// ["apple", "melon", "apple"].map(|key| keys.insert(KeyHash::from(key)));
/// assert_eq!(keys.estimate().round(), 2.0);
/// assert_eq!(KeySketch::from_bytes(&keys.to_bytes())?, keys);
/// # Ok::<(), criba_filters::Error>(())
/// ```
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct KeySketch {
    registers: Registers,
}

impl Default for KeySketch {
    fn default() -> KeySketch {
        KeySketch {
            registers: Registers::new(INDEX_BITS),
        }
    }
}

/// The register of a hash and its rank there.
#[inline]
fn place(hash: KeyHash) -> (u16, u8) {
    registers::place(hash, INDEX_BITS)
}

impl KeySketch {
    /// Adds the hash of a key; again is the same as once.
    #[inline]
    pub fn insert(&mut self, hash: KeyHash) {
        self.registers.insert(hash);
    }

    /// Adds all that the other sketch has seen.
    pub fn merge(&mut self, other: &KeySketch) {
        self.registers.merge(&other.registers);
    }

    /// Whether no hash was inserted.
    pub fn is_empty(&self) -> bool {
        self.registers.is_empty()
    }

    /// All registers.
    fn dense(&self) -> Box<[u8]> {
        self.registers.dense()
    }

    /// The number of distinct hashes, with a standard deviation of 1.6 %; small ones are nearly
    /// exact. Takes some microseconds.
    pub fn estimate(&self) -> f64 {
        ertl::estimate(&self.registers.histogram(), INDEX_BITS)
    }
}
