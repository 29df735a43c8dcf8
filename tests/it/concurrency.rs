//! Many threads: shared syncs, whole batches, stalls, and the end of a store's life.

use std::io::ErrorKind;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use criba::sim::{Memory, Survivors};
use criba::{Access, Builder, Db, Durability, Error, EventKind};

use crate::faults::{Call, Gate, Rig, within};

const LIMIT: Duration = Duration::from_secs(60);

fn builder(rig: &Rig) -> Builder {
    Db::builder("concurrency")
        .compaction(criba::Compaction::Manual)
        .storage(Arc::new(rig.clone()))
        .memtable_bytes(64 << 10)
        .block_bytes(512)
}

fn open(rig: &Rig) -> Db {
    builder(rig).open().unwrap()
}

fn rig() -> Rig {
    Rig::new(Memory::new())
}

/// Calls of this kind on files whose names end so wait at the gate.
fn hold(rig: &Rig, held: Call, suffix: &'static str) -> Gate {
    let gate = Gate::closed();
    let door = gate.clone();
    rig.set(move |call, name| {
        if call == held && name.ends_with(suffix) {
            door.pass();
        }
        Ok(())
    });
    gate
}

fn wait_until(what: &str, is_so: impl Fn() -> bool) {
    let started = Instant::now();
    while !is_so() {
        assert!(started.elapsed() < LIMIT, "{what}: not within a minute");
        std::thread::sleep(Duration::from_millis(1));
    }
}

fn spawn<T: Send + 'static>(work: impl FnOnce() -> T + Send + 'static) -> JoinHandle<T> {
    std::thread::spawn(work)
}

#[test]
fn synced_writers_share_a_sync() {
    within(LIMIT, "shared syncs", || {
        const WRITERS: u64 = 16;
        let rig = rig();
        let db = open(&rig);
        db.put("begin", "the session").unwrap();
        let before = db.stats().syncs;
        let gate = hold(&rig, Call::Sync, ".journal");
        let write = |n: u64| {
            let db = db.clone();
            spawn(move || db.put_with(n.to_le_bytes(), "v", Durability::Sync))
        };
        let writers: Vec<_> = (0..WRITERS).map(write).collect();
        gate.wait_for_visitor();
        // All write although a sync is under way.
        wait_until("all have written", || db.stats().sequence == WRITERS + 1);
        assert!(
            !writers.iter().any(JoinHandle::is_finished),
            "none is durable yet"
        );
        gate.open();
        for writer in writers {
            writer.join().unwrap().unwrap();
        }
        let syncs = db.stats().syncs - before;
        assert!(
            (1..=2).contains(&syncs),
            "{syncs} syncs for {WRITERS} commits"
        );
        let after = open(&Rig::new(rig.memory.crash(Survivors::Synced)));
        assert_eq!(after.iter().count() as u64, WRITERS + 1);
    });
}

#[test]
fn a_failed_shared_sync_fails_every_writer() {
    within(LIMIT, "a failed shared sync", || {
        let rig = rig();
        let db = open(&rig);
        db.put("begin", "the session").unwrap();
        let gate = Gate::closed();
        let door = gate.clone();
        rig.set(move |call, name| {
            if call == Call::Sync && name.ends_with(".journal") {
                door.pass();
                return Err(ErrorKind::Other.into());
            }
            Ok(())
        });
        let write = |n: u64| {
            let db = db.clone();
            spawn(move || db.put_with(n.to_le_bytes(), "v", Durability::Sync))
        };
        let writers: Vec<_> = (0..8).map(write).collect();
        wait_until("all have written", || db.stats().sequence == 9);
        gate.open();
        for writer in writers {
            let error = writer.join().unwrap().unwrap_err();
            assert!(matches!(error, Error::Poisoned { .. }), "{error}");
        }
    });
}

/// Threads write counters with `Sync` while memtables rotate; at any moment the power may fail.
#[test]
fn acknowledged_syncs_survive_power_loss_at_any_moment() {
    within(LIMIT, "power loss under load", || {
        let rig = rig();
        let db = open(&rig);
        let acknowledged: Arc<[AtomicU64; 4]> = Arc::default();
        let stop = Arc::new(AtomicBool::new(false));
        let round = Arc::new(AtomicU64::new(1));
        let writers: Vec<_> = (0..4)
            .map(|thread| {
                let (db, acknowledged) = (db.clone(), Arc::clone(&acknowledged));
                let (stop, round) = (Arc::clone(&stop), Arc::clone(&round));
                spawn(move || {
                    for n in 1..=u64::MAX {
                        // Not ahead without end: the more runs there are, the longer a round takes.
                        while n > BATCHES_IN_A_ROUND * round.load(Ordering::Relaxed) {
                            if stop.load(Ordering::Relaxed) {
                                return;
                            }
                            std::thread::yield_now();
                        }
                        let mut batch = db.batch();
                        batch.put(format!("a{thread}"), n.to_le_bytes());
                        batch.put(format!("filler{thread}"), vec![7; 3000]);
                        batch.put(format!("z{thread}"), n.to_le_bytes());
                        batch.commit_with(Durability::Sync).unwrap();
                        acknowledged[thread].store(n, Ordering::SeqCst);
                    }
                })
            })
            .collect();
        for _ in 0..100 {
            let least: Vec<u64> = acknowledged
                .iter()
                .map(|n| n.load(Ordering::SeqCst))
                .collect();
            for survivors in [Survivors::Synced, Survivors::Ordered] {
                let after = open(&Rig::new(rig.memory.crash(survivors)));
                for (thread, least) in least.iter().enumerate() {
                    let number = |key: String| -> u64 {
                        let found = after.get(key).unwrap();
                        found.map_or(0, |n| u64::from_le_bytes(n[..].try_into().unwrap()))
                    };
                    let (a, z) = (number(format!("a{thread}")), number(format!("z{thread}")));
                    assert!(
                        a >= *least,
                        "{survivors:?}: {a} is there, {least} was promised"
                    );
                    assert_eq!(a, z, "half a batch");
                }
                assert_eq!(after.stats().recovery.unknown_files, [""; 0]);
            }
            round.fetch_add(1, Ordering::Relaxed);
        }
        stop.store(true, Ordering::Relaxed);
        for writer in writers {
            writer.join().unwrap();
        }
        assert!(db.stats().memtable.flushes > 0);
    });
}

const BATCHES_IN_A_ROUND: u64 = 20;

/// Every batch sets two distant keys to the same number; nobody may ever see them differ, nor
/// see time run backwards.
#[test]
fn readers_see_whole_batches_while_memtables_are_flushed() {
    within(LIMIT, "whole batches", || {
        let rig = rig();
        let db = open(&rig);
        let stop = Arc::new(AtomicBool::new(false));
        let mut readers = Vec::new();
        for kind in 0..5 {
            let (db, stop) = (db.clone(), Arc::clone(&stop));
            readers.push(spawn(move || {
                let mut last = 0;
                let mut rounds = 0_u64;
                while !stop.load(Ordering::Relaxed) {
                    let (left, right) = read_both(&db, kind);
                    assert_eq!(left, right, "reader {kind}");
                    assert!(left >= last, "reader {kind}: {left} after {last}");
                    last = left;
                    rounds += 1;
                }
                rounds
            }));
        }
        let flusher = {
            let (db, stop) = (db.clone(), Arc::clone(&stop));
            spawn(move || {
                while !stop.load(Ordering::Relaxed) {
                    db.flush().unwrap();
                }
            })
        };
        for n in 1..=3000_u64 {
            let mut batch = db.batch();
            batch.put("a left", n.to_le_bytes());
            batch.put(format!("middle {:02}", n % 30), vec![1; 200]);
            batch.put("z right", n.to_le_bytes());
            batch.commit().unwrap();
        }
        stop.store(true, Ordering::Relaxed);
        flusher.join().unwrap();
        for reader in readers {
            assert!(reader.join().unwrap() > 0);
        }
        assert!(db.stats().memtable.flushes > 5);
    });
}

fn read_both(db: &Db, kind: u32) -> (u64, u64) {
    let number = |value: Option<criba::Slice>| {
        value.map_or(0, |n| u64::from_le_bytes(n[..].try_into().unwrap()))
    };
    let from = |found: Vec<criba::Result<(criba::Slice, criba::Slice)>>| {
        let found: Vec<_> = found.into_iter().map(|entry| entry.unwrap()).collect();
        let value = |key: &str| found.iter().find(|(k, _)| k == key).map(|(_, v)| v.clone());
        (number(value("a left")), number(value("z right")))
    };
    match kind {
        0 => {
            let snapshot = db.snapshot();
            let left = number(snapshot.get("a left").unwrap());
            std::thread::yield_now();
            (left, number(snapshot.get("z right").unwrap()))
        }
        1 => from(db.iter().collect()),
        2 => from(db.iter().rev().collect()),
        3 => {
            let mut iter = db.iter();
            let first = iter.next();
            std::thread::yield_now();
            from(first.into_iter().chain(iter.next_back()).collect())
        }
        _ => {
            let snapshot = db.snapshot();
            let right = number(snapshot.get("z right").unwrap());
            std::thread::yield_now();
            let found = snapshot.range("a".."b").next();
            (number(found.map(|entry| entry.unwrap().1)), right)
        }
    }
}

#[test]
fn writers_are_slowed_then_stopped_and_memory_is_bounded() {
    within(LIMIT, "a stall", || {
        const WRITERS: u64 = 4;
        // More for each than all memtables hold.
        const WRITES: u64 = 400;
        let rig = rig();
        let db = builder(&rig).sealed_memtables_max(3).open().unwrap();
        let gate = hold(&rig, Call::Append, ".seg");
        let write = |thread: u64| {
            let db = db.clone();
            spawn(move || {
                for n in 0..WRITES {
                    db.put(format!("{thread} {n}"), vec![1; 1000]).unwrap();
                }
            })
        };
        let writers: Vec<_> = (0..WRITERS).map(write).collect();
        wait_until("all are stopped", || db.stats().stalls.stopped == WRITERS);
        let stalled = db.stats();
        std::thread::sleep(Duration::from_millis(50));
        let later = db.stats();
        assert_eq!(later.sequence, stalled.sequence, "nobody writes");
        assert_eq!(later.memtable.sealed_count, 3);
        let bytes = later.memtable.active_bytes + later.memtable.sealed_bytes;
        let slack = 4 * (WRITERS + 1) * 1200;
        assert!(
            bytes <= 4 * (64 << 10) + slack,
            "{bytes} bytes in memtables"
        );
        assert!(later.stalls.slowed > 0, "{:?}", later.stalls);
        let has = |kind: fn(&EventKind) -> bool| later.events.iter().any(|event| kind(&event.what));
        assert!(has(|event| matches!(
            event,
            EventKind::Slowed { sealed: 2 | 3 }
        )));
        assert!(has(|event| matches!(
            event,
            EventKind::Stopped { sealed: 3 }
        )));
        // Reads are not held back.
        let (key, _) = db.iter().next().unwrap().unwrap();
        assert!(db.contains_key(key).unwrap());
        assert_eq!(db.iter().count() as u64, later.sequence);
        gate.open();
        for writer in writers {
            writer.join().unwrap();
        }
        assert_eq!(db.iter().count() as u64, WRITERS * WRITES);
        assert!(db.stats().stalls.stopped_time >= Duration::from_millis(50));
        db.flush().unwrap();
        let memtable = db.stats().memtable;
        assert_eq!(memtable.active_bytes + memtable.sealed_bytes, 0);
    });
}

#[test]
fn close_ends_every_wait() {
    within(LIMIT, "close", || {
        let rig = rig();
        let db = builder(&rig).sealed_memtables_max(1).open().unwrap();
        let gate = hold(&rig, Call::Append, ".seg");
        for n in 0..2_u64 {
            db.put(n.to_le_bytes(), vec![1; 70_000]).unwrap();
        }
        let stopped = {
            let db = db.clone();
            spawn(move || db.put("stopped", "v"))
        };
        let flushing = {
            let db = db.clone();
            spawn(move || db.flush())
        };
        wait_until("a writer is stopped", || db.stats().stalls.stopped == 1);
        let closing = {
            let db = db.clone();
            spawn(move || db.close())
        };
        assert!(matches!(stopped.join().unwrap(), Err(Error::Closed)));
        assert!(matches!(flushing.join().unwrap(), Err(Error::Closed)));
        assert!(matches!(db.clone().close(), Err(Error::Closed)));
        // The flush under way is waited for, not cut off.
        gate.open();
        closing.join().unwrap().unwrap();
        rig.heal();
        let db = open(&rig);
        assert!(db.stats().recovery.clean);
        assert_eq!(db.iter().count(), 2);
        assert_eq!(db.stats().recovery.removed_files, [""; 0]);
    });
}

/// Writers of every kind race with `close`: what was acknowledged is there, what was refused is
/// not, and the close is clean.
#[test]
fn a_close_among_writers_is_clean() {
    for round in 0..20_u64 {
        within(LIMIT, "close among writers", move || {
            let rig = rig();
            let db = open(&rig);
            let write = |thread: u64| {
                let db = db.clone();
                spawn(move || {
                    for n in 0.. {
                        let result = match (thread, n % 16) {
                            (3, 0) => db.flush(),
                            (3, 8) => db.sync(),
                            (0, _) => db.put_with(key(thread, n), "v", Durability::Sync),
                            (1, _) => db.put_with(key(thread, n), "v", Durability::Buffered),
                            _ => db.put(key(thread, n), vec![1; 500]),
                        };
                        match result {
                            Ok(()) => {}
                            Err(Error::Closed) => return n,
                            Err(error) => panic!("{error}"),
                        }
                    }
                    0
                })
            };
            let writers: Vec<_> = (0..4).map(write).collect();
            wait_until("some are written", || {
                db.stats().sequence > 100 * (round % 5 + 1)
            });
            db.close().unwrap();
            let counts: Vec<u64> = writers.into_iter().map(|w| w.join().unwrap()).collect();
            let image = Rig::new(rig.memory.crash(Survivors::Synced));
            let db = open(&image);
            assert!(db.stats().recovery.clean);
            let mut expected = 0;
            for (thread, count) in counts.iter().enumerate() {
                for n in 0..*count {
                    let is_write = thread != 3 || n % 8 > 0;
                    let found = db.contains_key(key(thread as u64, n)).unwrap();
                    assert_eq!(found, is_write, "thread {thread} of {counts:?}, write {n}");
                    expected += usize::from(is_write);
                }
            }
            assert_eq!(db.iter().count(), expected);
        });
    }
}

fn key(thread: u64, n: u64) -> String {
    format!("{thread}/{n:06}")
}

/// Bug: iterators of a closed store, and snapshots taken of one, read on as if it were open.
#[test]
fn a_closed_store_refuses_everything_but_what_was_taken_before() {
    let rig = rig();
    let db = open(&rig);
    db.put("a", "1").unwrap();
    db.flush().unwrap();
    db.put("b", "2").unwrap();
    let (snapshot, iter, mut batch) = (db.snapshot(), db.iter(), db.batch());
    batch.put("c", "3");
    db.clone().close().unwrap();
    assert!(matches!(db.get("a"), Err(Error::Closed)));
    assert!(matches!(db.contains_key("a"), Err(Error::Closed)));
    assert!(matches!(db.put("a", "2"), Err(Error::Closed)));
    assert!(matches!(db.delete("a"), Err(Error::Closed)));
    assert!(matches!(batch.commit(), Err(Error::Closed)));
    assert!(matches!(db.batch().commit(), Err(Error::Closed)));
    assert!(matches!(db.sync(), Err(Error::Closed)));
    assert!(matches!(db.flush(), Err(Error::Closed)));
    assert!(matches!(db.explain("a"), Err(Error::Closed)));
    assert!(matches!(db.inspect(1), Err(Error::Closed)));
    for mut refused in [db.iter(), db.prefix("a"), db.range("a"..)] {
        assert!(matches!(refused.next_back(), Some(Err(Error::Closed))));
        assert!(refused.next().is_none() && refused.next_back().is_none());
    }
    let late = db.snapshot();
    assert!(matches!(late.get("a"), Err(Error::Closed)));
    assert!(matches!(late.contains_key("a"), Err(Error::Closed)));
    assert!(matches!(late.iter().next(), Some(Err(Error::Closed))));
    assert!(matches!(db.clone().close(), Err(Error::Closed)));
    assert_eq!(db.stats().sequence, 2);
    // The store is free for the next one while the old views are still read.
    let next = open(&rig);
    next.put("a", "new").unwrap();
    next.delete("b").unwrap();
    next.flush().unwrap();
    assert_eq!(
        iter.map(|entry| entry.unwrap().1.to_vec())
            .collect::<Vec<_>>(),
        [b"1", b"2"]
    );
    assert_eq!(snapshot.get("a").unwrap().unwrap(), "1");
    assert_eq!(snapshot.iter().count(), 2);
    assert!(snapshot.contains_key("b").unwrap());
}

#[test]
fn dropping_the_last_handle_closes_although_iterators_live() {
    let rig = rig();
    let db = open(&rig);
    for n in 0..2000_u32 {
        db.put(n.swap_bytes().to_le_bytes(), vec![1; 100]).unwrap();
    }
    let (mut iter, snapshot) = (db.iter(), db.snapshot());
    let clone = db.clone();
    assert_eq!(
        iter.next().unwrap().unwrap().0,
        0_u32.swap_bytes().to_le_bytes()
    );
    drop(db);
    clone.put("not closed", "yet").unwrap();
    drop(clone);
    let db = open(&rig);
    assert!(db.stats().recovery.clean);
    assert_eq!(db.iter().count(), 2001);
    db.flush().unwrap();
    drop(db);
    assert_eq!(iter.count(), 1999);
    assert_eq!(snapshot.iter().rev().count(), 2000);
}

#[test]
fn a_snapshot_outlives_many_flushes() {
    within(LIMIT, "a snapshot over flushes", || {
        let rig = rig();
        let db = open(&rig);
        let mut snapshots = Vec::new();
        for n in 0..30_u64 {
            for key in 0..20 {
                db.put(format!("{key:02}"), n.to_le_bytes()).unwrap();
            }
            if n % 7 == 3 {
                db.delete("05").unwrap();
            }
            if n % 3 == 0 {
                snapshots.push((n, db.snapshot()));
            }
            if n % 5 == 0 {
                db.flush().unwrap();
            }
        }
        db.flush().unwrap();
        let check = |n: &u64, snapshot: &criba::Snapshot| {
            let is_deleted = n % 7 == 3;
            for key in 0..20 {
                let found = snapshot.get(format!("{key:02}")).unwrap();
                let expected = (key != 5 || !is_deleted).then_some(n.to_le_bytes());
                assert_eq!(
                    found.as_deref(),
                    expected.as_ref().map(|n| &n[..]),
                    "{n} {key}"
                );
            }
            let (forward, backward) = (snapshot.iter().count(), snapshot.iter().rev().count());
            assert_eq!((forward, backward), (20 - usize::from(is_deleted), forward));
        };
        for (n, snapshot) in &snapshots {
            check(n, snapshot);
        }
        // Clones keep it; the last one lets go.
        let (n, kept) = (snapshots[3].0, snapshots[3].1.clone());
        drop(snapshots);
        db.put("00", "later").unwrap();
        db.flush().unwrap();
        drop(db);
        check(&n, &kept);
    });
}

#[test]
fn flushes_from_many_threads() {
    within(LIMIT, "many flushes", || {
        let rig = rig();
        let db = builder(&rig).sealed_memtables_max(1).open().unwrap();
        let work = |thread: u64| {
            let db = db.clone();
            spawn(move || {
                for n in 0..50 {
                    db.put(key(thread, n), vec![1; 3000]).unwrap();
                    db.flush().unwrap();
                    // What was written before is in a segment now.
                    assert!(db.explain(key(thread, n)).unwrap().data_blocks() > 0);
                }
            })
        };
        let workers: Vec<_> = (0..6).map(work).collect();
        for worker in workers {
            worker.join().unwrap();
        }
        assert_eq!(db.iter().count(), 300);
    });
}

/// A reader beside a crashed store changes nothing, and reads what recovery would find.
#[test]
fn read_only_on_a_crashed_store() {
    let rig = rig();
    let db = open(&rig);
    for n in 0..500_u32 {
        db.put(n.swap_bytes().to_le_bytes(), vec![1; 300]).unwrap();
    }
    for survivors in [Survivors::Everything, Survivors::Synced, Survivors::Ordered] {
        let image = rig.memory.crash(survivors);
        let count = open(&Rig::new(image.crash(Survivors::Everything)))
            .iter()
            .count();
        let reader = builder(&Rig::new(image.clone()))
            .access(Access::ReadOnly)
            .open()
            .unwrap();
        assert_eq!(reader.iter().count(), count);
        assert!(!reader.stats().recovery.clean);
        assert!(matches!(reader.batch().commit(), Err(Error::ReadOnly)));
        let held = builder(&Rig::new(image.clone())).open();
        assert!(
            matches!(held, Err(Error::Locked { .. })),
            "the reader holds the lock"
        );
        reader.close().unwrap();
        assert_eq!(image.mutations(), 0);
        if survivors == Survivors::Everything {
            assert_eq!(count, 500);
        }
    }
}
