//! Sketches of two nodes, merged, beside one of both streams.

use criba_filters::{
    Adaptive, CountMin, CountingBloom, Distinct, Estimator, Harmonic, Insert as _, KeyHash, Merge,
    MisraGries, Sketch as _, SpaceSaving, Update,
};

use crate::exit::Failure;
use crate::lab::bench::{Bench, Key, made};
use crate::lab::outcome::{Outcome, Quantity, Subject};
use crate::lab::zipf::{Stream, hash};

const MEAN: Quantity = Quantity::number("mean error, counts");
const ERROR: Quantity = Quantity::rate("relative error");
const SAME: Quantity = Quantity::rate("estimates as of one stream");

/// Shapes of the sketches.
const WIDTH: u64 = 1024;
const ROWS: u8 = 4;
const COUNTERS: usize = 200;
const INDEX_BITS: u8 = 10;

/// Whether a merged sketch is that of both streams in one.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Merged {
    Exactly,
    WithinBounds,
}

pub(crate) fn run(bench: &Bench) -> Result<Outcome, Failure> {
    let mut outcome = Outcome::default();
    let streams = Streams::new(bench);
    streams.count_min(&mut outcome)?;
    streams.counting(&mut outcome)?;
    streams.named(&mut outcome)?;
    streams.distinct::<Harmonic>(&mut outcome, "hyperloglog")?;
    streams.distinct::<Adaptive>(&mut outcome, "adaptive counting")?;
    outcome.bars(SAME);
    outcome.note(
        "one node has the first two thirds of a stream with exponent 1, the other the rest; expected of \
         the mean error is the bound, of the relative error the standard error",
    );
    outcome.note(
        "an expected 100 % says that the merged sketch is that of both streams, bit for bit; the bounds of \
         the others hold for both streams together",
    );
    Ok(outcome)
}

struct Streams<'a> {
    bench: &'a Bench,
    draws: Vec<Key>,
    counts: Vec<(Key, u64)>,
}

impl Streams<'_> {
    fn new(bench: &Bench) -> Streams<'_> {
        let stream = Stream::new(bench, 1.0);
        let counts = stream.counts.iter();
        Streams {
            bench,
            draws: stream.draws.iter().map(|key| bench.key(*key)).collect(),
            counts: counts
                .map(|(key, count)| (bench.key(*key), *count))
                .collect(),
        }
    }

    /// The sketch of the whole stream, and that of two nodes.
    fn both<T: Merge>(
        &self,
        make: impl Fn() -> criba_filters::Result<T>,
        add: impl Fn(&mut T, &Key) -> criba_filters::Result<()>,
    ) -> Result<[T; 2], Failure> {
        let of = |draws: &[Key]| -> criba_filters::Result<T> {
            let mut sketch = make()?;
            draws.iter().try_for_each(|key| add(&mut sketch, key))?;
            Ok(sketch)
        };
        let (first, second) = self.draws.split_at(self.draws.len() * 2 / 3);
        let whole = made(of(&self.draws))?;
        let mut merged = made(of(first))?;
        made(merged.merge(&made(of(second))?))?;
        Ok([whole, merged])
    }

    /// Compares the estimates of both with the counts, up to `most`, and with each other.
    fn counts<T>(
        &self,
        outcome: &mut Outcome,
        (name, how): (&str, Merged),
        (sketches, bound, most): (&[T; 2], Option<f64>, u64),
        estimate: impl Fn(&T, &Key) -> u64,
    ) {
        let keys = self.counts.len().max(1) as f64;
        let [one, merged] = ["one stream", "two nodes"].map(|of| Subject::new(name).with("of", of));
        for (subject, sketch) in [&one, &merged].into_iter().zip(sketches) {
            let error =
                |(key, count): &(Key, u64)| estimate(sketch, key).abs_diff((*count).min(most));
            let mean = self.counts.iter().map(error).sum::<u64>() as f64 / keys;
            match bound {
                Some(bound) => outcome.at_most(subject, MEAN, (bound, mean)),
                None => outcome.measured(subject, MEAN, mean),
            }
        }
        let [whole, both] = sketches;
        let is_same = |(key, _): &&(Key, u64)| estimate(whole, key) == estimate(both, key);
        let same = self.counts.iter().filter(is_same).count() as f64 / keys;
        push_same(outcome, &merged, how, same);
    }

    fn count_min(&self, outcome: &mut Outcome) -> Result<(), Failure> {
        for (name, update, how) in [
            ("count-min", Update::Plain, Merged::Exactly),
            (
                "count-min conservative",
                Update::Conservative,
                Merged::WithinBounds,
            ),
        ] {
            let make = || Ok(CountMin::with_shape(WIDTH, ROWS)?.with_update(update));
            let sketches = self.both(make, |sketch, key| {
                sketch.insert(self.hash(key));
                Ok(())
            })?;
            // One row is too high by that much on average, and the least row by no more.
            let bound = Some(self.draws.len() as f64 / WIDTH as f64);
            self.counts(
                outcome,
                (name, how),
                (&sketches, bound, u64::MAX),
                |one, key| one.estimate(self.hash(key)),
            );
        }
        Ok(())
    }

    fn counting(&self, outcome: &mut Outcome) -> Result<(), Failure> {
        let make = || CountingBloom::with_rate(self.counts.len() as u64, 0.01);
        let sketches = self.both(make, |filter, key| filter.insert(self.hash(key)))?;
        let name = ("counting, up to 15", Merged::Exactly);
        self.counts(outcome, name, (&sketches, None, 15), |one, key| {
            one.estimate(self.hash(key)).into()
        });
        Ok(())
    }

    fn named(&self, outcome: &mut Outcome) -> Result<(), Failure> {
        let draws = self.draws.len() as f64;
        let sketches = self.both(
            || SpaceSaving::with_counters(COUNTERS),
            |summary, key| {
                summary.insert(key);
                Ok(())
            },
        )?;
        let name = ("space-saving", Merged::WithinBounds);
        let bound = Some(draws / COUNTERS as f64);
        self.counts(outcome, name, (&sketches, bound, u64::MAX), |one, key| {
            one.estimate(key).0
        });
        let sketches = self.both(
            || MisraGries::with_counters(COUNTERS),
            |summary, key| {
                summary.insert(key);
                Ok(())
            },
        )?;
        let name = ("misra-gries", Merged::WithinBounds);
        let bound = Some(draws / (COUNTERS as f64 + 1.0));
        self.counts(outcome, name, (&sketches, bound, u64::MAX), |one, key| {
            one.estimate(key)
        });
        Ok(())
    }

    fn distinct<E>(&self, outcome: &mut Outcome, name: &str) -> Result<(), Failure>
    where
        E: Estimator + PartialEq,
    {
        let make = || Distinct::<E>::with_index_bits(INDEX_BITS);
        let sketches = self.both(make, |sketch, key| {
            sketch.insert(self.hash(key));
            Ok(())
        })?;
        let exact = self.counts.len() as f64;
        let [one, merged] = ["one stream", "two nodes"].map(|of| Subject::new(name).with("of", of));
        for (subject, sketch) in [&one, &merged].into_iter().zip(&sketches) {
            let expected = sketch.standard_error();
            let error = (sketch.estimate() / exact - 1.0).abs();
            outcome.compared(subject, ERROR, (expected, error), (0.0, 5.0 * expected));
        }
        let same = f64::from(u8::from(sketches[0] == sketches[1]));
        push_same(outcome, &merged, Merged::Exactly, same);
        Ok(())
    }

    fn hash(&self, key: &Key) -> KeyHash {
        hash(self.bench, key)
    }
}

fn push_same(outcome: &mut Outcome, subject: &Subject, how: Merged, same: f64) {
    match how {
        Merged::Exactly => outcome.at_least(subject, SAME, (1.0, same)),
        Merged::WithinBounds => outcome.measured(subject, SAME, same),
    }
}
