//! Filters by kind and size: nanoseconds per key to build them, and per lookup.
//!
//! `cargo bench --bench filters`, or a part of it: `cargo bench --bench filters -- lookup/memory`.
//! Lookups run *back to back*, where a processor works on several at a time, and *alone*, where each
//! ends before the next begins, as in a store that does other things in between.
#![cfg_attr(
    target_arch = "x86_64",
    expect(
        unsafe_code,
        reason = "the instruction that waits for all before it is declared so"
    )
)]

use std::hint::black_box;
use std::time::Duration;

use criba::BloomierBits;
use criba_filters::segment::{Answer, Build, Built, Filter, FilterSpec, Place, build};
use criba_filters::{KeyHash, hash_key};
use criterion::{BenchmarkId, Criterion, Throughput};

/// Kinds and bits per key.
const SPECS: [(&str, FilterSpec); 6] = [
    ("bloom-10", FilterSpec::Bloom { bits_per_key: 10.0 }),
    ("bloom-14", FilterSpec::Bloom { bits_per_key: 14.0 }),
    ("bloomier-8", bloomier(8.0)),
    ("bloomier-10", bloomier(10.0)),
    ("bloomier-14", bloomier(14.0)),
    // What segments have unless something else is asked for.
    ("bloomier-slot", FilterSpec::Bloomier(BloomierBits::Slot)),
];
/// Keys of a filter that stays in the nearest caches, and of one that is built.
const FEW_KEYS: u64 = 10_000;
const MANY_KEYS: u64 = 1_000_000;
/// What the bodies take that lie in memory: more than the caches of most processors.
const MEMORY_BYTES: usize = 512 << 20;
/// Lookups of one measurement.
const PROBES: u64 = 8192;

const fn bloomier(bits: f64) -> FilterSpec {
    FilterSpec::Bloomier(BloomierBits::Rejecting(bits))
}

fn main() {
    let mut criterion = Criterion::default()
        .sample_size(20)
        .warm_up_time(Duration::from_millis(200))
        .measurement_time(Duration::from_secs(1))
        .configure_from_args();
    builds(&mut criterion);
    lookups_in_cache(&mut criterion);
    lookups_in_memory(&mut criterion);
    criterion.final_summary();
}

fn hashes(count: u64, seed: u64) -> Vec<KeyHash> {
    (0..count)
        .map(|i| hash_key(seed, &i.to_le_bytes()))
        .collect()
}

/// Keys of a block, and of a slot in it.
const BLOCK_KEYS: u64 = 40;
const SLOT_KEYS: u64 = 4;

fn places(count: u64) -> Vec<Place> {
    let place = |i| Place {
        block: (i / BLOCK_KEYS) as u32,
        slot: (i % BLOCK_KEYS / SLOT_KEYS) as u16,
    };
    (0..count).map(place).collect()
}

fn built(spec: FilterSpec, hashes: &[KeyHash], places: &[Place]) -> Built {
    build(&Build {
        spec,
        salt: 7,
        hashes,
        places,
        block_count: places.last().map_or(0, |last| last.block + 1),
        max_slot: (BLOCK_KEYS / SLOT_KEYS - 1) as u16,
    })
}

fn builds(criterion: &mut Criterion) {
    let mut group = criterion.benchmark_group("build");
    for count in [FEW_KEYS, MANY_KEYS] {
        let (hashes, places) = (hashes(count, 1), places(count));
        group.throughput(Throughput::Elements(count));
        for (name, spec) in SPECS {
            group.bench_function(BenchmarkId::new(name, count), |bencher| {
                bencher.iter(|| built(spec, black_box(&hashes), &places));
            });
        }
    }
    group.finish();
}

/// A filter, and copies of its body one after the other.
struct Subject {
    filter: Filter,
    bodies: Vec<u64>,
    /// Words before the first body, so that Bloom lines are cache lines, and from each to the next.
    skip: usize,
    stride: usize,
    body_words: usize,
    copies: u64,
}

impl Subject {
    fn new(spec: FilterSpec, keys: &[KeyHash], bodies_bytes: usize) -> Self {
        let built = built(spec, keys, &places(keys.len() as u64));
        let body_words = built.body.len();
        let filter = Filter::parse(built.kind, &built.header, body_words as u64);
        let filter = filter.expect("it was just built");
        let stride = body_words.next_multiple_of(8);
        let copies = (bodies_bytes / 8 / stride).max(1);
        let mut bodies = Vec::<u64>::with_capacity(copies * stride + 8);
        let skip = (64 - bodies.as_ptr().addr() % 64) % 64 / 8;
        bodies.resize(skip, 0);
        for copy in 1..=copies {
            bodies.extend(&built.body);
            bodies.resize(skip + copy * stride, 0);
        }
        Self {
            filter,
            bodies,
            skip,
            stride,
            body_words,
            copies: copies as u64,
        }
    }

    /// Asks each key in one of the copies and counts those that may be there.
    fn count(&self, keys: &[KeyHash], round: u64, between: impl Fn()) -> u64 {
        let mut count = 0;
        for &hash in keys {
            // Any spread will do, another one in each round.
            let copy = hash.0.wrapping_mul(round | 1) >> 32;
            let first = self.skip + ((copy * self.copies) >> 32) as usize * self.stride;
            let body = &self.bodies[first..first + self.body_words];
            count += u64::from(self.filter.ask(hash, body) != Answer::No);
            between();
        }
        count
    }
}

/// Waits until everything before is done, where the processor has an instruction for it.
fn wait() {
    #[cfg(target_arch = "x86_64")]
    // SAFETY: every processor of this kind has it, and it touches nothing.
    unsafe {
        std::arch::x86_64::_mm_lfence();
    }
}

fn lookups(criterion: &mut Criterion, where_to: &str, keys: u64, bodies_bytes: usize) {
    let keys = hashes(keys, 1);
    let probe = |i: u64| keys[(i.wrapping_mul(0x9e37_79b9_7f4a_7c15) % keys.len() as u64) as usize];
    let present: Vec<KeyHash> = (0..PROBES).map(probe).collect();
    let absent = hashes(PROBES, 2);
    let mut group = criterion.benchmark_group(format!("lookup/{where_to}"));
    group.throughput(Throughput::Elements(PROBES));
    for (name, spec) in SPECS {
        let subject = Subject::new(spec, &keys, bodies_bytes);
        let mut round = 0;
        for (which, probes) in [("present", &present), ("absent", &absent)] {
            group.bench_function(BenchmarkId::new(name, which), |bencher| {
                bencher.iter(|| {
                    round += 2;
                    subject.count(black_box(probes), round, || ())
                });
            });
            group.bench_function(
                BenchmarkId::new(name, format!("{which}-alone")),
                |bencher| {
                    bencher.iter(|| {
                        round += 2;
                        subject.count(black_box(probes), round, wait)
                    });
                },
            );
        }
    }
    group.finish();
}

fn lookups_in_cache(criterion: &mut Criterion) {
    lookups(criterion, "cache", FEW_KEYS, 0);
}

fn lookups_in_memory(criterion: &mut Criterion) {
    lookups(criterion, "memory", MANY_KEYS, MEMORY_BYTES);
}
