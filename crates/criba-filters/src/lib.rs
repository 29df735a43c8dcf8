//! Filters and sketches: structures that answer from 64-bit hashes, in little memory.
//!
//! A *filter* says of a key *no*, which is certain, or *maybe*, which is wrong for an absent key
//! with a small probability, its *rate*. A *sketch* summarises a stream of keys: how often each
//! came, how many distinct ones there were. Anything that becomes a [`KeyHash`] can be put in and
//! asked for: bytes, strings, hashes.
//!
//! ```
//! use criba_filters::{Blocked, CountMin, Insert, Membership, Sketch};
//!
//! let mut seen = Blocked::new(1_000, 10.0)?; // 1,000 keys, 10 bits for each
//! let mut often = CountMin::with_error(0.001, 0.01)?;
//! for word in "the quick brown fox jumps over the lazy dog".split(' ') {
//!     seen.insert(word)?;
//!     often.insert(word);
//! }
//! assert!(seen.may_contain("fox"));
//! assert_eq!(often.estimate("the"), 2);
//! let kept = seen.to_bytes(); // with version and checksum
//! assert_eq!(Blocked::from_bytes(&kept)?, seen);
//! # Ok::<(), criba_filters::Error>(())
//! ```
//!
//! # Filters
//!
//! | structure | bits per key for a rate p | [`Insert`] | [`Delete`] | [`Merge`] | beyond "maybe" |
//! |---|---|---|---|---|---|
//! | [`Classic`] | 1.44 log2(1/p) | yes | no | yes | union, intersection, how many keys |
//! | [`Blocked`] | 1.5 log2(1/p) and more | yes | no | yes | one cache line per lookup |
//! | [`Partitioned`] | 1.44 log2(1/p) | yes | no | yes | one sub-array per probe |
//! | [`Ensemble`] | 1.44 log2(1/p) | yes | no | yes | several filters must agree |
//! | [`Compressed`], [`Hybrid`] | less on the wire, more in memory | yes | no | yes | |
//! | [`Hierarchical`] | 1.44 log2(1/p) | yes | no | yes | most absent keys end in a small filter |
//! | [`Scalable`] | 1.44 log2(1/p) and more | yes | no | yes | any number of keys |
//! | [`Cuckoo`] | (log2(1/p) + 3) / load | until full | yes | until full | |
//! | [`Quotient`] | (log2(1/p) + 3) / load | until full | yes | yes | grows without its keys |
//! | [`CountingBloom`] | 5.77 log2(1/p) | yes | yes | yes | |
//! | [`Map`] (ribbon, Bloomier) | 1.01 log2(1/p) | no | no | no | [`Lookup`]: key to value |
//! | [`Fuse`] | 1.13 log2(1/p), 1.4 with 1,000 keys | no | no | no | [`Lookup`], three probes |
//! | [`Peeled`] | 1.23 log2(1/p) | no | no | no | [`Lookup`], three probes |
//!
//! # Sketches
//!
//! `N` is the length of the stream. Each is a [`Sketch`], except for [`SpaceSaving`] and
//! [`MisraGries`], which keep the keys.
//!
//! | structure | question | error | [`Merge`] | take back |
//! |---|---|---|---|---|
//! | [`CountMin`] | how often a key came | never less; more by at most `epsilon N` | yes | no |
//! | [`CountSketch`] | how often a key came | at most `epsilon sqrt(F2)`, either way | yes | yes |
//! | [`SpectralBloom`] | how often a key came | never less; more for `p` of the keys | yes | no |
//! | [`LayeredBloom`] | the same, up to the number of layers | never less than that | yes | no |
//! | [`TugOfWar`] | `F2`, the sum of the squares of all counts | `epsilon F2` | yes | yes |
//! | [`SpaceSaving`] | the most frequent keys | never less; more by at most `N / k` | yes | no |
//! | [`MisraGries`] | the most frequent keys | never more; less by at most `N / (k + 1)` | yes | no |
//! | [`LogLog`] | how many distinct keys came | 1.30 / sqrt(registers) | yes | no |
//! | [`AdaptiveCounting`] | how many distinct keys came | 1.33 / sqrt(registers) | yes | no |
//! | [`HyperLogLog`] | how many distinct keys came | 1.04 / sqrt(registers) | yes | no |
//!
//! # Rules for all
//!
//! - A structure sees hashes and never keys, so two of them can be merged, and a key looked up,
//!   only with hashes of one seed. [`KeyHash`] says when a secret seed is needed.
//! - `to_bytes` writes a frame with kind, version and checksum. `from_bytes` refuses with
//!   [`Error::Unreadable`] what was changed, cut, or written by something else. It never panics,
//!   and takes no more memory than a small multiple of the bytes.
//! - Equal calls give equal bytes, on every machine.
//! - One thread writes at a time. Count in one structure for each thread, and
//!   [`merge`](Merge::merge).
//! - Sizes follow the functions in [`formulas`].
//!
//! Each structure has a page in `docs/filters/` of the crate, with its formulas, what was measured,
//! what it costs, and when to use it; `docs/filters.md` and `docs/sketches.md` compare them.
//!
//! The modules [`segment`], [`range`] and [`store`] hold what [criba](https://docs.rs/criba), the store, keeps
//! of the keys of an immutable sorted file. The crate itself reads and writes no files.

mod error;
mod family;
mod fields;
mod hash;
mod mapped;
mod prefetch;
pub mod range;
pub mod segment;
mod sketch;
mod traits;

pub use error::{Error, Result, Unreadable};
pub use family::{
    Agreeing, Anywhere, Blocked, Choice, Classic, Codec, Compressed, Cuckoo, Design, Ensemble,
    Fuse, Growth, Hashing, Hierarchical, Hybrid, Map, Member, Neighbours, Partitioned, Peeled,
    Quotient, Scalable, Shape, ShapeFilter, ThreeCells,
};
pub use hash::{KeyHash, hash_key, mix, start_of};
pub use prefetch::prefetch;
pub use sketch::{
    Adaptive, AdaptiveCounting, CountMin, CountSketch, Counter, CountingBloom, Distinct, Estimator,
    Geometric, Harmonic, HyperLogLog, LayeredBloom, LogLog, MisraGries, SpaceSaving, SpectralBloom,
    TugOfWar, Update, store,
};
pub use traits::{Delete, Insert, Lookup, Membership, Merge, Sketch};

/// The formulas that sizes and rates follow.
///
/// ```
/// use criba_filters::formulas::{bits_for, probes_for, rate_for};
///
/// let bits = bits_for(1_000, 0.01);
/// assert_eq!((bits, probes_for(bits, 1_000)), (9_586, 7));
/// assert!((rate_for(bits, 7, 1_000) - 0.01).abs() < 0.001);
/// ```
pub mod formulas {
    pub use crate::family::{
        bits_for, compound_bound, entropy, estimate_for, filters_for, fingerprint_bits_for,
        fuse_cells_for, partitioned_rate, peeled_cells_for, probes_for, quotient_rate, rate_for,
    };
}

// The programs on the pages compile and run.
#[cfg(doctest)]
mod pages;
