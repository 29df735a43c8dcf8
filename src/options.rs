//! What the caller chooses, with units and defaults. Everything is checked at `open`.

use std::collections::BTreeMap;
use std::time::Duration;

use crate::error::{Error, Result};
use crate::storage::Io;
use criba_filters::segment::{BloomierBits, CustomFilters, FilterSpec};

/// What survives a write that has returned.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
#[non_exhaustive]
pub enum Durability {
    /// Nothing yet: the write is in memory of the process. It reaches the system with the next
    /// stronger write, with 64 KiB of journal, with [`Db::sync`](crate::Db::sync) or at close.
    Buffered,
    /// A kill of the process: the write is with the operating system. Power loss may take it,
    /// but never an older write without it.
    #[default]
    Process,
    /// Power loss: the write, and all before it, is on stable storage.
    Sync,
}

/// Whether data blocks are compressed.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
#[non_exhaustive]
pub enum Compression {
    /// Stored as they are. Each fills whole 4 KiB pages where that wastes little, so that a read touches
    /// as few as can be: with entries of up to 450 bytes and blocks of 4 KiB always.
    #[default]
    None,
    /// LZ4: larger than Zstandard, and quicker to write and to read. A block that does not shrink is
    /// stored as it is.
    Lz4,
    /// Zstandard at this level, 1 to 19. A block that does not shrink is stored as it is.
    Zstd {
        /// Higher is smaller and slower to write; 3 is a good start.
        level: i32,
    },
}

/// Which filter the segments carry.
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
    /// The program's own: the first one that [`Builder::custom_filter`](crate::Builder::custom_filter)
    /// got. It is in memory as a whole, whatever [`FilterResidency`] says.
    Custom,
    /// Bloomier filters that together have this many bits for each key of the store, shared out so
    /// that an absent key costs least: small runs get more, each halving of the key count a bit
    /// ("Monkey", 2017). Computed from the real key counts whenever a segment is written, with room
    /// for runs to come: the memory is taken when the levels above the last are full.
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

/// Where filters are while the store is open.
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
    /// By such pages in the cache of data, within [`cache_bytes`](crate::Builder::cache_bytes): how much
    /// of it is theirs follows what lookups find in it.
    Shared,
}

/// How the filters of segments are opened.
#[derive(Clone, Debug, Default)]
pub(crate) struct FilterLoading {
    pub(crate) residency: FilterResidency,
    pub(crate) customs: CustomFilters,
}

/// How the tree is kept in shape. It can be changed at any `open`; the tree follows.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
#[non_exhaustive]
pub enum Strategy {
    /// Every level below the first is one run, larger than the level above by the ratio: least
    /// space and fewest runs to ask, most rewriting. What nearly every use wants.
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
    /// Nothing is merged; the oldest runs are removed, with all that is in them, when all together
    /// are larger than allowed or when everything in them has come of age. For data that ages.
    ///
    /// The age counts from the flush: what is in memory stays, and a run goes as a whole.
    #[doc(alias = "ttl")]
    Fifo {
        /// Bytes of all segments together; `u64::MAX` for any number.
        bytes: u64,
        /// Age from which on a run is removed, a millisecond at least; `None` for none. Measured
        /// by the time of day ([`Storage::now`](crate::storage::Storage::now)), and looked at once
        /// a minute or more often. Where the time is or was unknown, nothing comes of age; a clock
        /// that is set back makes data stay longer.
        age: Option<Duration>,
    },
}

/// Whether compactions run by themselves.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
#[non_exhaustive]
pub enum Compaction {
    /// In the background, whenever the tree is out of shape, and when it is idle: see
    /// [`Builder::merge_when_idle`](crate::Builder::merge_when_idle).
    #[default]
    Background,
    /// Only when [`Db::compact`](crate::Db::compact) asks: for loads that compact once at the
    /// end, and for experiments with runs as flushes leave them. Writers are not held back by
    /// runs that add up.
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

/// What `open` does when a journal is damaged in a way that no crash explains.
///
/// A torn end that was never promised is dropped in every mode. The modes differ in what else they
/// give up, and that only when the strict way refuses; each loss is in
/// [`RecoveryReport::lost`](crate::RecoveryReport::lost). What was saved is in a segment, durably,
/// when `open` returns, and the journals that lost something are kept as `NNNNNN.journal.damaged`:
/// nothing of them is deleted. Damage elsewhere is not for these modes: reads meet that of
/// segments, and [`Builder::repair`](crate::Builder::repair) helps with that of the manifest.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
#[non_exhaustive]
pub enum Recovery {
    /// Refuse to open, and change nothing.
    #[default]
    Strict,
    /// The state up to the first damage: everything that follows is dropped, also what was
    /// promised. Batches are whole, and none is there without all before it.
    TolerateTail,
    /// Everything that is intact, also behind damage. Batches are whole and in order, but some in
    /// between are missing: a state that the store may never have had.
    Salvage,
}

/// Everything a store can be told at `open`. [`Builder`](crate::Builder) sets it.
#[derive(Clone, Debug)]
pub(crate) struct Options {
    pub(crate) block_bytes: u32,
    pub(crate) entries_per_group: u32,
    pub(crate) compression: Compression,
    pub(crate) filter: FilterPolicy,
    /// Other policies for some levels.
    pub(crate) level_filters: BTreeMap<u32, FilterPolicy>,
    /// Another policy for the last level there is.
    pub(crate) last_level_filter: Option<FilterPolicy>,
    pub(crate) tree: TreeShape,
    /// Bytes that compactions write in a second at most.
    pub(crate) compaction_rate: Option<u64>,
    pub(crate) compaction: Compaction,
    pub(crate) compaction_threads: usize,
    pub(crate) residency: FilterResidency,
    pub(crate) customs: CustomFilters,
    pub(crate) cache_bytes: u64,
    pub(crate) memtable_bytes: u64,
    pub(crate) sealed_memtables_max: usize,
    pub(crate) segment_bytes: u64,
    pub(crate) durability: Durability,
    pub(crate) io: Io,
    pub(crate) map_journal: bool,
    pub(crate) create: Create,
    pub(crate) access: Access,
    pub(crate) recovery: Recovery,
}

/// Whether `open` may make a new store.
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
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
#[non_exhaustive]
pub enum Access {
    /// Reads and writes; exclusive.
    #[default]
    ReadWrite,
    /// Reads only: no file is made or changed. Any number of readers may have the store open at
    /// once, but nobody who writes.
    ReadOnly,
}

/// Smallest and largest target size of a data block, in bytes.
const BLOCK_BYTES: std::ops::RangeInclusive<u32> = 512..=1 << 20;
const ENTRIES_PER_GROUP: std::ops::RangeInclusive<u32> = 1..=256;
const MEMTABLE_BYTES: std::ops::RangeInclusive<u64> = 64 << 10..=4 << 30;
const BASE_BYTES: std::ops::RangeInclusive<u64> = 64 << 10..=1 << 50;
const SEGMENT_BYTES: std::ops::RangeInclusive<u64> = 64 << 10..=64 << 30;
/// What a FIFO keeps; with less than a memtable it would drop every flush at once.
const FIFO_BYTES: std::ops::RangeInclusive<u64> = 64 << 10..=u64::MAX;

/// Times on disk are in milliseconds.
const FIFO_AGE_MIN: Duration = Duration::from_millis(1);

impl Default for Options {
    fn default() -> Options {
        Options {
            block_bytes: 4096,
            entries_per_group: 4,
            compression: Compression::None,
            filter: FilterPolicy::default(),
            level_filters: BTreeMap::new(),
            last_level_filter: None,
            tree: TreeShape::default(),
            compaction_rate: None,
            compaction: Compaction::default(),
            compaction_threads: 2,
            residency: FilterResidency::default(),
            customs: CustomFilters::default(),
            cache_bytes: 64 << 20,
            memtable_bytes: 32 << 20,
            sealed_memtables_max: 3,
            segment_bytes: 64 << 20,
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
    /// # Errors
    ///
    /// [`Error::Invalid`] names the first option outside its bounds and what it may be.
    pub(crate) fn check(&self) -> Result<()> {
        within("block_bytes", &self.block_bytes, &BLOCK_BYTES)?;
        if !self.block_bytes.is_power_of_two() {
            let lower = 1 << self.block_bytes.ilog2();
            return Err(Error::Invalid(format!(
                "block_bytes is {}; choose a power of two: {lower} or {}",
                self.block_bytes,
                lower * 2
            )));
        }
        within(
            "entries_per_group",
            &self.entries_per_group,
            &ENTRIES_PER_GROUP,
        )?;
        within("memtable_bytes", &self.memtable_bytes, &MEMTABLE_BYTES)?;
        within("segment_bytes", &self.segment_bytes, &SEGMENT_BYTES)?;
        within(
            "sealed_memtables_max",
            &self.sealed_memtables_max,
            &(1..=64),
        )?;
        if let Compression::Zstd { level } = self.compression {
            within("zstd level", &level, &(1..=19))?;
        }
        let others = self.level_filters.values().chain(&self.last_level_filter);
        for policy in std::iter::once(&self.filter).chain(others) {
            self.check_filter(*policy)?;
        }
        within("compaction_threads", &self.compaction_threads, &(1..=16))?;
        within("level_ratio", &self.tree.ratio, &(2..=100))?;
        within("level0_runs", &self.tree.level0_runs, &(1..=1000))?;
        within("level_base_bytes", &self.tree.base_bytes, &BASE_BYTES)?;
        if let Strategy::Fifo { bytes, age } = self.tree.strategy {
            within("fifo bytes", &bytes, &FIFO_BYTES)?;
            check_age(age)?;
        }
        if let Some(rate) = self.compaction_rate {
            within("compaction_rate", &rate, &(1 << 16..=u64::MAX))?;
        }
        if self.create == Create::Always && self.access == Access::ReadOnly {
            return Err(Error::Invalid(
                "a new store cannot be made read-only; choose Access::ReadWrite or Create::Never"
                    .into(),
            ));
        }
        self.customs.check().map_err(Error::Invalid)
    }

    fn check_filter(&self, policy: FilterPolicy) -> Result<()> {
        match policy {
            FilterPolicy::Budget { bits_per_key } => {
                within("bits_per_key", &bits_per_key, &(0.0..=64.0))
            }
            FilterPolicy::Custom if self.customs.first().is_none() => Err(Error::Invalid(
                "FilterPolicy::Custom without a filter; give one to Builder::custom_filter".into(),
            )),
            policy => policy
                .spec()
                .map_or(Ok(()), |spec| spec.check().map_err(Error::Invalid)),
        }
    }

    pub(crate) fn filter_loading(&self) -> FilterLoading {
        FilterLoading {
            residency: self.residency,
            customs: self.customs.clone(),
        }
    }
}

fn check_age(age: Option<Duration>) -> Result<()> {
    match age {
        Some(age) if age < FIFO_AGE_MIN => Err(Error::Invalid(format!(
            "fifo age is {age:?}; choose at least {FIFO_AGE_MIN:?}, or None for no limit"
        ))),
        _ => Ok(()),
    }
}

fn within<T: PartialOrd + std::fmt::Display>(
    name: &str,
    value: &T,
    bounds: &std::ops::RangeInclusive<T>,
) -> Result<()> {
    if bounds.contains(value) {
        return Ok(());
    }
    Err(Error::Invalid(format!(
        "{name} is {value}; choose {} to {}",
        bounds.start(),
        bounds.end()
    )))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn refusal(change: impl FnOnce(&mut Options)) -> String {
        let mut options = Options::default();
        change(&mut options);
        options.check().unwrap_err().to_string()
    }

    #[test]
    fn nonsense_is_refused_by_name() {
        assert!(Options::default().check().is_ok());
        assert_eq!(
            refusal(|o| o.block_bytes = 0),
            "block_bytes is 0; choose 512 to 1048576"
        );
        let age = Some(Duration::from_micros(999));
        assert_eq!(
            refusal(|o| o.tree.strategy = Strategy::Fifo {
                bytes: 1 << 30,
                age
            }),
            "fifo age is 999µs; choose at least 1ms, or None for no limit"
        );
        assert!(refusal(|o| o.compression = Compression::Zstd { level: 99 }).contains("zstd"));
        assert!(
            refusal(|o| o.filter = FilterPolicy::Bloom {
                bits_per_key: f64::NAN
            })
            .contains("bits")
        );
    }
}
