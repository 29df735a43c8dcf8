//! The tables, plots and conclusions of the program `proxies`.

use common::numbers::grouped;
use common::page::{Line, Scale};

use crate::bits::changes_for;
use crate::proxy_counts::{CHANGE, Counts, HEAD};
use crate::sharing::Expected;
use crate::{Cell, Plot, Report, Table};

/// Proxies that have shared their caches in one way.
#[derive(Debug)]
pub struct Run {
    /// Whom a proxy asked at a miss.
    pub asked: &'static str,
    /// Requests of a proxy from one digest to the next, if there were digests.
    pub interval: Option<u64>,
    /// The events that were counted.
    pub counts: Counts,
    /// The events as calculated.
    pub expected: Expected,
}

impl Run {
    fn interval(&self) -> u64 {
        self.interval.unwrap_or(0)
    }

    /// A measured number and a calculated one, as shares of the requests in percent.
    fn percent(&self, measured: u64, calculated: f64) -> (f64, f64) {
        (100.0 * self.counts.share(measured), 100.0 * calculated)
    }
}

/// A name, a colour, and for each run a measured value and a calculated one.
type Series<'a> = (&'a str, &'static str, &'a dyn Fn(&Run) -> (f64, f64));

/// Adds dots for what was measured, and lines for what was calculated, by interval.
fn plot(report: &mut Report, runs: &[Run], (title, up): (&str, Scale), series: &[Series<'_>]) {
    let mut lines = Vec::new();
    for (name, colour, values) in series {
        let points = runs.iter().map(|run| (run.interval() as f64, values(run)));
        let (measured, calculated) = points.map(|(x, (y, line))| ((x, y), (x, line))).unzip();
        lines.push(Line::new(colour, format!("{name}, calculated"), calculated));
        lines.push(Line::dots(colour, *name, measured));
    }
    report.plot(Plot {
        title: title.into(),
        across: "requests of a proxy from one exchange to the next".into(),
        scales: (Scale::Logarithmic, up),
        lines,
    });
}

/// Digests beside asking nobody and asking everybody. These are the first two runs, in this order.
pub fn compare(report: &mut Report, [never, always]: &[Run; 2], by_digests: &[Run]) {
    let heads = [
        "asked",
        "interval",
        "local",
        "local expected",
        "remote",
        "remote expected",
        "false misses",
        "expected",
        "questions",
        "traffic",
    ];
    let mut table = Table::new(
        "Hits, false misses, questions and bytes, for each request",
        &heads,
    );
    for run in [never, always].into_iter().chain(by_digests) {
        let (counts, expected) = (&run.counts, &run.expected);
        table.row([
            run.asked.into(),
            run.interval.map_or(Cell::None, Cell::Count),
            Cell::Share(counts.share(counts.local)),
            Cell::Share(expected.local),
            Cell::Share(counts.share(counts.remote)),
            Cell::Share(expected.remote),
            Cell::Share(counts.share(counts.false_misses)),
            Cell::Share(expected.false_misses),
            Cell::Number(counts.share(counts.questions), 3),
            Cell::Number(counts.traffic(), 1),
        ]);
    }
    report.table(table);
    let title = ("False misses, percent of the requests", Scale::Linear);
    let values = |run: &Run| run.percent(run.counts.false_misses, run.expected.false_misses);
    let series: [Series<'_>; 1] = [("false misses", "first", &values)];
    plot(report, by_digests, title, &series);
    let Some(middle) = by_digests.get(by_digests.len().saturating_sub(1) / 2) else {
        return;
    };
    report.conclude(format!(
        "With digests after every {} requests, the proxies find {:.1} % of the objects that they find by asking \
         everybody, with {:.1} % of the questions and {:.0} % of the bytes.",
        grouped(middle.interval()),
        100.0 * middle.counts.remote as f64 / always.counts.remote as f64,
        100.0 * middle.counts.questions as f64 / always.counts.questions as f64,
        100.0 * middle.counts.traffic() / always.counts.traffic(),
    ));
}

/// Questions for objects that are not there. The filters have this false-positive rate, as calculated.
pub fn in_vain(report: &mut Report, runs: &[Run], rate: f64) {
    let heads = [
        "interval",
        "questions",
        "false positives",
        "expected",
        "stale",
        "stale expected",
        "filter rate",
        "rate expected",
    ];
    let mut table = Table::new("Questions in vain, as shares of the requests", &heads);
    for run in runs {
        let (counts, expected) = (&run.counts, &run.expected);
        table.row([
            run.interval().into(),
            counts.questions.into(),
            Cell::Share(counts.share(counts.false_positives)),
            Cell::Share(expected.false_positives),
            Cell::Share(counts.share(counts.stale)),
            Cell::Share(expected.stale),
            Cell::Share(counts.rate()),
            Cell::Share(rate),
        ]);
    }
    report.table(table);
    let wrong = |run: &Run| run.percent(run.counts.false_positives, run.expected.false_positives);
    let stale = |run: &Run| run.percent(run.counts.stale, run.expected.stale);
    let series: [Series<'_>; 2] = [
        ("false positives", "second", &wrong),
        ("stale entries", "first", &stale),
    ];
    let title = ("Questions in vain, percent of the requests", Scale::Linear);
    plot(report, runs, title, &series);
}

/// The changes from one exchange to the next, and the cost of sending them. The filters have so many bits and
/// probes, and hold so many objects.
pub fn exchanges(report: &mut Report, runs: &[Run], shape: (u64, u8), objects: u64) {
    let heads = [
        "interval",
        "new at last",
        "at last expected",
        "new in the mean",
        "mean expected",
        "bits changed",
        "bits expected",
        "changes",
        "digest",
    ];
    let title = format!("Each exchange of a proxy with {} objects", grouped(objects));
    let objects = objects as f64;
    let mut table = Table::new(title, &heads);
    let expected = |run: &Run| changes_for(shape, objects, run.expected.new_at_last);
    for run in runs {
        let counts = &run.counts;
        let (changes, digests) = counts.updates();
        table.row([
            run.interval().into(),
            Cell::Number(counts.at_exchange(counts.new_at_last), 1),
            Cell::Number(run.expected.new_at_last, 1),
            Cell::Share(counts.new as f64 / counts.reads as f64 / objects),
            Cell::Share(run.expected.new / objects),
            Cell::Number(counts.at_exchange(counts.changed_bits), 1),
            Cell::Number(expected(run), 1),
            Cell::Bytes(counts.at_exchange(changes) as u64),
            Cell::Bytes(counts.at_exchange(digests) as u64),
        ]);
    }
    report.table(table);
    let updates = |run: &Run| {
        let (changes, digests) = run.counts.updates();
        (run.counts.share(changes), run.counts.share(digests))
    };
    let calculated = |run: &Run, bytes: f64| (HEAD as f64 + bytes) / run.interval() as f64;
    let changes = |run: &Run| {
        (
            updates(run).0,
            calculated(run, CHANGE as f64 * expected(run)),
        )
    };
    let digests = |run: &Run| (updates(run).1, calculated(run, shape.0.div_ceil(8) as f64));
    let series: [Series<'_>; 2] = [
        ("changes", "first", &changes),
        ("whole digests", "second", &digests),
    ];
    let title = (
        "Bytes of updates to one proxy, for each request",
        Scale::Logarithmic,
    );
    plot(report, runs, title, &series);
    let is_less = |run: &&Run| run.counts.updates().0 < run.counts.updates().1;
    if let Some(run) = runs.iter().rfind(is_less) {
        report.conclude(format!(
            "The changes are smaller than the whole digest up to an interval of {} requests, among those that were \
             tried. {:.1} % of the objects are then new at an exchange.",
            grouped(run.interval()),
            100.0 * run.counts.at_exchange(run.counts.new_at_last) / objects,
        ));
    }
}

/// Proxies with digests of one size: the false-positive rate for which the digests are made, that rate as
/// calculated for a full cache, and the events that were counted.
pub type Size = (f64, f64, Counts);

/// The false positives of smaller and larger digests.
pub fn sizes(report: &mut Report, interval: u64, sizes: &[Size]) {
    let title = format!(
        "Digests of other sizes, after every {} requests",
        grouped(interval)
    );
    let heads = [
        "rate expected",
        "counters",
        "digest",
        "filter rate",
        "false positives",
        "stale",
        "false misses",
        "traffic",
    ];
    let mut table = Table::new(title, &heads);
    for (_, expected, counts) in sizes {
        table.row([
            Cell::Share(*expected),
            Cell::Bytes(counts.digest / 2),
            Cell::Bytes(counts.digest / 8),
            Cell::Share(counts.rate()),
            counts.false_positives.into(),
            counts.stale.into(),
            counts.false_misses.into(),
            Cell::Number(counts.traffic(), 1),
        ]);
    }
    report.table(table);
    let traffic = |size: &&Size| size.2.traffic();
    let least = |one: &&Size, other: &&Size| traffic(one).total_cmp(&traffic(other));
    if let Some(size) = sizes.iter().min_by(least) {
        report.conclude(format!(
            "Among these rates, {} % needs the fewest bytes between proxies: {:.1} for each request. At a lower one \
             the digests are larger, at a higher one more questions are in vain.",
            100.0 * size.0,
            traffic(&size),
        ));
    }
}
