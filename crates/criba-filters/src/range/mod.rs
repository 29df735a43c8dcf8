//! Range filters of segments: whether any key lies between two others.
//!
//! A segment keeps its keys in blocks, and the least key of each block, its *fence*, is in memory.
//! A range filter adds some bits for each key, and with them refutes most ranges that lie between
//! two keys. It has no false negatives.
//!
//! The filter of a block is built in two steps:
//!
//! 1. A coder maps each key to a number of 128 bits, its *code*: an arithmetic code under the
//!    byte frequencies of the segment, behind the bytes that the two fences of the block have in
//!    common. Codes keep the order of the keys, and are close to uniform whatever the alphabet is.
//! 2. The codes of a block are stored as a set of *cells*, intervals of codes whose lengths are
//!    powers of two. A cell is shorter where keys lie closer together, so the filter suits even
//!    keys and clustered ones.
//!
//! A range is refuted if no cell meets the codes of its bounds. Two ideas are joined here. Codes that
//! compress keys can keep their order (Antoshenkov, "Dictionary-based order-preserving string
//! compression", 1997). And a key can be cut a number of bits behind the prefix that distinguishes
//! it, as in SuRF (Zhang and others, 2018); here that number depends on how many keys lie near.
//!
//! Invariants:
//! 1. A range that holds a key of the block is never refuted. Codes are monotone, rounding is
//!    downward, and a cell holds the codes of its keys.
//! 2. Bytes that do not make sense never lead to a panic, and their answer is "maybe".
//! 3. Equal keys, fences and bits give equal bytes, on every machine.

mod bits;
mod build;
mod cells;
mod coder;
mod filter;
mod gaps;
#[cfg(test)]
mod tests;

pub use build::{Builder, Built};
pub use filter::{Between, RangeFilter};

/// Bits per key that a range filter can be asked for.
pub const BITS_MIN: f64 = 4.0;
/// See [`BITS_MIN`].
pub const BITS_MAX: f64 = 64.0;

/// A segment whose filter would refute a smaller share of its own gaps than this has none.
pub const REFUTED_MIN: f64 = 0.5;
