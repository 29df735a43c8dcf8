//! Keeps a store in shape, and looks into it.

use std::path::Path;
use std::sync::Arc;

use crate::bounds::{KeyRange, prefix_bounds};
use crate::error::{Error, Result};
use crate::segment::Inspection;
use crate::storage::Storage;
use crate::tools::{
    Checkpoint, Rebuilt, Verification, checkpoint, checkpoint_to, disk_bytes, rebuild_filters,
    verify,
};
use crate::tree::{Explanation, RangeExplanation, approximate_len, approximate_len_in};

use super::account;
use super::compaction_job::CompactionJob;
use super::handle::Db;
use super::keyspace::Keyspace;
use super::stats::Stats;

impl Keyspace {
    /// Turns everything that was written before into segments, and waits for it. Not needed in
    /// normal use: full memtables are flushed in the background.
    ///
    /// ```
    /// # fn main() -> criba::Result<()> {
    /// # let dir = tempfile::tempdir().unwrap();
    /// # let db = criba::Db::open(dir.path().join("data"))?;
    /// db.put("apple", "red")?;
    /// assert_eq!(db.stats().memtable.active_entries, 1);
    /// db.flush()?;
    /// let stats = db.stats();
    /// assert_eq!(stats.memtable.active_entries, 0);
    /// assert_eq!(stats.segments().count(), 1);
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    ///
    /// The failure of the flush. The store goes on trying in the background.
    pub fn flush(&self) -> Result<()> {
        self.store().flush()
    }

    /// Merges all entries of a range of keys into the last level, in the background: overwritten
    /// entries and tombstones go, filters are rebuilt. Writes before the call that are not yet in
    /// segments are flushed first.
    ///
    /// Not needed in normal use. Reads and writes everything in the range once. Under
    /// [`Strategy::Fifo`](crate::Strategy::Fifo) nothing is merged: runs that are too old, or too
    /// much for the size allowed, are removed, whatever the range.
    ///
    /// ```
    /// # fn main() -> criba::Result<()> {
    /// # let dir = tempfile::tempdir().unwrap();
    /// # let db = criba::Db::open(dir.path().join("data"))?;
    /// for value in ["1", "2"] {
    ///     db.put("apple", value)?;
    ///     db.flush()?;
    /// }
    /// db.compact("a".."b")?.wait()?;
    /// // The older value is gone from the disk.
    /// let stats = db.stats();
    /// assert_eq!(stats.segments().map(|one| one.entries).sum::<u64>(), 1);
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    ///
    /// The failure of the flush; the compaction's own come from [`CompactionJob::wait`].
    pub fn compact(&self, range: impl KeyRange) -> Result<CompactionJob> {
        self.flush()?;
        Ok(CompactionJob::new(
            self.store(),
            self.tree(),
            range.into_bounds(),
        ))
    }

    /// [`Keyspace::compact`] for all keys.
    ///
    /// ```
    /// # fn main() -> criba::Result<()> {
    /// # let dir = tempfile::tempdir().unwrap();
    /// # let db = criba::Db::open(dir.path().join("data"))?;
    /// for key in ["apple", "banana"] {
    ///     db.put(key, "")?;
    ///     db.flush()?;
    /// }
    /// db.compact_all()?.wait()?;
    /// assert_eq!(db.stats().runs.len(), 1);
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    ///
    /// As for [`Keyspace::compact`].
    pub fn compact_all(&self) -> Result<CompactionJob> {
        self.flush()?;
        Ok(CompactionJob::new(
            self.store(),
            self.tree(),
            prefix_bounds(b""),
        ))
    }

    /// Builds filters anew where they are damaged or do not fit the policy of this `open`, for all
    /// segments that overlap the range. Data is not rewritten: the new filter is a file of its own
    /// beside the segment.
    ///
    /// Reads every data block of these segments once and writes only filters. A compaction makes
    /// fitting filters by itself for the segments that it writes. This call is for the others,
    /// after a change of the policy or of the shape of the tree. Calls `watch` after each segment with
    /// the number of entries done and the number of all.
    ///
    /// ```
    /// use criba::{BloomierBits, Db, FilterPolicy};
    ///
    /// # fn main() -> criba::Result<()> {
    /// # let dir = tempfile::tempdir().unwrap();
    /// # let path = dir.path().join("data");
    /// # let db = Db::builder(&path).filter(FilterPolicy::None).open()?;
    /// # for key in ["apple", "banana"] {
    /// #     db.put(key, "")?;
    /// # }
    /// # db.flush()?;
    /// # db.close()?;
    /// // The store has one segment so far, and that has no filter.
    /// let policy = FilterPolicy::Bloomier(BloomierBits::Block);
    /// let db = Db::builder(&path).filter(policy).open()?;
    /// let watch = |done, all| println!("{done} of {all} entries");
    /// let done = db.rebuild_filters(.., watch)?;
    /// assert_eq!((done.segments, done.rebuilt), (1, 1));
    /// let stats = db.stats();
    /// let filter = stats.segments().next().unwrap().filter.as_ref();
    /// assert_eq!(filter.unwrap().kind, "bloomier");
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    ///
    /// Failures of reading and writing. Filters that were finished before are in use.
    pub fn rebuild_filters(
        &self,
        range: impl KeyRange,
        mut watch: impl FnMut(u64, u64),
    ) -> Result<Rebuilt> {
        rebuild_filters(self.store(), self.tree(), &range.into_bounds(), &mut watch)
    }

    /// State and counters. Reads nothing. In a forked child all of them are zero.
    ///
    /// ```
    /// # fn main() -> criba::Result<()> {
    /// # let dir = tempfile::tempdir().unwrap();
    /// # let db = criba::Db::open(dir.path().join("data"))?;
    /// db.put("apple", "red")?;
    /// db.get("apple")?;
    /// db.get("banana")?;
    /// let stats = db.stats();
    /// assert_eq!(stats.sequence, 1);
    /// assert_eq!(stats.lookups.memtable_hits, 1);
    /// assert_eq!(stats.lookups.absent, 1);
    /// // Its text has a line for each part of the store.
    /// println!("{stats}");
    /// # Ok(())
    /// # }
    /// ```
    pub fn stats(&self) -> Stats {
        if self.store().monitor().origin().is_elsewhere() {
            return Stats::default();
        }
        account::stats(self.store(), self.tree())
    }

    /// Looks a key up and returns an account of the lookup: for each memtable and run, what it
    /// asked, read and found.
    ///
    /// ```
    /// use criba::Outcome;
    ///
    /// # fn main() -> criba::Result<()> {
    /// # let dir = tempfile::tempdir().unwrap();
    /// # let db = criba::Db::open(dir.path().join("data"))?;
    /// db.put("apple", "red")?;
    /// db.flush()?;
    /// let explanation = db.explain("apple")?;
    /// assert_eq!(explanation.block_reads(), 1);
    /// let last = explanation.steps.last().unwrap();
    /// assert_eq!(last.outcome, Outcome::Found);
    /// println!("{explanation}");
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    ///
    /// As for [`Keyspace::get`].
    pub fn explain(&self, key: impl AsRef<[u8]>) -> Result<Explanation> {
        let store = self.store();
        store.monitor().check_open()?;
        self.tree().explain(key.as_ref(), || store.visible())
    }

    /// An account of a range: for each run, what its range filters say of it, and the blocks that a scan
    /// begins with.
    ///
    /// A scan itself may read less: it opens a run when an entry of that run may be next. Costs the reads
    /// that [`RangeStep::block_reads`](crate::RangeStep::block_reads) counts.
    ///
    /// ```
    /// # fn main() -> criba::Result<()> {
    /// # let dir = tempfile::tempdir().unwrap();
    /// # let db = criba::Db::open(dir.path().join("data"))?;
    /// db.put("apple", "red")?;
    /// db.flush()?;
    /// let account = db.explain_range("a".."b")?;
    /// assert_eq!((account.memtables, account.runs.len()), (0, 1));
    /// println!("{account}");
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    ///
    /// As for [`Keyspace::get`].
    pub fn explain_range(&self, range: impl KeyRange) -> Result<RangeExplanation> {
        self.store().monitor().check_open()?;
        self.tree().explain_range(range.into_bounds())
    }

    /// Reads one segment whole and verifies all its blocks. The number is its
    /// [`SegmentStats::id`](crate::SegmentStats::id).
    ///
    /// Costs a read for each block that is not in the cache.
    ///
    /// ```
    /// # fn main() -> criba::Result<()> {
    /// # let dir = tempfile::tempdir().unwrap();
    /// # let db = criba::Db::open(dir.path().join("data"))?;
    /// db.put("apple", "red")?;
    /// db.put("banana", "yellow")?;
    /// db.flush()?;
    /// let stats = db.stats();
    /// let segment = stats.segments().next().unwrap();
    /// let inspection = db.inspect(segment.id)?;
    /// assert_eq!(inspection.blocks[0].entries, 2);
    /// assert_eq!(inspection.blocks[0].first_key, b"apple");
    /// assert_eq!(inspection.regions[0].name, "data blocks");
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    ///
    /// [`Error::Invalid`] when no segment has this number, otherwise as for [`Keyspace::get`].
    pub fn inspect(&self, segment: u64) -> Result<Inspection> {
        let store = self.store();
        store.monitor().check_open()?;
        let version = self.tree().version();
        let found = version.segments().find(|one| one.meta.id == segment);
        match found {
            Some(found) => found.inspect(&store.services().caches),
            None => Err(Error::Invalid(format!(
                "no live segment has the number {segment}; `stats` lists those there are"
            ))),
        }
    }

    /// About how many keys there are.
    ///
    /// Overwritten values and tombstones do not count, so this is the length of [`Keyspace::iter`],
    /// within about 1 % (standard deviation). It is within 2 % where newer runs deleted many keys:
    /// see the table in `docs/architecture.md`. It is exact where no key is in two runs at once: in
    /// one memtable, after a full compaction, and for keys that were written in ascending order.
    /// Keys in damaged segments are not counted. In a forked child it is 0.
    ///
    /// Reads nothing and takes no lock. Each flush or compaction estimates the keys in segments
    /// once, in some 40 microseconds for each run and one for each segment. A call costs some 40
    /// microseconds while memtables hold something, and as much for each run where there are
    /// tombstones. With empty memtables it costs next to nothing.
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
        approximate_len(&self.tree().view())
    }

    /// About how many keys there are in a range.
    ///
    /// As for [`Keyspace::approximate_len`]. A segment that lies in the range only in part counts by its
    /// blocks, and within a block as if the keys were spread evenly. That adds to the error a part
    /// of a block at each end of the range in each run. Keys that newer runs hide are taken to be
    /// where the newer keys are.
    ///
    /// Entries of memtables in the range are counted one by one, up to 8,192 entries. Where there
    /// are more keys, `n`, a sample gives their number with a standard deviation of `8 / sqrt(n)`.
    /// For a range of less than a block in each run the result is a guess.
    ///
    /// Nothing is kept from call to call. A call costs some 40 microseconds for each run, and a
    /// walk over the entries of memtables that are counted.
    ///
    /// ```
    /// # fn main() -> criba::Result<()> {
    /// # let dir = tempfile::tempdir().unwrap();
    /// # let db = criba::Db::open(dir.path().join("data"))?;
    /// for number in 0..100 {
    ///     db.put(format!("{number:02}"), "")?;
    /// }
    /// assert_eq!(db.approximate_len_in("30".."40"), 10);
    /// # Ok(())
    /// # }
    /// ```
    #[must_use]
    pub fn approximate_len_in(&self, range: impl KeyRange) -> u64 {
        if self.store().monitor().origin().is_elsewhere() {
            return 0;
        }
        approximate_len_in(&self.tree().view(), &range.into_bounds())
    }
}

impl Db {
    /// Makes a complete store of this moment in the directory `target`, which is not there yet. It has all
    /// writes of all keyspaces that were made before the call. Writes go on meanwhile.
    ///
    /// Memtables are flushed first. Files of segments are shared by hard links, so it takes little time
    /// and no room, however large the store is. Where `target` is on another file system, they are copied.
    /// A shared file takes its room until both stores have let go of it.
    ///
    /// The checkpoint can be opened, written and moved as any store. Until it is whole, it is
    /// `NAME.checkpointing` in the same directory.
    ///
    /// ```
    /// use criba::Db;
    ///
    /// # fn main() -> criba::Result<()> {
    /// # let dir = tempfile::tempdir().unwrap();
    /// # let db = Db::open(dir.path().join("data"))?;
    /// db.put("apple", "green")?;
    /// db.checkpoint(dir.path().join("monday"))?;
    /// db.put("apple", "red")?;
    /// let monday = Db::open(dir.path().join("monday"))?;
    /// assert_eq!(monday.get("apple")?.unwrap(), "green");
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    ///
    /// [`Error::Invalid`] when something is at `target`, or it is inside the store; the failure of the
    /// flush; failures of writing there. The store itself is not changed.
    pub fn checkpoint(&self, target: impl AsRef<Path>) -> Result<Checkpoint> {
        self.store().monitor().check_writable()?;
        checkpoint(self.store(), target.as_ref())
    }

    /// The same in a storage of the program's own, which is empty. `CURRENT` comes last: without it, the
    /// files there are no store.
    ///
    /// ```
    /// use std::sync::Arc;
    /// use criba::Db;
    /// use criba::storage::{Disk, Io, Storage};
    ///
    /// # fn main() -> criba::Result<()> {
    /// # let dir = tempfile::tempdir().unwrap();
    /// # let db = Db::open(dir.path().join("data"))?;
    /// db.put("apple", "red")?;
    /// let target: Arc<dyn Storage> = Arc::new(Disk::new(dir.path().join("copy"), Io::Pread));
    /// db.checkpoint_to(&target)?;
    /// let copy = Db::builder("copy").storage(target).open()?;
    /// assert_eq!(copy.get("apple")?.unwrap(), "red");
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    ///
    /// As for [`Db::checkpoint`].
    pub fn checkpoint_to(&self, target: &Arc<dyn Storage>) -> Result<Checkpoint> {
        self.store().monitor().check_writable()?;
        checkpoint_to(self.store(), target)
    }

    /// Reads all segments of all keyspaces whole and verifies them. It checks every checksum, the order of entries
    /// and all counts, and that index and filter lead to every key. It checks as well that the
    /// segments of a run do not overlap, and that newer runs hold newer entries. `open` has
    /// verified journals and manifest.
    ///
    /// Calls `watch` now and then with the number of entries read so far and the number of all.
    /// Costs a read for each data block and each filter page, and uses no cache. Writes and
    /// compactions go on meanwhile: it verifies the segments that were live when it began.
    ///
    /// ```
    /// # fn main() -> criba::Result<()> {
    /// # let dir = tempfile::tempdir().unwrap();
    /// # let db = criba::Db::open(dir.path().join("data"))?;
    /// db.put("apple", "red")?;
    /// db.flush()?;
    /// let found = db.verify(|read, all| println!("{read} of {all} entries"))?;
    /// assert_eq!(found.entries, 1);
    /// assert!(found.findings.is_empty());
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    ///
    /// [`Error::Closed`]. Damage on disk is no error here: the findings list it.
    pub fn verify(&self, mut watch: impl FnMut(u64, u64)) -> Result<Verification> {
        verify(self.store(), &mut watch)
    }

    /// Bytes of all files of the store: segments, filter files, journals, manifest. A mapped journal
    /// is longer than what was written to it, by up to 1 MiB.
    ///
    /// Opens each file to ask for its length, and reads nothing. [`RunStats::file_bytes`](crate::RunStats::file_bytes) has the
    /// bytes of the live segments alone, without a call to the system.
    ///
    /// ```
    /// # fn main() -> criba::Result<()> {
    /// # let dir = tempfile::tempdir().unwrap();
    /// # let db = criba::Db::open(dir.path().join("data"))?;
    /// db.put("apple", "red")?;
    /// db.flush()?;
    /// assert!(db.disk_bytes()? > db.stats().runs[0].file_bytes());
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    ///
    /// When the system refuses to list or open files.
    pub fn disk_bytes(&self) -> Result<u64> {
        self.store().monitor().origin().check()?;
        disk_bytes(self.store())
    }
}
