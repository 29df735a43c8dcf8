//! What the cache keeps, in counts of reads: blocks while they fit, then also entries by themselves.

use std::sync::Arc;

use criba::sim::Memory;
use criba::storage::ReadCause;
use criba::{Db, FilterResidency};

const KEYS: u64 = 40_000;
/// Data of 5 MB, and a cache for a fifth of it.
const CACHE_BYTES: u64 = 1 << 20;
/// About as many as a block has entries.
const APART: u64 = 40;

fn key(n: u64) -> String {
    format!("key{n:09}")
}

fn value(n: u64, round: u8) -> Vec<u8> {
    let mut value = vec![round; 100];
    value[..8].copy_from_slice(&n.to_le_bytes());
    value
}

fn store(cache_bytes: u64) -> Db {
    store_with(cache_bytes, FilterResidency::Pinned)
}

fn store_with(cache_bytes: u64, residency: FilterResidency) -> Db {
    let db = Db::builder("kept")
        .compaction(criba::Compaction::Manual)
        .storage(Arc::new(Memory::new()))
        .cache_bytes(cache_bytes)
        .filter_residency(residency)
        .memtable_bytes(64 << 20)
        .open()
        .unwrap();
    fill(&db, 0);
    db
}

fn fill(db: &Db, round: u8) {
    let mut batch = db.batch();
    for n in 0..KEYS {
        batch.put(key(n), value(n, round));
    }
    batch.commit().unwrap();
    db.flush().unwrap();
}

/// Data blocks that are read for this.
fn blocks_read(db: &Db, work: impl FnOnce()) -> u64 {
    let before = db.stats().reads;
    work();
    db.stats().reads.since(&before).get(ReadCause::Data).calls
}

/// Data blocks that were read to look these up.
fn reads_of(db: &Db, round: u8, numbers: impl Iterator<Item = u64>) -> u64 {
    blocks_read(db, || {
        for n in numbers {
            assert_eq!(db.get(key(n)).unwrap().unwrap(), value(n, round), "{n}");
        }
    })
}

fn blocks(db: &Db) -> u64 {
    db.stats().segments().map(|segment| segment.blocks).sum()
}

#[test]
fn entries_that_are_wanted_often_stay_without_their_blocks() {
    let db = store(CACHE_BYTES);
    let wanted = || (0..KEYS).step_by(APART as usize);
    // Their blocks are four times as much as the cache can hold.
    assert!(blocks(&db) * 4096 > 4 * CACHE_BYTES);
    let first = reads_of(&db, 0, wanted());
    assert!(first >= KEYS / APART * 9 / 10, "{first}");
    for _ in 0..60 {
        reads_of(&db, 0, wanted());
    }
    let last = reads_of(&db, 0, wanted());
    assert!(last * 20 <= first, "{last} reads, {first} at first");
    let stats = db.stats();
    assert!(stats.entry_cache.hits > 0);
    let (blocks, entries) = (stats.block_cache, stats.entry_cache);
    assert!(blocks.bytes <= blocks.capacity_bytes && entries.bytes <= entries.capacity_bytes);
    assert!(blocks.capacity_bytes + entries.capacity_bytes <= CACHE_BYTES);
    assert!(
        entries.capacity_bytes > CACHE_BYTES / 8,
        "{}",
        entries.capacity_bytes
    );
}

#[test]
fn lookups_in_the_order_of_keys_read_each_block_twice_at_most() {
    let db = store(CACHE_BYTES);
    for _ in 0..3 {
        let reads = reads_of(&db, 0, 0..KEYS);
        assert!(reads <= 2 * blocks(&db), "{reads} of {}", blocks(&db));
    }
}

#[test]
fn what_fits_is_read_once() {
    let db = store(16 << 20);
    let blocks = blocks(&db);
    assert_eq!(reads_of(&db, 0, 0..KEYS), blocks);
    assert_eq!(reads_of(&db, 0, 0..KEYS), 0);
    let entries = db.stats().entry_cache;
    assert_eq!((entries.bytes, entries.hits), (0, 0));
}

#[test]
fn a_cache_of_nothing_holds_and_counts_nothing() {
    let db = store(0);
    for _ in 0..2 {
        assert_eq!(reads_of(&db, 0, 0..100), 100);
    }
    let entries = db.stats().entry_cache;
    assert_eq!((entries.hits, entries.misses, entries.bytes), (0, 0, 0));
}

/// A kept entry is the newest of its segment: a snapshot from before it must not see it.
#[test]
fn a_snapshot_does_not_see_a_kept_entry_that_is_newer() {
    let db = store(CACHE_BYTES);
    let snapshot = db.snapshot();
    fill(&db, 1);
    // Both versions of each key come to lie in one segment.
    db.compact_all().unwrap().wait().unwrap();
    let wanted = || (0..KEYS).step_by(APART as usize);
    for _ in 0..20 {
        reads_of(&db, 1, wanted());
    }
    assert!(db.stats().entry_cache.hits > 0);
    for n in wanted() {
        let old = snapshot.get(key(n)).unwrap().unwrap();
        assert_eq!(old, value(n, 0), "{n}");
    }
    for n in wanted() {
        db.delete(key(n)).unwrap();
    }
    db.flush().unwrap();
    db.compact_all().unwrap().wait().unwrap();
    for _ in 0..20 {
        for n in wanted() {
            assert!(db.get(key(n)).unwrap().is_none(), "{n}");
            assert_eq!(snapshot.get(key(n)).unwrap().unwrap(), value(n, 0), "{n}");
        }
    }
}

/// Data blocks that were read to scan these.
fn reads_of_scan(db: &Db, numbers: std::ops::Range<u64>) -> u64 {
    let count = numbers.end - numbers.start;
    let range = key(numbers.start)..key(numbers.end);
    blocks_read(db, || assert_eq!(db.range(range).count() as u64, count))
}

#[test]
fn a_scan_of_everything_drives_out_nothing_and_one_that_comes_again_is_kept() {
    let db = store(CACHE_BYTES);
    let all = blocks(&db);
    let half = KEYS / 10;
    // What is wanted takes half of the cache, and others have filled it before.
    assert!(reads_of_scan(&db, half..KEYS) > all / 2);
    let first = reads_of_scan(&db, 0..half);
    assert!(first > all / 20, "{first} of {all}");
    for _ in 0..4 {
        reads_of_scan(&db, 0..half);
    }
    let kept = reads_of_scan(&db, 0..half);
    assert!(kept * 5 <= first, "{kept} of {first}");
    assert!(reads_of_scan(&db, half..KEYS) > all / 2);
    let after = reads_of_scan(&db, 0..half);
    assert!(after * 5 <= first, "{after} of {first}");
}

/// Bug: only lookups had the budget divided anew, so scans never got back what entries had taken.
#[test]
fn scans_get_the_budget_back_that_entries_have_taken() {
    let db = store(CACHE_BYTES);
    for _ in 0..60 {
        reads_of(&db, 0, (0..KEYS).step_by(20));
    }
    let entries = db.stats().entry_cache;
    assert!(entries.capacity_bytes > CACHE_BYTES / 2, "{entries:?}");
    // Three fifths of the cache.
    let scanned = KEYS / 8;
    let first = reads_of_scan(&db, 0..scanned);
    for _ in 0..200 {
        reads_of_scan(&db, 0..scanned);
    }
    let last = reads_of_scan(&db, 0..scanned);
    assert!(last * 4 <= first, "{last} reads, {first} at first");
}

/// Less than filters, of 80 kB, and data would take together.
const SHARED_BYTES: u64 = 96 << 10;

/// Pages of filters that are read for each of many lookups of absent keys, the first ones not counted.
fn pages_read(db: &Db) -> f64 {
    let look_up = |count: u64| {
        let before = db.stats().reads;
        for n in 0..count {
            assert_eq!(db.get(format!("{}x", key(n * 7919 % KEYS))).unwrap(), None);
        }
        let reads = db.stats().reads.since(&before);
        reads.get(ReadCause::Filter).calls as f64 / count as f64
    };
    look_up(10 * KEYS);
    look_up(KEYS)
}

#[test]
fn pages_of_filters_get_the_budget_that_they_share_where_only_they_are_wanted() {
    let db = store_with(SHARED_BYTES, FilterResidency::Shared);
    // Blocks fill it first, of which hardly one is ever found again.
    for n in 0..KEYS {
        db.get(key(n * 7919 % KEYS)).unwrap();
    }
    let (read, stats) = (pages_read(&db), db.stats());
    let pages = &stats.filter_cache;
    assert!(pages.capacity_bytes > SHARED_BYTES * 3 / 4, "{pages:?}");
    assert!(pages.bytes <= pages.capacity_bytes);
    let together =
        [&stats.block_cache, &stats.entry_cache, pages].map(|cache| cache.capacity_bytes);
    assert_eq!(together.iter().sum::<u64>(), SHARED_BYTES);
    // A half of the budget apart from the data, whatever is asked, reads more.
    let bytes = SHARED_BYTES / 2;
    let apart = store_with(bytes, FilterResidency::Cached { bytes });
    let read_apart = pages_read(&apart);
    assert!(read * 2.0 < read_apart, "{read}, {read_apart} apart");
}

#[test]
fn blocks_get_the_budget_that_they_share_where_only_they_are_found_again() {
    let db = store_with(SHARED_BYTES, FilterResidency::Shared);
    pages_read(&db);
    // A third of the budget, scanned over and over, beside keys that are nowhere twice.
    for n in 0..40_000 {
        assert_eq!(db.range(key(n % 10 * 20)..).take(40).count(), 40);
        db.get(format!("{}y", key(n * 7919 % KEYS))).unwrap();
    }
    let stats = db.stats();
    let (blocks, pages) = (&stats.block_cache, &stats.filter_cache);
    assert!(pages.capacity_bytes < SHARED_BYTES / 4, "{pages:?}");
    assert!(blocks.capacity_bytes > SHARED_BYTES / 2, "{blocks:?}");
}

#[test]
fn shared_pages_stay_while_there_is_room() {
    let db = store_with(16 << 20, FilterResidency::Shared);
    reads_of(&db, 0, 0..KEYS);
    let before = db.stats().reads;
    reads_of(&db, 0, 0..KEYS);
    pages_read(&db);
    let reads = db.stats().reads.since(&before);
    assert_eq!(reads.get(ReadCause::Filter).calls, 0);
}
