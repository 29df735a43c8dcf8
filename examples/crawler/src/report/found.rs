//! Tables of what the crawl has found: statuses, hosts, failures, links that lead nowhere.

use std::fmt::Write as _;

use common::page::{Html, wide_table};

use super::{megabytes, table, text_table};
use crate::summary::{Broken, Findings, Summary};
use common::numbers::grouped;

/// All tables that have rows.
pub(super) fn tables(summary: &Summary) -> String {
    let found = &summary.found;
    let mut out = String::from("<div class=\"beside\">\n");
    if !found.statuses.is_empty() {
        out.push_str(&statuses(found));
    }
    if !found.hosts.is_empty() {
        out.push_str(&hosts(found));
    }
    out.push_str("</div>\n");
    if !found.reasons.is_empty() {
        out.push_str(&reasons(found));
    }
    if !found.cut.is_empty() {
        let rows: Vec<Vec<String>> = found.cut.iter().map(|url| vec![url.clone()]).collect();
        out.push_str(&text_table("Cut at --max-bytes", &["page"], &rows));
    }
    if !found.first_broken.is_empty() {
        out.push_str(&broken(found));
    }
    out
}

fn statuses(found: &Findings) -> String {
    let name = |status: u16| match status {
        0 => "no answer".into(),
        status => status.to_string(),
    };
    let rows: Vec<(String, u64)> = found
        .statuses
        .iter()
        .map(|(status, count)| (name(*status), *count))
        .collect();
    let rows: Vec<(&str, String)> = rows
        .iter()
        .map(|(name, count)| (name.as_str(), grouped(*count)))
        .collect();
    table("Answers, all runs", &rows)
}

fn hosts(found: &Findings) -> String {
    let heads = ["host", "pages", "broken", "MB"];
    let row = |host: &crate::summary::Host| {
        vec![
            host.origin.clone(),
            grouped(host.pages),
            grouped(host.failed),
            megabytes(host.bytes),
        ]
    };
    let rows: Vec<Vec<String>> = found.hosts.iter().map(row).collect();
    let table = wide_table("Hosts, all runs", &heads, &rows);
    format!("<div>{table}</div>\n")
}

fn reasons(found: &Findings) -> String {
    let heads = ["why", "addresses", "one of them"];
    let row = |reason: &crate::summary::Reason| {
        vec![
            reason.why.clone(),
            grouped(reason.count),
            reason.example.clone(),
        ]
    };
    let rows: Vec<Vec<String>> = found.reasons.iter().map(row).collect();
    text_table("What was not fetched, and why", &heads, &rows)
}

fn broken(found: &Findings) -> String {
    let shown = found.first_broken.len() as u64;
    let mut rows = String::new();
    for one in &found.first_broken {
        // Writing to a string cannot fail.
        writeln!(
            rows,
            "<tr><td>{}</td><td>{}</td><td>{}</td></tr>",
            Html(&one.url),
            Html(&one.why),
            linkers(one)
        )
        .unwrap_or_default();
    }
    let note = if found.broken > shown {
        let (shown, all) = (grouped(shown), grouped(found.broken));
        format!("<p>The first {shown} of {all}; <code>--broken FILE</code> has all.</p>\n")
    } else {
        String::new()
    };
    format!(
        "<h2>Broken links</h2>\n{note}<div class=\"wide\"><table class=\"text\">\n<thead><tr>\
         <th>leads to</th><th>why</th><th>linked from</th></tr></thead>\n<tbody>\n{rows}</tbody>\n\
         </table></div>\n"
    )
}

/// Who links to it, folded away.
fn linkers(one: &Broken) -> String {
    if one.linked_from.is_empty() {
        return "no page".into();
    }
    let mut pages = String::new();
    for url in &one.linked_from {
        write!(pages, "<br>{}", Html(url)).unwrap_or_default();
    }
    let beyond = one.links.saturating_sub(one.linked_from.len() as u64);
    if beyond > 0 {
        write!(pages, "<br>and {} more", grouped(beyond)).unwrap_or_default();
    }
    let count = match one.links {
        1 => "1 page".into(),
        links => format!("{} pages", grouped(links)),
    };
    format!("<details><summary>{count}</summary>{pages}</details>")
}
