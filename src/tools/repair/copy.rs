//! Makes a new store of what is intact in another, which is only read.

use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError};

use crate::cursor::{Cursor, Direction, Item};
use crate::error::Result;
use crate::key::Kind;
use crate::loss::Loss;
use crate::merge::Merge;
use crate::options::{Access, Create, Durability, Options, Recovery};
use crate::segment::{Caches, Found, SalvageWalk, Tally};
use crate::slice::Slice;
use crate::storage::Storage;
use crate::store::{Operations, Session, Store};

use super::survey::{self, Survey};

/// The result of [`Builder::repair`](crate::Builder::repair).
///
/// ```
/// use criba::{Db, Slice};
///
/// # fn main() -> criba::Result<()> {
/// # let dir = tempfile::tempdir().unwrap();
/// # let path = dir.path().join("data");
/// # let db = Db::open(&path)?;
/// # db.put("apple", "red")?;
/// # db.flush()?;
/// # let segment = path.join(format!("{:06}.seg", db.stats().segments().next().unwrap().id));
/// # db.put("banana", "yellow")?;
/// # db.close()?;
/// # let mut bytes = std::fs::read(&segment).unwrap();
/// # bytes[0] ^= 1;
/// # std::fs::write(&segment, bytes).unwrap();
/// // The block with "apple" is damaged, "banana" is in the journal.
/// let (repaired, _kept) = Db::builder(&path).repair_in_place(|_keys| ())?;
/// assert_eq!((repaired.keys, repaired.operations), (1, 1));
/// let (first, last) = repaired.lost[0].keys.as_ref().unwrap();
/// let apple = Slice::from("apple");
/// assert!(*first <= apple && apple <= *last);
/// # Ok(())
/// # }
/// ```
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
    /// Bytes that could not be saved; at most some ten thousand places.
    pub lost: Vec<Loss>,
    /// Losses beyond those listed.
    pub more_losses: u64,
    /// Everything else worth knowing, in sentences.
    pub remarks: Vec<String>,
}

/// Bytes of a batch for the new store.
const BATCH_BYTES: usize = 1 << 20;

/// Keys between two looks of a watcher.
const STRIDE: u64 = 4096;

/// A new store, with its options.
pub(crate) struct NewStore {
    pub(crate) path: PathBuf,
    pub(crate) storage: Arc<dyn Storage>,
    pub(crate) options: Options,
}

/// Fills a new store with what is intact in `source`, which no one writes to meanwhile.
pub(crate) fn repair_from(
    target: NewStore,
    source: &Arc<dyn Storage>,
    watch: &mut dyn FnMut(u64),
) -> Result<Repaired> {
    survey::check(source)?;
    let guard = survey::lock(source)?;
    let repaired = repair_locked(target, source, watch)?;
    drop(guard);
    Ok(repaired)
}

/// The same, where the caller keeps others from writing to `source`.
pub(super) fn repair_locked(
    target: NewStore,
    source: &Arc<dyn Storage>,
    watch: &mut dyn FnMut(u64),
) -> Result<Repaired> {
    let survey = Survey::of(source)?;
    let options = Options {
        create: Create::Always,
        access: Access::ReadWrite,
        recovery: Recovery::Strict,
        ..target.options
    };
    let session = Session::open(target.path, options, target.storage)?;
    let repaired = copy(source, survey, session.store(), watch)?;
    session.store().flush()?;
    session.close()?;
    Ok(repaired)
}

/// Copies the newest entry of each key.
fn copy(
    source: &Arc<dyn Storage>,
    survey: Survey,
    store: &Store,
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
    let mut target = Target::new(store);
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
    store: &'a Store,
    batch: Operations,
    batch_bytes: usize,
    keys: u64,
    bytes: u64,
}

impl<'a> Target<'a> {
    fn new(store: &'a Store) -> Target<'a> {
        Target {
            store,
            batch: Operations::default(),
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
        let batch = std::mem::take(&mut self.batch);
        self.store.commit(batch.payload()?, Durability::Buffered)
    }
}
