//! Static maps from keys to values: ribbon, peeling, binary fuse.

use criba_filters::{Fuse, KeyHash, Lookup as _, Map, Membership, Peeled, hash_key};

use crate::exit::Failure;
use crate::lab::bench::{Bench, Key, made};
use crate::lab::outcome::{Axes, FALSE_POSITIVES, LOOKUP, Outcome, Quantity, Subject};
use crate::lab::sets::{lookup_time, passing};

const SPACE: Quantity = Quantity::number("space / information");
const BUILD: Quantity = Quantity::number("build ns");
const SEEDS: Quantity = Quantity::number("seeds tried, mean");

/// Bits of a value, and of its check.
const VALUE_BITS: u32 = 8;
const CHECK_BITS: u32 = 8;

/// Maps that are built to see how often a seed has to be tried again.
const BUILDS: u64 = 5;

/// The parts of [`Bench`] that a map of each kind is measured with.
struct Entries<'a> {
    bench: &'a Bench,
    entries: Vec<(Key, u64)>,
    absent: Vec<Key>,
}

pub(crate) fn run(bench: &Bench) -> Result<Outcome, Failure> {
    let mut outcome = Outcome::default();
    let sizes = [100, 1000, 10_000, 100_000, 1_000_000, 10_000_000];
    for size in sizes.into_iter().filter(|size| *size <= bench.keys) {
        let value = |number: u64| (bench.key(number), number & ((1 << VALUE_BITS) - 1));
        let maps = Entries {
            bench,
            entries: (0..size).map(value).collect(),
            absent: bench.absent(),
        };
        maps.ribbon(&mut outcome)?;
        maps.peeled(&mut outcome)?;
        maps.fuse(&mut outcome)?;
    }
    outcome.plot(SPACE, "keys", Axes::Horizontal);
    outcome.plot(BUILD, "keys", Axes::Both);
    outcome.note(format!(
        "values of {VALUE_BITS} bits with {CHECK_BITS} to check; space is bits per key over these 16; \
         every value was read back"
    ));
    Ok(outcome)
}

impl Entries<'_> {
    fn subject(&self, name: &str, bits: u64) -> Subject {
        let keys = self.entries.len() as u64;
        Subject::new(name)
            .with("keys", keys)
            .bits(bits as f64, keys)
    }

    /// The entries, hashed with a seed.
    fn hashed(&self, seed: u64) -> impl Iterator<Item = (KeyHash, u64)> {
        let hashed = move |(key, value): &(Key, u64)| (hash_key(seed, key), *value);
        self.entries.iter().map(hashed)
    }

    fn ribbon(&self, outcome: &mut Outcome) -> Result<(), Failure> {
        let (seed, entries) = (self.bench.seed, &self.entries);
        let check = f64::from(CHECK_BITS);
        let build = |seed| made(Map::build(self.hashed(seed), VALUE_BITS, check));
        let map = build(seed)?;
        let subject = self.subject("ribbon", map.bits());
        self.space(outcome, &subject, &map)?;
        self.read_back(&subject, |key| map.get(hash_key(seed, key)))?;
        let time = self
            .bench
            .time(entries.len() as u64, || build(seed).map(drop))?;
        outcome.measured(&subject, BUILD, time);
        Ok(())
    }

    fn peeled(&self, outcome: &mut Outcome) -> Result<(), Failure> {
        let (seed, entries) = (self.bench.seed, &self.entries);
        let build = |seed| made(Peeled::build(self.hashed(seed), VALUE_BITS, CHECK_BITS));
        let map = build(seed)?;
        let subject = self.subject("peeled", map.bits());
        self.space(outcome, &subject, &map)?;
        self.read_back(&subject, |key| map.get(hash_key(seed, key)))?;
        let time = self
            .bench
            .time(entries.len() as u64, || build(seed).map(drop))?;
        outcome.measured(&subject, BUILD, time);
        self.seeds(outcome, &subject, |seed| Ok(build(seed)?.attempts()))
    }

    fn fuse(&self, outcome: &mut Outcome) -> Result<(), Failure> {
        let (seed, entries) = (self.bench.seed, &self.entries);
        let build = |seed| made(Fuse::build(self.hashed(seed), VALUE_BITS, CHECK_BITS));
        let map = build(seed)?;
        let subject = self.subject("binary fuse", map.bits());
        self.space(outcome, &subject, &map)?;
        self.read_back(&subject, |key| map.get(hash_key(seed, key)))?;
        let time = self
            .bench
            .time(entries.len() as u64, || build(seed).map(drop))?;
        outcome.measured(&subject, BUILD, time);
        self.seeds(outcome, &subject, |seed| Ok(build(seed)?.attempts()))
    }

    fn space(
        &self,
        outcome: &mut Outcome,
        subject: &Subject,
        map: &impl Membership,
    ) -> Result<(), Failure> {
        let information = self.entries.len() as f64 * f64::from(VALUE_BITS + CHECK_BITS);
        outcome.measured(subject, SPACE, map.bits() as f64 / information);
        let rates = (f64::from(CHECK_BITS), passing(map, &self.absent));
        let rates = ((-rates.0).exp2(), rates.1);
        let trials = self.absent.len() as u64;
        outcome.share(subject, FALSE_POSITIVES, rates, (trials, 0.02));
        outcome.measured(subject, LOOKUP, lookup_time(self.bench, map, &self.absent)?);
        Ok(())
    }

    /// Every key has its own value.
    fn read_back(
        &self,
        subject: &Subject,
        get: impl Fn(&[u8]) -> Option<u64>,
    ) -> Result<(), Failure> {
        let is_own = |(key, value): &(Key, u64)| get(key) == Some(*value);
        if self.entries.iter().all(is_own) {
            return Ok(());
        }
        Err(Failure::new(
            crate::exit::Exit::Damaged,
            format!("{} has lost a value: please report this", subject.structure),
        ))
    }

    fn seeds(
        &self,
        outcome: &mut Outcome,
        subject: &Subject,
        attempts: impl Fn(u64) -> Result<u32, Failure>,
    ) -> Result<(), Failure> {
        let mut sum = 0;
        // Large maps are built once: there, the first seed is good almost surely.
        let builds = if self.entries.len() > 10_000 {
            1
        } else {
            BUILDS
        };
        for build in 0..builds {
            sum += attempts(self.bench.seed.wrapping_add(build * 1000))?;
        }
        outcome.measured(subject, SEEDS, f64::from(sum) / builds as f64);
        Ok(())
    }
}
