//! Many keys looked up at once: `get_many` returns and counts what as many calls of `get` do, and reads
//! each block once, together with the others.

mod together;

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use criba::sim::Memory;
use criba::storage::ReadCause;
use criba::{Builder, Compaction, Db, Error, FilterPolicy, FilterResidency, Io};

/// More than are begun at once.
const RUNS: u32 = 15;
const KEYS: u32 = 600;

fn key(n: u32) -> String {
    format!("key{n:06}")
}

fn value(n: u32, run: u32) -> Vec<u8> {
    [n.to_le_bytes(), run.to_le_bytes()].concat()
}

fn builder() -> Builder {
    Db::builder("many")
        .storage(Arc::new(Memory::new()))
        .compaction(Compaction::Manual)
        .cache_bytes(0)
}

/// Puts some even keys and deletes others, different ones in each run.
fn write(db: &Db, run: u32) {
    let mut batch = db.batch();
    let is_in = |n: &u32| {
        n.wrapping_mul(2_654_435_761)
            .rotate_left(run)
            .is_multiple_of(5)
    };
    for n in (0..KEYS).filter(is_in) {
        match n % 7 {
            0 => batch.delete(key(2 * n)),
            _ => batch.put(key(2 * n), value(n, run)),
        };
    }
    batch.commit().unwrap();
}

/// As many keys, in no order: half of them never were.
fn asked(count: u32) -> Vec<String> {
    let number = |n: u32| n.wrapping_mul(2_654_435_761) % (2 * KEYS);
    (0..count).map(|n| key(number(n))).collect()
}

/// What was done for this: lookups by what became of them and what segments were asked, and data blocks
/// read. The lookups account for each of these.
fn counted<T>(db: &Db, work: impl FnOnce() -> T) -> ((T, [u64; 7]), u64) {
    let outcomes = |db: &Db| {
        let stats = db.stats();
        let lookups = stats.lookups;
        let filters = || stats.segments().filter_map(|one| one.filter.as_ref());
        [
            lookups.lookups,
            lookups.memtable_hits,
            lookups.segment_hits,
            lookups.absent,
            filters().map(|filter| filter.negatives).sum(),
            filters().map(|filter| filter.true_positives).sum(),
            filters().map(|filter| filter.false_positives).sum(),
        ]
    };
    let (before, outcomes_before) = (db.stats(), outcomes(db));
    let done = work();
    let after = db.stats();
    let reads = after.reads.since(&before.reads).get(ReadCause::Data).calls;
    let of_lookups =
        |stats: &criba::Stats| stats.lookups.hit_block_reads + stats.lookups.absent_block_reads;
    assert_eq!(of_lookups(&after) - of_lookups(&before), reads);
    let of_segments =
        |stats: &criba::Stats| -> u64 { stats.segments().map(|one| one.block_reads).sum() };
    assert_eq!(of_segments(&after) - of_segments(&before), reads);
    let after = outcomes(db);
    let lookups = std::array::from_fn(|of| after[of] - outcomes_before[of]);
    ((done, lookups), reads)
}

fn assert_same(db: &Db) {
    for count in [0, 1, 15, 16, 17, 400] {
        let keys = asked(count);
        let one_by_one = || -> Vec<_> { keys.iter().map(|key| db.get(key).unwrap()).collect() };
        let (expected, expected_reads) = counted(db, one_by_one);
        let (at_once, reads) = counted(db, || db.get_many(&keys).unwrap());
        assert_eq!(at_once, expected, "{count} keys");
        assert!(reads <= expected_reads, "{count} keys");
        let blocks: u64 = db.stats().segments().map(|one| one.blocks).sum();
        assert!(reads <= blocks, "{count} keys: each block at most once");
    }
}

fn check(builder: Builder) {
    let db = builder.open().unwrap();
    assert_same(&db);
    for run in 0..RUNS {
        write(&db, run);
        if [0, 1, 2, 11, 12, 14].contains(&run) {
            // In a memtable, too.
            assert_same(&db);
        }
        db.flush().unwrap();
    }
    assert_same(&db);
}

#[test]
fn many_keys_are_found_as_each_of_them_is() {
    check(builder());
    check(builder().filter(FilterPolicy::Bloom { bits_per_key: 8.0 }));
    check(builder().filter(FilterPolicy::None));
    check(builder().filter_residency(FilterResidency::Cached { bytes: 1 << 14 }));
}

#[test]
fn so_they_are_in_mapped_files() {
    let dir = tempfile::tempdir().unwrap();
    let mapped = Db::builder(dir.path().join("many")).io(Io::Mmap);
    let db = mapped.compaction(Compaction::Manual).open().unwrap();
    for run in 0..3 {
        write(&db, run);
        db.flush().unwrap();
    }
    // Each block is read once, whoever comes first.
    let keys = asked(400);
    let found = db.get_many(&keys).unwrap();
    let expected: Vec<_> = keys.iter().map(|key| db.get(key).unwrap()).collect();
    assert_eq!(found, expected);
    assert_eq!(db.get_many(&keys).unwrap(), expected);
}

#[test]
fn a_snapshot_finds_what_there_was() {
    let db = builder().open().unwrap();
    write(&db, 0);
    let keys = asked(100);
    let before = db.get_many(&keys).unwrap();
    let snapshot = db.snapshot();
    for run in 1..4 {
        write(&db, run);
        db.flush().unwrap();
    }
    assert_eq!(snapshot.get_many(&keys).unwrap(), before);
    assert_ne!(db.get_many(&keys).unwrap(), before);
}

#[test]
fn all_are_as_of_one_moment() {
    let db = builder().open().unwrap();
    let keys: Vec<String> = (0..64).map(key).collect();
    let write_all = |round: u32| {
        let mut batch = db.batch();
        for key in &keys {
            batch.put(key, round.to_le_bytes());
        }
        batch.commit().unwrap();
    };
    write_all(0);
    let is_over = AtomicBool::new(false);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            for round in 1..2000 {
                write_all(round);
                if round % 100 == 0 {
                    db.flush().unwrap();
                }
            }
            is_over.store(true, Ordering::Relaxed);
        });
        while !is_over.load(Ordering::Relaxed) {
            let found = db.get_many(&keys).unwrap();
            assert!(found.iter().all(|value| *value == found[0]));
        }
    });
}

#[test]
fn a_closed_store_is_not_asked() {
    let db = builder().open().unwrap();
    let other = db.clone();
    let snapshot = db.snapshot();
    db.close().unwrap();
    assert!(matches!(other.get_many(["a"]), Err(Error::Closed)));
    assert_eq!(snapshot.get_many(["a"]).unwrap(), [None]);
    let late = other.snapshot();
    assert!(matches!(late.get_many(["a"]), Err(Error::Closed)));
}
