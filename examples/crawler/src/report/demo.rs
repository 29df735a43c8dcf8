//! The page of the run without URLs: both crawls.

use common::numbers::grouped;
use common::page::{Html, Line, figure, page, wide_table};

use super::{crawl_parts, megabytes};
use crate::demo::curves::Curve;
use crate::demo::{Larger, Row, Shown};

/// Colours of the rows, in their order.
const CLASSES: [&str; 5] = ["first", "second", "none", "third", "fourth"];

/// A self-contained page.
pub(crate) fn demo(shown: &Shown) -> String {
    let mut body = String::from("<h1>What filters are for in a crawl</h1>\n");
    if !shown.larger.rows.is_empty() {
        body.push_str(&larger(&shown.larger));
    }
    let (held, followed) = (&shown.summary, &shown.followed);
    body.push_str(&format!(
        "<h2>A site that the program serves itself</h2>\n<p>With <code>nofollow</code> held: {} \
         requests, {} MB. With all links followed: {} requests, {} MB.</p>\n{}",
        grouped(held.fetches),
        megabytes(held.body_bytes),
        grouped(followed.fetches),
        megabytes(followed.body_bytes),
        crawl_parts(&shown.summary, &shown.series),
    ));
    page("What filters are for in a crawl", "crawler", &body)
}

/// A self-contained page of the curves.
pub(crate) fn curves(curves: &[Curve]) -> String {
    let title = "Reads of files in a crawl larger than its memory";
    let figures: String = curves.iter().map(curve).collect();
    let body = format!("<h1>{title}</h1>\n<div class=\"beside plots\">\n{figures}</div>\n");
    page(title, "crawler", &body)
}

fn curve(curve: &Curve) -> String {
    let line = |(at, (name, class)): (usize, (&'static str, &&'static str))| {
        let point = |(x, reads): &(f64, Vec<f64>)| Some((*x, *reads.get(at)?));
        Line::new(class, name, curve.points.iter().filter_map(point).collect())
    };
    let lines = crate::demo::curves::names().zip(&CLASSES).enumerate();
    let lines: Vec<Line> = lines.map(line).collect();
    figure(curve.title, curve.unit, &lines)
}

/// The crawl that is larger than its memory.
fn larger(larger: &Larger) -> String {
    let task = &larger.task;
    let reads = lines(&larger.rows, |moment| moment.reads as f64);
    let bytes = lines(&larger.rows, |moment| moment.device_bytes as f64);
    let mut figures = figure("Reads of files", "links looked up", &reads);
    if larger.is_counted {
        figures.push_str(&figure("Bytes from the device", "links looked up", &bytes));
    }
    format!(
        "<p class=\"conclusion\">{conclusion}</p>\n<h2>A crawl larger than its memory</h2>\n\
         <p>{pages} pages of {hosts} hosts in a made-up web, {links} links each, {new:.0} of 100 of them \
         new. Memory: two memtables of {memtable} MB, a cache of {cache} MB, {front} addresses in \
         front, and the filters. Five hundred times in each crawl the files are dropped from the \
         page cache, so that the system's memory does not stand in for the budget.</p>\n<div class=\"beside plots\">\n{figures}</div>\n{table}",
        conclusion = Html(&conclusion(&larger.rows)),
        pages = grouped(task.pages),
        hosts = grouped(task.hosts as u64),
        links = crate::demo::PAGE_LINKS,
        new = 100.0 * task.new,
        memtable = megabytes(task.memtable_bytes),
        cache = megabytes(task.cache_bytes),
        front = grouped(task.front as u64),
        table = table(larger),
    )
}

fn conclusion(rows: &[Row]) -> String {
    let find = |name| rows.iter().find(|row| row.name == name);
    let (Some(with), Some(without)) = (find("bloomier"), find("none")) else {
        return String::new();
    };
    let lost = find(crate::demo::FILTER_ALONE).map_or(0, |row| row.missed);
    format!(
        "With a Bloomier filter in each segment the crawl read files {} times, without filters {} \
         times. Both missed nothing. A filter alone reads nothing for its answers, and missed {} \
         addresses.",
        grouped(with.total.reads),
        grouped(without.total.reads),
        grouped(lost),
    )
}

fn lines(rows: &[Row], value: fn(&crate::demo::Moment) -> f64) -> Vec<Line> {
    let line = |(row, class): (&Row, &&'static str)| {
        let place = |moment: &crate::demo::Moment| (moment.links as f64, value(moment));
        Line::new(class, row.name, row.series.iter().map(place).collect())
    };
    rows.iter().zip(&CLASSES).map(line).collect()
}

fn table(larger: &Larger) -> String {
    let heads = [
        "",
        "reads of files",
        "MB from the device",
        "MB of filters",
        "front",
        "memtable",
        "no segment",
        "filters",
        "on disk",
        "filters asked",
        "in vain",
        "missed",
        "twice",
    ];
    let row = |row: &Row| {
        let seen = &row.seen;
        let device = match larger.is_counted {
            true => megabytes(row.total.device_bytes),
            false => "from the system".into(),
        };
        vec![
            row.name.to_owned(),
            grouped(row.total.reads),
            device,
            megabytes(row.filter_bytes),
            grouped(seen.answered_by_front),
            grouped(seen.answered_by_memtable),
            grouped(seen.answered_by_ranges),
            grouped(seen.answered_by_filter),
            grouped(seen.verified_on_disk),
            grouped(seen.filters_asked),
            grouped(seen.false_positives),
            grouped(row.missed),
            grouped(row.twice),
        ]
    };
    let rows: Vec<Vec<String>> = larger.rows.iter().map(row).collect();
    wide_table("Where the answers came from", &heads, &rows)
}
