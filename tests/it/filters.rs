//! No filter ever hides a key, through the whole store. Keys with equal hashes cannot be made
//! from outside: see `src/segment/tests.rs`.

use std::collections::BTreeMap;
use std::sync::Arc;

use criba::sim::Memory;
use criba::storage::Storage;
use criba::{
    BloomierBits, Builder, Compression, Db, FilterPolicy, FilterResidency, Io, MAX_KEY_BYTES,
};
use criba_filters::Shape;
use criba_filters::hash_key;
use criba_filters::segment::{Build, FilterSpec, Place, build};
use proptest::prelude::*;

use crate::allocations::most_held;

const PINNED: FilterResidency = FilterResidency::Pinned;

const POLICIES: [FilterPolicy; 10] = [
    FilterPolicy::None,
    FilterPolicy::Bloom { bits_per_key: 1.0 },
    FilterPolicy::Bloom { bits_per_key: 10.4 },
    FilterPolicy::Bloom { bits_per_key: 64.0 },
    FilterPolicy::Bloomier(BloomierBits::Block),
    FilterPolicy::Bloomier(BloomierBits::Slot),
    FilterPolicy::Bloomier(BloomierBits::BitsPerKey(1.0)),
    FilterPolicy::Bloomier(BloomierBits::BitsPerKey(9.6)),
    FilterPolicy::Bloomier(BloomierBits::BitsPerKey(64.0)),
    FilterPolicy::Custom,
];

fn builder(memory: &Memory) -> Builder {
    Db::builder("filters")
        .custom_filter(Shape::Fuse.filter(9.6))
        .compaction(criba::Compaction::Manual)
        .storage(Arc::new(memory.clone()))
        .memtable_bytes(1 << 30)
        .segment_bytes(1 << 30)
}

/// Number `n` of the present keys, in no order.
fn key(n: u64) -> [u8; 8] {
    n.wrapping_mul(0x9e37_79b9_7f4a_7c15)
        .swap_bytes()
        .to_le_bytes()
}

/// Loads `count` keys in `runs` runs, twice over: the first half of each is written again.
fn load(db: &Db, count: u64, runs: u64) {
    for run in 0..runs {
        let mut batch = db.batch();
        for n in (run..count).step_by(runs as usize) {
            batch.put(key(n), n.to_le_bytes());
            if n < count / 2 {
                batch.put(key(n), (n + 1).to_le_bytes());
            }
        }
        batch.commit().unwrap();
        db.flush().unwrap();
    }
}

fn check(db: &Db, count: u64, step: usize) {
    for n in (0..count).step_by(step) {
        let expected = n + u64::from(n < count / 2);
        let found = db.get(key(n)).unwrap();
        assert_eq!(
            found.as_deref(),
            Some(&expected.to_le_bytes()[..]),
            "key {n} of {count}"
        );
        assert!(!db.contains_key(key(count + n)).unwrap(), "{n} is absent");
    }
}

#[test]
fn every_key_is_found_at_every_size() {
    for policy in POLICIES {
        for (count, step) in [
            (0, 1),
            (1, 1),
            (2, 1),
            (3, 1),
            (63, 1),
            (1000, 3),
            (30_000, 17),
        ] {
            let memory = Memory::new();
            let db = builder(&memory).filter(policy).open().unwrap();
            load(&db, count, 2);
            check(&db, count, step);
            db.close().unwrap();
            for bytes in [0, 10_000, 1 << 20] {
                let db = builder(&memory)
                    .filter_residency(FilterResidency::Cached { bytes })
                    .open()
                    .unwrap();
                check(&db, count, step);
                assert_eq!(db.iter().count() as u64, count);
            }
        }
    }
}

#[test]
fn every_key_of_a_large_store_is_found() {
    const KEYS: u64 = 300_000;
    let memory = Memory::new();
    let db = builder(&memory)
        .filter(FilterPolicy::Bloomier(BloomierBits::BitsPerKey(11.3)))
        .segment_bytes(1 << 20)
        .open()
        .unwrap();
    load(&db, KEYS, 2);
    assert!(db.stats().segments().count() > 2);
    check(&db, KEYS, 1);
    assert_eq!(db.iter().count() as u64, KEYS);
    db.close().unwrap();
    let db = builder(&memory)
        .filter_residency(FilterResidency::Cached { bytes: 1 << 18 })
        .open()
        .unwrap();
    check(&db, KEYS, 11);
}

#[test]
fn keys_of_extreme_length_are_found() {
    for policy in POLICIES {
        let memory = Memory::new();
        let db = builder(&memory).filter(policy).open().unwrap();
        let mut keys = vec![Vec::new(), vec![0], vec![0xff; MAX_KEY_BYTES]];
        for n in 0..4_u8 {
            let mut key = vec![b'k'; MAX_KEY_BYTES];
            key[MAX_KEY_BYTES - 1] = n;
            keys.push(key);
        }
        for key in &keys {
            db.put(key, key.len().to_le_bytes()).unwrap();
        }
        for _ in 0..2 {
            for key in &keys {
                assert_eq!(db.get(key).unwrap().unwrap(), key.len().to_le_bytes());
            }
            assert!(!db.contains_key(vec![b'k'; MAX_KEY_BYTES - 1]).unwrap());
            let mut last = vec![b'k'; MAX_KEY_BYTES];
            last[MAX_KEY_BYTES - 1] = 4;
            assert!(!db.contains_key(&last).unwrap());
            db.flush().unwrap();
        }
    }
}

/// Snapshots keep so many versions of a key that they fill blocks and groups.
#[test]
fn versions_that_fill_blocks_are_found_by_their_snapshots() {
    for policy in POLICIES {
        for compression in [Compression::None, Compression::Zstd { level: 1 }] {
            let memory = Memory::new();
            let db = builder(&memory)
                .filter(policy)
                .compression(compression)
                .block_bytes(512)
                .open()
                .unwrap();
            let mut snapshots = Vec::new();
            for n in 0..60_u64 {
                for key in ["a", "b", "ba", "c"] {
                    db.put(key, [n.to_le_bytes(); 8].concat()).unwrap();
                }
                if n == 30 {
                    db.delete("b").unwrap();
                }
                snapshots.push(db.snapshot());
            }
            db.flush().unwrap();
            for (n, snapshot) in (0_u64..).zip(&snapshots) {
                for key in ["a", "b", "ba", "c"] {
                    let found = snapshot.get(key).unwrap();
                    let is_deleted = n == 30 && key == "b";
                    let expected = (!is_deleted).then(|| [n.to_le_bytes(); 8].concat());
                    assert_eq!(
                        found.as_deref(),
                        expected.as_deref(),
                        "{policy:?} {key} {n}"
                    );
                }
                assert!(!snapshot.contains_key("bb").unwrap());
                let count = 4 - usize::from(n == 30);
                assert_eq!(snapshot.iter().count(), count);
                assert_eq!(snapshot.range("a"..="ba").rev().count(), count - 1);
            }
        }
    }
}

/// One store written with every setting in turn, on disk, by reads and by maps.
#[test]
fn settings_may_change_from_session_to_session() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("store");
    let mut model = BTreeMap::new();
    let mut n = 0_u64;
    for io in [Io::Mmap, Io::Pread] {
        for policy in POLICIES {
            let is_odd = model.len() % 2 == 1;
            let db = Db::builder(&path)
                .compaction(criba::Compaction::Manual)
                .custom_filter(Shape::Fuse.filter(9.6))
                .io(io)
                .filter(policy)
                .block_bytes(512 << (n % 5))
                .entries_per_group(1 + (n % 9) as u32)
                .cache_bytes([0, 1 << 20][usize::from(is_odd)])
                .filter_residency(
                    [PINNED, FilterResidency::Cached { bytes: 1 << 16 }][(n % 2) as usize],
                )
                .compression(match n % 3 {
                    0 => Compression::Zstd { level: 1 },
                    1 => Compression::Lz4,
                    _ => Compression::None,
                })
                .open()
                .unwrap();
            for _ in 0..401 {
                n += 1;
                db.put(key(n % 1500), n.to_le_bytes()).unwrap();
                model.insert(key(n % 1500), n);
            }
            if !n.is_multiple_of(4) {
                db.flush().unwrap();
            }
            for (key, n) in &model {
                assert_eq!(
                    db.get(key).unwrap().unwrap(),
                    n.to_le_bytes(),
                    "{policy:?} {io:?}"
                );
            }
            let found: Vec<_> = db
                .iter()
                .rev()
                .map(|entry| entry.unwrap().0.to_vec())
                .collect();
            assert!(found.iter().eq(model.keys().rev().map(|key| &key[..])));
            // What was read stays valid when the store is gone.
            let kept: Vec<_> = model
                .keys()
                .map(|key| db.get(key).unwrap().unwrap())
                .collect();
            db.close().unwrap();
            assert!(
                kept.iter()
                    .zip(model.values())
                    .all(|(slice, n)| slice == &n.to_le_bytes())
            );
        }
    }
}

#[test]
fn huge_values_next_to_small_ones() {
    for io in [Io::Pread, Io::Mmap] {
        for compression in [Compression::None, Compression::Zstd { level: 1 }] {
            let dir = tempfile::tempdir().unwrap();
            let build = || {
                let path = dir.path().join("store");
                Db::builder(path)
                    .compaction(criba::Compaction::Manual)
                    .io(io)
                    .compression(compression)
                    .memtable_bytes(64 << 10)
            };
            let db = build().open().unwrap();
            let sizes = [0, 1, 65_535, 65_536, 70_000, 1 << 20, (16 << 20) + 3];
            for size in sizes {
                let value: Vec<u8> = (0..size).map(|n| ((n * n) >> 7) as u8).collect();
                db.put(format!("{size:09}"), &value).unwrap();
                db.put(format!("{size:09}small"), "v").unwrap();
            }
            db.close().unwrap();
            let db = build().open().unwrap();
            for _ in 0..2 {
                for size in sizes {
                    let found = db.get(format!("{size:09}")).unwrap().unwrap();
                    assert!(found.len() == size, "{size}");
                    assert!(
                        (0..size).all(|n| found[n] == ((n * n) >> 7) as u8),
                        "{size}"
                    );
                    assert_eq!(db.get(format!("{size:09}small")).unwrap().unwrap(), "v");
                }
                assert_eq!(db.iter().count(), 2 * sizes.len());
                db.flush().unwrap();
            }
        }
    }
}

#[test]
fn an_empty_store_is_empty_in_every_way() {
    for policy in POLICIES {
        let memory = Memory::new();
        let db = builder(&memory).filter(policy).open().unwrap();
        db.flush().unwrap();
        db.sync().unwrap();
        db.delete("nothing").unwrap();
        for _ in 0..2 {
            assert_eq!(db.get("").unwrap(), None);
            assert_eq!(db.iter().count() + db.iter().rev().count(), 0);
            assert_eq!(db.snapshot().range("a"..).count(), 0);
            db.flush().unwrap();
        }
        let stats = db.stats();
        assert_eq!(
            stats
                .segments()
                .map(|segment| segment.tombstones)
                .sum::<u64>(),
            0,
            "a tombstone that hides nothing is not written"
        );
        db.close().unwrap();
        assert_eq!(builder(&memory).open().unwrap().iter().count(), 0);
        assert!(memory.list().unwrap().len() <= 6);
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 100, ..ProptestConfig::default() })]

    #[test]
    fn what_was_put_is_found(
        runs in prop::collection::vec(
            prop::collection::vec((prop::collection::vec(any::<u8>(), 0..4), any::<bool>()), 0..300),
            1..4,
        ),
        policy in prop::sample::select(POLICIES.to_vec()),
        block_bytes in prop::sample::select(vec![512_u32, 4096]),
        cached in prop::option::of(0..20_000_u64),
    ) {
        let memory = Memory::new();
        let residency = cached.map_or(PINNED, |bytes| FilterResidency::Cached { bytes });
        let db = builder(&memory)
            .filter(policy)
            .filter_residency(residency)
            .block_bytes(block_bytes)
            .open()
            .unwrap();
        let mut model = BTreeMap::new();
        for (ordinal, run) in runs.iter().enumerate() {
            for (key, is_put) in run {
                if *is_put {
                    db.put(key, ordinal.to_le_bytes()).unwrap();
                    model.insert(key.clone(), ordinal);
                } else {
                    db.delete(key).unwrap();
                    model.remove(key);
                }
            }
            db.flush().unwrap();
        }
        for (key, _) in runs.iter().flatten() {
            let found = db.get(key).unwrap();
            let expected = model.get(key).map(|ordinal| ordinal.to_le_bytes());
            prop_assert_eq!(found.as_deref(), expected.as_ref().map(|bytes| &bytes[..]));
        }
    }
}

/// What is held at once while a Bloomier filter is built, the filter itself included.
#[test]
fn building_takes_at_most_40_bytes_per_key() {
    for (count, bits_per_key) in [(50_000, 8.0), (300_000, 16.5)] {
        let hashes: Vec<_> = (0..count).map(|i| hash_key(1, &key(i))).collect();
        let place = |i: u64| Place {
            block: (i / 40) as u32,
            slot: 0,
        };
        let places: Vec<_> = (0..count).map(place).collect();
        let bits = BloomierBits::BitsPerKey(bits_per_key);
        let (built, held) = most_held(|| {
            build(&Build {
                spec: FilterSpec::Bloomier(bits),
                salt: 3,
                hashes: &hashes,
                places: &places,
                block_count: (count / 40) as u32,
                max_slot: 0,
            })
        });
        assert!(held > built.body.len() * 8, "{held} bytes");
        let held = held as f64 / count as f64;
        assert!(held <= 40.0, "{held} bytes per key");
    }
}
