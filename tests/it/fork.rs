//! A forked child that inherits handles: they do nothing there, and the parent loses nothing.
//!
//! A child of the test harness would hold the descriptors of all tests that run beside it, so the
//! test binary runs itself once for each scenario, and forks there.
#![expect(unsafe_code, reason = "the standard library has no fork")]

use std::fs;
use std::io::{PipeReader, Read as _, Write as _};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use criba::sim::Memory;
use criba::{Builder, Compaction, Db, Durability, Error, Result};

use crate::faults::{Call, Gate, Rig};

/// Names the scenario: its presence makes a process of one.
const SCENARIO: &str = "CRIBA_FORK_SCENARIO";
/// A child, or a whole scenario, that takes longer hangs.
const CHILD_SECONDS: u32 = 30;
const PATIENCE: Duration = Duration::from_secs(120);

/// Not a test of its own: without the variable it does nothing.
#[test]
fn a_scenario_of_forks() {
    let Ok(scenario) = std::env::var(SCENARIO) else {
        return;
    };
    match &*scenario {
        "dropped" => dropped(),
        "used" => used(),
        "transactions" => transactions(),
        "held_locks" => held_locks(),
        "lives_on" => lives_on(),
        "beside_writers" => beside_writers(),
        other => panic!("{other} is no scenario"),
    }
}

fn run(scenario: &str) {
    let mut process = Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "fork::a_scenario_of_forks", "--nocapture"])
        .arg("--test-threads=1")
        .env(SCENARIO, scenario)
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .spawn()
        .unwrap();
    let started = Instant::now();
    loop {
        if let Some(status) = process.try_wait().unwrap() {
            assert!(status.success(), "{scenario}: {status}");
            return;
        }
        if started.elapsed() > PATIENCE {
            process.kill().unwrap();
            process.wait().unwrap();
            panic!("{scenario} hangs");
        }
        std::thread::sleep(Duration::from_millis(5));
    }
}

#[test]
fn a_child_that_drops_its_handles_changes_nothing() {
    run("dropped");
}

#[test]
fn a_child_that_uses_its_handles_is_refused() {
    run("used");
}

#[test]
fn a_child_that_goes_on_with_transactions_is_refused() {
    run("transactions");
}

#[test]
fn a_child_waits_for_no_lock_that_its_parent_held() {
    run("held_locks");
}

#[test]
fn a_child_that_lives_on_does_not_keep_a_closed_store_locked() {
    run("lives_on");
}

#[test]
fn writers_beside_many_forks_lose_nothing() {
    run("beside_writers");
}

/// A forked child that works.
struct Forked(libc::pid_t);

/// Runs `work` in a forked child; it says whether all was well.
fn fork(work: impl FnOnce() -> Vec<&'static str>) -> Forked {
    // SAFETY: the child has this thread alone, uses nothing that another thread may have locked
    // but the allocator, which the system takes care of, and ends without returning from here.
    let child = unsafe { libc::fork() };
    assert!(child >= 0, "{}", std::io::Error::last_os_error());
    if child > 0 {
        return Forked(child);
    }
    // SAFETY: ends this child, if it hangs, by a signal that its parent sees.
    unsafe { libc::alarm(CHILD_SECONDS) };
    let code = match catch_unwind(AssertUnwindSafe(work)) {
        Ok(wrong) if wrong.is_empty() => 0,
        Ok(wrong) => {
            writeln!(std::io::stderr(), "wrong in the child: {wrong:?}").ok();
            1
        }
        Err(_panic) => 101,
    };
    // SAFETY: ends the process without running anything of the harness.
    unsafe { libc::_exit(code) };
}

impl Forked {
    fn wait(self) {
        let mut status = 0;
        // SAFETY: the status outlives the call.
        let ended = unsafe { libc::waitpid(self.0, &raw mut status, 0) };
        assert_eq!(ended, self.0);
        assert!(
            libc::WIFEXITED(status) && libc::WEXITSTATUS(status) == 0,
            "the child ended with status {status:#x}"
        );
    }
}

/// Nothing is merged by itself, so that files change only where a test wants it.
fn builder(path: &Path) -> Builder {
    Db::builder(path)
        .memtable_bytes(64 << 10)
        .compaction(Compaction::Manual)
}

fn key(n: u64) -> String {
    format!("key{n:05}")
}

fn put(db: &Db, keys: std::ops::Range<u64>, value: u8) {
    keys.for_each(|n| db.put(key(n), [value; 100]).unwrap());
}

/// A store with segments, a thread, and entries in a journal that this process has mapped. It
/// never fills half of a memtable from now on, so that no journal is made ahead.
fn store(path: &Path) -> Db {
    let db = builder(path).open().unwrap();
    put(&db, 0..3000, 7);
    db.close().unwrap();
    let db = builder(path).open().unwrap();
    put(&db, 3000..3050, 7);
    db.flush().unwrap();
    put(&db, 3050..3100, 7);
    db
}

/// Names and content of all files, once the thread that removes files has left so many segments and
/// one journal.
fn files(path: &Path, segments: usize) -> Vec<(String, Vec<u8>)> {
    let started = Instant::now();
    loop {
        let entries = fs::read_dir(path).unwrap().map(|entry| entry.unwrap());
        let mut paths: Vec<_> = entries.map(|entry| entry.path()).collect();
        paths.sort();
        let ends = |end: &'static str| {
            let names = paths.iter().filter_map(|path| path.to_str());
            names.filter(|name| name.ends_with(end)).count()
        };
        if ends(".seg") == segments && ends(".journal") == 1 {
            let file = |path: std::path::PathBuf| {
                let bytes = fs::read(&path).unwrap();
                (path.to_str().unwrap().to_owned(), bytes)
            };
            return paths.into_iter().map(file).collect();
        }
        assert!(started.elapsed() < PATIENCE, "{paths:?}");
        std::thread::sleep(Duration::from_millis(1));
    }
}

fn segments(db: &Db) -> usize {
    db.stats().segments().count()
}

/// The parent writes on, closes and reopens: all keys up to `count` and the new ones are there.
fn goes_on(db: Db, path: &Path, count: u64) {
    put(&db, count..count + 2000, 8);
    db.close().unwrap();
    let db = builder(path).open().unwrap();
    assert!(db.stats().recovery.clean);
    let keys: Vec<_> = db.iter().map(|entry| entry.unwrap().0).collect();
    let expected: Vec<_> = (0..count + 2000).map(key).collect();
    assert!(keys.iter().eq(expected.iter().map(String::as_bytes)));
    let findings = db.verify(&mut |_, _| {}).unwrap().findings;
    assert!(findings.is_empty(), "{findings:?}");
    db.close().unwrap();
}

fn dropped() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("store");
    let db = store(&path);
    let snapshot = db.snapshot();
    // Holds files that the merge makes obsolete: they are removed when it is dropped.
    let mut iter = db.iter();
    assert!(iter.next().unwrap().is_ok());
    let of_iter = segments(&db);
    put(&db, 0..50, 9);
    let job = db.compact_all().unwrap();
    job.wait().unwrap();
    put(&db, 50..100, 9);
    let count = of_iter + segments(&db);
    let before = files(&path, count);

    let mut batch = db.batch();
    batch.put("batch", "");
    let mut all = Some((db, batch, job));
    let mut readers = Some((iter, snapshot));
    let child = fork(|| {
        drop(readers.take());
        drop(all.take());
        Vec::new()
    });
    child.wait();
    assert!(files(&path, count) == before, "the child changed a file");
    let (db, _batch, _job) = all.unwrap();
    let (iter, snapshot) = readers.unwrap();
    assert_eq!(iter.count(), 3099);
    assert_eq!(snapshot.get(key(0)).unwrap().unwrap(), [7; 100]);
    drop(snapshot);
    goes_on(db.clone(), &path, 3100);
}

/// The names of the results that are not [`Error::Forked`].
fn not_refused<const N: usize>(results: [(&'static str, Result<()>); N]) -> Vec<&'static str> {
    let is_wrong =
        |(name, result)| (!matches!(result, Err(Error::Forked))).then_some::<&'static str>(name);
    results.into_iter().filter_map(is_wrong).collect()
}

fn first_of(mut iter: criba::Iter) -> Result<()> {
    let first = iter.next().map_or(Ok(()), |entry| entry.map(drop));
    assert!(iter.next().is_none(), "it ends after an error");
    first
}

fn used() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("store");
    let db = store(&path);
    let job = db.compact_all().unwrap();
    job.wait().unwrap();
    let snapshot = db.snapshot();
    let (mut forwards, mut backwards) = (db.iter(), db.iter().rev());
    assert!(forwards.next().unwrap().is_ok());
    assert!(backwards.next().unwrap().is_ok());
    let mut batch = db.batch();
    batch.put("batch", "");
    let before = files(&path, segments(&db));

    let child = fork(|| {
        let segment = 1;
        let mut wrong = not_refused([
            ("put", db.put("k", "v")),
            ("delete", db.delete(key(1))),
            ("sync put", db.put_with("k", "v", Durability::Sync)),
            ("commit", batch.clone().commit()),
            ("sync", db.sync()),
            ("flush", db.flush()),
            ("compact", db.compact_all().map(drop)),
            ("rebuild", db.rebuild_filters(.., |_, _| {}).map(drop)),
            ("get", db.get(key(1)).map(drop)),
            ("get_many", db.get_many(&[key(1)]).map(drop)),
            ("contains_key", db.contains_key(key(1)).map(drop)),
            ("explain", db.explain(key(1)).map(drop)),
            ("verify", db.verify(&mut |_, _| {}).map(drop)),
            ("inspect", db.inspect(segment).map(drop)),
            ("new iterator", first_of(db.iter())),
            ("new snapshot", db.snapshot().get(key(1)).map(drop)),
            ("its iterator", first_of(db.snapshot().iter())),
            ("snapshot", snapshot.get(key(1)).map(drop)),
            ("snapshot many", snapshot.get_many(&[key(1)]).map(drop)),
            ("snapshot iterator", first_of(snapshot.prefix("key"))),
            ("iterator", forwards.next().unwrap().map(drop)),
            ("backwards", backwards.next().unwrap().map(drop)),
            ("job", job.wait()),
            ("close", db.clone().close()),
        ]);
        job.cancel();
        let is_inert = job.is_done()
            && db.stats().sequence == 0
            && db.approximate_len() == 0
            && db.approximate_len_in("a".."z") == 0;
        if !is_inert {
            wrong.push("counts");
        }
        if !matches!(builder(&path).open(), Err(Error::Locked { .. })) {
            wrong.push("open");
        }
        wrong
    });
    child.wait();
    assert!(
        files(&path, segments(&db)) == before,
        "the child changed a file"
    );
    assert!(forwards.next().unwrap().is_ok());
    assert!(backwards.next().unwrap().is_ok());
    batch.commit().unwrap();
    db.delete("batch").unwrap();
    goes_on(db, &path, 3100);
}

fn transactions() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("store");
    let db = store(&path);
    let reading = db.transaction();
    let mut walk = reading.iter();
    assert!(walk.next().unwrap().is_ok());
    let mut writing = db.transaction();
    writing.put(key(1), "written").unwrap();
    let mut writing = Some(writing);
    let child = fork(|| {
        let own = writing.as_ref().unwrap().get(key(1)).map(drop);
        not_refused([
            ("get", reading.get(key(1)).map(drop)),
            ("get of its own", own),
            ("walk", walk.next().unwrap().map(drop)),
            ("new walk", reading.iter().next().unwrap().map(drop)),
            ("commit", writing.take().unwrap().commit()),
            ("commit of nothing", db.transaction().commit()),
            ("transact", db.transact(|tx| tx.put("k", "v"))),
            ("update", db.update("k", |_| Some("v")).map(drop)),
            ("put_if_absent", db.put_if_absent("k", "v").map(drop)),
        ])
    });
    child.wait();
    assert!(walk.next().unwrap().is_ok());
    drop(walk);
    assert_eq!(db.stats().snapshots.transactions, 2);
    writing.unwrap().commit().unwrap();
    reading.commit().unwrap();
    assert_eq!(db.get(key(1)).unwrap().unwrap(), "written");
    goes_on(db, &path, 3100);
}

/// Another thread has the locks of writer, manifest and next journal in the moment of the fork.
fn held_locks() {
    let rig = Rig::new(Memory::new());
    let open = || Db::builder("held").storage(Arc::new(rig.clone())).open();
    let db = open().unwrap();
    let (gate, at_gate) = (Gate::closed(), Gate::clone);
    let door = at_gate(&gate);
    rig.set(move |call, name| {
        if call == Call::Create && name.ends_with(".journal") {
            door.pass();
        }
        Ok(())
    });
    let writer = db.clone();
    let first = std::thread::spawn(move || writer.put("k", "v"));
    gate.wait_for_visitor();
    let mut handle = Some(db);
    let child = fork(|| {
        let db = handle.take().unwrap();
        let wrong = not_refused([
            ("put", db.put("k", "v")),
            ("sync", db.sync()),
            ("flush", db.flush()),
            ("get", db.get("k").map(drop)),
            ("close", db.clone().close()),
        ]);
        db.stats();
        drop(db);
        wrong
    });
    child.wait();
    gate.open();
    first.join().unwrap().unwrap();
    handle.unwrap().close().unwrap();
    assert_eq!(open().unwrap().get("k").unwrap().unwrap(), "v");
}

fn wait_for_end(mut pipe: PipeReader) {
    assert_eq!(pipe.read(&mut [0]).unwrap(), 0);
}

fn lives_on() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("store");
    let db = store(&path);
    let (until, end) = std::io::pipe().unwrap();
    let mut ends = Some(end);
    let child = fork(|| {
        // The parent has the other one.
        drop(ends.take());
        wait_for_end(until);
        Vec::new()
    });
    // The child holds all descriptors, and the store can be closed and opened for all that.
    goes_on(db, &path, 3100);
    drop(ends);
    child.wait();
}

fn beside_writers() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("store");
    let db = builder(&path).open().unwrap();
    let is_over = AtomicBool::new(false);
    let written = std::thread::scope(|scope| {
        let write = |thread: u64| {
            let (db, is_over) = (&db, &is_over);
            move || {
                let mut n = 0;
                while !is_over.load(Ordering::Relaxed) {
                    let durability = [Durability::Buffered, Durability::Process][n as usize % 2];
                    let key = format!("{thread} {n:08}");
                    db.put_with(key, [7; 100], durability).unwrap();
                    n += 1;
                }
                n
            }
        };
        let writers: Vec<_> = (0..3).map(|thread| scope.spawn(write(thread))).collect();
        for _ in 0..40 {
            let mut copy = Some(db.clone());
            let child = fork(|| {
                let refused = not_refused([("put", db.put("k", "v"))]);
                // Of both handles, so that nothing else keeps it open.
                drop(copy.take());
                // SAFETY: the child ends without looking at the parent's handle again.
                drop(unsafe { std::ptr::read(&db) });
                refused
            });
            child.wait();
        }
        is_over.store(true, Ordering::Relaxed);
        let counts = writers.into_iter().map(|writer| writer.join().unwrap());
        counts.collect::<Vec<u64>>()
    });
    db.close().unwrap();
    let db = builder(&path).open().unwrap();
    for (thread, count) in (0..).zip(&written) {
        assert_eq!(db.prefix(format!("{thread} ")).count() as u64, *count);
    }
    assert_eq!(db.iter().count() as u64, written.iter().sum::<u64>());
    let findings = db.verify(&mut |_, _| {}).unwrap().findings;
    assert!(findings.is_empty(), "{findings:?}");
}
