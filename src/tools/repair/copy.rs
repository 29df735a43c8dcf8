//! Makes a new store of what is intact in another, which is only read.

use std::collections::BTreeMap;
use std::ops::Bound;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError};

use crate::cursor::{Cursor, Direction, Item};
use crate::error::Result;
use crate::key::{KeyspaceId, Kind};
use crate::loss::Loss;
use crate::manifest::{DEFAULT_KEYSPACE, SegmentMeta};
use crate::merge::Merge;
use crate::options::{Access, Create, Durability, Options, Recovery};
use crate::segment::{Caches, Found, SalvageWalk, Tally};
use crate::slice::Slice;
use crate::storage::Storage;
use crate::store::{Operations, Session, Store};
use crate::tree::Tree;

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
    /// Bytes of their keys and values, and of operands.
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

/// Copies the newest entry of each key, keyspace by keyspace; if that is an operand, all down to the
/// first entry that is none.
fn copy(
    source: &Arc<dyn Storage>,
    survey: Survey,
    store: &Store,
    watch: &mut dyn FnMut(u64),
) -> Result<Repaired> {
    let tally = Arc::new(Mutex::new(Tally::default()));
    let caches = Arc::new(Caches::none());
    let mut repaired = Repaired {
        segments: survey.segments.len() as u64,
        operations: survey.operations,
        lost: survey.lost,
        remarks: survey.remarks,
        ..Repaired::default()
    };
    let mut keyspaces: BTreeMap<String, Vec<Box<dyn Cursor>>> = BTreeMap::new();
    // Also those that are empty.
    for name in survey.names.values() {
        keyspaces.insert(name.clone(), Vec::new());
    }
    let name_of = |id: KeyspaceId| match survey.names.get(&id) {
        Some(name) => name.clone(),
        None if id == KeyspaceId::DEFAULT => DEFAULT_KEYSPACE.to_owned(),
        None => format!("keyspace-{id}"),
    };
    let is_other = |meta: &Option<SegmentMeta>| {
        let keyspace = meta.as_ref().map(|meta| meta.keyspace);
        keyspace.is_some_and(|id| id != KeyspaceId::DEFAULT)
    };
    let has_others = survey.names.len() > 1
        || survey.segments.iter().any(|(_, meta)| is_other(meta))
        || survey
            .tables
            .tables
            .keys()
            .any(|id| *id != KeyspaceId::DEFAULT);
    for (file, meta) in survey.segments {
        let name = match &meta {
            Some(meta) => name_of(meta.keyspace),
            None if has_others => format!("salvaged-{file:06}"),
            None => DEFAULT_KEYSPACE.to_owned(),
        };
        let found = Found {
            storage: source,
            store_id: survey.store_id,
            file,
            meta,
        };
        let walk = SalvageWalk::new(&found, &caches, &tally);
        keyspaces.entry(name).or_default().push(Box::new(walk));
    }
    for (id, table) in survey.tables.tables {
        let walk = Arc::new(table).walk(Direction::Forward, Bound::Unbounded);
        let cursors = keyspaces.entry(name_of(id)).or_default();
        cursors.push(Box::new(walk));
    }
    for (name, cursors) in keyspaces {
        let tree = store.keyspace(&name, None)?;
        let mut target = Target {
            keys: repaired.keys,
            bytes: repaired.bytes,
            ..Target::new(store, &tree)
        };
        target.fill(Merge::new(cursors, Direction::Forward), watch)?;
        (repaired.keys, repaired.bytes) = (target.keys, target.bytes);
    }
    let mut tally = tally.lock().unwrap_or_else(PoisonError::into_inner);
    repaired.blocks = tally.blocks;
    repaired.more_losses = tally.more;
    repaired.lost.append(&mut tally.losses);
    Ok(repaired)
}

/// A keyspace of the new store, and what waits to be written to it.
struct Target<'a> {
    store: &'a Store,
    tree: &'a Tree,
    /// What the key comes to, newest first.
    versions: Vec<Item>,
    batch: Operations,
    batch_bytes: usize,
    keys: u64,
    bytes: u64,
}

impl<'a> Target<'a> {
    fn new(store: &'a Store, tree: &'a Tree) -> Target<'a> {
        Target {
            store,
            tree,
            versions: Vec::new(),
            batch: Operations::default(),
            batch_bytes: 0,
            keys: 0,
            bytes: 0,
        }
    }

    /// Writes what each key comes to.
    fn fill(&mut self, mut entries: Merge, watch: &mut dyn FnMut(u64)) -> Result<()> {
        let mut last: Option<Slice> = None;
        while let Some(item) = entries.next()? {
            if last.as_ref() == Some(&item.key) {
                self.add_older(item);
                continue;
            }
            self.end_key()?;
            last = Some(item.key.clone());
            self.add_older(item);
            if self.keys.is_multiple_of(STRIDE) {
                watch(self.keys);
            }
        }
        self.end_key()?;
        self.commit()?;
        watch(self.keys);
        Ok(())
    }

    /// Adds the next older entry of a key.
    fn add_older(&mut self, item: Item) {
        match self.versions.last_mut() {
            // Without a manifest the same write may be in several files, combined in some.
            Some(newer) if newer.sequence == item.sequence => {
                if item.kind != Kind::Operand {
                    *newer = item;
                }
            }
            Some(newer) if newer.kind != Kind::Operand => {}
            _ => self.versions.push(item),
        }
    }

    /// Writes a key, the oldest entry first: operands stay operands, whether the new store has their
    /// operator or not.
    fn end_key(&mut self) -> Result<()> {
        let versions = std::mem::take(&mut self.versions);
        let (mut is_there, id) = (false, self.tree.id());
        for item in versions.iter().rev().filter(|item| item.kind.has_value()) {
            match item.kind {
                Kind::Operand => self.batch.merge(id, &item.key, &item.value),
                Kind::Value | Kind::Tombstone => self.batch.put(id, &item.key, &item.value),
            }
            let bytes = item.key.len() + item.value.len();
            self.bytes += bytes as u64;
            self.batch_bytes += bytes;
            is_there = true;
        }
        self.keys += u64::from(is_there);
        if self.batch_bytes < BATCH_BYTES {
            return Ok(());
        }
        self.commit()
    }

    fn commit(&mut self) -> Result<()> {
        self.batch_bytes = 0;
        let batch = std::mem::take(&mut self.batch);
        let payload = batch.payload()?;
        self.store
            .commit(&[self.tree], payload, Durability::Buffered)
    }
}
