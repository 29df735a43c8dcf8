//! The second moment of a stream: tug of war against the rows of a count sketch.

use criba_filters::{CountSketch, Sketch as _, TugOfWar};

use crate::exit::Failure;
use crate::lab::bench::{Bench, made};
use crate::lab::outcome::{INSERT, Outcome, Quantity, Subject};
use crate::lab::zipf::{Stream, hash};

const ERROR: Quantity = Quantity::rate("relative error");

/// The error asked for, and how often it may be larger.
const EPSILON: f64 = 0.1;
const DELTA: f64 = 0.01;

/// Draws whose insertion is timed.
const TIMED: usize = 2000;

pub(crate) fn run(bench: &Bench) -> Result<Outcome, Failure> {
    let mut outcome = Outcome::default();
    for exponent in [0.0, 0.8, 1.2, 1.6] {
        let stream = Stream::new(bench, exponent);
        let mut tug = made(TugOfWar::with_error(EPSILON, DELTA))?;
        let (width, means) = tug.shape();
        let mut rows = made(CountSketch::with_shape(width, means))?;
        for (key, count) in &stream.counts {
            let hash = hash(bench, &bench.key(*key));
            tug.add(hash, *count as i64);
            rows.add(hash, *count as i64);
        }
        let exact = stream.second_moment();
        let subject = |name: &str, bytes: usize| {
            let subject = Subject::new(name)
                .with("exponent", exponent)
                .with("width", width)
                .with("rows", u32::from(means));
            subject.bits(bytes as f64 * 8.0, stream.distinct())
        };
        let error = |estimate: f64| (estimate / exact - 1.0).abs();
        let hashes: Vec<_> = stream.hashes(bench).take(TIMED).collect();
        let one = subject("tug of war", tug.memory_bytes());
        outcome.at_most(&one, ERROR, (EPSILON, error(tug.estimate())));
        let time = bench.time(hashes.len() as u64, || {
            hashes.iter().for_each(|hash| tug.insert(*hash));
            Ok(())
        })?;
        outcome.measured(&one, INSERT, time);
        let one = subject("count sketch", rows.memory_bytes());
        outcome.at_most(&one, ERROR, (EPSILON, error(rows.second_moment())));
        let time = bench.time(hashes.len() as u64, || {
            hashes.iter().for_each(|hash| rows.insert(*hash));
            Ok(())
        })?;
        outcome.measured(&one, INSERT, time);
    }
    outcome.note(format!(
        "expected is the error that is exceeded with a probability of at most {DELTA}; the second moment \
         is the sum of the squares of all counts"
    ));
    Ok(outcome)
}
