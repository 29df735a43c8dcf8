//! Compactions that a user asks for: cancel, progress, close.

use criba::{Compaction, Error};

use super::{
    LIMIT, Model, check_contents, check_files, entries, fill, hold_compactions, key, rig, small,
};
use crate::faults::within;

#[test]
fn a_cancelled_compaction_changes_nothing() {
    within(LIMIT, "a cancelled compaction", || {
        let rig = rig();
        let db = small(&rig).compaction(Compaction::Manual).open().unwrap();
        for round in 0..3 {
            fill(&db, 0..3000, round);
        }
        db.flush().unwrap();
        let ids = || db.stats().segments().map(|one| one.id).collect::<Vec<_>>();
        let before = ids();
        let gate = hold_compactions(&rig);
        let job = db.compact_all().unwrap();
        gate.wait_for_visitor();
        assert!(!job.is_done());
        let (_, input_bytes) = job.progress();
        let bytes: u64 = db.stats().segments().map(|one| one.file_bytes).sum();
        assert_eq!(input_bytes, bytes);
        job.cancel();
        gate.open();
        assert!(matches!(job.wait(), Err(Error::Cancelled)));
        assert_eq!(ids(), before);
        check_files(&rig.memory, &db, "after a cancel");
        // It is no failure, and the next one works.
        let job = db.compact_all().unwrap();
        job.wait().unwrap();
        job.cancel();
        job.wait().unwrap();
        assert_eq!(job.progress().0, 9000 * (9 + 100));
        assert_eq!(entries(&db), 3000);
        check_files(&rig.memory, &db, "after a compaction");
    });
}

#[test]
fn a_close_ends_a_compaction_under_way() {
    within(LIMIT, "a close during a compaction", || {
        let rig = rig();
        let db = small(&rig).open().unwrap();
        let gate = hold_compactions(&rig);
        let job = db.compact_all().unwrap();
        job.wait().unwrap();
        for round in 0..3 {
            fill(&db, 0..600, round);
            db.flush().unwrap();
        }
        let job = db.compact_all().unwrap();
        gate.wait_for_visitor();
        let closing = {
            let db = db.clone();
            std::thread::spawn(move || db.close())
        };
        super::wait_until("it is closed", || matches!(db.get("k"), Err(Error::Closed)));
        std::thread::sleep(std::time::Duration::from_millis(20));
        gate.open();
        closing.join().unwrap().unwrap();
        assert!(job.is_done() || matches!(job.wait(), Err(Error::Closed | Error::Cancelled)));
        assert!(matches!(db.compact_all(), Err(Error::Closed)));
        drop(db);
        rig.heal();
        let db = small(&rig).open().unwrap();
        assert!(db.stats().recovery.clean);
        let model: Model = (0..600).map(|n| (key(n), vec![2; 100])).collect();
        check_contents(&db, &model, "after a close");
        super::settle(&db);
        check_files(&rig.memory, &db, "after a close");
    });
}

#[test]
fn a_range_is_compacted_and_the_rest_stays() {
    let rig = rig();
    let db = small(&rig).compaction(Compaction::Manual).open().unwrap();
    // Runs of their own, one in each third of the keys, twice.
    for round in 0..2 {
        for third in 0..3 {
            fill(&db, third * 1000..third * 1000 + 100, round);
            db.flush().unwrap();
        }
    }
    db.compact(key(0)..key(100)).unwrap().wait().unwrap();
    let stats = db.stats();
    let last = stats.runs.last().unwrap();
    assert_eq!((stats.runs.len(), last.level), (5, 1));
    assert_eq!(last.segments[0].entries, 100);
    let nothing = db.compact("a".."b").unwrap();
    nothing.wait().unwrap();
    assert_eq!(nothing.progress(), (0, 0));
    db.compact(key(1000)..).unwrap().wait().unwrap();
    assert_eq!(db.stats().runs.len(), 1);
    assert_eq!(entries(&db), 300);
    // There is nothing left to do.
    let merges = db.stats().compactions.merges;
    db.compact_all().unwrap().wait().unwrap();
    assert_eq!(db.stats().compactions.merges, merges);
}
