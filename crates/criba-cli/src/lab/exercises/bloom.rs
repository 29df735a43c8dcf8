//! The Bloom filter of the textbook: fill, number of hash functions, memory, skew, wrong sizes.

use std::collections::BTreeSet;

use criba_filters::formulas::rate_for;
use criba_filters::{Classic, Design, Insert as _, Membership as _};

use crate::exit::Failure;
use crate::lab::bench::{Bench, made};
use crate::lab::outcome::{Axes, FALSE_POSITIVES, Outcome, Quantity, Subject};
use crate::lab::sets::{fill, passing};
use crate::lab::zipf::Zipf;

const COUNTED: Quantity = Quantity::count("keys by fill");

/// The rate that filters are made for.
const RATE: f64 = 0.01;

/// What double hashing and the independence that formulas assume are off by, as a part of the rate.
const SLACK: f64 = 0.06;

/// One filter that is filled to twice the keys it was made for.
pub(crate) fn by_fill(bench: &Bench) -> Result<Outcome, Failure> {
    let mut outcome = Outcome::default();
    let (keys, absent) = (bench.present(2 * bench.keys), bench.absent());
    let mut filter = made(Classic::new(made(Design::for_rate(bench.keys, RATE))?))?;
    let design = filter.design();
    for tenths in [2, 4, 6, 8, 10, 12, 14, 16, 18, 20] {
        let count = bench.keys * tenths / 10;
        let before = (bench.keys * (tenths - 2) / 10) as usize;
        fill(&mut filter, &keys[before..count as usize])?;
        let subject = Subject::new("classic")
            .with("load", tenths as f64 / 10.0)
            .bits(filter.bits() as f64, count);
        let expected = rate_for(design.bits, design.probes, count);
        let rates = (expected, passing(&filter, &absent));
        outcome.share(&subject, FALSE_POSITIVES, rates, (bench.keys, SLACK));
        let exact = count as f64;
        let bounds = (exact * 0.98 - 20.0, exact * 1.02 + 20.0);
        outcome.compared(&subject, COUNTED, (exact, filter.estimate()), bounds);
    }
    outcome.plot(FALSE_POSITIVES, "load", Axes::Vertical);
    outcome.note(format!(
        "made for a rate of {RATE} at load 1; keys by fill is -m/k ln(1 - X/m)"
    ));
    Ok(outcome)
}

/// All numbers of hash functions around the best one, for two sizes.
pub(crate) fn by_probes(bench: &Bench) -> Result<Outcome, Failure> {
    let mut outcome = Outcome::default();
    let (keys, absent) = (bench.present(bench.keys), bench.absent());
    for bits_per_key in [6, 10, 14] {
        let best = made(Design::for_bits(bench.keys, bench.keys * bits_per_key))?;
        for probes in 1..=14 {
            let mut filter = made(Classic::new(Design { probes, ..best }))?;
            fill(&mut filter, &keys)?;
            let subject = Subject::new(format!("classic, {bits_per_key} bits"))
                .with("probes", probes)
                .bits(filter.bits() as f64, bench.keys);
            let rates = (filter.expected_rate(), passing(&filter, &absent));
            outcome.share(&subject, FALSE_POSITIVES, rates, (bench.keys, SLACK));
        }
        outcome.note(format!(
            "{bits_per_key} bits per key: m/n ln 2 = {:.2}",
            bits_per_key as f64 * std::f64::consts::LN_2
        ));
    }
    outcome.plot(FALSE_POSITIVES, "probes", Axes::Vertical);
    Ok(outcome)
}

/// Half the memory, and half of that, with the best number of hash functions for each.
pub(crate) fn by_memory(bench: &Bench) -> Result<Outcome, Failure> {
    let mut outcome = Outcome::default();
    let (keys, absent) = (bench.present(bench.keys), bench.absent());
    for bits_per_key in [16.0, 8.0, 4.0, 2.0, 1.0] {
        let bits = (bench.keys as f64 * bits_per_key) as u64;
        let mut filter = made(Classic::new(made(Design::for_bits(bench.keys, bits))?))?;
        fill(&mut filter, &keys)?;
        let subject = Subject::new("classic")
            .with("bits", bits_per_key)
            .with("probes", filter.design().probes)
            .bits(filter.bits() as f64, bench.keys);
        let rates = (filter.expected_rate(), passing(&filter, &absent));
        outcome.share(&subject, FALSE_POSITIVES, rates, (bench.keys, SLACK));
    }
    outcome.plot(FALSE_POSITIVES, "bits", Axes::Vertical);
    outcome.note("half the memory makes the rate its square root, about: 0.6185^(bits per key)");
    Ok(outcome)
}

/// Keys put in once or again and again, asked alike or by Zipf's law.
pub(crate) fn by_skew(bench: &Bench) -> Result<Outcome, Failure> {
    let mut outcome = Outcome::default();
    let absent = bench.absent();
    for exponent in [0.0, 1.0, 1.5] {
        let draws = Zipf::new(bench.keys, exponent).draw(bench, bench.keys);
        let queries: Vec<_> = draws
            .iter()
            .map(|number| absent[*number as usize])
            .collect();
        let distinct = draws.iter().collect::<BTreeSet<_>>().len() as u64;
        let design = made(Design::for_rate(distinct, RATE))?;
        let mut filter = made(Classic::new(design))?;
        for number in &draws {
            made(filter.insert(&bench.key(*number)))?;
        }
        let expected = design.rate();
        let subject = Subject::new("classic")
            .with("exponent", exponent)
            .with("distinct", distinct)
            .bits(filter.bits() as f64, distinct);
        let rates = (expected, passing(&filter, &absent));
        outcome.share(&subject, FALSE_POSITIVES, rates, (bench.keys, SLACK));
        let of_queries = Quantity::rate("of skewed queries");
        outcome.measured(&subject, of_queries, passing(&filter, &queries));
    }
    outcome.note(
        "made for the distinct keys: repetition does not fill a filter. But where a few absent keys are \
         most of the queries, it is chance whether they pass, and then they pass each time",
    );
    Ok(outcome)
}

/// Filters made for a fifth fewer, as many, and a fifth more keys than come.
pub(crate) fn by_wrong_size(bench: &Bench) -> Result<Outcome, Failure> {
    let mut outcome = Outcome::default();
    let (keys, absent) = (bench.present(bench.keys), bench.absent());
    for rate in [0.1, 0.01, 0.001] {
        for percent in [80, 100, 120] {
            let made_for = bench.keys * percent / 100;
            let mut filter = made(Classic::new(made(Design::for_rate(made_for, rate))?))?;
            fill(&mut filter, &keys)?;
            let subject = Subject::new("classic")
                .with("made for rate", rate)
                .with("made for percent of keys", percent)
                .bits(filter.bits() as f64, bench.keys);
            let rates = (filter.expected_rate(), passing(&filter, &absent));
            outcome.share(&subject, FALSE_POSITIVES, rates, (bench.keys, SLACK));
        }
    }
    outcome.note("a fifth too few keys expected costs more than a fifth too many saves");
    Ok(outcome)
}
