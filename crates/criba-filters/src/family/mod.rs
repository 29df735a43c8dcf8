//! The filters of the literature side by side, to use and to study: what `criba` stores in its
//! segments, and what it could have stored.
//!
//! All answer the same question, [`Membership::may_contain`]: *no* is certain, *yes* is wrong for an
//! absent key with a small probability, the *rate*. They differ in what else they can do and in what
//! that costs:
//!
//! | structure | bits per key for a rate p | insert | delete | beyond "maybe" |
//! |---|---|---|---|---|
//! | [`Classic`] | 1.44 log2(1/p) | yes | no | union, intersection, how many keys |
//! | [`Blocked`] | 1.5 log2(1/p) and more | yes | no | one cache line per lookup |
//! | [`Partitioned`] | 1.44 log2(1/p) | yes | no | one sub-array per probe |
//! | [`Ensemble`] | 1.44 log2(1/p) | yes | no | several filters must agree |
//! | [`Compressed`], [`Hybrid`] | less on the wire, more in memory | yes | no | |
//! | [`Scalable`] | 1.44 log2(1/p) and more | without end | no | number of keys not known before |
//! | [`Hierarchical`] | 1.44 log2(1/p) | yes | no | most absent keys end in a small filter |
//! | [`Map`] (ribbon) | 1.01 log2(1/p) | no | no | key to value |
//! | [`Fuse`] | 1.13 log2(1/p), 1.4 with 1,000 keys | no | no | key to value, three probes |
//! | [`Peeled`] | 1.23 log2(1/p) | no | no | key to value, three probes |
//! | [`Cuckoo`] | (log2(1/p) + 3) / load | until full | yes | |
//! | [`Quotient`] | (log2(1/p) + 3) / load | until full | yes | grows without the keys |
//!
//! `docs/filters.md` of the repository tells which is good for what, with what was measured; each
//! structure has a page in `docs/filters/`.
//!
//! Sizes follow formulas that are public functions beside each structure. The seed of a structure is
//! chosen by the caller, at random where keys may come from an adversary.
//!
//! Invariants, tested for each:
//! 1. A key that was put in, and not deleted, is never denied.
//! 2. [`Membership::to_bytes`] and [`Membership::from_bytes`] are inverse; bytes that were damaged are
//!    refused, and no bytes lead to a panic or to more memory than a small multiple of their length.
//! 3. Equal calls give equal bytes.
//!
//! ```
//! use criba_filters::family::{Classic, Design, Insert, Membership};
//!
//! let mut seen = Classic::new(7, Design::for_rate(1_000, 0.01)?)?;
//! seen.insert(b"fruit/apple")?;
//! assert!(seen.may_contain(b"fruit/apple"));
//! let again = Classic::from_bytes(&seen.to_bytes())?;
//! assert!(again.may_contain(b"fruit/apple"));
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

mod agreeing;
mod bits;
mod blocked;
mod classic;
mod compressed;
mod cuckoo;
mod design;
mod ensemble;
pub(crate) mod frame;
mod fuse;
mod hashing;
mod hierarchical;
mod hybrid;
mod map;
mod partitioned;
mod parts;
mod peel;
mod peeled;
mod quotient;
mod scalable;
mod shapes;
#[cfg(test)]
mod tests;
mod three_cells;
mod values;

use crate::error::Result;
pub use agreeing::{Agreeing, Member};
pub use blocked::Blocked;
pub use classic::Classic;
pub use compressed::{Codec, Compressed, entropy};
pub use cuckoo::{Cuckoo, fingerprint_bits_for};
pub use design::{Design, bits_for, estimate_for, probes_for, rate_for};
pub use ensemble::{Ensemble, filters_for};
pub use fuse::{Fuse, Neighbours, fuse_cells_for};
pub use hashing::Hashing;
pub use hierarchical::Hierarchical;
pub use hybrid::Hybrid;
pub use map::Map;
pub use partitioned::{Partitioned, partitioned_rate};
pub use peeled::{Anywhere, Peeled, peeled_cells_for};
pub use quotient::{Quotient, quotient_rate};
pub use scalable::{Growth, Scalable, compound_bound};
pub use shapes::{Shape, ShapeFilter};
pub use three_cells::{Choice, ThreeCells};

/// An approximate set of keys.
pub trait Membership {
    /// Whether the key may be in the set; `false` is certain.
    fn may_contain(&self, key: &[u8]) -> bool;

    /// Keys in the set; each says whether a key that is put in twice counts twice.
    fn len(&self) -> u64;

    /// Whether no key is in the set.
    fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Memory of what is stored, in bits, without the few fields of fixed size.
    fn bits(&self) -> u64;

    /// Probability that an absent key passes, by theory: from sizes and number of keys alone.
    fn expected_rate(&self) -> f64;

    /// Probability that an absent key passes, from what is stored now: from the bits that are set,
    /// or the cells in use.
    fn current_rate(&self) -> f64;

    /// The whole structure as bytes, with kind, version and checksum.
    fn to_bytes(&self) -> Vec<u8>;

    /// The structure from its bytes.
    ///
    /// # Errors
    ///
    /// [`Error::Unreadable`](crate::Error::Unreadable), which says why, for bytes that [`to_bytes`](Self::to_bytes) of this structure
    /// did not write.
    fn from_bytes(bytes: &[u8]) -> Result<Self>
    where
        Self: Sized;
}

/// A set that takes keys one by one.
pub trait Insert: Membership {
    /// Puts a key in.
    ///
    /// # Errors
    ///
    /// [`Error::Full`] when there is no room: the set is then as it was before. Filters of bits
    /// always have room, their rate rises.
    fn insert(&mut self, key: &[u8]) -> Result<()>;
}

/// A set from which keys can be taken.
pub trait Delete: Insert {
    /// Takes out a key that was put in; `false` when it certainly was not.
    ///
    /// To take out a key that was *not* put in may take out another one, which is then denied:
    /// only the caller can know.
    fn remove(&mut self, key: &[u8]) -> bool;
}

/// A function from keys to values, built once.
pub trait Lookup: Membership {
    /// The value of a key. For an absent key `None`, or at the rate of the structure any value.
    fn get(&self, key: &[u8]) -> Option<u64>;
}
