//! Bugs planted on purpose: a campaign that would not find them proves nothing.
//!
//! Each is a layer between store and disk that leaves something out or does it wrong, as a store
//! with that bug would. What crashes leave is then opened without the layer.

use std::io;
use std::path::PathBuf;
use std::sync::{Arc, Mutex};
use std::time::SystemTime;

use criba::sim::Memory;
use criba::storage::{AppendFile, LockGuard, ReadFile, Storage, SyncFile};

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Bug {
    /// Files with this ending, or beginning, are never synced.
    NoSync(&'static str),
    /// The directory is never synced.
    NoSyncDir,
    /// The directory is not synced when the last change of names was this.
    NoSyncDirAfter(Change),
    /// Files are removed one change of names too early: before the one that makes them obsolete.
    RenameInTwoSteps,
    /// What is appended is handed over with the next call on the file only.
    LateAppend,
    /// The last byte of a long append is not written.
    ShortAppend,
    /// The syncs of a file from another thread do nothing.
    NoSyncFromElsewhere,
    /// Long appends are made in two steps: the first byte is there before the last one.
    AppendInTwo,
    /// Journals go as soon as a segment is created.
    JournalsGoEarly,
}

/// What happened to a name.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Change {
    CreateJournal,
    CreateSegment,
    Rename,
}

pub(crate) const BUGS: [Bug; 15] = [
    Bug::NoSync(".journal"),
    Bug::NoSync(".seg"),
    Bug::NoSync(".filter"),
    Bug::NoSync("MANIFEST"),
    Bug::NoSync("CURRENT"),
    // What was recovered is not made durable before what follows is acknowledged.
    Bug::NoSync(".journal.next"),
    Bug::NoSyncDir,
    Bug::NoSyncDirAfter(Change::CreateJournal),
    Bug::NoSyncDirAfter(Change::CreateSegment),
    Bug::NoSyncDirAfter(Change::Rename),
    Bug::RenameInTwoSteps,
    Bug::LateAppend,
    Bug::ShortAppend,
    Bug::AppendInTwo,
    Bug::JournalsGoEarly,
];

#[derive(Clone, Debug)]
pub(crate) struct Planted {
    memory: Memory,
    bug: Bug,
    last_change: Arc<Mutex<Option<Change>>>,
}

impl Planted {
    pub(crate) fn new(memory: Memory, bug: Bug) -> Planted {
        Planted {
            memory,
            bug,
            last_change: Arc::default(),
        }
    }

    fn changed(&self, change: Option<Change>) {
        *self.last_change.lock().unwrap() = change;
    }

    fn syncs(&self, name: &str) -> bool {
        !matches!(self.bug, Bug::NoSync(part) if name.contains(part))
    }
}

impl Storage for Planted {
    fn path_of(&self, name: &str) -> PathBuf {
        self.memory.path_of(name)
    }

    fn create_dir(&self) -> io::Result<()> {
        self.memory.create_dir()
    }

    fn list(&self) -> io::Result<Vec<String>> {
        self.memory.list()
    }

    fn open(&self, name: &str) -> io::Result<Arc<dyn ReadFile>> {
        self.memory.open(name)
    }

    fn create(&self, name: &str) -> io::Result<Box<dyn AppendFile>> {
        let inner = self.memory.create(name)?;
        self.changed(match name.split_once('.') {
            Some((_, "journal")) => Some(Change::CreateJournal),
            Some((_, "seg")) => Some(Change::CreateSegment),
            _ => None,
        });
        if self.bug == Bug::JournalsGoEarly && name.ends_with(".seg") {
            let names = self.memory.list()?;
            for journal in names
                .iter()
                .filter(|name| name.ends_with(".journal"))
                .rev()
                .skip(1)
            {
                self.memory.remove(journal)?;
            }
        }
        Ok(Box::new(Append {
            inner,
            bug: self.bug,
            syncs: self.syncs(name),
            held: Vec::new(),
        }))
    }

    fn rename(&self, from: &str, to: &str) -> io::Result<()> {
        self.changed(Some(Change::Rename));
        if self.bug == Bug::RenameInTwoSteps && self.memory.bytes_of(to).is_some() {
            self.memory.remove(to)?;
        }
        self.memory.rename(from, to)
    }

    fn remove(&self, name: &str) -> io::Result<()> {
        if self.bug == Bug::JournalsGoEarly && self.memory.bytes_of(name).is_none() {
            return Ok(());
        }
        self.memory.remove(name)
    }

    fn sync_dir(&self) -> io::Result<()> {
        let last = *self.last_change.lock().unwrap();
        match self.bug {
            Bug::NoSyncDir => Ok(()),
            Bug::NoSyncDirAfter(change) if last == Some(change) => Ok(()),
            _ => self.memory.sync_dir(),
        }
    }

    fn lock(&self, name: &str) -> io::Result<Box<dyn LockGuard>> {
        self.memory.lock(name)
    }

    fn boot_id(&self) -> Option<u128> {
        self.memory.boot_id()
    }

    fn now(&self) -> Option<SystemTime> {
        self.memory.now()
    }
}

#[derive(Debug)]
struct Append {
    inner: Box<dyn AppendFile>,
    bug: Bug,
    syncs: bool,
    held: Vec<u8>,
}

impl AppendFile for Append {
    fn append(&mut self, parts: &[&[u8]]) -> io::Result<()> {
        let bytes = parts.concat();
        match self.bug {
            Bug::LateAppend => {
                let held = std::mem::replace(&mut self.held, bytes);
                self.inner.append(&[&held])
            }
            Bug::ShortAppend if bytes.len() > 512 => {
                self.inner.append(&[&bytes[..bytes.len() - 1]])
            }
            Bug::AppendInTwo if bytes.len() > 40 => {
                self.inner.append(&[&bytes[..40]])?;
                self.inner.append(&[&bytes[40..]])
            }
            _ => self.inner.append(parts),
        }
    }

    fn reserve(&mut self) {
        self.inner.reserve();
    }

    fn sync(&self) -> io::Result<()> {
        if self.syncs {
            self.inner.sync()
        } else {
            Ok(())
        }
    }

    fn syncer(&self) -> Arc<dyn SyncFile> {
        Arc::new(Syncer {
            inner: self.inner.syncer(),
            syncs: self.syncs && self.bug != Bug::NoSyncFromElsewhere,
        })
    }
}

#[derive(Debug)]
struct Syncer {
    inner: Arc<dyn SyncFile>,
    syncs: bool,
}

impl SyncFile for Syncer {
    fn sync(&self) -> io::Result<()> {
        if self.syncs {
            self.inner.sync()
        } else {
            Ok(())
        }
    }
}
