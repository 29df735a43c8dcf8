//! Whether what a transaction relies on was written since its snapshot.
//!
//! Exact, and without a table of recent writes beside the tree: the tree itself knows the sequence
//! of the newest entry of each key. The snapshot is registered, so for each key the newest entry
//! above it survives every flush and merge ([`Retain`](crate::compaction::Retain)), be it a value or
//! a tombstone. Only FIFO drops entries that nothing has superseded: the tree remembers the highest
//! sequence that it dropped, and whoever reads at an older one gets a conflict.
//!
//! The check has two steps:
//!
//! 1. [`Tree::examine`] looks everywhere, and may read the disk. No lock is held.
//! 2. [`Tree::examine_rest`], under the writer lock, looks at what may have come since: entries in
//!    the memtable that was active in step 1, and in those after it. It touches memory only. If one
//!    of these memtables was flushed meanwhile, it says so, and the first step is made again.
//!
//! `tests/it/interleavings.rs` tries both steps among writes, rotation, flush and merge.

use std::sync::Arc;

use crate::bounds::{Bounds, is_below};
use crate::cursor::{Cursor, Direction};
use crate::error::{Conflict, Error, Result};
use crate::key::Sequence;
use crate::memtable::Memtable;
use crate::segment::{Reading, Segment, SegmentWalk};
use criba_filters::hash_key;

use super::read_set::ReadSet;
use super::state::Tree;
use super::view::View;
use super::write_set::WriteSet;

/// Keys and ranges that others must not have written.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Watched<'a> {
    /// Keys and ranges that were read.
    Reads(&'a ReadSet),
    /// Keys that will be set or deleted. Merges do not conflict with each other.
    Writes(&'a WriteSet),
}

/// The first step has found nothing.
#[derive(Debug)]
pub(crate) struct Examined {
    /// What was looked at. Entries may have come to its active memtable since.
    view: Arc<View>,
    /// All entries up to this sequence were looked at.
    up_to: Sequence,
}

/// The outcome of the second step, where it is no conflict.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Rest {
    Unchanged,
    /// Some of the newer entries are in segments already.
    Flushed,
}

impl Watched<'_> {
    /// Goes through all keys, then all ranges, up to the first conflict or error.
    fn each(
        self,
        key: impl FnMut(&[u8]) -> Result<()>,
        range: impl FnMut(&Bounds) -> Result<()>,
    ) -> Result<()> {
        match self {
            Watched::Writes(writes) => writes.keys_set().try_for_each(key),
            Watched::Reads(reads) => {
                reads.keys().try_for_each(key)?;
                reads.ranges().try_for_each(range)
            }
        }
    }
}

impl Tree {
    fn conflict_at(&self, key: &[u8]) -> Error {
        Error::Conflict(Conflict::Key {
            keyspace: self.name().to_owned(),
            key: key.to_vec(),
        })
    }

    fn conflict_in(&self, (lower, upper): &Bounds) -> Error {
        Error::Conflict(Conflict::Range {
            keyspace: self.name().to_owned(),
            lower: lower.as_ref().map(|key| key.to_vec()),
            upper: upper.as_ref().map(|key| key.to_vec()),
        })
    }

    /// The first step: an [`Error::Conflict`] if anything watched has an entry above `since`.
    ///
    /// A key costs at most one read for each run whose segment has newer entries and whose filter
    /// does not rule the key out. A range costs the blocks of such segments that it covers.
    pub(crate) fn examine(
        &self,
        watched: Watched<'_>,
        since: Sequence,
        visible: impl Fn() -> Sequence,
    ) -> Result<Examined> {
        // Before the view: all up to here is in it, or was in it and superseded.
        let up_to = visible();
        let view = self.view_to_keep();
        self.check(&view)?;
        // Asked once more: a memtable that was sealed before the view was taken is not looked at by
        // the second step, and it holds nothing above this.
        if visible() > since {
            // After the view: what is not in it any more counts.
            let has_dropped = self.dropped() > since;
            let newer = Newer::in_view(self, &view, since);
            watched.each(
                |key| match has_dropped || newer.has_key(key)? {
                    true => Err(self.conflict_at(key)),
                    false => Ok(()),
                },
                |range| match has_dropped || newer.has_any(range)? {
                    true => Err(self.conflict_in(range)),
                    false => Ok(()),
                },
            )?;
        }
        Ok(Examined { view, up_to })
    }

    /// The second step, under the writer lock: nothing is inserted, sealed or made visible
    /// meanwhile.
    pub(crate) fn examine_rest(
        &self,
        watched: Watched<'_>,
        since: Sequence,
        examined: &Examined,
        visible: Sequence,
    ) -> Result<Rest> {
        if visible == examined.up_to {
            return Ok(Rest::Unchanged);
        }
        let view = self.view();
        self.check(&view)?;
        let Some(tables) = tables_since(&view, &examined.view) else {
            return Ok(Rest::Flushed);
        };
        let newer = NewerInMemory {
            hash_seed: self.hash_seed(),
            tables,
            since,
        };
        watched.each(
            |key| match newer.has_key(key) {
                true => Err(self.conflict_at(key)),
                false => Ok(()),
            },
            |range| match newer.has_any(range) {
                true => Err(self.conflict_in(range)),
                false => Ok(()),
            },
        )?;
        Ok(Rest::Unchanged)
    }
}

/// Memtables of a view that may have entries that came after an earlier one; `None` where some of
/// them may be flushed.
fn tables_since<'a>(view: &'a View, earlier: &View) -> Option<Vec<&'a Memtable>> {
    let mut tables: Vec<&Memtable> = Vec::new();
    for table in std::iter::once(&view.active).chain(&view.sealed) {
        // Memtables are flushed in order: where this one is, all after it are.
        if earlier
            .sealed
            .iter()
            .any(|sealed| Arc::ptr_eq(sealed, table))
        {
            return Some(tables);
        }
        tables.push(table);
        if Arc::ptr_eq(table, &earlier.active) && !table.is_none() {
            return Some(tables);
        }
    }
    // There was none then; all that came is here, unless it was flushed, which makes a version.
    Arc::ptr_eq(&view.version, &earlier.version).then_some(tables)
}

/// Memtables that may have entries above a sequence.
struct NewerInMemory<'a> {
    hash_seed: u64,
    tables: Vec<&'a Memtable>,
    since: Sequence,
}

impl NewerInMemory<'_> {
    fn has_key(&self, key: &[u8]) -> bool {
        let hash = hash_key(self.hash_seed, key);
        let newest = |table: &&Memtable| table.newest(hash, key);
        self.tables
            .iter()
            .filter_map(newest)
            .any(|newest| newest > self.since)
    }

    fn has_any(&self, bounds: &Bounds) -> bool {
        let mut tables = self.tables.iter();
        tables.any(|table| table.has_newer_in(bounds, self.since))
    }
}

/// All places of a view that may have entries above a sequence.
struct Newer<'a> {
    tree: &'a Tree,
    in_memory: NewerInMemory<'a>,
    view: &'a View,
}

impl<'a> Newer<'a> {
    fn in_view(tree: &'a Tree, view: &'a View, since: Sequence) -> Newer<'a> {
        let tables = std::iter::once(&view.active).chain(&view.sealed);
        Newer {
            tree,
            in_memory: NewerInMemory {
                hash_seed: tree.hash_seed(),
                tables: tables.map(|table| &**table).collect(),
                since,
            },
            view,
        }
    }

    fn is_newer(&self, segment: &Segment) -> bool {
        segment.meta.sequence_max > self.in_memory.since
    }

    /// Whether the key has an entry above the sequence.
    fn has_key(&self, key: &[u8]) -> Result<bool> {
        if self.in_memory.has_key(key) {
            return Ok(true);
        }
        let hash = hash_key(self.in_memory.hash_seed, key);
        for run in self.view.version.runs() {
            if let Some(segment) = run.find(key)
                && self.is_newer(segment)
                && let Some(newest) = segment.newest(hash, key, self.tree.caches())?
            {
                // Entries of the key further back are older.
                return Ok(newest > self.in_memory.since);
            }
        }
        Ok(false)
    }

    /// Whether any key within the bounds has.
    fn has_any(&self, bounds: &Bounds) -> Result<bool> {
        if self.in_memory.has_any(bounds) {
            return Ok(true);
        }
        for segment in self.view.version.segments() {
            if self.is_newer(segment) && segment.overlaps(bounds) && self.is_in(segment, bounds)? {
                return Ok(true);
            }
        }
        Ok(false)
    }

    /// Whether this segment has such an entry.
    fn is_in(&self, segment: &Arc<Segment>, (lower, upper): &Bounds) -> Result<bool> {
        let mut walk = SegmentWalk::new(
            Arc::clone(segment),
            Arc::clone(self.tree.caches()),
            Direction::Forward,
            lower.clone(),
            Reading::Blocks,
        );
        while walk.advance()? {
            let entry = walk.entry();
            if !is_below(upper, entry.key) {
                return Ok(false);
            }
            if entry.sequence > self.in_memory.since {
                return Ok(true);
            }
        }
        Ok(false)
    }
}
