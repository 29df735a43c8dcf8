//! A complete store of one moment, made of the files of an open one.
//!
//! Segments never change, so a checkpoint shares their files, by hard links. What is not in segments is
//! flushed before. The new store has a manifest of its own, and its `CURRENT` last: without it, nobody
//! takes the files for a store.

use std::path::Path;
use std::sync::Arc;

use crate::error::{Error, Result};
use crate::journal::{self, NewJournal, Point};
use crate::manifest::{CURRENT, Manifest, State};
use crate::segment;
use crate::storage::{self, Disk, Io, ReadCause, ReadFile, Storage};
use crate::store::Store;

use super::beside::{beside, check_free, rename};

/// What is appended to the name of a checkpoint until it is whole.
const UNDER_WAY: &str = ".checkpointing";

/// Bytes that are copied at a time, where files cannot be linked.
const COPY_BYTES: u64 = 1 << 20;

/// The result of [`Db::checkpoint`](crate::Db::checkpoint).
///
/// ```
/// # fn main() -> criba::Result<()> {
/// # let dir = tempfile::tempdir().unwrap();
/// # let db = criba::Db::open(dir.path().join("data"))?;
/// db.put("apple", "red")?;
/// let made = db.checkpoint(dir.path().join("monday"))?;
/// assert_eq!((made.sequence, made.linked_files, made.copied_files), (1, 1, 0));
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Checkpoint {
    /// Sequence of the newest write in it.
    pub sequence: u64,
    /// Files that it shares with the store.
    pub linked_files: u64,
    /// Files that were copied, because they could not be linked.
    pub copied_files: u64,
    /// Bytes of these.
    pub copied_bytes: u64,
}

/// Makes a checkpoint at `target`, which is not there. It has its name only when it is whole.
pub(crate) fn checkpoint(store: &Store, target: &Path) -> Result<Checkpoint> {
    check_free(target, "choose another place")?;
    let under_way = beside(target, UNDER_WAY)?;
    check_free(
        &under_way,
        "an interrupted checkpoint has left it; remove it",
    )?;
    check_outside(store, target)?;
    let storage: Arc<dyn Storage> = Arc::new(Disk::new(&under_way, Io::Pread));
    let made = checkpoint_to(store, &storage)?;
    rename(&under_way, target)?;
    Ok(made)
}

/// A store holds files only: the next `open` would report a directory, or a repair leave it behind.
fn check_outside(store: &Store, target: &Path) -> Result<()> {
    let real = |path: &Path| path.canonicalize().ok();
    let current = store.services().storage.local_path(CURRENT);
    let Some(home) = current.as_deref().and_then(Path::parent).and_then(real) else {
        return Ok(());
    };
    // A name without a directory is in the current one.
    let parent = target.parent().filter(|it| !it.as_os_str().is_empty());
    let parent = real(parent.unwrap_or(Path::new(".")));
    if parent.is_some_and(|parent| parent.starts_with(&home)) {
        let what = format!(
            "{} is inside the store; choose another place",
            target.display()
        );
        return Err(Error::Invalid(what));
    }
    Ok(())
}

/// A file to be copied, open: it can be read although the store removes it meanwhile.
struct Open {
    name: String,
    file: Arc<dyn ReadFile>,
}

/// The same in another storage, which is empty.
pub(crate) fn checkpoint_to(store: &Store, target: &Arc<dyn Storage>) -> Result<Checkpoint> {
    store.flush()?;
    let at = |error| Error::io(target.path_of(""), error);
    target.create_dir().map_err(at)?;
    if !target.list().map_err(at)?.is_empty() {
        return Err(Error::Invalid(format!(
            "{} is not empty; choose another place",
            target.path_of("").display()
        )));
    }
    let services = store.services();
    let mut made = Checkpoint::default();
    // No edit is made meanwhile, so no file of the state can go.
    let (state, open) = services.catalog.look(|manifest| {
        let open = link_all(&*services.storage, manifest.state(), &**target, &mut made)?;
        Ok::<_, Error>((manifest.for_checkpoint(), open))
    })?;
    for file in &open {
        copy(file, &**target, &mut made)?;
    }
    if let Some(floor) = state.floor {
        made.sequence = floor.next.0 - 1;
        let new = NewJournal {
            id: floor.id,
            store_id: services.store_id,
            previous: 0,
            reserve: false,
        };
        let start = Point {
            next: floor.next,
            chain: floor.chain,
        };
        drop(journal::Writer::create(target, new, start)?);
    }
    let identity = (services.store_id, services.hash_seed);
    Manifest::found(target, identity, state)?;
    Ok(made)
}

/// Links all files of a state. Returns those that are to be copied.
fn link_all(
    source: &dyn Storage,
    state: &State,
    target: &dyn Storage,
    made: &mut Checkpoint,
) -> Result<Vec<Open>> {
    let segments = state.segment_files();
    let segments = segments.into_iter().map(segment::file_name);
    let filters = state.filter_files();
    let filters = filters.into_iter().map(segment::filter_file_name);
    let mut open = Vec::new();
    for name in segments.chain(filters) {
        if storage::link(source, &name, target) {
            made.linked_files += 1;
            continue;
        }
        let file = source.open(&name);
        let file = file.map_err(|error| Error::io(source.path_of(&name), error))?;
        open.push(Open { name, file });
    }
    Ok(open)
}

fn copy(from: &Open, target: &dyn Storage, made: &mut Checkpoint) -> Result<()> {
    let at = |error| Error::io(target.path_of(&from.name), error);
    let mut new = target.create(&from.name).map_err(at)?;
    let mut offset = 0;
    while offset < from.file.len() {
        let len = COPY_BYTES.min(from.file.len() - offset);
        let bytes = from.file.read(ReadCause::Open, offset, len as usize);
        new.append(&[&bytes.map_err(at)?]).map_err(at)?;
        offset += len;
    }
    new.sync().map_err(at)?;
    made.copied_files += 1;
    made.copied_bytes += from.file.len();
    Ok(())
}
