//! Transactions of several threads at once, beside flushes and merges, and what a checker says.
//!
//! Each appends to lists, with or without a look at them, reads some, deletes some and walks over others. `CRIBA_HISTORY_SECONDS=300
//! cargo test --test it -- transactions::` takes longer.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use criba::operator::Append;
use criba::sim::Memory;
use criba::{Db, Error, Isolation, Slice, Strategy, Transaction};

use super::history::{Anomaly, ELEMENTS_MAX, Element, Lists, Operation, Record, Version, check};

const THREADS: u32 = 4;

/// Transactions of each thread.
const STEPS: u32 = 400;

/// Lists that there are at a time, and how many transactions begin before they are other ones.
const LISTS: u32 = 6;
const ERA: u32 = 60;

const FIFO: Strategy = Strategy::Fifo {
    bytes: 128 << 10,
    age: None,
};

fn open(strategy: Strategy) -> Db {
    let builder = match strategy {
        // What a FIFO drops may be what operands are added to: it takes none.
        Strategy::Fifo { .. } => Db::builder("histories"),
        _ => Db::builder("histories").operator(Append::new()),
    };
    builder
        .storage(Arc::new(Memory::new()))
        .strategy(strategy)
        .memtable_bytes(64 << 10)
        .segment_bytes(64 << 10)
        .block_bytes(512)
        .level0_runs(2)
        .level_base_bytes(128 << 10)
        .open()
        .unwrap()
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

/// What commits a transaction.
type Commit = fn(&Db, Transaction, &[Write]) -> criba::Result<()>;

/// What a key gets.
enum Write {
    Put(String, Vec<u8>),
    Delete(String),
    Merge(String, Vec<u8>),
}

fn commit(_: &Db, tx: Transaction, _: &[Write]) -> criba::Result<()> {
    tx.commit()
}

/// A bug: what was read is not checked.
fn commit_unchecked(db: &Db, tx: Transaction, writes: &[Write]) -> criba::Result<()> {
    drop(tx);
    let mut batch = db.batch();
    for write in writes {
        match write {
            Write::Put(key, value) => batch.put(key, value),
            Write::Delete(key) => batch.delete(key),
            Write::Merge(key, operand) => batch.merge(key, operand),
        };
    }
    batch.commit()
}

/// Half of the lists are never deleted: they have no generation, and an operand makes one.
fn is_lasting(key: &str) -> bool {
    key.ends_with(['3', '4', '5'])
}

fn encode(key: &str, version: &Version) -> Vec<u8> {
    let generation = (!is_lasting(key)).then_some(&version.generation);
    let numbers = generation.into_iter().chain(&version.elements);
    numbers.flat_map(|number| number.to_le_bytes()).collect()
}

fn decode(key: &str, bytes: &[u8]) -> Version {
    let number = |bytes: &[u8]| u32::from_le_bytes(bytes.try_into().unwrap());
    let mut numbers = bytes.chunks(4).map(number);
    let generation = match is_lasting(key) {
        true => 0,
        false => numbers.next().unwrap(),
    };
    Version {
        generation,
        elements: numbers.collect(),
    }
}

/// One transaction while it runs.
struct Running {
    tx: Transaction,
    number: u32,
    elements: u32,
    operations: Vec<Operation>,
    writes: Vec<Write>,
    touched: BTreeSet<String>,
}

impl Running {
    fn set(&mut self, key: String, value: Option<Vec<u8>>) {
        self.writes.push(match value {
            Some(value) => {
                self.tx.put(&key, &value).unwrap();
                Write::Put(key, value)
            }
            None => {
                self.tx.delete(&key).unwrap();
                Write::Delete(key)
            }
        });
    }

    fn element(&mut self) -> Element {
        self.elements += 1;
        self.number * ELEMENTS_MAX + self.elements - 1
    }

    /// Appends to a list that it may not have seen.
    fn append_unseen(&mut self, key: &str) {
        let element = self.element();
        let operand = element.to_le_bytes().to_vec();
        self.tx.merge(key, &operand).unwrap();
        self.writes.push(Write::Merge(key.to_owned(), operand));
        let append = Operation::Append(key.to_owned(), element);
        self.operations.push(append);
    }

    /// What others have written of a list to which it may have appended.
    fn of_others(&self, mut version: Version) -> Version {
        let number = self.number;
        version
            .elements
            .retain(|element| element / ELEMENTS_MAX != number);
        version
    }

    /// Reads a list, and says so unless it is its own.
    fn read(&mut self, key: &str) -> Version {
        let version = match self.tx.get(key).unwrap() {
            Some(bytes) => decode(key, &bytes),
            None if is_lasting(key) => Version::default(),
            // Only where there is none is its generation read: else a delete is seen by the list.
            None => Version {
                generation: generation(self.tx.get(format!("generation/{key}")).unwrap()),
                elements: Vec::new(),
            },
        };
        if !self.touched.contains(key) {
            let seen = self.of_others(version.clone());
            let read = Operation::Read(key.to_owned(), seen);
            self.operations.push(read);
        }
        version
    }

    fn append(&mut self, key: &str) {
        let element = self.element();
        let version = self.read(key).with(element);
        self.set(key.to_owned(), Some(encode(key, &version)));
        self.wrote(key, version);
    }

    fn delete(&mut self, key: &str) {
        let version = self.read(key);
        if version.elements.is_empty() {
            return;
        }
        let deleted = version.deleted();
        let generation = deleted.generation.to_le_bytes().to_vec();
        self.set(format!("generation/{key}"), Some(generation));
        self.set(key.to_owned(), None);
        self.wrote(key, deleted);
    }

    fn wrote(&mut self, key: &str, version: Version) {
        self.touched.insert(key.to_owned());
        let write = Operation::Write(key.to_owned(), version);
        self.operations.push(write);
    }

    /// Walks over lists from one end, as far as `most` of them.
    fn walk(&mut self, keys: &[String], is_back: bool, most: usize) {
        let walk = self.tx.range(&keys[0]..=&keys[keys.len() - 1]);
        let seen: Vec<(Slice, Slice)> = match is_back {
            true => walk.rev().take(most).map(Result::unwrap).collect(),
            false => walk.take(most).map(Result::unwrap).collect(),
        };
        // Of what lies behind the last nothing was seen.
        let last = seen.last().filter(|_| seen.len() == most);
        let is_beyond = |key: &String| {
            last.is_some_and(|(last, _)| match is_back {
                true => key.as_bytes() < &**last,
                false => key.as_bytes() > &**last,
            })
        };
        for key in keys.iter().filter(|key| !is_beyond(key)) {
            if self.touched.contains(key) {
                continue;
            }
            let found = seen.iter().find(|(found, _)| **found == *key.as_bytes());
            self.operations.push(match found {
                Some((_, bytes)) => {
                    Operation::Read(key.clone(), self.of_others(decode(key, bytes)))
                }
                None => Operation::Missing(key.clone()),
            });
        }
    }
}

fn generation(bytes: Option<Slice>) -> u32 {
    bytes.map_or(0, |bytes| {
        u32::from_le_bytes(bytes.as_ref().try_into().unwrap())
    })
}

struct Workload {
    db: Db,
    isolation: Isolation,
    lists: Lists,
    /// Whether operands are written. Under snapshot isolation they conflict with nothing, so what
    /// was read beside them may be older.
    has_operands: bool,
    commit: Commit,
    next: AtomicU32,
    clock: AtomicU64,
}

impl Workload {
    /// One transaction of a few operations.
    fn step(&self, random: &mut Random) -> (u32, Record) {
        let number = self.next.fetch_add(1, Ordering::Relaxed);
        let begun = self.clock.fetch_add(1, Ordering::SeqCst);
        let mut running = self.begin(number);
        let era = number / ERA;
        let keys: Vec<String> = (0..LISTS).map(|n| format!("list/{era:04}/{n}")).collect();
        for _ in 0..=random.below(4) {
            let key = &keys[random.below(keys.len() as u64) as usize];
            match random.below(12) {
                0..=2 if self.has_operands && is_lasting(key) => running.append_unseen(key),
                0..=4 => running.append(key),
                // Half of them are never deleted: there a walk that finds nothing knows what that is.
                5 | 6 if !is_lasting(key) && self.lists == Lists::Stay => {
                    running.delete(key);
                }
                7 | 8 => {
                    let from = random.below(keys.len() as u64 - 1) as usize;
                    let most = 1 + random.below(4) as usize;
                    running.walk(&keys[from..], random.below(2) == 0, most);
                }
                _ => drop(running.read(key)),
            }
            if random.below(3) == 0 {
                std::thread::yield_now();
            }
        }
        if number % 100 == 99 {
            self.db.compact_all().unwrap().wait().unwrap();
        }
        // So that memtables fill.
        let noise = (0..600).map(|_| random.below(256) as u8).collect();
        running.set(format!("noise/{number}"), Some(noise));
        let is_dropped = random.below(20) == 0;
        let Running {
            tx,
            operations,
            writes,
            ..
        } = running;
        let is_committed = !is_dropped
            && match (self.commit)(&self.db, tx, &writes) {
                Ok(()) => true,
                Err(Error::Conflict(_)) => false,
                Err(error) => panic!("{error}"),
            };
        let record = Record {
            is_committed,
            span: Some((begun, self.clock.fetch_add(1, Ordering::SeqCst))),
            operations,
        };
        (number, record)
    }

    fn run(&self, seed: u64) -> Vec<Record> {
        let mut history = vec![Record::default(); (THREADS * STEPS) as usize];
        let records = std::thread::scope(|scope| {
            let thread = |thread: u32| {
                let mut random = Random(seed * 1000 + u64::from(thread) + 1);
                scope.spawn(move || {
                    let step = |_| self.step(&mut random);
                    (0..STEPS).map(step).collect::<Vec<_>>()
                })
            };
            let threads: Vec<_> = (0..THREADS).map(thread).collect();
            let join = |thread: std::thread::ScopedJoinHandle<'_, _>| thread.join().unwrap();
            threads.into_iter().flat_map(join).collect::<Vec<_>>()
        });
        for (number, record) in records {
            history[number as usize] = record;
        }
        history.push(self.look_at_all(&history));
        history
    }

    /// A last look at every list.
    fn look_at_all(&self, history: &[Record]) -> Record {
        let mut running = self.begin(history.len() as u32);
        let operations = history.iter().flat_map(|record| &record.operations);
        let lasting = operations.filter_map(|operation| match operation {
            Operation::Append(key, _) => Some(key),
            _ => None,
        });
        for key in lasting.collect::<BTreeSet<_>>() {
            running.read(key);
        }
        Record {
            is_committed: true,
            span: None,
            operations: running.operations,
        }
    }

    fn begin(&self, number: u32) -> Running {
        Running {
            tx: self.db.transaction_with(self.isolation),
            number,
            elements: 0,
            operations: Vec::new(),
            writes: Vec::new(),
            touched: BTreeSet::new(),
        }
    }
}

fn run(strategy: Strategy, isolation: Isolation, commit: Commit, seed: u64) -> Vec<Anomaly> {
    let lists = match strategy {
        Strategy::Fifo { .. } => Lists::Vanish,
        _ => Lists::Stay,
    };
    let workload = Workload {
        db: open(strategy),
        isolation,
        lists,
        has_operands: lists == Lists::Stay && isolation == Isolation::Serializable,
        commit,
        next: AtomicU32::new(0),
        clock: AtomicU64::new(0),
    };
    let history = workload.run(seed);
    let stats = workload.db.stats();
    assert!(stats.memtable.flushes > 2, "{}", stats.memtable.flushes);
    let work = stats.compactions.merges + stats.compactions.moves + stats.compactions.dropped;
    assert!(work > 0, "{strategy:?}: nothing was merged or dropped");
    let committed = history.iter().filter(|record| record.is_committed).count();
    assert!(committed * 4 > history.len(), "{committed} were committed");
    let mut found = check(&history, lists);
    found.sort();
    found.into_iter().map(|(anomaly, _)| anomaly).collect()
}

#[test]
fn histories_have_no_anomaly_that_their_level_forbids() {
    let asked = std::env::var("CRIBA_HISTORY_SECONDS").ok();
    let seconds = asked.map_or(0, |asked| asked.parse().unwrap());
    let (started, end) = (Instant::now(), Duration::from_secs(seconds));
    for seed in 1.. {
        for strategy in [Strategy::Leveled, Strategy::Tiered, FIFO] {
            for isolation in [Isolation::Serializable, Isolation::Snapshot] {
                let mut found = run(strategy, isolation, commit, seed);
                if isolation == Isolation::Snapshot {
                    let may_be = [Anomaly::G2, Anomaly::G2InTime];
                    found.retain(|anomaly| !may_be.contains(anomaly));
                }
                assert_eq!(found, [], "seed {seed}, {strategy:?}, {isolation:?}");
            }
        }
        if started.elapsed() >= end {
            break;
        }
    }
}

/// Without the check there are anomalies, and they are found: also in this workload, not only in the
/// histories that were made up.
#[test]
fn a_commit_that_checks_nothing_is_found() {
    for strategy in [Strategy::Leveled, FIFO] {
        let found = run(strategy, Isolation::Serializable, commit_unchecked, 1);
        assert!(
            found.contains(&Anomaly::LostUpdate),
            "{strategy:?}: {found:?}"
        );
    }
}

/// Two transactions of which each reads what the other writes, and overwrites nothing of it.
fn write_skew(isolation: Isolation) -> Vec<Record> {
    let db = open(Strategy::Leveled);
    let begin = |number| Running {
        tx: db.transaction_with(isolation),
        number,
        elements: 0,
        operations: Vec::new(),
        writes: Vec::new(),
        touched: BTreeSet::new(),
    };
    let (mut one, mut other) = (begin(0), begin(1));
    one.read("x");
    other.read("y");
    one.append("y");
    other.append("x");
    let end = |running: Running| Record {
        is_committed: running.tx.commit().is_ok(),
        span: None,
        operations: running.operations,
    };
    vec![end(one), end(other)]
}

#[test]
fn write_skew_is_there_under_snapshot_isolation_and_only_there() {
    let found = |isolation| -> Vec<Anomaly> {
        let found = check(&write_skew(isolation), Lists::Stay);
        found.into_iter().map(|(anomaly, _)| anomaly).collect()
    };
    assert_eq!(found(Isolation::Snapshot), [Anomaly::G2]);
    assert_eq!(found(Isolation::Serializable), []);
    let committed = write_skew(Isolation::Serializable);
    let committed = committed.iter().map(|record| record.is_committed);
    assert_eq!(committed.collect::<Vec<_>>(), [true, false]);
}
