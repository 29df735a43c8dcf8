//! The keys that came most often: what space-saving and Misra-Gries find with so many counters.

use criba_filters::{MisraGries, SpaceSaving};

use crate::exit::Failure;
use crate::lab::bench::{Bench, Key, made};
use crate::lab::outcome::{INSERT, Outcome, Quantity, Subject};
use crate::lab::zipf::Stream;

const ERROR: Quantity = Quantity::count("largest error, counts");
const FOUND: Quantity = Quantity::rate("found of the top 10");

/// How many of the most frequent keys are asked for.
const TOP: usize = 10;

pub(crate) fn run(bench: &Bench) -> Result<Outcome, Failure> {
    let mut outcome = Outcome::default();
    for exponent in [0.6, 1.0, 1.4] {
        let ranked = Ranked::new(bench, &Stream::new(bench, exponent), exponent);
        for counters in [20, 100, 500] {
            ranked.space_saving(&mut outcome, counters)?;
            ranked.misra_gries(&mut outcome, counters)?;
        }
    }
    outcome.bars(ERROR);
    outcome.note(
        "expected is the bound: N / k with k counters, too high, for space-saving, and N / (k + 1), too \
         low, for Misra-Gries; 100 % of the top 10 are promised only where the tenth key comes more often \
         than that",
    );
    Ok(outcome)
}

/// A stream with its keys in the order of their counts.
struct Ranked<'a> {
    bench: &'a Bench,
    exponent: f64,
    keys: Vec<Key>,
    /// Counts and keys, the greatest first.
    order: Vec<(u64, Key)>,
}

impl<'a> Ranked<'a> {
    fn new(bench: &'a Bench, stream: &Stream, exponent: f64) -> Ranked<'a> {
        let mut order: Vec<(u64, u64)> = stream
            .counts
            .iter()
            .map(|(key, count)| (*count, *key))
            .collect();
        order.sort_unstable_by(|one, other| other.cmp(one));
        Ranked {
            bench,
            exponent,
            keys: stream.draws.iter().map(|key| bench.key(*key)).collect(),
            order: order
                .into_iter()
                .map(|(count, key)| (count, bench.key(key)))
                .collect(),
        }
    }

    fn space_saving(&self, outcome: &mut Outcome, counters: usize) -> Result<(), Failure> {
        let mut summary = made(SpaceSaving::with_counters(counters))?;
        let time = self.bench.time(self.keys.len() as u64, || {
            summary = made(SpaceSaving::with_counters(counters))?;
            self.keys.iter().for_each(|key| summary.insert(key));
            Ok(())
        })?;
        let subject = self.subject("space-saving", counters, summary.memory_bytes());
        let bound = self.keys.len() as f64 / counters as f64;
        let largest = self.largest_error(|key| summary.estimate(key).0);
        outcome.at_most(&subject, ERROR, (bound, largest));
        let top = summary.top(TOP);
        let found = self.found(top.iter().map(|counter| counter.key.as_slice()));
        outcome.measured(&subject, FOUND, found);
        outcome.measured(&subject, INSERT, time);
        Ok(())
    }

    fn misra_gries(&self, outcome: &mut Outcome, counters: usize) -> Result<(), Failure> {
        let mut summary = made(MisraGries::with_counters(counters))?;
        let time = self.bench.time(self.keys.len() as u64, || {
            summary = made(MisraGries::with_counters(counters))?;
            self.keys.iter().for_each(|key| summary.insert(key));
            Ok(())
        })?;
        let subject = self.subject("misra-gries", counters, summary.memory_bytes());
        let bound = self.keys.len() as f64 / (counters as f64 + 1.0);
        let largest = self.largest_error(|key| summary.estimate(key));
        outcome.at_most(&subject, ERROR, (bound, largest));
        let top = summary.top(TOP);
        let found = self.found(top.iter().map(|one| one.0.as_slice()));
        outcome.measured(&subject, FOUND, found);
        outcome.measured(&subject, INSERT, time);
        Ok(())
    }

    fn subject(&self, name: &str, counters: usize, bytes: usize) -> Subject {
        Subject::new(name)
            .with("exponent", self.exponent)
            .with("counters", counters as u64)
            .bits(bytes as f64 * 8.0, self.order.len() as u64)
    }

    fn largest_error(&self, estimate: impl Fn(&Key) -> u64) -> f64 {
        let errors = self
            .order
            .iter()
            .map(|(count, key)| estimate(key).abs_diff(*count));
        errors.max().unwrap_or(0) as f64
    }

    /// The share of the most frequent keys that is among these.
    fn found<'k>(&self, top: impl Iterator<Item = &'k [u8]>) -> f64 {
        // Keys that came as often as the tenth are as good as it.
        let tenth = self.order.get(TOP - 1).map_or(0, |one| one.0);
        let is_top = |key: &&[u8]| {
            let mut of_top = self.order.iter().take_while(|one| one.0 >= tenth);
            of_top.any(|one| one.1 == **key)
        };
        top.filter(is_top).count() as f64 / TOP as f64
    }
}
