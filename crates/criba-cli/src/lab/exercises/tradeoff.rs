//! All structures at one rate of false positives: memory, time to build, time to ask.

use criba_filters::{
    Blocked, Classic, Compressed, CountingBloom, Cuckoo, Design, Ensemble, Fuse, Growth,
    Hierarchical, Hybrid, Insert, Map, Membership, Partitioned, Peeled, Quotient, Scalable,
};

use crate::exit::Failure;
use crate::lab::bench::{Bench, Key, made};
use crate::lab::outcome::{FALSE_POSITIVES, LOOKUP, Outcome, Plot, Quantity, Subject};
use crate::lab::sets::{fill, lookup_time, passing};

const BUILD: Quantity = Quantity::number("build ns");
const PRESENT: Quantity = Quantity::number("lookup of present ns");

/// The rate that all are made for: 2^-8, so that whole bits of a check meet it.
const RATE: f64 = 1.0 / 256.0;
const CHECK_BITS: u32 = 8;

/// Bits per key of a blocked filter with about that rate.
const BLOCKED_BITS: f64 = 12.2;

pub(crate) fn run(bench: &Bench) -> Result<Outcome, Failure> {
    let mut outcome = Outcome::default();
    let (keys, absent) = (bench.present(bench.keys), bench.absent());
    let mut all = Table {
        bench,
        keys: &keys,
        absent: &absent,
        outcome: &mut outcome,
    };
    let count = bench.keys;
    let growth = Growth {
        first_keys: (count / 16).max(1),
        first_rate: RATE * 0.1,
        growth: 2.0,
        tightening: 0.9,
    };
    let design = made(Design::for_rate(count, RATE))?;
    all.inserted("classic", || made(Classic::new(design)))?;
    all.inserted("blocked", || made(Blocked::new(count, BLOCKED_BITS)))?;
    all.inserted("partitioned", || made(Partitioned::new(count, RATE)))?;
    all.inserted("ensemble", || made(Ensemble::new(count, 0.0625, RATE)))?;
    all.inserted("hierarchical", || {
        made(Hierarchical::new(count, 0.25, RATE))
    })?;
    all.inserted("compressed", || made(Compressed::new(count, RATE)))?;
    all.inserted("hybrid", || made(Hybrid::new(count, 0.1, RATE)))?;
    all.inserted("scalable", || made(Scalable::new(growth)))?;
    all.inserted("cuckoo", || made(Cuckoo::new(count, RATE)))?;
    all.inserted("quotient", || made(Quotient::new(count, RATE)))?;
    all.built("ribbon", || made(Map::set(&keys, f64::from(CHECK_BITS))))?;
    all.built("peeled", || made(Peeled::set(&keys, CHECK_BITS)))?;
    all.built("binary fuse", || made(Fuse::set(&keys, CHECK_BITS)))?;
    all.inserted("counting", || made(CountingBloom::with_rate(count, RATE)))?;
    outcome.plots.push(Plot::Memory);
    outcome.bars(LOOKUP);
    outcome.bars(BUILD);
    outcome.note(format!(
        "all made for a rate of {RATE}; cuckoo and quotient filters have a power of two of cells, so \
         their memory for these keys is up to twice that of a full one"
    ));
    outcome.note("compressed and hybrid filters take the memory told only while they are asked");
    Ok(outcome)
}

struct Table<'a> {
    bench: &'a Bench,
    keys: &'a [Key],
    absent: &'a [Key],
    outcome: &'a mut Outcome,
}

impl Table<'_> {
    /// A set that keys are put into.
    fn inserted<T: Insert>(
        &mut self,
        name: &str,
        make: impl Fn() -> Result<T, Failure>,
    ) -> Result<(), Failure> {
        let keys = self.keys;
        self.built(name, || {
            let mut set = make()?;
            fill(&mut set, keys)?;
            Ok(set)
        })
    }

    /// A set that is built from its keys.
    fn built<T: Membership>(
        &mut self,
        name: &str,
        build: impl Fn() -> Result<T, Failure>,
    ) -> Result<(), Failure> {
        let set = build()?;
        let count = self.keys.len() as u64;
        let subject = Subject::new(name).bits(set.bits() as f64, count);
        let rates = (set.expected_rate(), passing(&set, self.absent));
        let trials = self.absent.len() as u64;
        self.outcome
            .share(&subject, FALSE_POSITIVES, rates, (trials, 0.15));
        let time = self.bench.time(count, || build().map(drop))?;
        self.outcome.measured(&subject, BUILD, time);
        let time = lookup_time(self.bench, &set, self.absent)?;
        self.outcome.measured(&subject, LOOKUP, time);
        let time = lookup_time(self.bench, &set, self.keys)?;
        self.outcome.measured(&subject, PRESENT, time);
        Ok(())
    }
}
