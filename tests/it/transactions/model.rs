//! Random transactions of one thread against sorted maps: what each sees, in both directions, and
//! which of them have a conflict.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Bound;
use std::sync::Arc;

use criba::sim::Memory;
use criba::{Db, Error, Isolation, Slice, Transaction};
use proptest::prelude::*;

type Model = BTreeMap<Vec<u8>, Vec<u8>>;
type Bounds = (Bound<Vec<u8>>, Bound<Vec<u8>>);

/// Transactions that there are at a time.
const OPEN: usize = 3;

#[derive(Clone, Debug)]
enum Operation {
    Put(Vec<u8>, Vec<u8>),
    Delete(Vec<u8>),
    Begin(usize, bool),
    Within(usize, Step),
    Flush,
    Compact,
    Reopen,
}

/// What one transaction does.
#[derive(Clone, Debug)]
enum Step {
    Put(Vec<u8>, Vec<u8>),
    Delete(Vec<u8>),
    Get(Vec<u8>),
    GetMany(Vec<Vec<u8>>),
    /// So many steps from either end.
    Range(Bounds, Vec<bool>),
    /// The same with an iterator that is never dropped.
    Forgotten(Bounds, Vec<bool>),
    Prefix(Vec<u8>),
    Commit,
    Drop,
}

fn key() -> impl Strategy<Value = Vec<u8>> {
    prop_oneof![
        6 => prop::collection::vec(prop::sample::select(&b"ab"[..]), 0..4),
        1 => prop::collection::vec(prop::sample::select(&b"a\x00\xff"[..]), 0..4),
    ]
}

fn value() -> impl Strategy<Value = Vec<u8>> {
    prop::collection::vec(any::<u8>(), 0..8)
}

fn bound() -> impl Strategy<Value = Bound<Vec<u8>>> {
    prop_oneof![
        1 => Just(Bound::Unbounded),
        2 => key().prop_map(Bound::Included),
        2 => key().prop_map(Bound::Excluded),
    ]
}

fn step() -> impl Strategy<Value = Step> {
    let range = || {
        (
            (bound(), bound()),
            prop::collection::vec(any::<bool>(), 0..12),
        )
    };
    prop_oneof![
        4 => (key(), value()).prop_map(|(key, value)| Step::Put(key, value)),
        2 => key().prop_map(Step::Delete),
        3 => key().prop_map(Step::Get),
        1 => prop::collection::vec(key(), 0..5).prop_map(Step::GetMany),
        3 => range().prop_map(|(bounds, turns)| Step::Range(bounds, turns)),
        1 => range().prop_map(|(bounds, turns)| Step::Forgotten(bounds, turns)),
        1 => key().prop_map(Step::Prefix),
        4 => Just(Step::Commit),
        1 => Just(Step::Drop),
    ]
}

fn operation() -> impl Strategy<Value = Operation> {
    prop_oneof![
        4 => (key(), value()).prop_map(|(key, value)| Operation::Put(key, value)),
        2 => key().prop_map(Operation::Delete),
        5 => (0..OPEN, any::<bool>()).prop_map(|(at, level)| Operation::Begin(at, level)),
        20 => (0..OPEN, step()).prop_map(|(at, step)| Operation::Within(at, step)),
        2 => Just(Operation::Flush),
        1 => Just(Operation::Compact),
        1 => Just(Operation::Reopen),
    ]
}

/// A transaction, and all that is known of it.
struct Open {
    tx: Transaction,
    is_serializable: bool,
    /// What it sees: the store as it was, and its own writes.
    seen: Model,
    writes: BTreeMap<Vec<u8>, Option<Vec<u8>>>,
    read_keys: BTreeSet<Vec<u8>>,
    read_ranges: Vec<Bounds>,
    /// Keys that others have written since.
    changed: BTreeSet<Vec<u8>>,
}

fn holds((lower, upper): &Bounds, key: &[u8]) -> bool {
    let above = match lower {
        Bound::Unbounded => true,
        Bound::Included(lower) => key >= &lower[..],
        Bound::Excluded(lower) => key > &lower[..],
    };
    let below = match upper {
        Bound::Unbounded => true,
        Bound::Included(upper) => key <= &upper[..],
        Bound::Excluded(upper) => key < &upper[..],
    };
    above && below
}

impl Open {
    fn begin(db: &Db, model: &Model, is_serializable: bool) -> Open {
        let isolation = match is_serializable {
            true => Isolation::Serializable,
            false => Isolation::Snapshot,
        };
        Open {
            tx: db.transaction_with(isolation),
            is_serializable,
            seen: model.clone(),
            writes: BTreeMap::new(),
            read_keys: BTreeSet::new(),
            read_ranges: Vec::new(),
            changed: BTreeSet::new(),
        }
    }

    fn set(&mut self, key: &[u8], value: Option<&[u8]>) {
        match value {
            Some(value) => {
                self.tx.put(key, value).unwrap();
                self.seen.insert(key.to_vec(), value.to_vec());
            }
            None => {
                self.tx.delete(key).unwrap();
                self.seen.remove(key);
            }
        }
        self.writes.insert(key.to_vec(), value.map(<[u8]>::to_vec));
    }

    fn note_read(&mut self, key: &[u8]) {
        if !self.writes.contains_key(key) {
            self.read_keys.insert(key.to_vec());
        }
    }

    fn get(&mut self, key: &[u8]) {
        self.note_read(key);
        let found = self.tx.get(key).unwrap();
        assert_eq!(found.as_deref(), self.seen.get(key).map(|value| &value[..]));
    }

    fn get_many(&mut self, keys: &[Vec<u8>]) {
        keys.iter().for_each(|key| self.note_read(key));
        let found = self.tx.get_many(keys).unwrap();
        let found: Vec<_> = found.iter().map(|value| value.as_deref()).collect();
        let wanted = keys.iter().map(|key| self.seen.get(key));
        let wanted: Vec<_> = wanted.map(|value| value.map(|value| &value[..])).collect();
        assert_eq!(found, wanted);
    }

    /// Takes a step to the front for each `true`, to the back for each `false`.
    fn range(&mut self, bounds: &Bounds, turns: &[bool], is_forgotten: bool) {
        let entries = self.seen.iter().filter(|(key, _)| holds(bounds, key));
        let entries: Vec<_> = entries.collect();
        let mut wanted = entries.into_iter();
        let mut walk = self.tx.range(bounds.clone());
        let (mut front, mut back, mut is_whole) = (None, None, false);
        for is_front in turns {
            let (found, wanted) = match is_front {
                true => (walk.next(), wanted.next()),
                false => (walk.next_back(), wanted.next_back()),
            };
            let found: Option<(Slice, Slice)> = found.transpose().unwrap();
            let found = found.as_ref().map(|(key, value)| (&**key, &**value));
            let wanted = wanted.map(|(key, value)| (&key[..], &value[..]));
            assert_eq!(found, wanted, "{bounds:?} {turns:?}");
            match (wanted, is_front) {
                (None, _) => is_whole = true,
                (Some((key, _)), true) => front = Some(key.to_vec()),
                (Some((key, _)), false) => back = Some(key.to_vec()),
            }
        }
        match is_forgotten {
            true => std::mem::forget(walk),
            false => drop(walk),
        }
        let (lower, upper) = bounds.clone();
        if is_whole || is_forgotten && !turns.is_empty() {
            return self.read_ranges.push((lower, upper));
        }
        let front = front.map(|last| (lower, Bound::Included(last)));
        let back = back.map(|last| (Bound::Included(last), upper));
        self.read_ranges.extend(front.into_iter().chain(back));
    }

    fn prefix(&mut self, prefix: &[u8]) {
        let found = self.tx.prefix(prefix).map(Result::unwrap);
        let found: Vec<_> = found
            .map(|(key, value)| (key.to_vec(), value.to_vec()))
            .collect();
        let wanted = self.seen.iter().filter(|(key, _)| key.starts_with(prefix));
        let wanted: Vec<_> = wanted
            .map(|(key, value)| (key.clone(), value.clone()))
            .collect();
        assert_eq!(found, wanted);
        let lower = Bound::Included(prefix.to_vec());
        let upper = match prefix.iter().rposition(|byte| *byte != 0xff) {
            None => Bound::Unbounded,
            Some(last) => {
                let mut upper = prefix[..=last].to_vec();
                upper[last] += 1;
                Bound::Excluded(upper)
            }
        };
        self.read_ranges.push((lower, upper));
    }

    fn has_conflict(&self) -> bool {
        let is_read = |key: &Vec<u8>| {
            self.read_keys.contains(key) || self.read_ranges.iter().any(|range| holds(range, key))
        };
        let mut changed = self.changed.iter();
        match self.is_serializable {
            _ if self.writes.is_empty() => false,
            true => changed.any(is_read),
            false => changed.any(|key| self.writes.contains_key(key)),
        }
    }
}

fn open(memory: &Memory) -> Db {
    Db::builder("model")
        .storage(Arc::new(memory.clone()))
        .block_bytes(512)
        .open()
        .unwrap()
}

struct World {
    memory: Memory,
    db: Option<Db>,
    model: Model,
    open: [Option<Open>; OPEN],
    conflicts: usize,
}

impl World {
    fn db(&self) -> &Db {
        self.db.as_ref().unwrap()
    }

    /// Others have written a key.
    fn changed(&mut self, key: &[u8], value: Option<&[u8]>) {
        match value {
            Some(value) => self.model.insert(key.to_vec(), value.to_vec()),
            None => self.model.remove(key),
        };
        for one in self.open.iter_mut().flatten() {
            one.changed.insert(key.to_vec());
        }
    }

    fn commit(&mut self, one: Open) {
        let is_conflict = one.has_conflict();
        match one.tx.commit() {
            Ok(()) => {
                assert!(!is_conflict, "a conflict was missed");
                for (key, value) in &one.writes {
                    self.changed(key, value.as_deref());
                }
            }
            Err(Error::Conflict(_)) => {
                assert!(is_conflict, "there is no conflict");
                self.conflicts += 1;
            }
            Err(error) => panic!("{error}"),
        }
    }

    fn within(&mut self, at: usize, step: Step) {
        let Some(mut one) = self.open[at].take() else {
            return;
        };
        match step {
            Step::Put(key, value) => one.set(&key, Some(&value)),
            Step::Delete(key) => one.set(&key, None),
            Step::Get(key) => one.get(&key),
            Step::GetMany(keys) => one.get_many(&keys),
            Step::Range(bounds, turns) => one.range(&bounds, &turns, false),
            Step::Forgotten(bounds, turns) => one.range(&bounds, &turns, true),
            Step::Prefix(prefix) => one.prefix(&prefix),
            Step::Commit => return self.commit(one),
            Step::Drop => return,
        }
        self.open[at] = Some(one);
    }

    fn apply(&mut self, operation: Operation) {
        match operation {
            Operation::Put(key, value) => {
                self.db().put(&key, &value).unwrap();
                self.changed(&key, Some(&value));
            }
            Operation::Delete(key) => {
                self.db().delete(&key).unwrap();
                self.changed(&key, None);
            }
            Operation::Begin(at, level) => {
                self.open[at] = Some(Open::begin(self.db(), &self.model, level));
            }
            Operation::Within(at, step) => self.within(at, step),
            Operation::Flush => self.db().flush().unwrap(),
            Operation::Compact => self.db().compact_all().unwrap().wait().unwrap(),
            Operation::Reopen => {
                self.open = Default::default();
                self.db.take().unwrap().close().unwrap();
                self.db = Some(open(&self.memory));
            }
        }
    }

    fn check(&self) {
        let entries = self.db().iter().map(Result::unwrap);
        let entries = entries.map(|(key, value)| (key.to_vec(), value.to_vec()));
        assert_eq!(entries.collect::<Model>(), self.model);
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(200))]

    #[test]
    fn transactions_behave_like_sorted_maps(
        operations in prop::collection::vec(operation(), 1..120)
    ) {
        let memory = Memory::new();
        let mut world = World {
            db: Some(open(&memory)),
            memory,
            model: Model::new(),
            open: Default::default(),
            conflicts: 0,
        };
        for operation in operations {
            world.apply(operation);
        }
        world.check();
    }
}
