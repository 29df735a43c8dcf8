//! A store, through its public face: what a put costs in the memtable and in the journal, a lookup in
//! memtable, segment and block, a scan and a merge. Without any file but for the journal, which is
//! measured in one too.
//!
//! `cargo bench --bench store`, or a part of it: `cargo bench --bench store -- block`.

use std::cell::Cell;
use std::hint::black_box;
use std::path::Path;
use std::sync::Arc;

use criba::sim::Memory;
use criba::{Builder, Compaction, Db, Durability, FilterPolicy};
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

fn builder(dir: &Path) -> Builder {
    Db::builder(dir)
        .memtable_bytes(MEMTABLE_BYTES)
        .compaction(Compaction::Manual)
}

fn in_memory() -> Builder {
    builder(Path::new("memory")).storage(Arc::new(Memory::new()))
}

fn open() -> criba::Result<Db> {
    in_memory().open()
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
    let all = |db: Db, durability| {
        for number in 0..KEYS {
            let put = db.put_with(key(number), VALUE, durability);
            put.expect("there is room for it");
        }
        db
    };
    // The memtable and little else, and each put appended to a journal.
    for (name, durability) in [
        ("memtable", Durability::Buffered),
        ("journal-in-memory", Durability::Process),
    ] {
        group.bench_function(name, |bencher| {
            let setup = || open().expect("a store in memory opens");
            bencher.iter_batched(setup, |db| all(db, durability), BatchSize::PerIteration);
        });
    }
    group.bench_function("journal-in-file", |bencher| {
        let setup = || {
            let dir = tempfile::tempdir().expect("there is a place for temporary files");
            (builder(dir.path()).open().expect("a store opens"), dir)
        };
        let put = |(db, dir)| (all(db, Durability::Process), dir);
        bencher.iter_batched(setup, put, BatchSize::PerIteration);
    });
}

/// Lookups in a segment of one block, without a filter: what is more in a larger block, or one of fewer
/// groups, is its search.
fn blocks(criterion: &mut Criterion) {
    let mut group = criterion.benchmark_group("block");
    for (keys, entries_per_group) in [(30, 4), (30, 16), (500, 4), (500, 16)] {
        let db = in_memory()
            .block_bytes(64 << 10)
            .entries_per_group(entries_per_group)
            .filter(FilterPolicy::None)
            .open()
            .expect("a store in memory opens");
        // Of each two keys the second is absent.
        let pairs: Vec<[String; 2]> = (0..keys)
            .map(|number| [format!("user{number:06}"), format!("user{number:06}-")])
            .collect();
        for [present, _] in &pairs {
            db.put(present, VALUE).expect("memory takes it");
        }
        db.flush().expect("memory takes it");
        for (name, which) in [("present", 0), ("absent", 1)] {
            let at = Cell::new(0);
            let name = format!("{keys}-keys-by-{entries_per_group}-{name}");
            group.bench_function(name, |bencher| {
                bencher.iter(|| {
                    at.set((at.get() + 17) % keys);
                    let found = db.get(&pairs[at.get()][which]);
                    black_box(found.expect("memory can be read"))
                });
            });
        }
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
            bencher.iter(|| black_box(db.get_many(keys()).expect("memory can be read")));
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

criterion_group!(benches, puts, gets, blocks, merges);
criterion_main!(benches);
