//! How often each key came: count-min against count sketch, by width and by skew of the stream.

use criba_filters::{CountMin, CountSketch, KeyHash, Sketch as _, Update};

use crate::exit::Failure;
use crate::lab::bench::{Bench, made};
use crate::lab::outcome::{Axes, Outcome, Quantity, Subject};
use crate::lab::zipf::{Stream, hash};

const BEYOND: Quantity = Quantity::rate("beyond the bound");
const MEAN: Quantity = Quantity::number("mean error, counts");

/// Rows of all sketches.
const ROWS: u8 = 5;

/// By width, on a stream as words of a language have it.
pub(crate) fn by_width(bench: &Bench) -> Result<Outcome, Failure> {
    let mut outcome = Outcome::default();
    let stream = Sketched::new(bench, 1.0);
    for width in [128, 256, 512, 1024, 2048, 4096] {
        stream.measure(&mut outcome, (width, "width", width as f64))?;
    }
    finish(&mut outcome, "width", Axes::Both);
    Ok(outcome)
}

/// By skew, from a stream where all keys come alike to one of a few keys.
pub(crate) fn by_exponent(bench: &Bench) -> Result<Outcome, Failure> {
    let mut outcome = Outcome::default();
    for exponent in [0.0, 0.4, 0.8, 1.0, 1.2, 1.6, 2.0] {
        let stream = Sketched::new(bench, exponent);
        stream.measure(&mut outcome, (1024, "exponent", exponent))?;
    }
    finish(&mut outcome, "exponent", Axes::Vertical);
    Ok(outcome)
}

fn finish(outcome: &mut Outcome, against: &'static str, axes: Axes) {
    outcome.plot(MEAN, against, axes);
    outcome.note(format!(
        "{ROWS} rows; the bound is e N / width for count-min, 3 sqrt(F2 / width) for the count sketch, \
         and expected is the probability that it is exceeded, at most"
    ));
}

/// A stream ready to be counted.
struct Sketched {
    stream: Stream,
    draws: Vec<KeyHash>,
    /// Each distinct key with its count.
    counts: Vec<(KeyHash, u64)>,
}

impl Sketched {
    fn new(bench: &Bench, exponent: f64) -> Sketched {
        let stream = Stream::new(bench, exponent);
        let draws = stream.hashes(bench).collect();
        let count = |(key, count): (&u64, &u64)| (hash(bench, &bench.key(*key)), *count);
        let counts = stream.counts.iter().map(count).collect();
        Sketched {
            stream,
            draws,
            counts,
        }
    }

    fn measure(
        &self,
        outcome: &mut Outcome,
        (width, parameter, value): (u64, &'static str, f64),
    ) -> Result<(), Failure> {
        let subject = |name: &str| {
            let bits = width as f64 * f64::from(ROWS) * 64.0;
            let subject = Subject::new(name).with(parameter, value);
            subject.bits(bits, self.stream.distinct())
        };
        for (name, update) in [
            ("count-min", Update::Plain),
            ("count-min conservative", Update::Conservative),
        ] {
            let mut sketch = made(CountMin::with_shape(width, ROWS))?.with_update(update);
            self.draws.iter().for_each(|hash| sketch.insert(*hash));
            let bound = (sketch.error_bound(), (-f64::from(ROWS)).exp());
            self.compare(outcome, &subject(name), bound, |hash| {
                sketch.estimate(hash) as f64
            });
        }
        let mut sketch = made(CountSketch::with_shape(width, ROWS))?;
        self.draws.iter().for_each(|hash| sketch.insert(*hash));
        let bound = 3.0 * (self.stream.second_moment() / width as f64).sqrt();
        let bound = (bound, most_of_five(1.0 / 9.0));
        self.compare(outcome, &subject("count sketch"), bound, |hash| {
            sketch.estimate(hash) as f64
        });
        Ok(())
    }

    fn compare(
        &self,
        outcome: &mut Outcome,
        subject: &Subject,
        (bound, probability): (f64, f64),
        estimate: impl Fn(KeyHash) -> f64,
    ) {
        let off = |(hash, count): &(KeyHash, u64)| (estimate(*hash) - *count as f64).abs();
        let errors: Vec<f64> = self.counts.iter().map(off).collect();
        let keys = errors.len().max(1) as f64;
        let beyond = errors.iter().filter(|error| **error > bound).count();
        let trials = errors.len() as u64;
        outcome.at_most_share(subject, BEYOND, (probability, beyond as f64 / keys), trials);
        outcome.measured(subject, MEAN, errors.iter().sum::<f64>() / keys);
    }
}

/// The probability that at least three of five rows fail.
fn most_of_five(failure: f64) -> f64 {
    let works = 1.0 - failure;
    10.0 * failure.powi(3) * works.powi(2) + 5.0 * failure.powi(4) * works + failure.powi(5)
}
