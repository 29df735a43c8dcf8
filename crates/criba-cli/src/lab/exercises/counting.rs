//! Bloom filters that count: how often they count too high.

use criba_filters::{
    CountingBloom, Insert as _, KeyHash, LayeredBloom, Membership as _, Sketch as _, SpectralBloom,
};

use crate::exit::Failure;
use crate::lab::bench::{Bench, made};
use crate::lab::outcome::{Axes, Outcome, Quantity, Subject};
use crate::lab::zipf::{Stream, hash};

const TOO_HIGH: Quantity = Quantity::rate("counted too high");
const TOO_LOW: Quantity = Quantity::rate("counted too low");

/// The rate of false positives that all are made for.
const RATE: f64 = 0.01;

/// Most that layers count to.
const LAYERS: u64 = 8;

pub(crate) fn run(bench: &Bench) -> Result<Outcome, Failure> {
    let mut outcome = Outcome::default();
    for exponent in [0.0, 0.4, 0.8, 1.2, 1.6] {
        let stream = Stream::new(bench, exponent);
        let hashes: Vec<KeyHash> = stream.hashes(bench).collect();
        let distinct = stream.distinct();
        let mut counting = made(CountingBloom::with_rate(distinct, RATE))?;
        let mut spectral = made(SpectralBloom::with_rate(distinct, RATE))?;
        let mut layered = made(LayeredBloom::with_rate(RATE, &layer_sizes(&stream)))?;
        for hash in &hashes {
            made(counting.insert(hash))?;
            spectral.insert(hash);
            layered.insert(hash);
        }
        let subject = |name: &str, bytes: usize| {
            let subject = Subject::new(name).with("exponent", exponent);
            subject.bits(bytes as f64 * 8.0, distinct)
        };
        let counts = Counts {
            bench,
            stream: &stream,
        };
        let one = subject("counting", counting.bits() as usize / 8);
        counts.compare(&mut outcome, &one, (15, RATE), |key| {
            counting.estimate(key).into()
        });
        let one = subject("spectral", spectral.memory_bytes());
        counts.compare(&mut outcome, &one, (u64::MAX, RATE), |key| {
            spectral.estimate(key).into()
        });
        let one = subject("layered", layered.memory_bytes());
        let bound = layered_bound(&stream);
        counts.compare(&mut outcome, &one, (LAYERS, bound), |key| {
            layered.estimate(key).into()
        });
    }
    outcome.plot(TOO_HIGH, "exponent", Axes::None);
    outcome.note(
        "expected is a bound: for counting and spectral filters the rate they are made for, for layers \
         that each layer which a key is written to may hold it by chance",
    );
    outcome.note("counting filters count to 15, layers to 8; the share is that of keys below");
    Ok(outcome)
}

/// How many keys came at least once, at least twice, and so on.
fn layer_sizes(stream: &Stream) -> Vec<u64> {
    let at_least = |times| {
        stream
            .counts
            .values()
            .filter(|count| **count >= times)
            .count() as u64
    };
    (1..=LAYERS).map(at_least).collect()
}

/// The mean over all keys of the probability that one of the layers held a key when it came.
fn layered_bound(stream: &Stream) -> f64 {
    let one = |count: &u64| 1.0 - (1.0 - RATE).powi((*count).min(LAYERS) as i32);
    stream.counts.values().map(one).sum::<f64>() / stream.counts.len().max(1) as f64
}

struct Counts<'a> {
    bench: &'a Bench,
    stream: &'a Stream,
}

impl Counts<'_> {
    /// Compares estimates with counts, both up to `most`.
    fn compare(
        &self,
        outcome: &mut Outcome,
        subject: &Subject,
        (most, bound): (u64, f64),
        estimate: impl Fn(KeyHash) -> u64,
    ) {
        let (mut high, mut low) = (0_u64, 0_u64);
        for (key, count) in &self.stream.counts {
            let found = estimate(hash(self.bench, &self.bench.key(*key)));
            high += u64::from(found > (*count).min(most));
            low += u64::from(found < (*count).min(most));
        }
        let keys = self.stream.distinct().max(1) as f64;
        let trials = self.stream.distinct();
        outcome.at_most_share(subject, TOO_HIGH, (bound, high as f64 / keys), trials);
        outcome.at_most(subject, TOO_LOW, (0.0, low as f64 / keys));
    }
}
