//! Counters of point lookups: [`LookupStats`], in a form in which threads that look up do not
//! disturb each other.

use crate::segment::LookupCost;
use crate::sharded_counter::ShardedCounter;

/// Point lookups, by where they ended.
///
/// ```
/// # fn main() -> criba::Result<()> {
/// # let dir = tempfile::tempdir().unwrap();
/// # let db = criba::Db::open(dir.path().join("data"))?;
/// db.put("apple", "red")?;
/// db.flush()?;
/// db.put("banana", "yellow")?;
/// for key in ["apple", "banana", "cherry"] {
///     db.get(key)?;
/// }
/// let lookups = db.stats().lookups;
/// assert_eq!((lookups.lookups, lookups.memtable_hits), (3, 1));
/// assert_eq!((lookups.segment_hits, lookups.absent), (1, 1));
/// assert_eq!(lookups.reads_per_hit(), Some(1.0));
/// assert_eq!(lookups.reads_per_absent(), Some(0.0));
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct LookupStats {
    /// All lookups.
    pub lookups: u64,
    /// Answered by memtables.
    pub memtable_hits: u64,
    /// Answered by a segment, or by operands in several, or by operands in memtables for which
    /// segments were asked, too.
    pub segment_hits: u64,
    /// The key was nowhere.
    pub absent: u64,
    /// Data blocks read from storage by the lookups that a segment answered.
    pub hit_block_reads: u64,
    /// Bytes of these blocks on disk.
    pub hit_block_bytes: u64,
    /// Data blocks read from storage, in vain, by the lookups of keys that were nowhere.
    pub absent_block_reads: u64,
    /// Bytes of these blocks on disk.
    pub absent_block_bytes: u64,
}

impl LookupStats {
    /// Data blocks read from storage for each lookup that a segment answered, with a value or a
    /// tombstone. `None` before the first one.
    pub fn reads_per_hit(&self) -> Option<f64> {
        ratio(self.hit_block_reads, self.segment_hits)
    }

    /// Data blocks read from storage for each lookup of a key that was nowhere. `None` before the
    /// first one.
    pub fn reads_per_absent(&self) -> Option<f64> {
        ratio(self.absent_block_reads, self.absent)
    }
}

fn ratio(part: u64, whole: u64) -> Option<f64> {
    (whole > 0).then(|| part as f64 / whole as f64)
}

const MEMTABLE_HITS: usize = 0;
/// Lookups that a segment answered, the data blocks they read, and the bytes of these; then the
/// same of lookups that found nothing.
const SEGMENT_HITS: usize = 1;
const ABSENT: usize = 4;

/// Data blocks that a lookup has read from storage.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct BlocksRead {
    pub(super) blocks: u64,
    pub(super) bytes: u64,
}

impl BlocksRead {
    /// Adds those of a lookup in one segment.
    #[inline]
    pub(super) fn add(&mut self, cost: &LookupCost) {
        self.blocks += cost.block_reads;
        self.bytes += cost.block_bytes;
    }
}

#[derive(Debug, Default)]
pub(crate) struct LookupCounters {
    counters: ShardedCounter<7>,
}

impl LookupCounters {
    /// A memtable has answered.
    #[inline]
    pub(super) fn memtable_hit(&self) {
        self.counters.mine().add(MEMTABLE_HITS, 1);
    }

    /// A lookup that came to the runs has ended.
    #[inline]
    pub(super) fn in_runs(&self, is_hit: bool, read: BlocksRead) {
        let BlocksRead { blocks, bytes } = read;
        let counters = self.counters.mine();
        let first = if is_hit { SEGMENT_HITS } else { ABSENT };
        counters.add(first, 1);
        if blocks > 0 {
            counters.add(first + 1, blocks);
            counters.add(first + 2, bytes);
        }
    }

    /// Lookups that came to the runs.
    pub(crate) fn in_runs_so_far(&self) -> u64 {
        let lookups = self.load();
        lookups.segment_hits + lookups.absent
    }

    pub(crate) fn load(&self) -> LookupStats {
        let [
            memtable_hits,
            segment_hits,
            hit_block_reads,
            hit_block_bytes,
            absent,
            absent_block_reads,
            absent_block_bytes,
        ] = self.counters.sums();
        LookupStats {
            lookups: memtable_hits + segment_hits + absent,
            memtable_hits,
            segment_hits,
            absent,
            hit_block_reads,
            hit_block_bytes,
            absent_block_reads,
            absent_block_bytes,
        }
    }
}
