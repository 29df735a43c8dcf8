//! Conflicts wherever the newer entry is, and whenever it came.

use std::cell::{Cell, RefCell};
use std::ops::Bound;
use std::rc::Rc;
use std::sync::Arc;

use super::{Changes, Writes};
use crate::sim::Memory;
use crate::slice::Slice;
use crate::tree::{ReadSet, Watched};
use crate::{Compaction, Conflict, Db, Error, Isolation, Strategy, Transaction};

type Hook = Rc<dyn Fn()>;

thread_local! {
    static BETWEEN: RefCell<Option<Hook>> = const { RefCell::new(None) };
}

/// Called by every commit of this thread, after the first step and before the writer lock.
pub(super) fn between_the_steps() {
    let hook = BETWEEN.with_borrow(Option::clone);
    if let Some(hook) = hook {
        hook();
    }
}

/// Does something between the steps of each commit within `work`.
fn with_hook<T>(hook: impl Fn() + 'static, work: impl FnOnce() -> T) -> T {
    BETWEEN.set(Some(Rc::new(hook)));
    let done = work();
    BETWEEN.set(None);
    done
}

/// Where an entry is.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Place {
    Active,
    Sealed,
    Flushed,
    Merged,
}

const PLACES: [Place; 4] = [Place::Active, Place::Sealed, Place::Flushed, Place::Merged];

fn open(strategy: Strategy) -> Db {
    Db::builder("transactions")
        .storage(Arc::new(Memory::new()))
        .compaction(Compaction::Manual)
        .strategy(strategy)
        .block_bytes(512)
        .cache_bytes(0)
        .open()
        .unwrap()
}

/// A store with a run of old entries: `key/000` to `key/198`, every second number.
fn filled() -> Db {
    let db = open(Strategy::Leveled);
    for number in (0..200).step_by(2) {
        db.put(format!("key/{number:03}"), "old").unwrap();
    }
    db.flush().unwrap();
    db
}

/// What is in the active memtable comes to another place.
fn come_to(db: &Db, place: Place) {
    match place {
        Place::Active => {}
        Place::Sealed => seal(db),
        Place::Flushed => db.flush().unwrap(),
        Place::Merged => {
            db.flush().unwrap();
            db.compact_all().unwrap().wait().unwrap();
        }
    }
}

/// Seals the active memtable without a word to the thread that would flush it.
fn seal(db: &Db) {
    let store = db.store();
    let mut writing = store.log().turn();
    for (tree, _) in writing.actives().take() {
        tree.seal_memtable();
    }
}

fn reads(db: &Db) -> u64 {
    db.stats().reads.sum().calls
}

/// What a transaction relies on.
type Watch = fn(&mut Transaction);

/// What another one writes.
type Write = fn(&Db);

/// Whether a transaction that relies on one thing has a conflict with the write of another.
const CASES: [(&str, Watch, Write, bool); 15] = [
    ("a key that is overwritten", read_one, overwrite, true),
    ("a key that is deleted", read_one, delete, true),
    ("another key", read_one, add, false),
    ("nothing", write_blindly, overwrite, false),
    ("an absent key that comes", read_absent, add, true),
    (
        "an absent key that is deleted",
        read_absent,
        delete_absent,
        true,
    ),
    ("an absent key beside it", read_absent, overwrite, false),
    ("a range with a new value", read_range, overwrite, true),
    ("a range with a new key", read_range, add, true),
    ("a range with a key less", read_range, delete, true),
    ("a range beside it", read_range_beside, overwrite, false),
    ("an empty range with a new key", read_empty_range, add, true),
    (
        "an empty range beside it",
        read_empty_range,
        overwrite,
        false,
    ),
    ("the same key, blindly", write_one, delete, true),
    ("another key, blindly", write_one, add, false),
];

fn read_one(tx: &mut Transaction) {
    assert_eq!(tx.get("key/100").unwrap().unwrap(), "old");
}

fn read_absent(tx: &mut Transaction) {
    assert_eq!(tx.get("key/101").unwrap(), None);
}

fn read_range(tx: &mut Transaction) {
    assert_eq!(tx.range("key/096".."key/104").count(), 4);
}

fn read_range_beside(tx: &mut Transaction) {
    assert_eq!(tx.range("key/050"..="key/098").count(), 25);
}

fn read_empty_range(tx: &mut Transaction) {
    assert_eq!(tx.range("key/1005".."key/102").count(), 0);
}

fn write_blindly(tx: &mut Transaction) {
    tx.put("key/100", "blind").unwrap();
}

/// Under snapshot isolation.
fn write_one(tx: &mut Transaction) {
    tx.put("key/100", "mine").unwrap();
}

fn overwrite(db: &Db) {
    db.put("key/100", "new").unwrap();
}

fn delete(db: &Db) {
    db.delete("key/100").unwrap();
}

fn add(db: &Db) {
    db.put("key/101", "new").unwrap();
}

fn delete_absent(db: &Db) {
    db.put("key/101", "for a moment").unwrap();
    db.delete("key/101").unwrap();
}

/// Checks one case. Returns how often the steps were made, and how much was read.
fn attempt(case: (&str, Watch, Write, bool), place: Place, is_between: bool) -> (u64, u64) {
    let (name, watch, write, is_conflict) = case;
    let db = filled();
    let isolation = match name.ends_with("blindly") {
        true => Isolation::Snapshot,
        false => Isolation::Serializable,
    };
    let mut tx = db.transaction_with(isolation);
    watch(&mut tx);
    tx.put("out", "done").unwrap();
    if !is_between {
        write(&db);
        come_to(&db, place);
    }
    let (rounds, read_by) = (Rc::new(Cell::new(0)), Rc::new(Cell::new(0)));
    let hook = {
        let (db, rounds, read_by) = (db.clone(), Rc::clone(&rounds), Rc::clone(&read_by));
        move || {
            if is_between && rounds.get() == 0 {
                write(&db);
                come_to(&db, place);
            }
            rounds.set(rounds.get() + 1);
            read_by.set(reads(&db));
        }
    };
    let before = reads(&db);
    let committed = with_hook(hook, || tx.commit());
    let after = reads(&db);
    let what = format!("{name}, {place:?}, between: {is_between}");
    match committed {
        Ok(()) => assert!(!is_conflict, "{what}: it was missed"),
        Err(Error::Conflict(_)) => assert!(is_conflict, "{what}: there is none"),
        Err(error) => panic!("{what}: {error}"),
    }
    let is_done = db.get("out").unwrap().is_some();
    assert_eq!(is_done, !is_conflict, "{what}");
    // Where the check began again, it read once more without the lock.
    let is_again = is_between && is_conflict && matches!(place, Place::Flushed | Place::Merged);
    if rounds.get() > 0 && !is_again {
        assert_eq!(after, read_by.get(), "{what}: reads under the lock");
    }
    (rounds.get(), after - before)
}

#[test]
fn conflicts_are_exact_wherever_the_newer_entry_is() {
    let mut read = 0;
    for case in CASES {
        for place in PLACES {
            read += attempt(case, place, false).1;
        }
    }
    assert!(read > 10, "the first step reads segments: {read}");
}

#[test]
fn what_comes_between_the_steps_is_found_without_a_read_under_the_lock() {
    for case in CASES {
        for place in PLACES {
            let (rounds, _) = attempt(case, place, true);
            let is_flushed = matches!(place, Place::Flushed | Place::Merged);
            let is_watched = case.0 != "nothing";
            // Where it was found in a segment, the commit ended before the lock.
            let again = u64::from(is_flushed && is_watched && !case.3);
            assert_eq!(rounds, 1 + again, "{} {place:?}", case.0);
        }
    }
}

/// However often a memtable is flushed between the steps, the check begins again.
#[test]
fn the_check_is_made_again_after_each_flush() {
    let db = filled();
    let mut tx = db.transaction();
    read_one(&mut tx);
    tx.put("out", "").unwrap();
    let rounds = Rc::new(Cell::new(0));
    let hook = {
        let (db, rounds) = (db.clone(), Rc::clone(&rounds));
        move || {
            rounds.set(rounds.get() + 1);
            if rounds.get() < 5 {
                db.put(format!("other {}", rounds.get()), "").unwrap();
                db.flush().unwrap();
            }
        }
    };
    with_hook(hook, || tx.commit()).unwrap();
    assert_eq!(rounds.get(), 5);
}

/// Would panic at the lock: this thread holds it.
#[test]
fn who_writes_nothing_takes_no_lock() {
    let db = filled();
    let tx = db.transaction();
    assert_eq!(tx.iter().count(), 100);
    overwrite(&db);
    let sequence = db.stats().sequence;
    let writing = db.store().log().turn();
    tx.commit_with(crate::Durability::Sync).unwrap();
    drop(writing);
    assert_eq!(db.stats().sequence, sequence);
}

/// A FIFO drops what nothing has superseded.
#[test]
fn what_a_fifo_has_dropped_may_have_been_a_conflict() {
    let open = || {
        let fifo = Strategy::Fifo {
            bytes: 64 << 10,
            age: None,
        };
        open(fifo)
    };
    let drop_all = |db: &Db| {
        for seed in 1..4 {
            let mut random = Random(seed);
            let noise: Vec<u8> = (0..40_000).map(|_| random.below(256) as u8).collect();
            db.put("filler", noise).unwrap();
            db.flush().unwrap();
        }
        db.compact_all().unwrap().wait().unwrap();
        assert!(db.stats().compactions.dropped > 0);
    };
    let db = open();
    let mut tx = db.transaction();
    assert_eq!(tx.get("key").unwrap(), None);
    tx.put("out", "").unwrap();
    db.put("key", "for a while").unwrap();
    drop_all(&db);
    assert_eq!(db.get("key").unwrap(), None);
    let conflict = Conflict::Key {
        keyspace: "default".into(),
        key: b"key".to_vec(),
    };
    assert!(matches!(tx.commit(), Err(Error::Conflict(found)) if found == conflict));
    // One that began later is not concerned, nor is one that relies on nothing.
    let mut tx = db.transaction();
    assert_eq!(tx.get("key").unwrap(), None);
    tx.put("out", "").unwrap();
    tx.commit().unwrap();
    let mut tx = db.transaction();
    tx.put("out", "").unwrap();
    drop_all(&db);
    tx.commit().unwrap();
}

struct Random(u64);

impl Random {
    fn below(&mut self, n: u64) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0 % n
    }
}

const KEYS: u64 = 12;

fn key_of(number: u64) -> String {
    format!("{number:02}")
}

/// For every key, range and registered transaction: there is a conflict exactly where something was
/// written since, whatever was flushed and merged meanwhile.
#[test]
fn for_each_key_the_newest_entry_above_the_oldest_snapshot_survives() {
    for (seed, strategy) in [
        (1, Strategy::Leveled),
        (2, Strategy::Tiered),
        (3, Strategy::LazyLeveled),
        (4, Strategy::Leveled),
    ] {
        let mut random = Random(seed);
        let db = open(strategy);
        // The sequence of the last write of each key, and transactions that live.
        let mut last = vec![0; KEYS as usize];
        let mut live: Vec<Transaction> = Vec::new();
        let (mut conflicts, mut agreed) = (0, 0);
        for _ in 0..400 {
            let number = random.below(KEYS);
            match random.below(20) {
                0..=6 => db.put(key_of(number), "value").unwrap(),
                7..=11 => db.delete(key_of(number)).unwrap(),
                12 | 13 => live.push(db.transaction()),
                14 if !live.is_empty() => {
                    live.swap_remove(random.below(live.len() as u64) as usize);
                }
                15 | 16 => db.flush().unwrap(),
                17 => db.compact_all().unwrap().wait().unwrap(),
                18 => seal_and_flush_later(&db, &mut random),
                _ => {}
            }
            if db.stats().sequence > last.iter().copied().max().unwrap() {
                last[number as usize] = db.stats().sequence;
            }
            for tx in &live {
                let found = compare(&db, tx, &last, &mut random);
                conflicts += found.iter().filter(|is_conflict| **is_conflict).count();
                agreed += found.len();
            }
        }
        assert!(
            conflicts > 100 && agreed - conflicts > 100,
            "{conflicts} of {agreed}"
        );
        let tombstones = |db: &Db| db.stats().segments().map(|one| one.tombstones).sum::<u64>();
        drop(live);
        db.compact_all().unwrap().wait().unwrap();
        assert_eq!(tombstones(&db), 0, "nobody needs them now");
    }
}

/// Whether a transaction that has read some key, or some range, has a conflict: as it is known from
/// the last write of each key.
fn compare(db: &Db, tx: &Transaction, last: &[u64], random: &mut Random) -> [bool; 2] {
    let none = Writes::new();
    let since = tx.sequence();
    let (one, other) = (random.below(KEYS), random.below(KEYS));
    let (from, to) = (one.min(other), one.max(other));
    let mut of_key = ReadSet::default();
    of_key.add_key(key_of(one).as_bytes());
    let mut of_range = ReadSet::default();
    let bounds = (
        Bound::Included(Slice::from(key_of(from).as_bytes())),
        Bound::Excluded(Slice::from(key_of(to).as_bytes())),
    );
    let walk = of_range.open(bounds.clone());
    of_range.close(walk, [bounds]);
    let is_newer = |last: &u64| *last > since.0;
    let in_range = &last[from as usize..to as usize];
    let is_in_range = in_range.iter().any(is_newer);
    let cases = [
        (of_key, is_newer(&last[one as usize])),
        (of_range, is_in_range),
    ];
    cases.map(|(reads, is_conflict)| {
        let changes = Changes {
            since,
            watched: vec![(&**db.store().tree(), Watched::Reads(&reads))],
            writes: &none,
        };
        let found = db.store().examine(&changes);
        let is_found = matches!(found, Err(Error::Conflict(_)));
        assert_eq!(is_found, is_conflict, "{reads:?} since {since}");
        is_found
    })
}

/// A rotation, so that the flush runs beside what comes next.
fn seal_and_flush_later(db: &Db, random: &mut Random) {
    let store = db.store();
    let mut writing = store.log().turn();
    let reason = match random.below(2) {
        0 => crate::store::rotate::RotateReason::MoreWrites,
        _ => crate::store::rotate::RotateReason::Flush,
    };
    store.rotate(&mut writing, reason).unwrap();
}
