//! The crawl as a page: one file, nothing fetched, readable on light and dark screens.

mod demo;
mod found;

use std::fmt::Write as _;

use common::numbers::grouped;
use common::page::{Html, Line, figure, page, wide_table};

pub(crate) use self::demo::{curves, demo};
use crate::summary::{Point, Series, Summary};
use crawl::SeenCounts;

/// Points of a line at most: as many as can be seen.
const POINTS_MAX: usize = 300;

/// A self-contained page of a crawl.
pub(crate) fn html(summary: &Summary, series: &Series) -> String {
    let title = format!("Crawl of {}", summary.seeds.join(" "));
    let body = format!(
        "<h1>{}</h1>\n{}",
        Html(&title),
        crawl_parts(summary, series)
    );
    page(&title, "crawler", &body)
}

/// What there is to say of a crawl.
fn crawl_parts(summary: &Summary, series: &Series) -> String {
    let points = thinned(&series.points);
    format!(
        "<p class=\"conclusion\">{conclusion}</p>\n\
         <div class=\"beside plots\">\n{figures}</div>\n<div class=\"beside\">\n{tables}</div>\n{found}",
        conclusion = Html(&conclusion(summary)),
        figures = figures(&points),
        tables = tables(summary),
        found = found::tables(summary),
    )
}

fn conclusion(summary: &Summary) -> String {
    let seen = &summary.seen;
    format!(
        "{} pages in {:.1} s. {} links were looked up, and {} of them were new. The cache of recent \
         URLs answered {} lookups, the memtable {}, the ranges of the segments {} (none could have \
         the URL), the filters {}, and {} were verified on disk. That took {} reads of files.",
        grouped(summary.pages),
        summary.took.as_secs_f64(),
        grouped(seen.checks),
        grouped(seen.new),
        grouped(seen.answered_by_front),
        grouped(seen.answered_by_memtable),
        grouped(seen.answered_by_ranges),
        grouped(seen.answered_by_filter),
        grouped(seen.verified_on_disk),
        grouped(seen.disk_reads),
    )
}

/// The last of each stretch: totals lose nothing by that.
fn thinned(points: &[Point]) -> Vec<Point> {
    let stretch = points.len().div_ceil(POINTS_MAX).max(1);
    points
        .chunks(stretch)
        .filter_map(|part| part.last().copied())
        .collect()
}

fn figures(points: &[Point]) -> String {
    let line = |class, name, value: fn(&Point) -> u64| {
        let place = |point: &Point| (point.at.as_secs_f64(), value(point) as f64);
        Line::new(class, name, points.iter().map(place).collect())
    };
    let over_time = |name, measure| Line::new("second", name, stretches(points, measure));
    [
        figure(
            "Links looked up",
            "seconds",
            &[
                line("first", "seen before", |point| point.seen.repeated),
                line("second", "new", |point| point.seen.new),
            ],
        ),
        figure(
            "Where lookups were answered",
            "seconds",
            &[
                line("none", "recent URLs", |point| point.seen.answered_by_front),
                line("third", "memtable", |point| point.seen.answered_by_memtable),
                line("fourth", "ranges", |point| point.seen.answered_by_ranges),
                line("second", "filters", |point| point.seen.answered_by_filter),
                line("first", "verified on disk", |point| {
                    point.seen.verified_on_disk
                }),
            ],
        ),
        figure(
            "Reads of files for the lookups",
            "seconds",
            &[line("first", "reads", |point| point.seen.disk_reads)],
        ),
        figure(
            "New among the links looked up, %",
            "seconds",
            &[over_time("links that led to something new", percent_new)],
        ),
        figure(
            "Pages a second",
            "seconds",
            &[over_time("pages fetched and stored", pages_per_s)],
        ),
        figure(
            "URLs that wait",
            "seconds",
            &[line("second", "in the frontier", |point| point.queue)],
        ),
    ]
    .concat()
}

/// What was done in each of at most 60 stretches of time, at their middles; `measure` compares the
/// totals at the start of a stretch with those at its end.
fn stretches(points: &[Point], measure: fn(&Point, &Point) -> Option<f64>) -> Vec<(f64, f64)> {
    const STRETCHES: usize = 60;
    let every = points.len().div_ceil(STRETCHES).max(1);
    let first = points.first().copied().into_iter();
    let lasts = points.chunks(every).filter_map(|part| part.last().copied());
    let ends: Vec<Point> = first.chain(lasts).collect();
    let values = ends.windows(2).filter_map(|pair| {
        let middle = (pair[0].at + pair[1].at) / 2;
        measure(&pair[0], &pair[1]).map(|value| (middle.as_secs_f64(), value))
    });
    values.collect()
}

fn pages_per_s(start: &Point, end: &Point) -> Option<f64> {
    let seconds = end.at.saturating_sub(start.at).as_secs_f64();
    let pages = end.pages.saturating_sub(start.pages) as f64;
    (seconds > 0.0).then(|| pages / seconds)
}

fn percent_new(start: &Point, end: &Point) -> Option<f64> {
    let checks = end.seen.checks.saturating_sub(start.seen.checks) as f64;
    let new = end.seen.new.saturating_sub(start.seen.new) as f64;
    (checks > 0.0).then(|| 100.0 * new / checks)
}

fn tables(summary: &Summary) -> String {
    let left_out: Vec<(&str, String)> = summary
        .left_out
        .iter()
        .map(|(reason, count)| (reason.as_str(), grouped(*count)))
        .collect();
    let mut tables = table("Fetched", &fetched(summary));
    tables.push_str(&table("Was this URL seen?", &seen(summary, &summary.seen)));
    if !left_out.is_empty() {
        tables.push_str(&table("Links left out", &left_out));
    }
    tables
}

fn fetched(summary: &Summary) -> Vec<(&'static str, String)> {
    let mut rows = vec![
        ("Pages", grouped(summary.pages)),
        ("Requests that were answered", grouped(summary.fetches)),
        ("Redirects", grouped(summary.redirects)),
        ("Not changed (304)", grouped(summary.not_modified)),
        ("Refused (4xx)", grouped(summary.client_errors)),
        ("Retries", grouped(summary.retries)),
        ("Given up", grouped(summary.failed)),
        ("Cut at --max-bytes", grouped(summary.cut)),
        ("Broken addresses, all runs", grouped(summary.found.broken)),
        ("Forbidden by robots.txt", grouped(summary.disallowed)),
        ("Still waiting", grouped(summary.waiting)),
        ("Hosts", grouped(summary.hosts)),
        ("Fetched twice", grouped(summary.fetched_twice)),
    ];
    if let Some(missed) = summary.missed {
        rows.push(("Missed", grouped(missed)));
    }
    rows.extend([
        ("Same as another page", grouped(summary.exact_duplicates)),
        (
            "Nearly the same as another page",
            grouped(summary.near_duplicates),
        ),
        ("Bodies, MB", megabytes(summary.body_bytes)),
        ("Store, MB", megabytes(summary.store_bytes)),
        ("Filters in memory, MB", megabytes(summary.filter_bytes)),
    ]);
    if let Some(bytes) = summary.peak_rss_bytes {
        rows.push(("Memory at most, MB", megabytes(bytes)));
    }
    rows
}

fn seen(summary: &Summary, seen: &SeenCounts) -> Vec<(&'static str, String)> {
    vec![
        ("Mode", summary.seen_mode.clone()),
        ("Keys shared out by", summary.partition.clone()),
        (
            "URLs discovered, all runs",
            grouped(summary.urls_discovered),
        ),
        ("Looked up", grouped(seen.checks)),
        ("New", grouped(seen.new)),
        ("Seen before", grouped(seen.repeated)),
        (
            "Known from the cache of recent URLs",
            grouped(seen.answered_by_front),
        ),
        ("Known from a memtable", grouped(seen.answered_by_memtable)),
        (
            "New, as no segment could have it",
            grouped(seen.answered_by_ranges),
        ),
        ("New by the filters alone", grouped(seen.answered_by_filter)),
        ("Verified with a data block", grouped(seen.verified_on_disk)),
        (
            "Of these in vain: false positives",
            grouped(seen.false_positives),
        ),
        ("Reads of files", grouped(seen.disk_reads)),
        (
            "Reads for each lookup",
            format!("{:.5}", seen.disk_reads_per_check()),
        ),
        (
            "New URLs lost to the filter",
            grouped(summary.lost_to_filter),
        ),
    ]
}

fn table(title: &str, rows: &[(&str, String)]) -> String {
    let rows = rows.iter().fold(String::new(), |mut text, (name, value)| {
        // Writing to a string cannot fail.
        writeln!(
            text,
            "<tr><td>{}</td><td>{}</td></tr>",
            Html(name),
            Html(value)
        )
        .unwrap_or_default();
        text
    });
    format!(
        "<div><h2>{}</h2>\n<div class=\"wide\"><table>\n<tbody>\n{rows}</tbody>\n</table></div></div>\n",
        Html(title)
    )
}

/// The same for cells that are mostly text.
fn text_table(title: &str, heads: &[&str], rows: &[Vec<String>]) -> String {
    wide_table(title, heads, rows).replacen("<table>", "<table class=\"text\">", 1)
}

fn megabytes(bytes: u64) -> String {
    format!(
        "{}.{:02}",
        grouped(bytes / 1_000_000),
        bytes % 1_000_000 / 10_000
    )
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::summary::{Broken, Findings, Host, Reason};

    fn series(count: u64) -> Series {
        let point = |n: u64| Point {
            at: Duration::from_millis(100 * n),
            pages: 50 * n,
            queue: n * (count - n),
            seen: SeenCounts {
                checks: 1000 * n,
                new: 60 * n,
                repeated: 940 * n,
                blocks: 100 * n,
                disk_reads: 10 * n,
                blocks_without_filters: 700 * n,
                ..SeenCounts::default()
            },
        };
        Series {
            points: (0..count).map(point).collect(),
        }
    }

    fn evil_findings(evil: &str) -> Findings {
        Findings {
            statuses: vec![(0, 1), (200, 5)],
            broken: 2000,
            cut: vec![evil.into()],
            hosts: vec![Host {
                origin: evil.into(),
                ..Host::default()
            }],
            reasons: vec![Reason {
                why: evil.into(),
                count: 1,
                example: evil.into(),
            }],
            first_broken: vec![Broken {
                url: evil.into(),
                status: 404,
                why: evil.into(),
                links: 11,
                linked_from: vec![evil.into(); 10],
            }],
        }
    }

    #[test]
    fn the_page_stands_alone_and_escapes() {
        let evil = "<script>alert('x')</script>\u{202e}\0";
        let summary = Summary {
            seeds: vec![evil.into()],
            seen_mode: evil.into(),
            partition: evil.into(),
            left_out: vec![(evil.into(), 3)],
            missed: Some(0),
            found: evil_findings(evil),
            ..Summary::default()
        };
        let page = html(&summary, &series(1000));
        assert!(!page.contains("<script") && page.contains("&lt;script&gt;"));
        assert!(!page.contains(['\u{202e}', '\0']));
        assert_eq!(page.matches("<svg ").count(), 6);
        for foreign in ["src=", "href=", "url(", "@import", "NaN", "inf"] {
            assert!(!page.contains(foreign), "{foreign}");
        }
        assert!(page.contains("and 1 more") && page.contains("The first 1 of 2,000"));
        let tags = [
            "table", "figure", "svg", "div", "tr", "td", "p", "h2", "details", "summary",
        ];
        for tag in tags {
            let opened = page.matches(&format!("<{tag}>")).count()
                + page.matches(&format!("<{tag} ")).count();
            assert_eq!(opened, page.matches(&format!("</{tag}>")).count(), "{tag}");
        }
        assert!(page.len() < 100_000, "{}", page.len());
    }

    #[test]
    fn the_conclusion_counts_every_answer() {
        let seen = SeenCounts {
            checks: 1_500,
            new: 300,
            answered_by_front: 900,
            answered_by_memtable: 200,
            answered_by_ranges: 100,
            answered_by_filter: 180,
            verified_on_disk: 120,
            disk_reads: 77,
            blocks_without_filters: 999_999,
            ..SeenCounts::default()
        };
        let summary = Summary {
            pages: 40,
            seen,
            ..Summary::default()
        };
        assert_eq!(
            conclusion(&summary),
            "40 pages in 0.0 s. 1,500 links were looked up, and 300 of them were new. The cache of \
             recent URLs answered 900 lookups, the memtable 200, the ranges of the segments 100 \
             (none could have the URL), the filters 180, and 120 were verified on disk. That took \
             77 reads of files."
        );
        // It would be a saving in requests to a cache.
        assert!(!html(&summary, &Series::default()).contains("999,999"));
    }

    #[test]
    fn a_crawl_of_nothing_has_a_page() {
        let page = html(&Summary::default(), &Series::default());
        assert_eq!(page.matches("<svg ").count(), 6);
        assert!(!page.contains("NaN"));
    }

    #[test]
    fn thinning_keeps_the_last_point() {
        for count in [1, 299, 300, 301, 1000, 4096] {
            let all = series(count).points;
            let few = thinned(&all);
            assert!(few.len() <= POINTS_MAX);
            assert_eq!(
                few.last().map(|point| point.pages),
                all.last().map(|point| point.pages)
            );
        }
    }

    #[test]
    fn stretches_are_differences() {
        let points = series(500).points;
        let check = |measure, expected: f64| {
            let found = stretches(&points, measure);
            assert!(found.len() > 40);
            let is_right = |&(_, value): &(f64, f64)| (value - expected).abs() < 1e-6;
            assert!(found.iter().all(is_right), "{found:?}");
        };
        check(pages_per_s, 500.0);
        check(percent_new, 6.0);
        assert!(stretches(&[], pages_per_s).is_empty());
    }

    #[test]
    fn numbers_in_groups() {
        fn check(number: u64, expected: &str) {
            assert_eq!(grouped(number), expected);
        }
        check(0, "0");
        check(999, "999");
        check(1000, "1,000");
        check(1_234_567, "1,234,567");
    }
}
