//! A file system in memory that knows what would survive.
//!
//! For each file it keeps how many bytes the last sync made durable, and for the directory which
//! names the last [`Storage::sync_dir`] made durable; [`Memory::crash`] makes an image of what a
//! kill or a power cut leaves. For tests: every read copies, and one mutex guards everything.
//!
//! Those are the three plain images. A [`History`] of all changing calls tells every state that a
//! disk may legally hold after a power cut: writes torn within a sector's bounds or kept in any
//! order, names in any order, syncs that dropped their pages.

use std::collections::BTreeMap;
use std::io::{self, ErrorKind};
use std::ops::Range;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::SystemTime;

mod appender;
mod history;
mod states;

pub use history::History;
pub use states::{Bounds, CrashState};

use appender::Appender;
use history::{Operation, Recording};

use super::{AppendFile, LockGuard, RESERVE_MIN, ReadCause, ReadFile, Storage};
use crate::slice::Slice;

/// What a crash leaves.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
#[non_exhaustive]
pub enum Survivors {
    /// The process was killed: everything it gave to the system is there, synced or not, and the
    /// system still runs.
    Everything,
    /// Power was lost and the system had written nothing on its own: files hold what was synced,
    /// and the directory the names of its last sync, so that created names are gone and removed
    /// or renamed ones are back.
    Synced,
    /// Power was lost and the system had written names as they came, but of the data only what
    /// was synced: new files may be there and empty.
    Ordered,
}

/// A directory in memory. Clones share it.
#[derive(Clone, Debug)]
pub struct Memory {
    shared: Arc<Shared>,
}

#[derive(Debug)]
struct Shared {
    state: Mutex<State>,
}

type Names = BTreeMap<String, Arc<File>>;

// Lock order: the state, then a file.
#[derive(Debug)]
struct State {
    exists: bool,
    names: Names,
    durable_names: Names,
    locked: bool,
    boot_id: u128,
    clock: Clock,
    mutations: u64,
    fault: Option<Fault>,
    files_made: usize,
    recording: Option<Recording>,
}

/// What [`Storage::now`] says.
#[derive(Debug, Clone, Copy)]
enum Clock {
    System,
    Set(Option<SystemTime>),
}

#[derive(Debug)]
struct File {
    /// Tells the files of one file system apart, whatever their names.
    id: usize,
    data: Mutex<Data>,
}

#[derive(Debug, Clone, Default)]
struct Data {
    bytes: Vec<u8>,
    // Invariant: durable_len <= bytes.len().
    durable_len: usize,
    /// Ranges that a failed sync dropped: readable while the system runs, never on the disk.
    lost: Vec<Range<usize>>,
    /// The file is longer than its bytes, by zeros that a kill leaves there.
    is_reserved: bool,
}

#[derive(Debug, Clone, Copy)]
struct Fault {
    /// Number of the first mutating call that fails.
    first: u64,
    /// Number of the last one.
    last: u64,
    kind: ErrorKind,
}

impl Memory {
    /// An empty file system, in which the directory is yet to be made.
    #[must_use]
    pub fn new() -> Memory {
        Memory::with(State {
            exists: false,
            names: Names::new(),
            durable_names: Names::new(),
            locked: false,
            boot_id: 1,
            clock: Clock::System,
            mutations: 0,
            fault: None,
            files_made: 0,
            recording: None,
        })
    }

    fn with(state: State) -> Memory {
        Memory {
            shared: Arc::new(Shared {
                state: Mutex::new(state),
            }),
        }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.shared.state()
    }

    /// An image of what a crash at this moment leaves: independent of this one, not locked, and
    /// without faults.
    #[must_use]
    pub fn crash(&self, survivors: Survivors) -> Memory {
        let state = self.state();
        let is_kill = survivors == Survivors::Everything;
        // A file may have a durable name and another one now: it stays one file.
        let mut copies = BTreeMap::new();
        let mut copy = |names: &Names| -> Names {
            let mut image = |file: &Arc<File>| {
                let image = copies.entry(Arc::as_ptr(file)).or_insert_with(|| {
                    let mut data = file.data().clone();
                    match is_kill {
                        true => data.keep_reserve(),
                        false => data.lose_power(),
                    }
                    Arc::new(File::new(file.id, data))
                });
                Arc::clone(image)
            };
            names
                .iter()
                .map(|(name, file)| (name.clone(), image(file)))
                .collect()
        };
        let names = copy(&state.names);
        let durable_names = copy(&state.durable_names);
        let (names, durable_names) = match survivors {
            Survivors::Everything => (names, durable_names),
            Survivors::Synced => (durable_names.clone(), durable_names),
            Survivors::Ordered => (names.clone(), names),
        };
        Memory::with(State {
            exists: state.exists,
            names,
            durable_names,
            locked: false,
            boot_id: if is_kill {
                state.boot_id
            } else {
                state.boot_id + 1
            },
            clock: state.clock,
            mutations: 0,
            fault: None,
            files_made: state.files_made,
            recording: None,
        })
    }

    /// Makes the `n`-th mutating call from now on fail (1 is the very next one), and all after
    /// it, until [`Memory::heal`]. A failing append has written the first half of its bytes; a
    /// failing sync has dropped what it should have made durable: it can be read until power is
    /// lost, and no later sync brings it to the disk.
    ///
    /// Mutating are all calls that change files, names or what is durable; taking the lock is not.
    pub fn fail_after(&self, n: u64, kind: ErrorKind) {
        self.fail(n, u64::MAX, kind);
    }

    /// As [`Memory::fail_after`], but only the `n`-th call fails.
    pub fn fail_once(&self, n: u64, kind: ErrorKind) {
        self.fail(n, 1, kind);
    }

    fn fail(&self, n: u64, calls: u64, kind: ErrorKind) {
        let mut state = self.state();
        let first = state.mutations.saturating_add(n.max(1));
        let last = first.saturating_add(calls - 1);
        state.fault = Some(Fault { first, last, kind });
    }

    /// Keeps a history of all mutating calls from now on; an earlier one is forgotten.
    pub fn record(&self) {
        let mut state = self.state();
        state.recording = Some(Recording::begin(&state));
    }

    /// Calls recorded since [`Memory::record`].
    #[must_use]
    pub fn recorded(&self) -> usize {
        self.state().recording.as_ref().map_or(0, Recording::len)
    }

    /// The history since [`Memory::record`], or `None` when none is kept.
    #[must_use]
    pub fn history(&self) -> Option<History> {
        let state = self.state();
        state.recording.as_ref().map(Recording::history)
    }

    /// Ends the failures of [`Memory::fail_after`] and [`Memory::fail_once`].
    pub fn heal(&self) {
        self.state().fault = None;
    }

    /// How many mutating calls have been made, failed ones included.
    #[must_use]
    pub fn mutations(&self) -> u64 {
        self.state().mutations
    }

    /// From now on the clock stands at this time, or is unknown; before, it is that of the system.
    pub fn set_clock(&self, now: Option<SystemTime>) {
        self.state().clock = Clock::Set(now);
    }

    /// Puts other bytes in a file behind the back of those who have it open, or makes a file; all
    /// of it is durable at once. A history that is kept begins anew.
    pub fn replace(&self, name: &str, bytes: impl Into<Vec<u8>>) {
        let mut state = self.state();
        let bytes = bytes.into();
        let file = state.file(name).unwrap_or_else(|_| state.new_file());
        *file.data() = Data {
            durable_len: bytes.len(),
            bytes,
            ..Data::default()
        };
        state.names.insert(name.to_owned(), Arc::clone(&file));
        state.durable_names.insert(name.to_owned(), file);
        if state.recording.is_some() {
            state.recording = Some(Recording::begin(&state));
        }
    }

    /// All bytes of a file, or `None` when there is no such file.
    #[must_use]
    pub fn bytes_of(&self, name: &str) -> Option<Vec<u8>> {
        self.state()
            .names
            .get(name)
            .map(|file| file.data().bytes.clone())
    }
}

impl Default for Memory {
    fn default() -> Memory {
        Memory::new()
    }
}

impl Shared {
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn sync(&self, file: &File) -> io::Result<()> {
        let mut state = self.state();
        let result = state.mutate();
        let mut data = file.data();
        if result.is_err() {
            data.lose_unsynced();
        }
        data.durable_len = data.bytes.len();
        state.record(|| match &result {
            Ok(()) => Operation::Sync { file: file.id },
            Err(_) => Operation::FailedSync { file: file.id },
        });
        result
    }
}

impl File {
    fn new(id: usize, data: Data) -> File {
        File {
            id,
            data: Mutex::new(data),
        }
    }

    fn data(&self) -> MutexGuard<'_, Data> {
        self.data.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Data {
    /// What a failed sync does: the system forgets that these bytes are not on the disk.
    fn lose_unsynced(&mut self) {
        if self.durable_len < self.bytes.len() {
            self.lost.push(self.durable_len..self.bytes.len());
        }
    }

    /// What a kill makes of a reserve: a part of the file.
    fn keep_reserve(&mut self) {
        if std::mem::take(&mut self.is_reserved) {
            self.bytes.resize(self.bytes.len() + RESERVE_MIN, 0);
        }
    }

    /// Only what is durable stays; what was lost reads as zeros.
    fn lose_power(&mut self) {
        self.is_reserved = false;
        self.bytes.truncate(self.durable_len);
        // Of a file that ends with what was lost, the disk knows no such length.
        while self
            .lost
            .last()
            .is_some_and(|lost| lost.end == self.bytes.len())
        {
            let start = self.lost.pop().map_or(0, |lost| lost.start);
            self.bytes.truncate(start);
        }
        for lost in std::mem::take(&mut self.lost) {
            self.bytes[lost].fill(0);
        }
        self.durable_len = self.bytes.len();
    }
}

impl State {
    /// Every call that changes something passes here first.
    fn mutate(&mut self) -> io::Result<()> {
        self.mutations += 1;
        match self.fault {
            Some(fault) if (fault.first..=fault.last).contains(&self.mutations) => {
                Err(fault.kind.into())
            }
            _ => Ok(()),
        }
    }

    fn record(&mut self, operation: impl FnOnce() -> Operation) {
        if let Some(recording) = &mut self.recording {
            recording.push(operation());
        }
    }

    fn new_file(&mut self) -> Arc<File> {
        let id = self.files_made;
        self.files_made += 1;
        Arc::new(File::new(id, Data::default()))
    }

    fn file(&self, name: &str) -> io::Result<Arc<File>> {
        self.names
            .get(name)
            .cloned()
            .ok_or_else(|| ErrorKind::NotFound.into())
    }

    fn check_exists(&self) -> io::Result<()> {
        if self.exists {
            Ok(())
        } else {
            Err(ErrorKind::NotFound.into())
        }
    }
}

impl Storage for Memory {
    fn path_of(&self, name: &str) -> PathBuf {
        let path = PathBuf::from("memory");
        if name.is_empty() {
            path
        } else {
            path.join(name)
        }
    }

    fn create_dir(&self) -> io::Result<()> {
        let mut state = self.state();
        state.mutate()?;
        state.exists = true;
        state.record(|| Operation::CreateDir);
        Ok(())
    }

    fn list(&self) -> io::Result<Vec<String>> {
        let state = self.state();
        state.check_exists()?;
        Ok(state.names.keys().cloned().collect())
    }

    fn open(&self, name: &str) -> io::Result<Arc<dyn ReadFile>> {
        let file = self.state().file(name)?;
        let len = file.data().bytes.len();
        Ok(Arc::new(Reader { file, len }))
    }

    fn create(&self, name: &str) -> io::Result<Box<dyn AppendFile>> {
        let mut state = self.state();
        state.check_exists()?;
        state.mutate()?;
        if state.names.contains_key(name) {
            return Err(ErrorKind::AlreadyExists.into());
        }
        let file = state.new_file();
        state.names.insert(name.to_owned(), Arc::clone(&file));
        state.record(|| Operation::Create {
            name: name.to_owned(),
            file: Arc::clone(&file),
        });
        Ok(Box::new(Appender::new(&self.shared, file)))
    }

    fn rename(&self, from: &str, to: &str) -> io::Result<()> {
        let mut state = self.state();
        state.mutate()?;
        let file = state.file(from)?;
        state.names.remove(from);
        state.names.insert(to.to_owned(), Arc::clone(&file));
        state.record(|| Operation::Rename {
            from: from.to_owned(),
            to: to.to_owned(),
            file: file.id,
        });
        Ok(())
    }

    fn remove(&self, name: &str) -> io::Result<()> {
        let mut state = self.state();
        state.mutate()?;
        state.file(name)?;
        state.names.remove(name);
        state.record(|| Operation::Remove {
            name: name.to_owned(),
        });
        Ok(())
    }

    fn sync_dir(&self) -> io::Result<()> {
        let mut state = self.state();
        state.check_exists()?;
        state.mutate()?;
        state.durable_names = state.names.clone();
        state.record(|| Operation::SyncDir);
        Ok(())
    }

    fn lock(&self, name: &str) -> io::Result<Box<dyn LockGuard>> {
        let mut state = self.state();
        state.check_exists()?;
        if state.locked {
            return Err(ErrorKind::WouldBlock.into());
        }
        if !state.names.contains_key(name) {
            let file = state.new_file();
            state.names.insert(name.to_owned(), Arc::clone(&file));
            state.record(|| Operation::Create {
                name: name.to_owned(),
                file,
            });
        }
        state.locked = true;
        Ok(Box::new(Guard {
            shared: Arc::clone(&self.shared),
        }))
    }

    fn boot_id(&self) -> Option<u128> {
        Some(self.state().boot_id)
    }

    fn now(&self) -> Option<SystemTime> {
        match self.state().clock {
            Clock::System => Some(SystemTime::now()),
            Clock::Set(now) => now,
        }
    }
}

#[derive(Debug)]
struct Reader {
    file: Arc<File>,
    len: usize,
}

impl ReadFile for Reader {
    fn len(&self) -> u64 {
        self.len as u64
    }

    fn read(&self, _: ReadCause, offset: u64, len: usize) -> io::Result<Slice> {
        let eof = || io::Error::from(ErrorKind::UnexpectedEof);
        let start = usize::try_from(offset).ok().ok_or_else(eof)?;
        let end = start
            .checked_add(len)
            .filter(|&end| end <= self.len)
            .ok_or_else(eof)?;
        self.file
            .data()
            .bytes
            .get(start..end)
            .map(Slice::from)
            .ok_or_else(eof)
    }
}

#[derive(Debug)]
struct Guard {
    shared: Arc<Shared>,
}

impl LockGuard for Guard {}

impl Drop for Guard {
    fn drop(&mut self) {
        self.shared.state().locked = false;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn write(memory: &Memory, name: &str, bytes: &[u8]) -> Box<dyn AppendFile> {
        let mut file = memory.create(name).unwrap();
        file.append(&[bytes]).unwrap();
        file
    }

    #[test]
    fn a_crash_leaves_what_it_says() {
        let memory = Memory::new();
        assert_eq!(
            memory.create("early").unwrap_err().kind(),
            ErrorKind::NotFound
        );
        memory.create_dir().unwrap();
        let mut synced = write(&memory, "synced", b"one");
        synced.sync().unwrap();
        write(&memory, "doomed", b"x").sync().unwrap();
        memory.sync_dir().unwrap();
        synced.append(&[b"two"]).unwrap();
        write(&memory, "new", b"three");
        memory.remove("doomed").unwrap();
        memory.rename("synced", "renamed").unwrap();

        let kill = memory.crash(Survivors::Everything);
        assert_eq!(kill.list().unwrap(), ["new", "renamed"]);
        assert_eq!(kill.bytes_of("renamed").unwrap(), b"onetwo");
        assert_eq!(kill.boot_id(), memory.boot_id());
        let strict = memory.crash(Survivors::Synced);
        assert_eq!(strict.list().unwrap(), ["doomed", "synced"]);
        assert_eq!(strict.bytes_of("synced").unwrap(), b"one");
        assert_ne!(strict.boot_id(), memory.boot_id());
        let ordered = memory.crash(Survivors::Ordered);
        assert_eq!(ordered.list().unwrap(), ["new", "renamed"]);
        assert_eq!(ordered.bytes_of("renamed").unwrap(), b"one");
        assert_eq!(ordered.bytes_of("new").unwrap(), b"");

        // An image is independent, and a kill makes nothing durable.
        synced.append(&[b"more"]).unwrap();
        kill.remove("new").unwrap();
        assert_eq!(kill.bytes_of("renamed").unwrap(), b"onetwo");
        assert_eq!(
            kill.crash(Survivors::Synced).bytes_of("synced").unwrap(),
            b"one"
        );
        crate::storage::rewrite(&kill, "renamed").unwrap();
        kill.sync_dir().unwrap();
        let strict = kill.crash(Survivors::Synced);
        assert_eq!(strict.list().unwrap(), ["renamed"]);
        assert_eq!(strict.bytes_of("renamed").unwrap(), b"onetwo");
    }

    #[test]
    fn calls_fail_from_the_nth_on() {
        let memory = Memory::new();
        memory.create_dir().unwrap();
        let before = memory.mutations();
        memory.fail_after(2, ErrorKind::StorageFull);
        let mut file = memory.create("a").unwrap();
        assert_eq!(
            file.append(&[b"0123"]).unwrap_err().kind(),
            ErrorKind::StorageFull
        );
        assert!(file.sync().is_err());
        assert!(memory.sync_dir().is_err());
        assert_eq!(memory.mutations() - before, 4);
        assert_eq!(memory.bytes_of("a").unwrap(), b"01");
        memory.heal();
        file.append(&[b"45"]).unwrap();
        assert_eq!(memory.bytes_of("a").unwrap(), b"0145");
    }

    #[test]
    fn handles_outlive_names_and_replacement() {
        let memory = Memory::new();
        memory.create_dir().unwrap();
        drop(write(&memory, "a", b"abc"));
        assert_eq!(
            memory.create("a").unwrap_err().kind(),
            ErrorKind::AlreadyExists
        );
        let reader = memory.open("a").unwrap();
        memory.replace("a", *b"xyz");
        assert_eq!(reader.read(ReadCause::Data, 1, 2).unwrap(), b"yz");
        memory.replace("a", *b"x");
        assert!(reader.read(ReadCause::Data, 1, 2).is_err());
        memory.remove("a").unwrap();
        assert_eq!(reader.read(ReadCause::Data, 0, 1).unwrap(), b"x");
        assert!(memory.open("a").is_err());
    }

    #[test]
    fn one_holder_of_the_lock() {
        let memory = Memory::new();
        assert!(memory.lock("LOCK").is_err());
        memory.create_dir().unwrap();
        let guard = memory.lock("LOCK").unwrap();
        assert_eq!(
            memory.clone().lock("LOCK").unwrap_err().kind(),
            ErrorKind::WouldBlock
        );
        drop(memory.crash(Survivors::Everything).lock("LOCK").unwrap());
        drop(guard);
        drop(memory.lock("LOCK").unwrap());
    }
}
