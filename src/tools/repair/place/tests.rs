//! A repair in place that is ended at any of its calls, as a kill would, and begun again.
#![expect(
    clippy::disallowed_methods,
    reason = "looks at directories from outside"
)]

use std::collections::BTreeMap;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use super::{Means, rename};
use crate::Db;
use crate::error::Error;
use crate::options::Options;
use crate::storage::{AppendFile, Disk, Io, LockGuard, ReadFile, Storage, SyncFile};

/// What is left of the calls that change something; then all of them fail.
#[derive(Clone, Debug)]
struct Life(Arc<AtomicU64>);

impl Life {
    fn of(calls: u64) -> Life {
        Life(Arc::new(AtomicU64::new(calls)))
    }

    fn spend(&self) -> io::Result<()> {
        let left = |calls: u64| calls.checked_sub(1);
        let order = Ordering::SeqCst;
        match self.0.fetch_update(order, order, left) {
            Ok(_) => Ok(()),
            Err(_) => Err(io::Error::other("killed")),
        }
    }
}

/// A directory that nothing changes any more when the life is over.
#[derive(Debug)]
struct Mortal<T: ?Sized> {
    life: Life,
    inner: Box<T>,
}

impl Storage for Mortal<dyn Storage> {
    fn path_of(&self, name: &str) -> PathBuf {
        self.inner.path_of(name)
    }

    fn create_dir(&self) -> io::Result<()> {
        self.life.spend()?;
        self.inner.create_dir()
    }

    fn list(&self) -> io::Result<Vec<String>> {
        self.inner.list()
    }

    fn open(&self, name: &str) -> io::Result<Arc<dyn ReadFile>> {
        self.inner.open(name)
    }

    fn create(&self, name: &str) -> io::Result<Box<dyn AppendFile>> {
        self.life.spend()?;
        Ok(Box::new(Mortal {
            life: self.life.clone(),
            inner: self.inner.create(name)?,
        }))
    }

    fn rename(&self, from: &str, to: &str) -> io::Result<()> {
        self.life.spend()?;
        self.inner.rename(from, to)
    }

    fn remove(&self, name: &str) -> io::Result<()> {
        self.life.spend()?;
        self.inner.remove(name)
    }

    fn sync_dir(&self) -> io::Result<()> {
        self.life.spend()?;
        self.inner.sync_dir()
    }

    fn lock(&self, name: &str) -> io::Result<Box<dyn LockGuard>> {
        self.inner.lock(name)
    }

    fn boot_id(&self) -> Option<u128> {
        self.inner.boot_id()
    }
}

impl AppendFile for Mortal<dyn AppendFile> {
    fn append(&mut self, parts: &[&[u8]]) -> io::Result<()> {
        if let Err(killed) = self.life.spend() {
            let bytes = parts.concat();
            self.inner.append(&[&bytes[..bytes.len() / 2]])?;
            return Err(killed);
        }
        self.inner.append(parts)
    }

    fn sync(&self) -> io::Result<()> {
        self.life.spend()?;
        self.inner.sync()
    }

    fn syncer(&self) -> Arc<dyn SyncFile> {
        self.inner.syncer()
    }
}

fn exchange(path: &Path, calls: u64) -> crate::Result<PathBuf> {
    let life = Life::of(calls);
    let means = Means {
        open: &|path| {
            let inner: Box<dyn Storage> = Box::new(Disk::new(path, Io::Pread));
            let life = life.clone();
            Arc::new(Mortal { life, inner })
        },
        rename: &|from, to| {
            life.spend().map_err(|error| Error::io(from, error))?;
            rename(from, to)
        },
    };
    let (_, kept) = super::exchange(path, Options::default(), &means, &mut |_| {})?;
    Ok(kept)
}

type Files = BTreeMap<std::ffi::OsString, Vec<u8>>;
type Entries = Vec<(Vec<u8>, Vec<u8>)>;

fn files(path: &Path) -> Files {
    let entries = std::fs::read_dir(path).unwrap().map(|entry| entry.unwrap());
    entries
        .map(|entry| (entry.file_name(), std::fs::read(entry.path()).unwrap()))
        .collect()
}

/// A store without a `CURRENT`, and what it holds.
fn damaged(path: &Path) -> (Files, Entries) {
    let db = Db::open(path).unwrap();
    let mut entries = Vec::new();
    for n in 0..40 {
        let (key, value) = (format!("key{n:02}").into_bytes(), vec![n; 100]);
        db.put(&key, &value).unwrap();
        entries.push((key, value));
        if n == 20 {
            db.flush().unwrap();
        }
    }
    db.close().unwrap();
    std::fs::remove_file(path.join("CURRENT")).unwrap();
    (files(path), entries)
}

fn entries(path: &Path) -> Entries {
    let db = Db::open(path).unwrap();
    assert!(db.stats().recovery.clean);
    db.iter()
        .map(|entry| entry.unwrap())
        .map(|(key, value)| (key.to_vec(), value.to_vec()))
        .collect()
}

/// Nothing of the damaged store is lost, wherever a repair in its place ends; who follows what the
/// next one says has the repaired one.
#[test]
fn a_repair_in_place_can_end_at_any_call() {
    let directory = tempfile::tempdir().unwrap();
    let original = directory.path().join("original");
    let (before, expected) = damaged(&original);
    let (mut left_over, mut between) = (0, 0);
    for calls in 0.. {
        let root = directory.path().join(format!("{calls}"));
        let path = root.join("store");
        let (under_way, first) = (root.join("store.repairing"), root.join("store.damaged-1"));
        std::fs::create_dir_all(&path).unwrap();
        for (name, bytes) in &before {
            std::fs::write(path.join(name), bytes).unwrap();
        }
        let ended = exchange(&path, calls);
        let is_moved = first.is_dir();
        let damaged = if is_moved { &first } else { &path };
        assert_eq!(files(damaged), before, "after {calls} calls");
        if let Ok(kept) = ended {
            assert_eq!(kept, first);
            assert_eq!(entries(&path), expected);
            break;
        }
        if under_way.exists() {
            let told = exchange(&path, u64::MAX).unwrap_err().to_string();
            assert!(told.contains("store.repairing"), "{told}");
            if is_moved {
                between += 1;
                assert!(told.contains("rename that"), "{told}");
                std::fs::rename(&under_way, &path).unwrap();
            } else {
                left_over += 1;
                assert!(told.contains("remove it"), "{told}");
                std::fs::remove_dir_all(&under_way).unwrap();
            }
        }
        if !is_moved {
            assert_eq!(exchange(&path, u64::MAX).unwrap(), first);
            assert_eq!(files(&first), before, "after {calls} calls");
        }
        assert_eq!(entries(&path), expected, "after {calls} calls");
        assert!(!under_way.exists());
    }
    assert!(left_over > 15 && between == 1, "{left_over}, {between}");
}
