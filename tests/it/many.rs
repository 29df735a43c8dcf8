//! Many keys looked up at once: what `get_many` returns and reads is what as many calls of `get` do.

use std::sync::Arc;

use criba::storage::{Memory, ReadCause};
use criba::{Compaction, Db, Error, FilterPolicy};

/// More than are begun at once.
const RUNS: u32 = 15;
const KEYS: u32 = 600;

fn key(n: u32) -> String {
    format!("key{n:06}")
}

fn value(n: u32, run: u32) -> Vec<u8> {
    [n.to_le_bytes(), run.to_le_bytes()].concat()
}

fn open(policy: FilterPolicy) -> Db {
    Db::builder("many")
        .storage(Arc::new(Memory::new()))
        .compaction(Compaction::Manual)
        .cache_bytes(0)
        .filter(policy)
        .open()
        .unwrap()
}

/// Puts some keys and deletes others, different ones in each run.
fn write(db: &Db, run: u32) {
    let mut batch = db.batch();
    for n in (0..KEYS).filter(|n| n.wrapping_mul(2_654_435_761).rotate_left(run) % 5 == 0) {
        match n % 7 {
            0 => batch.delete(key(n)),
            _ => batch.put(key(n), value(n, run)),
        };
    }
    batch.commit().unwrap();
}

/// As many keys, each second one of which never was, in no order.
fn asked(count: u32) -> Vec<String> {
    let number = |n: u32| n.wrapping_mul(2_654_435_761) % (2 * KEYS);
    (0..count).map(|n| key(number(n))).collect()
}

fn data_reads<T>(db: &Db, work: impl FnOnce() -> T) -> (T, u64) {
    let before = db.stats().reads;
    let done = work();
    let reads = db.stats().reads.since(&before);
    (done, reads.get(ReadCause::Data).calls)
}

fn assert_same(db: &Db) {
    for count in [0, 1, 15, 16, 17, 400] {
        let keys = asked(count);
        let one_by_one = || -> Vec<_> { keys.iter().map(|key| db.get(key).unwrap()).collect() };
        let (expected, reads) = data_reads(db, one_by_one);
        let at_once = || db.get_many(&keys).unwrap();
        assert_eq!(data_reads(db, at_once), (expected, reads), "{count} keys");
    }
}

#[test]
fn many_keys_are_found_as_each_of_them_is() {
    for policy in [
        FilterPolicy::default(),
        FilterPolicy::Bloom { bits_per_key: 8.0 },
        FilterPolicy::None,
    ] {
        let db = open(policy);
        assert_same(&db);
        for run in 0..RUNS {
            write(&db, run);
            if [0, 1, 2, 11, 12, 14].contains(&run) {
                // In a memtable, too.
                assert_same(&db);
            }
            db.flush().unwrap();
        }
        assert_same(&db);
    }
}

#[test]
fn all_are_as_of_one_moment() {
    let db = open(FilterPolicy::default());
    write(&db, 0);
    let keys = asked(100);
    let before = db.get_many(&keys).unwrap();
    let snapshot = db.snapshot();
    for run in 1..4 {
        write(&db, run);
        db.flush().unwrap();
    }
    assert_eq!(snapshot.get_many(&keys).unwrap(), before);
    assert_ne!(db.get_many(&keys).unwrap(), before);
}

#[test]
fn a_closed_store_is_not_asked() {
    let db = open(FilterPolicy::default());
    let other = db.clone();
    db.close().unwrap();
    assert!(matches!(other.get_many(&["a"]), Err(Error::Closed)));
}
