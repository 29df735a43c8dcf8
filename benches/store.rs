//! A store in memory, through its public face: what a put, a lookup, a scan and a merge cost without
//! any file.

use std::cell::Cell;
use std::hint::black_box;
use std::sync::Arc;

use criba::storage::Memory;
use criba::{Compaction, Db, Durability};
use criterion::{BatchSize, Criterion, Throughput, criterion_group, criterion_main};

const KEYS: u64 = 100_000;
const VALUE: [u8; 100] = [b'v'; 100];
/// Nothing is flushed unless asked for.
const MEMTABLE_BYTES: u64 = 1 << 30;

fn key(number: u64) -> [u8; 16] {
    let mut key = *b"user000000000000";
    // Odd: a permutation, so that neighbours are far apart.
    let mixed = number.wrapping_mul(0x9E37_79B9_7F4A_7C15);
    key[4..12].copy_from_slice(&mixed.to_le_bytes());
    key
}

fn open() -> criba::Result<Db> {
    Db::builder("memory")
        .storage(Arc::new(Memory::new()))
        .memtable_bytes(MEMTABLE_BYTES)
        .compaction(Compaction::Manual)
        .open()
}

fn filled() -> criba::Result<Db> {
    let db = open()?;
    for number in 0..KEYS {
        db.put(key(number), VALUE)?;
    }
    Ok(db)
}

/// The next number, none near the one before.
fn next(at: &Cell<u64>) -> u64 {
    at.set((at.get() + 7919) % KEYS);
    at.get()
}

fn puts(criterion: &mut Criterion) {
    let mut group = criterion.benchmark_group("put");
    group.throughput(Throughput::Elements(KEYS)).sample_size(10);
    for (name, durability) in [
        ("buffered", Durability::Buffered),
        ("process", Durability::Process),
    ] {
        group.bench_function(name, |bencher| {
            let setup = || open().expect("a store in memory opens");
            bencher.iter_batched(
                setup,
                |db| {
                    for number in 0..KEYS {
                        db.put_with(key(number), VALUE, durability)
                            .expect("memory takes it");
                    }
                    db
                },
                BatchSize::PerIteration,
            );
        });
    }
}

fn gets(criterion: &mut Criterion) {
    let db = filled().expect("a store in memory opens");
    let at = Cell::new(0);
    let mut group = criterion.benchmark_group("get");
    let mut both = |state: &str| {
        group.bench_function(format!("{state}-present"), |bencher| {
            bencher.iter(|| black_box(db.get(key(next(&at))).expect("memory can be read")));
        });
        group.bench_function(format!("{state}-absent"), |bencher| {
            bencher.iter(|| black_box(db.get(key(KEYS + next(&at))).expect("memory can be read")));
        });
    };
    both("memtable");
    db.flush().expect("memory takes it");
    both("segment");
    // For 64 keys each.
    for (name, from) in [("many-present", 0), ("many-absent", KEYS)] {
        group.bench_function(name, |bencher| {
            let keys = || -> [[u8; 16]; 64] { std::array::from_fn(|_| key(from + next(&at))) };
            bencher.iter(|| black_box(db.get_many(&keys()).expect("memory can be read")));
        });
    }
    group.finish();
    criterion.bench_function("scan_100", |bencher| {
        bencher.iter(|| {
            db.range(key(next(&at))..)
                .take(100)
                .filter(Result::is_ok)
                .count()
        });
    });
}

fn merges(criterion: &mut Criterion) {
    let mut group = criterion.benchmark_group("merge");
    group.throughput(Throughput::Elements(KEYS)).sample_size(10);
    let four_runs = || {
        let db = open().expect("a store in memory opens");
        for number in 0..KEYS {
            db.put(key(number), VALUE).expect("memory takes it");
            if number % (KEYS / 4) == KEYS / 4 - 1 {
                db.flush().expect("memory takes it");
            }
        }
        db
    };
    group.bench_function("four_runs", |bencher| {
        bencher.iter_batched(
            four_runs,
            |db| {
                let job = db.compact_all().expect("nothing is in the way");
                job.wait().expect("memory takes it");
                db
            },
            BatchSize::PerIteration,
        );
    });
}

criterion_group!(benches, puts, gets, merges);
criterion_main!(benches);
