//! All choices of the caller, with units and defaults. Everything is checked at `open`.

mod check;

use std::collections::BTreeMap;
use std::time::Duration;

use crate::operator::Operator;
use crate::storage::Io;
use criba_filters::segment::{BloomierBits, CustomFilters, FilterSpec};

/// How much a write survives once it has returned.
///
/// ```
/// use criba::Durability;
///
/// # fn main() -> criba::Result<()> {
/// # let dir = tempfile::tempdir().unwrap();
/// # let db = criba::Db::open(dir.path().join("data"))?;
/// // A crash of the machine may take these two: together, or the later one.
/// db.put_with("view", "1", Durability::Buffered)?;
/// db.put_with("view", "2", Durability::Process)?;
/// // Nothing takes this one, nor any before it.
/// db.put_with("order", "17 apples", Durability::Sync)?;
/// assert_eq!(db.get("view")?.unwrap(), "2");
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
#[non_exhaustive]
pub enum Durability {
    /// Nothing: the write is in memory of the process. It reaches the system with the next stronger
    /// write, with 64 KiB of journal, with [`Db::sync`](crate::Db::sync) or at close.
    Buffered,
    /// A kill of the process: the write is with the operating system. Power loss may take it,
    /// but never an older write without it.
    #[default]
    Process,
    /// Power loss: the write, and all before it, is on stable storage.
    Sync,
}

/// Whether data blocks are compressed.
///
/// ```
/// use criba::{Compression, Db};
///
/// # fn main() -> criba::Result<()> {
/// # let dir = tempfile::tempdir().unwrap();
/// let mut sizes = Vec::new();
/// for compression in [Compression::None, Compression::Lz4, Compression::Zstd { level: 3 }] {
///     let path = dir.path().join(format!("{compression:?}"));
///     let db = Db::builder(path).compression(compression).open()?;
///     for number in 0..1000 {
///         db.put(format!("{number:04}"), format!("line {number} of a text, {number:b}"))?;
///     }
///     db.flush()?;
///     sizes.push(db.stats().runs[0].file_bytes());
/// }
/// assert!(sizes[0] > sizes[1] && sizes[1] > sizes[2]);
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
#[non_exhaustive]
pub enum Compression {
    /// Stored as they are. Each block fills whole 4 KiB pages where that wastes little, so that a
    /// read touches as few as can be. Blocks of 4 KiB with entries of up to 450 bytes always do.
    #[default]
    None,
    /// LZ4: larger than Zstandard, and quicker to write and to read. A block that does not shrink
    /// is stored as it is.
    Lz4,
    /// Zstandard at this level, 1 to 19. A block that does not shrink is stored as it is.
    Zstd {
        /// Higher is smaller and slower to write; 3 is a good start.
        level: i32,
    },
}

/// Which filter the segments carry.
///
/// ```
/// use criba::{BloomierBits, Db, FilterPolicy};
///
/// # fn main() -> criba::Result<()> {
/// # let dir = tempfile::tempdir().unwrap();
/// let mut reads = Vec::new();
/// for policy in [FilterPolicy::None, FilterPolicy::Bloomier(BloomierBits::Slot)] {
///     let path = dir.path().join(format!("{policy:?}"));
///     let db = Db::builder(path).filter(policy).cache_bytes(0).open()?;
///     for number in 0..1000 {
///         db.put(format!("{number:04}"), [b'x'; 100])?;
///     }
///     db.flush()?;
///     for number in 0..1000 {
///         assert!(!db.contains_key(format!("{number:04}?"))?);
///     }
///     reads.push(db.stats().lookups.absent_block_reads);
/// }
/// // Keys that are not there cost a read each, or hardly any.
/// assert!(reads[0] > 900 && reads[1] < 50);
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Copy, PartialEq, Debug)]
#[non_exhaustive]
pub enum FilterPolicy {
    /// No filter: every lookup in the segment's key range reads a block.
    None,
    /// A cache-line-blocked Bloom filter: cheapest to build.
    Bloom {
        /// Memory for each key, in bits; fractions count. 1 to 64.
        bits_per_key: f64,
    },
    /// A Bloomier filter: it answers *where* a key is, and the place is its fingerprint.
    Bloomier(BloomierBits),
    /// The program's own: the first one that
    /// [`Builder::custom_filter`](crate::Builder::custom_filter) got. It is in memory as a whole,
    /// whatever [`FilterResidency`] says.
    Custom,
    /// Bloomier filters that together have this many bits for each key of the store, shared out so
    /// that an absent key costs least. Small runs get more: one bit for each halving of the key
    /// count ("Monkey", 2017).
    ///
    /// The shares follow the real key counts whenever a segment is written, with room for runs to
    /// come. All of the memory is in use when the levels above the last are full.
    Budget {
        /// Average over the store; fractions count. 0 to 64.
        bits_per_key: f64,
    },
}

impl Default for FilterPolicy {
    fn default() -> FilterPolicy {
        FilterPolicy::Bloomier(BloomierBits::Slot)
    }
}

impl FilterPolicy {
    /// What a filter of this policy is made of, the whole budget taken for one run.
    pub(crate) fn spec(self) -> Option<FilterSpec> {
        match self {
            FilterPolicy::None => None,
            FilterPolicy::Bloom { bits_per_key } => Some(FilterSpec::Bloom { bits_per_key }),
            FilterPolicy::Bloomier(bits) => Some(FilterSpec::Bloomier(bits)),
            FilterPolicy::Custom => Some(FilterSpec::Custom),
            FilterPolicy::Budget { bits_per_key } => {
                Some(FilterSpec::Bloomier(BloomierBits::BitsPerKey(bits_per_key)))
            }
        }
    }
}

/// Which range filter the segments carry: it tells a scan that a segment has nothing in a range, before a
/// block is read.
///
/// A scan of a few entries has to look into every run of the tree, although most of them have nothing
/// to give. With range filters it reads the blocks of the runs that do, and few others. That is worth
/// the memory where scans are short and runs are many; a scan of hundreds of entries meets every run.
///
/// A segment whose filter would refute under half of the gaps between its own keys gets none, as may
/// happen with file paths; [`SegmentStats::range_filter`](crate::SegmentStats::range_filter) says so.
///
/// ```
/// use criba::storage::ReadCause;
/// use criba::{Db, RangeFilterPolicy};
///
/// # fn main() -> criba::Result<()> {
/// # let dir = tempfile::tempdir().unwrap();
/// let mut reads = Vec::new();
/// for policy in [RangeFilterPolicy::None, RangeFilterPolicy::Bits { bits_per_key: 10.0 }] {
///     let path = dir.path().join(format!("{policy:?}"));
///     let db = Db::builder(path).range_filter(policy).cache_bytes(0).open()?;
///     for number in 0..10_000 {
///         db.put(format!("{:07}", number * 919 % 1_000_000), [b'x'; 50])?;
///     }
///     db.flush()?;
///     let before = db.stats().reads;
///     for number in 0..1000 {
///         db.range(format!("{:07}", number * 997)..format!("{:07}", number * 997 + 10)).count();
///     }
///     reads.push(db.stats().reads.since(&before).get(ReadCause::Data).calls);
/// }
/// // Nine of ten ranges are empty.
/// assert!(reads[1] < reads[0] / 4);
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Copy, PartialEq, Debug, Default)]
#[non_exhaustive]
pub enum RangeFilterPolicy {
    /// No range filter.
    #[default]
    None,
    /// A range filter with about this memory for each key.
    Bits {
        /// Bits for each key; fractions count. 4 to 64. With 10 bits and evenly distributed keys, about 1
        /// of 100 empty ranges is not refuted.
        bits_per_key: f64,
    },
    /// A part of the bits of [`FilterPolicy::Budget`], by what was asked since `open`: as the ranges
    /// that scans have asked for stand to lookups, but from a quarter to three quarters. Where that
    /// is under 4 bits there is no range filter.
    Budget,
}

/// Where filters are while the store is open.
///
/// ```
/// use criba::storage::ReadCause;
/// use criba::{Db, FilterResidency};
///
/// # fn main() -> criba::Result<()> {
/// # let dir = tempfile::tempdir().unwrap();
/// # let path = dir.path().join("data");
/// # let db = Db::open(&path)?;
/// # for number in 0..1000 {
/// #     db.put(format!("{number:03}"), [b'x'; 100])?;
/// # }
/// # db.flush()?;
/// # db.close()?;
/// for (residency, pages) in [
///     (FilterResidency::Pinned, 0),
///     (FilterResidency::Cached { bytes: 1 << 20 }, 1),
///     (FilterResidency::Shared, 1),
/// ] {
///     let db = Db::builder(&path).filter_residency(residency).open()?;
///     let before = db.stats().reads;
///     db.get("500")?;
///     let reads = db.stats().reads.since(&before);
///     assert_eq!(reads.get(ReadCause::Filter).calls, pages);
/// }
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
#[non_exhaustive]
pub enum FilterResidency {
    /// In memory, whole: a lookup never reads a filter from disk.
    #[default]
    Pinned,
    /// In a cache of this size, by pages of 4 KiB that are read and verified singly. A lookup
    /// needs one page of a segment's filter, seldom two.
    Cached {
        /// Budget for all filter pages of the store, in bytes.
        bytes: u64,
    },
    /// By such pages in the cache of data, within [`cache_bytes`](crate::Builder::cache_bytes).
    /// Their part of it grows and shrinks with the hits that lookups have there.
    Shared,
}

/// How the filters of segments are opened.
#[derive(Clone, Debug, Default)]
pub(crate) struct FilterLoading {
    pub(crate) residency: FilterResidency,
    pub(crate) customs: CustomFilters,
}

/// How the tree is kept in shape. It can be changed at any `open`; the tree follows.
///
/// ```
/// use criba::{Db, Strategy};
///
/// # fn main() -> criba::Result<()> {
/// # let dir = tempfile::tempdir().unwrap();
/// # let path = dir.path().join("data");
/// // The last 30 days, and at most 10 GB of them.
/// let strategy = Strategy::Fifo {
///     bytes: 10_000_000_000,
///     age: Some(std::time::Duration::from_secs(30 * 86_400)),
/// };
/// Db::builder(&path).strategy(strategy).open()?.close()?;
/// // The same store can be kept in another way later.
/// let db = Db::builder(&path).strategy(Strategy::LazyLeveled).open()?;
/// # db.close()
/// # }
/// ```
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
#[non_exhaustive]
pub enum Strategy {
    /// Every level below the first is one run, larger than the level above by the ratio: least
    /// space and fewest runs to ask, most rewriting. Right for nearly every use.
    #[default]
    Leveled,
    /// Every level has up to as many runs as the ratio, which then become one run of the next:
    /// least rewriting, most runs and most space.
    #[doc(alias = "universal")]
    #[doc(alias = "size-tiered")]
    Tiered,
    /// Tiered above, one run at the bottom: nearly the rewriting of tiered and nearly the space
    /// of leveled (Dayan and Idreos, "Dostoevsky", 2018). With a filter budget, the many small
    /// runs cost absent lookups almost nothing.
    LazyLeveled,
    /// Nothing is merged. The oldest runs are removed whole when all runs together are larger than
    /// allowed, or when everything in a run has come of age. For data that ages.
    ///
    /// The age counts from the flush, so entries in memory stay.
    #[doc(alias = "ttl")]
    Fifo {
        /// Bytes of all segments together; `u64::MAX` for any number.
        bytes: u64,
        /// Age from which on a run is removed, a millisecond at least; `None` for no limit.
        /// Measured by the time of day ([`Storage::now`](crate::storage::Storage::now)), and looked
        /// at once a minute or more often. Where the time is or was unknown, nothing comes of age.
        /// A clock that is set back makes data stay longer.
        age: Option<Duration>,
    },
}

/// Whether compactions run by themselves.
///
/// ```
/// use criba::{Compaction, Db};
///
/// # fn main() -> criba::Result<()> {
/// # let dir = tempfile::tempdir().unwrap();
/// # let path = dir.path().join("data");
/// // A load: all files first, one merge at the end.
/// let db = Db::builder(&path).compaction(Compaction::Manual).open()?;
/// for number in 0..1000 {
///     db.put(format!("{:03}", number * 7 % 1000), "row")?;
///     if number % 100 == 99 {
///         db.flush()?;
///     }
/// }
/// assert_eq!(db.stats().runs.len(), 10);
/// db.compact_all()?.wait()?;
/// assert_eq!(db.stats().runs.len(), 1);
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
#[non_exhaustive]
pub enum Compaction {
    /// In the background, whenever the tree is out of shape, and when it is idle. A session that
    /// flushes nothing waits some seconds before its first merge, as it may be a short one. See
    /// [`Builder::merge_when_idle`](crate::Builder::merge_when_idle).
    #[default]
    Background,
    /// Only when [`Keyspace::compact`](crate::Keyspace::compact) asks: for loads that compact once at the
    /// end, and for experiments with runs as flushes leave them. Writers never wait, however many
    /// runs there are.
    Manual,
}

/// The measures of the tree.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct TreeShape {
    pub(crate) strategy: Strategy,
    /// How many times larger a level is than the one above it, or how many runs a level has.
    pub(crate) ratio: u32,
    /// Flushed runs that are merged down together when levels are leveled.
    pub(crate) level0_runs: u32,
    /// Least size of the first level below the flushed runs, in bytes.
    pub(crate) base_bytes: u64,
    /// Whether runs alike in size are merged while the tree is idle.
    pub(crate) merge_when_idle: bool,
    /// Whether flushed runs may be merged with all of level 1 into level 2. Not an option: see
    /// `Tree::shape_now`.
    pub(crate) merge_levels_whole: bool,
}

impl Default for TreeShape {
    fn default() -> TreeShape {
        TreeShape {
            strategy: Strategy::default(),
            ratio: 10,
            level0_runs: 4,
            base_bytes: 256 << 20,
            merge_when_idle: true,
            merge_levels_whole: true,
        }
    }
}

/// How `open` deals with a journal that is damaged in a way that no crash explains.
///
/// Every mode drops a torn end that was never promised. The modes differ in how much else they
/// give up, and that only when the strict way refuses. Each loss is in
/// [`RecoveryReport::lost`](crate::RecoveryReport::lost).
///
/// When `open` returns, all that was saved is in a segment, durably. Journals that lost something
/// are kept whole, as `NNNNNN.journal.damaged`. Damage elsewhere is not for these modes: reads meet
/// that of segments, and [`Builder::repair`](crate::Builder::repair) helps with that of the
/// manifest.
///
/// ```
/// use criba::{Db, Error, Recovery};
///
/// # fn main() -> criba::Result<()> {
/// # let dir = tempfile::tempdir().unwrap();
/// # let path = dir.path().join("data");
/// # let db = Db::open(&path)?;
/// # for key in ["apple", "banana", "cherry"] {
/// #     db.put(key, [b'x'; 1000])?;
/// # }
/// # let mut files = std::fs::read_dir(&path).unwrap().map(|entry| entry.unwrap().path());
/// # let is_journal = |file: &std::path::PathBuf| file.extension().is_some_and(|e| e == "journal");
/// # let journal = files.find(is_journal).unwrap();
/// # db.close()?;
/// # let mut bytes = std::fs::read(&journal).unwrap();
/// # let at = bytes.windows(6).position(|bytes| bytes == b"banana").unwrap();
/// # bytes[at] ^= 1;
/// # std::fs::write(&journal, bytes).unwrap();
/// // A journal of "apple", "banana" and "cherry" is damaged at "banana".
/// assert!(matches!(Db::open(&path), Err(Error::Corrupt(_))));
/// let db = Db::builder(&path).recovery(Recovery::Salvage).open()?;
/// assert_eq!(db.stats().recovery.lost.len(), 1);
/// assert!(db.contains_key("apple")? && db.contains_key("cherry")?);
/// assert!(!db.contains_key("banana")?);
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
#[non_exhaustive]
pub enum Recovery {
    /// Refuse to open, and change nothing.
    #[default]
    Strict,
    /// The state up to the first damage: everything that follows is dropped, promised or not.
    /// Batches are whole, and none is there without all before it.
    TolerateTail,
    /// Everything that is intact, also after damage. Batches are whole and in order, but some in
    /// between are missing: a state that the store may never have had.
    Salvage,
}

/// What each keyspace can be told by itself.
#[derive(Clone, Debug)]
pub(crate) struct TreeOptions {
    pub(crate) block_bytes: u32,
    pub(crate) entries_per_group: u32,
    pub(crate) compression: Compression,
    pub(crate) filter: FilterPolicy,
    /// Other policies for some levels.
    pub(crate) level_filters: BTreeMap<u32, FilterPolicy>,
    /// Another policy for the last level there is.
    pub(crate) last_level_filter: Option<FilterPolicy>,
    pub(crate) range_filter: RangeFilterPolicy,
    pub(crate) shape: TreeShape,
    pub(crate) segment_bytes: u64,
    /// Combines operands with values.
    pub(crate) operator: Operator,
}

/// Everything a store can be told at `open`. [`Builder`](crate::Builder) sets it.
#[derive(Clone, Debug)]
pub(crate) struct Options {
    /// Of the default keyspace, and of others that are opened without options of their own.
    pub(crate) tree: TreeOptions,
    /// Bytes that compactions write in a second at most.
    pub(crate) compaction_rate: Option<u64>,
    pub(crate) compaction: Compaction,
    pub(crate) compaction_threads: usize,
    /// Steps by which their priority is lower.
    pub(crate) compaction_niceness: u8,
    pub(crate) residency: FilterResidency,
    pub(crate) customs: CustomFilters,
    pub(crate) cache_bytes: u64,
    pub(crate) memtable_bytes: u64,
    pub(crate) sealed_memtables_max: usize,
    pub(crate) durability: Durability,
    pub(crate) io: Io,
    pub(crate) map_journal: bool,
    pub(crate) create: Create,
    pub(crate) access: Access,
    pub(crate) recovery: Recovery,
}

/// Whether `open` may make a new store.
///
/// ```
/// use criba::{Create, Db, Error};
///
/// # fn main() -> criba::Result<()> {
/// # let dir = tempfile::tempdir().unwrap();
/// # let path = dir.path().join("data");
/// let builder = |create| Db::builder(&path).create(create);
/// assert!(matches!(builder(Create::Never).open(), Err(Error::NotAStore { .. })));
/// builder(Create::Always).open()?.close()?;
/// assert!(matches!(builder(Create::Always).open(), Err(Error::NotAStore { .. })));
/// builder(Create::Never).open()?.close()?;
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
#[non_exhaustive]
pub enum Create {
    /// Open the store, or make it if the directory is missing or empty.
    #[default]
    IfMissing,
    /// Open an existing store only.
    Never,
    /// Make a new store only; an existing one is an error.
    Always,
}

/// Whether the store will be written.
///
/// ```
/// use criba::{Access, Db, Error};
///
/// # fn main() -> criba::Result<()> {
/// # let dir = tempfile::tempdir().unwrap();
/// # let path = dir.path().join("data");
/// # let db = Db::open(&path)?;
/// # db.put("apple", "red")?;
/// # db.close()?;
/// let reader = Db::builder(&path).access(Access::ReadOnly).open()?;
/// assert_eq!(reader.get("apple")?.unwrap(), "red");
/// // As long as somebody reads, nobody writes.
/// assert!(matches!(Db::open(&path), Err(Error::Locked { .. })));
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
#[non_exhaustive]
pub enum Access {
    /// Reads and writes; exclusive.
    #[default]
    ReadWrite,
    /// Reads only: no file is made or changed. Any number of readers may have the store open at
    /// once, as long as no writer has.
    ReadOnly,
}

impl Default for TreeOptions {
    fn default() -> TreeOptions {
        TreeOptions {
            block_bytes: 4096,
            entries_per_group: 4,
            compression: Compression::None,
            filter: FilterPolicy::default(),
            level_filters: BTreeMap::new(),
            last_level_filter: None,
            range_filter: RangeFilterPolicy::None,
            shape: TreeShape::default(),
            segment_bytes: 64 << 20,
            operator: Operator::default(),
        }
    }
}

impl Default for Options {
    fn default() -> Options {
        Options {
            tree: TreeOptions::default(),
            compaction_rate: None,
            compaction: Compaction::default(),
            compaction_threads: 2,
            compaction_niceness: 10,
            residency: FilterResidency::default(),
            customs: CustomFilters::default(),
            cache_bytes: 64 << 20,
            memtable_bytes: 32 << 20,
            sealed_memtables_max: 3,
            durability: Durability::default(),
            io: Io::default(),
            map_journal: true,
            create: Create::default(),
            access: Access::default(),
            recovery: Recovery::default(),
        }
    }
}

impl Options {
    pub(crate) fn filter_loading(&self) -> FilterLoading {
        FilterLoading {
            residency: self.residency,
            customs: self.customs.clone(),
        }
    }
}
