//! Writers held back by the debt, the rate limit, and compactions only by hand.

use std::time::Duration;

use criba::{Compaction, EventKind, Strategy};

use super::{LIMIT, check_runs, fill, hold_compactions, key, rig, settle, small, wait_until};
use crate::faults::within;

#[test]
fn writers_are_slowed_then_stopped_by_the_debt_and_go_on() {
    for strategy in [Strategy::Leveled, Strategy::Tiered, Strategy::LazyLeveled] {
        within(LIMIT, format!("a stall by debt, {strategy:?}"), move || {
            let rig = rig();
            let db = small(&rig).strategy(strategy).open().unwrap();
            // One compaction, so that its pace is known.
            fill(&db, 0..2000, 0);
            settle(&db);
            let gate = hold_compactions(&rig);
            let writer = {
                let db = db.clone();
                std::thread::spawn(move || {
                    for round in 1..=4 {
                        fill(&db, 0..20_000, round);
                    }
                })
            };
            gate.wait_for_visitor();
            // 32 units of 128 KiB.
            wait_until("the debt is large", || {
                db.stats().compactions.debt_bytes >= 4 << 20
            });
            wait_until("it is stopped", || {
                let sequence = db.stats().sequence;
                std::thread::sleep(Duration::from_millis(50));
                sequence == db.stats().sequence
            });
            let later = db.stats();
            assert!(later.stalls.stopped > 0);
            assert!(later.stalls.slowed > 0, "slowed first: {:?}", later.stalls);
            assert!(!later.compactions.is_settled);
            // And what was written before the debt was known.
            let debt = later.compactions.debt_bytes;
            assert!((4 << 20..6 << 20).contains(&debt), "{debt}");
            let is = |kind: fn(&EventKind) -> bool| later.events.iter().any(|one| kind(&one.what));
            assert!(is(|what| matches!(what, EventKind::Slowed { .. })));
            assert!(is(|what| matches!(what, EventKind::Stopped { .. })));
            assert_eq!(db.get(key(0)).unwrap().unwrap().len(), 100, "reads go on");
            gate.open();
            writer.join().unwrap();
            settle(&db);
            check_runs(&db, "after a stall");
            assert!(db.stats().stalls.stopped_time >= Duration::from_millis(50));
            assert_eq!(db.iter().count(), 20_000);
        });
    }
}

#[test]
fn a_close_lets_writers_go_that_wait_for_compactions() {
    within(LIMIT, "a close during a stall", || {
        let rig = rig();
        let db = small(&rig).open().unwrap();
        let gate = hold_compactions(&rig);
        let writer = {
            let db = db.clone();
            std::thread::spawn(move || (0..).find_map(|n| db.put(key(n % 50_000), [1; 100]).err()))
        };
        // Perhaps not for the first time: flushes may have stopped it before.
        wait_until("it is stopped", || {
            let sequence = db.stats().sequence;
            std::thread::sleep(Duration::from_millis(50));
            db.stats().stalls.stopped > 0 && sequence == db.stats().sequence
        });
        let closing = {
            let db = db.clone();
            std::thread::spawn(move || db.close())
        };
        let error = writer.join().unwrap();
        assert!(matches!(error, Some(criba::Error::Closed)), "{error:?}");
        gate.open();
        closing.join().unwrap().unwrap();
    });
}

/// Bug: with memtables larger than the first level, the first merge that was due stopped writers.
#[test]
fn a_first_level_smaller_than_the_memtables_stops_nobody() {
    within(LIMIT, "a small first level", || {
        let rig = rig();
        let db = small(&rig)
            .memtable_bytes(2 << 20)
            .level0_runs(2)
            .open()
            .unwrap();
        let gate = hold_compactions(&rig);
        for n in 0..60_000 {
            db.put(key(n * 7919 % 60_000), [1; 100]).unwrap();
        }
        let debt = || db.stats().compactions.debt_bytes;
        wait_until("enough is flushed", || debt() > 32 * (64 << 10));
        assert_eq!(db.stats().stalls.stopped, 0);
        gate.open();
        settle(&db);
    });
}

#[test]
fn by_hand_nothing_is_compacted_by_itself_and_nobody_is_held_back() {
    let rig = rig();
    let db = small(&rig).compaction(Compaction::Manual).open().unwrap();
    fill(&db, (0..60_000).map(|n| n % 9000), 1);
    db.flush().unwrap();
    let stats = db.stats();
    assert!(stats.compactions.debt_bytes > 4 << 20);
    assert_eq!((stats.compactions.merges, stats.compactions.moves), (0, 0));
    assert!(stats.runs.len() > 50 && stats.runs.iter().all(|run| run.level == 0));
    let slowed_by_flushes =
        |event: &criba::Event| matches!(event.what, EventKind::Slowed { sealed } if sealed < 2);
    assert!(!stats.events.iter().any(slowed_by_flushes));
    db.compact_all().unwrap().wait().unwrap();
    assert_eq!(db.stats().runs.len(), 1);
}

/// Slower than the limit is possible, faster is not.
#[test]
fn the_rate_limit_is_kept() {
    const RATE: u64 = 2 << 20;
    let rig = rig();
    let db = small(&rig).compaction_rate(RATE).open().unwrap();
    fill(&db, (0..9000).map(|n| n * 7919 % 9000), 1);
    settle(&db);
    let compactions = db.stats().compactions;
    assert!(compactions.merged_bytes > 1 << 20);
    // The rest of each merge, after its last look at the clock, is not waited for.
    let rest = compactions.merges * 1100 * 130;
    let least = compactions.merged_bytes.saturating_sub(rest) as f64 / RATE as f64;
    assert!(
        compactions.merge_time.as_secs_f64() >= least,
        "{least} s: {compactions:?}"
    );
    assert!(least > 0.1, "{least} s: {compactions:?}");
}
