//! The tables of `docs/filters/`, the same for each structure, so that pages can be compared:
//! `cargo test --release -p criba-filters --features lab --lib -- --ignored --nocapture
//! tables_of_pages`.
//!
//! Counts only: they are the same on every run and every machine.

use super::super::{absent, fill, fill_from, keys, passes, passes_from};
use super::KEYS;
use crate::{
    Blocked, Classic, Compressed, Cuckoo, Design, Ensemble, Fuse, Growth, Hierarchical, Hybrid,
    Insert, Map, Membership, Partitioned, Peeled, Quotient, Scalable,
};

const RATES: [f64; 4] = [0.1, 0.01, 0.001, 0.0001];

/// Absent keys asked for: a million, or so many that a thousand pass by theory.
fn trials(rate: f64) -> u64 {
    ((1_000.0 / rate).round() as u64).max(1_000_000)
}

/// A rate in percent, with three digits that count, or four.
fn percent(rate: f64) -> String {
    let digits = (-(rate * 100.0).log10()).ceil().max(0.0) as usize + 2;
    format!("{:.digits$} %", rate * 100.0)
}

/// The table of a structure: a line for each rate that it is made for.
fn page<T: Membership>(name: &str, build: impl Fn(f64) -> T) {
    println!("\n{name}\n");
    println!(
        "| made for | bits per key | rate, theory | rate, from its fill | rate, measured | passed, of asked | bytes |"
    );
    println!("|---|---|---|---|---|---|---|");
    for rate in RATES {
        let filter = build(rate);
        let (expected, current) = (filter.expected_rate(), filter.current_rate());
        // Equal to the last bit: it has no fill of its own to tell another rate from.
        let current = if current.to_bits() == expected.to_bits() {
            "-".to_owned()
        } else {
            percent(current)
        };
        let trials = trials(rate);
        let passed = passes(&filter, trials);
        println!(
            "| {rate} | {:.2} | {} | {current} | {} | {passed} of {trials} | {} |",
            filter.bits() as f64 / KEYS as f64,
            percent(expected),
            percent(passed as f64 / trials as f64),
            filter.to_bytes().len(),
        );
    }
}

/// The table of a structure that takes keys one by one.
fn filled_page<T: Insert>(name: &str, new: impl Fn(f64) -> T) {
    page(name, |rate| {
        let mut filter = new(rate);
        fill(&mut filter, KEYS);
        filter
    });
}

/// The least number for which something holds that holds for all above it, too.
fn least(mut low: u64, mut high: u64, holds: impl Fn(u64) -> bool) -> u64 {
    while low < high {
        let middle = low.midpoint(high);
        if holds(middle) {
            high = middle;
        } else {
            low = middle + 1;
        }
    }
    low
}

/// As few lines as a blocked filter needs for a rate, as bits per key.
fn blocked_bits(rate: f64) -> f64 {
    let bits_per_key = |lines: u64| lines as f64 * 512.0 / KEYS as f64;
    let lines = least(200, 12_500, |lines| {
        Blocked::rate_for(KEYS, bits_per_key(lines)) <= rate
    });
    bits_per_key(lines)
}

/// As few bits as a filter needs that has this rate although it is made to be compressed.
fn compressed_bits(rate: f64) -> u64 {
    least(KEYS, 64 * KEYS, |bits| {
        let filter = Compressed::with_bits(KEYS, bits).unwrap();
        filter.filter().design().rate() <= rate
    })
}

/// Two filters made to be compressed, each of the square root of the rate.
fn hybrid_of_two(rate: f64) -> Hybrid {
    use std::f64::consts::LN_2;
    // One bit more than is needed, so that rounding does not ask for a third filter.
    let bits = compressed_bits(rate.sqrt()) + 1;
    let array_rate = (-(bits as f64) * LN_2 * LN_2 / KEYS as f64).exp();
    let filter = Hybrid::new(KEYS, array_rate, rate).unwrap();
    assert_eq!(filter.filters().len(), 2);
    filter
}

fn scalable(rate: f64) -> Scalable {
    let growth = Growth {
        first_keys: 1_000,
        first_rate: rate / 2.0,
        growth: 2.0,
        tightening: 0.5,
    };
    Scalable::new(growth).unwrap()
}

/// A front with about a quarter of the bits.
fn hierarchical(rate: f64) -> Hierarchical {
    Hierarchical::new(KEYS, rate.powf(0.25), rate).unwrap()
}

fn classic(rate: f64) -> Classic {
    Classic::new(Design::for_rate(KEYS, rate).unwrap()).unwrap()
}

/// Whole bits that check a key.
fn check_bits(rate: f64) -> u32 {
    (-rate.log2()).ceil() as u32
}

#[test]
#[ignore = "prints"]
fn tables_of_pages() {
    let all = keys(KEYS);
    filled_page("classic", classic);
    filled_page("blocked", |rate| {
        Blocked::new(KEYS, blocked_bits(rate)).unwrap()
    });
    filled_page("partitioned", |rate| Partitioned::new(KEYS, rate).unwrap());
    filled_page("ensemble", |rate| {
        Ensemble::new(KEYS, rate.sqrt(), rate).unwrap()
    });
    filled_page("compressed", |rate| {
        Compressed::with_bits(KEYS, compressed_bits(rate)).unwrap()
    });
    filled_page("hybrid", hybrid_of_two);
    filled_page("scalable", scalable);
    filled_page("hierarchical", hierarchical);
    filled_page("cuckoo", |rate| Cuckoo::new(KEYS, rate).unwrap());
    filled_page("quotient", |rate| Quotient::new(KEYS, rate).unwrap());
    page("bloomier", |rate| Map::set(&all, -rate.log2()).unwrap());
    page("peeled", |rate| {
        Peeled::set(&all, check_bits(rate)).unwrap()
    });
    page("fuse", |rate| Fuse::set(&all, check_bits(rate)).unwrap());
}

/// What a lookup of an absent key asks, in the filters of bits that stop early.
#[test]
#[ignore = "prints"]
fn tables_of_probes() {
    for rate in RATES {
        let mut one = classic(rate);
        fill(&mut one, KEYS);
        let read = (0..100_000).map(|i| u64::from(one.probes_read(&absent(i))));
        let mean = read.sum::<u64>() as f64 / 1e5;
        println!(
            "classic {rate}: {mean:.3} of {} probes",
            one.design().probes
        );
    }
    for rate in RATES {
        let mut two = hierarchical(rate);
        fill(&mut two, KEYS);
        let beyond = passes(two.front(), 100_000) as f64 / 1e5;
        println!(
            "hierarchical {rate}: front {:.2} bits per key, {} probes, back {:.2}, {}; {} of absent keys go on, by theory {}",
            two.front().bits() as f64 / KEYS as f64,
            two.front().design().probes,
            two.back().bits() as f64 / KEYS as f64,
            two.back().design().probes,
            percent(beyond),
            percent(two.front().expected_rate()),
        );
    }
    for rate in RATES {
        let mut layered = scalable(rate);
        fill(&mut layered, KEYS);
        println!("scalable {rate}: {} layers", layered.layers().len());
        let sparse = Compressed::with_bits(KEYS, compressed_bits(rate)).unwrap();
        println!(
            "compressed {rate}: {} probes",
            sparse.filter().design().probes
        );
        let lines = Blocked::new(KEYS, blocked_bits(rate)).unwrap();
        println!("blocked {rate}: {} probes", lines.probes());
    }
}

/// The mean over many sets of keys, beside that of a single filter: of cuckoo filters.
#[test]
#[ignore = "prints"]
fn tables_of_means() {
    const TRIALS: u64 = 20;
    for rate in RATES {
        let (mut passed, mut expected) = (0, 0.0);
        for trial in 1..=TRIALS {
            let mut filter = Cuckoo::new(KEYS, rate).unwrap();
            fill_from(&mut filter, trial << 32, KEYS);
            passed += passes_from(&filter, trial << 32, 1_000_000);
            expected += filter.expected_rate() * 1e6;
        }
        println!("cuckoo {rate}: {passed} pass where {expected:.0} should");
    }
}
