//! What a write waits for when the memtable changes.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, mpsc};
use std::time::{Duration, Instant};

use criba::sim::{Memory, Survivors};
use criba::storage::Storage as _;
use criba::{Db, Durability};

use crate::faults::{Call, Rig};

const MEMTABLE: u64 = 64 << 10;
/// How long to wait for what must come.
const PATIENCE: Duration = Duration::from_secs(20);

fn open(rig: &Rig) -> Db {
    Db::builder("rotation")
        .storage(Arc::new(rig.clone()))
        .memtable_bytes(MEMTABLE)
        .durability(Durability::Process)
        .open()
        .unwrap()
}

fn journals(rig: &Rig) -> Vec<String> {
    let mut names = rig.list().unwrap();
    names.retain(|name| name.ends_with(".journal"));
    names
}

fn put(db: &Db, n: &mut u64) {
    *n += 1;
    db.put(n.to_le_bytes(), [7; 100]).unwrap();
}

/// Puts until the memtable is so full.
fn fill(db: &Db, n: &mut u64, bytes: u64) {
    while db.stats().memtable.active_bytes < bytes {
        put(db, n);
    }
}

fn wait_until(what: &str, is_done: impl Fn() -> bool) {
    let started = Instant::now();
    while !is_done() {
        assert!(started.elapsed() < PATIENCE, "{what}");
        std::thread::sleep(Duration::from_millis(1));
    }
}

/// What this thread waits for, and the directory syncs of others, of which there is one for each
/// journal that they make.
#[derive(Default)]
struct Calls {
    own: AtomicU64,
    made_ahead: AtomicU64,
}

fn count_calls(rig: &Rig) -> Arc<Calls> {
    let (calls, writer) = (Arc::new(Calls::default()), std::thread::current().id());
    let counted = Arc::clone(&calls);
    let journal = Mutex::new(false);
    rig.set(move |call, name| {
        let is_own = std::thread::current().id() == writer;
        match call {
            Call::Create | Call::Sync | Call::SyncDir | Call::Rename if is_own => {
                counted.own.fetch_add(1, Ordering::Relaxed);
            }
            Call::Create => *journal.lock().unwrap() = name.ends_with(".journal"),
            Call::SyncDir if std::mem::take(&mut *journal.lock().unwrap()) => {
                counted.made_ahead.fetch_add(1, Ordering::Relaxed);
            }
            _ => {}
        }
        Ok(())
    });
    calls
}

#[test]
fn who_fills_a_memtable_makes_no_file_and_waits_for_no_disk() {
    let rig = Rig::new(Memory::new());
    let db = open(&rig);
    let mut n = 0;
    fill(&db, &mut n, MEMTABLE / 4);
    assert_eq!(journals(&rig).len(), 1, "small stores make no second one");
    let calls = count_calls(&rig);
    for round in 1..=5 {
        fill(&db, &mut n, MEMTABLE * 2 / 3);
        let made = || calls.made_ahead.load(Ordering::Relaxed);
        wait_until("a journal is made ready", || made() == round);
        fill(&db, &mut n, MEMTABLE);
        put(&db, &mut n);
        assert!(db.stats().memtable.active_bytes < MEMTABLE / 2);
    }
    assert_eq!(calls.own.load(Ordering::Relaxed), 0);
    rig.heal();
    drop(db);
    let db = open(&rig);
    assert!((1..=n).all(|n| db.get(n.to_le_bytes()).unwrap().is_some()));
}

/// A large file takes its time to be removed: nobody who writes or reads waits for that.
#[test]
fn what_a_merge_leaves_is_removed_while_others_go_on() {
    let rig = Rig::new(Memory::new());
    let db = open(&rig);
    let mut n = 0;
    for _ in 0..3 {
        fill(&db, &mut n, MEMTABLE / 4);
        db.flush().unwrap();
    }
    let (started, go_on) = (mpsc::channel(), mpsc::channel::<()>());
    let go_on_now = Mutex::new(go_on.1);
    let writer = std::thread::current().id();
    rig.set(move |call, name| {
        if call == Call::Remove && name.ends_with(".seg") {
            let is_other = std::thread::current().id() != writer;
            started.0.send(is_other).unwrap();
            // Not for ever: a failure shall be seen.
            assert!(go_on_now.lock().unwrap().recv_timeout(PATIENCE) != Ok(()));
        }
        Ok(())
    });
    let merge = db.compact_all().unwrap();
    // Its files are being removed ...
    assert!(started.1.recv().unwrap(), "by who writes");
    let began = Instant::now();
    // ... and memtables are sealed meanwhile.
    for _ in 0..2 {
        fill(&db, &mut n, MEMTABLE);
        put(&db, &mut n);
    }
    assert!(db.stats().memtable.active_bytes < MEMTABLE / 2);
    assert!((1..=n).all(|n| db.get(n.to_le_bytes()).unwrap().is_some()));
    assert!(began.elapsed() < PATIENCE, "somebody waited");
    drop(go_on.0);
    merge.wait().unwrap();
    rig.heal();
}

/// A journal that was made ready and not needed goes with the session, or is passed over.
#[test]
fn what_was_made_ready_is_not_left() {
    let rig = Rig::new(Memory::new());
    let mut n = 0;
    let db = open(&rig);
    fill(&db, &mut n, 1);
    let written = journals(&rig);
    fill(&db, &mut n, MEMTABLE * 2 / 3);
    wait_until("a journal is made ready", || journals(&rig) != written);
    let killed = Rig::new(rig.memory.crash(Survivors::Everything));
    db.close().unwrap();
    assert_eq!(journals(&rig), written);

    for _ in 0..3 {
        let db = open(&killed);
        assert_eq!(db.iter().count() as u64, n);
        db.put(1_u64.to_le_bytes(), [8; 100]).unwrap();
    }
}

/// Where it cannot be made ahead, the write that needs it makes it.
#[test]
fn without_a_journal_made_ahead_writes_go_on() {
    let rig = Rig::new(Memory::new());
    let db = open(&rig);
    let mut n = 0;
    fill(&db, &mut n, MEMTABLE / 4);
    let writer = std::thread::current().id();
    rig.set(move |call, name| {
        let is_ahead = std::thread::current().id() != writer;
        if call == Call::Create && name.ends_with(".journal") && is_ahead {
            return Err(std::io::ErrorKind::StorageFull.into());
        }
        Ok(())
    });
    for _ in 0..2000 {
        put(&db, &mut n);
    }
    let memtable = db.stats().memtable;
    assert!(memtable.flushes + memtable.sealed_count > 0);
    db.close().unwrap();
    rig.heal();
    assert_eq!(open(&rig).iter().count() as u64, n);
}
