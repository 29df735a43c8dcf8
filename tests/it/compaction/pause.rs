//! Flushed runs that wait for more, and a pause in which none come.

use std::time::{Duration, UNIX_EPOCH};

use super::*;

fn flushed_runs(db: &Db) -> usize {
    db.stats().runs.iter().filter(|run| run.level == 0).count()
}

/// Reads would look in each of them for as long as nobody writes.
#[test]
fn runs_that_wait_are_gathered_in_a_pause() {
    let memory = Memory::new();
    let start = UNIX_EPOCH + Duration::from_secs(1_000_000);
    memory.set_clock(Some(start));
    let db = small(&memory).open().unwrap();
    let mut model = Model::new();
    let mut random = Rng(8);
    let mut put = |count: usize| {
        for _ in 0..count {
            let key = random.below(1 << 40).to_le_bytes();
            db.put(key, [7; 90]).unwrap();
            model.insert(key.to_vec(), vec![7; 90]);
        }
        db.flush().unwrap();
    };
    // Until there is a level below the first, and less waits than would be merged with it.
    put(5000);
    settle(&db);
    assert!(db.stats().runs.iter().any(|run| run.level == 2));
    while flushed_runs(&db) < 2 {
        put(20);
        settle(&db);
    }
    let waiting = flushed_runs(&db);
    let work = || db.stats().compactions.merged_bytes;
    let before = work();
    let bytes: u64 = db.stats().runs[..waiting]
        .iter()
        .flat_map(|run| &run.segments)
        .map(|segment| segment.file_bytes)
        .sum();
    memory.set_clock(Some(start + Duration::from_secs(10)));
    wait_until("the runs are gathered", || flushed_runs(&db) == 1);
    let written = work() - before;
    assert!(
        written <= bytes,
        "{written} bytes for {bytes}: no more than they are"
    );
    check_contents(&db, &model, "gathered");
    assert_eq!(db.verify(&mut |_, _| {}).unwrap().findings.len(), 0);
}
