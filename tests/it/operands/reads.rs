//! What a lookup of operands reads, in counts.

use std::sync::Arc;

use criba::operator::Add;
use criba::sim::Memory;
use criba::storage::ReadCause;
use criba::{BloomierBits, Db, FilterPolicy, Io};

const KEYS: u64 = 2000;

fn key(n: u64) -> String {
    format!("key{n:09}")
}

fn open(memory: &Memory, cache_bytes: u64, bits: BloomierBits) -> Db {
    Db::builder("operands")
        .storage(Arc::new(memory.clone()))
        .compaction(criba::Compaction::Manual)
        .filter(FilterPolicy::Bloomier(bits))
        .operator(Add::u64())
        .cache_bytes(cache_bytes)
        .io(Io::Pread)
        .open()
        .unwrap()
}

/// Runs of operands of all keys on a run of values or on nothing.
fn filled(runs: u64, bits: BloomierBits, cache_bytes: u64) -> Db {
    let db = open(&Memory::new(), cache_bytes, bits);
    for run in 0..runs {
        for n in 0..KEYS {
            match run {
                0 => db.put(key(n), n.to_le_bytes()).unwrap(),
                _ => db.merge(key(n), run.to_le_bytes()).unwrap(),
            }
        }
        db.flush().unwrap();
    }
    assert_eq!(db.stats().runs.len() as u64, runs);
    db
}

fn read_all(db: &Db, runs: u64) -> u64 {
    let before = db.stats().reads;
    for n in 0..KEYS {
        let expected = n + (1..runs).sum::<u64>();
        assert_eq!(
            Add::to_u64(&db.get(key(n)).unwrap().unwrap()),
            Some(expected)
        );
    }
    db.stats().reads.since(&before).get(ReadCause::Data).calls
}

/// One read for each run that has operands of the key, and one for the value.
#[test]
fn operands_cost_a_read_for_each_run_that_has_some() {
    for bits in [BloomierBits::Block, BloomierBits::Slot] {
        for runs in [1, 2, 5, 14] {
            let db = filled(runs, bits, 0);
            assert_eq!(read_all(&db, runs), runs * KEYS, "{bits:?}, {runs} runs");
            let lookups = db.stats().lookups;
            assert_eq!(lookups.segment_hits, KEYS);
            assert_eq!(lookups.reads_per_hit(), Some(runs as f64));
            // An absent key still costs next to nothing.
            let before = db.stats().reads;
            for n in 0..KEYS {
                assert_eq!(db.get(key(n) + "?").unwrap(), None);
            }
            let absent = db.stats().reads.since(&before).get(ReadCause::Data).calls;
            assert!(absent < KEYS * runs / 10, "{absent} reads of {runs} runs");
            db.compact_all().unwrap().wait().unwrap();
            assert_eq!(read_all(&db, runs), KEYS, "a merge leaves a value");
        }
    }
}

/// Snapshots keep several entries of a key in one segment: they are found with the block.
#[test]
fn operands_of_one_segment_cost_one_read() {
    for bits in [BloomierBits::Block, BloomierBits::Slot] {
        let db = open(&Memory::new(), 0, bits);
        let mut snapshots = Vec::new();
        for round in 0..3_u64 {
            for n in 0..KEYS {
                db.merge(key(n), (n + round).to_le_bytes()).unwrap();
            }
            snapshots.push(db.snapshot());
        }
        db.flush().unwrap();
        let entries: u64 = db.stats().segments().map(|one| one.entries).sum();
        assert_eq!(entries, 3 * KEYS);
        let before = db.stats().reads;
        for n in 0..KEYS {
            let value = db.get(key(n)).unwrap().unwrap();
            assert_eq!(Add::to_u64(&value), Some(3 * n + 3));
            let value = snapshots[1].get(key(n)).unwrap().unwrap();
            assert_eq!(Add::to_u64(&value), Some(2 * n + 1));
        }
        let reads = db.stats().reads.since(&before).get(ReadCause::Data).calls;
        let blocks: u64 = db.stats().segments().map(|one| one.blocks).sum();
        // Some keys lie across the end of a block.
        assert!(
            reads <= 2 * (KEYS + blocks),
            "{reads} reads, {blocks} blocks"
        );
    }
}

/// Entries by themselves, groups and blocks are kept as those of values are.
#[test]
fn what_is_kept_of_operands_is_what_was_read() {
    for cache_bytes in [40_000, 1 << 20] {
        let db = filled(3, BloomierBits::Slot, cache_bytes);
        for _ in 0..4 {
            read_all(&db, 3);
        }
        let snapshot = db.snapshot();
        for n in 0..KEYS {
            db.merge(key(n), 100_u64.to_le_bytes()).unwrap();
        }
        let second = db.snapshot();
        for n in 0..KEYS {
            db.merge(key(n), 1000_u64.to_le_bytes()).unwrap();
        }
        db.flush().unwrap();
        for _ in 0..4 {
            for n in (0..KEYS).map(|n| n * 1237 % KEYS) {
                let at = |value: criba::Slice| Add::to_u64(&value).unwrap();
                assert_eq!(at(snapshot.get(key(n)).unwrap().unwrap()), n + 3);
                assert_eq!(at(second.get(key(n)).unwrap().unwrap()), n + 103);
                assert_eq!(at(db.get(key(n)).unwrap().unwrap()), n + 1103);
            }
        }
    }
}
