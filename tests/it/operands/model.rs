//! Random operations with operands against a sorted map.

use std::collections::BTreeMap;
use std::sync::Arc;

use criba::operator::MergeOperator as _;
use criba::sim::{Memory, Survivors};
use criba::{BloomierBits, Db, Error, FilterPolicy, Snapshot};
use proptest::prelude::*;

use super::{Moody, append};

type Model = BTreeMap<Vec<u8>, Vec<u8>>;

#[derive(Clone, Debug)]
enum Write {
    Put(u8, Vec<u8>),
    Delete(u8),
    Merge(u8, Vec<u8>),
}

#[derive(Clone, Debug)]
enum Operation {
    Write(Write),
    /// So many operands of a key, one after the other.
    Many(u8, u8),
    Batch(Vec<Write>),
    Take(u8),
    Get(u8),
    /// So many entries from the front, and so many from the back, in turn.
    Scan(u8, usize, usize),
    Flush,
    Compact,
    /// Flushed and compacted by an operator that fails: all stays as it is.
    FlushWithout,
    Reopen,
    Kill,
    Snapshot,
    DropSnapshot,
}

fn write() -> impl Strategy<Value = Write> {
    let value = || {
        prop_oneof![
            8 => prop::collection::vec(any::<u8>(), 0..6),
            1 => (any::<u8>(), 0..900_usize).prop_map(|(byte, len)| vec![byte; len]),
        ]
    };
    prop_oneof![
        2 => (0..12_u8, value()).prop_map(|(key, value)| Write::Put(key, value)),
        1 => (0..12_u8).prop_map(Write::Delete),
        6 => (0..12_u8, value()).prop_map(|(key, value)| Write::Merge(key, value)),
    ]
}

fn operation() -> impl Strategy<Value = Operation> {
    prop_oneof![
        16 => write().prop_map(Operation::Write),
        2 => (0..12_u8, 0..90_u8).prop_map(|(key, count)| Operation::Many(key, count)),
        3 => prop::collection::vec(write(), 0..12).prop_map(Operation::Batch),
        1 => (0..12_u8).prop_map(Operation::Take),
        4 => (0..12_u8).prop_map(Operation::Get),
        3 => (0..12_u8, 0..8_usize, 0..8_usize)
            .prop_map(|(from, front, back)| Operation::Scan(from, front, back)),
        4 => Just(Operation::Flush),
        2 => Just(Operation::Compact),
        1 => Just(Operation::FlushWithout),
        1 => Just(Operation::Reopen),
        1 => Just(Operation::Kill),
        3 => Just(Operation::Snapshot),
        2 => Just(Operation::DropSnapshot),
    ]
}

#[derive(Clone, Debug)]
struct Settings {
    strategy: criba::Strategy,
    filter: FilterPolicy,
    cache_bytes: u64,
    entries_per_group: u32,
}

fn settings() -> impl Strategy<Value = Settings> {
    (
        prop::sample::select(vec![
            criba::Strategy::Leveled,
            criba::Strategy::Tiered,
            criba::Strategy::LazyLeveled,
        ]),
        prop::sample::select(vec![
            FilterPolicy::None,
            FilterPolicy::Bloom { bits_per_key: 8.0 },
            FilterPolicy::Bloomier(BloomierBits::Block),
            FilterPolicy::Bloomier(BloomierBits::Slot),
        ]),
        prop::sample::select(vec![0_u64, 20_000, 1 << 20]),
        prop::sample::select(vec![1_u32, 4]),
    )
        .prop_map(
            |(strategy, filter, cache_bytes, entries_per_group)| Settings {
                strategy,
                filter,
                cache_bytes,
                entries_per_group,
            },
        )
}

fn key(n: u8) -> Vec<u8> {
    format!("key {n:02}").into_bytes()
}

struct World {
    memory: Memory,
    settings: Settings,
    moody: Moody,
    db: Db,
    model: Model,
    snapshots: Vec<(Snapshot, Model)>,
}

fn open(memory: &Memory, settings: &Settings, moody: Option<&Moody>) -> Db {
    let builder = Db::builder("operands")
        .storage(Arc::new(memory.clone()))
        .strategy(settings.strategy)
        .filter(settings.filter)
        .cache_bytes(settings.cache_bytes)
        .entries_per_group(settings.entries_per_group)
        .block_bytes(512)
        .memtable_bytes(64 << 10)
        .segment_bytes(64 << 10)
        .level_base_bytes(64 << 10)
        .level0_runs(2)
        .level_ratio(2);
    let builder = match moody {
        Some(moody) => builder.operator(moody.clone()),
        None => builder,
    };
    builder.open().unwrap()
}

fn apply(model: &mut Model, write: &Write) {
    match write {
        Write::Put(n, value) => drop(model.insert(key(*n), value.clone())),
        Write::Delete(n) => drop(model.remove(&key(*n))),
        Write::Merge(n, operand) => {
            let base = model.get(&key(*n)).map(Vec::as_slice);
            let merged = append().merge(b"", base, &[operand]).unwrap();
            model.insert(key(*n), merged);
        }
    }
}

fn entries(iter: criba::Iter) -> Vec<(Vec<u8>, Vec<u8>)> {
    iter.map(|entry| entry.unwrap())
        .map(|(key, value)| (key.to_vec(), value.to_vec()))
        .collect()
}

impl World {
    fn write(&mut self, write: &Write) {
        match write {
            Write::Put(n, value) => self.db.put(key(*n), value).unwrap(),
            Write::Delete(n) => self.db.delete(key(*n)).unwrap(),
            Write::Merge(n, operand) => self.db.merge(key(*n), operand).unwrap(),
        }
        apply(&mut self.model, write);
    }

    fn apply(&mut self, operation: Operation) {
        match operation {
            Operation::Write(write) => self.write(&write),
            Operation::Many(n, count) => {
                for operand in 0..count {
                    self.write(&Write::Merge(n, vec![operand]));
                }
            }
            Operation::Batch(writes) => {
                let mut batch = self.db.batch();
                for write in &writes {
                    match write {
                        Write::Put(n, value) => batch.put(key(*n), value),
                        Write::Delete(n) => batch.delete(key(*n)),
                        Write::Merge(n, operand) => batch.merge(key(*n), operand),
                    };
                    apply(&mut self.model, write);
                }
                batch.commit().unwrap();
            }
            Operation::Take(n) => {
                let taken = self.db.take(key(n)).unwrap();
                assert_eq!(
                    taken.map(|value| value.to_vec()),
                    self.model.remove(&key(n))
                );
            }
            Operation::Get(n) => self.check_key(n),
            Operation::Scan(from, front, back) => self.scan(from, front, back),
            Operation::Flush => self.db.flush().unwrap(),
            Operation::Compact => self.db.compact_all().unwrap().wait().unwrap(),
            Operation::FlushWithout => self.flush_without(),
            Operation::Reopen => self.reopen(false),
            Operation::Kill => self.reopen(true),
            Operation::Snapshot => {
                let held = (self.db.snapshot(), self.model.clone());
                self.snapshots.push(held);
            }
            Operation::DropSnapshot => {
                if !self.snapshots.is_empty() {
                    self.snapshots.swap_remove(0);
                }
            }
        }
    }

    fn check_key(&self, n: u8) {
        let expected = |model: &Model| model.get(&key(n)).cloned();
        let found = |value: Option<criba::Slice>| value.map(|value| value.to_vec());
        assert_eq!(found(self.db.get(key(n)).unwrap()), expected(&self.model));
        assert_eq!(
            found(self.db.explain(key(n)).unwrap().value),
            expected(&self.model)
        );
        for (snapshot, model) in &self.snapshots {
            assert_eq!(found(snapshot.get(key(n)).unwrap()), expected(model));
        }
    }

    fn scan(&self, from: u8, front: usize, back: usize) {
        let mut expected = self.model.range(key(from)..);
        let mut found = self.db.range(key(from)..);
        let owned = |entry: Option<criba::Result<(criba::Slice, criba::Slice)>>| {
            entry
                .map(|entry| entry.unwrap())
                .map(|(key, value)| (key.to_vec(), value.to_vec()))
        };
        let cloned = |entry: Option<(&Vec<u8>, &Vec<u8>)>| {
            entry.map(|(key, value)| (key.clone(), value.clone()))
        };
        for turn in 0..front.max(back) {
            if turn < front {
                assert_eq!(owned(found.next()), cloned(expected.next()));
            }
            if turn < back {
                assert_eq!(owned(found.next_back()), cloned(expected.next_back()));
            }
        }
    }

    /// With a failing operator, and then by a session that has none.
    fn flush_without(&mut self) {
        use std::sync::atomic::Ordering::Relaxed;
        self.moody.fails.store(true, Relaxed);
        self.db.flush().unwrap();
        self.db.compact_all().unwrap().wait().unwrap();
        self.snapshots.clear();
        self.db.clone().close().unwrap();
        let db = open(&self.memory, &self.settings, None);
        for n in 0..12 {
            match db.get(key(n)) {
                Ok(value) => {
                    let expected = self.model.get(&key(n));
                    assert_eq!(value.as_deref(), expected.map(Vec::as_slice));
                }
                Err(error) => assert!(matches!(error, Error::NoOperator { .. }), "{error}"),
            }
        }
        db.flush().unwrap();
        db.compact_all().unwrap().wait().unwrap();
        db.close().unwrap();
        self.moody.fails.store(false, Relaxed);
        self.db = open(&self.memory, &self.settings, Some(&self.moody));
    }

    fn reopen(&mut self, is_killed: bool) {
        self.check();
        self.snapshots.clear();
        if is_killed {
            self.memory = self.memory.crash(Survivors::Everything);
        } else {
            self.db.clone().close().unwrap();
        }
        self.db = open(&self.memory, &self.settings, Some(&self.moody));
    }

    fn check(&self) {
        let all = |model: &Model| Vec::from_iter(model.clone());
        let mut expected = all(&self.model);
        assert_eq!(entries(self.db.iter()), expected);
        for (snapshot, model) in &self.snapshots {
            assert_eq!(entries(snapshot.iter()), all(model));
            let mut backward: Vec<_> = snapshot.iter().rev().map(Result::unwrap).collect();
            backward.reverse();
            let backward = backward.iter().map(|(key, value)| (&**key, &**value));
            assert!(backward.eq(model.iter().map(|(key, value)| (&**key, &**value))));
        }
        expected.reverse();
        let backward: Vec<_> = self.db.iter().rev().map(Result::unwrap).collect();
        let backward = backward
            .iter()
            .map(|(key, value)| (key.to_vec(), value.to_vec()));
        assert_eq!(backward.collect::<Vec<_>>(), expected);
        (0..12).for_each(|n| self.check_key(n));
        assert!(self.db.verify(|_, _| ()).unwrap().findings.is_empty());
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: cases(), ..ProptestConfig::default() })]

    #[test]
    fn operands_behave_as_in_a_sorted_map(
        settings in settings(),
        operations in prop::collection::vec(operation(), 1..150),
    ) {
        let memory = Memory::new();
        let moody = Moody::default();
        let db = open(&memory, &settings, Some(&moody));
        let mut world = World {
            memory,
            settings,
            moody,
            db,
            model: Model::new(),
            snapshots: Vec::new(),
        };
        for operation in operations {
            world.apply(operation);
        }
        world.check();
        world.reopen(false);
        world.check();
    }
}

/// `CRIBA_MODEL_CASES` runs a longer campaign.
fn cases() -> u32 {
    let cases = std::env::var("CRIBA_MODEL_CASES").ok();
    cases.and_then(|cases| cases.parse().ok()).unwrap_or(200)
}
