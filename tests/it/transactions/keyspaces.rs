//! Transactions across keyspaces.

use std::sync::Arc;

use criba::operator::Add;
use criba::sim::Memory;
use criba::{Conflict, Db, Error, Isolation, Slice};

fn open() -> Db {
    let storage = Arc::new(Memory::new());
    Db::builder("across").storage(storage).open().unwrap()
}

#[test]
fn a_transaction_sees_and_writes_all_keyspaces_at_one_moment() {
    let db = open();
    let (users, emails) = (
        db.keyspace("users").unwrap(),
        db.keyspace("emails").unwrap(),
    );
    users.put("1", "old").unwrap();
    let mut tx = users.transaction();
    users.put("2", "later").unwrap();
    assert_eq!(tx.get("1").unwrap().unwrap(), "old");
    assert_eq!(tx.get("2").unwrap(), None);
    tx.put("1", "new").unwrap();
    tx.keyspace_mut(&emails).put("1", "mail").unwrap();
    tx.keyspace_mut(&db).put("1", "default").unwrap();
    assert_eq!(tx.keyspace(&users).get("1").unwrap().unwrap(), "new");
    assert_eq!(tx.keyspace(&emails).iter().count(), 1);
    assert_eq!(tx.keyspace(&db).get_many(["1", "2"]).unwrap()[1], None);
    assert!(emails.is_empty().unwrap() && db.is_empty().unwrap());
    let Err(Error::Conflict(Conflict::Key { keyspace, key })) = tx.commit() else {
        panic!("a key that it found absent was written");
    };
    assert_eq!((keyspace.as_str(), &*key), ("users", &b"2"[..]));
    assert!(emails.is_empty().unwrap() && db.is_empty().unwrap());
}

#[test]
fn a_phantom_in_another_keyspace_is_a_conflict_there() {
    let db = open();
    let jobs = db.keyspace("jobs").unwrap();
    for is_flushed in [false, true] {
        let mut tx = db.transaction();
        assert_eq!(tx.keyspace(&jobs).prefix("open/").count(), 0);
        tx.put("idle", "yes").unwrap();
        jobs.put("open/1", "wash").unwrap();
        if is_flushed {
            db.flush().unwrap();
        }
        let Err(Error::Conflict(Conflict::Range { keyspace, .. })) = tx.commit() else {
            panic!("a job came meanwhile");
        };
        assert_eq!(keyspace, "jobs");
        assert!(!db.contains_key("idle").unwrap());
        jobs.delete("open/1").unwrap();
    }
    // The same key in another keyspace is none.
    let mut tx = db.transaction_with(Isolation::Snapshot);
    tx.put("key", "mine").unwrap();
    jobs.put("key", "another").unwrap();
    tx.commit().unwrap();
}

#[test]
fn what_is_not_there_or_of_another_store_is_refused() {
    let db = open();
    let users = db.keyspace("users").unwrap();
    let mut tx = db.transaction();
    tx.put("key", "x").unwrap();
    tx.keyspace_mut(&users).put("1", "x").unwrap();
    assert!(db.drop_keyspace("users").unwrap());
    let read = tx.keyspace(&users).get("2");
    assert!(matches!(read, Err(Error::KeyspaceDropped { .. })));
    let refused = tx.commit();
    assert!(matches!(refused, Err(Error::KeyspaceDropped { .. })));
    assert!(db.is_empty().unwrap(), "no part of it was written");

    let other = open();
    let mut tx = db.transaction();
    let read = tx.keyspace(&other).get("key");
    assert!(matches!(read, Err(Error::Invalid(_))));
    let written = tx.keyspace_mut(&other).put("key", "x");
    assert!(matches!(written, Err(Error::Invalid(_))));
}

#[test]
fn one_key_of_a_keyspace_is_updated_in_one_step() {
    let db = open();
    let counters = db.keyspace("counters").unwrap();
    std::thread::scope(|scope| {
        for _ in 0..4 {
            scope.spawn(|| {
                for _ in 0..200 {
                    let add = |old: Option<&[u8]>| {
                        let old = old.map_or(0, |old| u64::from_le_bytes(old.try_into().unwrap()));
                        Some((old + 1).to_le_bytes())
                    };
                    counters.update("visits", add).unwrap();
                }
            });
        }
    });
    assert_eq!(
        counters.get("visits").unwrap().unwrap(),
        800_u64.to_le_bytes()
    );
    assert!(db.is_empty().unwrap());
}

#[test]
fn merges_do_not_conflict_with_each_other_and_count_all() {
    let db = open();
    let counters = db
        .keyspace_with("counters", |options| options.operator(Add::i64()))
        .unwrap();
    let one = 1_i64.to_le_bytes();
    let number = |value: Option<Slice>| value.map(|value| Add::to_i64(&value).unwrap());
    for isolation in [Isolation::Serializable, Isolation::Snapshot] {
        let before = number(counters.get("n").unwrap()).unwrap_or(0);
        let mut first = counters.transaction_with(isolation);
        let mut second = db.transaction_with(isolation);
        first.merge("n", one).unwrap();
        first.merge("n", one).unwrap();
        second.keyspace_mut(&counters).merge("n", one).unwrap();
        counters.merge("n", one).unwrap();
        first.commit().unwrap();
        second.commit().unwrap();
        assert_eq!(number(counters.get("n").unwrap()), Some(before + 4));
    }
    // One that looks at what it merges to has read it.
    let mut reader = counters.transaction();
    reader.merge("n", one).unwrap();
    assert_eq!(number(reader.get("n").unwrap()), Some(9));
    counters.merge("n", one).unwrap();
    assert!(matches!(reader.commit(), Err(Error::Conflict(_))));
    assert_eq!(number(counters.get("n").unwrap()), Some(9));
}

#[test]
fn a_transaction_sees_what_its_own_merges_come_to() {
    let db = open();
    let counters = db
        .keyspace_with("counters", |options| options.operator(Add::i64()))
        .unwrap();
    let bytes = i64::to_le_bytes;
    counters.put("stored", bytes(10)).unwrap();
    counters.put("gone", bytes(10)).unwrap();
    let mut tx = counters.transaction();
    for key in ["new", "stored", "put", "gone"] {
        if key == "put" {
            tx.put(key, bytes(100)).unwrap();
        }
        if key == "gone" {
            tx.delete(key).unwrap();
        }
        tx.merge(key, bytes(1)).unwrap();
        tx.merge(key, bytes(2)).unwrap();
    }
    let wanted = [("gone", 3), ("new", 3), ("put", 103), ("stored", 13)];
    let check = |entries: Vec<(Slice, Slice)>| {
        let found = entries.iter().map(|(key, value)| {
            let key = std::str::from_utf8(key).unwrap();
            (key, Add::to_i64(value).unwrap())
        });
        assert_eq!(found.collect::<Vec<_>>(), wanted);
    };
    check(tx.iter().map(|entry| entry.unwrap()).collect());
    let mut backwards: Vec<_> = tx.iter().rev().map(|entry| entry.unwrap()).collect();
    backwards.reverse();
    check(backwards);
    let many = tx.get_many(wanted.map(|(key, _)| key)).unwrap();
    for ((_, number), value) in wanted.iter().zip(many) {
        assert_eq!(Add::to_i64(&value.unwrap()), Some(*number));
    }
    tx.commit().unwrap();
    check(counters.iter().map(|entry| entry.unwrap()).collect());
    db.flush().unwrap();
    check(counters.iter().map(|entry| entry.unwrap()).collect());
    let mut tx = db.transaction();
    let refused = tx.merge("n", bytes(1));
    assert!(
        matches!(refused, Err(Error::Invalid(_))),
        "it has no operator"
    );
}
