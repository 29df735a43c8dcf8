//! The durable list of edits that leads to the live version, and `CURRENT`, which names it.
//!
//! Invariants:
//! 1. An edit is durable before what it says is relied on: before a file that it adds is the only
//!    home of an entry, and before a file that it removes is deleted.
//! 2. `CURRENT` names a manifest that is durable, its name included.
//! 3. A file number is below `reserved_end` of the live manifest before a file has it; so a file
//!    with such a number that is not live is dead, and any other is not ours. Where one of those is
//!    in the way of `reserved_end`, it is given another name first.
//! 4. A manifest is only ever appended to by the session that created it.
//! 5. After a failure nothing is changed any more: it is unknown what the last change left.

mod state;

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Arc;

use crate::error::{Error, Result};
use crate::format::current::{self, Current};
pub(crate) use crate::format::manifest::{
    DEFAULT_KEYSPACE, JournalFloor, KeyspaceMeta, LEVEL_MAX, NAME_BYTES_MAX, SegmentMeta, Traffic,
    Work,
};
use crate::format::manifest::{EDIT_HEADER_BYTES, Edit, HEADER_BYTES, Header};
use crate::key::Sequence;
use crate::storage::{self, AppendFile, ReadCause, Storage};
pub(crate) use state::State;

/// The file that names the live manifest.
pub(crate) const CURRENT: &str = "CURRENT";
/// Its next content, until it is renamed.
pub(crate) const CURRENT_NEXT: &str = "CURRENT.next";

const PREFIX: &str = "MANIFEST-";

/// File numbers reserved at a time.
const RESERVE: u64 = 64;
/// And the most, in a session that needs many.
const RESERVE_MOST: u64 = 4096;
/// The least number of reserved file numbers left; a new manifest needs one of them.
const RESERVE_LEAST: u64 = 8;

/// A manifest that has grown past this many bytes, and past twice its first edit, is replaced.
const REPLACE_BYTES: u64 = 1 << 20;

pub(crate) fn file_name(id: u64) -> String {
    format!("{PREFIX}{id:06}")
}

pub(crate) fn parse_name(name: &str) -> Option<u64> {
    let id = name.strip_prefix(PREFIX)?.parse().ok()?;
    // Number 0 is never given.
    (id > 0 && file_name(id) == name).then_some(id)
}

/// The manifest of an open store.
#[derive(Debug)]
pub(crate) struct Manifest {
    storage: Arc<dyn Storage>,
    header: Header,
    state: State,
    current: Current,
    /// `None` until this session writes its first edit.
    log: Option<Log>,
    /// File numbers that are reserved next.
    reserve: u64,
    /// The first failure.
    failed: Option<Error>,
    /// What is wrong with the last edit, which was passed over as torn.
    torn: Option<Error>,
    /// `CURRENT` goes on saying that the store was closed in order: see [`Manifest::keep_clean`].
    keeps_clean: bool,
    /// Files with numbers that were never given: see [`Manifest::keep_clear_of`].
    strays: BTreeMap<u64, Vec<String>>,
}

/// A manifest that this session appends to.
#[derive(Debug)]
struct Log {
    file: Box<dyn AppendFile>,
    path: PathBuf,
    offset: u64,
    first_edit_bytes: u64,
    edits: u64,
}

impl Manifest {
    /// Makes a new store. A crash at any step leaves a directory in which [`Manifest::create`]
    /// can begin again: see [`leftovers_of_create`].
    pub(crate) fn create(
        storage: &Arc<dyn Storage>,
        store_id: u128,
        hash_seed: u64,
    ) -> Result<Manifest> {
        let header = Header {
            manifest_id: 1,
            store_id,
            hash_seed,
        };
        let state = State::new(2, 2 + RESERVE);
        let current = Current {
            store_id,
            manifest: 1,
            clean_at: Some(Default::default()),
            journal: 0,
        };
        let log = Log::create(storage, &header, &state)?;
        let mut manifest = Manifest::of(storage, header, state, current);
        manifest.log = Some(log);
        manifest.replace_current(current)?;
        Ok(manifest)
    }

    /// Makes a store of files that are there: those of this state, which [`Manifest::for_checkpoint`]
    /// has made, and its journal. `CURRENT` comes last.
    pub(crate) fn found(
        storage: &Arc<dyn Storage>,
        (store_id, hash_seed): (u128, u64),
        state: State,
    ) -> Result<()> {
        let manifest_id = state.next_file - 1;
        let header = Header {
            manifest_id,
            store_id,
            hash_seed,
        };
        let log = Log::create(storage, &header, &state)?;
        let current = Current {
            store_id,
            manifest: manifest_id,
            clean_at: Some(Sequence(state.floor.map_or(0, |floor| floor.next.0 - 1))),
            journal: state.floor.map_or(0, |floor| floor.id),
        };
        let mut manifest = Manifest::of(storage, header, state, current);
        manifest.log = Some(log);
        manifest.replace_current(current)
    }

    fn of(storage: &Arc<dyn Storage>, header: Header, state: State, current: Current) -> Manifest {
        Manifest {
            storage: Arc::clone(storage),
            header,
            state,
            current,
            log: None,
            reserve: RESERVE,
            failed: None,
            torn: None,
            keeps_clean: false,
            strays: BTreeMap::new(),
        }
    }

    /// The state as that of another store, in which a journal without records begins behind all
    /// segments. The numbers of that journal, the floor, and of the manifest are given.
    pub(crate) fn for_checkpoint(&self) -> State {
        let mut state = self.state.clone();
        let journal = state.next_file;
        state.next_file += 2;
        state.reserved_end = state.reserved_end.max(state.next_file + RESERVE);
        if let Some(floor) = &mut state.floor {
            floor.id = journal;
        }
        state
    }

    /// Reads `CURRENT` and the manifest it names.
    pub(crate) fn load(storage: &Arc<dyn Storage>) -> Result<Manifest> {
        let (path, bytes) = read_file(storage, CURRENT, current::BYTES as u64 * 2)?;
        let current = Current::decode(&bytes)
            .map_err(|malformed| Error::corrupt(&path, malformed.at as u64, malformed.what))?;
        Manifest::load_as(storage, current)
    }

    /// Reads a manifest although `CURRENT` is lost: as that of a store that was not closed.
    pub(crate) fn load_without_current(storage: &Arc<dyn Storage>, id: u64) -> Result<Manifest> {
        let (path, bytes) = read_file(storage, &file_name(id), u64::MAX)?;
        let header = Header::decode(&bytes, id)
            .map_err(|malformed| Error::corrupt(&path, malformed.at as u64, malformed.what))?;
        let current = Current {
            store_id: header.store_id,
            manifest: id,
            clean_at: None,
            journal: 0,
        };
        Manifest::load_as(storage, current)
    }

    fn load_as(storage: &Arc<dyn Storage>, current: Current) -> Result<Manifest> {
        let (path, bytes) = read_file(storage, &file_name(current.manifest), u64::MAX)?;
        let corrupt = |offset: usize, what: String| Error::corrupt(&path, offset as u64, what);
        let header = Header::decode(&bytes, current.manifest)
            .map_err(|malformed| corrupt(malformed.at, malformed.what))?;
        if header.store_id != current.store_id {
            return Err(corrupt(0, "the manifest of another store".into()));
        }
        let mut state = State::default();
        let mut at = HEADER_BYTES;
        let mut ordinal = 0;
        let mut torn = None;
        while at < bytes.len() {
            let rest = &bytes[at..];
            match Edit::decode(rest, header.manifest_id, ordinal, at as u64) {
                Ok((edit, len)) => {
                    state.check(&edit).map_err(|what| corrupt(at, what))?;
                    state.apply(&edit);
                    at += len;
                    ordinal += 1;
                }
                // A torn last edit was never relied on. Anything else is damage.
                Err(malformed) => {
                    let is_torn = ordinal > 0
                        && current.clean_at.is_none()
                        && !edit_follows(rest, &header, ordinal, at as u64);
                    let damage = corrupt(at, malformed.what);
                    if !is_torn {
                        return Err(damage);
                    }
                    torn = Some(damage);
                    break;
                }
            }
        }
        if ordinal == 0 {
            return Err(corrupt(at, "manifest: its first edit is missing".into()));
        }
        if let Some(id) = state.not_given() {
            let what = format!("segment {id} has a number or sequence that was never given");
            return Err(corrupt(HEADER_BYTES, what));
        }
        let mut manifest = Manifest::of(storage, header, state, current);
        manifest.torn = torn;
        Ok(manifest)
    }

    /// Makes what was loaded survive power loss: a process that was killed may have written its
    /// last edit, or renamed `CURRENT`, without a sync. See invariant 1.
    pub(crate) fn make_durable(&self) -> Result<()> {
        let name = file_name(self.header.manifest_id);
        storage::rewrite(&*self.storage, &name)
            .map_err(|error| Error::io(self.storage.path_of(&name), error))?;
        self.storage
            .sync_dir()
            .map_err(|error| Error::io(self.storage.path_of(""), error))
    }

    /// The better reason for an error of recovery. Nothing was removed because of an edit that a
    /// crash has torn: if a file is missing without it, it was durable and is damaged.
    pub(crate) fn blame(&self, error: Error) -> Error {
        match (&error, &self.torn) {
            (Error::Missing { .. }, Some(torn)) => torn.clone(),
            _ => error,
        }
    }

    /// Whether the last edit was passed over as torn.
    pub(crate) fn is_torn(&self) -> bool {
        self.torn.is_some()
    }

    pub(crate) fn store_id(&self) -> u128 {
        self.header.store_id
    }

    pub(crate) fn hash_seed(&self) -> u64 {
        self.header.hash_seed
    }

    pub(crate) fn state(&self) -> &State {
        &self.state
    }

    pub(crate) fn current(&self) -> &Current {
        &self.current
    }

    /// Whether a file with this number, not live, is provably ours and dead.
    pub(crate) fn knows_file(&self, id: u64) -> bool {
        id < self.state.reserved_end
    }

    /// Numbers up to here are taken by files that are there; later files get higher ones.
    pub(crate) fn skip_files_to(&mut self, id: u64) {
        self.state.next_file = self.state.next_file.max(id + 1);
    }

    /// These files are not ours, although their numbers are like ours. They stay as they are, and
    /// their numbers are not given out: a file whose number comes near is renamed before.
    pub(crate) fn keep_clear_of(&mut self, strays: BTreeMap<u64, Vec<String>>) {
        self.strays = strays;
    }

    /// Renames the strays with numbers that are about to be reserved, for good.
    fn make_way(&mut self, reserved_end: u64) -> Result<()> {
        let beyond = self.strays.split_off(&reserved_end);
        let in_the_way = std::mem::replace(&mut self.strays, beyond);
        if in_the_way.is_empty() {
            return Ok(());
        }
        for name in in_the_way.values().flatten() {
            storage::put_aside(&*self.storage, name)
                .map_err(|error| Error::io(self.storage.path_of(name), error))?;
        }
        self.storage
            .sync_dir()
            .map_err(|error| Error::io(self.storage.path_of(""), error))
    }

    /// A number for a new file.
    pub(crate) fn allocate(&mut self) -> Result<u64> {
        if self.state.next_file + RESERVE_LEAST >= self.state.reserved_end {
            let reserved_end = self.state.next_file + RESERVE_LEAST + self.reserve;
            // A store that needs many is not to sync the manifest for a few each time.
            self.reserve = (self.reserve * 2).min(RESERVE_MOST);
            self.change(|manifest| manifest.make_way(reserved_end))?;
            self.commit(&Edit {
                reserved_end,
                ..self.edit()
            })?;
        }
        let id = self.state.next_file;
        self.state.next_file += 1;
        Ok(id)
    }

    /// Takes a number back that no file has any more, if it is the last that was given out.
    pub(crate) fn give_back(&mut self, id: u64) {
        if id + 1 == self.state.next_file {
            self.state.next_file = id;
        }
    }

    /// Makes a change, unless one has failed before: see invariant 5.
    fn change(&mut self, change: impl FnOnce(&mut Manifest) -> Result<()>) -> Result<()> {
        if let Some(error) = &self.failed {
            return Err(error.clone());
        }
        change(self).inspect_err(|error| self.failed = Some(error.clone()))
    }

    /// An edit that changes nothing yet.
    pub(crate) fn edit(&self) -> Edit {
        Edit {
            next_file: self.state.next_file,
            reserved_end: self.state.reserved_end,
            work: self.state.work,
            next_keyspace: self.state.next_keyspace,
            ..Edit::default()
        }
    }

    /// Makes an edit durable. After an error it is unknown whether it is; the store must be
    /// opened again before anything else is changed.
    pub(crate) fn commit(&mut self, edit: &Edit) -> Result<()> {
        self.change(|manifest| manifest.append(edit))
    }

    fn append(&mut self, edit: &Edit) -> Result<()> {
        self.state.check(edit).map_err(|what| Error::Bug { what })?;
        let grown = self
            .log
            .as_ref()
            .is_none_or(|log| log.offset > REPLACE_BYTES.max(2 * log.first_edit_bytes));
        if grown {
            let mut state = self.state.clone();
            state.apply(edit);
            return self.replace(state);
        }
        if let Some(log) = &mut self.log {
            log.append(edit, self.header.manifest_id)?;
        }
        self.state.apply(edit);
        Ok(())
    }

    /// Begins this session's manifest, unless it has one.
    pub(crate) fn begin(&mut self) -> Result<()> {
        if self.log.is_some() {
            Ok(())
        } else {
            self.change(|manifest| manifest.replace(manifest.state.clone()))
        }
    }

    /// File numbers can be allocated while the live state, journals included, stays what it was:
    /// until [`Manifest::switch`] a crash must not make recovery know less than before.
    pub(crate) fn keep_clean(&mut self) {
        self.keeps_clean = true;
    }

    /// Makes a state live in one step, with a new manifest: the edit, and this journal as the
    /// first of the session.
    pub(crate) fn switch(&mut self, edit: &Edit, journal: u64) -> Result<()> {
        self.change(|manifest| {
            let mut state = manifest.state.clone();
            state.check(edit).map_err(|what| Error::Bug { what })?;
            state.apply(edit);
            manifest.keeps_clean = false;
            manifest.current.journal = journal;
            manifest.replace(state)
        })
    }

    /// Writes the whole state to a new manifest and makes it the live one. The one before is
    /// kept, older ones are removed.
    fn replace(&mut self, mut state: State) -> Result<()> {
        let previous = self.header.manifest_id;
        let id = state.next_file;
        state.next_file += 1;
        state.reserved_end = state
            .reserved_end
            .max(state.next_file + RESERVE_LEAST + RESERVE);
        self.make_way(state.reserved_end)?;
        let header = Header {
            manifest_id: id,
            ..self.header
        };
        let log = Log::create(&self.storage, &header, &state)?;
        let current = Current {
            manifest: id,
            clean_at: self.current.clean_at.filter(|_| self.keeps_clean),
            ..self.current
        };
        self.replace_current(current)?;
        self.header = header;
        self.state = state;
        self.log = Some(log);
        self.remove_manifests_before(previous);
        Ok(())
    }

    /// What cannot be removed now is removed by a later `open`.
    fn remove_manifests_before(&self, oldest: u64) {
        for name in self.storage.list().unwrap_or_default() {
            if parse_name(&name).is_some_and(|id| id < oldest) {
                drop(self.storage.remove(&name));
            }
        }
    }

    /// The store is being written: its first journal of this session is this one.
    pub(crate) fn mark_open(&mut self, journal: u64) -> Result<()> {
        let current = Current {
            clean_at: None,
            journal,
            ..self.current
        };
        self.change(|manifest| manifest.replace_current(current))
    }

    /// Everything up to `sequence` is durable and nothing will follow.
    pub(crate) fn mark_clean(&mut self, sequence: Sequence) -> Result<()> {
        let current = Current {
            clean_at: Some(sequence),
            ..self.current
        };
        self.change(|manifest| manifest.replace_current(current))
    }

    fn replace_current(&mut self, current: Current) -> Result<()> {
        let path = self.storage.path_of(CURRENT_NEXT);
        let at = |error| Error::io(&path, error);
        match self.storage.remove(CURRENT_NEXT) {
            Err(error) if error.kind() != std::io::ErrorKind::NotFound => return Err(at(error)),
            _ => {}
        }
        let mut file = self.storage.create(CURRENT_NEXT).map_err(at)?;
        file.append(&[&current.encode()]).map_err(at)?;
        file.sync().map_err(at)?;
        self.storage.rename(CURRENT_NEXT, CURRENT).map_err(at)?;
        self.storage.sync_dir().map_err(at)?;
        self.current = current;
        Ok(())
    }
}

impl Log {
    /// A manifest with the whole state as its first edit, durable.
    fn create(storage: &Arc<dyn Storage>, header: &Header, state: &State) -> Result<Log> {
        let name = file_name(header.manifest_id);
        let path = storage.path_of(&name);
        let at = |error| Error::io(&path, error);
        let edit = encoded(&state.as_edit(), header.manifest_id, 0, HEADER_BYTES as u64)?;
        let offset = (HEADER_BYTES + edit.len()) as u64;
        let mut file = storage.create(&name).map_err(at)?;
        file.append(&[&header.encode(), &edit]).map_err(at)?;
        file.sync().map_err(at)?;
        storage.sync_dir().map_err(at)?;
        Ok(Log {
            file,
            path,
            offset,
            first_edit_bytes: offset,
            edits: 1,
        })
    }

    fn append(&mut self, edit: &Edit, manifest_id: u64) -> Result<()> {
        let bytes = encoded(edit, manifest_id, self.edits, self.offset)?;
        self.file
            .append(&[&bytes])
            .map_err(|error| Error::io(&self.path, error))?;
        self.file
            .sync()
            .map_err(|error| Error::io(&self.path, error))?;
        self.offset += bytes.len() as u64;
        self.edits += 1;
        Ok(())
    }
}

fn encoded(edit: &Edit, manifest_id: u64, ordinal: u64, offset: u64) -> Result<Vec<u8>> {
    let too_long = "the keys at the ends of segments take 4 GiB: choose a larger segment_bytes";
    let bytes = edit.encode(manifest_id, ordinal, offset);
    bytes.ok_or_else(|| Error::Invalid(too_long.into()))
}

/// Whether an intact later edit stands behind a damaged one: then that is no torn tail.
fn edit_follows(bytes: &[u8], header: &Header, ordinal: u64, offset: u64) -> bool {
    (1..bytes.len().saturating_sub(EDIT_HEADER_BYTES)).any(|at| {
        let rest = &bytes[at..];
        // An ordinal a little higher is a cheap test; the checksum then decides.
        let mut number = [0; 8];
        number.copy_from_slice(&rest[8..16]);
        let number = u64::from_le_bytes(number);
        number > ordinal
            && number - ordinal < bytes.len() as u64
            && Edit::decode(rest, header.manifest_id, number, offset + at as u64).is_ok()
    })
}

/// The store that `CURRENT` names, if it is intact.
pub(crate) fn store_of_current(storage: &Arc<dyn Storage>) -> Option<u128> {
    let (_, bytes) = read_file(storage, CURRENT, current::BYTES as u64 * 2).ok()?;
    Some(Current::decode(&bytes).ok()?.store_id)
}

/// The store of a manifest whose header is intact.
pub(crate) fn store_of(storage: &Arc<dyn Storage>, id: u64) -> Option<u128> {
    let (_, bytes) = read_file(storage, &file_name(id), u64::MAX).ok()?;
    Some(Header::decode(&bytes, id).ok()?.store_id)
}

fn read_file(
    storage: &Arc<dyn Storage>,
    name: &str,
    len_max: u64,
) -> Result<(PathBuf, crate::slice::Slice)> {
    let path = storage.path_of(name);
    let file = storage
        .open(name)
        .map_err(|error| Error::io(&path, error))?;
    if file.len() > len_max {
        return Err(Error::corrupt(
            &path,
            len_max,
            format!("the file has {} bytes", file.len()),
        ));
    }
    let len = usize::try_from(file.len()).unwrap_or(usize::MAX);
    let bytes = file
        .read(ReadCause::Open, 0, len)
        .map_err(|error| Error::io(&path, error))?;
    Ok((path, bytes))
}

/// Whether a directory without `CURRENT`, segments and journals holds at most what a crash in
/// [`Manifest::create`] leaves, so that creating can begin again; the names to remove first. After
/// a kill in it the next session goes on, with a manifest of its own, or writes the first one anew:
/// power loss may leave all of that.
pub(crate) fn leftovers_of_create(names: &[String], lock: &str) -> Option<Vec<String>> {
    let replaced = |name: &str| parse_name(name.strip_suffix(storage::NEXT).unwrap_or(name));
    let ours = |name: &String| name == lock || name == CURRENT_NEXT || replaced(name).is_some();
    names
        .iter()
        .all(ours)
        .then(|| names.iter().filter(|name| *name != lock).cloned().collect())
}
