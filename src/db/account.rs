//! Collects [`Stats`] from the parts of an open store.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use crate::cache::{Cache, Weigh};
use crate::segment::{self, Segment, SegmentStats};
use crate::version::Version;

use super::estimate::counted;
use super::shared::{Shared, View, lock};
use super::stats::{CacheStats, CompactionStats, MemtableStats, RunStats, StallStats, Stats};

fn load(counter: &AtomicU64) -> u64 {
    counter.load(Ordering::Relaxed)
}

fn cache_stats<V: Weigh + Clone>(cache: &Cache<V>) -> CacheStats {
    let (hits, misses) = cache.hits_and_misses();
    let (bytes, capacity_bytes) = cache.bytes_and_capacity();
    CacheStats {
        hits,
        misses,
        bytes,
        capacity_bytes,
    }
}

/// Bytes of the files of a run that so many of its keys with values take: their part of all that
/// entries hold, as if their values were as long as the mean. Tombstones are taken to be as long
/// as the mean of the first and the last key of their segment.
fn live_bytes(live: f64, segments: &[SegmentStats]) -> f64 {
    let (mut files, mut raw, mut of_values, mut values) = (0.0, 0.0, 0.0, 0.0);
    for segment in segments.iter().filter(|segment| segment.damage.is_none()) {
        let key_bytes = (segment.first_key.len() + segment.last_key.len()) as f64 / 2.0;
        let of_tombstones = segment.tombstones as f64 * key_bytes;
        files += segment.file_bytes as f64;
        raw += segment.raw_bytes as f64;
        of_values += (segment.raw_bytes as f64 - of_tombstones).max(0.0);
        values += segment.entries.saturating_sub(segment.tombstones) as f64;
    }
    if values == 0.0 || raw == 0.0 {
        return 0.0;
    }
    files * (of_values / raw * live / values).min(1.0)
}

impl Shared {
    /// Everything the store knows about itself; nothing is read.
    pub(crate) fn stats(&self) -> Stats {
        let view = self.view.load_full();
        let counters = &self.counters;
        Stats {
            sequence: self.visible().0,
            memtable: self.memtable_stats(&view),
            runs: self.run_stats(&view.version),
            reads: self.counting.total(),
            written_bytes: self.counting.written_bytes(),
            syncs: self.counting.syncs(),
            lookups: counters.lookups.load(),
            block_cache: cache_stats(&self.caches.blocks),
            entry_cache: cache_stats(&self.caches.entries.cache),
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

    fn run_stats(&self, version: &Version) -> Vec<RunStats> {
        let live = &counted(version).live_by_run;
        let lookups = self.lookups_in_runs();
        let runs = version.runs().iter().zip(live).map(|(run, live)| {
            let segments = run
                .segments
                .iter()
                .map(|one| self.segment_stats(one, lookups));
            let segments: Vec<SegmentStats> = segments.collect();
            RunStats {
                level: run.level,
                live_keys: live.round() as u64,
                live_bytes: live_bytes(*live, &segments).round() as u64,
                segments,
            }
        });
        runs.collect()
    }

    fn segment_stats(&self, segment: &Segment, lookups: u64) -> SegmentStats {
        let name = segment::file_name(segment.meta.id);
        let reads = self.counting.of(&name).unwrap_or_default();
        segment.stats(reads, lookups)
    }
}
