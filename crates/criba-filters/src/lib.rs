//! Filters and sketches: structures that answer from hashes in little memory.
//!
//! | module | structures | question |
//! |---|---|---|
//! | [`family`] | approximate sets and static maps | may this key be in the set, and what is its value |
//! | [`sketch`] | counts of a stream | how often, how many distinct, which most |
//! | [`segment`] | the filters of an immutable sorted file | may this key be in the file, and where |
//!
//! The crate reads and writes no files. [criba](https://docs.rs/criba) is the store whose segments
//! carry the filters of [`segment`].

mod error;
mod hash;
mod mapped;
mod prefetch;

pub mod family;
pub mod segment;
pub mod sketch;

pub use error::{Error, Result, Unreadable};
pub use hash::{KeyHash, hash_key, mix, start_of};
pub use prefetch::prefetch;

// The programs on the pages compile and run.
#[cfg(doctest)]
mod pages;
