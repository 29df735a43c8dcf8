//! The keys that came most often: what space-saving finds with so many counters.

use criba_filters::SpaceSaving;

use crate::exit::Failure;
use crate::lab::bench::{Bench, made};
use crate::lab::outcome::{INSERT, Outcome, Quantity, Subject};
use crate::lab::zipf::Stream;

const ERROR: Quantity = Quantity::count("largest error, counts");
const FOUND: Quantity = Quantity::rate("found of the top 10");

/// How many of the most frequent keys are asked for.
const TOP: usize = 10;

pub(crate) fn run(bench: &Bench) -> Result<Outcome, Failure> {
    let mut outcome = Outcome::default();
    for exponent in [0.6, 1.0, 1.4] {
        let stream = Stream::new(bench, exponent);
        for counters in [20, 100, 500] {
            measure(bench, &mut outcome, &stream, (exponent, counters))?;
        }
    }
    outcome.note(
        "expected is the bound N / counters; 100 % of the top 10 are promised only where the tenth key \
         comes more often than that",
    );
    Ok(outcome)
}

fn measure(
    bench: &Bench,
    outcome: &mut Outcome,
    stream: &Stream,
    (exponent, counters): (f64, usize),
) -> Result<(), Failure> {
    let keys: Vec<_> = stream.draws.iter().map(|key| bench.key(*key)).collect();
    let mut summary = made(SpaceSaving::with_counters(counters))?;
    let time = bench.time(keys.len() as u64, || {
        summary = made(SpaceSaving::with_counters(counters))?;
        keys.iter().for_each(|key| summary.insert(key));
        Ok(())
    })?;
    let mut order: Vec<(u64, u64)> = stream
        .counts
        .iter()
        .map(|(key, count)| (*count, *key))
        .collect();
    order.sort_unstable_by(|one, other| other.cmp(one));
    let largest = order.iter().map(|(count, key)| {
        let (found, _) = summary.estimate(bench.key(*key));
        found.abs_diff(*count)
    });
    let bound = keys.len() as f64 / counters as f64;
    let subject = Subject::new("space-saving")
        .with("exponent", exponent)
        .with("counters", counters as u64)
        .bits(summary.memory_bytes() as f64 * 8.0, stream.distinct());
    outcome.at_most(&subject, ERROR, (bound, largest.max().unwrap_or(0) as f64));
    let top = summary.top(TOP);
    // Keys that came as often as the tenth are as good as it.
    let tenth = order.get(TOP - 1).map_or(0, |one| one.0);
    let is_top = |key: &[u8]| {
        let mut of_top = order.iter().take_while(|one| one.0 >= tenth);
        of_top.any(|one| bench.key(one.1) == key)
    };
    let found = top.iter().filter(|counter| is_top(&counter.key)).count();
    outcome.measured(&subject, FOUND, found as f64 / TOP as f64);
    outcome.measured(&subject, INSERT, time);
    Ok(())
}
