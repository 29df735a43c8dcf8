//! One immutable sorted file: data blocks, filter, index, properties, footer.
//!
//! A lookup asks the filter, then the fences of the one block that the filter names, then that
//! block. What cannot be read is an error for this segment alone; a filter that cannot be read
//! is done without.

mod block;
mod blockbits;
mod body;
mod cache_budget;
mod caches;
mod compression;
mod counters;
mod entry_cache;
mod fences;
mod fetched;
mod files;
mod filter;
mod filter_page;
mod filter_writer;
mod footers;
mod groups;
mod inspect;
mod keys;
mod lookup;
mod map;
mod names;
mod newest;
mod opener;
mod outcome;
mod pages;
mod range;
mod range_filter;
mod readahead;
mod reader;
mod salvage;
mod scan;
mod sidecar;
mod sidecar_writer;
mod stats;
#[cfg(test)]
mod tests;
mod verify;
mod walk;
mod writer;

pub(crate) use block::Block;
pub(crate) use caches::Caches;
pub(crate) use fetched::{FetchedBlocks, Need, Needs};
#[cfg(test)]
use files::SegmentFile;
pub(crate) use files::SegmentFiles;
pub(crate) use footers::{last_sequence_of, segments_of, store_of};
pub use inspect::{BlockInfo, Inspection, RegionInfo};
pub(crate) use lookup::{Lookup, Wanted};
pub(crate) use names::{file_name, filter_file_name, filter_salt, parse_filter_name, parse_name};
pub(crate) use outcome::{Hit, LookupCost};
pub(crate) use readahead::Reading;
pub(crate) use reader::Segment;
pub(crate) use salvage::{Found, SalvageWalk, Tally};
pub(crate) use sidecar_writer::SidecarOptions;
pub use stats::{FilterStats, RangeFilterStats, SegmentStats};
pub(crate) use verify::Verifier;
pub(crate) use walk::SegmentWalk;
pub(crate) use writer::{Finished, NewFile, Writer, WriterOptions};
