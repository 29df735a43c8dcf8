//! How far filters can be filled from which keys can be taken out, and what happens then.

use criba_filters::{
    CountingBloom, Cuckoo, Delete as _, Error, Insert as _, Membership as _, Quotient, hash_key,
};

use crate::exit::{Exit, Failure};
use crate::lab::bench::{Bench, made};
use crate::lab::outcome::{Axes, FALSE_POSITIVES, INSERT, LOOKUP, Outcome, Quantity, Subject};
use crate::lab::sets::{fill, lookup_time, passing};

const LOAD: Quantity = Quantity::rate("load when full");
const KEPT: Quantity = Quantity::rate("kept after deletions");

/// Fills until there is no room; what the literature says of cuckoo filters is 95 %.
pub(crate) fn full(bench: &Bench) -> Result<Outcome, Failure> {
    let mut outcome = Outcome::default();
    let largest = bench.keys.ilog2();
    let mut sizes = vec![(largest - 6).max(8), (largest - 3).max(8), largest];
    sizes.dedup();
    for log2 in sizes {
        let cells = 1_u64 << log2;
        let keys = bench.present(cells + cells / 8);
        let mut cuckoo = made(Cuckoo::with_shape(log2 - 2, 12))?;
        let mut taken = 0;
        loop {
            match cuckoo.insert(&keys[taken]) {
                Ok(()) => taken += 1,
                Err(Error::Full { .. }) => break,
                Err(other) => return made(Err(other)),
            }
        }
        let subject = Subject::new("cuckoo").with("cells", cells);
        let subject = subject.bits(cuckoo.bits() as f64, taken as u64);
        outcome.compared(&subject, LOAD, (0.95, cuckoo.load()), (0.85, 1.0));
        // Full, but nothing is lost, and what is taken out makes room.
        let halves = keys[..taken].split_at(taken / 2);
        let removed = halves.0.iter().filter(|key| cuckoo.remove(*key)).count();
        check(
            removed == halves.0.len(),
            "a cuckoo filter has denied a key",
        )?;
        outcome.at_least(&subject, KEPT, (1.0, passing(&cuckoo, halves.1)));

        let mut quotient = made(Quotient::with_shape(log2, 9))?;
        let mut taken = 0;
        loop {
            match quotient.insert(&keys[taken]) {
                Ok(()) => taken += 1,
                Err(Error::Full { .. }) => break,
                Err(other) => return made(Err(other)),
            }
        }
        let subject = Subject::new("quotient").with("cells", cells);
        let subject = subject.bits(quotient.bits() as f64, taken as u64);
        outcome.compared(&subject, LOAD, (0.95, quotient.load()), (0.94, 0.96));
        let halves = keys[..taken].split_at(taken / 2);
        let removed = halves.0.iter().filter(|key| quotient.remove(*key)).count();
        check(
            removed == halves.0.len(),
            "a quotient filter has denied a key",
        )?;
        outcome.at_least(&subject, KEPT, (1.0, passing(&quotient, halves.1)));
    }
    outcome.note("full means that an insertion is refused; the filter is then as it was before");
    Ok(outcome)
}

const FULL: Quantity = Quantity::rate("counters full");

/// Times and rates on the way there, and what a counting filter does beyond what it was made for.
pub(crate) fn on_the_way(bench: &Bench) -> Result<Outcome, Failure> {
    let mut outcome = Outcome::default();
    let log2 = bench.keys.ilog2();
    let cells = 1_u64 << log2;
    let (keys, absent) = (bench.present(cells), bench.absent());
    let mut cuckoo = made(Cuckoo::with_shape(log2 - 2, 12))?;
    let mut quotient = made(Quotient::with_shape(log2, 9))?;
    let mut before = 0;
    for percent in [25, 50, 75, 85, 90, 94] {
        let until = (cells * percent / 100) as usize;
        let added = &keys[before..until];
        before = until;
        let load = percent as f64 / 100.0;
        let time = bench.clock.time(|| fill(&mut cuckoo, added))? / added.len() as f64;
        let subject = Subject::new("cuckoo").with("load", load);
        let subject = subject.bits(cuckoo.bits() as f64, until as u64);
        let rates = (cuckoo.expected_rate(), passing(&cuckoo, &absent));
        outcome.share(&subject, FALSE_POSITIVES, rates, (bench.keys, 0.1));
        outcome.measured(&subject, INSERT, time);
        outcome.measured(&subject, LOOKUP, lookup_time(bench, &cuckoo, &absent)?);
        let time = bench.clock.time(|| fill(&mut quotient, added))? / added.len() as f64;
        let subject = Subject::new("quotient").with("load", load);
        let subject = subject.bits(quotient.bits() as f64, until as u64);
        let rates = (quotient.expected_rate(), passing(&quotient, &absent));
        outcome.share(&subject, FALSE_POSITIVES, rates, (bench.keys, 0.1));
        outcome.measured(&subject, INSERT, time);
        outcome.measured(&subject, LOOKUP, lookup_time(bench, &quotient, &absent)?);
    }
    counting(bench, &mut outcome)?;
    outcome.plot(INSERT, "load", Axes::None);
    outcome.plot(LOOKUP, "load", Axes::None);
    outcome
        .note("a counting filter is never full: its rate rises, and counters that reach 15 stay");
    Ok(outcome)
}

fn counting(bench: &Bench, outcome: &mut Outcome) -> Result<(), Failure> {
    let mut filter = made(CountingBloom::with_rate(bench.keys / 8, 0.01))?;
    let hash = |number: u64| hash_key(bench.seed, &bench.key(number));
    let mut before = 0;
    for load in [0.5, 1.0, 2.0, 4.0, 8.0] {
        let until = (bench.keys as f64 / 8.0 * load) as u64;
        let add = || (before..until).try_for_each(|number| made(filter.insert(hash(number))));
        let time = bench.clock.time(add)? / (until - before).max(1) as f64;
        before = until;
        let absent = (1 << 40)..(1_u64 << 40) + bench.keys;
        let passing = absent
            .filter(|number| filter.may_contain(hash(*number)))
            .count();
        let bits = filter.shape().0 as f64 * 4.0;
        let subject = Subject::new("counting")
            .with("of keys made for", load)
            .bits(bits, until);
        let rates = (filter.rate_with(until), passing as f64 / bench.keys as f64);
        outcome.share(&subject, FALSE_POSITIVES, rates, (bench.keys, 0.06));
        outcome.measured(&subject, INSERT, time);
        outcome.measured(&subject, FULL, filter.full());
    }
    Ok(())
}

fn check(holds: bool, what: &str) -> Result<(), Failure> {
    if holds {
        return Ok(());
    }
    Err(Failure::new(
        Exit::Damaged,
        format!("{what}: please report this"),
    ))
}
