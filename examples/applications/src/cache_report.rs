//! The tables, plots and conclusions of the program `cache`.

use common::numbers::grouped;
use common::page::{Line, Scale};

use crate::replay::{Outcome, share};
use crate::trace::{Catalogue, Trace};
use crate::{Cell, Plot, Report, Table};

/// The traces, and those from which they were drawn.
pub fn describe(report: &mut Report, traces: &[(&Trace, Option<&Catalogue>)]) {
    let heads = [
        "trace",
        "requests",
        "objects",
        "one-hit wonders",
        "share",
        "expected",
        "bytes",
    ];
    let mut table = Table::new("The traces", &heads);
    for (trace, catalogue) in traces {
        let requests = trace.requests.len() as u64;
        let expected = catalogue.map(|catalogue| catalogue.one_hit_wonders(requests));
        table.row([
            trace.name.as_str().into(),
            requests.into(),
            trace.objects.into(),
            trace.one_hit_wonders.into(),
            share(trace.one_hit_wonders, trace.objects),
            expected.map_or(Cell::None, Cell::Share),
            Cell::Bytes(trace.bytes),
        ]);
    }
    report.table(table);
}

/// Policies on one trace, at several capacities.
#[derive(Debug)]
pub struct Comparison<'a> {
    /// The name of the trace.
    pub trace: &'a str,
    /// Capacities as shares of the bytes of all objects.
    pub capacities: &'a [f64],
    /// The place of the capacity for which there is a table.
    pub shown: usize,
    /// The name of each policy, and its outcome at each capacity. The first one is LRU alone, the last one
    /// is LRU behind the filter.
    pub policies: [(&'static str, Vec<Outcome>); 4],
    /// The hit rate of LRU at each capacity, calculated.
    pub expected: Option<Vec<f64>>,
}

/// All policies: a table at one capacity, and plots over all.
pub fn compare(report: &mut Report, comparison: &Comparison<'_>) {
    let Comparison { trace, shown, .. } = *comparison;
    policies(report, comparison);
    curves(report, comparison);
    let [lru, .., filter] = &comparison.policies;
    let (lru, filter) = (lru.1[shown], filter.1[shown]);
    if lru.written == 0 {
        return;
    }
    report.conclude(format!(
        "{trace}: behind the filter, LRU writes {:.1} % of the bytes that it writes alone. Its hit rate is {:.1} % \
         instead of {:.1} %.",
        100.0 * filter.written as f64 / lru.written as f64,
        100.0 * filter.hit_rate(),
        100.0 * lru.hit_rate(),
    ));
}

fn policies(report: &mut Report, comparison: &Comparison<'_>) {
    let shown = comparison.shown;
    let percent = 100.0 * comparison.capacities[shown];
    let title = format!("{}: a cache of {percent} % of all bytes", comparison.trace);
    let heads = [
        "policy",
        "hit rate",
        "expected",
        "byte hit rate",
        "writes",
        "bytes written",
        "of LRU",
        "for nothing",
    ];
    let mut table = Table::new(title, &heads);
    let lru = comparison.policies[0].1[shown];
    for (place, (policy, outcomes)) in comparison.policies.iter().enumerate() {
        let outcome = outcomes[shown];
        let expected = comparison.expected.as_ref().filter(|_| place == 0);
        table.row([
            (*policy).into(),
            share(outcome.hits, outcome.requests),
            expected.map_or(Cell::None, |rates| Cell::Share(rates[shown])),
            share(outcome.hit_bytes, outcome.bytes),
            outcome.writes.into(),
            Cell::Bytes(outcome.written),
            share(outcome.written, lru.written),
            share(outcome.for_nothing, outcome.writes),
        ]);
    }
    report.table(table);
}

fn curves(report: &mut Report, comparison: &Comparison<'_>) {
    let across = |values: Vec<f64>| {
        let percent = comparison.capacities.iter().map(|share| 100.0 * share);
        percent.zip(values).collect::<Vec<_>>()
    };
    let curve = |value: fn(&Outcome) -> f64| {
        let colours = ["second", "third", "fourth", "first"];
        let policies = colours.into_iter().zip(&comparison.policies);
        let dots = policies.map(|(colour, (policy, outcomes))| {
            let values = outcomes.iter().map(value).collect();
            Line::dots(colour, *policy, across(values))
        });
        dots.collect::<Vec<Line>>()
    };
    let mut hits = curve(|outcome| 100.0 * outcome.hit_rate());
    let written = curve(|outcome| outcome.written as f64 / 1e6);
    if let Some(rates) = &comparison.expected {
        let percent = rates.iter().map(|rate| 100.0 * rate).collect();
        hits.push(Line::new("second", "LRU, calculated", across(percent)));
    }
    for (title, lines) in [("hit rate, percent", hits), ("megabytes written", written)] {
        report.plot(Plot {
            title: format!("{}: {title}", comparison.trace),
            across: "capacity of the cache, percent of all bytes".into(),
            scales: (Scale::Logarithmic, Scale::Linear),
            lines,
        });
    }
}

/// A filter with generations of a false-positive rate.
#[derive(Debug)]
pub struct Rate {
    /// The false-positive rate of a generation that is full.
    pub rate: f64,
    /// The size of the filter in bytes, and that size calculated.
    pub bytes: (u64, u64),
    /// How often an object was asked for that is not in the filter.
    pub absent: u64,
    /// How often the answer was "maybe" nevertheless, and that number calculated.
    pub wrong: (u64, f64),
    /// The outcome of the cache behind the filter.
    pub outcome: Outcome,
}

/// The cost of the filter's false positives. The second and the third rate are compared.
pub fn rates(report: &mut Report, trace: &Trace, rates: &[Rate; 4]) {
    let heads = [
        "rate",
        "filter",
        "filter expected",
        "asked first",
        "wrong",
        "wrong expected",
        "one-hit kept",
        "kept expected",
        "bytes written",
        "hit rate",
    ];
    let mut table = Table::new("Rates of a full generation, made-up trace", &heads);
    for of_rate in rates {
        let (wrong, wrong_expected) = of_rate.wrong;
        // A one-hit wonder is kept as often as any object that the filter does not hold.
        let kept = wrong_expected / of_rate.absent as f64 * trace.one_hit_wonders as f64;
        table.row([
            Cell::Share(of_rate.rate),
            Cell::Bytes(of_rate.bytes.0),
            Cell::Bytes(of_rate.bytes.1),
            of_rate.absent.into(),
            wrong.into(),
            Cell::Number(wrong_expected, 0),
            of_rate.outcome.for_nothing.into(),
            Cell::Number(kept, 0),
            Cell::Bytes(of_rate.outcome.written),
            Cell::Share(of_rate.outcome.hit_rate()),
        ]);
    }
    report.table(table);
    let [_, low, high, _] = rates;
    let kilobytes = |of_rate: &Rate| of_rate.bytes.0 as f64 / 1e3;
    report.conclude(format!(
        "A rate of {} % instead of {} % makes the filter {:.1} KB instead of {:.1} KB. The cache keeps {} \
         one-hit wonders instead of {}, and writes {:.0} % more bytes.",
        100.0 * high.rate,
        100.0 * low.rate,
        kilobytes(high),
        kilobytes(low),
        grouped(high.outcome.for_nothing),
        grouped(low.outcome.for_nothing),
        100.0 * (high.outcome.written as f64 / low.outcome.written as f64 - 1.0),
    ));
}

/// A filter that gets another size after half of the trace.
#[derive(Debug)]
pub struct Resize {
    /// The change.
    pub name: &'static str,
    /// The keys for which a generation has room at last.
    pub keys: u64,
    /// The outcome of each part of the trace.
    pub parts: Vec<Outcome>,
}

/// Parts of a trace that a plot shows, before the change and after it.
const SHOWN: usize = 12;

/// Another size in the middle. The second change keeps the generations, the fourth begins empty.
pub fn resizes(report: &mut Report, changes: &[Resize; 4]) {
    let heads = [
        "filter",
        "keys",
        "hit rate before",
        "hit rate after",
        "hit rate at last",
        "writes before",
        "writes after",
    ];
    let mut table = Table::new("Another size in the middle, made-up trace", &heads);
    let (mut hits, mut writes) = (Vec::new(), Vec::new());
    let colours = ["none", "first", "second", "third"];
    for (Resize { name, keys, parts }, colour) in changes.iter().zip(colours) {
        let middle = parts.len() / 2;
        let [before, after, last] = [middle - 1, middle, parts.len() - 1].map(|part| parts[part]);
        table.row([
            (*name).into(),
            (*keys).into(),
            Cell::Share(before.hit_rate()),
            Cell::Share(after.hit_rate()),
            Cell::Share(last.hit_rate()),
            before.writes.into(),
            after.writes.into(),
        ]);
        let points = |value: fn(&Outcome) -> f64| {
            let shown = middle - SHOWN..middle + SHOWN;
            let place = |part: usize| 100.0 * (part as f64 + 0.5) / parts.len() as f64;
            shown
                .map(|part| (place(part), value(&parts[part])))
                .collect()
        };
        let percent = points(|part| 100.0 * part.hit_rate());
        hits.push(Line::dots(colour, *name, percent));
        writes.push(Line::dots(colour, *name, points(|part| part.writes as f64)));
    }
    report.table(table);
    for (title, lines) in [("hit rate, percent", hits), ("objects written", writes)] {
        report.plot(Plot {
            title: format!("The filter gets another size at 50: {title}"),
            across: "requests, percent of the trace".into(),
            scales: (Scale::Linear, Scale::Linear),
            lines,
        });
    }
    let after = |change: &Resize| change.parts[change.parts.len() / 2];
    let [_, kept, _, empty] = changes.each_ref().map(after);
    report.conclude(format!(
        "In the first part after the change, the cache writes {} objects if the filter keeps its old generations, \
         and {} if it begins empty. The hit rate is {:.1} % and {:.1} %: what is in the cache stays there.",
        kept.writes,
        empty.writes,
        100.0 * kept.hit_rate(),
        100.0 * empty.hit_rate(),
    ));
}
