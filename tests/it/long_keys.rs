//! Long keys that share nearly all of their bytes, in numbers that split the leaves of a memtable.
//!
//! The length of a common prefix passes through many fields on its way to memory and to disk. The
//! tests look for each key in every way that there is, wherever its entry may lie.

use std::collections::BTreeMap;
use std::sync::Arc;

use criba::sim::{Memory, Survivors};
use criba::{
    BloomierBits, Builder, Compaction, Compression, Db, FilterPolicy, Iter, MAX_KEY_BYTES, Slice,
};

type Model = BTreeMap<Vec<u8>, Vec<u8>>;

/// A leaf of a memtable has fourteen slots: these keys make several.
const KEYS: u32 = 50;

/// Bytes that all keys share. The field that was too small for the length had 15 bits.
const PREFIXES: [usize; 7] = [
    32_767,
    32_768,
    32_769,
    40_000,
    65_530,
    MAX_KEY_BYTES - 4,
    MAX_KEY_BYTES - 1,
];

/// Key `n`: the number stands right behind the prefix, as far as there is room for its four bytes.
fn key(prefix: usize, n: u32) -> Vec<u8> {
    let mut key = [&vec![b'k'; prefix][..], &n.to_le_bytes()].concat();
    key.truncate(MAX_KEY_BYTES);
    key
}

#[derive(Clone, Copy, Debug)]
enum Order {
    Ascending,
    Descending,
    Shuffled,
}

const ORDERS: [Order; 3] = [Order::Ascending, Order::Descending, Order::Shuffled];

impl Order {
    fn numbers(self) -> Vec<u32> {
        match self {
            Order::Ascending => (0..KEYS).collect(),
            Order::Descending => (0..KEYS).rev().collect(),
            Order::Shuffled => (0..KEYS).map(|n| n * 37 % KEYS).collect(),
        }
    }
}

fn builder(memory: &Memory, filter: FilterPolicy) -> Builder {
    Db::builder("long keys")
        .storage(Arc::new(memory.clone()))
        .compaction(Compaction::Manual)
        .filter(filter)
}

fn collect(iter: Iter) -> Vec<(Vec<u8>, Vec<u8>)> {
    iter.map(|entry| entry.unwrap())
        .map(|(key, value)| (key.to_vec(), value.to_vec()))
        .collect()
}

/// What both a store and a snapshot can be asked.
trait Reader {
    fn get(&self, key: &[u8]) -> Option<Slice>;
    fn get_many(&self, keys: &[Vec<u8>]) -> Vec<Option<Slice>>;
    fn iter(&self) -> Iter;
    fn prefix(&self, prefix: &[u8]) -> Iter;
    fn range(&self, range: std::ops::RangeFrom<Vec<u8>>) -> Iter;
}

macro_rules! reader {
    ($of:ty) => {
        impl Reader for $of {
            fn get(&self, key: &[u8]) -> Option<Slice> {
                <$of>::get(self, key).unwrap()
            }

            fn get_many(&self, keys: &[Vec<u8>]) -> Vec<Option<Slice>> {
                <$of>::get_many(self, keys).unwrap()
            }

            fn iter(&self) -> Iter {
                <$of>::iter(self)
            }

            fn prefix(&self, prefix: &[u8]) -> Iter {
                <$of>::prefix(self, prefix)
            }

            fn range(&self, range: std::ops::RangeFrom<Vec<u8>>) -> Iter {
                <$of>::range(self, range)
            }
        }
    };
}

reader!(criba::Keyspace);
reader!(criba::Snapshot);

/// Every key by every way there is, and keys beside them that are not there.
fn check(reader: &dyn Reader, model: &Model, what: &str) {
    let keys: Vec<Vec<u8>> = model.keys().cloned().collect();
    for (key, value) in model {
        let found = reader.get(key);
        assert_eq!(found.as_deref(), Some(&value[..]), "{what}");
        let (shorter, mut other) = (&key[..key.len() - 1], key.clone());
        other[key.len() - 1] = 0xff;
        for absent in [shorter, &other] {
            assert_eq!(reader.get(absent), None, "{what}");
        }
    }
    let many = reader.get_many(&keys);
    let found: Vec<Option<&[u8]>> = many.iter().map(Option::as_deref).collect();
    let values: Vec<Option<&[u8]>> = model.values().map(|value| Some(&value[..])).collect();
    assert_eq!(found, values, "{what}");

    let all: Vec<_> = model.clone().into_iter().collect();
    let count = |found: &[(Vec<u8>, Vec<u8>)]| (found.len(), found == all);
    assert_eq!(count(&collect(reader.iter())), (all.len(), true), "{what}");
    let mut backward: Vec<_> = reader.iter().rev().map(|entry| entry.unwrap()).collect();
    backward.reverse();
    let backward = backward
        .iter()
        .map(|(key, value)| (key.to_vec(), value.to_vec()));
    assert_eq!(
        count(&backward.collect::<Vec<_>>()),
        (all.len(), true),
        "{what}"
    );

    let shared = keys[0].iter().zip(&keys[keys.len() - 1]);
    let shared = shared.take_while(|(first, last)| first == last).count();
    for len in [0, shared / 2, shared] {
        let found = collect(reader.prefix(&keys[0][..len]));
        assert_eq!(count(&found), (all.len(), true), "{what}: prefix of {len}");
    }
    for (at, from) in keys.iter().enumerate().step_by(7) {
        let found = collect(reader.range(from.clone()..));
        assert!(found == all[at..], "{what}: from key {at}");
    }
}

/// One life: what was put is looked for in the memtable, then wherever it goes from there.
fn live((builder, memory): (&dyn Fn(&Memory) -> Builder, Memory), keys: &[Vec<u8>], what: &str) {
    let mut memory = memory;
    let mut model = Model::new();
    let db = builder(&memory).open().unwrap();
    let check_all = |db: &Db, model: &Model, when: &str| {
        check(&**db, model, &format!("{what}, {when}"));
        let snapshot = db.snapshot();
        check(&snapshot, model, &format!("{what}, {when}, of a snapshot"));
    };
    for (n, key) in keys.iter().enumerate() {
        db.put(key, n.to_le_bytes()).unwrap();
        model.insert(key.clone(), n.to_le_bytes().to_vec());
    }
    check_all(&db, &model, "in the memtable");
    let (snapshot, before) = (db.snapshot(), model.clone());
    // Half of them once more: versions, and a batch.
    let mut batch = db.batch();
    for key in keys.iter().step_by(2) {
        batch.put(key, b"again");
        model.insert(key.clone(), b"again".to_vec());
    }
    batch.commit().unwrap();
    check_all(&db, &model, "written again");
    db.flush().unwrap();
    check_all(&db, &model, "flushed");
    check(&snapshot, &before, &format!("{what}, a snapshot of before"));
    for key in keys.iter().step_by(3) {
        db.put(key, b"third").unwrap();
        model.insert(key.clone(), b"third".to_vec());
    }
    check_all(&db, &model, "in the memtable and a segment");
    db.compact_all().unwrap().wait().unwrap();
    check_all(&db, &model, "merged");
    check(&snapshot, &before, &format!("{what}, a snapshot of before"));
    drop(snapshot);
    for key in keys.iter().step_by(5) {
        db.put(key, b"fifth").unwrap();
        model.insert(key.clone(), b"fifth".to_vec());
    }
    // A journal is replayed into a memtable.
    memory = memory.crash(Survivors::Everything);
    let db = builder(&memory).open().unwrap();
    check_all(&db, &model, "recovered");
    db.compact_all().unwrap().wait().unwrap();
    db.close().unwrap();
    let db = builder(&memory).open().unwrap();
    check_all(&db, &model, "reopened");
    let found = db.verify(&mut |_, _| {}).unwrap();
    assert!(found.findings.is_empty(), "{what}: {found:?}");
}

#[test]
fn keys_that_share_a_prefix_of_any_length_are_found() {
    for prefix in PREFIXES {
        for order in ORDERS {
            let keys: Vec<_> = order.numbers().iter().map(|n| key(prefix, *n)).collect();
            let builder = |memory: &Memory| builder(memory, FilterPolicy::default());
            live(
                (&builder, Memory::new()),
                &keys,
                &format!("{prefix} bytes, {order:?}"),
            );
        }
    }
}

/// Blocks of one key or of all, groups of one or of many, segments of a few keys, with each kind of
/// filter. With the two short keys a segment has nothing in common, so that its fences are long.
#[test]
fn so_they_are_in_blocks_and_segments_of_every_shape() {
    let mut keys: Vec<_> = Order::Shuffled
        .numbers()
        .iter()
        .map(|n| key(65_531, *n))
        .collect();
    keys.extend([b"a".to_vec(), b"z".to_vec()]);
    let block: [(u32, u32, Compression); 4] = [
        (512, 1, Compression::None),
        (1 << 20, 1, Compression::Lz4),
        (1 << 20, 256, Compression::None),
        (4096, 4, Compression::Zstd { level: 1 }),
    ];
    let filters = [
        FilterPolicy::None,
        FilterPolicy::Bloom { bits_per_key: 10.0 },
        FilterPolicy::Bloomier(BloomierBits::Block),
        FilterPolicy::Bloomier(BloomierBits::Slot),
    ];
    for ((block_bytes, group, compression), filter) in block.into_iter().zip(filters) {
        for segment_bytes in [64 << 10, 64 << 20] {
            let builder = |memory: &Memory| {
                builder(memory, filter)
                    .block_bytes(block_bytes)
                    .entries_per_group(group)
                    .compression(compression)
                    .segment_bytes(segment_bytes)
            };
            let what = format!("{block_bytes}, {group}, {compression:?}, {segment_bytes}");
            live((&builder, Memory::new()), &keys, &what);
        }
    }
}
