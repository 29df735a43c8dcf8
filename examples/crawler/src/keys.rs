//! The keyspaces of the crawler, and their keys. `seen` and `frontier` are those of the crate
//! `crawl`.
//!
//! | keyspace | key | value | written |
//! |---|---|---|---|
//! | `pages` | number | [`Record`](crate::record::Record): state, head, hash, links | when it was fetched or given up |
//! | `contents` | hash of the body | number of the first page with it | with that page |
//! | `origins` | origin | robots.txt: when, and what it said | when it was fetched |
//! | `default` | `archive`, `archive-end` | see `archive.rs` | with each page |
//!
//! The URL is kept whole, never a hash of it.

use criba::{Db, FilterPolicy, Keyspace};

use crate::failure::Failure;

/// The first record of the archive that was written last.
pub(crate) const ARCHIVE: &[u8] = b"archive";
/// Where the records of committed pages end in it.
pub(crate) const ARCHIVE_END: &[u8] = b"archive-end";

/// The keyspaces of what is kept of pages and hosts.
#[derive(Debug, Clone)]
pub(crate) struct Kept {
    /// Number of the URL to its record.
    pub(crate) pages: Keyspace,
    /// Hash of a body to the first page with it.
    pub(crate) contents: Keyspace,
    /// Origin to its robots.txt.
    pub(crate) origins: Keyspace,
}

/// Half of all bodies are new. A Bloom filter keeps nearly all lookups of these from the disk.
const CONTENTS: FilterPolicy = FilterPolicy::Bloom { bits_per_key: 10.0 };

impl Kept {
    /// Opens them, or makes those that are not there.
    pub(crate) fn open(db: &Db) -> Result<Kept, Failure> {
        Ok(Kept {
            // Each page is asked for before it is put. Its number is beyond those of nearly all
            // segments, so that the ranges of their keys answer.
            pages: db.keyspace("pages")?,
            contents: db.keyspace_with("contents", |options| options.filter(CONTENTS))?,
            // There are few.
            origins: db.keyspace("origins")?,
        })
    }
}
