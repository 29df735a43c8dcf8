//! Range filters at equal bits: that of the store beside those of the literature.

use crate::exit::{Exit, Failure};
use crate::lab::bench::Bench;
use crate::lab::outcome::{Axes, Outcome, Quantity, Subject};
use crate::lab::ranges::grafite::{Bucketing, Grafite};
use crate::lab::ranges::keys::{ALL, KeySet, Kind};
use crate::lab::ranges::own::Own;
use crate::lab::ranges::prefix::PrefixBloom;
use crate::lab::ranges::snarf::Snarf;
use crate::lab::ranges::surf::Surf;
use crate::lab::ranges::{KeyRange, RangeSet};
use crate::random::mix;

/// Bits for each key.
const BITS: [u32; 6] = [8, 10, 12, 14, 16, 18];

/// Ranges that are asked for, and others that the length of prefixes is chosen with.
const RANGES: usize = 20_000;
const TRAINING: usize = 300;

/// Filters may take so much more: codes of uneven lengths are chosen with samples.
const BITS_SLACK: f64 = 1.02;

/// Hash functions of Grafite that are tried.
const HASH_FUNCTIONS: u64 = 8;

/// Bounds of rates that hold for perfectly even keys.
const SLACK: f64 = 0.3;

fn quantity(kind: Kind) -> Quantity {
    Quantity::rate(match kind {
        Kind::Uniform => "uniform",
        Kind::SensorText => "sensor text",
        Kind::SensorBinary => "sensor binary",
        Kind::Words => "words",
        Kind::Paths => "paths",
    })
}

/// Empty ranges of three neighbouring keys of a set of which the filter holds an eighth.
pub(crate) fn neighbours(bench: &Bench) -> Result<Outcome, Failure> {
    let mut outcome = measure(bench, |set, count| set.neighbours(count))?;
    outcome.note(
        "a range is the span of three neighbouring keys of a set of which the filter holds an eighth; \
         the share of those without a key of the filter that it does not refute",
    );
    notes(&mut outcome);
    Ok(outcome)
}

/// Ranges that begin right behind a key.
pub(crate) fn behind(bench: &Bench) -> Result<Outcome, Failure> {
    let mut outcome = measure(bench, |set, count| set.behind(count))?;
    outcome.note(
        "a range is the 16 integers right behind a key of the filter, or of text all that begins \
         with the key; only Grafite promises anything for such ranges",
    );
    notes(&mut outcome);
    Ok(outcome)
}

fn notes(outcome: &mut Outcome) {
    outcome.note(
        "criba: header and tables are within the bits; the fences of its blocks of 32 keys are in \
         memory at any rate and are not counted, which is an advantage of the place where it stands",
    );
    outcome.note(
        "Grafite, Bucketing and SNARF know integers of 64 bits: text is cut to the first 8 bytes \
         behind the prefix that all keys share",
    );
    outcome.note(
        "Elias-Fano codes and tries are counted as the succinct structure would take them, without \
         directories; a trie takes 10 bits for each node, and where that is too much there is no SuRF",
    );
    outcome.note(
        "expected: Grafite, at most l / 2^(B-2) for l integers in the mean over hash functions, of which 8 are tried; prefix Bloom, from the prefixes \
                  that are there; SNARF and Bucketing, 1 / K on uniform keys",
    );
}

fn measure(
    bench: &Bench,
    ranges: impl Fn(&KeySet, usize) -> Vec<KeyRange>,
) -> Result<Outcome, Failure> {
    let mut outcome = Outcome::default();
    let mut refused = Vec::new();
    for kind in ALL {
        let set = KeySet::new(kind, (bench.keys, bench.seed));
        let ranges = ranges(&set, RANGES + TRAINING);
        let (training, asked) = ranges.split_at(TRAINING.min(ranges.len() / 2));
        for bits in BITS {
            let own = Own::new(&set.run, bits.into())?;
            if own.as_ref().is_some_and(Own::is_refused) {
                refused.push(format!("{} at {bits}", quantity(kind).name));
            }
            let mut all = Rows {
                outcome: &mut outcome,
                set: &set,
                ranges: asked,
                bits,
            };
            all.others(training, bench.seed)?;
            if let Some(own) = own {
                all.measured("criba", &own)?;
            }
        }
        outcome.plot(quantity(kind), "bits", Axes::Vertical);
    }
    if !refused.is_empty() {
        let refused = refused.join(", ");
        outcome.note(format!(
            "segments of a store would have no filter, because by its own sample it refutes under \
             half of the gaps: {refused} bits"
        ));
    }
    // Rows in the order of the structures.
    outcome.lines.sort_by_key(|line| {
        let order = [
            "criba",
            "Grafite",
            "Bucketing",
            "SNARF",
            "SuRF",
            "prefix Bloom",
        ];
        order
            .iter()
            .position(|name| line.subject.structure == *name)
    });
    Ok(outcome)
}

/// The filters of one size on one set.
struct Rows<'a> {
    outcome: &'a mut Outcome,
    set: &'a KeySet,
    ranges: &'a [KeyRange],
    bits: u32,
}

impl Rows<'_> {
    fn others(&mut self, training: &[KeyRange], seed: u64) -> Result<(), Failure> {
        let (set, bits) = (self.set, f64::from(self.bits));
        self.grafite(seed)?;
        let bucketing = Bucketing::new(&set.run, bits);
        self.learned("Bucketing", &bucketing, bucketing.rate_on_uniform())?;
        let snarf = Snarf::new(&set.run, bits);
        self.learned("SNARF", &snarf, snarf.rate_on_uniform())?;
        if let Some(surf) = Surf::new(&set.run, bits) {
            self.measured("SuRF", &surf)?;
        }
        let prefixes = PrefixBloom::new(&set.run, bits, training)?;
        let (subject, share) = self.share("prefix Bloom", &prefixes)?;
        let rates = (self.expected(&prefixes), share);
        let trials = self.ranges.len() as u64;
        self.outcome
            .share(&subject, quantity(set.kind), rates, (trials, SLACK));
        Ok(())
    }

    /// The mean over some hash functions, which is what theory bounds. Keys in clusters move together,
    /// so chance moves it by more than that many independent ranges would.
    fn grafite(&mut self, seed: u64) -> Result<(), Failure> {
        let (set, bits) = (self.set, f64::from(self.bits));
        let (mut sum, mut bound) = (0.0, 0.0);
        let mut subject = Subject::new("Grafite");
        for function in 0..HASH_FUNCTIONS {
            let grafite = Grafite::new(&set.run, bits, mix(seed ^ function));
            let (named, share) = self.share("Grafite", &grafite)?;
            (subject, sum) = (named, sum + share);
            bound = self.expected(&grafite);
        }
        let share = sum / HASH_FUNCTIONS as f64;
        let upper = (2.0 * bound + 3.0 / self.ranges.len().max(1) as f64).min(1.0);
        let quantity = quantity(set.kind);
        self.outcome
            .compared(&subject, quantity, (bound, share), (0.0, upper));
        Ok(())
    }

    fn learned(
        &mut self,
        name: &str,
        filter: &dyn RangeSet,
        on_uniform: f64,
    ) -> Result<(), Failure> {
        // Bounds of a range that begins behind a key are not independent of the keys.
        let is_random = self.ranges.iter().all(|range| range.0 != range.1)
            && self.set.all.binary_search(&self.ranges[0].0).is_ok();
        if self.set.kind != Kind::Uniform || !is_random {
            return self.measured(name, filter);
        }
        let (subject, share) = self.share(name, filter)?;
        let trials = (self.ranges.len() as u64, SLACK);
        let quantity = quantity(self.set.kind);
        self.outcome
            .share(&subject, quantity, (on_uniform, share), trials);
        Ok(())
    }

    fn measured(&mut self, name: &str, filter: &dyn RangeSet) -> Result<(), Failure> {
        let (subject, share) = self.share(name, filter)?;
        self.outcome
            .measured(&subject, quantity(self.set.kind), share);
        Ok(())
    }

    /// The share of ranges that are not refuted. No filter takes more bits than it was given.
    fn share(&self, name: &str, filter: &dyn RangeSet) -> Result<(Subject, f64), Failure> {
        let taken = filter.bits() / self.set.run.len().max(1) as f64;
        if taken > f64::from(self.bits) * BITS_SLACK {
            return Err(Failure::new(
                Exit::Damaged,
                format!(
                    "{name} takes {taken} bits of {}: please report this",
                    self.bits
                ),
            ));
        }
        let maybe = |range: &&KeyRange| filter.may_hold(range);
        let count = self.ranges.iter().filter(maybe).count();
        let subject = Subject::new(name).with("bits", self.bits);
        Ok((subject, count as f64 / self.ranges.len().max(1) as f64))
    }

    fn expected(&self, filter: &dyn RangeSet) -> f64 {
        let rates = self.ranges.iter().map(|range| filter.expected(range));
        let sum: f64 = rates.map(|rate| rate.unwrap_or(1.0)).sum();
        sum / self.ranges.len().max(1) as f64
    }
}
