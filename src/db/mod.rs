//! The store as its users see it.

mod account;
mod age;
mod asked;
mod builder;
mod compact;
mod demand;
mod estimate;
pub(crate) mod explain;
mod facts;
mod filters;
mod flush;
mod gaps;
mod insertion;
mod lookup;
mod lookups;
mod open;
mod parts;
mod pause;
mod rebuild;
mod repair;
mod rotate;
mod salvage;
mod scan;
mod shared;
mod snapshot;
mod stall;
pub(crate) mod stats;
mod threads;
mod traffic;
mod verify;
mod write;

pub use asked::CompactionJob;
pub use builder::Builder;
pub use rebuild::Rebuilt;
pub use repair::Repaired;
pub use scan::Iter;
pub use snapshot::Snapshot;
pub use verify::Verification;
pub use write::Batch;

use std::fmt;
use std::ops::RangeBounds;
use std::path::{Path, PathBuf};
use std::sync::atomic::Ordering;
use std::sync::{Arc, PoisonError};

use crate::bounds::{Bounds, owned_bounds, prefix_bounds};
use crate::error::{Error, Result};
use crate::format::batch::Operation;
use crate::options::{Access, Durability, Options};
use crate::segment::Inspection;
use crate::slice::Slice;
use crate::storage::{LockGuard, Storage};

use explain::Explanation;
use shared::{Shared, lock};
use stats::Stats;

/// An open store.
///
/// A handle is cheap to clone and can be used from any number of threads. The store is closed
/// when the last handle is dropped, or by [`Db::close`], which tells of errors.
///
/// A handle works in the process that opened it. In a forked child it, and all that was made by it,
/// returns [`Error::Forked`] and can be dropped without harm. The child cannot open the store
/// before the parent has closed it. If the parent is killed, the store stays locked until its
/// forked children have ended or have executed another program. A daemon opens its stores after
/// its last fork.
///
/// ```
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// # let dir = tempfile::tempdir()?;
/// # let path = dir.path().join("data");
/// let db = criba::Db::open(&path)?;
/// db.put("apple", "red")?;
/// db.put("banana", "yellow")?;
/// assert_eq!(db.get("apple")?.as_deref(), Some(&b"red"[..]));
/// db.delete("apple")?;
/// assert_eq!(db.get("apple")?, None);
/// db.close()?;
/// # Ok(())
/// # }
/// ```
#[derive(Clone)]
pub struct Db {
    inner: Arc<Inner>,
}

/// What ends with the last handle. Snapshots and iterators hold only what they read.
struct Inner {
    shared: Arc<Shared>,
    path: PathBuf,
    /// Held as long as the store is open.
    lock: std::sync::Mutex<Option<Box<dyn LockGuard>>>,
}

impl Db {
    /// Opens the store in this directory, or makes one, with default options.
    ///
    /// # Errors
    ///
    /// As for [`Builder::open`].
    pub fn open(path: impl Into<PathBuf>) -> Result<Db> {
        Db::builder(path).open()
    }

    /// Chooses options for the store in this directory.
    pub fn builder(path: impl Into<PathBuf>) -> Builder {
        Builder::new(path.into())
    }

    fn open_in(path: PathBuf, options: Options, storage: Arc<dyn Storage>) -> Result<Db> {
        let (shared, guard) = open::open(options, storage)?;
        shared.tree_changed();
        let inner = Inner {
            shared,
            path,
            lock: std::sync::Mutex::new(guard),
        };
        Ok(Db {
            inner: Arc::new(inner),
        })
    }

    fn shared(&self) -> &Shared {
        &self.inner.shared
    }

    /// The directory of the store.
    pub fn path(&self) -> &Path {
        &self.inner.path
    }

    /// Sets the value of a key, with the durability of the store's options.
    ///
    /// Keys have 0 to 65,535 bytes (the empty key is a key), values up to 1 GiB.
    ///
    /// # Errors
    ///
    /// [`Error::Invalid`] for a key or value beyond the limits: nothing is written.
    /// [`Error::Poisoned`] when the journal cannot be written or synced: from then on writes are
    /// refused until the store is opened again, and it is unknown whether this one survives.
    /// [`Error::Stalled`] when memory for writes is used up and flushing fails.
    pub fn put(&self, key: impl AsRef<[u8]>, value: impl AsRef<[u8]>) -> Result<()> {
        self.put_with(key, value, self.shared().options.durability)
    }

    /// Sets the value of a key, with this durability.
    ///
    /// # Errors
    ///
    /// As for [`Db::put`].
    pub fn put_with(
        &self,
        key: impl AsRef<[u8]>,
        value: impl AsRef<[u8]>,
        durability: Durability,
    ) -> Result<()> {
        let (key, value) = (key.as_ref(), value.as_ref());
        write::check_limits(key, value)?;
        self.shared()
            .commit_one(Operation::put(key, value), durability)
    }

    /// Deletes a key, with the durability of the store's options. It is no error if the key is
    /// not there.
    ///
    /// # Errors
    ///
    /// As for [`Db::put`].
    pub fn delete(&self, key: impl AsRef<[u8]>) -> Result<()> {
        self.delete_with(key, self.shared().options.durability)
    }

    /// Deletes a key, with this durability.
    ///
    /// # Errors
    ///
    /// As for [`Db::put`].
    pub fn delete_with(&self, key: impl AsRef<[u8]>, durability: Durability) -> Result<()> {
        let key = key.as_ref();
        write::check_limits(key, &[])?;
        self.shared().commit_one(Operation::delete(key), durability)
    }

    /// Begins a batch of writes that are committed together.
    pub fn batch(&self) -> Batch {
        Batch::new(self.clone())
    }

    /// The value of a key.
    ///
    /// Reads at most one data block for each run whose filter does not rule the key out, and
    /// none for a key that is in a memtable; see [`Db::explain`].
    ///
    /// # Errors
    ///
    /// [`Error::Corrupt`] when a block on the way is damaged, [`Error::Io`] when it cannot be
    /// read. Other keys can still be read.
    pub fn get(&self, key: impl AsRef<[u8]>) -> Result<Option<Slice>> {
        self.shared().check_open()?;
        self.shared().get(key.as_ref(), None)
    }

    /// The values of many keys, all as of one moment: as many as there are keys, in their order, `None` for
    /// a key that is absent or deleted.
    ///
    /// Reads what as many calls of [`Db::get`] would read. It takes less time where filters are in memory but
    /// not in the processor's cache: what sixteen keys need first of the filters of up to twelve runs is
    /// fetched at once, and not one after the other. Keys in ascending order find their neighbours' blocks
    /// still in the cache.
    ///
    /// Takes some 40 bytes of memory for each key beside the values, of which each may hold the memory of its
    /// block ([`Slice`]). Memtables and segments of the moment stay until it returns. For very many keys, ask
    /// a [`Snapshot`] for some thousand at a time: it is as of one moment, too.
    ///
    /// ```
    /// # fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let dir = tempfile::tempdir()?;
    /// # let db = criba::Db::open(dir.path().join("data"))?;
    /// db.put("a", "1")?;
    /// let values = db.get_many(&["a", "b"])?;
    /// assert_eq!(values[0].as_deref(), Some(&b"1"[..]));
    /// assert_eq!(values[1], None);
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    ///
    /// As for [`Db::get`], with the first key for which there is one; to go on behind it, ask key by key.
    pub fn get_many<K: AsRef<[u8]>>(&self, keys: &[K]) -> Result<Vec<Option<Slice>>> {
        self.shared().check_open()?;
        self.shared().get_many(keys, None)
    }

    /// Whether a key is there. Cost as for [`Db::get`].
    ///
    /// # Errors
    ///
    /// As for [`Db::get`].
    pub fn contains_key(&self, key: impl AsRef<[u8]>) -> Result<bool> {
        Ok(self.get(key)?.is_some())
    }

    /// The entries of a range of keys, in key order, from both ends. A range that ends before it
    /// begins is empty. Of a closed store it returns [`Error::Closed`] and nothing else.
    ///
    /// ```
    /// # fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let dir = tempfile::tempdir()?;
    /// # let db = criba::Db::open(dir.path().join("data"))?;
    /// for (key, value) in [("a", "1"), ("b", "2"), ("c", "3")] {
    ///     db.put(key, value)?;
    /// }
    /// for entry in db.range("a".."c").rev() {
    ///     let (key, value) = entry?;
    ///     println!("{key:?} {value:?}");
    /// }
    /// # Ok(())
    /// # }
    /// ```
    pub fn range<K: AsRef<[u8]>>(&self, range: impl RangeBounds<K>) -> Iter {
        self.walk(owned_bounds(&range))
    }

    /// The entries whose keys begin with `prefix`, in key order, from both ends.
    pub fn prefix(&self, prefix: impl AsRef<[u8]>) -> Iter {
        self.walk(prefix_bounds(prefix.as_ref()))
    }

    fn walk(&self, bounds: Bounds) -> Iter {
        Iter::new(self.shared(), None, bounds).refused_by(self.shared().check_open())
    }

    /// All entries, in key order, from both ends.
    pub fn iter(&self) -> Iter {
        self.prefix(b"")
    }

    /// The store as it is now, to read at later, also after a [`Db::close`]. One that is taken
    /// after the close says [`Error::Closed`] to whoever reads it.
    pub fn snapshot(&self) -> Snapshot {
        Snapshot::take(&self.inner.shared)
    }

    /// Makes everything that was written before survive power loss. Concurrent calls share one
    /// fsync.
    ///
    /// # Errors
    ///
    /// As for [`Db::put`].
    pub fn sync(&self) -> Result<()> {
        self.shared().check_writable()?;
        self.shared().sync_to(self.shared().visible())
    }

    /// Turns everything that was written before into segments, and waits for it. Not needed in
    /// normal use: full memtables are flushed in the background.
    ///
    /// # Errors
    ///
    /// The failure of the flush; it goes on trying in the background.
    pub fn flush(&self) -> Result<()> {
        self.shared().flush()
    }

    /// Merges all entries of a range of keys into the last level, in the background: overwritten
    /// entries and tombstones go, filters are rebuilt. Writes before the call that are not yet in
    /// segments are flushed first.
    ///
    /// Not needed in normal use. Reads and writes everything in the range once. Under
    /// [`Strategy::Fifo`](crate::Strategy::Fifo) nothing is merged, as runs can only be removed as
    /// they are: what is too much or too old is removed, whatever the range.
    ///
    /// # Errors
    ///
    /// The failure of the flush; the compaction's own come from [`CompactionJob::wait`].
    pub fn compact<K: AsRef<[u8]>>(&self, range: impl RangeBounds<K>) -> Result<CompactionJob> {
        self.flush()?;
        Ok(self.shared().ask_compaction(owned_bounds(&range)))
    }

    /// [`Db::compact`] for all keys.
    ///
    /// # Errors
    ///
    /// As for [`Db::compact`].
    pub fn compact_all(&self) -> Result<CompactionJob> {
        self.flush()?;
        Ok(self.shared().ask_compaction(prefix_bounds(b"")))
    }

    /// Builds filters anew where they are not what the policy now asks for, or damaged, without
    /// rewriting data: the new filter is a file of its own beside the segment. All segments that
    /// overlap the range are looked at.
    ///
    /// Reads every data block of these segments once and writes only filters. Compaction makes
    /// fitting filters by itself, for what it rewrites; this is for the rest, after a change of
    /// the policy or of the shape of the tree.
    ///
    /// # Errors
    ///
    /// What reading and writing give; filters that were finished before are in use.
    pub fn rebuild_filters<K: AsRef<[u8]>>(&self, range: impl RangeBounds<K>) -> Result<Rebuilt> {
        self.shared().check_writable()?;
        self.shared().rebuild_filters(&owned_bounds(&range))
    }

    /// Closes the store for all handles: everything written survives power loss, and the next
    /// `open` knows that nothing may be missing. Snapshots and iterators can still be read.
    ///
    /// # Errors
    ///
    /// When that could not be done. Whatever was acknowledged as synced is safe all the same.
    pub fn close(self) -> Result<()> {
        self.inner.close()
    }

    /// State and counters. Reads nothing. In a forked child all of them are zero.
    pub fn stats(&self) -> Stats {
        if self.shared().origin.is_elsewhere() {
            return Stats::default();
        }
        self.shared().stats()
    }

    /// Looks a key up and tells what it asked, read and saved, run by run.
    ///
    /// # Errors
    ///
    /// As for [`Db::get`].
    pub fn explain(&self, key: impl AsRef<[u8]>) -> Result<Explanation> {
        self.shared().check_open()?;
        self.shared().explain(key.as_ref())
    }

    /// Reads all segments whole and verifies them: every checksum, the order of entries, that index
    /// and filter lead to every key, that counts are right, that the segments of a run do not
    /// overlap and that newer runs hold newer entries. Journals and manifest were verified by
    /// `open`. The caches are passed by.
    ///
    /// `watch` is told now and then how many of how many entries were read. Costs a read for each
    /// data block and each filter page. Writes and compactions go on meanwhile; what is verified is
    /// the version of the beginning.
    ///
    /// # Errors
    ///
    /// [`Error::Closed`]. What is wrong on disk is no error here, but among the findings.
    pub fn verify(&self, watch: &mut dyn FnMut(u64, u64)) -> Result<Verification> {
        self.shared().verify(watch)
    }

    /// Reads one segment whole and verifies all its blocks. The number is that of
    /// [`SegmentStats::id`](crate::SegmentStats::id).
    ///
    /// Costs a read for each block that is not in the cache.
    ///
    /// # Errors
    ///
    /// [`Error::Invalid`] when no segment has this number, otherwise as for [`Db::get`].
    pub fn inspect(&self, segment: u64) -> Result<Inspection> {
        self.shared().check_open()?;
        let view = self.shared().view.load_full();
        let found = view.version.segments().find(|one| one.meta.id == segment);
        match found {
            Some(found) => found.inspect(&self.shared().caches),
            None => Err(Error::Invalid(format!(
                "no live segment has the number {segment}; `stats` lists those there are"
            ))),
        }
    }
}

impl Inner {
    fn close(&self) -> Result<()> {
        self.shared.origin.check()?;
        if self.shared.closed.swap(true, Ordering::AcqRel) {
            return Err(Error::Closed);
        }
        lock(&self.shared.flushing).stop = true;
        self.shared.flush_work.notify_all();
        self.shared.flush_done.notify_all();
        self.shared.stop_compactions();
        let threads = lock(&self.shared.threads).end();
        if threads.into_iter().any(|thread| thread.join().is_err()) {
            let what = "a background thread panicked".to_owned();
            return Err(Error::Bug { what });
        }
        let result = self.shared.finish();
        // Under the lock: the next session looks at what files there are.
        self.shared.storage.finish_removals();
        drop(lock(&self.lock).take());
        result
    }
}

impl Shared {
    /// The end of a session: all synced, and `CURRENT` marked clean if it has written.
    fn finish(&self) -> Result<()> {
        self.check_sound()?;
        if self.options.access == Access::ReadOnly {
            return Ok(());
        }
        self.forget_ready_journal();
        if lock(&self.writer).journal.is_none() {
            self.sync_to(self.visible())?;
            return self.save_traffic();
        }
        let last = self.sync_last()?;
        self.save_traffic()?;
        lock(&self.manifest)
            .mark_clean(last)
            .map_err(|error| self.poison(error))
    }
}

/// The fallback for who does not call [`Db::close`]; its errors are lost.
impl Drop for Inner {
    fn drop(&mut self) {
        if self.shared.origin.is_elsewhere() {
            self.shared.leak();
            let guard = self.lock.get_mut();
            std::mem::forget(guard.unwrap_or_else(PoisonError::into_inner).take());
        } else {
            drop(self.close());
        }
    }
}

impl IntoIterator for &Db {
    type Item = Result<(Slice, Slice)>;
    type IntoIter = Iter;

    fn into_iter(self) -> Iter {
        self.iter()
    }
}

impl fmt::Debug for Db {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Db")
            .field("path", &self.inner.path)
            .finish_non_exhaustive()
    }
}
