//! The library's accounts as JSON objects.

use std::time::Duration;

use criba::storage::{ReadCause, ReadCounts};
use criba::{
    CacheStats, CompactionStats, Explanation, FilterOutcome, FilterStats, Outcome, RecoveryReport,
    RunStats, SegmentStats, Source, Stats, Step,
};
use serde_json::Value;

use crate::json::Object;
use crate::levels::{Level, levels};

/// Nanoseconds, exact up to 584 years.
fn nanoseconds(time: Duration) -> u64 {
    u64::try_from(time.as_nanos()).unwrap_or(u64::MAX)
}

fn list<T>(items: &[T], describe: impl Fn(&T) -> Object) -> Vec<Value> {
    items.iter().map(|item| describe(item).into()).collect()
}

/// Reads by cause: `filter_reads`, `filter_bytes` and so on.
fn reads(counts: &ReadCounts) -> Object {
    let mut object = Object::new();
    for cause in ReadCause::ALL {
        let name = match cause {
            ReadCause::Filter => "filter",
            ReadCause::Index => "index",
            ReadCause::Data => "data",
            ReadCause::Open => "open",
            _ => "other",
        };
        let count = counts.get(cause);
        object = object
            .field(&format!("{name}_reads"), count.calls)
            .field(&format!("{name}_bytes"), count.bytes);
    }
    object
}

/// Everything that `criba stats` knows; `live_keys` is an estimate.
pub(crate) fn stats(stats: &Stats, live_keys: u64) -> Object {
    let memtable = &stats.memtable;
    let lookups = &stats.lookups;
    let stalls = &stats.stalls;
    Object::new()
        .field("keyspace", &*stats.keyspace)
        .field("sequence", stats.sequence)
        .field("approximate_len", live_keys)
        .field(
            "write_amplification",
            stats.compactions.write_amplification(),
        )
        .field("space_amplification", stats.space_amplification())
        .field("read_amplification", stats.read_amplification())
        .field(
            "memtable",
            Object::new()
                .field("active_bytes", memtable.active_bytes)
                .field("active_entries", memtable.active_entries)
                .field("sealed_count", memtable.sealed_count)
                .field("sealed_bytes", memtable.sealed_bytes)
                .field("flushes", memtable.flushes),
        )
        .field("reads", reads(&stats.reads))
        .field("read_batches", stats.read_batches)
        .field("written_bytes", stats.written_bytes)
        .field("syncs", stats.syncs)
        .field(
            "lookups",
            Object::new()
                .field("lookups", lookups.lookups)
                .field("memtable_hits", lookups.memtable_hits)
                .field("segment_hits", lookups.segment_hits)
                .field("absent", lookups.absent)
                .field("hit_block_reads", lookups.hit_block_reads)
                .field("hit_block_bytes", lookups.hit_block_bytes)
                .field("absent_block_reads", lookups.absent_block_reads)
                .field("absent_block_bytes", lookups.absent_block_bytes)
                .field("reads_per_hit", lookups.reads_per_hit())
                .field("reads_per_absent", lookups.reads_per_absent()),
        )
        .field("block_cache", cache(&stats.block_cache))
        .field("entry_cache", cache(&stats.entry_cache))
        .field("filter_cache", cache(&stats.filter_cache))
        .field(
            "stalls",
            Object::new()
                .field("slowed", stalls.slowed)
                .field("slowed_ns", nanoseconds(stalls.slowed_time))
                .field("stopped", stalls.stopped)
                .field("stopped_ns", nanoseconds(stalls.stopped_time)),
        )
        .field("compactions", compactions(&stats.compactions))
        .field("recovery", recovery(&stats.recovery))
        .field("levels", list(&levels(stats), level))
        .field("runs", list(&stats.runs, run))
}

fn compactions(compactions: &CompactionStats) -> Object {
    Object::new()
        .field("merges", compactions.merges)
        .field("parts", compactions.parts)
        .field("moves", compactions.moves)
        .field("dropped", compactions.dropped)
        .field("flushed_bytes", compactions.flushed_bytes)
        .field("merged_bytes", compactions.merged_bytes)
        .field("merge_ns", nanoseconds(compactions.merge_time))
        .field("debt_bytes", compactions.debt_bytes)
        .field("is_settled", compactions.is_settled)
        .field("user_bytes", compactions.user_bytes)
        .field("write_amplification", compactions.write_amplification())
}

fn level(level: &Level) -> Object {
    Object::new()
        .field("level", level.level)
        .field("runs", level.runs)
        .field("segments", level.segments)
        .field("entries", level.entries)
        .field("keys", level.keys)
        .field("file_bytes", level.file_bytes)
        .field("live_keys", level.live_keys)
        .field("live_bytes", level.live_bytes)
        .field("space_amplification", level.space_amplification())
        .field("read_amplification", level.reads_per_lookup)
        .field("filter", level.kinds())
        .field("filter_bytes", level.filter_bytes)
        .field("r_bits", level.r_bits())
        .field("bits_per_key", level.bits_per_key())
        .field("designed_rate", level.designed_rate())
        .field("measured_rate", level.measured_rate())
        .field("expected_wasted_reads", level.designed)
        .field("probes", level.probes)
        .field("negatives", level.negatives)
        .field("true_positives", level.true_positives)
        .field("false_positives", level.false_positives)
        .field("damaged", level.damaged)
}

fn cache(cache: &CacheStats) -> Object {
    Object::new()
        .field("hits", cache.hits)
        .field("misses", cache.misses)
        .field("bytes", cache.bytes)
        .field("capacity_bytes", cache.capacity_bytes)
}

fn recovery(report: &RecoveryReport) -> Object {
    let torn = list(&report.torn, |torn| {
        Object::new()
            .field("path", torn.path.display().to_string())
            .field("offset", torn.offset)
            .field("dropped_bytes", torn.dropped_bytes)
    });
    Object::new()
        .field("clean", report.clean)
        .field("batches", report.batches)
        .field("operations", report.operations)
        .field("torn", torn)
        .field("unknown_files", report.unknown_files.clone())
        .field("removed_files", report.removed_files.clone())
}

fn run(run: &RunStats) -> Object {
    Object::new()
        .field("level", run.level)
        .field("live_keys", run.live_keys)
        .field("live_bytes", run.live_bytes)
        .field("file_bytes", run.file_bytes())
        .field("segments", list(&run.segments, segment))
}

/// One segment.
pub(crate) fn segment(segment: &SegmentStats) -> Object {
    Object::new()
        .field("segment", segment.id)
        .field("file_bytes", segment.file_bytes)
        .field("entries", segment.entries)
        .field("keys", segment.keys)
        .field("tombstones", segment.tombstones)
        .bytes("first_key", &segment.first_key)
        .bytes("last_key", &segment.last_key)
        .field("blocks", segment.blocks)
        .field("data_bytes", segment.data_bytes)
        .field("index_bytes", segment.index_bytes)
        .field(
            "filter",
            segment
                .filter
                .as_ref()
                .map(|stats| Value::from(filter(stats))),
        )
        .field("raw_bytes", segment.raw_bytes)
        .field("lookups", segment.lookups)
        .field("block_reads", segment.block_reads)
        .field("block_bytes", segment.block_bytes)
        .field("reads", reads(&segment.reads))
        .field("damage", segment.damage.clone())
}

fn filter(filter: &FilterStats) -> Object {
    Object::new()
        .field("kind", filter.kind)
        .field("r_bits", filter.r_bits)
        .field("designed_rate", filter.designed_rate)
        .field("measured_rate", filter.measured_rate())
        .field("disk_bytes", filter.disk_bytes)
        .field("pinned_bytes", filter.pinned_bytes)
        .field("resident_bytes", filter.resident_bytes)
        .field("build_ns", filter.build_time.map(nanoseconds))
        .field("probes", filter.probes)
        .field("negatives", filter.negatives)
        .field("true_positives", filter.true_positives)
        .field("false_positives", filter.false_positives)
        .field("damage", filter.damage.clone())
}

/// One lookup.
pub(crate) fn explanation(account: &Explanation) -> Object {
    let object = Object::new()
        .bytes("key", &account.key)
        .field("found", account.value.is_some());
    let object = match &account.value {
        Some(value) => object.field("value_bytes", value.len()),
        None => object,
    };
    object
        .field("data_blocks", account.data_blocks())
        .field("filter_pages", account.filter_pages())
        .field("block_reads", account.block_reads())
        .field("read_bytes", account.read_bytes())
        .field("blocks_without_filters", account.blocks_without_filters)
        .field("steps", list(&account.steps, step))
}

fn step(step: &Step) -> Object {
    let object = match step.source {
        Source::ActiveMemtable => Object::new().field("source", "active_memtable"),
        Source::SealedMemtable(ordinal) => Object::new()
            .field("source", "sealed_memtable")
            .field("ordinal", ordinal),
        Source::NoSegment { run, level } => Object::new()
            .field("source", "no_segment")
            .field("run", run)
            .field("level", level),
        Source::Segment { run, level, id } => Object::new()
            .field("source", "segment")
            .field("run", run)
            .field("level", level)
            .field("segment", id),
        _ => Object::new().field("source", "other"),
    };
    let object = match step.filter {
        FilterOutcome::NotAsked => object.field("filter", Value::Null),
        FilterOutcome::No => object.field("filter", "no"),
        FilterOutcome::Maybe => object.field("filter", "maybe"),
        FilterOutcome::Block { block, slot } => object
            .field("filter", "block")
            .field("block", block)
            .field("slot", slot),
        FilterOutcome::Refuted => object.field("filter", "refuted"),
        FilterOutcome::Damaged => object.field("filter", "damaged"),
        _ => object.field("filter", "other"),
    };
    let object = object.field("filter_kind", step.filter_kind);
    let outcome = match step.outcome {
        Outcome::Absent => "absent",
        Outcome::FalsePositive => "false_positive",
        Outcome::Found => "found",
        Outcome::Deleted => "deleted",
        _ => "other",
    };
    object
        .field("fence_block", step.block)
        .field("filter_pages", step.filter_pages)
        .field("data_blocks", step.data_blocks)
        .field("block_reads", step.block_reads)
        .field("from_cache", step.from_cache)
        .field("read_bytes", step.read_bytes)
        .field("outcome", outcome)
        .field("took_ns", nanoseconds(step.took))
}
