//! Filters made of filters: ensembles, a small one before a large one, compressed, growing.

use criba_filters::formulas::entropy;
use criba_filters::{
    Classic, Codec, Compressed, Design, Ensemble, Growth, Hierarchical, Hybrid, Insert, Membership,
    Scalable,
};

use crate::exit::Failure;
use crate::lab::bench::{Bench, Key, made};
use crate::lab::outcome::{Axes, FALSE_POSITIVES, INSERT, LOOKUP, Outcome, Quantity, Subject};
use crate::lab::sets::{fill, lookup_time, passing};

/// Bounds of measured rates: products of rates are off by more than one.
const SLACK: f64 = 0.15;

/// Measures rate and times of a set that is made for these keys. What is timed of insertion is the whole
/// way from nothing to the filled set.
fn measure<T: Insert>(
    bench: &Bench,
    outcome: &mut Outcome,
    subject: Subject,
    make: impl Fn() -> Result<T, Failure>,
    (keys, absent): (&[Key], &[Key]),
) -> Result<(), Failure> {
    let mut set = make()?;
    let insert = bench.time(keys.len() as u64, || {
        set = make()?;
        fill(&mut set, keys)
    })?;
    let subject = subject.bits(set.bits() as f64, keys.len() as u64);
    let rates = (set.expected_rate(), passing(&set, absent));
    outcome.share(
        &subject,
        FALSE_POSITIVES,
        rates,
        (absent.len() as u64, SLACK),
    );
    outcome.measured(&subject, INSERT, insert);
    outcome.measured(&subject, LOOKUP, lookup_time(bench, &set, absent)?);
    let present = Quantity::number("lookup of present ns");
    outcome.measured(&subject, present, lookup_time(bench, &set, keys)?);
    Ok(())
}

/// Several filters that must all agree against one of the same memory.
pub(crate) fn ensemble(bench: &Bench) -> Result<Outcome, Failure> {
    let mut outcome = Outcome::default();
    let (keys, absent) = (bench.present(bench.keys), bench.absent());
    for target in [0.01, 0.001] {
        for rate in [0.5, 0.1] {
            let make = || made(Ensemble::new(bench.keys, rate, target));
            let set = make()?;
            let (bits, filters) = (set.bits(), set.filters().len() as u64);
            let subject = |name: &str, filters: u64| {
                let subject = Subject::new(name)
                    .with("target", target)
                    .with("rate of one", rate);
                subject.with("filters", filters)
            };
            let one = subject("ensemble", filters);
            measure(bench, &mut outcome, one, make, (&keys, &absent))?;
            let design = made(Design::for_bits(bench.keys, bits))?;
            let make = || made(Classic::new(design));
            let one = subject("one filter", 1);
            measure(bench, &mut outcome, one, make, (&keys, &absent))?;
        }
    }
    outcome.bars(FALSE_POSITIVES);
    outcome.note("each row \"one filter\" has the memory of the ensemble above it");
    Ok(outcome)
}

/// A small filter in front of a large one.
pub(crate) fn hierarchical(bench: &Bench) -> Result<Outcome, Failure> {
    let mut outcome = Outcome::default();
    let (keys, absent) = (bench.present(bench.keys), bench.absent());
    let rate = 0.001;
    for front in [0.5, 0.25, 0.1, 0.03] {
        let make = || made(Hierarchical::new(bench.keys, front, rate));
        let subject = Subject::new("hierarchical").with("front rate", front);
        measure(bench, &mut outcome, subject, make, (&keys, &absent))?;
    }
    let design = made(Design::for_rate(bench.keys, rate))?;
    let make = || made(Classic::new(design));
    let subject = Subject::new("one filter");
    measure(bench, &mut outcome, subject, make, (&keys, &absent))?;
    outcome.plot(LOOKUP, "front rate", Axes::None);
    outcome.note("all made for a rate of 0.001 together");
    Ok(outcome)
}

const OF_RAW: Quantity = Quantity::rate("of raw size");

/// Sparse filters and what compressors make of them, against the entropy of their bits.
pub(crate) fn compressed(bench: &Bench) -> Result<Outcome, Failure> {
    let mut outcome = Outcome::default();
    let (keys, absent) = (bench.present(bench.keys), bench.absent());
    for rate in [0.1, 0.01, 0.001] {
        let mut set = made(Compressed::new(bench.keys, rate))?;
        fill(&mut set, &keys)?;
        let raw = set.raw_bytes() as f64;
        let share = set.filter().fill();
        let own = (set.expected_rate(), passing(&set, &absent));
        for (name, bytes) in [
            ("zstd", set.compressed_bytes(Codec::Zstd) as f64),
            ("deflate", set.compressed_bytes(Codec::Deflate) as f64),
        ] {
            let subject = Subject::new(name)
                .with("raw bits of rate", rate)
                .with("probes", set.filter().design().probes)
                .with("fill", (share * 1000.0).round() / 1000.0)
                .bits(bytes * 8.0, bench.keys);
            // No code for independent bits is below their entropy; what compressors add is little.
            let bound = entropy(share);
            outcome.compared(&subject, OF_RAW, (bound, bytes / raw), (bound * 0.99, 1.01));
            outcome.share(&subject, FALSE_POSITIVES, own, (bench.keys, SLACK));
        }
        // The filter that has the same rate in the fewest bits, none of which a compressor can save.
        let plain = made(Design::for_rate(bench.keys, own.0))?;
        let mut best = made(Classic::new(plain))?;
        fill(&mut best, &keys)?;
        let subject = Subject::new("classic of that rate")
            .with("raw bits of rate", rate)
            .with("probes", plain.probes)
            .with("fill", (best.fill() * 1000.0).round() / 1000.0)
            .bits(best.bits() as f64, bench.keys);
        let rates = (best.expected_rate(), passing(&best, &absent));
        outcome.share(&subject, FALSE_POSITIVES, rates, (bench.keys, SLACK));
    }
    let mut hybrid = made(Hybrid::new(bench.keys, 0.1, 0.001))?;
    fill(&mut hybrid, &keys)?;
    let bytes: u64 = hybrid
        .filters()
        .iter()
        .map(|one| one.compressed_bytes(Codec::Zstd))
        .sum();
    let subject = Subject::new(format!("hybrid of {}, zstd", hybrid.filters().len()))
        .with("raw bits of rate", 0.1)
        .bits(bytes as f64 * 8.0, bench.keys);
    let rates = (hybrid.expected_rate(), passing(&hybrid, &absent));
    outcome.share(&subject, FALSE_POSITIVES, rates, (bench.keys, SLACK));
    outcome.note(format!(
        "expected of the raw size is the entropy of the fill: {:.3} bits per bit at a third, so a ratio \
         near 0.25 cannot be had",
        entropy(1.0 / 3.0)
    ));
    outcome.note("bits per key are those on the wire; in memory the filter takes the raw bits");
    Ok(outcome)
}

/// Layers that are added as keys come, up to a hundred times the keys of the first.
pub(crate) fn scalable(bench: &Bench) -> Result<Outcome, Failure> {
    let mut outcome = Outcome::default();
    let (keys, absent) = (bench.present(bench.keys), bench.absent());
    for growth in [2.0, 4.0] {
        let (first_rate, tightening) = (0.001, 0.9);
        let rule = Growth {
            first_keys: (bench.keys / 100).max(1),
            first_rate,
            growth,
            tightening,
        };
        let mut set = made(Scalable::new(rule))?;
        let mut done = 0;
        for percent in [1, 3, 10, 30, 100] {
            let count = (bench.keys * percent / 100) as usize;
            fill(&mut set, &keys[done..count])?;
            done = count;
            let subject = Subject::new(format!("scalable, growth {growth}"))
                .with("keys", count as u64)
                .with("layers", set.layers().len() as u64)
                .bits(set.bits() as f64, count as u64);
            let measured = passing(&set, &absent);
            let trials = absent.len() as u64;
            outcome.at_most_share(&subject, FALSE_POSITIVES, (set.bound(), measured), trials);
            let time = lookup_time(bench, &set, &absent)?;
            outcome.measured(&subject, LOOKUP, time);
        }
    }
    outcome.plot(FALSE_POSITIVES, "keys", Axes::Both);
    outcome.note(
        "first layer for a hundredth of the keys at 0.001, each next at 0.9 of the rate: expected is the \
         bound p0 / (1 - r), whatever comes",
    );
    Ok(outcome)
}
