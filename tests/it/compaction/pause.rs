//! Flushed runs that wait for more, and a pause in which none come.

use std::time::{Duration, UNIX_EPOCH};

use criba::RunStats;

use super::*;

/// Bytes of each, newest first.
fn flushed_runs(db: &Db) -> Vec<u64> {
    let runs = db.stats().runs;
    let flushed = runs.iter().filter(|run| run.level == 0);
    let bytes = |run: &RunStats| run.segments.iter().map(|one| one.file_bytes).sum();
    flushed.map(bytes).collect()
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
    // Until there is a level below the first, and what waits is less than would be merged with it,
    // and alike: a large one would not be written again for a small one.
    put(5000);
    settle(&db);
    assert!(db.stats().runs.iter().any(|run| run.level == 2));
    let mut waiting = flushed_runs(&db);
    while waiting.len() < 2 || waiting.iter().any(|bytes| *bytes > 10_000) {
        put(20);
        settle(&db);
        waiting = flushed_runs(&db);
    }
    let work = || db.stats().compactions.merged_bytes;
    let before = work();
    let bytes: u64 = waiting.iter().sum();
    memory.set_clock(Some(start + Duration::from_secs(10)));
    wait_until("the runs are gathered", || flushed_runs(&db).len() == 1);
    let written = work() - before;
    assert!(
        written <= bytes,
        "{written} bytes for {bytes}: no more than they are"
    );
    check_contents(&db, &model, "gathered");
    assert_eq!(db.verify(&mut |_, _| {}).unwrap().findings.len(), 0);
}
