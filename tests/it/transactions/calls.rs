//! Single calls, and bad input.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use criba::sim::Memory;
use criba::{
    Access, Conflict, Db, Durability, Error, Isolation, MAX_KEY_BYTES, Result, Transaction,
};

use crate::faults::within;

const LIMIT: Duration = Duration::from_secs(120);

fn open(memory: &Memory) -> Db {
    let builder = Db::builder("calls").storage(Arc::new(memory.clone()));
    builder.open().unwrap()
}

fn store() -> Db {
    open(&Memory::new())
}

fn is_conflict<T>(result: &Result<T>) -> bool {
    matches!(result, Err(Error::Conflict(_)))
}

#[test]
fn a_conflict_names_what_was_changed() {
    let db = store();
    let named = |read: fn(&Transaction)| {
        let mut tx = db.transaction();
        read(&tx);
        tx.put("out", "").unwrap();
        db.put("key/1", "").unwrap();
        match tx.commit() {
            Err(Error::Conflict(conflict)) => conflict,
            other => panic!("{other:?}"),
        }
    };
    let key = named(|tx| drop(tx.get("key/1").unwrap()));
    assert_eq!(key, conflict_at(b"key/1"));
    let range = named(|tx| assert!(tx.prefix("key/").count() > 0));
    assert_eq!(
        range.to_string(),
        r#"a key of "default" in the range "key/".."key0""#
    );
}

#[test]
fn each_level_has_its_conflicts() {
    let db = store();
    db.put("read", "1").unwrap();
    let commit = |isolation, changed: &str| {
        let mut tx = db.transaction_with(isolation);
        tx.get("read").unwrap().unwrap();
        assert_eq!(tx.prefix("walked/").count(), 0);
        tx.put("written", "2").unwrap();
        tx.delete("deleted").unwrap();
        db.put(changed, "3").unwrap();
        let result = tx.commit();
        db.delete("walked/1").unwrap();
        is_conflict(&result)
    };
    let all = ["read", "walked/1", "written", "deleted", "other"];
    let conflicts = |isolation| all.map(|changed| commit(isolation, changed));
    let serializable = conflicts(Isolation::Serializable);
    assert_eq!(serializable, [true, true, false, false, false]);
    let snapshot = conflicts(Isolation::Snapshot);
    assert_eq!(snapshot, [false, false, true, true, false]);
}

#[test]
fn nothing_is_seen_of_a_transaction_that_was_not_committed() {
    let memory = Memory::new();
    let db = open(&memory);
    db.put("a", "1").unwrap();
    let sequence = db.stats().sequence;
    let written = || {
        let mut tx = db.transaction();
        tx.put("a", "2").unwrap();
        tx.put("b", "2").unwrap();
        tx.delete("a").unwrap();
        tx
    };
    drop(written());
    let tx = written();
    assert_eq!((db.get("b").unwrap(), db.iter().count()), (None, 1));
    assert_eq!(db.stats().sequence, sequence);
    tx.commit().unwrap();
    // What was put and then deleted is one operation.
    assert_eq!(db.stats().sequence, sequence + 2);
    db.close().unwrap();
    let keys: Vec<_> = open(&memory).iter().map(|entry| entry.unwrap().0).collect();
    assert_eq!(keys, ["b"]);
}

#[test]
fn a_closure_runs_again_until_there_is_no_conflict_or_no_more_attempt() {
    within(LIMIT, "a hundred attempts", || {
        let db = store();
        let mut runs = 0;
        let never: Result<()> = db.transact(|tx| {
            runs += 1;
            tx.get("key")?;
            db.put("key", format!("{runs}"))?;
            tx.put("out", "")
        });
        assert!(is_conflict(&never), "{never:?}");
        assert_eq!((runs, db.get("out").unwrap()), (100, None));
        runs = 0;
        let done: Result<u32> = db.transact(|tx| {
            runs += 1;
            tx.get("key")?;
            if runs < 7 {
                db.put("key", format!("{runs}"))?;
            }
            tx.put("out", format!("{runs}"))?;
            Ok(runs)
        });
        assert_eq!(done.unwrap(), 7);
        assert_eq!(db.get("out").unwrap().unwrap(), "7");
    });
}

#[test]
fn an_error_of_the_closure_is_returned_at_once() {
    #[derive(Debug)]
    enum Refusal {
        Mine(u32),
        Store(Error),
    }
    impl From<Error> for Refusal {
        fn from(error: Error) -> Refusal {
            Refusal::Store(error)
        }
    }
    let db = store();
    let mut runs = 0;
    let mine = db.transact(|tx| -> std::result::Result<(), Refusal> {
        runs += 1;
        tx.put("out", "")?;
        // Also where there would be a conflict.
        tx.get("key")?;
        db.put("key", "")?;
        Err(Refusal::Mine(runs))
    });
    assert!(matches!(mine, Err(Refusal::Mine(1))), "{mine:?}");
    let long = vec![0; MAX_KEY_BYTES + 1];
    let store = db.transact(|tx| -> std::result::Result<(), Refusal> { Ok(tx.put(&long, "")?) });
    let is_invalid = matches!(&store, Err(Refusal::Store(Error::Invalid(_))));
    assert!(is_invalid, "{store:?}");
    assert_eq!((db.get("out").unwrap(), runs), (None, 1));
    // A conflict that the closure hands on is its own error.
    runs = 0;
    let handed_on: Result<()> = db.transact(|_| {
        runs += 1;
        Err(Error::Conflict(conflict_at(b"")))
    });
    assert!(is_conflict(&handed_on) && runs == 1);
}

#[test]
fn a_panic_in_a_closure_leaves_nothing() {
    let db = store();
    let work = std::panic::AssertUnwindSafe(|| {
        db.transact(|tx| -> Result<()> {
            tx.put("out", "")?;
            panic!("as wanted")
        })
    });
    assert!(std::panic::catch_unwind(work).is_err());
    assert_eq!(db.get("out").unwrap(), None);
    assert_eq!(db.stats().snapshots.transactions, 0);
    db.put("out", "").unwrap();
}

#[test]
fn what_is_beyond_the_limits_is_refused_and_the_transaction_goes_on() {
    let db = store();
    let mut tx = db.transaction();
    let long = vec![0; MAX_KEY_BYTES + 1];
    assert!(matches!(tx.put(&long, ""), Err(Error::Invalid(_))));
    assert!(matches!(tx.delete(&long), Err(Error::Invalid(_))));
    // Nothing can be there, and nobody can write it.
    assert_eq!(tx.get(&long).unwrap(), None);
    tx.put(&long[1..], "value").unwrap();
    tx.commit().unwrap();
    assert_eq!(db.get(&long[1..]).unwrap().unwrap(), "value");
}

#[test]
fn a_transaction_that_writes_nothing_succeeds_wherever_it_can_be_read() {
    let db = store();
    db.put("a", "1").unwrap();
    let sequence = db.stats().sequence;
    db.transaction().commit().unwrap();
    let tx = db.transaction();
    assert_eq!(tx.iter().count(), 1);
    db.put("a", "2").unwrap();
    let syncs = db.stats().syncs;
    tx.commit_with(Durability::Sync).unwrap();
    assert_eq!(db.stats().sequence, sequence + 1);
    assert_eq!(db.stats().syncs, syncs);
}

#[test]
fn a_closed_store_takes_no_transaction() {
    let db = store();
    db.put("a", "1").unwrap();
    let (reading, mut writing) = (db.transaction(), db.transaction());
    writing.put("b", "2").unwrap();
    let other = db.clone();
    db.close().unwrap();
    // As a snapshot, it can still be read.
    assert_eq!(writing.get("a").unwrap().unwrap(), "1");
    assert_eq!(writing.iter().count(), 2);
    reading.commit().unwrap();
    assert!(matches!(writing.commit(), Err(Error::Closed)));
    let mut late = other.transaction();
    assert!(matches!(late.get("a"), Err(Error::Closed)));
    assert!(matches!(late.get_many(["a"]), Err(Error::Closed)));
    late.put("b", "2").unwrap();
    assert!(matches!(late.get("b"), Err(Error::Closed)));
    let first = late.iter().next();
    assert!(matches!(first, Some(Err(Error::Closed))), "{first:?}");
    assert!(matches!(late.commit(), Err(Error::Closed)));
    let transact = other.transact(|tx| tx.put("b", "2"));
    assert!(matches!(transact, Err(Error::Closed)));
    let update = other.update("a", |_| Some("2"));
    assert!(matches!(update, Err(Error::Closed)));
}

#[test]
fn a_store_that_is_only_read_refuses_writes_of_transactions() {
    let memory = Memory::new();
    open(&memory).put("a", "1").unwrap();
    let builder = Db::builder("calls").storage(Arc::new(memory));
    let db = builder.access(Access::ReadOnly).open().unwrap();
    let mut tx = db.transaction();
    assert_eq!(tx.get("a").unwrap().unwrap(), "1");
    tx.put("a", "2").unwrap();
    assert!(matches!(tx.commit(), Err(Error::ReadOnly)));
    db.transact(|tx| tx.get("a")).unwrap();
    assert_eq!(db.put_if_absent("a", "2").unwrap().unwrap(), "1");
    let absent = db.put_if_absent("b", "2");
    assert!(matches!(absent, Err(Error::ReadOnly)), "{absent:?}");
}

/// The outcome is unknown: it is there as a whole, or not at all.
#[test]
fn a_commit_that_the_disk_refuses_is_whole_or_not_there() {
    for calls in 0..12 {
        let memory = Memory::new();
        let db = open(&memory);
        db.put("a", "1").unwrap();
        let mut tx = db.transaction();
        tx.put("a", "2").unwrap();
        tx.put("b", "2").unwrap();
        memory.fail_after(calls, std::io::ErrorKind::Other);
        let committed = tx.commit_with(Durability::Sync);
        if let Err(error) = &committed {
            assert!(matches!(error, Error::Poisoned { .. }), "{error}");
            let refused = db.transact(|tx| tx.put("c", ""));
            assert!(
                matches!(refused, Err(Error::Poisoned { .. })),
                "{refused:?}"
            );
        }
        memory.heal();
        drop(db);
        let db = open(&memory);
        let all = [
            db.get("a").unwrap().unwrap(),
            db.get("b").unwrap().unwrap_or_default(),
        ];
        let is_done = all == ["2", "2"];
        assert!(is_done || all == ["1", ""], "{all:?}");
        assert!(is_done || committed.is_err());
    }
}

#[test]
fn an_iterator_that_is_forgotten_has_read_all() {
    let db = store();
    for key in ["a", "b", "c"] {
        db.put(key, "").unwrap();
    }
    let commit = |is_forgotten: bool, steps: usize| {
        let mut tx = db.transaction();
        let mut walk = tx.iter();
        walk.by_ref()
            .take(steps)
            .for_each(|entry| drop(entry.unwrap()));
        match is_forgotten {
            true => std::mem::forget(walk),
            false => drop(walk),
        }
        tx.put("out", "").unwrap();
        db.put("c", "").unwrap();
        is_conflict(&tx.commit())
    };
    assert!(!commit(false, 2));
    assert!(commit(true, 2));
    assert!(commit(false, 3));
    // Nothing was read.
    assert!(!commit(true, 0));
}

#[test]
fn a_range_grows_from_both_ends() {
    let db = store();
    for number in 0..10 {
        db.put(format!("{number}"), "").unwrap();
    }
    let commit = |front: usize, back: usize, changed: &str| {
        let mut tx = db.transaction();
        let mut walk = tx.range("0".."9");
        walk.by_ref()
            .take(front)
            .for_each(|entry| drop(entry.unwrap()));
        walk.by_ref()
            .rev()
            .take(back)
            .for_each(|entry| drop(entry.unwrap()));
        drop(walk);
        tx.put("out", "").unwrap();
        db.put(changed, "").unwrap();
        is_conflict(&tx.commit())
    };
    for (front, back, changed, wanted) in [
        (3, 0, "2", true),
        (3, 0, "25", false),
        (3, 0, "3", false),
        (0, 3, "6", true),
        (0, 3, "55", false),
        (0, 3, "85", true),
        (2, 2, "1", true),
        (2, 2, "15", false),
        (2, 2, "65", false),
        (2, 2, "7", true),
        (2, 2, "9", false),
        (5, 4, "45", false),
        (5, 5, "45", true),
        (10, 0, "85", true),
    ] {
        assert_eq!(
            commit(front, back, changed),
            wanted,
            "{front} {back} {changed}"
        );
        db.delete(changed).unwrap();
        if changed.len() == 1 {
            db.put(changed, "").unwrap();
        }
    }
}

#[test]
fn updates_of_many_threads_lose_nothing() {
    within(LIMIT, "counting", || {
        let db = store();
        let number = |bytes: &[u8]| u32::from_le_bytes(bytes.try_into().unwrap());
        let runs = AtomicU32::new(0);
        std::thread::scope(|scope| {
            for _ in 0..4 {
                scope.spawn(|| {
                    for _ in 0..250 {
                        let new = db.update("count", |old| {
                            runs.fetch_add(1, Ordering::Relaxed);
                            Some((old.map_or(0, number) + 1).to_le_bytes())
                        });
                        assert!(new.unwrap().is_some());
                    }
                });
            }
        });
        assert_eq!(number(&db.get("count").unwrap().unwrap()), 1000);
        assert!(runs.load(Ordering::Relaxed) >= 1000);
        let sequence = db.stats().sequence;
        assert_eq!(db.update("count", |_| None::<&str>).unwrap(), None);
        assert_eq!(db.get("count").unwrap(), None);
        // Nothing is to be deleted any more.
        assert_eq!(db.update("count", |_| None::<&str>).unwrap(), None);
        assert_eq!(db.stats().sequence, sequence + 1);
    });
}

#[test]
fn of_many_who_put_if_absent_or_swap_one_is_first() {
    within(LIMIT, "the first", || {
        let db = store();
        let put = |round: u32, thread: u32| {
            let found = db.put_if_absent(format!("put {round}"), thread.to_le_bytes());
            found.unwrap().is_none()
        };
        let swap = |round: u32, thread: u32| {
            let key = format!("swap {round}");
            db.compare_and_swap(key, None, Some(&thread.to_le_bytes()))
                .unwrap()
        };
        let winners = |attempt: &(dyn Fn(u32, u32) -> bool + Sync)| -> Vec<(u32, u32)> {
            std::thread::scope(|scope| {
                let thread = |thread: u32| {
                    scope.spawn(move || {
                        let rounds = (0..50).filter(|round| attempt(*round, thread));
                        rounds.map(|round| (round, thread)).collect::<Vec<_>>()
                    })
                };
                let threads: Vec<_> = (0..4).map(thread).collect();
                threads
                    .into_iter()
                    .flat_map(|thread| thread.join().unwrap())
                    .collect()
            })
        };
        for (name, winners) in [("put", winners(&put)), ("swap", winners(&swap))] {
            let rounds: BTreeSet<u32> = winners.iter().map(|(round, _)| *round).collect();
            assert_eq!((winners.len(), rounds.len()), (50, 50), "{name}");
            for (round, thread) in winners {
                let value = db.get(format!("{name} {round}")).unwrap().unwrap();
                assert_eq!(value, thread.to_le_bytes());
            }
        }
    });
}

#[test]
fn what_is_not_as_expected_is_not_swapped() {
    let db = store();
    let swap = |expected, new| db.compare_and_swap("key", expected, new).unwrap();
    let sequence = || db.stats().sequence;
    let before = sequence();
    assert!(!swap(Some(b"1"), Some(b"2")));
    assert!(!swap(Some(b"1"), None));
    assert!(swap(None, None));
    assert_eq!(sequence(), before);
    assert!(swap(None, Some(b"")));
    // An empty value is a value.
    assert!(!swap(None, Some(b"1")));
    assert!(swap(Some(b""), None));
    assert_eq!((db.get("key").unwrap(), sequence()), (None, before + 2));
}

#[test]
fn transactions_are_counted_while_they_live() {
    let db = store();
    db.put("a", "1").unwrap();
    let tx = db.transaction();
    let snapshot = db.snapshot();
    db.put("a", "2").unwrap();
    let held = db.stats().snapshots;
    assert_eq!((held.snapshots, held.transactions), (1, 1));
    assert_eq!(held.oldest_sequence, Some(1));
    assert!(held.oldest_age.is_some());
    let text = db.stats().to_string();
    assert!(
        text.contains("readers  1 snapshots, 1 transactions; the oldest for "),
        "{text}"
    );
    assert!(text.contains(" and 1 writes\n"), "{text}");
    tx.commit().unwrap();
    drop(snapshot);
    let held = db.stats().snapshots;
    assert_eq!(
        (held.snapshots, held.transactions, held.oldest_age),
        (0, 0, None)
    );
    assert!(
        db.stats()
            .to_string()
            .contains("readers  0 snapshots, 0 transactions\n")
    );
}

#[test]
fn a_transaction_may_go_to_another_thread() {
    let db = store();
    let mut tx = db.transaction();
    tx.put("a", "1").unwrap();
    std::thread::spawn(move || tx.commit())
        .join()
        .unwrap()
        .unwrap();
    assert_eq!(db.get("a").unwrap().unwrap(), "1");
}

fn conflict_at(key: &[u8]) -> Conflict {
    Conflict::Key {
        keyspace: "default".into(),
        key: key.to_vec(),
    }
}
