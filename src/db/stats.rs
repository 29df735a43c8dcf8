//! What the store says about itself: plain values, taken at one moment.

use std::fmt;
use std::time::Duration;

use crate::segment::SegmentStats;
use crate::services::Event;
use crate::storage::{ReadCause, ReadCounts, ReadManyBy};
use crate::store::RecoveryReport;
use crate::tree::{LookupStats, ScanStats};

/// The state and the counters of an open store, and of one of its keyspaces. Counters start at zero at `open`.
///
/// ```
/// # fn main() -> criba::Result<()> {
/// # let dir = tempfile::tempdir().unwrap();
/// # let db = criba::Db::open(dir.path().join("data"))?;
/// db.put("apple", "red")?;
/// db.flush()?;
/// let before = db.stats();
/// db.get("apple")?;
/// let after = db.stats();
/// assert_eq!(after.lookups.segment_hits - before.lookups.segment_hits, 1);
/// assert_eq!(after.reads.since(&before.reads).sum().calls, 1);
/// assert_eq!(after.compactions.flushed_bytes, after.runs[0].file_bytes());
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Debug, Default)]
#[non_exhaustive]
pub struct Stats {
    /// The name of the keyspace that entries and bytes of memtables, runs and lookups are of. All else
    /// is of the store.
    pub keyspace: String,
    /// Sequence of the newest visible write: the number of operations ever committed.
    pub sequence: u64,
    /// Writes not yet in a segment.
    pub memtable: MemtableStats,
    /// Sorted runs, newest first.
    pub runs: Vec<RunStats>,
    /// Every read of the storage since `open`, by cause.
    pub reads: ReadCounts,
    /// How often blocks that several keys of a `get_many` needed were read together, with one call.
    pub read_batches: u64,
    /// How these reads were made. `None` before the first, and where the storage has only one way.
    pub read_many_by: Option<ReadManyBy>,
    /// Bytes appended to files of any kind since `open`.
    pub written_bytes: u64,
    /// Syncs of files and directories since `open`.
    pub syncs: u64,
    /// Point lookups since `open`.
    pub lookups: LookupStats,
    /// Ranges for which scans asked range filters since `open`.
    pub scans: ScanStats,
    /// The cache of data blocks.
    pub block_cache: CacheStats,
    /// The cache of entries, which has a part of the same budget once that is used up.
    pub entry_cache: CacheStats,
    /// The cache of filter pages; all zero when filters are pinned.
    pub filter_cache: CacheStats,
    /// Merges of segments.
    pub compactions: CompactionStats,
    /// Writers held back because flushing fell behind.
    pub stalls: StallStats,
    /// Snapshots and transactions that live.
    pub snapshots: SnapshotStats,
    /// The newest events, oldest first; at most 256 are kept.
    pub events: Vec<Event>,
    /// The report of `open`.
    pub recovery: RecoveryReport,
}

/// Memory for writes not yet in a segment.
///
/// ```
/// # fn main() -> criba::Result<()> {
/// # let dir = tempfile::tempdir().unwrap();
/// # let db = criba::Db::open(dir.path().join("data"))?;
/// db.put("apple", "red")?;
/// db.put("apple", "green")?;
/// let memtable = db.stats().memtable;
/// assert_eq!(memtable.active_entries, 2);
/// assert_eq!((memtable.sealed_count, memtable.flushes), (0, 0));
/// db.flush()?;
/// assert_eq!(db.stats().memtable.active_entries, 0);
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct MemtableStats {
    /// Bytes charged to the memtable that takes writes.
    pub active_bytes: u64,
    /// Entries in it.
    pub active_entries: u64,
    /// Memtables that wait for their flush.
    pub sealed_count: u64,
    /// Bytes charged to them.
    pub sealed_bytes: u64,
    /// Flushes since `open`. Each writes the memtables of all keyspaces.
    pub flushes: u64,
}

/// One sorted run: segments whose key ranges do not overlap.
///
/// ```
/// # fn main() -> criba::Result<()> {
/// # let dir = tempfile::tempdir().unwrap();
/// # let db = criba::Db::open(dir.path().join("data"))?;
/// for key in ["apple", "banana"] {
///     db.put(key, "")?;
///     db.put("newest", key)?;
///     db.flush()?;
/// }
/// let runs = db.stats().runs;
/// // The newest run is the first. In the other one, a key is overwritten.
/// assert_eq!((runs[0].live_keys, runs[1].live_keys), (2, 1));
/// assert_eq!(runs[1].segments[0].first_key, "apple");
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Debug, Default)]
#[non_exhaustive]
pub struct RunStats {
    /// 0 for what a flush made.
    pub level: u32,
    /// Keys with a value here that no newer run overwrites or deletes, by estimate: within about
    /// 1 % of the keys that this run and newer ones hold (standard deviation), exact where no
    /// newer run overlaps. What memtables hide still counts.
    pub live_keys: u64,
    /// Bytes of the run's files that these take, by estimate: as if live entries were as long as
    /// the mean of the run.
    pub live_bytes: u64,
    /// In key order.
    pub segments: Vec<SegmentStats>,
}

fn ratio(part: f64, whole: f64) -> Option<f64> {
    (whole > 0.0).then(|| part / whole)
}

/// A cache with a byte budget.
///
/// ```
/// # fn main() -> criba::Result<()> {
/// # let dir = tempfile::tempdir().unwrap();
/// # let db = criba::Db::open(dir.path().join("data"))?;
/// db.put("apple", "red")?;
/// db.flush()?;
/// db.get("apple")?;
/// db.get("apple")?;
/// let cache = db.stats().block_cache;
/// assert!(cache.hits >= 1);
/// assert!(cache.bytes <= cache.capacity_bytes);
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct CacheStats {
    /// Lookups that found what they were for.
    pub hits: u64,
    /// Lookups that did not.
    pub misses: u64,
    /// Bytes held.
    pub bytes: u64,
    /// The budget, in bytes.
    pub capacity_bytes: u64,
}

/// Merges of segments, and their cost. Counts and times start at zero at `open`.
///
/// Bytes count from the making of the store. Each flush, each merge and each close saves them. A
/// kill loses the bytes that were committed after the last of these.
///
/// ```
/// # fn main() -> criba::Result<()> {
/// # let dir = tempfile::tempdir().unwrap();
/// # let db = criba::Db::open(dir.path().join("data"))?;
/// for value in ["1", "2"] {
///     db.put("apple", value)?;
///     db.flush()?;
/// }
/// db.compact_all()?.wait()?;
/// let compactions = db.stats().compactions;
/// assert_eq!(compactions.merges, 1);
/// assert!(compactions.is_settled);
/// assert_eq!(compactions.debt_bytes, 0);
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq)]
#[non_exhaustive]
pub struct CompactionStats {
    /// Merges that ended.
    pub merges: u64,
    /// Segments that went to another level without being rewritten.
    pub moves: u64,
    /// Parts in which these merges were made: one each, more where a merge was cut by key range.
    pub parts: u64,
    /// Segments that were removed with what was in them, because of their size or age.
    pub dropped: u64,
    /// Bytes of segments written by flushes.
    pub flushed_bytes: u64,
    /// Bytes of segments written by merges.
    pub merged_bytes: u64,
    /// Time merges took, over all threads.
    pub merge_time: Duration,
    /// Bytes that wait to be merged until the tree is in shape.
    pub debt_bytes: u64,
    /// Whether the tree is in shape: nothing is being merged, and nothing is to be merged except
    /// while the tree is idle.
    pub is_settled: bool,
    /// Bytes of keys and values that were committed, with a few bytes for each operation.
    pub user_bytes: u64,
}

impl CompactionStats {
    /// Bytes written to segments for each byte committed, in all sessions; the journal adds about
    /// one. Memtables that wait count as committed and not yet as written. `None` before the
    /// first write.
    ///
    /// ```
    /// # fn main() -> criba::Result<()> {
    /// # let dir = tempfile::tempdir().unwrap();
    /// # let db = criba::Db::open(dir.path().join("data"))?;
    /// assert_eq!(db.stats().compactions.write_amplification(), None);
    /// for number in 0..1000 {
    ///     db.put(format!("{number:04}"), [b'x'; 100])?;
    /// }
    /// db.flush()?;
    /// let flushed = db.stats().compactions.write_amplification().unwrap();
    /// db.compact_all()?.wait()?;
    /// let merged = db.stats().compactions.write_amplification().unwrap();
    /// assert!(merged >= flushed && flushed < 1.5);
    /// # Ok(())
    /// # }
    /// ```
    pub fn write_amplification(&self) -> Option<f64> {
        let written = (self.flushed_bytes + self.merged_bytes) as f64;
        ratio(written, self.user_bytes as f64)
    }
}

/// Writers held back.
///
/// ```
/// # fn main() -> criba::Result<()> {
/// # let dir = tempfile::tempdir().unwrap();
/// # let db = criba::Db::open(dir.path().join("data"))?;
/// db.put("apple", "red")?;
/// let stalls = db.stats().stalls;
/// assert_eq!((stalls.slowed, stalls.stopped), (0, 0));
/// assert!(stalls.stopped_time.is_zero());
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct StallStats {
    /// Writes that were slowed.
    pub slowed: u64,
    /// Time that took, over all writers.
    pub slowed_time: Duration,
    /// Writes that were stopped until a flush had ended.
    pub stopped: u64,
    /// Time that took, over all writers.
    pub stopped_time: Duration,
}

/// Snapshots and transactions that live, and keep the versions that they see on disk.
///
/// ```
/// # fn main() -> criba::Result<()> {
/// # let dir = tempfile::tempdir().unwrap();
/// # let db = criba::Db::open(dir.path().join("data"))?;
/// db.put("apple", "red")?;
/// let snapshot = db.snapshot();
/// db.put("apple", "green")?;
/// let transaction = db.transaction();
/// let held = db.stats().snapshots;
/// assert_eq!((held.snapshots, held.transactions), (1, 1));
/// // One write is newer than the oldest of them.
/// assert_eq!(db.stats().sequence - held.oldest_sequence.unwrap(), 1);
/// drop((snapshot, transaction));
/// assert_eq!(db.stats().snapshots.oldest_age, None);
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct SnapshotStats {
    /// Snapshots; one and its clones count once.
    pub snapshots: u64,
    /// Transactions that were neither committed nor dropped.
    pub transactions: u64,
    /// The sequence at which the oldest of all reads.
    pub oldest_sequence: Option<u64>,
    /// How long ago the first that reads at this sequence was taken.
    pub oldest_age: Option<Duration>,
}

impl RunStats {
    /// Bytes of the run's files.
    ///
    /// ```
    /// # fn main() -> criba::Result<()> {
    /// # let dir = tempfile::tempdir().unwrap();
    /// # let db = criba::Db::open(dir.path().join("data"))?;
    /// db.put("apple", "red")?;
    /// db.flush()?;
    /// let run = &db.stats().runs[0];
    /// let file = db.path().join(format!("{:06}.seg", run.segments[0].id));
    /// assert_eq!(run.file_bytes(), std::fs::metadata(file).unwrap().len());
    /// # Ok(())
    /// # }
    /// ```
    pub fn file_bytes(&self) -> u64 {
        self.segments.iter().map(|segment| segment.file_bytes).sum()
    }
}

impl Stats {
    /// Bytes of the live segment files for each byte of them that live entries take: the sum of
    /// [`RunStats::file_bytes`] over that of [`RunStats::live_bytes`].
    ///
    /// 1.0 when everything that segments hold is live. The part above it is for
    /// overwritten and deleted entries, and for tombstones, that no merge has removed yet or that
    /// snapshots hold. Filters, index and framing count as part of the entries. Not counted: journals and memtables, the
    /// files of rebuilt filters, and files that only wait for their last reader.
    ///
    /// The error is that of the estimated live keys, about 1 %, and that of taking the live
    /// entries of a run to be as long as the others. `None` when segments hold no live data.
    ///
    /// ```
    /// # fn main() -> criba::Result<()> {
    /// # let dir = tempfile::tempdir().unwrap();
    /// # let db = criba::Db::open(dir.path().join("data"))?;
    /// # let builder = criba::Db::builder(dir.path().join("manual"));
    /// # let db = builder.compaction(criba::Compaction::Manual).open()?;
    /// for value in [[b'x'; 100], [b'y'; 100]] {
    ///     for number in 0..1000 {
    ///         db.put(format!("{number:04}"), value)?;
    ///     }
    ///     db.flush()?;
    /// }
    /// // Each key has an old value on disk, until a merge removes it.
    /// assert!(db.stats().space_amplification().unwrap() > 1.9);
    /// db.compact_all()?.wait()?;
    /// assert!(db.stats().space_amplification().unwrap() < 1.1);
    /// # Ok(())
    /// # }
    /// ```
    pub fn space_amplification(&self) -> Option<f64> {
        let file_bytes: u64 = self.runs.iter().map(RunStats::file_bytes).sum();
        let live_bytes: u64 = self.runs.iter().map(|run| run.live_bytes).sum();
        ratio(file_bytes as f64, live_bytes as f64)
    }

    /// Data blocks read from storage for each lookup that went on to the segments, in all
    /// sessions: the sum over the live segments of [`SegmentStats::block_reads`] for each of
    /// their [`SegmentStats::lookups`].
    ///
    /// Lookups of present and of absent keys count alike. Blocks found in the cache do not count,
    /// nor do filter pages. A segment that a merge made begins at zero. `None` before the first
    /// lookup. [`LookupStats`] has hits and absent keys apart, since `open`.
    ///
    /// ```
    /// # fn main() -> criba::Result<()> {
    /// # let dir = tempfile::tempdir().unwrap();
    /// # let db = criba::Db::open(dir.path().join("data"))?;
    /// db.put("apple", "red")?;
    /// db.flush()?;
    /// assert_eq!(db.stats().read_amplification(), None);
    /// db.get("apple")?;
    /// assert_eq!(db.stats().read_amplification(), Some(1.0));
    /// // The second time the block comes from the cache.
    /// db.get("apple")?;
    /// assert_eq!(db.stats().read_amplification(), Some(0.5));
    /// # Ok(())
    /// # }
    /// ```
    pub fn read_amplification(&self) -> Option<f64> {
        let looked = self.segments().filter(|segment| segment.lookups > 0);
        looked
            .map(|segment| segment.block_reads as f64 / segment.lookups as f64)
            .fold(None, |sum, reads| Some(sum.unwrap_or(0.0) + reads))
    }

    /// All segments, newest run first, in key order within a run.
    ///
    /// ```
    /// # fn main() -> criba::Result<()> {
    /// # let dir = tempfile::tempdir().unwrap();
    /// # let db = criba::Db::open(dir.path().join("data"))?;
    /// for key in ["apple", "banana"] {
    ///     db.put(key, "")?;
    ///     db.flush()?;
    /// }
    /// let stats = db.stats();
    /// let newest = stats.segments().next().unwrap();
    /// assert_eq!(newest.first_key, "banana");
    /// assert_eq!(stats.segments().map(|one| one.keys).sum::<u64>(), 2);
    /// # Ok(())
    /// # }
    /// ```
    pub fn segments(&self) -> impl Iterator<Item = &SegmentStats> {
        self.runs.iter().flat_map(|run| &run.segments)
    }
}

impl Stats {
    /// Caches, merges, stalls, and what all that comes to.
    fn write_work(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (name, cache) in [
            ("blocks", &self.block_cache),
            ("entries", &self.entry_cache),
            ("filters", &self.filter_cache),
        ] {
            writeln!(
                f,
                "cache    {name}: {} of {} bytes, {} hits, {} misses",
                cache.bytes, cache.capacity_bytes, cache.hits, cache.misses
            )?;
        }
        let compactions = &self.compactions;
        writeln!(
            f,
            "merges   {} and {} moves; {} bytes flushed, {} merged ({:?}), {} waiting",
            compactions.merges,
            compactions.moves,
            compactions.flushed_bytes,
            compactions.merged_bytes,
            compactions.merge_time,
            compactions.debt_bytes
        )?;
        writeln!(
            f,
            "stalls   {} slowed ({:?}), {} stopped ({:?})",
            self.stalls.slowed,
            self.stalls.slowed_time,
            self.stalls.stopped,
            self.stalls.stopped_time
        )?;
        self.write_snapshots(f)?;
        writeln!(
            f,
            "amplify  write {}, space {}, read {}",
            Known(compactions.write_amplification()),
            Known(self.space_amplification()),
            Known(self.read_amplification())
        )
    }
}

impl Stats {
    fn write_snapshots(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let held = &self.snapshots;
        let (snapshots, transactions) = (held.snapshots, held.transactions);
        write!(
            f,
            "readers  {snapshots} snapshots, {transactions} transactions"
        )?;
        if let (Some(sequence), Some(age)) = (held.oldest_sequence, held.oldest_age) {
            let writes = self.sequence.saturating_sub(sequence);
            write!(f, "; the oldest for {age:?} and {writes} writes")?;
        }
        writeln!(f)
    }
}

impl fmt::Display for Stats {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "sequence {}", self.sequence)?;
        let memtable = &self.memtable;
        writeln!(
            f,
            "memtable {} entries, {} bytes; {} sealed, {} bytes; {} flushed",
            memtable.active_entries,
            memtable.active_bytes,
            memtable.sealed_count,
            memtable.sealed_bytes,
            memtable.flushes
        )?;
        let lookups = &self.lookups;
        writeln!(
            f,
            "lookups  {}: {} from memtables, {} from segments, {} absent; {} and {} blocks read",
            lookups.lookups,
            lookups.memtable_hits,
            lookups.segment_hits,
            lookups.absent,
            lookups.hit_block_reads,
            lookups.absent_block_reads
        )?;
        if self.scans.asked > 0 {
            let ScanStats {
                asked,
                refuted,
                in_vain,
            } = self.scans;
            writeln!(
                f,
                "scans    asked {asked} runs: {refuted} were not read, {in_vain} were read in vain"
            )?;
        }
        write!(f, "reads   ")?;
        for cause in ReadCause::ALL {
            let count = self.reads.get(cause);
            write!(f, " {cause:?} {} ({} bytes)", count.calls, count.bytes)?;
        }
        if let (1.., Some(by)) = (self.read_batches, self.read_many_by) {
            write!(f, "; {} batches, {by:?}", self.read_batches)?;
        }
        writeln!(f)?;
        writeln!(
            f,
            "written  {} bytes, {} syncs",
            self.written_bytes, self.syncs
        )?;
        self.write_work(f)?;
        for (ordinal, run) in self.runs.iter().enumerate() {
            writeln!(
                f,
                "run {ordinal}, level {}: about {} live keys of {} bytes in {} bytes",
                run.level,
                run.live_keys,
                run.live_bytes,
                run.file_bytes()
            )?;
            for segment in &run.segments {
                writeln!(f, "  {segment}")?;
            }
        }
        Ok(())
    }
}

/// A number that may be unknown.
struct Known(Option<f64>);

impl fmt::Display for Known {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0 {
            Some(number) => write!(f, "{number:.3}"),
            None => write!(f, "unknown"),
        }
    }
}
