//! Bugs that were found, each by its name.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use criba::{Compaction, Db, Strategy};

use super::{
    LIMIT, check_runs, entries, hold_compactions, is_compaction, rig, settle, small, wait_until,
};
use crate::faults::{Call, Gate, Rig, within};

fn put_all(db: &Db, keys: &[&str], value: &str) {
    for key in keys {
        db.put(key, value).unwrap();
    }
    db.flush().unwrap();
}

fn runs_of(db: &Db, level: u32) -> usize {
    let stats = db.stats();
    stats.runs.iter().filter(|run| run.level == level).count()
}

/// Two runs in level 1, of which the newer holds `x` to `z` only.
fn two_runs_below(rig: &Rig) -> Db {
    let db = small(rig).strategy(Strategy::Tiered).open().unwrap();
    for keys in [&["a", "y", "z"][..], &["x", "y", "z"]] {
        for _ in 0..3 {
            put_all(&db, keys, keys[0]);
        }
        settle(&db);
    }
    assert_eq!((runs_of(&db, 0), runs_of(&db, 1)), (0, 2));
    db
}

/// Bug: what was merged of an older run became the newest run of its level.
#[test]
fn a_range_that_is_compacted_does_not_overtake_newer_runs() {
    let db = two_runs_below(&rig());
    db.compact("a".."b").unwrap().wait().unwrap();
    for key in ["x", "y", "z"] {
        assert_eq!(db.get(key).unwrap().unwrap(), "x", "{key}");
    }
    assert_eq!(db.get("a").unwrap().unwrap(), "a");
    db.compact_all().unwrap().wait().unwrap();
    assert_eq!((entries(&db), runs_of(&db, 1)), (4, 1));
}

/// Bug: two merges into one level, begun in this order: newer entries from above, then the runs
/// of the level itself. The second got the higher number and hid the first.
#[test]
fn a_merge_within_a_level_stays_older_than_an_arrival_under_way() {
    for strategy in [Strategy::LazyLeveled, Strategy::Leveled] {
        within(LIMIT, format!("an arrival, {strategy:?}"), move || {
            let rig = rig();
            two_runs_below(&rig).close().unwrap();
            let db = small(&rig).compaction(Compaction::Manual).open().unwrap();
            for _ in 0..3 {
                put_all(&db, &["a", "y"], "new");
            }
            db.close().unwrap();
            // The first merge waits as soon as it has its file number; the third, so that what
            // the first two have left can be seen.
            let (first, third) = (Gate::closed(), Gate::closed());
            let (doors, count) = ((first.clone(), third.clone()), AtomicU64::new(0));
            rig.set(move |call, name| {
                if call == Call::Create && name.ends_with(".seg") && is_compaction() {
                    match count.fetch_add(1, Ordering::SeqCst) {
                        0 => doors.0.pass(),
                        1 => {}
                        _ => doors.1.pass(),
                    }
                }
                Ok(())
            });
            let db = small(&rig)
                .strategy(strategy)
                .compaction_threads(2)
                .open()
                .unwrap();
            first.wait_for_visitor();
            wait_a_little(|| runs_of(&db, 1) == 1);
            first.open();
            wait_until("the new entries are merged down", || runs_of(&db, 0) == 0);
            let check = || {
                for (key, value) in [("a", "new"), ("x", "x"), ("y", "new"), ("z", "x")] {
                    assert_eq!(db.get(key).unwrap().unwrap(), value, "{key}, {strategy:?}");
                }
            };
            check();
            third.open();
            settle(&db);
            check();
        });
    }
}

/// For what must not happen and would take no longer than this.
fn wait_a_little(happens: impl Fn() -> bool) {
    let started = Instant::now();
    while !happens() && started.elapsed() < Duration::from_millis(200) {
        std::thread::sleep(Duration::from_millis(1));
    }
}

/// Bug: a flushed segment went down into the gap between two segments that were being merged
/// into one, so that two segments of a run overlapped.
#[test]
fn nothing_moves_into_a_gap_of_what_is_being_compacted() {
    within(LIMIT, "a gap", || {
        let rig = rig();
        let db = small(&rig)
            .level0_runs(1)
            .compaction_threads(2)
            .open()
            .unwrap();
        let mut snapshots = Vec::new();
        for keys in [["a", "c"], ["x", "z"]] {
            for value in ["old", "new"] {
                for key in keys {
                    db.put(key, value).unwrap();
                }
                snapshots.push(db.snapshot());
            }
            settle(&db);
        }
        assert_eq!((runs_of(&db, 0), db.stats().segments().count()), (0, 2));
        drop(snapshots);
        let gate = hold_compactions(&rig);
        let job = db.compact_all().unwrap();
        gate.wait_for_visitor();
        put_all(&db, &["m", "n"], "new");
        wait_a_little(|| runs_of(&db, 0) == 0);
        gate.open();
        job.wait().unwrap();
        settle(&db);
        check_runs(&db, "after a gap");
        for key in ["a", "c", "m", "n", "x", "z"] {
            assert_eq!(db.get(key).unwrap().unwrap(), "new", "{key}");
        }
        assert_eq!(db.iter().count(), 6);
        assert_eq!(db.iter().rev().count(), 6);
    });
}

/// Bug: one that waited for its turn ended only after the one before it, cancelled or not.
#[test]
fn one_that_waits_for_its_turn_can_be_cancelled() {
    within(LIMIT, "cancelling a queued compaction", || {
        let rig = rig();
        let db = small(&rig).compaction(Compaction::Manual).open().unwrap();
        put_all(&db, &["a", "z"], "v");
        let gate = hold_compactions(&rig);
        let first = db.compact_all().unwrap();
        gate.wait_for_visitor();
        let second = db.compact_all().unwrap();
        assert_eq!(second.progress(), (0, 0));
        second.cancel();
        assert!(matches!(second.wait(), Err(criba::Error::Cancelled)));
        assert!(second.is_done() && !first.is_done());
        gate.open();
        first.wait().unwrap();
        db.compact_all().unwrap().wait().unwrap();
    });
}

/// Bug: with a rate limit, a cancelled merge slept on until its bytes were due.
#[test]
fn a_merge_held_back_by_its_rate_can_be_cancelled_and_closed() {
    // Less than the wait for the first megabyte.
    within(
        Duration::from_secs(12),
        "cancelling a slow compaction",
        || {
            let memory = rig().memory;
            let build = || {
                small(&memory)
                    .compaction(Compaction::Manual)
                    .memtable_bytes(8 << 20)
                    .compaction_rate(64 << 10)
            };
            let db = build().open().unwrap();
            for n in 0..40_u32 {
                db.put(n.to_le_bytes(), vec![1; 200_000]).unwrap();
            }
            let job = db.compact_all().unwrap();
            wait_until("it has begun", || job.progress().0 > 1 << 20);
            let before = db.stats().segments().map(|one| one.id).collect::<Vec<_>>();
            job.cancel();
            assert!(matches!(job.wait(), Err(criba::Error::Cancelled)));
            let after = db.stats().segments().map(|one| one.id).collect::<Vec<_>>();
            assert_eq!(before, after);
            super::check_files(&memory, &db, "after a cancel");
            let job = db.compact_all().unwrap();
            wait_until("it has begun", || job.progress().0 > 1 << 20);
            db.close().unwrap();
            assert!(matches!(job.wait(), Err(criba::Error::Cancelled)));
            assert_eq!(build().open().unwrap().iter().count(), 40);
        },
    );
}

/// Bug: a compaction of everything found the last level settled although it held versions that
/// only a snapshot had needed, which was gone.
#[test]
fn versions_kept_for_a_snapshot_go_after_it() {
    let memory = rig().memory;
    let db = small(&memory).open().unwrap();
    put_all(&db, &["a", "b"], "old");
    let snapshot = db.snapshot();
    put_all(&db, &["a", "b"], "new");
    db.compact_all().unwrap().wait().unwrap();
    assert_eq!(entries(&db), 4);
    assert_eq!(snapshot.get("a").unwrap().unwrap(), "old");
    drop(snapshot);
    db.compact_all().unwrap().wait().unwrap();
    assert_eq!(entries(&db), 2);
}

/// Bug: a segment that had moved down and was then merged took its file with it, although an older
/// iterator still had it at the place before.
#[test]
fn a_file_goes_with_the_last_copy_of_a_moved_segment() {
    within(LIMIT, "copies of a moved segment", || {
        let rig = rig();
        let gate = Gate::closed();
        let door = gate.clone();
        rig.set(move |call, name| {
            if call == Call::Append && name.starts_with("MANIFEST") && is_compaction() {
                door.pass();
            }
            Ok(())
        });
        let db = small(&rig).open().unwrap();
        // Smaller ones are merged with each other.
        let value = "old".repeat(2000);
        put_all(&db, &["m", "n"], &value);
        put_all(&db, &["g", "h"], &value);
        gate.wait_for_visitor();
        let mut iter = db.iter();
        assert!(iter.next().unwrap().is_ok());
        assert_eq!(runs_of(&db, 0), 2);
        gate.open();
        wait_until("both moved down", || runs_of(&db, 0) == 0);
        assert_eq!(db.stats().compactions.merges, 0);
        let moved: Vec<u64> = db.stats().segments().map(|one| one.id).collect();
        put_all(&db, &["g", "n"], "new");
        db.compact_all().unwrap().wait().unwrap();
        assert_eq!((entries(&db), db.stats().compactions.merges), (4, 1));
        let is_there = |id: &u64| rig.memory.bytes_of(&format!("{id:06}.seg")).is_some();
        assert_eq!(moved.len(), 2);
        assert!(moved.iter().all(is_there), "{moved:?}");
        assert_eq!(iter.count(), 3);
        super::check_files(&rig.memory, &db, "after the last copy");
        assert!(!moved.iter().any(is_there));
    });
}

/// Bug: a FIFO of no bytes was accepted, and dropped whatever was flushed.
#[test]
fn a_fifo_that_keeps_nothing_is_refused() {
    let nothing = Strategy::Fifo {
        bytes: 0,
        age: None,
    };
    let opened = small(&rig()).strategy(nothing).open();
    assert!(matches!(opened, Err(criba::Error::Invalid(_))));
}

/// Bug: a compaction that was asked for waited until all its inputs were free at the same time,
/// while a second thread went on taking them.
#[test]
fn what_was_asked_for_is_not_starved_by_two_threads() {
    within(LIMIT, "asking under load", || {
        let memory = rig().memory;
        let db = small(&memory).compaction_threads(2).open().unwrap();
        let stop = Arc::new(AtomicBool::new(false));
        let writer = {
            let (db, stop) = (db.clone(), Arc::clone(&stop));
            std::thread::spawn(move || {
                let mut n = 0_u64;
                while !stop.load(Ordering::Relaxed) {
                    n += 1;
                    db.put(super::key(n * 7919 % 20_000), [1; 100]).unwrap();
                }
            })
        };
        for _ in 0..5 {
            db.compact_all().unwrap().wait().unwrap();
        }
        stop.store(true, Ordering::Relaxed);
        writer.join().unwrap();
        settle(&db);
        check_runs(&db, "after compactions under load");
    });
}
