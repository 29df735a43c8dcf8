//! Steps and times of each operation of a structure, and whether its answers are right.

use std::collections::BTreeSet;
use std::hint::black_box;
use std::ops::Bound::{Excluded, Unbounded};
use std::time::Instant;

use applications::dictionary::{Dictionary, Kind, Operation};
use applications::growth::Order;
use applications::{Error, Options, Random, Result, people};

use crate::Growth;

/// Rounds of which times are the median.
const ROUNDS: usize = 3;
/// Operations in a round, where one is quick.
const CALLS: usize = 40;

/// People who are no contacts.
const STRANGERS: u64 = 50_000;

/// Mean steps of an operation, and the median of its nanoseconds.
#[derive(Clone, Copy)]
pub(crate) struct Cost {
    pub(crate) steps: f64,
    pub(crate) nanos: f64,
}

/// Contacts in random order, people who are none of them, and the exact answers.
pub(crate) struct Contacts {
    pub(crate) all: Vec<String>,
    /// Some of them, from anywhere.
    some: Vec<String>,
    pub(crate) others: Vec<String>,
    exact: BTreeSet<String>,
}

impl Contacts {
    pub(crate) fn new(size: u64, options: &Options) -> Contacts {
        let mut random = Random::new(options.seed, size);
        let all = people(size, "example.org", &mut random);
        let others = people(STRANGERS, "example.net", &mut random);
        let mut some = all.clone();
        random.shuffle(&mut some);
        some.truncate(ROUNDS * CALLS);
        let exact = all.iter().cloned().collect();
        Contacts {
            all,
            some,
            others,
            exact,
        }
    }
}

/// What each operation of a structure costs: all that it can do, in their order.
pub(crate) fn costs_of(kind: Kind, contacts: &Contacts) -> Result<Vec<Cost>> {
    let mut rounds = Vec::new();
    for round in 0..ROUNDS {
        let start = Instant::now();
        let mut dictionary = kind.create(&contacts.all)?;
        let nanos = start.elapsed().as_nanos() as f64;
        let created = Cost {
            steps: dictionary.steps() as f64,
            nanos,
        };
        let some = &contacts.some[round * CALLS..][..CALLS];
        let others = &contacts.others[round * CALLS..][..CALLS];
        if round == 0 {
            check(kind, dictionary.as_ref(), &contacts.exact, (some, others))?;
        }
        let costs = Growth::all_of(kind).map(|growth| match growth.operation {
            Operation::Create => Ok(created),
            _ => timed(dictionary.as_mut(), &growth, contacts, round),
        });
        rounds.push(costs.collect::<Result<Vec<Cost>>>()?);
        if round == 0 {
            let mut exact = contacts.exact.clone();
            for removed in some {
                exact.remove(removed);
            }
            exact.extend(others.iter().cloned());
            check(kind, dictionary.as_ref(), &exact, (others, some))?;
        }
    }
    let summary = |operation: usize| {
        let mut costs: Vec<Cost> = rounds.iter().map(|round| round[operation]).collect();
        let steps = costs.iter().map(|cost| cost.steps).sum::<f64>() / ROUNDS as f64;
        costs.sort_by(|one, other| one.nanos.total_cmp(&other.nanos));
        Cost {
            steps,
            nanos: costs[ROUNDS / 2].nanos,
        }
    };
    Ok((0..rounds[0].len()).map(summary).collect())
}

/// Mean steps and nanoseconds of some calls; a slow operation is called once.
fn timed(
    dictionary: &mut dyn Dictionary,
    growth: &Growth,
    contacts: &Contacts,
    round: usize,
) -> Result<Cost> {
    use Operation::{Add, Ends, Find, FindAbsent, List, Neighbours, Remove};
    let calls = match (growth.operation, growth.promised) {
        (Find | FindAbsent | Add | Remove, _) => CALLS,
        (_, Order::Constant | Order::Logarithmic) => CALLS,
        _ => 1,
    };
    let from = match growth.operation {
        FindAbsent | Add => &contacts.others,
        _ => &contacts.some,
    };
    let sample = &from[round * CALLS..][..calls];
    let (before, start) = (dictionary.steps(), Instant::now());
    for contact in sample {
        match growth.operation {
            Find | FindAbsent => drop(black_box(dictionary.contains(contact)?)),
            List => drop(black_box(dictionary.sorted()?)),
            Ends => drop(black_box(dictionary.ends()?)),
            Neighbours => drop(black_box(dictionary.neighbours(contact)?)),
            Add => dictionary.add(contact)?,
            Remove => dictionary.remove(contact)?,
            Operation::Create => {}
        }
    }
    let nanos = start.elapsed().as_nanos() as f64 / calls as f64;
    let steps = (dictionary.steps() - before) as f64 / calls as f64;
    Ok(Cost { steps, nanos })
}

/// What a structure answers must be what a set of the standard library answers, about some that are
/// in it and some that are not.
fn check(
    kind: Kind,
    dictionary: &dyn Dictionary,
    exact: &BTreeSet<String>,
    (present, absent): (&[String], &[String]),
) -> Result<()> {
    let wrong = |what: &str| Err(Error::Wrong(format!("{}: {what}", kind.name())));
    for contact in present {
        if !dictionary.contains(contact)? {
            return wrong("a contact is not found");
        }
    }
    if kind == Kind::Filter {
        // It may say yes of anybody else.
        return Ok(());
    }
    for other in absent {
        if dictionary.contains(other)? {
            return wrong("somebody is found who is no contact");
        }
    }
    if !dictionary.sorted()?.iter().eq(exact) {
        return wrong("the sorted list");
    }
    if dictionary.ends()? != (exact.first().cloned(), exact.last().cloned()) {
        return wrong("the least and the greatest");
    }
    let contact = &present[0];
    let before = exact.range::<String, _>(..contact).next_back().cloned();
    let after = exact
        .range::<String, _>((Excluded(contact), Unbounded))
        .next()
        .cloned();
    if dictionary.neighbours(contact)? != (before, after) {
        return wrong("the predecessor and the successor");
    }
    Ok(())
}
