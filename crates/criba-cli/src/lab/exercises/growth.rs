//! A set that becomes larger than its filter was made for: one filter, a scalable one, one that is built
//! anew in twice the size, and a quotient filter that doubles without its keys.

use criba_filters::{Classic, Design, Growth, Insert as _, Membership, Quotient, Scalable};

use crate::exit::Failure;
use crate::lab::bench::{Bench, Key, made};
use crate::lab::outcome::{Axes, FALSE_POSITIVES, LOOKUP, Outcome, Quantity, Subject};
use crate::lab::sets::{fill, lookup_time, passing};

const WRITES: Quantity = Quantity::number("insertions per key");

/// The rate that all are made for.
const RATE: f64 = 0.01;

/// The error of the formulas, as a part of the rate.
const SLACK: f64 = 0.1;

pub(crate) fn run(bench: &Bench) -> Result<Outcome, Failure> {
    let mut outcome = Outcome::default();
    let first = bench.keys / 8;
    let (keys, absent) = (bench.present(8 * first), bench.absent());
    let mut sets = Sets::new(first)?;
    let mut done = 0;
    for halves in [1, 2, 3, 4, 6, 8, 12, 16] {
        let count = first * halves / 2;
        sets.take(&keys[done as usize..count as usize], &keys)?;
        done = count;
        let subject = |name: &str, bits: u64| {
            let subject = Subject::new(name).with("times its size", halves as f64 / 2.0);
            subject.bits(bits as f64, count)
        };
        let asked = Asked {
            bench,
            absent: &absent,
        };
        let one = subject("left alone", sets.alone.bits());
        let rate = sets.alone.expected_rate();
        asked.compare(&mut outcome, &one, &sets.alone, (rate, 0.0))?;
        outcome.measured(&one, WRITES, 1.0);
        let one = subject("scalable", sets.scalable.bits());
        let bound = sets.scalable.bound();
        asked.compare(&mut outcome, &one, &sets.scalable, (bound, 1.0))?;
        outcome.measured(&one, WRITES, 1.0);
        let one = subject("rebuilt in twice the size", sets.rebuilt.bits());
        let rate = sets.rebuilt.expected_rate();
        asked.compare(&mut outcome, &one, &sets.rebuilt, (rate, 0.0))?;
        let writes = sets.inserted as f64 / count as f64;
        outcome.compared(
            &one,
            WRITES,
            (writes_expected(first, count), writes),
            (1.0, 3.0),
        );
        let one = subject("quotient, doubled", sets.quotient.bits());
        let rate = sets.quotient.expected_rate();
        asked.compare(&mut outcome, &one, &sets.quotient, (rate, 0.0))?;
        outcome.measured(&one, WRITES, 1.0);
    }
    outcome.plot(FALSE_POSITIVES, "times its size", Axes::Vertical);
    outcome.note(format!(
        "all made for {first} keys at a rate of {RATE}; expected of the scalable filter is its bound, \
         which holds for any number of keys. A rebuild needs the keys, and the new filter stands beside \
         the old one while it is filled"
    ));
    Ok(outcome)
}

/// A structure that holds one growing set of keys.
struct Sets {
    alone: Classic,
    scalable: Scalable,
    rebuilt: Classic,
    /// Keys that were put into the rebuilt filter and into those before it.
    inserted: u64,
    quotient: Quotient,
    keys: u64,
}

impl Sets {
    fn new(first: u64) -> Result<Sets, Failure> {
        let design = made(Design::for_rate(first, RATE))?;
        let rule = Growth {
            first_keys: first,
            first_rate: RATE * 0.2,
            growth: 2.0,
            tightening: 0.8,
        };
        Ok(Sets {
            alone: made(Classic::new(design))?,
            scalable: made(Scalable::new(rule))?,
            rebuilt: made(Classic::new(design))?,
            inserted: 0,
            quotient: made(Quotient::new(first, RATE / 8.0))?,
            keys: 0,
        })
    }

    /// Takes the next keys; `all` begin with those that were taken before.
    fn take(&mut self, keys: &[Key], all: &[Key]) -> Result<(), Failure> {
        fill(&mut self.alone, keys)?;
        fill(&mut self.scalable, keys)?;
        for key in keys {
            if self.keys == self.rebuilt.design().keys {
                let design = made(Design::for_rate(2 * self.keys, RATE))?;
                self.rebuilt = made(Classic::new(design))?;
                fill(&mut self.rebuilt, &all[..self.keys as usize])?;
                self.inserted += self.keys;
            }
            if self.quotient.load() > 0.9 {
                self.quotient = made(self.quotient.grow())?;
            }
            made(self.rebuilt.insert(key))?;
            made(self.quotient.insert(key))?;
            self.inserted += 1;
            self.keys += 1;
        }
        Ok(())
    }
}

/// Insertions per key when the size doubles whenever it is used up: all keys once, and those of each
/// size that was used up once more.
fn writes_expected(first: u64, keys: u64) -> f64 {
    let mut all = keys;
    let mut size = first;
    while size < keys {
        all += size;
        size *= 2;
    }
    all as f64 / keys as f64
}

struct Asked<'a> {
    bench: &'a Bench,
    absent: &'a [Key],
}

impl Asked<'_> {
    /// Compares the rate with the expected one, or for a `bound` above 0 with that.
    fn compare(
        &self,
        outcome: &mut Outcome,
        subject: &Subject,
        set: &impl Membership,
        (expected, bound): (f64, f64),
    ) -> Result<(), Failure> {
        let rates = (expected, passing(set, self.absent));
        let trials = self.absent.len() as u64;
        if bound > 0.0 {
            outcome.at_most_share(subject, FALSE_POSITIVES, rates, trials);
        } else {
            outcome.share(subject, FALSE_POSITIVES, rates, (trials, SLACK));
        }
        let time = lookup_time(self.bench, set, self.absent)?;
        outcome.measured(subject, LOOKUP, time);
        Ok(())
    }
}
