//! The keyspaces of the crawler, and their keys. `seen` and `frontier` are those of the crate
//! `crawl`.
//!
//! | keyspace | key | value | written |
//! |---|---|---|---|
//! | `pages` | number | [`Record`](crate::record::Record): state, head, hash, links | when it was fetched or given up |
//! | `contents` | hash of the body | number of the first page with it | with that page |
//! | `origins` | origin | robots.txt: when, and what it said | when it was fetched |
//! | `left-out` | address | [`Reason`](crate::reason::Reason) | when it was left out |
//! | `budgets` | `c` group, `s` group | counts; what was seen: see `budget` | with each page of the group; now and then |
//! | `default` | `archive`, `archive-end` | see `archive.rs` | with each page |
//!
//! The URL is kept whole, never a hash of it.

use criba::{Batch, Db, FilterPolicy, Keyspace};

use crate::budget::Write;
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
    /// Address to the reason why it was left out. It may have been found again and fetched later.
    pub(crate) left_out: Keyspace,
    /// What [`Budgets`](crate::budget::Budgets) knows of hosts and directories.
    pub(crate) budgets: Keyspace,
}

/// Half of all bodies are new. A Bloom filter keeps nearly all lookups of these from the disk.
const CONTENTS: FilterPolicy = FilterPolicy::Bloom { bits_per_key: 10.0 };

/// Each directory is asked for once when its first page comes, and is mostly new then.
const BUDGETS: FilterPolicy = FilterPolicy::Bloom { bits_per_key: 10.0 };

impl Kept {
    /// Reads what budgets have written.
    pub(crate) fn loader(&self) -> impl FnMut(&[u8]) -> Result<Option<Vec<u8>>, Failure> {
        |key| Ok(self.budgets.get(key)?.map(|value| value.to_vec()))
    }

    /// Adds what budgets want written to a batch.
    pub(crate) fn put_budgets(&self, batch: &mut Batch, writes: Vec<Write>) {
        let mut batch = batch.keyspace(&self.budgets);
        for write in writes {
            batch.put(write.key, write.value);
        }
    }

    /// Bytes of all segments of the store, and of filters in memory.
    pub(crate) fn sizes(&self, store: &crawl::Store) -> (u64, u64) {
        let own = [
            &self.pages,
            &self.contents,
            &self.origins,
            &self.left_out,
            &self.budgets,
        ];
        let (mut files, mut filters) = (0, 0);
        for keyspace in own.into_iter().chain([store.seen(), store.frontier()]) {
            for segment in keyspace.stats().segments() {
                files += segment.file_bytes;
                filters += segment
                    .filter
                    .as_ref()
                    .map_or(0, |filter| filter.pinned_bytes);
            }
        }
        (files, filters)
    }

    /// Opens them, or makes those that are not there.
    pub(crate) fn open(db: &Db) -> Result<Kept, Failure> {
        Ok(Kept {
            // Each page is asked for before it is put. Its number is beyond those of nearly all
            // segments, so that the ranges of their keys answer.
            pages: db.keyspace("pages")?,
            contents: db.keyspace_with("contents", |options| options.filter(CONTENTS))?,
            // There are few.
            origins: db.keyspace("origins")?,
            // Only written, and read from end to end.
            left_out: db.keyspace("left-out")?,
            budgets: db.keyspace_with("budgets", |options| options.filter(BUDGETS))?,
        })
    }
}
