//! Collects [`Stats`] from the parts of an open store.

use std::sync::Arc;

use crate::cache::{Cache, Weigh};
use crate::segment::{self, Segment, SegmentStats};
use crate::services::Tally;
use crate::storage::Storage as _;
use crate::store::Store;
use crate::tree::{Tree, View, counted};
use crate::version::Version;

use super::stats::{
    CacheStats, CompactionStats, MemtableStats, RunStats, SnapshotStats, StallStats, Stats,
};

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

/// Everything the store knows about itself; nothing is read.
pub(super) fn stats(store: &Store, tree: &Tree) -> Stats {
    let view = tree.view_to_keep();
    let (monitor, counting) = (store.monitor(), store.counting());
    let caches = &store.services().caches;
    Stats {
        keyspace: tree.name().to_owned(),
        sequence: store.visible().0,
        memtable: memtable_stats(store, &view),
        runs: run_stats(store, tree, &view.version),
        reads: counting.total(),
        read_batches: counting.read_batches(),
        read_many_by: counting.read_many_by(),
        written_bytes: counting.written_bytes(),
        syncs: counting.syncs(),
        lookups: tree.lookups().load(),
        scans: tree.scans().load(),
        block_cache: cache_stats(&caches.blocks),
        entry_cache: cache_stats(&caches.entries.cache),
        filter_cache: cache_stats(&caches.pages),
        compactions: CompactionStats {
            merges: monitor.total(Tally::Compactions),
            moves: monitor.total(Tally::Moves),
            parts: monitor.total(Tally::CompactedParts),
            dropped: monitor.total(Tally::Dropped),
            flushed_bytes: monitor.total(Tally::FlushedBytes),
            merged_bytes: monitor.total(Tally::CompactedBytes),
            merge_time: monitor.total_time(Tally::CompactionNs),
            debt_bytes: store.debt_bytes(),
            is_settled: store.is_settled(),
            user_bytes: monitor.total(Tally::UserBytes),
        },
        stalls: StallStats {
            slowed: monitor.total(Tally::Slowed),
            slowed_time: monitor.total_time(Tally::SlowedNs),
            stopped: monitor.total(Tally::Stopped),
            stopped_time: monitor.total_time(Tally::StoppedNs),
        },
        snapshots: snapshot_stats(store),
        events: monitor.events(),
        recovery: store.recovery().clone(),
    }
}

fn snapshot_stats(store: &Store) -> SnapshotStats {
    let census = store.services().snapshots.census();
    SnapshotStats {
        snapshots: census.snapshots,
        transactions: census.transactions,
        oldest_sequence: census.oldest.map(|(sequence, _)| sequence.0),
        oldest_age: census.oldest.map(|(_, age)| age),
    }
}

fn memtable_stats(store: &Store, view: &View) -> MemtableStats {
    MemtableStats {
        active_bytes: view.active.bytes(),
        active_entries: view.active.entry_count(),
        sealed_count: view.sealed.len() as u64,
        sealed_bytes: view.sealed.iter().map(|sealed| sealed.bytes()).sum(),
        flushes: store.monitor().total(Tally::Flushes),
    }
}

fn run_stats(store: &Store, tree: &Tree, version: &Version) -> Vec<RunStats> {
    let live = &counted(version).live_by_run;
    let lookups = tree.lookups().in_runs_so_far();
    let segment_stats = |segment: &Arc<Segment>| {
        let name = segment::file_name(segment.meta.file);
        let reads = store.counting().of(&name).unwrap_or_default();
        segment.stats(reads, lookups)
    };
    let runs = version.runs().iter().zip(live).map(|(run, live)| {
        let segments: Vec<SegmentStats> = run.segments.iter().map(segment_stats).collect();
        RunStats {
            level: run.level,
            live_keys: live.round() as u64,
            live_bytes: live_bytes(*live, &segments).round() as u64,
            segments,
        }
    });
    runs.collect()
}
