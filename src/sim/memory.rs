//! A disk in memory that knows what would survive.

use std::collections::BTreeMap;
use std::io::{self, ErrorKind};
use std::path::PathBuf;
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::SystemTime;

use super::appender::Appender;
use super::directory::{Clock, Directory, Names};
use super::file::{Data, File};
use super::history::{History, Recording};
use super::moment::Operation;
use super::state::{Fault, Shared, State};
use super::states::CrashState;
use crate::slice::Slice;
use crate::storage::{AppendFile, LockGuard, ReadCause, ReadFile, Storage};

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

impl Memory {
    /// An empty file system, in which the directory is yet to be made.
    #[must_use]
    pub fn new() -> Memory {
        Memory::of_disk(Directory {
            exists: false,
            names: Names::new(),
            durable_names: Names::new(),
            boot_id: 1,
            clock: Clock::System,
            files_made: 0,
        })
    }

    /// Not locked, and without faults.
    fn of_disk(disk: Directory) -> Memory {
        let state = State {
            disk,
            locked: false,
            mutations: 0,
            fault: None,
            recording: None,
        };
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
        let disk = &state.disk;
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
        let names = copy(&disk.names);
        let durable_names = copy(&disk.durable_names);
        let (names, durable_names) = match survivors {
            Survivors::Everything => (names, durable_names),
            Survivors::Synced => (durable_names.clone(), durable_names),
            Survivors::Ordered => (names.clone(), names),
        };
        Memory::of_disk(Directory {
            exists: disk.exists,
            names,
            durable_names,
            boot_id: disk.boot_id + u128::from(!is_kill),
            clock: disk.clock,
            files_made: disk.files_made,
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
        state.recording = Some(Recording::begin(&state.disk));
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
        self.state().disk.clock = Clock::Set(now);
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
        state.disk.names.insert(name.to_owned(), Arc::clone(&file));
        state.disk.durable_names.insert(name.to_owned(), file);
        if state.recording.is_some() {
            state.recording = Some(Recording::begin(&state.disk));
        }
    }

    /// All bytes of a file, or `None` when there is no such file.
    #[must_use]
    pub fn bytes_of(&self, name: &str) -> Option<Vec<u8>> {
        self.state()
            .disk
            .names
            .get(name)
            .map(|file| file.data().bytes.clone())
    }
}

impl CrashState {
    /// The storage as the next process finds it.
    #[must_use]
    pub fn image(&self) -> Memory {
        Memory::of_disk(self.disk())
    }
}

impl Default for Memory {
    fn default() -> Memory {
        Memory::new()
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
        state.disk.exists = true;
        state.record(|| Operation::CreateDir);
        Ok(())
    }

    fn list(&self) -> io::Result<Vec<String>> {
        let state = self.state();
        state.check_exists()?;
        Ok(state.disk.names.keys().cloned().collect())
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
        if state.disk.names.contains_key(name) {
            return Err(ErrorKind::AlreadyExists.into());
        }
        let file = state.new_file();
        state.disk.names.insert(name.to_owned(), Arc::clone(&file));
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
        state.disk.names.remove(from);
        state.disk.names.insert(to.to_owned(), Arc::clone(&file));
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
        state.disk.names.remove(name);
        state.record(|| Operation::Remove {
            name: name.to_owned(),
        });
        Ok(())
    }

    fn sync_dir(&self) -> io::Result<()> {
        let mut state = self.state();
        state.check_exists()?;
        state.mutate()?;
        state.disk.durable_names = state.disk.names.clone();
        state.record(|| Operation::SyncDir);
        Ok(())
    }

    fn lock(&self, name: &str) -> io::Result<Box<dyn LockGuard>> {
        let mut state = self.state();
        state.check_exists()?;
        if state.locked {
            return Err(ErrorKind::WouldBlock.into());
        }
        if !state.disk.names.contains_key(name) {
            let file = state.new_file();
            state.disk.names.insert(name.to_owned(), Arc::clone(&file));
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
        Some(self.state().disk.boot_id)
    }

    fn now(&self) -> Option<SystemTime> {
        match self.state().disk.clock {
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
