//! One small Bloom filter, by the textbook's formula, by the exact one, and measured on many filters: a
//! single one of 1,000 bits shows little.

use criba_filters::formulas::rate_for;
use criba_filters::{Classic, Design, Hashing, Insert as _, Membership as _};

use crate::exit::Failure;
use crate::lab::bench::{ABSENT, Bench, Shape, made};
use crate::lab::occupancy::Occupancy;
use crate::lab::outcome::{Axes, FALSE_POSITIVES, Outcome, Quantity, Subject};

const FILL: Quantity = Quantity::rate("bits set");
const EXACT: Quantity = Quantity::rate("rate from bits, exact formula");
const SPREAD: Quantity = Quantity::rate("deviation of one filter");

/// Keys of each stage, in quarters of those of the filter.
const QUARTERS: [u64; 5] = [1, 2, 4, 6, 8];

/// Absent keys that each filter is asked for at each stage.
const LOOKUPS: u64 = 200;

/// Insertions and lookups in all, and the part of them for a family that takes long.
const CALLS: u64 = 16_000_000;
const SLOW: u64 = 20;

/// Draws up to which the exact rate is calculated.
const DRAWS_MAX: u64 = 200_000;

/// The error that hash functions may have in a small filter, as a part of the rate.
const SLACK: f64 = 0.03;

pub(crate) fn run(bench: &Bench) -> Result<Outcome, Failure> {
    let mut outcome = Outcome::default();
    let shape = bench.shape;
    let mut trials = (CALLS / (2 * shape.keys + QUARTERS.len() as u64 * LOOKUPS)).max(3);
    for hashing in [Hashing::Xxh3, Hashing::Blake2b] {
        let design = Design {
            keys: shape.keys,
            bits: shape.bits,
            probes: shape.probes,
            hashing,
        };
        let stages = measure(bench, design, trials)?;
        compare(&mut outcome, design, (&stages, trials));
        outcome.note(format!("{}: {trials} filters", hashing.name()));
        trials = (trials / SLOW).max(10);
    }
    outcome.plot(FALSE_POSITIVES, "keys", Axes::None);
    outcome.note(format!(
        "expected of the false-positive rate is the formula (1 - (1 - 1/m)^(kn))^k; the exact one of Bose \
         and others (2008) is calculated up to {DRAWS_MAX} draws, and is compared with the mean over all \
         filters of the share of set bits to the power of k"
    ));
    outcome.note("the deviation is that of the rates of single filters");
    Ok(outcome)
}

/// A mean and a deviation of many values.
#[derive(Clone, Copy, Default)]
struct Sums {
    sum: f64,
    squares: f64,
}

impl Sums {
    fn add(&mut self, value: f64) {
        self.sum += value;
        self.squares += value * value;
    }

    fn mean(&self, trials: u64) -> f64 {
        self.sum / trials as f64
    }

    fn deviation(&self, trials: u64) -> f64 {
        let mean = self.mean(trials);
        (self.squares / trials as f64 - mean * mean).max(0.0).sqrt()
    }
}

/// The measurements of many filters with one number of keys.
#[derive(Clone, Copy, Default)]
struct Stage {
    fill: Sums,
    /// From lookups of absent keys.
    passing: Sums,
    /// From the bits.
    rate: Sums,
}

fn keys_at(shape: Shape, quarters: u64) -> u64 {
    (shape.keys * quarters / 4).max(1)
}

fn measure(bench: &Bench, design: Design, trials: u64) -> Result<Vec<Stage>, Failure> {
    let shape = bench.shape;
    let most = keys_at(shape, QUARTERS[QUARTERS.len() - 1]);
    let mut stages = vec![Stage::default(); QUARTERS.len()];
    for trial in 0..trials {
        let mut filter = made(Classic::new(design))?;
        let mut number = 0;
        let first_absent = ABSENT + trial * LOOKUPS;
        for (stage, quarters) in stages.iter_mut().zip(QUARTERS) {
            while number < keys_at(shape, quarters) {
                made(filter.insert(&bench.key(trial * most + number)))?;
                number += 1;
            }
            let absent = first_absent..first_absent + LOOKUPS;
            let passing = absent.filter(|number| filter.may_contain(&bench.key(*number)));
            stage.passing.add(passing.count() as f64 / LOOKUPS as f64);
            stage.fill.add(filter.fill());
            stage.rate.add(filter.current_rate());
        }
    }
    Ok(stages)
}

fn compare(outcome: &mut Outcome, design: Design, (stages, trials): (&[Stage], u64)) {
    let Design { bits, probes, .. } = design;
    let shape = Shape {
        bits,
        probes,
        keys: design.keys,
    };
    let most = keys_at(shape, QUARTERS[QUARTERS.len() - 1]).saturating_mul(probes.into());
    let mut occupancy = (most <= DRAWS_MAX).then(|| Occupancy::new(bits));
    let mut drawn = 0;
    for (stage, quarters) in stages.iter().zip(QUARTERS) {
        let keys = keys_at(shape, quarters);
        // Quarters of one key are one key again.
        if drawn == keys * u64::from(probes) {
            continue;
        }
        let fresh = keys * u64::from(probes) - drawn;
        drawn += fresh;
        let subject = Subject::new(design.hashing.name())
            .with("m", bits)
            .with("k", probes)
            .with("keys", keys)
            .bits(bits as f64, keys);
        let mut push = |quantity, expected: f64, sums: &Sums| {
            // That of the mean over filters, and for few of them that of all their lookups.
            let lookups = (trials * LOOKUPS) as f64;
            let mut error = 5.0 * sums.deviation(trials) / (trials as f64).sqrt();
            if quantity == FALSE_POSITIVES {
                error +=
                    5.0 * (expected * (1.0 - expected) / lookups).max(0.0).sqrt() + 3.0 / lookups;
            }
            let off = error + SLACK * expected + 1e-9;
            let bounds = ((expected - off).max(0.0), (expected + off).min(1.0));
            let measured = sums.mean(trials);
            outcome.compared(&subject, quantity, (expected, measured), bounds);
        };
        push(
            FILL,
            rate_for(bits, 1, keys * u64::from(probes)),
            &stage.fill,
        );
        push(
            FALSE_POSITIVES,
            rate_for(bits, probes, keys),
            &stage.passing,
        );
        let Some(occupancy) = &mut occupancy else {
            continue;
        };
        occupancy.draw(fresh);
        let (mean, deviation) = occupancy.rate(probes);
        push(EXACT, mean, &stage.rate);
        let measured = stage.rate.deviation(trials);
        // A deviation is known to one over the root of twice the trials, for rates with heavier tails
        // than a normal distribution has to a few times that.
        let off = deviation * (15.0 / (trials as f64).sqrt() + SLACK) + 1e-9;
        let bounds = ((deviation - off).max(0.0), deviation + off);
        outcome.compared(&subject, SPREAD, (deviation, measured), bounds);
    }
}
