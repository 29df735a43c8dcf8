//! The numbers of `docs/filters.md` and of single pages in `docs/filters/`, as their tables:
//! `cargo test --release -p criba-filters --features lab --lib -- --ignored --nocapture tables`.
//!
//! Counts are the same on every run; times are the least of several runs. The table that every page
//! has is in `tables/pages.rs`.

#![expect(clippy::print_stdout, reason = "what is measured is to be read")]

mod pages;

use std::hint::black_box;
use std::time::Instant;

use super::{absent, fill, fill_from, keys, passes, passes_from, present};
use crate::{
    Blocked, Classic, Codec, Compressed, Cuckoo, Delete, Design, Ensemble, Fuse, Growth, Hashing,
    Hierarchical, Hybrid, Insert, KeyHash, Map, Membership, Partitioned, Peeled, Quotient,
    Scalable,
};

const KEYS: u64 = 100_000;
const TRIALS: u64 = 1_000_000;
const RATE: f64 = 1.0 / 128.0;

/// Nanoseconds of each of `count` steps, the least of five runs.
fn nanos(count: u64, mut run: impl FnMut()) -> f64 {
    let once = |_| {
        let start = Instant::now();
        run();
        start.elapsed().as_nanos() as f64 / count as f64
    };
    (0..5).map(once).fold(f64::INFINITY, f64::min)
}

fn lookup_nanos(filter: &impl Membership, key: fn(u64) -> [u8; 8]) -> f64 {
    nanos(KEYS, || {
        let found = (0..KEYS).filter(|i| filter.may_contain(&key(*i)));
        black_box(found.count());
    })
}

/// One line for a structure of `KEYS` keys: name, bits per key, these by log2(1/measured rate),
/// rates, times.
fn line<T: Membership>(name: &str, build: impl Fn() -> T) {
    let build_nanos = nanos(KEYS, || {
        black_box(build());
    });
    let filter = build();
    let rate = passes(&filter, TRIALS) as f64 / TRIALS as f64;
    let bits = filter.bits() as f64 / KEYS as f64;
    println!(
        "| {name} | {bits:.2} | {:.3} | {:.3} % | {:.3} % | {build_nanos:.0} | {:.0} | {:.0} |",
        bits / -rate.log2(),
        filter.expected_rate() * 100.0,
        rate * 100.0,
        lookup_nanos(&filter, present),
        lookup_nanos(&filter, absent),
    );
}

fn filled<T: Insert>(new: impl Fn() -> T) -> impl Fn() -> T {
    move || {
        let mut filter = new();
        fill(&mut filter, KEYS);
        filter
    }
}

#[test]
#[ignore = "prints"]
fn tables_of_all() {
    let growth = Growth {
        first_keys: 1_000,
        first_rate: RATE / 2.0,
        growth: 2.0,
        tightening: 0.5,
    };
    let all = keys(KEYS);
    let classic = || Classic::new(Design::for_rate(KEYS, RATE).unwrap()).unwrap();
    line("classic", filled(classic));
    line("blocked", filled(|| Blocked::new(KEYS, 10.5).unwrap()));
    line(
        "partitioned",
        filled(|| Partitioned::new(KEYS, RATE).unwrap()),
    );
    line(
        "ensemble of 2",
        filled(|| Ensemble::new(KEYS, 0.0884, RATE).unwrap()),
    );
    line(
        "compressed",
        filled(|| Compressed::new(KEYS, RATE).unwrap()),
    );
    line(
        "hybrid of 2",
        filled(|| Hybrid::new(KEYS, 0.0625, RATE).unwrap()),
    );
    line("scalable", filled(|| Scalable::new(growth).unwrap()));
    line(
        "hierarchical",
        filled(|| Hierarchical::new(KEYS, 0.125, RATE).unwrap()),
    );
    line("cuckoo", filled(|| Cuckoo::new(KEYS, RATE).unwrap()));
    line("quotient", filled(|| Quotient::new(KEYS, RATE).unwrap()));
    line("ribbon", || Map::set(&all, 7.0).unwrap());
    line("peeled", || Peeled::set(&all, 7).unwrap());
    line("binary fuse", || Fuse::set(&all, 7).unwrap());
}

#[test]
#[ignore = "prints"]
fn tables_of_hashing() {
    for hashing in [
        Hashing::Xxh3,
        Hashing::Double,
        Hashing::Enhanced,
        #[cfg(feature = "lab")]
        Hashing::Blake2b,
    ] {
        let design = Design::for_rate(KEYS, RATE).unwrap().hashed(hashing);
        line(hashing.name(), filled(|| Classic::new(design).unwrap()));
        let design = Design::for_rate(200, 1e-5).unwrap().hashed(hashing);
        let hits: u64 = (0..50)
            .map(|trial| {
                let mut filter = Classic::new(design).unwrap();
                fill_from(&mut filter, trial << 32, 200);
                passes_from(&filter, trial << 32, 40_000)
            })
            .sum();
        println!(
            "200 keys at {:.2e}: {:.2e}",
            design.rate(),
            hits as f64 / 2e6
        );
    }
}

#[test]
#[ignore = "prints"]
fn tables_of_compression() {
    for rate in [0.1, 0.05, 0.01, 0.001, 0.0001] {
        let mut filter = Compressed::new(KEYS, rate).unwrap();
        fill(&mut filter, KEYS);
        let raw = filter.raw_bytes() as f64;
        let share = |bytes: f64| bytes / raw;
        let zstd = filter.compressed_bytes(Codec::Zstd) as f64;
        #[cfg(feature = "lab")]
        let deflate = filter.compressed_bytes(Codec::Deflate) as f64;
        #[cfg(not(feature = "lab"))]
        let deflate = f64::NAN;
        // One plain filter whose bytes are those on the wire.
        let plain = Design::for_bits(KEYS, (zstd * 8.0) as u64).unwrap();
        println!(
            "| {rate} | {} | {:.3} | {:.3} | {:.3} | {:.3} | {:.2} | {:.4} % | {:.4} % |",
            filter.filter().design().probes,
            filter.filter().fill(),
            share(filter.entropy_bytes()),
            share(zstd),
            share(deflate),
            zstd * 8.0 / KEYS as f64,
            passes(&filter, TRIALS) as f64 / TRIALS as f64 * 100.0,
            plain.rate() * 100.0,
        );
    }
}

#[test]
#[ignore = "prints"]
fn tables_of_layers() {
    for (growth, tightening) in [(2.0, 0.5), (2.0, 0.8), (4.0, 0.5), (4.0, 0.8)] {
        let mut filter = Scalable::new(Growth {
            first_keys: 1_000,
            first_rate: 0.01,
            growth,
            tightening,
        })
        .unwrap();
        fill(&mut filter, KEYS);
        println!(
            "| {growth} | {tightening} | {} | {:.2} | {:.3} % | {:.3} % | {:.3} % |",
            filter.layers().len(),
            filter.bits() as f64 / KEYS as f64,
            filter.bound() * 100.0,
            filter.expected_rate() * 100.0,
            passes(&filter, TRIALS) as f64 / TRIALS as f64 * 100.0,
        );
    }
    for (rate, target) in [(0.1, 0.001), (0.03, 0.001), (0.25, 0.001)] {
        let mut all = Ensemble::new(KEYS, rate, target).unwrap();
        fill(&mut all, KEYS);
        let one = Design::for_bits(KEYS, all.bits()).unwrap();
        let mut single = Classic::new(one).unwrap();
        fill(&mut single, KEYS);
        let measured = |filter: &dyn Membership| {
            let hits = (0..TRIALS).filter(|i| filter.may_contain_hash(KeyHash::from(&absent(*i))));
            hits.count() as f64 / TRIALS as f64 * 100.0
        };
        println!(
            "| {} of {rate} | {:.2} | {:.4} % | {:.4} % | {:.0}, {:.0} | {:.0}, {:.0} |",
            all.filters().len(),
            all.bits() as f64 / KEYS as f64,
            measured(&all),
            measured(&single),
            lookup_nanos(&all, present),
            lookup_nanos(&all, absent),
            lookup_nanos(&single, present),
            lookup_nanos(&single, absent),
        );
    }
}

#[test]
#[ignore = "prints"]
fn tables_of_limits() {
    for fingerprint_bits in [4, 6, 8, 12, 16] {
        let loads: Vec<f64> = (0..10)
            .map(|trial| {
                let mut filter = Cuckoo::with_shape(13, fingerprint_bits).unwrap();
                let full = (trial << 32..).find(|i| filter.insert(&present(*i)).is_err());
                assert!(full.is_some());
                filter.load()
            })
            .collect();
        let least = loads.iter().copied().fold(1.0, f64::min);
        let mean = loads.iter().sum::<f64>() / 10.0;
        println!("| {fingerprint_bits} | {least:.4} | {mean:.4} |");
    }
    for percent in [50, 75, 85, 90, 94] {
        let count = (1 << 17) * percent / 100;
        let mut filter = Quotient::with_shape(17, 7).unwrap();
        fill(&mut filter, count);
        let churn = nanos(2_000, || {
            for i in count..count + 1_000 {
                filter.insert(&present(i)).unwrap();
            }
            for i in count..count + 1_000 {
                assert!(filter.remove(&present(i)));
            }
        });
        println!(
            "| {percent} % | {churn:.0} | {:.0} | {:.0} |",
            lookup_nanos(&filter, present),
            lookup_nanos(&filter, absent),
        );
    }
}

#[test]
#[ignore = "prints"]
fn tables_of_static_functions() {
    for count in [100, 1_000, 10_000, 100_000, 1_000_000] {
        let all = keys(count);
        let trials = (300_000 / count).clamp(1, 100);
        let tried = |attempts: &dyn Fn(&[[u8; 8]]) -> u32| -> f64 {
            let keys = |trial: u64| {
                (0..count)
                    .map(|i| present(trial << 32 | i))
                    .collect::<Vec<_>>()
            };
            let all: u32 = (0..trials).map(|trial| attempts(&keys(trial))).sum();
            f64::from(all) / trials as f64
        };
        let build = |build: &dyn Fn() -> u64| {
            nanos(count, || {
                black_box(build());
            })
        };
        let share = |bits: u64| bits as f64 / count as f64 / 8.0;
        println!(
            "| {count} | {:.3} | {:.3} | {:.3} | {:.2} | {:.2} | {:.0} | {:.0} | {:.0} |",
            share(Map::set(&all, 8.0).unwrap().bits()),
            share(Fuse::set(&all, 8).unwrap().bits()),
            share(Peeled::set(&all, 8).unwrap().bits()),
            tried(&|keys| Fuse::set(keys, 8).unwrap().attempts()),
            tried(&|keys| Peeled::set(keys, 8).unwrap().attempts()),
            build(&|| Map::set(&all, 8.0).unwrap().bits()),
            build(&|| Fuse::set(&all, 8).unwrap().bits()),
            build(&|| Peeled::set(&all, 8).unwrap().bits()),
        );
    }
}
