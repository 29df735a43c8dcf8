//! Keeps a store in shape, and looks into it.

use crate::bounds::{KeyRange, prefix_bounds};
use crate::error::{Error, Result};
use crate::segment::Inspection;
use crate::tools::{Rebuilt, Verification, rebuild_filters, verify};
use crate::tree::{Explanation, approximate_len, approximate_len_in};

use super::account;
use super::compaction_job::CompactionJob;
use super::handle::Db;
use super::stats::Stats;

impl Db {
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

    /// State and counters. Reads nothing. In a forked child all of them are zero.
    pub fn stats(&self) -> Stats {
        if self.store().monitor().origin().is_elsewhere() {
            return Stats::default();
        }
        account::stats(self.store())
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
}
