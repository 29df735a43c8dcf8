//! What is merged when writers pause, and what is not.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, UNIX_EPOCH};

use super::*;
use crate::faults::within;

/// Level and bytes of each run, newest first.
fn runs(db: &Db) -> Vec<(u32, u64)> {
    let bytes = |run: &criba::RunStats| run.segments.iter().map(|one| one.file_bytes).sum();
    let runs = db.stats().runs;
    runs.iter().map(|run| (run.level, bytes(run))).collect()
}

/// Reads would look in each of them for as long as nobody writes.
#[test]
fn runs_that_are_alike_become_one_in_a_pause() {
    let memory = Memory::new();
    let start = UNIX_EPOCH + Duration::from_secs(1_000_000);
    memory.set_clock(Some(start));
    let db = small(&memory).open().unwrap();
    let (mut model, mut random) = (Model::new(), Rng(8));
    // Until there are several runs, the last of which is larger than all others, but not by much.
    let (before, last, above) = loop {
        put(&db, &mut model, &mut random, 300);
        settle(&db);
        let all = runs(&db);
        let bytes: Vec<u64> = all.iter().map(|run| run.1).collect();
        let (last, above) = (
            bytes[bytes.len() - 1],
            bytes[..bytes.len() - 1].iter().sum(),
        );
        if all.len() >= 3 && last > above && last < 3 * above {
            break (all, last, above);
        }
        assert!(model.len() < 30_000, "{all:?}");
    };
    // As long as the clock stands, nobody pauses.
    let work = || db.stats().compactions.merged_bytes;
    let merged = work();
    std::thread::sleep(Duration::from_millis(100));
    assert_eq!(runs(&db), before);
    memory.set_clock(Some(start + Duration::from_secs(10)));
    wait_until("there is one run", || runs(&db).len() == 1);
    settle(&db);
    let written = work() - merged;
    assert!(
        written <= last + above,
        "{written} bytes for {before:?}: each is written once"
    );
    check_contents(&db, &model, "merged");
    assert_eq!(db.verify(&mut |_, _| {}).unwrap().findings.len(), 0);

    // A large one is not written again for a small one: not before there are more.
    put(&db, &mut model, &mut random, 100);
    let large = runs(&db)[1];
    memory.set_clock(Some(start + Duration::from_secs(1000)));
    put(&db, &mut model, &mut random, 100);
    memory.set_clock(Some(start + Duration::from_secs(9000)));
    wait_until("the small ones are one", || runs(&db).len() == 2);
    settle(&db);
    assert_eq!(runs(&db)[1], large);
    check_contents(&db, &model, "gathered");
}

/// A session that was opened just now has not paused, however old the files are.
#[test]
fn a_pause_begins_with_the_session() {
    let memory = Memory::new();
    let start = UNIX_EPOCH + Duration::from_secs(1_000_000);
    memory.set_clock(Some(start));
    let (mut model, mut random) = (Model::new(), Rng(9));
    let db = small(&memory).level0_runs(4).open().unwrap();
    put(&db, &mut model, &mut random, 100);
    put(&db, &mut model, &mut random, 100);
    db.close().unwrap();
    memory.set_clock(Some(start + Duration::from_secs(5000)));
    let db = small(&memory).level0_runs(4).open().unwrap();
    // Nothing was flushed or merged yet, so nobody knows how long a merge takes.
    memory.set_clock(Some(start + Duration::from_secs(5009)));
    std::thread::sleep(Duration::from_millis(100));
    assert_eq!(runs(&db).len(), 2);
    memory.set_clock(Some(start + Duration::from_secs(5011)));
    wait_until("they are one", || runs(&db).len() == 1);
    check_contents(&db, &model, "one");
}

/// Bug: the thread that did not merge saw the new tree before it saw that there had been work. After a
/// merge that took longer than a pause it went on to merge all there was, and writers who only waited for
/// the tree to come to rest waited for that, too.
#[test]
fn a_long_merge_is_no_pause() {
    let rig = rig();
    let start = UNIX_EPOCH + Duration::from_secs(1_000_000);
    rig.memory.set_clock(Some(start));
    let db = small(&rig)
        .compaction_threads(2)
        .level_base_bytes(200 << 10)
        .open()
        .unwrap();
    let (memory, merges) = (rig.memory.clone(), AtomicU64::new(0));
    // Each merge takes ten seconds, and is not over at once when the new tree is there.
    rig.set(move |call, name| {
        let is_merge = name.ends_with(".seg") && is_compaction();
        if is_merge && call == Call::Create {
            let merges = merges.fetch_add(1, Ordering::Relaxed) + 1;
            memory.set_clock(Some(start + Duration::from_secs(10 * merges)));
        } else if is_merge && call == Call::Remove {
            std::thread::sleep(Duration::from_millis(5));
        }
        Ok(())
    });
    let (mut model, mut random) = (Model::new(), Rng(10));
    // Until there is a level above the last, alike enough for a pause to merge them.
    let (last, above) = loop {
        put(&db, &mut model, &mut random, 300);
        settle(&db);
        if let [(1, above), (2, last)] = runs(&db)[..] {
            break (last, above);
        }
        assert!(model.len() < 30_000, "{:?}", runs(&db));
    };
    assert!(last < 4 * above, "{last} and {above} bytes");
    rig.memory
        .set_clock(Some(start + Duration::from_secs(100_000)));
    wait_until("they are one in a pause", || runs(&db).len() == 1);
    check_contents(&db, &model, "one");
}

/// Bug: under a limit of the rate a merge of a pause could take so long that writers who came back
/// had to wait for it.
#[test]
fn a_merge_of_a_pause_makes_way_for_writers() {
    within(LIMIT, "writers after a pause", || {
        let rig = rig();
        let start = UNIX_EPOCH + Duration::from_secs(1_000_000);
        rig.memory.set_clock(Some(start));
        let db = small(&rig).level0_runs(8).open().unwrap();
        fill(&db, 0..4000, 1);
        settle(&db);
        // Until what is above the last run is enough for a pause to merge all.
        let is_alike = || {
            let all = runs(&db);
            let above: u64 = all[..all.len() - 1].iter().map(|run| run.1).sum();
            all[all.len() - 1].1 < 3 * above
        };
        for round in 2.. {
            fill(&db, (0..4000).step_by(3), round);
            settle(&db);
            if is_alike() {
                break;
            }
            assert!(round < 50, "{:?}", runs(&db));
        }
        let oldest = |db: &Db| db.stats().runs.last().unwrap().segments[0].id;
        let before = oldest(&db);
        let gate = hold_compactions(&rig);
        rig.memory.set_clock(Some(start + Duration::from_secs(10)));
        gate.wait_for_visitor();
        // It holds all there is, so nothing else can be merged: by keys behind all others. In many runs,
        // however far writers are ahead of who flushes.
        for from in (10_000..20_000).step_by(500) {
            fill(&db, from..from + 500, 99);
            db.flush().unwrap();
        }
        gate.open();
        settle(&db);
        assert_eq!(oldest(&db), before, "the merge was given up");
        check_runs(&db, "after a pause");
        assert_eq!(db.iter().count(), 14_000);
    });
}

/// Bug: a merge that was due began in each short session, and was thrown away at its end.
#[test]
fn a_short_session_begins_no_merge() {
    let memory = Memory::new();
    let open = |compaction| {
        let builder = Db::builder("short").storage(Arc::new(memory.clone()));
        builder
            .compaction(compaction)
            .level0_runs(2)
            .open()
            .unwrap()
    };
    let db = open(criba::Compaction::Manual);
    for _ in 0..8 {
        let mut batch = db.batch();
        for n in 0..1000_u32 {
            batch.put(n.to_le_bytes(), [1; 5000]);
        }
        batch.commit().unwrap();
        db.flush().unwrap();
    }
    db.close().unwrap();
    let before = memory.list().unwrap();
    let db = open(criba::Compaction::Background);
    assert!(!db.stats().compactions.is_settled);
    std::thread::sleep(Duration::from_millis(200));
    assert_eq!(db.stats().written_bytes, 0);
    db.close().unwrap();
    assert_eq!(memory.list().unwrap(), before);
    // A session that flushes merges at once.
    let db = open(criba::Compaction::Background);
    db.put("more", "to flush").unwrap();
    db.flush().unwrap();
    settle(&db);
    assert!(db.stats().compactions.merges > 0);
}
