//! Union and intersection of two Bloom filters: how many keys are in either and in both, by the bits.
//!
//! Swamidass, Baldi, "Mathematical correction for fingerprint similarity measures to improve chemical
//! retrieval" (2007): the bits that are set tell the number of keys of each filter and of the union, and
//! the number of common keys is what is left over. The bits that both have set do not tell it: bits of
//! different keys meet.

use criba_filters::formulas::rate_for;
use criba_filters::{Classic, Design};

use crate::exit::Failure;
use crate::lab::bench::{Bench, Key, made};
use crate::lab::outcome::{Axes, FALSE_POSITIVES, Outcome, Quantity, Subject};
use crate::lab::sets::{fill, passing};

const UNION: Quantity = Quantity::count("keys in either");
const COMMON: Quantity = Quantity::count("keys in both");

/// The rate of a filter of the union when both sets have nothing in common.
const RATE: f64 = 0.01;

/// The error of double hashing and of the independence that formulas assume, as a part of the rate.
const SLACK: f64 = 0.08;

pub(crate) fn run(bench: &Bench) -> Result<Outcome, Failure> {
    let mut outcome = Outcome::default();
    let keys = bench.present(2 * bench.keys);
    let absent = bench.absent();
    let design = made(Design::for_rate(2 * bench.keys, RATE))?;
    for percent in [0, 1, 5, 10, 25, 50, 75, 100] {
        let common = bench.keys * percent / 100;
        let second = (bench.keys - common) as usize;
        let pair = Pair {
            one: filled(design, &keys[..bench.keys as usize])?,
            other: filled(design, &keys[second..second + bench.keys as usize])?,
            each: bench.keys,
            common,
            percent,
        };
        pair.union(&mut outcome, &absent)?;
        pair.intersection(&mut outcome, &absent)?;
    }
    outcome.plot(COMMON, "percent in common", Axes::None);
    outcome.note(
        "expected of the keys in both is their true number for inclusion and exclusion; for the bits that \
         both have set it is what theory says these tell, which is too many",
    );
    outcome.note(format!(
        "filters of one design, for a rate of {RATE} with all keys of both; the rate expected of the \
         intersection is that of common keys and of bits that meet"
    ));
    Ok(outcome)
}

fn filled(design: Design, keys: &[Key]) -> Result<Classic, Failure> {
    let mut filter = made(Classic::new(design))?;
    fill(&mut filter, keys)?;
    Ok(filter)
}

/// Two filters of equally many keys, with this number of keys in both.
struct Pair {
    one: Classic,
    other: Classic,
    each: u64,
    common: u64,
    percent: u64,
}

impl Pair {
    fn subject(&self, name: &str) -> Subject {
        Subject::new(name).with("percent in common", self.percent)
    }

    fn union(&self, outcome: &mut Outcome, absent: &[Key]) -> Result<(), Failure> {
        let design = self.one.design();
        let either = 2 * self.each - self.common;
        let subject = self.subject("union");
        let off = 5.0 * deviation(design, either) + 1.0 + 0.001 * either as f64;
        let bounds = (either as f64 - off, either as f64 + off);
        let found = made(self.one.estimate_union(&self.other))?;
        outcome.compared(&subject, UNION, (either as f64, found), bounds);
        let union = made(self.one.union(&self.other))?;
        let expected = rate_for(design.bits, design.probes, either);
        let rates = (expected, passing(&union, absent));
        outcome.share(
            &subject,
            FALSE_POSITIVES,
            rates,
            (absent.len() as u64, SLACK),
        );

        let subject = self.subject("inclusion and exclusion");
        let found = made(self.one.estimate_intersection(&self.other))?;
        // The errors of three estimates add up at most.
        let off = off + 10.0 * deviation(design, self.each);
        let exact = self.common as f64;
        let bounds = ((exact - off).max(0.0), exact + off);
        outcome.compared(&subject, COMMON, (exact, found), bounds);
        Ok(())
    }

    fn intersection(&self, outcome: &mut Outcome, absent: &[Key]) -> Result<(), Failure> {
        let design = self.one.design();
        let subject = self.subject("intersection, its bits");
        let both = made(self.one.intersection(&self.other))?;
        let share = self.share_in_both();
        let expected = -(design.bits as f64) / f64::from(design.probes) * (-share).ln_1p();
        let off = 10.0 * deviation(design, self.each) + 1.0 + 0.01 * expected;
        let bounds = ((expected - off).max(0.0), expected + off);
        outcome.compared(&subject, COMMON, (expected, both.estimate()), bounds);
        let rates = (share.powi(design.probes as i32), passing(&both, absent));
        outcome.share(
            &subject,
            FALSE_POSITIVES,
            rates,
            (absent.len() as u64, SLACK),
        );
        Ok(())
    }

    /// The share of bits that are set in both, by theory: by common keys, or by others in each.
    fn share_in_both(&self) -> f64 {
        let design = self.one.design();
        let share = |keys: u64| rate_for(design.bits, 1, keys * u64::from(design.probes));
        let common = share(self.common);
        common + (1.0 - common) * share(self.each - self.common).powi(2)
    }
}

/// The standard deviation of the number of keys that the bits tell: that of the number of set bits
/// (Whang, Vander-Zanden, Taylor 1990, section 4), by the slope of the estimate.
fn deviation(design: Design, keys: u64) -> f64 {
    let load = f64::from(design.probes) * keys as f64 / design.bits as f64;
    let bits = design.bits as f64;
    (bits * (load.exp_m1() - load)).sqrt() / f64::from(design.probes)
}
