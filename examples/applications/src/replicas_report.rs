//! Tables, plots and conclusions of the program `replicas`, from the rounds and bytes that it has measured.

use crate::divergence::{CASE_KEYS, Divergence};
use crate::reconcile::{Cost, Method};
use crate::replicas_theory as theory;
use crate::{Cell, Line, Plot, Report, Scale, Table, numbers};

/// Two replicas that were brought to agreement.
#[derive(Debug)]
pub struct Agreed {
    /// Writes since they were equal.
    pub changes: u64,
    /// How they differed.
    pub divergence: Divergence,
    /// Elements of the left one.
    pub elements: u64,
    /// How the differences were found.
    pub method: Method,
    /// The rounds and bytes.
    pub cost: Cost,
}

/// Each method by the number of differences of `keys` entries.
pub fn by_differences(report: &mut Report, keys: u64, agreed: &[Agreed]) {
    let heads = [
        "differences",
        "method",
        "rounds",
        "expected",
        "sketches",
        "bytes to find",
        "calculated",
        "entries sent",
        "in vain",
        "bytes of entries",
    ];
    let mut table = Table::new(format!("Two replicas of {keys} entries"), &heads);
    for one in agreed {
        let calculated = theory::finding_bytes(one.method, one.elements, &one.divergence);
        table.row([
            one.changes.into(),
            Cell::Text(one.method.name()),
            one.cost.rounds.into(),
            Cell::Number(theory::rounds(one.method, one.changes), 1),
            one.cost.sketches.into(),
            one.cost.finding_bytes.into(),
            (calculated.round() as u64).into(),
            one.cost.entries.into(),
            one.cost.in_vain.into(),
            one.cost.entry_bytes.into(),
        ]);
    }
    report.table(table);
    let best = agreed.chunk_by(|a, b| a.changes == b.changes).map(|group| {
        let costs = group
            .iter()
            .map(|one| (one.cost.finding_bytes, one.method.name()));
        let (_, name) = costs.min().unwrap_or_default();
        format!("{}: {name}", numbers::grouped(group[0].changes))
    });
    report.conclude(format!(
        "These methods find the differences with the fewest bytes, by their number: {}.",
        best.collect::<Vec<_>>().join("; ")
    ));
    report.plot(Plot {
        title: "Kilobytes to find the differences".into(),
        across: format!("differences, of {} entries", numbers::grouped(keys)),
        scales: (Scale::Logarithmic, Scale::Logarithmic),
        lines: lines_of(agreed),
    });
}

/// The lines of one method of each kind.
fn lines_of(agreed: &[Agreed]) -> Vec<Line> {
    let mut lines = Vec::new();
    for (class, name) in [
        ("none", "all hashes"),
        ("first", "filters, 8 bits"),
        ("second", "sketch"),
    ] {
        let (mut calculated, mut measured) = (Vec::new(), Vec::new());
        for one in agreed.iter().filter(|one| one.method.name() == name) {
            let bytes = theory::finding_bytes(one.method, one.elements, &one.divergence);
            calculated.push((one.changes as f64, bytes / 1_000.0));
            measured.push((one.changes as f64, one.cost.finding_bytes as f64 / 1_000.0));
        }
        lines.push(Line::new(class, format!("{name}, calculated"), calculated));
        lines.push(Line::dots(class, format!("{name}, measured"), measured));
    }
    lines
}

/// Filters of some size in many trials.
#[derive(Debug)]
pub struct Trials {
    /// Bits of a filter for each element.
    pub bits: u64,
    /// Digests and filters of this size.
    pub method: Method,
    /// The costs of each trial.
    pub costs: Vec<Cost>,
}

/// Rounds by the rate of the filters, for `changes` differences of `keys` entries.
pub fn by_rate(report: &mut Report, (changes, keys): (u64, u64), sizes: &[Trials]) {
    let trials = sizes.first().map_or(0, |size| size.costs.len());
    let title =
        format!("Rounds for {changes} differences of {keys} entries, mean of {trials} trials");
    let heads = [
        "bits per element",
        "rate",
        "rounds",
        "expected",
        "bytes to find",
    ];
    let mut table = Table::new(title, &heads);
    let (mut measured, mut calculated) = (Vec::new(), Vec::new());
    for size in sizes {
        let rounds: u64 = size.costs.iter().map(|cost| cost.rounds).sum();
        let bytes: u64 = size.costs.iter().map(|cost| cost.finding_bytes).sum();
        let mean = rounds as f64 / trials as f64;
        let expected = theory::rounds(size.method, changes);
        table.row([
            size.bits.into(),
            Cell::Share(theory::rate(size.bits)),
            Cell::Number(mean, 2),
            Cell::Number(expected, 2),
            (bytes / trials as u64).into(),
        ]);
        measured.push((size.bits as f64, mean));
        calculated.push((size.bits as f64, expected));
    }
    report.table(table);
    let off = |(found, expected): (&(f64, f64), &(f64, f64))| (found.1 / expected.1 - 1.0).abs();
    let most_off = measured
        .iter()
        .zip(&calculated)
        .map(off)
        .fold(0.0, f64::max);
    report.conclude(format!(
        "Filters of 1 bit per element need {:.1} rounds to find {changes} differences, filters of 16 bits \
         {:.1}. The formula is off by at most {:.0} %.",
        measured[0].1,
        measured.last().map_or(0.0, |last| last.1),
        100.0 * most_off,
    ));
    report.plot(Plot {
        title: format!("Rounds until all {changes} differences are found"),
        across: "bits per element of a filter".into(),
        scales: (Scale::Linear, Scale::Linear),
        lines: vec![
            Line::new("second", "calculated", calculated),
            Line::dots("first", "measured", measured),
        ],
    });
}

/// Two replicas that agree again after a partition.
#[derive(Debug)]
pub struct Partition {
    /// How they differed.
    pub divergence: Divergence,
    /// The rounds and bytes.
    pub cost: Cost,
    /// Keys with a value that both have then.
    pub values: u64,
}

/// One partition after the other, each with so many writes on each side.
pub fn partitions(report: &mut Report, (writes, keys): (u64, u64), partitions: &[Partition]) {
    let title = format!("Partitions: {writes} writes and deletions on each side, of {keys} keys");
    let heads = [
        "partition",
        "keys",
        "on both sides",
        "rounds",
        "bytes to find",
        "entries sent",
        "in vain",
        "values after it",
    ];
    let mut table = Table::new(title, &heads);
    for (number, one) in (1_u64..).zip(partitions) {
        table.row([
            number.into(),
            one.divergence.keys.into(),
            one.divergence.conflicts.into(),
            one.cost.rounds.into(),
            one.cost.finding_bytes.into(),
            one.cost.entries.into(),
            one.cost.in_vain.into(),
            one.values.into(),
        ]);
    }
    report.table(table);
    let sum = |count: fn(&Partition) -> u64| partitions.iter().map(count).sum();
    report.conclude(format!(
        "After each partition both replicas had the newest version of each key, with {} keys that \
         both had written. Of {} entries that were sent, {} were older than what the receiver had.",
        sum(|one| one.divergence.conflicts),
        numbers::grouped(sum(|one| one.cost.entries)),
        numbers::grouped(sum(|one| one.cost.in_vain)),
    ));
}

/// A special case by one method: its name, how differences were found, and the end.
#[derive(Debug)]
pub struct CaseEnd {
    /// The name of the case.
    pub case: &'static str,
    /// How differences were found.
    pub method: Method,
    /// The rounds and bytes.
    pub cost: Cost,
    /// Keys with a value that both have then.
    pub values: u64,
}

/// Special cases.
pub fn cases(report: &mut Report, ends: &[CaseEnd]) {
    let heads = [
        "case",
        "method",
        "rounds",
        "bytes to find",
        "entries sent",
        "in vain",
        "values after it",
    ];
    let mut table = Table::new(format!("Special cases: {CASE_KEYS} entries"), &heads);
    for end in ends {
        table.row([
            end.case.into(),
            Cell::Text(end.method.name()),
            end.cost.rounds.into(),
            end.cost.finding_bytes.into(),
            end.cost.entries.into(),
            end.cost.in_vain.into(),
            end.values.into(),
        ]);
    }
    report.table(table);
}
