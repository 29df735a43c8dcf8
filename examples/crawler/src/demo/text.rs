//! What the demo has shown: for a person, or as one JSON object.

use std::fmt::Write as _;

use serde_json::{Value, json};

use super::{Larger, Row, Shown};
use crate::print;
use common::numbers::{bytes, grouped};

/// Both crawls as text.
pub(crate) fn text(shown: &Shown) -> String {
    let mut out = String::from("A site that is served here, crawled over HTTP\n\n");
    out.push_str(&print::text(&shown.summary));
    let (obeyed, followed) = (&shown.summary, &shown.followed);
    let line = |name: &str, summary: &crate::summary::Summary| {
        format!(
            "{name:<14} {} requests, {}, {:.2?}\n",
            grouped(summary.fetches),
            bytes(summary.body_bytes),
            summary.took
        )
    };
    out.push_str(&line("nofollow held", obeyed));
    out.push_str(&line("and followed", followed));
    if !shown.larger.rows.is_empty() {
        out.push('\n');
        out.push_str(&larger(&shown.larger));
    }
    out
}

/// The crawl that is larger than its memory, as tables.
fn larger(larger: &Larger) -> String {
    let task = &larger.task;
    let most = larger.rows.iter().map(|row| row.linked).max();
    let segments = larger.rows.iter().map(|row| row.segment_bytes).max();
    let mut out = format!(
        "A crawl larger than its memory: {} pages of {} hosts, {} addresses in {} of segments\n\
         Memory: two memtables of {}, {} of cache, {} addresses in front; filters as told\n\n",
        grouped(task.pages),
        grouped(task.hosts as u64),
        grouped(most.unwrap_or_default()),
        bytes(segments.unwrap_or_default()),
        bytes(task.memtable_bytes),
        bytes(task.cache_bytes),
        grouped(task.front as u64),
    );
    let device = match larger.is_counted {
        true => "from device",
        false => "from system",
    };
    let heads = ["reads", device, "filters", "time", "missed", "twice"];
    table(&mut out, &heads, larger, |row| {
        vec![
            grouped(row.total.reads),
            match larger.is_counted {
                true => bytes(row.total.device_bytes),
                false => "-".into(),
            },
            bytes(row.filter_bytes),
            format!("{:.1} s", row.total.took.as_secs_f64()),
            grouped(row.missed),
            grouped(row.twice),
        ]
    });
    out.push('\n');
    let heads = [
        "links", "front", "memtable", "ranges", "filters", "on disk", "asked", "in vain",
    ];
    table(&mut out, &heads, larger, |row| {
        let seen = &row.seen;
        let numbers = [
            seen.checks,
            seen.answered_by_front,
            seen.answered_by_memtable,
            seen.answered_by_ranges,
            seen.answered_by_filter,
            seen.verified_on_disk,
            seen.filters_asked,
            seen.false_positives,
        ];
        numbers.map(grouped).to_vec()
    });
    out
}

fn table(out: &mut String, heads: &[&str], larger: &Larger, cells: impl Fn(&Row) -> Vec<String>) {
    let mut line = |name: &str, cells: &[String]| {
        let cells: String = cells.iter().map(|cell| format!("{cell:>12}")).collect();
        // Writing to memory cannot fail.
        writeln!(out, "{name:<14}{cells}").unwrap_or_default();
    };
    let heads: Vec<String> = heads.iter().map(|&head| head.to_owned()).collect();
    line("", &heads);
    for row in &larger.rows {
        line(row.name, &cells(row));
    }
}

/// Everything as one object.
pub(crate) fn json(shown: &Shown) -> Value {
    let followed = &shown.followed;
    let task = &shown.larger.task;
    let rows: Vec<Value> = shown.larger.rows.iter().map(json_row).collect();
    json!({
        "site": print::json(&shown.summary),
        "nofollow_followed": {
            "fetches": followed.fetches,
            "body_bytes": followed.body_bytes,
            "took_s": followed.took.as_secs_f64(),
        },
        "larger_than_memory": {
            "pages": task.pages,
            "hosts": task.hosts,
            "new": task.new,
            "memtable_bytes": task.memtable_bytes,
            "cache_bytes": task.cache_bytes,
            "front": task.front,
            "partition": task.partition.name(),
            "device_is_counted": shown.larger.is_counted,
            "rows": rows,
        },
    })
}

fn json_row(row: &Row) -> Value {
    let mut object = print::json_answers(&row.seen);
    if row.name == "sled" {
        // It does not say what it read; its read calls are below.
        object["disk_reads"] = Value::Null;
        object["disk_reads_per_check"] = Value::Null;
    }
    object["name"] = json!(row.name);
    object["checks"] = json!(row.seen.checks);
    object["linked"] = json!(row.linked);
    object["missed"] = json!(row.missed);
    object["fetched_twice"] = json!(row.twice);
    object["read_calls"] = json!(row.total.reads);
    object["device_bytes"] = json!(row.total.device_bytes);
    object["filter_bytes"] = json!(row.filter_bytes);
    object["segment_bytes"] = json!(row.segment_bytes);
    object["took_s"] = json!(row.total.took.as_secs_f64());
    object
}
