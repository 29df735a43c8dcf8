//! Scans that ask range filters first: what they read, and that nothing is missed.

use std::collections::BTreeMap;
use std::sync::Arc;

use criba::sim::{Memory, Survivors};
use criba::storage::ReadCause;
use criba::{
    Builder, Compaction, Db, FilterPolicy, FilterResidency, RangeFilterPolicy, RangeFilterStats,
    RangeOutcome, RangeStep,
};
use criba_filters::{KeyHash, mix};

const BITS: RangeFilterPolicy = RangeFilterPolicy::Bits { bits_per_key: 10.0 };

fn builder(memory: &Memory, policy: RangeFilterPolicy) -> Builder {
    Db::builder("ranges")
        .storage(Arc::new(memory.clone()))
        .compaction(Compaction::Manual)
        .cache_bytes(0)
        .memtable_bytes(64 << 20)
        .range_filter(policy)
}

/// Keys of one width in no order, so that neighbours are in different runs.
fn key(number: u64) -> String {
    format!("{:016x}", mix(KeyHash(number), 7))
}

/// So many runs, each with `per_run` keys of its own; also all keys in order.
fn store(
    memory: &Memory,
    policy: RangeFilterPolicy,
    (runs, per_run): (u64, u64),
) -> (Db, Vec<String>) {
    let db = builder(memory, policy).open().unwrap();
    for run in 0..runs {
        let mut batch = db.batch();
        for number in run * per_run..(run + 1) * per_run {
            batch.put(key(number), [b'x'; 80]);
        }
        batch.commit().unwrap();
        db.flush().unwrap();
    }
    let mut keys: Vec<String> = (0..runs * per_run).map(key).collect();
    keys.sort();
    (db, keys)
}

fn range_stats(db: &Db) -> Vec<RangeFilterStats> {
    let stats = db.stats();
    stats
        .segments()
        .filter_map(|one| one.range_filter.clone())
        .collect()
}

/// Data blocks that the work reads.
fn blocks_read(db: &Db, work: impl FnOnce()) -> u64 {
    let before = db.stats().reads;
    work();
    db.stats().reads.since(&before).get(ReadCause::Data).calls
}

/// Scans of three neighbouring keys find them, and read little besides.
#[test]
fn short_scans_read_only_the_runs_that_have_something() {
    let shape = (8, 4_000);
    let mut reads = Vec::new();
    for policy in [RangeFilterPolicy::None, BITS] {
        let memory = Memory::new();
        let (db, keys) = store(&memory, policy, shape);
        let scans = (0..keys.len() - 3).step_by(37);
        let count = scans.len() as u64;
        let read = blocks_read(&db, || {
            for at in scans {
                let found: Vec<_> = db
                    .range(&keys[at]..=&keys[at + 2])
                    .map(Result::unwrap)
                    .collect();
                let found: Vec<&[u8]> = found.iter().map(|(key, _)| &**key).collect();
                let expected: Vec<&[u8]> = keys[at..at + 3].iter().map(String::as_bytes).collect();
                assert_eq!(found, expected);
            }
        });
        reads.push(read as f64 / count as f64);
        if policy == BITS {
            let scans = db.stats().scans;
            let empty = scans.refuted + scans.in_vain;
            // A run in vain is read; 3 of 100 at most are.
            assert!(scans.in_vain * 100 < empty * 3, "{scans:?}");
            assert!(range_stats(&db).iter().all(|one| one.refutes > 0.9));
        }
    }
    // Three keys lie in about 2.6 runs of eight, and some ranges go over the end of a block.
    assert!(reads[0] > 8.0, "{reads:?}");
    assert!(reads[1] < 3.2, "{reads:?}");
}

/// Without an upper bound: the next entries of one run say how far the others have to be looked at.
#[test]
fn a_scan_without_end_opens_runs_when_it_comes_to_them() {
    let memory = Memory::new();
    // Seven small runs over a large one.
    let (db, mut keys) = store(&memory, BITS, (1, 20_000));
    for run in 0..7 {
        let mut batch = db.batch();
        for number in 0..100 {
            keys.push(key(1_000_000 + run * 1_000 + number));
            batch.put(keys.last().unwrap(), "new");
        }
        batch.commit().unwrap();
        db.flush().unwrap();
    }
    keys.sort();
    let scans = (0..keys.len() - 10).step_by(101);
    let count = scans.len() as u64;
    for backward in [false, true] {
        let read = blocks_read(&db, || {
            for at in scans.clone() {
                let range = &keys[at..at + 5];
                let found: Vec<_> = match backward {
                    false => db.range(&range[0]..).take(5).map(Result::unwrap).collect(),
                    true => db
                        .range(..=&range[4])
                        .rev()
                        .take(5)
                        .map(Result::unwrap)
                        .collect(),
                };
                let mut found: Vec<_> = found.iter().map(|(key, _)| key.to_vec()).collect();
                found.sort();
                assert!(
                    found
                        .iter()
                        .zip(range)
                        .all(|(found, key)| *found == key.as_bytes())
                );
            }
        });
        let reads = read as f64 / count as f64;
        assert!(reads < 1.8, "backward {backward}: {reads}");
    }
}

/// The account says of each run what a scan would meet.
#[test]
fn a_range_is_explained_run_by_run() {
    let memory = Memory::new();
    let (db, _) = store(&memory, BITS, (3, 2_000));
    db.put("zzz", "in the memtable").unwrap();
    let account = db.explain_range(key(3)..=key(3)).unwrap();
    let outcomes: Vec<_> = account.runs.iter().map(|step| step.outcome).collect();
    let (no, yes) = (RangeOutcome::Refuted, RangeOutcome::Entries);
    assert_eq!(outcomes, [no, no, yes], "{account}");
    assert_eq!((account.data_blocks(), account.block_reads()), (1, 1));
    let behind = db.explain_range("z"..).unwrap();
    assert_eq!(behind.memtables, 1);
    let is_outside = |step: &RangeStep| step.outcome == RangeOutcome::NoSegment;
    assert!(behind.runs.iter().all(is_outside), "{behind}");
    let all = db.explain_range(..).unwrap();
    assert_eq!(all.block_reads(), 3);
    assert!(
        all.to_string()
            .ends_with("asked for 3 data blocks, 3 read from storage")
    );
}

/// Deleted and overwritten keys: an older run's entry must not come back, and a newer one's must be
/// found, whichever run is asked first.
#[test]
fn tombstones_and_versions_count_as_keys() {
    let memory = Memory::new();
    let db = builder(&memory, BITS).open().unwrap();
    let mut model = BTreeMap::new();
    for run in 0..6_u64 {
        for number in 0..2_000 {
            let random = mix(KeyHash(run << 20 | number), 1);
            let key = key(random % 3_000);
            if random >> 60 < 5 {
                db.delete(&key).unwrap();
                model.remove(&key);
            } else {
                db.put(&key, run.to_string()).unwrap();
                model.insert(key, run.to_string());
            }
        }
        db.flush().unwrap();
    }
    for number in 0..3_000 {
        let key = key(number);
        let at = || key.clone()..=key.clone();
        let found: Vec<_> = db.range(at()).map(Result::unwrap).collect();
        let found = found.first().map(|(_, value)| value.to_vec());
        assert_eq!(
            found,
            model.get(&key).map(|value| value.as_bytes().to_vec()),
            "{key}"
        );
        let next = db
            .range(key.clone()..)
            .next()
            .map(|entry| entry.unwrap().0.to_vec());
        let expected = model
            .range(key.clone()..)
            .next()
            .map(|(key, _)| key.as_bytes().to_vec());
        assert_eq!(next, expected, "{key}");
        let last = db
            .range(..key.clone())
            .next_back()
            .map(|entry| entry.unwrap().0.to_vec());
        let expected = model
            .range(..key.clone())
            .next_back()
            .map(|(key, _)| key.as_bytes().to_vec());
        assert_eq!(last, expected, "{key}");
    }
    assert!(db.stats().scans.refuted > 3_000);
}

/// Versions of one key that go over several blocks: their range is never denied.
#[test]
fn versions_over_many_blocks_are_found() {
    let memory = Memory::new();
    let db = builder(&memory, RangeFilterPolicy::Bits { bits_per_key: 64.0 })
        .open()
        .unwrap();
    let mut snapshots = Vec::new();
    for version in 0..40_u32 {
        for key in ["a", "middle", "z"] {
            db.put(key, [version as u8; 700]).unwrap();
        }
        for number in 0..5 {
            db.put(format!("b{number}{version}"), "x").unwrap();
        }
        snapshots.push(db.snapshot());
    }
    db.flush().unwrap();
    assert_eq!(range_stats(&db).len(), 1);
    for (version, snapshot) in snapshots.iter().enumerate() {
        for key in ["a", "middle", "z"] {
            for (_, value) in snapshot.range(key..=key).map(Result::unwrap) {
                assert_eq!(value[0] as usize, version);
            }
            assert_eq!(snapshot.range(key..=key).count(), 1);
        }
    }
    assert!(db.verify(&mut |_, _| {}).unwrap().findings.is_empty());
}

#[test]
fn old_segments_get_filters_when_asked_and_keep_them() {
    let memory = Memory::new();
    let (db, keys) = store(&memory, RangeFilterPolicy::None, (3, 3_000));
    assert!(range_stats(&db).is_empty());
    db.close().unwrap();
    for residency in [FilterResidency::Pinned, FilterResidency::Shared] {
        let open = builder(&memory, BITS).filter_residency(residency);
        let db = open.open().unwrap();
        let rebuilt = db.rebuild_filters(.., |_, _| {}).unwrap().rebuilt;
        assert_eq!(
            rebuilt,
            if residency == FilterResidency::Pinned {
                3
            } else {
                0
            }
        );
        assert_eq!(range_stats(&db).len(), 3);
        let read = blocks_read(&db, || {
            for pair in keys.windows(2).step_by(3) {
                let number = |at: usize| u64::from_str_radix(&pair[at], 16).unwrap();
                let middle = format!("{:016x}", number(0).midpoint(number(1)));
                assert_eq!(db.range(&middle..=&middle).count(), 0);
            }
        });
        let ranges = keys.len() as f64 / 3.0;
        assert!((read as f64) < 0.1 * ranges, "{read} of {ranges}");
        assert!(db.verify(&mut |_, _| {}).unwrap().findings.is_empty());
        db.close().unwrap();
    }
    // The point filter goes on working from the new file, and by itself.
    let db = builder(&memory, RangeFilterPolicy::None).open().unwrap();
    assert!(keys.iter().all(|key| db.contains_key(key).unwrap()));
    assert_eq!(db.rebuild_filters(.., |_, _| {}).unwrap().rebuilt, 0);
    db.compact_all().unwrap().wait().unwrap();
    assert!(range_stats(&db).is_empty());
}

/// Keys that are so close together that ten bits tell nothing: the segment has none, and says so.
#[test]
fn a_filter_that_would_not_pay_is_not_written() {
    let memory = Memory::new();
    let db = builder(&memory, RangeFilterPolicy::Bits { bits_per_key: 4.0 })
        .open()
        .unwrap();
    let mut batch = db.batch();
    for folder in 0..300_u32 {
        for file in [
            "main.rs",
            "lib.rs",
            "mod.rs",
            "tests.rs",
            "a/b/c/d.txt",
            "a/b/c/e.txt",
        ] {
            let folder = mix(KeyHash((folder / 3).into()), 3) % 1_000;
            batch.put(
                format!("usr/share/doc/package-{folder:04}/src/{file}"),
                [b'x'; 100],
            );
        }
    }
    batch.commit().unwrap();
    db.flush().unwrap();
    let stats = range_stats(&db);
    if let Some(declined) = stats.first() {
        assert!(
            declined.refutes < 0.5 && declined.disk_bytes == 0,
            "{declined:?}"
        );
        assert!(
            db.stats()
                .to_string()
                .contains("no range filter: it would refute")
        );
    }
    assert_eq!(db.prefix("usr/share/doc/").count(), db.iter().count());
    assert_eq!(db.rebuild_filters(.., |_, _| {}).unwrap().rebuilt, 0);
}

/// Every byte of a range filter damaged: scans stay right, and the damage shows.
#[test]
fn a_damaged_range_filter_means_maybe() {
    let memory = Memory::new();
    let (db, keys) = store(&memory, BITS, (1, 700));
    let id = db.stats().segments().next().unwrap().id;
    let regions = db.inspect(id).unwrap().regions;
    db.close().unwrap();
    let name = format!("{id:06}.seg");
    let bytes = memory.bytes_of(&name).unwrap();
    let of_range = regions
        .iter()
        .filter(|region| region.name.starts_with("range"));
    let places: Vec<u64> = of_range
        .flat_map(|one| one.offset..one.offset + one.bytes)
        .collect();
    assert!(places.len() > 800, "{regions:?}");
    for at in places {
        for residency in [FilterResidency::Pinned, FilterResidency::Shared] {
            let image = memory.crash(Survivors::Everything);
            let mut damaged = bytes.clone();
            damaged[at as usize] ^= 1 << (at % 8);
            image.replace(&name, damaged);
            let db = builder(&image, BITS)
                .filter_residency(residency)
                .open()
                .unwrap();
            let what = format!("byte {at}, {residency:?}");
            for pair in keys.windows(2).step_by(50) {
                let found = db.range(&pair[0]..=&pair[1]).count();
                assert_eq!(found, 2, "{what}");
            }
            assert!(
                db.verify(&mut |_, _| {}).unwrap().findings.len() == 1,
                "{what}"
            );
            assert!(
                db.stats().to_string().contains("range filter DAMAGED"),
                "{what}"
            );
        }
    }
}

/// A part of the budget goes to range filters, more where scans ask more.
#[test]
fn a_budget_is_shared_by_what_is_asked() {
    let memory = Memory::new();
    let budget = FilterPolicy::Budget { bits_per_key: 20.0 };
    let of = |memory: &Memory| builder(memory, RangeFilterPolicy::Budget).filter(budget);
    let db = of(&memory).open().unwrap();
    let fill = |db: &Db, from: u64| {
        let mut batch = db.batch();
        (from..from + 5_000).for_each(|number| {
            batch.put(key(number), [b'x'; 50]);
        });
        batch.commit().unwrap();
        db.flush().unwrap();
    };
    fill(&db, 0);
    let bits = |db: &Db| range_stats(db)[0].bits_per_key;
    assert!((9.0..10.5).contains(&bits(&db)), "{}", bits(&db));
    for number in 0..2_000 {
        db.range(key(number + 100_000)..)
            .next()
            .transpose()
            .unwrap();
    }
    fill(&db, 5_000);
    assert!((14.0..15.5).contains(&bits(&db)), "{}", bits(&db));
    for number in 0..20_000 {
        db.get(key(number + 200_000)).unwrap();
    }
    fill(&db, 10_000);
    assert!((4.0..6.0).contains(&bits(&db)), "{}", bits(&db));
    let refusal = builder(&memory, RangeFilterPolicy::Budget)
        .open()
        .unwrap_err();
    assert!(refusal.to_string().contains("choose that"), "{refusal}");
}
