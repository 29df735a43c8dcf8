//! Parameters that follow a change from transactional to analytical load.
//!
//! Memory is shared out between a Bloom filter and a cache of the keys that are looked up most often.
//! Transactions look up rows that are there, by Zipf's law: the cache helps them. Analysis joins tables
//! and looks up keys of which most are not there: the filter helps it. With a share `a` of absent
//! lookups, `b` bits per key in the filter, and the rest in the cache, a lookup costs
//! `a p(b) + (1 - a) (1 - h(b))` reads, where `p` is the rate of the filter and `h` the share of present
//! lookups that the cache answers.

use criba_filters::{Classic, Design, Membership as _};

use crate::exit::Failure;
use crate::lab::bench::{ABSENT, Bench, Key, made};
use crate::lab::outcome::{Axes, Outcome, Quantity, Subject};
use crate::lab::sets::fill;
use crate::lab::zipf::Zipf;

const READS: Quantity = Quantity::number("reads per lookup");
const BITS: Quantity = Quantity::number("bits per key in the filter");

/// Bits per key for filter and cache together.
const MEMORY: u64 = 12;

/// Bits of a cached entry.
const ENTRY_BITS: u64 = 1024;

/// The share of lookups of absent keys in each phase, in percent.
const PHASES: [u64; 7] = [5, 20, 35, 50, 65, 80, 95];

/// A part of a phase after which parameters follow it.
const LAG: u64 = 10;

/// Keys that a read for a rebuild brings.
const IN_BLOCK: f64 = 100.0;

pub(crate) fn run(bench: &Bench) -> Result<Outcome, Failure> {
    let mut outcome = Outcome::default();
    let load = Load::new(bench);
    let [first, last] = [PHASES[0], PHASES[PHASES.len() - 1]].map(share);
    let mut following = load.best(first);
    let mut sums = [0.0; 3];
    for (phase, percent) in (1..).zip(PHASES) {
        let absent = share(percent);
        let fixed = [
            ("fixed for transactions", first),
            ("fixed for analysis", last),
        ];
        for (sum, (name, at)) in sums.iter_mut().zip(fixed) {
            let bits = load.best(at);
            let all = load.run(bits, (absent, phase), bench.keys)?;
            let expected = load.reads(bits, absent);
            *sum += all.reads;
            let subject = Subject::new(name).with("absent percent", percent);
            load.push(&mut outcome, &subject, (expected, all.reads));
            outcome.measured(&subject, BITS, bits as f64);
        }
        // The beginning of a phase, with the parameters of the last one, tells what comes.
        let lag = bench.keys / LAG;
        let begin = load.run(following, (absent, phase + 100), lag)?;
        let bits = load.best(begin.absent);
        let rest = load.run(bits, (absent, phase + 200), bench.keys - lag)?;
        let rebuild = match bits == following {
            true => 0.0,
            // All keys are read once, and as many lookups are in a phase.
            false => 1.0 / IN_BLOCK,
        };
        let weigh = |begin: f64, rest: f64| {
            let part = lag as f64 / bench.keys as f64;
            part * begin + (1.0 - part) * rest + rebuild
        };
        let expected = weigh(load.reads(following, absent), load.reads(bits, absent));
        let subject = Subject::new("following").with("absent percent", percent);
        let measured = weigh(begin.reads, rest.reads);
        load.push(&mut outcome, &subject, (expected, measured));
        sums[2] += measured;
        let best = load.best(absent) as f64;
        let bounds = ((best - 2.0).max(0.0), best + 2.0);
        outcome.compared(&subject, BITS, (best, bits as f64), bounds);
        following = bits;
    }
    outcome.plot(READS, "absent percent", Axes::None);
    outcome.plot(BITS, "absent percent", Axes::None);
    let [transactions, analysis, followed] = sums.map(|sum| sum / PHASES.len() as f64);
    outcome.note(format!(
        "reads per lookup over all phases: {transactions:.3} fixed for transactions, {analysis:.3} fixed \
         for analysis, {followed:.3} following"
    ));
    outcome.note(format!(
        "{MEMORY} bits per key for filter and cache; an entry in the cache takes {} bytes; lookups of \
         present keys follow Zipf's law with exponent 1",
        ENTRY_BITS / 8
    ));
    outcome.note(format!(
        "following: the share of absent lookups in the first {LAG}th of a phase chooses the bits, and a \
         new filter costs the reads of all keys, {IN_BLOCK} to a read"
    ));
    Ok(outcome)
}

fn share(percent: u64) -> f64 {
    percent as f64 / 100.0
}

/// The counts of a run of lookups.
struct Seen {
    /// Reads per lookup.
    reads: f64,
    /// The share of lookups of absent keys, as the filter and the reads show it.
    absent: f64,
}

struct Load<'a> {
    bench: &'a Bench,
    keys: Vec<Key>,
    law: Zipf,
}

impl Load<'_> {
    fn new(bench: &Bench) -> Load<'_> {
        Load {
            bench,
            keys: bench.present(bench.keys),
            law: Zipf::new(bench.keys, 1.0),
        }
    }

    /// Entries that the cache holds beside a filter with this number of bits per key.
    fn cached(&self, bits: u64) -> u64 {
        (MEMORY - bits) * self.bench.keys / ENTRY_BITS
    }

    fn design(&self, bits: u64) -> Result<Design, Failure> {
        made(Design::for_bits(self.bench.keys, self.bench.keys * bits))
    }

    /// Reads of a lookup, by theory. Without bits there is no filter.
    fn reads(&self, bits: u64, absent: f64) -> f64 {
        let rate = match self.design(bits) {
            Ok(design) => design.rate(),
            Err(_) => 1.0,
        };
        absent * rate + (1.0 - absent) * (1.0 - self.law.share(self.cached(bits)))
    }

    /// The bits per key with the fewest reads, by theory.
    fn best(&self, absent: f64) -> u64 {
        let reads = |bits: &u64| self.reads(*bits, absent);
        let all = 0..=MEMORY;
        all.min_by(|one, other| reads(one).total_cmp(&reads(other)))
            .unwrap_or(0)
    }

    /// Looks keys up, of which such a share is absent; the number makes the draws of each run its own.
    fn run(&self, bits: u64, (absent, number): (f64, u64), lookups: u64) -> Result<Seen, Failure> {
        let filter = match bits {
            0 => None,
            bits => {
                let mut filter = made(Classic::new(self.design(bits)?))?;
                fill(&mut filter, &self.keys)?;
                Some(filter)
            }
        };
        let cached = self.cached(bits);
        let mut random = self.bench.random(number);
        let present = self.law.draw(self.bench, lookups);
        let (mut reads, mut missing) = (0_u64, 0_u64);
        for (place, key) in (0_u64..).zip(present) {
            let is_absent = (random.next() >> 11) as f64 / ((1_u64 << 53) as f64) < absent;
            if is_absent {
                let key = self.bench.key(ABSENT + number * self.bench.keys + place);
                let passes = filter
                    .as_ref()
                    .is_none_or(|filter| filter.may_contain(&key));
                reads += u64::from(passes);
                missing += 1;
            } else {
                reads += u64::from(key >= cached);
            }
        }
        let lookups = lookups.max(1) as f64;
        Ok(Seen {
            reads: reads as f64 / lookups,
            absent: missing as f64 / lookups,
        })
    }

    fn push(&self, outcome: &mut Outcome, subject: &Subject, (expected, measured): (f64, f64)) {
        let trials = self.bench.keys as f64;
        let deviation = (expected * (1.0 - expected) / trials).max(0.0).sqrt();
        // A filter of few keys has a rate of its own.
        let off = 5.0 * deviation + 0.06 * expected + 3.0 / trials;
        let bounds = ((expected - off).max(0.0), expected + off);
        outcome.compared(subject, READS, (expected, measured), bounds);
    }
}
