//! Filters alone: building and asking them, by kind and by size.

use std::hint::black_box;

use criba::filter::{
    Answer, BloomierBits, Build, Built, Filter, FilterSpec, KeyHash, Lookup, Place, build, hash_key,
};
use criterion::{BenchmarkId, Criterion, Throughput, criterion_group, criterion_main};

/// Keys of a segment: one that stays in the cache of a processor, and one that does not.
const SIZES: [u64; 2] = [10_000, 500_000];
const ENTRIES_PER_BLOCK: u64 = 32;
const ENTRIES_PER_GROUP: u64 = 4;

fn specs() -> [(&'static str, FilterSpec); 3] {
    let bits_per_key = 10.0;
    [
        ("bloom-10", FilterSpec::Bloom { bits_per_key }),
        (
            "bloomier-10",
            FilterSpec::Bloomier(BloomierBits::BitsPerKey(bits_per_key)),
        ),
        ("bloomier-slot", FilterSpec::Bloomier(BloomierBits::Slot)),
    ]
}

fn hashes(from: u64, count: u64) -> Vec<KeyHash> {
    (from..from + count)
        .map(|number| hash_key(1, &number.to_le_bytes()))
        .collect()
}

fn places(count: u64) -> Vec<Place> {
    let place = |nth: u64| Place {
        block: (nth / ENTRIES_PER_BLOCK) as u32,
        slot: (nth % ENTRIES_PER_BLOCK / ENTRIES_PER_GROUP) as u16,
    };
    (0..count).map(place).collect()
}

fn built(spec: FilterSpec, hashes: &[KeyHash], places: &[Place]) -> Built {
    build(&Build {
        spec,
        salt: 7,
        hashes,
        places,
        block_count: hashes.len().div_ceil(ENTRIES_PER_BLOCK as usize) as u32,
        max_slot: (ENTRIES_PER_BLOCK / ENTRIES_PER_GROUP - 1) as u16,
    })
}

fn ask(filter: &Filter, body: &[u64], hash: KeyHash) -> Answer {
    match filter.locate(hash) {
        Lookup::Answered(answer) => answer,
        Lookup::Window(window) => {
            let words = window.words();
            filter.answer(&window, &body[words.start as usize..words.end as usize])
        }
    }
}

fn building(criterion: &mut Criterion) {
    let mut group = criterion.benchmark_group("filter_build");
    group.sample_size(10);
    for count in SIZES {
        let (hashes, places) = (hashes(0, count), places(count));
        group.throughput(Throughput::Elements(count));
        for (name, spec) in specs() {
            group.bench_function(BenchmarkId::new(name, count), |bencher| {
                bencher.iter(|| built(spec, &hashes, &places));
            });
        }
    }
}

fn asking(criterion: &mut Criterion) {
    let mut group = criterion.benchmark_group("filter_ask");
    for count in SIZES {
        let present = hashes(0, count);
        let absent = hashes(count, count);
        for (name, spec) in specs() {
            let built = built(spec, &present, &places(count));
            let Ok(filter) = Filter::parse(built.kind, &built.header, built.body.len() as u64)
            else {
                panic!("a filter just built cannot be read");
            };
            for (kind, hashes) in [("present", &present), ("absent", &absent)] {
                let mut at = 0;
                group.bench_function(
                    BenchmarkId::new(format!("{name}-{kind}"), count),
                    |bencher| {
                        bencher.iter(|| {
                            // Strides that visit all of them, none near the one before.
                            at = (at + 7919) % hashes.len();
                            black_box(ask(&filter, &built.body, hashes[at]))
                        });
                    },
                );
            }
        }
    }
}

criterion_group!(benches, building, asking);
criterion_main!(benches);
