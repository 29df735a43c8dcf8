//! The summary at the end: for a person, or as one JSON object.

use std::fmt::Write as _;

use common::escape::Plain;
use crawl::SeenCounts;
use serde_json::{Map, Value, json};

use crate::seen::Mode;
use crate::summary::Summary;
use common::numbers::{bytes, grouped, percent};

/// The summary as lines of text.
pub(crate) fn text(summary: &Summary) -> String {
    let mut out = String::new();
    let mut line = |name: &str, text: String| {
        // Writing to memory cannot fail.
        writeln!(out, "{name:<14} {text}").unwrap_or_default();
    };
    crawl(summary, &mut line);
    seen(summary, &mut line);
    outcome(summary, &mut line);
    out
}

fn crawl(summary: &Summary, line: &mut impl FnMut(&str, String)) {
    let seeds: Vec<String> = summary
        .seeds
        .iter()
        .map(|seed| Plain(seed).to_string())
        .collect();
    line("crawled", seeds.join(" "));
    let speed = grouped(summary.pages_per_s() as u64);
    line("took", format!("{:.2?}, {speed} pages/s", summary.took));
    line(
        "pages",
        format!(
            "{} fetched, {} redirects, {} client errors, {} failed, {} not modified, {} retries, {} cut; {}",
            grouped(summary.pages),
            grouped(summary.redirects),
            grouped(summary.client_errors),
            grouped(summary.failed),
            grouped(summary.not_modified),
            grouped(summary.retries),
            grouped(summary.cut),
            bytes(summary.body_bytes),
        ),
    );
    line(
        "URLs",
        format!(
            "{} discovered, {} waiting, {} forbidden by robots.txt, {} broken",
            grouped(summary.urls_discovered),
            grouped(summary.waiting),
            grouped(summary.disallowed),
            grouped(summary.found.broken),
        ),
    );
    if !summary.left_out.is_empty() {
        let each = summary.left_out.iter();
        let each = each.map(|(reason, count)| format!("{} {}", grouped(*count), Plain(reason)));
        line("left out", each.collect::<Vec<_>>().join(", "));
    }
    line(
        "kinds",
        format!(
            "{} exact duplicates, {} near duplicates, {} name another as canonical, {} noindex",
            grouped(summary.exact_duplicates),
            grouped(summary.near_duplicates),
            grouped(summary.not_canonical),
            grouped(summary.noindex),
        ),
    );
}

fn outcome(summary: &Summary, line: &mut impl FnMut(&str, String)) {
    let filters = bytes(summary.filter_bytes);
    line(
        "store",
        format!(
            "{} in segments, filters {filters}",
            bytes(summary.store_bytes)
        ),
    );
    if let Some(peak) = summary.peak_rss_bytes {
        line("memory", format!("{} at most", bytes(peak)));
    }
    line("fetched twice", grouped(summary.fetched_twice));
    line("missed", summary.missed.map_or("unknown".into(), grouped));
    if summary.lost_to_filter > 0 {
        let lost = grouped(summary.lost_to_filter);
        line(
            "lost",
            format!("{lost} new URLs taken for seen by the filter"),
        );
    }
    if summary.hosts_held > 0 {
        let held = grouped(summary.hosts_held);
        let what =
            "hosts whose robots.txt cannot be reached; their URLs wait, run it again to go on";
        line("held", format!("{held} {what}"));
    }
    for held in &summary.held {
        line("", Plain(held).to_string());
    }
}

fn seen(summary: &Summary, line: &mut impl FnMut(&str, String)) {
    let seen = &summary.seen;
    line(
        "seen checks",
        format!(
            "{}: {} new, {} repeated ({}); --seen {}, --partition {}",
            grouped(seen.checks),
            grouped(seen.new),
            grouped(seen.repeated),
            percent(seen.repeated, seen.checks),
            summary.seen_mode,
            summary.partition,
        ),
    );
    line(
        "answered",
        format!(
            "{} by the front, {} by the memtable, {} by ranges, {} by filters, {} verified on disk",
            grouped(seen.answered_by_front),
            grouped(seen.answered_by_memtable),
            grouped(seen.answered_by_ranges),
            grouped(seen.answered_by_filter),
            grouped(seen.verified_on_disk),
        ),
    );
    line(
        "disk",
        match summary.seen_mode == Mode::Sled.name() {
            true => "sled does not say what it read".into(),
            false => format!(
                "{} reads of files ({:.6} per check), {} false positives",
                grouped(seen.disk_reads),
                seen.disk_reads_per_check(),
                grouped(seen.false_positives),
            ),
        },
    );
}

/// Lines that the user has to know of, with what to do.
pub(crate) fn warnings(summary: &Summary, max_bytes: usize) -> Vec<String> {
    let mut lines = Vec::new();
    if summary.cut > 0 {
        lines.push(format!(
            "warning: cut at {max_bytes} bytes: {} of the pages; to have them whole, crawl again with \
             `--recrawl --max-bytes N` and a larger N",
            grouped(summary.cut)
        ));
    }
    for seed in &summary.no_seed {
        lines.push(format!("warning: nothing came of {}", Plain(seed)));
    }
    if summary.is_stopped {
        lines.push(format!(
            "stopped; {} URLs wait: run it again to go on",
            grouped(summary.waiting)
        ));
    }
    lines
}

/// The summary as one object.
pub(crate) fn json(summary: &Summary) -> Value {
    let mut object = Map::new();
    for part in [
        json_crawl(summary),
        json_found(summary),
        json_seen(summary),
        json_answers(&summary.seen),
    ] {
        if let Value::Object(part) = part {
            object.extend(part);
        }
    }
    if summary.seen_mode == Mode::Sled.name() {
        // It does not say what it read.
        for name in ["disk_reads", "disk_reads_per_check"] {
            object.insert(name.into(), Value::Null);
        }
    }
    Value::Object(object)
}

fn json_crawl(summary: &Summary) -> Value {
    let left_out: Map<String, Value> = summary
        .left_out
        .iter()
        .map(|(reason, count)| (reason.clone(), json!(count)))
        .collect();
    json!({
        "seeds": summary.seeds,
        "took_s": summary.took.as_secs_f64(),
        "pages": summary.pages,
        "pages_per_s": summary.pages_per_s(),
        "fetches": summary.fetches,
        "redirects": summary.redirects,
        "client_errors": summary.client_errors,
        "failed": summary.failed,
        "not_modified": summary.not_modified,
        "retries": summary.retries,
        "disallowed": summary.disallowed,
        "waiting": summary.waiting,
        "hosts": summary.hosts,
        "hosts_held": summary.hosts_held,
        "held": summary.held,
        "body_bytes": summary.body_bytes,
        "urls_discovered": summary.urls_discovered,
        "links": summary.links,
        "left_out": left_out,
        "fetched_twice": summary.fetched_twice,
        "missed": summary.missed,
        "lost_to_filter": summary.lost_to_filter,
        "exact_duplicates": summary.exact_duplicates,
        "near_duplicates": summary.near_duplicates,
        "not_canonical": summary.not_canonical,
        "noindex": summary.noindex,
    })
}

/// Counts over the pages of all runs, as one object.
fn json_found(summary: &Summary) -> Value {
    let found = &summary.found;
    let statuses: Map<String, Value> = found
        .statuses
        .iter()
        .map(|(status, count)| (status.to_string(), json!(count)))
        .collect();
    json!({
        "statuses": statuses,
        "broken": found.broken,
        "cut": summary.cut,
        "cut_pages": found.cut,
        "stopped": summary.is_stopped,
        "no_seed": summary.no_seed,
    })
}

fn json_seen(summary: &Summary) -> Value {
    let seen = &summary.seen;
    json!({
        "seen_mode": summary.seen_mode,
        "partition": summary.partition,
        "seen_checks": seen.checks,
        "forced_false_positives": seen.forced,
        "blocks": seen.blocks,
        "store_bytes": summary.store_bytes,
        "filter_bytes": summary.filter_bytes,
        "written_bytes": summary.written_bytes,
        "peak_rss_bytes": summary.peak_rss_bytes,
    })
}

/// What it took to answer, as one object.
pub(crate) fn json_answers(seen: &SeenCounts) -> Value {
    json!({
        "new": seen.new,
        "repeated": seen.repeated,
        "answered_by_front": seen.answered_by_front,
        "answered_by_memtable": seen.answered_by_memtable,
        "answered_by_ranges": seen.answered_by_ranges,
        "answered_by_filter": seen.answered_by_filter,
        "filters_asked": seen.filters_asked,
        "verified_on_disk": seen.verified_on_disk,
        "false_positives": seen.false_positives,
        "blocks_without_filters": seen.blocks_without_filters,
        "disk_reads": seen.disk_reads,
        "disk_reads_per_check": seen.disk_reads_per_check(),
    })
}
