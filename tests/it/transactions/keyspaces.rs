//! Transactions across keyspaces.

use std::sync::Arc;

use criba::sim::Memory;
use criba::{Conflict, Db, Error, Isolation};

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
