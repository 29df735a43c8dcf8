//! Contacts: one dictionary, six structures, and whether each operation grows as the textbook promises.
//!
//! The table of orders is in every textbook on algorithms (for example Skiena, "The algorithm design
//! manual", 2008, section 3.3). Here each operation is done at sizes that grow by four, and its steps
//! are counted, as counts repeat exactly: comparisons, hashes, moves, bits, or blocks on disk. The
//! exponent `e` for which steps grow as `n^e` is fitted through all sizes and stands beside the exponent
//! that the same fit gives for the promised function. Times stand beside as they are.
//!
//! A Bloom filter does less than the others: "did we add this person already?" is a question it
//! answers at once, in 10 bits. It is wrong for about one new person in 120, who is then not added.

#[path = "contacts/measure.rs"]
mod measure;

use std::process::ExitCode;

use applications::dictionary::{Kind, Operation};
use applications::growth::{Order, exponent};
use applications::numbers::grouped;
use applications::{Cell, Error, Line, Options, Plot, Report, Result, Scale, Table, program};
use clap::Parser;

use measure::{Contacts, Cost, costs_of};

/// Measures how the operations of a dictionary grow in six structures.
#[derive(Parser, Debug)]
#[command(name = "contacts", version)]
struct Args {
    #[command(flatten)]
    options: Options,
}

fn main() -> ExitCode {
    program(|args: &Args| &args.options, |args| run(&args.options))
}

/// The costs of an operation of a structure at all sizes.
struct Growth {
    kind: Kind,
    operation: Operation,
    promised: Order,
    costs: Vec<Cost>,
}

impl Growth {
    /// One for each operation that the structure can do.
    fn all_of(kind: Kind) -> impl Iterator<Item = Growth> {
        let growth = move |operation| {
            Some(Growth {
                kind,
                operation,
                promised: kind.promised(operation)?,
                costs: Vec::new(),
            })
        };
        Operation::ALL.into_iter().filter_map(growth)
    }

    /// The least and the greatest size are the first and the last.
    fn ends(&self) -> Option<(Cost, Cost)> {
        Some((*self.costs.first()?, *self.costs.last()?))
    }

    fn exponent(&self, sizes: &[u64], cost: impl Fn(&Cost) -> f64) -> f64 {
        let sizes = sizes.iter().map(|&size| size as f64);
        let points: Vec<(f64, f64)> = sizes.zip(self.costs.iter().map(cost)).collect();
        exponent(&points)
    }
}

fn run(options: &Options) -> Result<Report> {
    let mut report = Report::new(
        "contacts",
        "Contacts",
        "Does each operation of a dictionary grow as promised, in six structures?",
    );
    let sizes: Vec<u64> = (0..options.size(5, 3))
        .map(|power| 1_000_u64 << (2 * power))
        .collect();
    let mut errors = Table::new(
        "Did we add this person already? New people of whom the filter says yes",
        &[
            "contacts",
            "new people",
            "taken for contacts",
            "share",
            "calculated",
        ],
    );
    let mut share = 0.0;
    let mut growths: Vec<Growth> = Kind::ALL.into_iter().flat_map(Growth::all_of).collect();
    for &size in &sizes {
        let contacts = Contacts::new(size, options);
        for kind in Kind::ALL {
            let of_kind = growths.iter_mut().filter(|growth| growth.kind == kind);
            for (growth, cost) in of_kind.zip(costs_of(kind, &contacts)?) {
                growth.costs.push(cost);
            }
        }
        share = false_answers(&contacts, &mut errors)?;
    }
    for kind in Kind::ALL {
        report.table(table_of(kind, &growths, &sizes));
    }
    report.table(times(&growths, &sizes));
    report.table(errors);
    for operation in [Operation::Find, Operation::Add] {
        report.plot(plot(operation, &growths, &sizes));
    }
    conclude(&growths, &sizes, share, &mut report);
    Ok(report)
}

/// New people whom the filter takes for contacts.
fn false_answers(contacts: &Contacts, table: &mut Table) -> Result<f64> {
    let filter = Kind::Filter.create(&contacts.all)?;
    for contact in &contacts.all {
        if !filter.contains(contact)? {
            return Err(Error::Wrong(format!(
                "{contact} was added, and the filter says no"
            )));
        }
    }
    let mut taken = 0_u64;
    for person in &contacts.others {
        taken += u64::from(filter.contains(person)?);
    }
    let (people, share) = (
        contacts.others.len() as u64,
        taken as f64 / contacts.others.len() as f64,
    );
    table.row([
        Cell::Count(contacts.all.len() as u64),
        people.into(),
        taken.into(),
        Cell::Share(share),
        Cell::Share(filter.rate()),
    ]);
    Ok(share)
}

/// How the operations of a structure grow.
fn table_of(kind: Kind, growths: &[Growth], sizes: &[u64]) -> Table {
    let (min, max) = (grouped(sizes[0]), grouped(sizes[sizes.len() - 1]));
    let title = format!(
        "Growth in the {}, {min} to {max} contacts; a step is {}",
        kind.name(),
        kind.step()
    );
    let heads = [
        "operation",
        "promised",
        "steps at min n",
        "steps at max n",
        "exponent",
        "calculated",
        "ns at min n",
        "ns at max n",
        "exponent of ns",
    ];
    let mut table = Table::new(title, &heads);
    for operation in Operation::ALL {
        let growth = find(growths, kind, operation);
        let Some((growth, (min, max))) = growth.and_then(|growth| Some((growth, growth.ends()?)))
        else {
            let none = || Cell::None;
            table.row([
                operation.name().into(),
                none(),
                none(),
                none(),
                none(),
                none(),
                none(),
                none(),
                none(),
            ]);
            continue;
        };
        table.row([
            operation.name().into(),
            growth.promised.name().into(),
            steps(min.steps),
            steps(max.steps),
            Cell::Number(growth.exponent(sizes, |cost| cost.steps), 2),
            Cell::Number(growth.promised.exponent(sizes), 2),
            Cell::Count(min.nanos as u64),
            Cell::Count(max.nanos as u64),
            Cell::Number(growth.exponent(sizes, |cost| cost.nanos), 2),
        ]);
    }
    table
}

/// With decimals only where they say something.
fn steps(steps: f64) -> Cell {
    match steps {
        _ if steps < 100.0 => Cell::Number(steps, 2),
        _ => Cell::Count(steps.round() as u64),
    }
}

fn find(growths: &[Growth], kind: Kind, operation: Operation) -> Option<&Growth> {
    (growths.iter()).find(|growth| (growth.kind, growth.operation) == (kind, operation))
}

/// The times of all structures side by side.
fn times(growths: &[Growth], sizes: &[u64]) -> Table {
    let heads = [
        "operation",
        "unsorted array",
        "sorted array",
        "balanced tree",
        "hash table",
        "Bloom filter",
        "store on disk",
    ];
    let max = grouped(sizes[sizes.len() - 1]);
    let mut table = Table::new(format!("Nanoseconds with {max} contacts"), &heads);
    for operation in Operation::ALL {
        let [a, b, c, d, e, f] = Kind::ALL.map(|kind| {
            let ends = find(growths, kind, operation).and_then(Growth::ends);
            ends.map_or(Cell::None, |(_, max)| Cell::Count(max.nanos as u64))
        });
        table.row([operation.name().into(), a, b, c, d, e, f]);
    }
    table
}

/// Steps in memory by size, and the orders that were promised, through the last dot.
fn plot(operation: Operation, growths: &[Growth], sizes: &[u64]) -> Plot {
    let mut lines = Vec::new();
    let classes = ["first", "second", "third", "fourth", "none"];
    for (class, kind) in classes.into_iter().zip(Kind::ALL) {
        let Some(growth) = find(growths, kind, operation) else {
            continue;
        };
        let Some((_, last)) = growth.ends() else {
            continue;
        };
        let order = growth.promised;
        let at_last = order.at(sizes[sizes.len() - 1] as f64);
        let promised = sizes
            .iter()
            .map(|&size| (size as f64, last.steps * order.at(size as f64) / at_last));
        lines.push(Line::new(class, order.name(), promised.collect()));
        let measured = sizes
            .iter()
            .zip(&growth.costs)
            .map(|(&size, cost)| (size as f64, cost.steps));
        lines.push(Line::dots(class, kind.name(), measured.collect()));
    }
    Plot {
        title: format!(
            "Steps of \"{}\": dots measured, lines promised",
            operation.name()
        ),
        across: "contacts".into(),
        scales: (Scale::Logarithmic, Scale::Logarithmic),
        lines,
    }
}

fn conclude(growths: &[Growth], sizes: &[u64], share: f64, report: &mut Report) {
    let off = |growth: &Growth| {
        let measured = growth.exponent(sizes, |cost| cost.steps);
        (measured - growth.promised.exponent(sizes)).abs()
    };
    if let Some(worst) = growths
        .iter()
        .max_by(|one, other| off(one).total_cmp(&off(other)))
    {
        report.conclude(format!(
            "The exponents of {} operations differ from the promised ones by at most {:.2}: \"{}\" of \
             the {}.",
            growths.len(),
            off(worst),
            worst.operation.name(),
            worst.kind.name(),
        ));
    }
    let ends = |kind, operation| find(growths, kind, operation).and_then(Growth::ends);
    if let Some((min, max)) = ends(Kind::Table, Operation::Find) {
        report.conclude(format!(
            "The promise is about steps, and times are another matter: to find a contact in the hash table \
             takes {:.1} steps and {:.0} ns at the least size, {:.1} steps and {:.0} ns at the greatest.",
            min.steps, min.nanos, max.steps, max.nanos,
        ));
    }
    report.conclude(format!(
        "The Bloom filter takes {:.2} % of new people for contacts, who would then not be added. It cannot \
         list contacts or take one out.",
        100.0 * share
    ));
    let reads = (
        ends(Kind::Store, Operation::Find),
        ends(Kind::Store, Operation::FindAbsent),
    );
    if let (Some((_, found)), Some((_, absent))) = reads {
        report.conclude(format!(
            "At the greatest size, the store reads {:.2} blocks to find a contact and {:.2} for somebody who \
             is none; its answers are those of the exact set.",
            found.steps, absent.steps,
        ));
    }
}
