//! Merges that are cut by key range into parts, which several threads carry out.

use std::collections::BTreeSet;
use std::io::ErrorKind;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, UNIX_EPOCH};

use criba::sim::{Memory, Survivors};
use criba::{Builder, Compaction, Db, Error, EventKind, Strategy};

use super::{
    LIMIT, Model, Rng, check_contents, check_files, check_runs, collect, entries, is_compaction,
    key, put, rig, settle, small, wait_until,
};
use crate::faults::{Call, Gate, Rig, within};

const KEYS: u64 = 4000;

fn build(rig: &Rig, threads: usize) -> Builder {
    small(rig)
        .compaction(Compaction::Manual)
        .compaction_threads(threads)
}

/// Two rounds of puts and one of deletes, in runs of their own: about ten segments.
fn load(db: &Db) -> Model {
    let mut model = Model::new();
    for round in 0..2_u8 {
        for n in (0..KEYS).map(|n| n * 7 % KEYS) {
            db.put(key(n), [round; 100]).unwrap();
            model.insert(key(n), vec![round; 100]);
        }
    }
    for n in (0..KEYS).step_by(4) {
        db.delete(key(n)).unwrap();
        model.remove(&key(n));
    }
    db.flush().unwrap();
    model
}

/// How many parts the merges of a compaction of everything had.
fn compact_all(db: &Db) -> u64 {
    let before = db.stats().compactions;
    db.compact_all().unwrap().wait().unwrap();
    let after = db.stats().compactions;
    assert_eq!(after.merges, before.merges + 1);
    after.parts - before.parts
}

#[test]
fn a_large_merge_has_as_many_parts_as_there_are_threads() {
    for threads in 1..=3 {
        let rig = rig();
        let db = build(&rig, threads).open().unwrap();
        let model = load(&db);
        assert_eq!(compact_all(&db), threads as u64);
        check_contents(&db, &model, "after parts");
        check_runs(&db, "after parts");
        let stats = db.stats();
        assert_eq!((stats.runs.len(), entries(&db)), (1, model.len() as u64));
        assert!(stats.segments().all(|one| one.tombstones == 0));
        check_files(&rig.memory, &db, "after parts");
        db.close().unwrap();
        let db = build(&rig, threads).open().unwrap();
        check_contents(&db, &model, "opened after parts");
    }
}

/// What is flushed meanwhile would have to wait anyway, so no thread stays free for it.
#[test]
fn flushed_runs_and_a_full_level_1_go_to_level_2_by_all_threads() {
    let memory = Memory::new();
    // A clock that stands: nobody pauses.
    memory.set_clock(Some(UNIX_EPOCH + Duration::from_secs(1_000_000)));
    let db = small(&memory)
        .compaction_threads(2)
        .level_base_bytes(200 << 10)
        .open()
        .unwrap();
    let (mut model, mut random) = (Model::new(), Rng(11));
    let levels = |db: &Db| -> Vec<u32> { db.stats().runs.iter().map(|run| run.level).collect() };
    let (before, merged) = loop {
        let (before, levels_before) = (db.stats().compactions, levels(&db));
        put(&db, &mut model, &mut random, 300);
        settle(&db);
        if levels_before == [0, 0, 0, 1, 2] && levels(&db) == [2] {
            break (before, db.stats().compactions);
        }
        assert!(model.len() < 30_000, "{:?}", levels(&db));
    };
    assert_eq!(
        (merged.merges - before.merges, merged.parts - before.parts),
        (1, 2)
    );
    check_runs(&db, "straight to level 2");
    check_contents(&db, &model, "straight to level 2");
}

/// With snapshots, keys have several versions, and all of them stay together.
#[test]
fn snapshots_see_what_they_saw_before_the_parts() {
    let rig = rig();
    let db = build(&rig, 3).open().unwrap();
    let mut snapshots = Vec::new();
    for _ in 0..2 {
        let model = load(&db);
        snapshots.push((db.snapshot(), model));
        db.put(key(1), "between").unwrap();
    }
    assert!(compact_all(&db) >= 2);
    let most = entries(&db);
    for (snapshot, model) in &snapshots {
        assert_eq!(collect(snapshot.iter()), *model);
    }
    check_runs(&db, "with snapshots");
    drop(snapshots);
    assert!(compact_all(&db) >= 2);
    assert!(entries(&db) < most);
    assert_eq!(db.get(key(1)).unwrap().unwrap(), "between");
}

/// Both threads are within a merge at the same time.
#[test]
fn parts_are_merged_at_the_same_time() {
    within(LIMIT, "parts at the same time", || {
        let rig = rig();
        let db = build(&rig, 2).open().unwrap();
        let model = load(&db);
        let (gate, threads) = (Gate::closed(), Arc::new(Mutex::new(BTreeSet::new())));
        let (door, seen) = (gate.clone(), Arc::clone(&threads));
        rig.set(move |call, name| {
            if call == Call::Create && name.ends_with(".seg") && is_compaction() {
                let name = std::thread::current().name().unwrap().to_owned();
                seen.lock().unwrap().insert(name);
                door.pass();
            }
            Ok(())
        });
        let job = db.compact_all().unwrap();
        wait_until("both threads work", || threads.lock().unwrap().len() == 2);
        gate.open();
        job.wait().unwrap();
        // Progress counts all parts.
        let read: u64 = 2 * KEYS * (9 + 100) + KEYS / 4 * 9;
        assert!(job.progress().0 <= read && job.progress().0 > read / 2);
        check_contents(&db, &model, "after parts");
    });
}

#[test]
fn a_cancel_ends_all_parts() {
    within(LIMIT, "cancelling parts", || {
        let rig = rig();
        let db = build(&rig, 2).open().unwrap();
        let model = load(&db);
        let before: Vec<u64> = db.stats().segments().map(|one| one.id).collect();
        let gate = super::hold_compactions(&rig);
        let job = db.compact_all().unwrap();
        gate.wait_for_visitor();
        job.cancel();
        gate.open();
        assert!(matches!(job.wait(), Err(Error::Cancelled)));
        let after: Vec<u64> = db.stats().segments().map(|one| one.id).collect();
        assert_eq!(before, after);
        check_files(&rig.memory, &db, "after a cancel");
        assert_eq!(compact_all(&db), 2);
        check_contents(&db, &model, "after a cancel");
    });
}

/// Of each call of the threads that merge in parts: an image of a crash before it.
#[test]
fn a_crash_at_every_call_of_a_merge_in_parts_loses_nothing() {
    within(LIMIT, "crashes in parts", || {
        let rig = rig();
        let db = build(&rig, 2).open().unwrap();
        let model = load(&db);
        db.sync().unwrap();
        let images: Arc<Mutex<Vec<(Memory, String)>>> = Arc::default();
        let (taken, memory, calls) = (Arc::clone(&images), rig.memory.clone(), AtomicU64::new(0));
        rig.set(move |call, name| {
            if is_compaction() || call == Call::Remove {
                let n = calls.fetch_add(1, Ordering::SeqCst);
                let all = [Survivors::Everything, Survivors::Synced, Survivors::Ordered];
                let survivors = all[n as usize % 3];
                let what = format!("{survivors:?} before {call:?} {name}, call {n}");
                taken.lock().unwrap().push((memory.crash(survivors), what));
            }
            Ok(())
        });
        assert_eq!(compact_all(&db), 2);
        rig.heal();
        drop(db);
        let images = std::mem::take(&mut *images.lock().unwrap());
        assert!(images.len() > 25, "{}", images.len());
        for (image, what) in images {
            let rig = Rig::new(image);
            let db = build(&rig, 2).open().unwrap();
            check_contents(&db, &model, &what);
            assert_eq!(db.stats().recovery.unknown_files, [""; 0], "{what}");
            db.compact_all().unwrap().wait().unwrap();
            check_contents(&db, &model, &what);
            check_files(&rig.memory, &db, &what);
        }
    });
}

/// One part fails: the output of all parts goes, and the next attempt succeeds.
fn fail_everywhere(kind: ErrorKind, once: bool) {
    for n in 1.. {
        let rig = rig();
        let db = build(&rig, 2).open().unwrap();
        let model = load(&db);
        let calls = Arc::new(AtomicU64::new(0));
        // What cannot be removed stays until the next open.
        let stays = Arc::new(AtomicBool::new(false));
        let (counted, refused) = (Arc::clone(&calls), Arc::clone(&stays));
        rig.set(move |what, _| {
            if !is_compaction() {
                return Ok(());
            }
            let call = counted.fetch_add(1, Ordering::SeqCst) + 1;
            if call == n || (call > n && !once) {
                refused.fetch_or(what == Call::Remove, Ordering::SeqCst);
                return Err(kind.into());
            }
            Ok(())
        });
        let what = format!("{kind:?} at call {n}, once: {once}");
        let result = db.compact_all().unwrap().wait();
        let was_hit = calls.load(Ordering::SeqCst) >= n;
        assert!(was_hit || result.is_ok(), "{what}: {result:?}");
        rig.heal();
        check_contents(&db, &model, &what);
        let is_poisoned = db.put("k", "v").is_err();
        if is_poisoned {
            // An edit failed: it is unknown which files are live.
            assert!(result.is_err(), "{what}");
            drop(db);
            let db = build(&rig, 2).open().unwrap();
            check_contents(&db, &model, &what);
            check_files(&rig.memory, &db, &what);
        } else {
            db.delete("k").unwrap();
            if !stays.load(Ordering::SeqCst) {
                check_files(&rig.memory, &db, &what);
            }
            db.compact_all().unwrap().wait().unwrap();
            check_contents(&db, &model, &what);
            assert_eq!(entries(&db), model.len() as u64, "{what}");
        }
        if !was_hit {
            // How many calls there are depends on how the runs were flushed.
            assert!(n > 20, "{what}");
            break;
        }
    }
}

#[test]
fn a_failure_at_every_call_of_a_merge_in_parts_loses_nothing() {
    within(LIMIT, "parts failing once", || {
        fail_everywhere(ErrorKind::Other, true);
    });
    within(LIMIT, "parts failing for good", || {
        fail_everywhere(ErrorKind::StorageFull, false);
    });
}

/// A merge of runs of one segment each, all over the same keys, is cut in its middle.
#[test]
fn segments_are_cut_where_no_other_begins() {
    let rig = rig();
    let db = build(&rig, 2)
        .memtable_bytes(1 << 20)
        .segment_bytes(128 << 10)
        .open()
        .unwrap();
    for round in 0..5 {
        super::fill(&db, 0..900, round);
        db.flush().unwrap();
    }
    assert_eq!(db.stats().segments().count(), 5);
    assert_eq!(compact_all(&db), 2);
    let entries: Vec<u64> = db.stats().segments().map(|one| one.entries).collect();
    assert_eq!(entries.iter().sum::<u64>(), 900);
    assert!(
        entries.iter().all(|n| (350..550).contains(n)),
        "{entries:?}"
    );
}

/// Slower than the limit is possible, faster is not: it is one for all parts together.
#[test]
fn the_rate_limit_holds_for_all_parts_together() {
    const RATE: u64 = 4 << 20;
    let db = build(&rig(), 2)
        .memtable_bytes(8 << 20)
        .compaction_rate(RATE)
        .open()
        .unwrap();
    for round in 0..2 {
        super::fill(&db, 0..20_000, round);
        db.flush().unwrap();
    }
    assert_eq!(compact_all(&db), 2);
    let merged = |event: &criba::Event| match event.what {
        EventKind::Compacted { bytes, took, .. } => Some((bytes, took)),
        _ => None,
    };
    let (bytes, took) = db.stats().events.iter().find_map(merged).unwrap();
    // The rest of each part, after its last look at the clock, is not waited for; nor are filters
    // and index.
    let least = (bytes - bytes / 10 - 2 * 1100 * 130) as f64 / RATE as f64;
    assert!(least > 0.3, "{bytes} bytes");
    assert!(took.as_secs_f64() >= least, "{bytes} bytes in {took:?}");
}

/// Where a merge makes a run of its own, all parts are of that run.
#[test]
fn parts_of_a_new_run_are_one_run() {
    within(LIMIT, "tiered parts", || {
        let rig = rig();
        let db = build(&rig, 2).strategy(Strategy::Tiered).open().unwrap();
        let model = load(&db);
        db.close().unwrap();
        let db = small(&rig)
            .strategy(Strategy::Tiered)
            .compaction_threads(2)
            .open()
            .unwrap();
        settle(&db);
        let compactions = db.stats().compactions;
        assert!(compactions.parts > compactions.merges, "{compactions:?}");
        check_contents(&db, &model, "tiered");
        super::check_shape(&db, Strategy::Tiered, "tiered");
        check_files(&rig.memory, &db, "tiered");
    });
}

/// Bug: what was left behind the last full segment of an output became a segment, however little.
#[test]
fn no_output_ends_with_a_remnant() {
    for threads in [1, 2] {
        let mut most: f64 = 0.0;
        for keys in (1500..2300).step_by(20) {
            let db = build(&rig(), threads).open().unwrap();
            for n in 0..keys {
                db.put(key(n), [1; 110]).unwrap();
            }
            db.put(key(0), [2; 110]).unwrap();
            compact_all(&db);
            let stats = db.stats();
            assert_eq!(entries(&db), keys);
            let mut segments = stats.segments();
            assert!(segments.all(|one| one.entries * 120 >= (64 << 10) / 8));
            let largest = stats.segments().map(|one| one.data_bytes).max();
            most = most.max(largest.unwrap() as f64 / f64::from(64 << 10));
        }
        assert!((1.05..1.25).contains(&most), "{most}");
    }
}
