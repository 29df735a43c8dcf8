//! Count-min over its width and depth: the error that is exceeded as seldom as theory says, beside the
//! bound, and how memory is best split.

use criba_filters::{CountMin, KeyHash, Sketch as _};

use crate::exit::Failure;
use crate::lab::bench::{Bench, made};
use crate::lab::outcome::{Axes, Outcome, Quantity, Subject};
use crate::lab::zipf::{Stream, hash};

const BEYOND: Quantity = Quantity::rate("beyond the bound");
const ERROR: Quantity = Quantity::number("error at that probability, counts");
const MEAN: Quantity = Quantity::number("mean error, counts");
const SPLIT: Quantity = Quantity::number("mean error in the same memory, counts");

/// Counters of the sketches whose rows are changed while their memory stays.
const COUNTERS: u64 = 4096;

pub(crate) fn run(bench: &Bench) -> Result<Outcome, Failure> {
    let mut outcome = Outcome::default();
    let stream = Stream::new(bench, 1.0);
    let stream = Counted {
        draws: stream.hashes(bench).collect(),
        counts: stream
            .counts
            .iter()
            .map(|(key, count)| (hash(bench, &bench.key(*key)), *count))
            .collect(),
    };
    for rows in [1, 2, 4, 8] {
        for width in [64, 128, 256, 512, 1024, 2048, 4096] {
            stream.measure(&mut outcome, (width, rows))?;
        }
    }
    for rows in [1, 2, 3, 4, 5, 6, 8, 12, 16] {
        let width = COUNTERS / u64::from(rows);
        let errors = stream.errors((width, rows))?.0;
        let subject = Subject::new(format!("{COUNTERS} counters"))
            .with("width", width)
            .with("rows", u32::from(rows));
        outcome.measured(&subject, SPLIT, mean(&errors));
    }
    outcome.plot(ERROR, "width", Axes::Both);
    outcome.plot(MEAN, "width", Axes::Both);
    outcome.plot(BEYOND, "width", Axes::Both);
    outcome.plot(SPLIT, "rows", Axes::Vertical);
    outcome.note(
        "expected of the error is the bound e N / width, of the share beyond it e^-rows; the error \
         measured is the one that this share of all keys exceeds, so all depths have one bound",
    );
    Ok(outcome)
}

/// A stream of hashes, and how often each came.
struct Counted {
    draws: Vec<KeyHash>,
    counts: Vec<(KeyHash, u64)>,
}

impl Counted {
    /// Errors of all keys, the least first, and the bound.
    fn errors(&self, (width, rows): (u64, u8)) -> Result<(Vec<f64>, f64), Failure> {
        let mut sketch = made(CountMin::with_shape(width, rows))?;
        self.draws.iter().for_each(|hash| sketch.insert(*hash));
        let error = |(hash, count): &(KeyHash, u64)| (sketch.estimate(*hash) - count) as f64;
        let mut errors: Vec<f64> = self.counts.iter().map(error).collect();
        errors.sort_by(f64::total_cmp);
        Ok((errors, sketch.error_bound()))
    }

    fn measure(&self, outcome: &mut Outcome, (width, rows): (u64, u8)) -> Result<(), Failure> {
        let (errors, bound) = self.errors((width, rows))?;
        let keys = errors.len();
        let bits = (width * u64::from(rows) * 64) as f64;
        let subject = Subject::new(format!("count-min, depth {rows}"))
            .with("width", width)
            .with("rows", u32::from(rows))
            .bits(bits, keys as u64);
        let probability = (-f64::from(rows)).exp();
        let beyond = errors.iter().filter(|error| **error > bound).count();
        let beyond = (probability, beyond as f64 / keys.max(1) as f64);
        outcome.at_most_share(&subject, BEYOND, beyond, keys as u64);
        let place = ((1.0 - probability) * keys as f64) as usize;
        let error = errors.get(place).or(errors.last()).copied();
        outcome.at_most(&subject, ERROR, (bound, error.unwrap_or(0.0)));
        outcome.measured(&subject, MEAN, mean(&errors));
        Ok(())
    }
}

fn mean(values: &[f64]) -> f64 {
    values.iter().sum::<f64>() / values.len().max(1) as f64
}
