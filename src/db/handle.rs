//! The handle of an open store.

use std::fmt;
use std::path::Path;
use std::sync::Arc;

use crate::bounds::{Bounds, KeyRange, prefix_bounds};
use crate::error::{Error, Result};
use crate::format::batch::Operation;
use crate::options::Durability;
use crate::segment::Inspection;
use crate::slice::Slice;
use crate::store::{Session, Store, check_limits};
use crate::tools::{Rebuilt, Verification, rebuild_filters, verify};
use crate::tree::{Explanation, approximate_len, approximate_len_in};

use super::account;
use super::compaction_job::CompactionJob;
use super::iter::Iter;
use super::snapshot::Snapshot;
use super::stats::Stats;

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
    session: Arc<Session>,
}

impl Db {
    pub(super) fn new(session: Session) -> Db {
        Db {
            session: Arc::new(session),
        }
    }

    #[inline]
    pub(crate) fn store(&self) -> &Arc<Store> {
        self.session.store()
    }

    /// The directory of the store.
    pub fn path(&self) -> &Path {
        self.session.path()
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
        self.put_with(key, value, self.store().options().durability)
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
        check_limits(key, value)?;
        self.store()
            .commit_one(Operation::put(key, value), durability)
    }

    /// Deletes a key, with the durability of the store's options. It is no error if the key is
    /// not there.
    ///
    /// # Errors
    ///
    /// As for [`Db::put`].
    pub fn delete(&self, key: impl AsRef<[u8]>) -> Result<()> {
        self.delete_with(key, self.store().options().durability)
    }

    /// Deletes a key, with this durability.
    ///
    /// # Errors
    ///
    /// As for [`Db::put`].
    pub fn delete_with(&self, key: impl AsRef<[u8]>, durability: Durability) -> Result<()> {
        let key = key.as_ref();
        check_limits(key, &[])?;
        self.store().commit_one(Operation::delete(key), durability)
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
        let store = self.store();
        store.monitor().check_open()?;
        store.tree().get(key.as_ref(), || store.visible())
    }

    /// The values of many keys, all as of one moment: as many as there are keys, in their order,
    /// `None` for a key that is absent or deleted.
    ///
    /// Reads what as many calls of [`Db::get`] would read. It takes less time where filters are in
    /// memory but not in the processor's cache: what sixteen keys need first of the filters of up
    /// to twelve runs is fetched at once, and not one after the other. Keys in ascending order find
    /// their neighbours' blocks still in the cache.
    ///
    /// Takes some 40 bytes of memory for each key beside the values, of which each may hold the
    /// memory of its block ([`Slice`]). Memtables and segments of the moment stay until it returns.
    /// For very many keys, ask a [`Snapshot`] for some thousand at a time: it is as of one moment,
    /// too.
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
    /// As for [`Db::get`], with the first key for which there is one; to go on behind it, ask key
    /// by key.
    pub fn get_many<K: AsRef<[u8]>>(
        &self,
        keys: impl IntoIterator<Item = K>,
    ) -> Result<Vec<Option<Slice>>> {
        let keys = Vec::from_iter(keys);
        let store = self.store();
        store.monitor().check_open()?;
        store.tree().get_many(&keys, || store.visible())
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
    pub fn range(&self, range: impl KeyRange) -> Iter {
        self.walk(range.into_bounds())
    }

    /// The entries whose keys begin with `prefix`, in key order, from both ends.
    pub fn prefix(&self, prefix: impl AsRef<[u8]>) -> Iter {
        self.walk(prefix_bounds(prefix.as_ref()))
    }

    fn walk(&self, bounds: Bounds) -> Iter {
        let store = self.store();
        Iter::new(store, None, bounds).refused_by(store.monitor().check_open())
    }

    /// All entries, in key order, from both ends.
    pub fn iter(&self) -> Iter {
        self.prefix(b"")
    }

    /// The first entry in key order; `None` when there is none. Costs what the first step of
    /// [`iter`](Self::iter) costs.
    ///
    /// # Errors
    ///
    /// As for the iterator.
    pub fn first(&self) -> Result<Option<(Slice, Slice)>> {
        self.iter().next().transpose()
    }

    /// The last entry in key order; `None` when there is none.
    ///
    /// # Errors
    ///
    /// As for the iterator.
    pub fn last(&self) -> Result<Option<(Slice, Slice)>> {
        self.iter().next_back().transpose()
    }

    /// Whether there is no entry. Costs what [`first`](Self::first) costs.
    ///
    /// # Errors
    ///
    /// As for the iterator.
    pub fn is_empty(&self) -> Result<bool> {
        Ok(self.first()?.is_none())
    }

    /// The exact number of entries. Walks over all of them: it reads every data block.
    /// [`approximate_len`](Self::approximate_len) reads nothing.
    ///
    /// # Errors
    ///
    /// As for the iterator.
    pub fn len(&self) -> Result<u64> {
        self.iter().count_entries()
    }

    /// The store as it is now, to read at later, also after a [`Db::close`]. One that is taken
    /// after the close says [`Error::Closed`] to whoever reads it.
    pub fn snapshot(&self) -> Snapshot {
        Snapshot::take(self.store())
    }

    /// Makes everything that was written before survive power loss. Concurrent calls share one
    /// fsync.
    ///
    /// # Errors
    ///
    /// As for [`Db::put`].
    pub fn sync(&self) -> Result<()> {
        self.store().sync()
    }

    /// Turns everything that was written before into segments, and waits for it. Not needed in
    /// normal use: full memtables are flushed in the background.
    ///
    /// # Errors
    ///
    /// The failure of the flush; it goes on trying in the background.
    pub fn flush(&self) -> Result<()> {
        self.store().flush()
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
    pub fn compact(&self, range: impl KeyRange) -> Result<CompactionJob> {
        self.flush()?;
        Ok(CompactionJob::new(self.store(), range.into_bounds()))
    }

    /// [`Db::compact`] for all keys.
    ///
    /// # Errors
    ///
    /// As for [`Db::compact`].
    pub fn compact_all(&self) -> Result<CompactionJob> {
        self.flush()?;
        Ok(CompactionJob::new(self.store(), prefix_bounds(b"")))
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
    pub fn rebuild_filters(&self, range: impl KeyRange) -> Result<Rebuilt> {
        rebuild_filters(self.store(), &range.into_bounds())
    }

    /// Closes the store for all handles: everything written survives power loss, and the next
    /// `open` knows that nothing may be missing. Snapshots and iterators can still be read.
    ///
    /// # Errors
    ///
    /// When that could not be done. Whatever was acknowledged as synced is safe all the same.
    pub fn close(self) -> Result<()> {
        self.session.close()
    }

    /// State and counters. Reads nothing. In a forked child all of them are zero.
    pub fn stats(&self) -> Stats {
        if self.store().monitor().origin().is_elsewhere() {
            return Stats::default();
        }
        account::stats(self.store())
    }

    /// About how many keys there are.
    ///
    /// Overwritten values and tombstones do not count, so this is the length of [`Db::iter`],
    /// within about 1 % (standard deviation), 2 % where many keys were deleted by newer runs: see
    /// the table in `docs/architecture.md`. Exact where no key is in two runs at once: in one
    /// memtable, after a full compaction, and for keys that were written in ascending order. Keys
    /// in damaged segments are not counted. In a forked child it is 0.
    ///
    /// Reads nothing and takes no lock. What segments hold is estimated once for each flush or
    /// compaction (some 40 microseconds for each run and one for each segment); a call then costs
    /// some 40 microseconds while memtables hold something, and where there are tombstones that
    /// much for each run; next to nothing when they are empty.
    ///
    /// ```
    /// # fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let dir = tempfile::tempdir()?;
    /// # let db = criba::Db::open(dir.path().join("data"))?;
    /// for key in ["a", "b", "c", "b"] {
    ///     db.put(key, "")?;
    /// }
    /// db.delete("a")?;
    /// assert_eq!(db.approximate_len(), 2);
    /// # Ok(())
    /// # }
    /// ```
    #[must_use]
    pub fn approximate_len(&self) -> u64 {
        if self.store().monitor().origin().is_elsewhere() {
            return 0;
        }
        approximate_len(&self.store().tree().view())
    }

    /// About how many keys there are in a range.
    ///
    /// As for [`Db::approximate_len`]. A segment that lies in the range only in part counts by its
    /// blocks, and within a block as if the keys were spread evenly: to the error comes some part
    /// of a block at each end of the range in each run. Keys that newer runs hide are taken to be
    /// where the newer keys are. What memtables hold in the range is counted entry by entry up to
    /// 8,192 entries; of more keys, `n`, a sample tells with a standard deviation of `8 / sqrt(n)`.
    /// A range of less than a block in each run is a guess.
    ///
    /// Nothing is kept from call to call: some 40 microseconds for each run, and a walk over the
    /// entries of memtables that are counted.
    #[must_use]
    pub fn approximate_len_in(&self, range: impl KeyRange) -> u64 {
        if self.store().monitor().origin().is_elsewhere() {
            return 0;
        }
        approximate_len_in(&self.store().tree().view(), &range.into_bounds())
    }

    /// Looks a key up and tells what it asked, read and saved, run by run.
    ///
    /// # Errors
    ///
    /// As for [`Db::get`].
    pub fn explain(&self, key: impl AsRef<[u8]>) -> Result<Explanation> {
        let store = self.store();
        store.monitor().check_open()?;
        store.tree().explain(key.as_ref(), || store.visible())
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
    pub fn verify(&self, mut watch: impl FnMut(u64, u64)) -> Result<Verification> {
        verify(self.store(), &mut watch)
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
        let store = self.store();
        store.monitor().check_open()?;
        let version = store.tree().version();
        let found = version.segments().find(|one| one.meta.id == segment);
        match found {
            Some(found) => found.inspect(&store.services().caches),
            None => Err(Error::Invalid(format!(
                "no live segment has the number {segment}; `stats` lists those there are"
            ))),
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
            .field("path", &self.session.path())
            .finish_non_exhaustive()
    }
}
