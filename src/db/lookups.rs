//! What point lookups met, counted where the threads that look up do not disturb each other.

use crate::sharded_counter::ShardedCounter;

use super::stats::LookupStats;

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

    pub(super) fn load(&self) -> LookupStats {
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
