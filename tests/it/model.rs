//! Random operations against a sorted map, with flush, compactions, reopen, snapshots and both
//! directions.

use std::collections::BTreeMap;
use std::ops::Bound;
use std::sync::Arc;

use criba::sim::{Memory, Survivors};
use criba::{
    BloomierBits, Compression, Db, Durability, FilterPolicy, FilterResidency, RangeFilterPolicy,
    Snapshot,
};
use proptest::prelude::*;

type Model = BTreeMap<Vec<u8>, Vec<u8>>;

#[derive(Clone, Debug)]
enum Operation {
    Put(Vec<u8>, Vec<u8>),
    Delete(Vec<u8>),
    Batch(Vec<(Vec<u8>, Option<Vec<u8>>)>),
    Get(Vec<u8>),
    Range(Bound<Vec<u8>>, Bound<Vec<u8>>, Vec<bool>),
    Prefix(Vec<u8>),
    Flush,
    Compact(Bound<Vec<u8>>, Bound<Vec<u8>>),
    Reopen,
    Kill,
    Snapshot,
    DropSnapshot,
}

/// Few distinct keys that share prefixes, so that versions and neighbours are common; in some cases
/// most of them are long.
fn key(is_long: bool) -> BoxedStrategy<Vec<u8>> {
    match is_long {
        true => prop_oneof![2 => long_key(), 1 => short_key()].boxed(),
        false => short_key().boxed(),
    }
}

fn short_key() -> impl Strategy<Value = Vec<u8>> {
    prop_oneof![
        8 => prop::collection::vec(prop::sample::select(&b"ab\x00\xff"[..]), 0..5),
        2 => (0..300_u32).prop_map(|n| format!("number/{n:05}").into_bytes()),
        1 => prop::collection::vec(any::<u8>(), 0..300),
    ]
}

/// The short form of a long key begins so.
const LONG: &[u8] = b"long/";

/// Keys that share most of their bytes, in their short form. A failure shows them, and the search for
/// a smaller one goes on with them.
fn long_key() -> impl Strategy<Value = Vec<u8>> {
    let len = prop::sample::select(&[33_u8, 65][..]);
    (len, 0..24_u8).prop_map(|(len, n)| [LONG, &[len, n]].concat())
}

/// The long key that this stands for, if it is a short form: with so many thousand bytes.
fn stretched(key: Vec<u8>) -> Vec<u8> {
    match key.strip_prefix(LONG) {
        Some([len, rest @ ..]) => [&vec![b'k'; usize::from(*len) * 1000][..], rest].concat(),
        _ => key,
    }
}

fn value() -> impl Strategy<Value = Vec<u8>> {
    prop_oneof![
        8 => prop::collection::vec(any::<u8>(), 0..20),
        1 => (any::<u8>(), 0..9000_usize).prop_map(|(byte, len)| vec![byte; len]),
    ]
}

fn bound(is_long: bool) -> impl Strategy<Value = Bound<Vec<u8>>> {
    prop_oneof![
        Just(Bound::Unbounded),
        key(is_long).prop_map(Bound::Included),
        key(is_long).prop_map(Bound::Excluded),
    ]
}

fn operation(is_long: bool) -> impl Strategy<Value = Operation> {
    let (key, bound) = (|| key(is_long), || bound(is_long));
    // Batches that a leaf of a memtable has no room for.
    let batch = if is_long { 20..60 } else { 0..20 };
    prop_oneof![
        12 => (key(), value()).prop_map(|(key, value)| Operation::Put(key, value)),
        4 => key().prop_map(Operation::Delete),
        3 => prop::collection::vec((key(), prop::option::of(value())), batch)
            .prop_map(Operation::Batch),
        6 => key().prop_map(Operation::Get),
        4 => (bound(), bound(), prop::collection::vec(any::<bool>(), 0..40))
            .prop_map(|(lower, upper, turns)| Operation::Range(lower, upper, turns)),
        2 => key().prop_map(Operation::Prefix),
        4 => Just(Operation::Flush),
        1 => (bound(), bound()).prop_map(|(lower, upper)| Operation::Compact(lower, upper)),
        1 => Just(Operation::Reopen),
        1 => Just(Operation::Kill),
        2 => Just(Operation::Snapshot),
        1 => Just(Operation::DropSnapshot),
    ]
}

/// One case in eight has long keys, as these take their time.
fn operations() -> impl Strategy<Value = Vec<Operation>> {
    let of = |is_long, count| prop::collection::vec(operation(is_long), 1..count);
    prop_oneof![7 => of(false, 150), 1 => of(true, 60)]
}

impl Operation {
    /// With the long keys in place of their short forms.
    fn stretched(self) -> Operation {
        match self {
            Operation::Put(key, value) => Operation::Put(stretched(key), value),
            Operation::Delete(key) => Operation::Delete(stretched(key)),
            Operation::Batch(operations) => {
                let all = operations.into_iter();
                Operation::Batch(all.map(|(key, value)| (stretched(key), value)).collect())
            }
            Operation::Get(key) => Operation::Get(stretched(key)),
            Operation::Range(lower, upper, turns) => {
                Operation::Range(lower.map(stretched), upper.map(stretched), turns)
            }
            Operation::Prefix(prefix) => Operation::Prefix(stretched(prefix)),
            Operation::Compact(lower, upper) => {
                Operation::Compact(lower.map(stretched), upper.map(stretched))
            }
            other => other,
        }
    }
}

#[derive(Clone, Debug)]
struct Settings {
    filter: FilterPolicy,
    range_filter: RangeFilterPolicy,
    residency: FilterResidency,
    compression: Compression,
    block_bytes: u32,
    entries_per_group: u32,
    cache_bytes: u64,
    /// Each session has the next one.
    strategies: Vec<criba::Strategy>,
    threads: usize,
}

fn strategies() -> impl Strategy<Value = Vec<criba::Strategy>> {
    let all = vec![
        criba::Strategy::Leveled,
        criba::Strategy::Tiered,
        criba::Strategy::LazyLeveled,
        // Larger than anything here, so that nothing is dropped.
        criba::Strategy::Fifo {
            bytes: 1 << 40,
            age: None,
        },
    ];
    prop::collection::vec(prop::sample::select(all), 1..4)
}

fn settings() -> impl Strategy<Value = Settings> {
    let filters = vec![
        FilterPolicy::None,
        FilterPolicy::Bloom { bits_per_key: 3.3 },
        FilterPolicy::Bloomier(BloomierBits::Block),
        FilterPolicy::Bloomier(BloomierBits::Slot),
        FilterPolicy::Bloomier(BloomierBits::BitsPerKey(1.5)),
        FilterPolicy::Bloomier(BloomierBits::BitsPerKey(12.0)),
        FilterPolicy::Budget { bits_per_key: 1.5 },
        FilterPolicy::Budget { bits_per_key: 9.0 },
    ];
    // With enough bits for the header also where there are few keys.
    let range_filters = vec![
        RangeFilterPolicy::None,
        RangeFilterPolicy::Bits { bits_per_key: 12.0 },
        RangeFilterPolicy::Bits { bits_per_key: 64.0 },
    ];
    let residencies = vec![
        FilterResidency::Pinned,
        FilterResidency::Cached { bytes: 8192 },
        FilterResidency::Shared,
    ];
    (
        prop::sample::select(filters),
        prop::sample::select(range_filters),
        prop::sample::select(residencies),
        prop::sample::select(vec![
            Compression::None,
            Compression::Lz4,
            Compression::Zstd { level: 1 },
        ]),
        prop::sample::select(vec![512_u32, 4096]),
        prop::sample::select(vec![1_u32, 4, 16]),
        prop::sample::select(vec![0_u64, 20_000, 1 << 20]),
        strategies(),
        1..3_usize,
    )
        .prop_map(
            |(
                filter,
                range_filter,
                residency,
                compression,
                block_bytes,
                entries_per_group,
                cache_bytes,
                strategies,
                threads,
            )| Settings {
                filter,
                range_filter,
                residency,
                compression,
                block_bytes,
                entries_per_group,
                cache_bytes,
                strategies,
                threads,
            },
        )
}

fn open(memory: &Memory, settings: &Settings) -> Db {
    Db::builder("model")
        .storage(Arc::new(memory.clone()))
        .filter(settings.filter)
        .range_filter(settings.range_filter)
        .filter_residency(settings.residency)
        .compression(settings.compression)
        .block_bytes(settings.block_bytes)
        .entries_per_group(settings.entries_per_group)
        .cache_bytes(settings.cache_bytes)
        .memtable_bytes(64 << 10)
        .segment_bytes(64 << 10)
        .level_base_bytes(64 << 10)
        .level0_runs(2)
        .level_ratio(3)
        .strategy(settings.strategies[0])
        .compaction_threads(settings.threads)
        .open()
        .unwrap()
}

type Entry = (Vec<u8>, Vec<u8>);

fn collect(iter: impl Iterator<Item = criba::Result<(criba::Slice, criba::Slice)>>) -> Vec<Entry> {
    iter.map(|entry| entry.unwrap())
        .map(|(key, value)| (key.to_vec(), value.to_vec()))
        .collect()
}

fn expected(model: &Model, bounds: (Bound<Vec<u8>>, Bound<Vec<u8>>)) -> Vec<Entry> {
    let inside = |key: &Vec<u8>| {
        (match &bounds.0 {
            Bound::Unbounded => true,
            Bound::Included(lower) => key >= lower,
            Bound::Excluded(lower) => key > lower,
        }) && (match &bounds.1 {
            Bound::Unbounded => true,
            Bound::Included(upper) => key <= upper,
            Bound::Excluded(upper) => key < upper,
        })
    };
    model
        .iter()
        .filter(|(key, _)| inside(key))
        .map(|(k, v)| (k.clone(), v.clone()))
        .collect()
}

/// Takes from front and back as told, then the rest from the front.
fn zigzag<T>(mut iter: impl DoubleEndedIterator<Item = T>, turns: &[bool]) -> (Vec<T>, Vec<T>) {
    let (mut front, mut back) = (Vec::new(), Vec::new());
    for turn in turns {
        match turn {
            true => front.extend(iter.next()),
            false => back.extend(iter.next_back()),
        }
    }
    front.extend(iter);
    (front, back)
}

/// The same, with entries from the front shown in turn where they are and to be kept.
fn zigzag_shown(mut iter: criba::Iter, turns: &[bool]) -> (Vec<Entry>, Vec<Entry>) {
    let (mut front, mut back) = (Vec::new(), Vec::new());
    let shown = |iter: &mut criba::Iter| {
        let (key, value) = iter.next_ref()?.unwrap();
        Some((key.to_vec(), value.to_vec()))
    };
    for turn in turns {
        match turn {
            true => front.extend(shown(&mut iter)),
            false => back.extend(iter.next_back()),
        }
    }
    while let Some(entry) = shown(&mut iter) {
        front.push(entry);
        front.extend(collect(iter.by_ref().take(1)));
    }
    assert!(iter.next_ref().is_none() && iter.next().is_none());
    (front, collect(back.into_iter()))
}

struct World {
    memory: Memory,
    settings: Settings,
    db: Db,
    model: Model,
    snapshots: Vec<(Snapshot, Model)>,
    sequence_at_open: u64,
}

impl World {
    fn apply(&mut self, operation: Operation) {
        match operation {
            Operation::Put(key, value) => {
                self.db.put(&key, &value).unwrap();
                self.model.insert(key, value);
            }
            Operation::Delete(key) => {
                self.db.delete(&key).unwrap();
                self.model.remove(&key);
            }
            Operation::Batch(operations) => {
                let mut batch = self.db.batch();
                for (key, value) in operations {
                    match value {
                        Some(value) => {
                            batch.put(&key, &value);
                            self.model.insert(key, value);
                        }
                        None => {
                            batch.delete(&key);
                            self.model.remove(&key);
                        }
                    }
                }
                batch.commit().unwrap();
            }
            Operation::Get(key) => {
                let found = self.db.get(&key).unwrap();
                assert_eq!(found.as_deref(), self.model.get(&key).map(Vec::as_slice));
                for (snapshot, model) in &self.snapshots {
                    let found = snapshot.get(&key).unwrap();
                    assert_eq!(found.as_deref(), model.get(&key).map(Vec::as_slice));
                }
            }
            Operation::Range(lower, upper, turns) => {
                let bounds = (lower, upper);
                let expected = zigzag(expected(&self.model, bounds.clone()).into_iter(), &turns);
                let shown = zigzag_shown(self.db.range(bounds.clone()), &turns);
                assert_eq!(shown, expected, "where they are");
                let (front, back) = zigzag(self.db.range(bounds), &turns);
                assert_eq!(
                    (collect(front.into_iter()), collect(back.into_iter())),
                    expected
                );
            }
            Operation::Prefix(prefix) => {
                let expected: Vec<_> = self
                    .model
                    .iter()
                    .filter(|(key, _)| key.starts_with(&prefix))
                    .collect();
                let found = collect(self.db.prefix(&prefix));
                assert!(found.iter().map(|(k, v)| (k, v)).eq(expected));
            }
            Operation::Flush => self.db.flush().unwrap(),
            Operation::Compact(lower, upper) => {
                self.db.compact((lower, upper)).unwrap().wait().unwrap();
            }
            Operation::Reopen => self.reopen(None),
            Operation::Kill => self.reopen(Some(Survivors::Everything)),
            Operation::Snapshot => {
                self.snapshots
                    .push((self.db.snapshot(), self.model.clone()));
            }
            Operation::DropSnapshot => {
                if !self.snapshots.is_empty() {
                    self.snapshots.remove(0);
                }
            }
        }
    }

    fn reopen(&mut self, crash: Option<Survivors>) {
        self.check();
        self.snapshots.clear();
        if let Some(survivors) = crash {
            self.memory = self.memory.crash(survivors);
        } else {
            self.db.clone().close().unwrap();
        }
        // A session that wrote nothing leaves the store as it was.
        let wrote = self.db.stats().sequence > self.sequence_at_open;
        self.settings.strategies.rotate_left(1);
        self.db = open(&self.memory, &self.settings);
        self.sequence_at_open = self.db.stats().sequence;
        if wrote {
            assert_eq!(self.db.stats().recovery.clean, crash.is_none());
        }
    }

    fn check(&self) {
        let all = |model: &Model| expected(model, (Bound::Unbounded, Bound::Unbounded));
        let mut entries = all(&self.model);
        assert_eq!(collect(self.db.iter()), entries);
        entries.reverse();
        assert_eq!(collect(self.db.iter().rev()), entries);
        for key in self.model.keys() {
            assert!(self.db.contains_key(key).unwrap());
        }
        for (snapshot, model) in &self.snapshots {
            assert_eq!(collect(snapshot.iter()), all(model));
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: cases(), ..ProptestConfig::default() })]

    #[test]
    fn behaves_like_a_sorted_map(
        settings in settings(),
        operations in operations(),
    ) {
        let memory = Memory::new();
        let db = open(&memory, &settings);
        let mut world =
            World {
            memory,
            settings,
            db,
            model: Model::new(),
            snapshots: Vec::new(),
            sequence_at_open: 0,
        };
        for operation in operations {
            world.apply(operation.stretched());
        }
        world.check();
        world.reopen(None);
        world.check();
    }
}

/// `CRIBA_MODEL_CASES` runs a longer campaign.
fn cases() -> u32 {
    let cases = std::env::var("CRIBA_MODEL_CASES").ok();
    cases.and_then(|cases| cases.parse().ok()).unwrap_or(200)
}

#[test]
fn synced_writes_survive_power_loss_one_by_one() {
    let settings = Settings {
        filter: FilterPolicy::default(),
        range_filter: RangeFilterPolicy::Bits { bits_per_key: 64.0 },
        residency: FilterResidency::Pinned,
        compression: Compression::None,
        block_bytes: 4096,
        entries_per_group: 4,
        cache_bytes: 0,
        strategies: vec![criba::Strategy::Leveled],
        threads: 1,
    };
    let memory = Memory::new();
    let db = open(&memory, &settings);
    let mut model = Model::new();
    for n in 0..100_u32 {
        let key = format!("{:03}", n % 40).into_bytes();
        let durability = if n % 7 == 0 {
            Durability::Sync
        } else {
            Durability::Process
        };
        db.put_with(&key, n.to_le_bytes(), durability).unwrap();
        model.insert(key, n.to_le_bytes().to_vec());
        if n % 30 == 29 {
            db.flush().unwrap();
        }
        if n % 7 == 0 || n % 30 == 29 {
            let after = open(&memory.crash(Survivors::Synced), &settings);
            let entries = expected(&model, (Bound::Unbounded, Bound::Unbounded));
            assert_eq!(collect(after.iter()), entries, "after write {n}");
        }
    }
}
