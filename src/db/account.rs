//! Collects [`Stats`] from the parts of an open store.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use crate::cache::Cache;
use crate::segment::{self, Segment, SegmentStats};

use super::shared::{Shared, View, lock};
use super::stats::{
    CacheStats, CompactionStats, LookupStats, MemtableStats, RunStats, StallStats, Stats,
};

fn load(counter: &AtomicU64) -> u64 {
    counter.load(Ordering::Relaxed)
}

fn cache_stats<V: crate::cache::Weigh + Clone>(cache: &Cache<V>) -> CacheStats {
    let (hits, misses) = cache.hits_and_misses();
    let (bytes, capacity_bytes) = cache.bytes_and_capacity();
    CacheStats {
        hits,
        misses,
        bytes,
        capacity_bytes,
    }
}

impl Shared {
    /// Everything the store knows about itself; nothing is read.
    pub(crate) fn stats(&self) -> Stats {
        let view = self.view.load_full();
        let counters = &self.counters;
        let runs = view.version.runs().iter().map(|run| RunStats {
            level: run.level,
            segments: run
                .segments
                .iter()
                .map(|segment| self.segment_stats(segment))
                .collect(),
        });
        Stats {
            sequence: self.visible().0,
            memtable: self.memtable_stats(&view),
            runs: runs.collect(),
            reads: self.counting.total(),
            written_bytes: self.counting.written_bytes(),
            syncs: self.counting.syncs(),
            lookups: LookupStats {
                lookups: load(&counters.lookups),
                memtable_hits: load(&counters.memtable_hits),
                segment_hits: load(&counters.segment_hits),
                absent: load(&counters.absent),
            },
            block_cache: cache_stats(&self.caches.blocks),
            filter_cache: cache_stats(&self.caches.pages),
            compactions: CompactionStats {
                merges: load(&counters.compactions),
                moves: load(&counters.moves),
                parts: load(&counters.compacted_parts),
                dropped: load(&counters.dropped),
                flushed_bytes: load(&counters.flushed_bytes),
                merged_bytes: load(&counters.compacted_bytes),
                merge_time: Duration::from_nanos(load(&counters.compaction_ns)),
                debt_bytes: load(&self.debt_bytes),
                is_settled: self.is_settled(),
                user_bytes: load(&counters.user_bytes),
            },
            stalls: StallStats {
                slowed: load(&counters.slowed),
                slowed_time: Duration::from_nanos(load(&counters.slowed_ns)),
                stopped: load(&counters.stopped),
                stopped_time: Duration::from_nanos(load(&counters.stopped_ns)),
            },
            events: lock(&self.events).iter().cloned().collect(),
            recovery: self.recovery.clone(),
        }
    }

    fn memtable_stats(&self, view: &View) -> MemtableStats {
        MemtableStats {
            active_bytes: view.active.bytes(),
            active_entries: view.active.entry_count(),
            sealed_count: view.sealed.len() as u64,
            sealed_bytes: view.sealed.iter().map(|sealed| sealed.table.bytes()).sum(),
            flushes: load(&self.counters.flushes),
        }
    }

    fn segment_stats(&self, segment: &Segment) -> SegmentStats {
        let name = segment::file_name(segment.meta.id);
        segment.stats(self.counting.of(&name).unwrap_or_default())
    }
}
