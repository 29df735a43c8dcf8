//! The promise of this crate, in counts of reads: see the counting storage.

use std::sync::Arc;

use criba::sim::Memory;
use criba::storage::ReadCause;
use criba::{BloomierBits, Db, FilterPolicy, FilterResidency};

const KEYS: u64 = 100_000;
const RUNS: u64 = 2;

fn key(n: u64) -> String {
    format!("key{n:09}")
}

/// Even numbers are present, dealt to the runs; odd ones are absent, between the present ones.
fn store(policy: FilterPolicy, residency: FilterResidency) -> Db {
    let db = Db::builder("reads")
        .compaction(criba::Compaction::Manual)
        .storage(Arc::new(Memory::new()))
        .filter(policy)
        .filter_residency(residency)
        .cache_bytes(0)
        .memtable_bytes(1 << 30)
        .segment_bytes(1 << 30)
        .open()
        .unwrap();
    for run in 0..RUNS {
        let mut batch = db.batch();
        for n in (run..KEYS).step_by(RUNS as usize) {
            batch.put(key(2 * n), [n as u8; 100]);
        }
        batch.commit().unwrap();
        db.flush().unwrap();
    }
    db
}

/// Data blocks read, filter bytes read, and runs probed by lookups of all numbers of a parity.
fn lookups(db: &Db, parity: u64) -> (u64, u64, u64) {
    let before = db.stats();
    for n in 0..KEYS {
        assert_eq!(db.contains_key(key(2 * n + parity)).unwrap(), parity == 0);
    }
    let after = db.stats();
    let reads = after.reads.since(&before.reads);
    let probes = |stats: &criba::Stats| -> u64 {
        stats
            .segments()
            .filter_map(|segment| segment.filter.as_ref())
            .map(|f| f.probes)
            .sum()
    };
    let filter_bytes = reads.get(ReadCause::Filter).bytes;
    (
        reads.get(ReadCause::Data).calls,
        filter_bytes,
        probes(&after) - probes(&before),
    )
}

#[test]
fn a_present_key_costs_one_read_and_an_absent_one_nearly_none() {
    for bits in [BloomierBits::Block, BloomierBits::Slot] {
        let db = store(FilterPolicy::Bloomier(bits), FilterResidency::Pinned);
        let filter = db
            .stats()
            .segments()
            .next()
            .unwrap()
            .filter
            .clone()
            .unwrap();
        let (data, filter_bytes, probes) = lookups(&db, 0);
        assert_eq!(filter_bytes, 0);
        let wasted = data - KEYS;
        let allowed = (probes - KEYS) as f64 * filter.designed_rate * 1.5 + 10.0;
        assert!(
            (wasted as f64) < allowed,
            "{wasted} wasted, {allowed} allowed"
        );
        let (wasted, _, probes) = lookups(&db, 1);
        let allowed = probes as f64 * filter.designed_rate * 1.5 + 10.0;
        assert!(
            (wasted as f64) < allowed,
            "{wasted} wasted of {probes}, {allowed} allowed"
        );
        let bits_per_key = filter.pinned_bytes as f64 * 8.0 / (KEYS / RUNS) as f64;
        assert!(
            bits_per_key <= 1.03 * filter.r_bits,
            "{bits_per_key} for {}",
            filter.r_bits
        );
    }
}

#[test]
fn a_bloom_filter_keeps_its_rate() {
    let policy = FilterPolicy::Bloom { bits_per_key: 10.0 };
    let db = store(policy, FilterResidency::Pinned);
    let (wasted, _, probes) = lookups(&db, 1);
    let rate = wasted as f64 / probes as f64;
    assert!(rate < 0.0095 * 1.15, "{rate}");
}

#[test]
fn without_a_filter_every_run_costs_a_read() {
    let db = store(FilterPolicy::None, FilterResidency::Pinned);
    // The last key lies behind all others; it is the only one outside the range of a run.
    let (data, ..) = lookups(&db, 1);
    assert!(data >= RUNS * (KEYS - 2), "{data}");
}

#[test]
fn starved_filters_are_read_by_single_pages() {
    for policy in [
        FilterPolicy::Bloomier(BloomierBits::Slot),
        FilterPolicy::Bloomier(BloomierBits::Block),
        FilterPolicy::Bloom { bits_per_key: 10.0 },
    ] {
        let db = store(policy, FilterResidency::Cached { bytes: 16 << 10 });
        let (_, bytes, probes) = lookups(&db, 1);
        let each = bytes as f64 / probes as f64;
        assert!(
            each < 4.5 * 1024.0,
            "{policy:?}: {each} bytes of filter for each probe"
        );
    }
}

/// A merge asks for 512 KiB at a time, and for each block once.
#[test]
fn merges_read_in_large_pieces() {
    let db = store(FilterPolicy::None, FilterResidency::Pinned);
    let before = db.stats();
    let bytes: u64 = before.segments().map(|one| one.data_bytes).sum();
    db.compact_all().unwrap().wait().unwrap();
    let reads = db.stats().reads.since(&before.reads).get(ReadCause::Data);
    assert_eq!(reads.bytes, bytes);
    let requests = bytes / (512 << 10) + 2 * RUNS;
    assert!(reads.calls <= requests, "{} of {requests}", reads.calls);
    assert_eq!(db.iter().count() as u64, KEYS);
}
