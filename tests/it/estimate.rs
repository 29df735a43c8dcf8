//! `approximate_len` against the exact number of keys.
//!
//! `CRIBA_ESTIMATE_KEYS=1000000 cargo test --release estimate -- --nocapture` measures it at
//! another size than that of the suite.
#![expect(clippy::print_stdout, reason = "a measurement is told")]

use std::collections::BTreeSet;
use std::ops::RangeBounds;
use std::sync::Arc;
use std::time::{Duration, Instant};

use criba::sim::Memory;
use criba::{Builder, Compaction, Db, KeyRange, Strategy};

fn builder() -> Builder {
    Db::builder("estimate").storage(Arc::new(Memory::new()))
}

fn key_count() -> u64 {
    let asked = std::env::var("CRIBA_ESTIMATE_KEYS").ok();
    asked.map_or(200_000, |asked| asked.parse().unwrap())
}

/// The `n`-th key, in no order.
fn key(n: u64) -> String {
    let mut x = n.wrapping_add(0x9e37_79b9_7f4a_7c15);
    x = (x ^ (x >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    format!("{:016x}", x ^ (x >> 27))
}

fn put(db: &Db, numbers: impl Iterator<Item = u64>) {
    for n in numbers {
        db.put(key(n), [7; 40]).unwrap();
    }
}

/// The relative error, which is told, and the least time of some calls.
fn check(db: &Db, exact: u64, bound: f64, what: &str) -> Duration {
    let mut took = Duration::MAX;
    let mut found = 0;
    for _ in 0..20 {
        let started = Instant::now();
        found = db.approximate_len();
        took = took.min(started.elapsed());
    }
    let error = found as f64 / exact.max(1) as f64 - 1.0;
    let runs = db.stats().runs.len();
    println!("{what}: {exact} keys in {runs} runs, estimate {found}, error {error:+.4}, {took:?}");
    assert!(
        (found as f64 - exact as f64).abs() <= bound * exact as f64,
        "{what}: {found} for {exact}"
    );
    took
}

/// The promise of the crate: within 3 % with half of the keys overwritten, in under a
/// millisecond, without a read.
#[test]
fn half_of_the_keys_overwritten() {
    let keys = key_count();
    for strategy in [Strategy::Leveled, Strategy::Tiered, Strategy::LazyLeveled] {
        let db = builder()
            .strategy(strategy)
            .memtable_bytes(keys * 8)
            .level_base_bytes(keys * 32)
            .open()
            .unwrap();
        put(&db, 0..keys);
        put(&db, (0..keys).step_by(2));
        let name = format!("{strategy:?}");
        let took = check(&db, keys, 0.03, &name);
        // Only a quiet machine and an optimised build can keep it; this is a measurement.
        assert!(took < Duration::from_millis(10), "{took:?}");
        db.close().unwrap();
    }
}

/// With the options as they are by default.
#[test]
fn half_of_the_keys_overwritten_by_default() {
    let keys = key_count();
    let db = builder().open().unwrap();
    put(&db, 0..keys);
    put(&db, (0..keys).step_by(2));
    check(&db, keys, 0.03, "default");
    db.flush().unwrap();
    check(&db, keys, 0.03, "default, flushed");
    db.compact_all().unwrap().wait().unwrap();
    check(&db, keys, 0.0, "default, compacted");
}

/// A tree of eight runs and a memtable; then the relative errors of all keys and of some ranges.
fn trial(keys: u64, change: fn(&Db, u64) -> Vec<u64>) -> (f64, f64) {
    let db = builder()
        .compaction(Compaction::Manual)
        .memtable_bytes(1 << 30)
        .open()
        .unwrap();
    for run in 0..8 {
        put(&db, keys * run / 8..keys * (run + 1) / 8);
        db.flush().unwrap();
    }
    let live: BTreeSet<String> = change(&db, keys).into_iter().map(key).collect();
    let error = |found: u64, exact: usize| (found as f64 - exact as f64) / exact as f64;
    let mut range_error = 0.0_f64;
    for from in 0..8 {
        let range = format!("{from:x}1")..format!("{from:x}b");
        let exact = live.range(range.clone()).count();
        range_error += error(db.approximate_len_in(range), exact).powi(2) / 8.0;
    }
    let all = error(db.approximate_len(), live.len());
    // Asked again, from what was kept.
    assert_eq!(all, error(db.approximate_len(), live.len()));
    (all, range_error.sqrt())
}

fn unchanged(_: &Db, keys: u64) -> Vec<u64> {
    (0..keys).collect()
}

fn half_overwritten(db: &Db, keys: u64) -> Vec<u64> {
    put(db, (0..keys / 2).step_by(2));
    db.flush().unwrap();
    put(db, (keys / 2..keys).step_by(2));
    (0..keys).collect()
}

fn third_deleted(db: &Db, keys: u64) -> Vec<u64> {
    let delete = |from: u64, to: u64| {
        (from..to)
            .filter(|n| n % 3 == 0)
            .for_each(|n| db.delete(key(n)).unwrap());
    };
    delete(0, keys / 2);
    db.flush().unwrap();
    delete(keys / 2, keys);
    (0..keys).filter(|n| n % 3 != 0).collect()
}

/// The table in `docs/notes/estimates.md`: with `CRIBA_ESTIMATE_KEYS=1000000`, ten stores for each
/// line. Each store has a hash key of its own, so each is another draw.
#[test]
fn errors_at_every_size() {
    let most = key_count();
    let stores = if most > 200_000 { 10 } else { 2 };
    for keys in [1000, 10_000, 100_000, 1_000_000] {
        // With five standard deviations, as measured.
        for (name, change, bound) in [
            ("unchanged", unchanged as fn(&Db, u64) -> Vec<u64>, 0.03),
            ("half overwritten", half_overwritten, 0.05),
            ("a third deleted", third_deleted, 0.09),
        ] {
            if keys > most {
                continue;
            }
            let errors: Vec<(f64, f64)> = (0..stores).map(|_| trial(keys, change)).collect();
            let square = |of: fn(&(f64, f64)) -> f64| {
                (errors.iter().map(|one| of(one).powi(2)).sum::<f64>() / errors.len() as f64).sqrt()
            };
            let worst = errors.iter().map(|one| one.0.abs()).fold(0.0, f64::max);
            let (all, range) = (square(|one| one.0), square(|one| one.1));
            println!("{keys} {name}: {all:.4}, worst {worst:.4}, ranges {range:.4}");
            assert!(worst < bound, "{keys} {name}: {errors:?}");
            // Ranges of few blocks are told by the part of a block at each end.
            assert!(range < bound || keys < 100_000, "{keys} {name}: {errors:?}");
        }
    }
}

#[test]
fn nothing_is_read() {
    let db = builder().compaction(Compaction::Manual).open().unwrap();
    for run in 0..4 {
        put(&db, run * 500..run * 500 + 1000);
        db.flush().unwrap();
    }
    let before = db.stats().reads;
    check(&db, 2500, 0.03, "four runs");
    assert!(db.approximate_len_in("3".."5") > 0);
    assert_eq!(format!("{before:?}"), format!("{:?}", db.stats().reads));
}

#[test]
fn exact_where_no_key_is_in_two_runs() {
    let db = builder().compaction(Compaction::Manual).open().unwrap();
    check(&db, 0, 0.0, "empty");
    // One memtable: put, overwritten, deleted, put again, deleted before it was there.
    put(&db, 0..1000);
    put(&db, 500..1000);
    (800..1100).for_each(|n| db.delete(key(n)).unwrap());
    check(&db, 800, 0.0, "memtable");
    put(&db, 900..950);
    check(&db, 850, 0.0, "memtable, put again");
    db.flush().unwrap();
    check(&db, 850, 0.0, "one run");
    let db = builder().compaction(Compaction::Manual).open().unwrap();
    for n in 0..20_000 {
        db.put(format!("{n:08}"), "x").unwrap();
        if n % 3000 == 0 {
            db.flush().unwrap();
        }
    }
    check(&db, 20_000, 0.0, "ascending");
    db.delete("00000000").unwrap();
    db.compact_all().unwrap().wait().unwrap();
    check(&db, 19_999, 0.0, "merged");
}

/// What is deleted by newer runs is not counted, and tombstones are not keys.
#[test]
fn deleted_keys_do_not_count() {
    let db = builder().compaction(Compaction::Manual).open().unwrap();
    for from in (0..60_000).step_by(10_000) {
        put(&db, from..from + 10_000);
        db.flush().unwrap();
    }
    (0..60_000)
        .filter(|n| n % 3 != 0)
        .for_each(|n| db.delete(key(n)).unwrap());
    // Two estimates are subtracted: the relative error has a standard deviation of 2.2 %, measured
    // over forty stores; five of them.
    check(&db, 20_000, 0.11, "two thirds deleted");
    db.flush().unwrap();
    check(&db, 20_000, 0.11, "two thirds deleted, flushed");
    put(&db, 0..60_000);
    check(&db, 60_000, 0.03, "all put again");
    (0..60_000).for_each(|n| db.delete(key(n)).unwrap());
    db.flush().unwrap();
    let left = db.approximate_len();
    assert!(left < 100, "{left} of 60000 deleted keys");
}

/// Put at one end, deleted at the other.
#[test]
fn a_queue_is_as_long_as_what_waits_in_it() {
    for compaction in [Compaction::Manual, Compaction::Background] {
        let db = builder()
            .compaction(compaction)
            .memtable_bytes(1 << 20)
            .open()
            .unwrap();
        let (items, waiting) = (30_000, 1000);
        for n in 0..items {
            db.put(format!("{n:08}"), [1; 20]).unwrap();
            if n >= waiting {
                db.delete(format!("{:08}", n - waiting)).unwrap();
            }
            if n % 5000 == 4999 {
                db.flush().unwrap();
            }
        }
        let found = db.approximate_len();
        println!("queue, {compaction:?}: {waiting} keys, estimate {found}");
        assert!(found.abs_diff(waiting) < 300, "{found}");
    }
}

#[test]
fn ranges() {
    let db = builder()
        .compaction(Compaction::Manual)
        .segment_bytes(256 << 10)
        .open()
        .unwrap();
    let keys = 60_000;
    let mut model: BTreeSet<String> = (0..keys).map(key).collect();
    put(&db, 0..keys);
    db.flush().unwrap();
    db.compact_all().unwrap().wait().unwrap();
    // Overwritten in the upper half of the key space only, deleted in the lowest quarter.
    put(&db, (0..keys).filter(|n| key(*n) >= "8".into()));
    db.flush().unwrap();
    for n in (0..keys).filter(|n| key(*n) < "4".into()) {
        db.delete(key(n)).unwrap();
        model.remove(&key(n));
    }
    let check = |name: &str| {
        fn one<R: RangeBounds<String> + KeyRange + Clone>(
            db: &Db,
            model: &BTreeSet<String>,
            range: R,
        ) {
            let exact = model.range(range.clone()).count() as f64;
            let found = db.approximate_len_in(range) as f64;
            println!("{exact} keys, estimate {found}");
            // Half a block in each run at each end, and the share of the overlap's error.
            let bound = 60.0 + 0.03 * exact;
            assert!((found - exact).abs() <= bound, "{found} for {exact}");
        }
        println!("{name}");
        let string = String::from;
        one(&db, &model, ..);
        for (from, to) in [
            ("0", "4"),
            ("4", "8"),
            ("8", "c"),
            ("9", "a"),
            ("91", "92"),
            ("7f", "81"),
            ("912", "913"),
            ("0", "g"),
            ("zz", "zzz"),
            ("", "0"),
        ] {
            one(&db, &model, string(from)..string(to));
            one(&db, &model, string(from)..=string(to));
        }
        one(&db, &model, string("5")..);
        one(&db, &model, ..string("5"));
        assert_eq!(db.approximate_len_in("b".."a"), 0);
        assert_eq!(db.approximate_len(), db.approximate_len_in(..));
    };
    check("deletions in the memtable");
    db.flush().unwrap();
    check("three runs");
}

#[test]
fn a_reopened_store_estimates_the_same() {
    let memory = Memory::new();
    let open = || {
        Db::builder("estimate")
            .compaction(Compaction::Manual)
            .storage(Arc::new(memory.clone()))
            .open()
            .unwrap()
    };
    let db = open();
    for run in 0..3 {
        put(&db, run * 3000..run * 3000 + 5000);
        db.flush().unwrap();
    }
    db.delete(key(0)).unwrap();
    let found = db.approximate_len();
    db.close().unwrap();
    assert_eq!(open().approximate_len(), found);
    assert!(found.abs_diff(10_999) < 330, "{found}");
}
