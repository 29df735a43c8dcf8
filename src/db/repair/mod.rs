//! Makes a new store of what is intact in a damaged one, which is only read.
//!
//! Where the manifest can be trusted, exactly its segments and journals are read. Where it cannot,
//! all files that are there are: sequences tell which entry of a key is the newest, but a key whose
//! tombstone has been merged away may come back from a file that was not needed any more.

mod place;
mod survey;

use std::sync::{Arc, Mutex, PoisonError};

use crate::cursor::{Cursor, Direction, Item};
use crate::error::{Error, Result};
use crate::key::Kind;
use crate::loss::Loss;
use crate::merge::Merge;
use crate::options::{Access, Create, Durability, Recovery};
use crate::segment::{Caches, Found, SalvageWalk, Tally};
use crate::slice::Slice;
use crate::storage::Storage;

use super::{Builder, Db};
use survey::Survey;

/// What [`Builder::repair`] has done.
#[derive(Clone, Debug, Default)]
#[non_exhaustive]
pub struct Repaired {
    /// Keys in the new store.
    pub keys: u64,
    /// Bytes of their keys and values.
    pub bytes: u64,
    /// Segments that were read.
    pub segments: u64,
    /// Intact data blocks in them.
    pub blocks: u64,
    /// Operations that were read from journals.
    pub operations: u64,
    /// What could not be saved; at most some ten thousand.
    pub lost: Vec<Loss>,
    /// Losses beyond those listed.
    pub more_losses: u64,
    /// What else there is to know, in sentences.
    pub remarks: Vec<String>,
}

/// Bytes of a batch for the new store.
const BATCH_BYTES: usize = 1 << 20;

/// Keys between two looks of a watcher.
const STRIDE: u64 = 4096;

impl Builder {
    /// Makes a new store, in this builder's storage and with its options, of all that is intact in
    /// the store `source`: of each key the newest entry that can be read. Nothing in `source` is
    /// changed.
    ///
    /// A lost or damaged `CURRENT`, manifest, index or journal is got over as well as may be; see
    /// [`Repaired::lost`] and [`Repaired::remarks`]. Where a block is lost, an older value of a key
    /// that it held, or one that it deleted, may be back; a value that was never written is not.
    /// Reads everything once; needs memory for the journals and for a block of each segment.
    /// `watch` is told now and then how many keys were written.
    ///
    /// # Errors
    ///
    /// [`Error::NotAStore`] when nothing of a store is there, or the new place is not empty;
    /// [`Error::Corrupt`] when no file tells which store it belongs to; [`Error::Locked`]; what
    /// writing gives. What cannot be read is no error but a loss.
    pub fn repair_from(
        self,
        source: &Arc<dyn Storage>,
        watch: &mut dyn FnMut(u64),
    ) -> Result<Repaired> {
        let guard = survey::lock(source)?;
        let repaired = self.repair_locked(source, watch)?;
        drop(guard);
        Ok(repaired)
    }

    /// Nobody writes to `source` meanwhile.
    fn repair_locked(
        self,
        source: &Arc<dyn Storage>,
        watch: &mut dyn FnMut(u64),
    ) -> Result<Repaired> {
        let survey = Survey::of(source)?;
        let db = self
            .create(Create::Always)
            .access(Access::ReadWrite)
            .recovery(Recovery::Strict)
            .open()?;
        let repaired = copy(source, survey, &db, watch)?;
        db.flush()?;
        db.close()?;
        Ok(repaired)
    }
}

/// Copies the newest entry of each key.
fn copy(
    source: &Arc<dyn Storage>,
    survey: Survey,
    db: &Db,
    watch: &mut dyn FnMut(u64),
) -> Result<Repaired> {
    let tally = Arc::new(Mutex::new(Tally::default()));
    let mut repaired = Repaired {
        segments: survey.segments.len() as u64,
        operations: survey.operations,
        lost: survey.lost,
        remarks: survey.remarks,
        ..Repaired::default()
    };
    let caches = Arc::new(Caches::none());
    let mut cursors: Vec<Box<dyn Cursor>> = Vec::new();
    for (id, meta) in survey.segments {
        let found = Found {
            storage: source,
            store_id: survey.store_id,
            id,
            meta,
        };
        cursors.push(Box::new(SalvageWalk::new(&found, &caches, &tally)));
    }
    let table = Arc::new(survey.table);
    cursors.push(Box::new(
        table.walk(Direction::Forward, std::ops::Bound::Unbounded),
    ));
    let mut entries = Merge::new(cursors, Direction::Forward);
    let mut target = Target::new(db);
    let mut last: Option<Slice> = None;
    while let Some(item) = entries.next()? {
        if last.as_ref() == Some(&item.key) {
            continue;
        }
        target.add(&item)?;
        last = Some(item.key);
        if target.keys.is_multiple_of(STRIDE) {
            watch(target.keys);
        }
    }
    target.commit()?;
    watch(target.keys);
    (repaired.keys, repaired.bytes) = (target.keys, target.bytes);
    drop(entries);
    let mut tally = tally.lock().unwrap_or_else(PoisonError::into_inner);
    repaired.blocks = tally.blocks;
    repaired.more_losses = tally.more;
    repaired.lost.append(&mut tally.losses);
    Ok(repaired)
}

/// The new store, and what waits to be written to it.
struct Target<'a> {
    db: &'a Db,
    batch: super::Batch,
    batch_bytes: usize,
    keys: u64,
    bytes: u64,
}

impl<'a> Target<'a> {
    fn new(db: &'a Db) -> Target<'a> {
        Target {
            db,
            batch: db.batch(),
            batch_bytes: 0,
            keys: 0,
            bytes: 0,
        }
    }

    fn add(&mut self, item: &Item) -> Result<()> {
        if item.kind == Kind::Tombstone {
            return Ok(());
        }
        self.batch.put(&item.key, &item.value);
        let bytes = item.key.len() + item.value.len();
        self.keys += 1;
        self.bytes += bytes as u64;
        self.batch_bytes += bytes;
        if self.batch_bytes < BATCH_BYTES {
            return Ok(());
        }
        self.commit()
    }

    fn commit(&mut self) -> Result<()> {
        self.batch_bytes = 0;
        let batch = std::mem::replace(&mut self.batch, self.db.batch());
        batch.commit_with(Durability::Buffered)
    }
}

/// A name for people who have to find something.
fn not_a_store(source: &Arc<dyn Storage>, what: impl Into<String>) -> Error {
    Error::NotAStore {
        path: source.path_of(""),
        what: what.into(),
    }
}
