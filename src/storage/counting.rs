//! A storage that counts: how many reads, of how many bytes, why and of which file.
//!
//! The counters of a file hang on its open handle, so that a read takes no lock. Counts are exact
//! once the reads are over; while others read, they are a little behind.

use std::collections::HashMap;
use std::io;
use std::path::PathBuf;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::SystemTime;

use super::{
    AppendFile, LockGuard, ReadCause, ReadFile, ReadManyBy, ReadRequest, Storage, SyncFile,
};
use crate::sharded_counter::ShardedCounter;
use crate::slice::Slice;

const CAUSES: usize = ReadCause::ALL.len();

/// Reads of one cause.
///
/// ```
/// use criba::storage::ReadCause;
///
/// # fn main() -> criba::Result<()> {
/// # let dir = tempfile::tempdir().unwrap();
/// # let db = criba::Db::open(dir.path().join("data"))?;
/// db.put("apple", "red")?;
/// db.flush()?;
/// db.get("apple")?;
/// let count = db.stats().reads.get(ReadCause::Data);
/// assert_eq!(count.calls, 1);
/// assert!(count.bytes <= 4096);
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default)]
pub struct ReadCount {
    /// Successful reads.
    pub calls: u64,
    /// Bytes they returned.
    pub bytes: u64,
}

/// Reads by their cause.
///
/// ```
/// use criba::storage::ReadCause;
///
/// # fn main() -> criba::Result<()> {
/// # let dir = tempfile::tempdir().unwrap();
/// # let db = criba::Db::open(dir.path().join("data"))?;
/// db.put("apple", "red")?;
/// db.flush()?;
/// let before = db.stats().reads;
/// db.get("apple")?;
/// // All reads of a lookup, and those of data blocks among them.
/// let reads = db.stats().reads.since(&before);
/// assert_eq!(reads.sum().calls, 1);
/// assert_eq!(reads.get(ReadCause::Data), reads.sum());
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default)]
pub struct ReadCounts {
    counts: [ReadCount; CAUSES],
}

impl ReadCounts {
    /// Reads made for this cause.
    #[must_use]
    pub fn get(&self, cause: ReadCause) -> ReadCount {
        self.counts[slot(cause)]
    }

    /// Reads of every cause together.
    #[must_use]
    pub fn sum(&self) -> ReadCount {
        self.counts
            .iter()
            .fold(ReadCount::default(), |sum, count| ReadCount {
                calls: sum.calls + count.calls,
                bytes: sum.bytes + count.bytes,
            })
    }

    /// Reads made since these counts had been taken.
    #[must_use]
    pub fn since(&self, earlier: &ReadCounts) -> ReadCounts {
        let mut counts = self.counts;
        for (count, before) in counts.iter_mut().zip(&earlier.counts) {
            count.calls = count.calls.saturating_sub(before.calls);
            count.bytes = count.bytes.saturating_sub(before.bytes);
        }
        ReadCounts { counts }
    }
}

fn slot(cause: ReadCause) -> usize {
    match cause {
        ReadCause::Filter => 0,
        ReadCause::Index => 1,
        ReadCause::Data => 2,
        ReadCause::Open => 3,
    }
}

/// Counts the calls and bytes that pass through it to another storage. Clones share their counts.
///
/// ```
/// use std::sync::Arc;
/// use criba::Db;
/// use criba::storage::{Counting, Disk, Io, ReadCause};
///
/// # fn main() -> criba::Result<()> {
/// # let dir = tempfile::tempdir().unwrap();
/// # let path = dir.path().join("data");
/// let counting = Counting::new(Arc::new(Disk::new(&path, Io::Pread)));
/// let db = Db::builder(&path)
///     .storage(Arc::new(counting.clone()))
///     .open()?;
/// db.put("apple", "red")?;
/// db.flush()?;
/// assert!(counting.written_bytes() > 0 && counting.syncs() > 0);
/// db.get("apple")?;
/// assert_eq!(counting.total().get(ReadCause::Data).calls, 1);
/// let segment = format!("{:06}.seg", db.stats().segments().next().unwrap().id);
/// assert_eq!(counting.of(&segment).unwrap().get(ReadCause::Data).calls, 1);
/// // One key needs one read.
/// assert_eq!(counting.read_batches(), 0);
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Debug)]
pub struct Counting {
    inner: Arc<dyn Storage>,
    shared: Arc<Shared>,
}

#[derive(Debug, Default)]
struct Shared {
    total: Counters,
    written_bytes: AtomicU64,
    syncs: AtomicU64,
    read_batches: AtomicU64,
    files: Mutex<HashMap<String, Arc<Counters>>>,
}

/// Calls by cause, then bytes by cause: threads that read at once do not wait for each other.
#[derive(Debug, Default)]
struct Counters(ShardedCounter<{ 2 * CAUSES }>);

impl Counters {
    fn add(&self, cause: ReadCause, bytes: u64) {
        let mine = self.0.mine();
        mine.add(slot(cause), 1);
        mine.add(CAUSES + slot(cause), bytes);
    }

    fn load(&self) -> ReadCounts {
        let sums = self.0.sums();
        let counts = std::array::from_fn(|slot| ReadCount {
            calls: sums[slot],
            bytes: sums[CAUSES + slot],
        });
        ReadCounts { counts }
    }
}

impl Counting {
    /// Counts the calls and bytes that go to `inner`, from zero.
    pub fn new(inner: Arc<dyn Storage>) -> Counting {
        Counting {
            inner,
            shared: Arc::default(),
        }
    }

    /// Reads of all files, also of those that are gone.
    #[must_use]
    pub fn total(&self) -> ReadCounts {
        self.shared.total.load()
    }

    /// Reads of one file, under all its names; `None` when no file of this name has been opened
    /// or created here. The counts end with the name: a new file begins at zero.
    #[must_use]
    pub fn of(&self, name: &str) -> Option<ReadCounts> {
        self.files().get(name).map(|counters| counters.load())
    }

    /// Bytes appended to all files.
    #[must_use]
    pub fn written_bytes(&self) -> u64 {
        self.shared.written_bytes.load(Ordering::Relaxed)
    }

    /// Syncs of files and of the directory that succeeded.
    #[must_use]
    pub fn syncs(&self) -> u64 {
        self.shared.syncs.load(Ordering::Relaxed)
    }

    /// How often several reads were made together: calls of [`Storage::read_many`] with more than
    /// one request. Each of their reads is counted by itself, too.
    #[must_use]
    pub fn read_batches(&self) -> u64 {
        self.shared.read_batches.load(Ordering::Relaxed)
    }

    fn files(&self) -> MutexGuard<'_, HashMap<String, Arc<Counters>>> {
        self.shared
            .files
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
    }
}

impl Shared {
    fn synced(&self, result: io::Result<()>) -> io::Result<()> {
        if result.is_ok() {
            self.syncs.fetch_add(1, Ordering::Relaxed);
        }
        result
    }
}

impl Storage for Counting {
    fn path_of(&self, name: &str) -> PathBuf {
        self.inner.path_of(name)
    }

    fn create_dir(&self) -> io::Result<()> {
        self.inner.create_dir()
    }

    fn check_room(&self) -> io::Result<()> {
        self.inner.check_room()
    }

    fn local_path(&self, name: &str) -> Option<PathBuf> {
        self.inner.local_path(name)
    }

    fn list(&self) -> io::Result<Vec<String>> {
        self.inner.list()
    }

    fn open(&self, name: &str) -> io::Result<Arc<dyn ReadFile>> {
        let inner = self.inner.open(name)?;
        let counters = Arc::clone(self.files().entry(name.to_owned()).or_default());
        Ok(Arc::new(CountedRead {
            inner,
            counters,
            shared: Arc::clone(&self.shared),
        }))
    }

    fn read_many(&self, requests: &[ReadRequest<'_>]) -> Vec<io::Result<Slice>> {
        if requests.len() > 1 {
            self.shared.read_batches.fetch_add(1, Ordering::Relaxed);
        }
        let mut inner = requests.to_vec();
        for request in &mut inner {
            if let Some(file) = request.file_as::<CountedRead>() {
                request.file = &*file.inner;
            }
        }
        let results = self.inner.read_many(&inner);
        for (request, result) in requests.iter().zip(&results) {
            if let (Some(file), Ok(slice)) = (request.file_as::<CountedRead>(), result) {
                file.count(request.cause, slice.len());
            }
        }
        results
    }

    fn read_many_by(&self) -> Option<ReadManyBy> {
        self.inner.read_many_by()
    }

    fn create(&self, name: &str) -> io::Result<Box<dyn AppendFile>> {
        let inner = self.inner.create(name)?;
        self.files().insert(name.to_owned(), Arc::default());
        Ok(Box::new(CountedAppend {
            inner,
            shared: Arc::clone(&self.shared),
        }))
    }

    fn rename(&self, from: &str, to: &str) -> io::Result<()> {
        self.inner.rename(from, to)?;
        let mut files = self.files();
        let moved = files.remove(from).unwrap_or_default();
        files.insert(to.to_owned(), moved);
        Ok(())
    }

    fn remove(&self, name: &str) -> io::Result<()> {
        self.inner.remove(name)?;
        self.files().remove(name);
        Ok(())
    }

    fn sync_dir(&self) -> io::Result<()> {
        self.shared.synced(self.inner.sync_dir())
    }

    fn lock(&self, name: &str) -> io::Result<Box<dyn LockGuard>> {
        self.inner.lock(name)
    }

    fn fill_random(&self, bytes: &mut [u8]) -> io::Result<()> {
        self.inner.fill_random(bytes)
    }

    fn lock_shared(&self, name: &str) -> io::Result<Option<Box<dyn LockGuard>>> {
        self.inner.lock_shared(name)
    }

    fn boot_id(&self) -> Option<u128> {
        self.inner.boot_id()
    }

    fn now(&self) -> Option<SystemTime> {
        self.inner.now()
    }
}

#[derive(Debug)]
struct CountedRead {
    inner: Arc<dyn ReadFile>,
    counters: Arc<Counters>,
    shared: Arc<Shared>,
}

impl CountedRead {
    fn count(&self, cause: ReadCause, len: usize) {
        self.counters.add(cause, len as u64);
        self.shared.total.add(cause, len as u64);
    }
}

impl ReadFile for CountedRead {
    fn len(&self) -> u64 {
        self.inner.len()
    }

    fn read(&self, cause: ReadCause, offset: u64, len: usize) -> io::Result<Slice> {
        let slice = self.inner.read(cause, offset, len)?;
        self.count(cause, len);
        Ok(slice)
    }

    fn will_read(&self, offset: u64, len: u64) {
        self.inner.will_read(offset, len);
    }

    fn mapped(&self) -> Option<Slice> {
        self.inner.mapped()
    }
}

#[derive(Debug)]
struct CountedAppend {
    inner: Box<dyn AppendFile>,
    shared: Arc<Shared>,
}

impl AppendFile for CountedAppend {
    fn append(&mut self, parts: &[&[u8]]) -> io::Result<()> {
        self.inner.append(parts)?;
        let bytes: usize = parts.iter().map(|part| part.len()).sum();
        self.shared
            .written_bytes
            .fetch_add(bytes as u64, Ordering::Relaxed);
        Ok(())
    }

    fn reserve(&mut self) {
        self.inner.reserve();
    }

    fn sync(&self) -> io::Result<()> {
        self.shared.synced(self.inner.sync())
    }

    fn syncer(&self) -> Arc<dyn SyncFile> {
        Arc::new(CountedSync {
            inner: self.inner.syncer(),
            shared: Arc::clone(&self.shared),
        })
    }
}

#[derive(Debug)]
struct CountedSync {
    inner: Arc<dyn SyncFile>,
    shared: Arc<Shared>,
}

impl SyncFile for CountedSync {
    fn sync(&self) -> io::Result<()> {
        self.shared.synced(self.inner.sync())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sim::Memory;

    #[test]
    fn counts_by_cause_and_file() {
        let counting = Counting::new(Arc::new(Memory::new()));
        counting.create_dir().unwrap();
        let mut file = counting.create("a").unwrap();
        file.append(&[b"0123456789"]).unwrap();
        file.sync().unwrap();
        file.syncer().sync().unwrap();
        counting.sync_dir().unwrap();
        assert_eq!((counting.written_bytes(), counting.syncs()), (10, 3));

        let reader = counting.open("a").unwrap();
        let before = counting.total();
        assert_eq!(counting.of("a"), Some(ReadCounts::default()));
        assert_eq!(counting.of("b"), None);
        reader.read(ReadCause::Data, 0, 4).unwrap();
        reader.read(ReadCause::Data, 4, 4).unwrap();
        reader.read(ReadCause::Filter, 0, 1).unwrap();
        assert!(reader.read(ReadCause::Filter, 0, 11).is_err());
        let counts = counting.of("a").unwrap();
        assert_eq!(
            counts.get(ReadCause::Data),
            ReadCount { calls: 2, bytes: 8 }
        );
        assert_eq!(counts.get(ReadCause::Index), ReadCount::default());
        assert_eq!(counts.sum(), ReadCount { calls: 3, bytes: 9 });
        assert_eq!(counting.total().since(&before), counts);

        counting.rename("a", "b").unwrap();
        reader.read(ReadCause::Open, 0, 10).unwrap();
        assert_eq!(counting.of("a"), None);
        assert_eq!(counting.of("b").unwrap().get(ReadCause::Open).bytes, 10);
        counting.remove("b").unwrap();
        assert_eq!(counting.of("b"), None);
        assert_eq!(
            counting.clone().total().sum(),
            ReadCount {
                calls: 4,
                bytes: 19
            }
        );
    }
}
