//! One immutable sorted file: data blocks, filter, index, properties, footer.
//!
//! A lookup asks the filter, then the fences of the one block that the filter names, then that
//! block. What cannot be read is an error for this segment alone; a filter that cannot be read
//! is done without.

mod block;
mod blockbits;
mod cache_budget;
mod caches;
mod compression;
mod entry_cache;
mod fences;
mod files;
mod filter;
mod get;
mod groups;
mod inspect;
mod keys;
mod map;
mod readahead;
mod reader;
mod salvage;
mod scan;
pub(crate) mod sidecar;
mod stats;
#[cfg(test)]
mod tests;
mod traffic;
mod verify;
mod walk;
mod writer;

pub(crate) use block::Block;
pub(crate) use caches::Caches;
pub(crate) use get::{Hit, Probe};
pub use inspect::{BlockInfo, Inspection, RegionInfo};
pub(crate) use readahead::Reading;
pub(crate) use reader::Segment;
pub(crate) use salvage::{Found, SalvageWalk, Tally, last_sequence_of, store_of};
pub use stats::{FilterStats, SegmentStats};
pub(crate) use verify::Verifier;
pub(crate) use walk::SegmentWalk;
pub(crate) use writer::{Finished, Writer, WriterOptions};

use crate::cache::CacheKey;

/// The name of a segment's file.
pub(crate) fn file_name(id: u64) -> String {
    format!("{id:06}.seg")
}

/// The number of a segment from the name of its file.
pub(crate) fn parse_name(name: &str) -> Option<u64> {
    let id = name.strip_suffix(".seg")?.parse().ok()?;
    // Number 0 is never given.
    (id > 0 && file_name(id) == name).then_some(id)
}

/// The salt of the filter in this file.
pub(crate) fn filter_salt(hash_seed: u64, file: u64) -> u64 {
    hash_seed.wrapping_mul(file | 1).rotate_left(29) ^ file
}
