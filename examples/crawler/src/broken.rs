//! Links that lead nowhere: addresses that answered 4xx or 5xx, or failed, and who links to them.
//!
//! One more pass over the records, with the numbers of the broken addresses in memory. Their texts
//! and those of the pages that link to them are read when they are written.

use std::collections::HashMap;

use crawl::keys;
use criba::Keyspace;
use serde_json::json;

use crate::failure::Failure;
use crate::log::address;
use crate::output::Output;
use crate::record::Record;
use crate::summary::Broken;
use crate::survey::why;

/// Pages that are named for each broken address.
const NAMED_MAX: usize = 10;
/// Broken addresses in the report.
const SHOWN_MAX: usize = 1_000;

/// Pages that link to a broken address.
#[derive(Default)]
struct Linkers {
    count: u64,
    first: Vec<u64>,
}

/// Writes a line for each broken address; the first ones are for the report. `broken` are their
/// numbers, ascending.
pub(crate) fn write(
    pages: &Keyspace,
    broken: &[u64],
    mut lines: Option<&mut Output>,
) -> Result<Vec<Broken>, Failure> {
    let most = if lines.is_some() {
        usize::MAX
    } else {
        SHOWN_MAX
    };
    let broken = &broken[..broken.len().min(most)];
    let linkers = linkers(pages, broken)?;
    let mut shown = Vec::new();
    for id in broken {
        let (Some(linkers), Some(value)) = (linkers.get(id), pages.get(keys::number(*id))?) else {
            continue;
        };
        let one = described(pages, &Record::decode(&value)?, linkers)?;
        if let Some(lines) = &mut lines {
            lines.write(line(&one));
        }
        if shown.len() < SHOWN_MAX {
            shown.push(one);
        }
    }
    Ok(shown)
}

/// Who links to these.
fn linkers(pages: &Keyspace, broken: &[u64]) -> Result<HashMap<u64, Linkers>, Failure> {
    let of = broken.iter().map(|id| (*id, Linkers::default()));
    let mut of: HashMap<u64, Linkers> = of.collect();
    if of.is_empty() {
        return Ok(of);
    }
    for entry in pages.iter() {
        let (key, value) = entry?;
        let id = keys::read_number(&key);
        for link in Record::decode(&value)?.links {
            if let Some(linkers) = of.get_mut(&link) {
                linkers.count += 1;
                if linkers.first.len() < NAMED_MAX {
                    linkers.first.extend(id);
                }
            }
        }
    }
    Ok(of)
}

fn described(pages: &Keyspace, record: &Record, linkers: &Linkers) -> Result<Broken, Failure> {
    let mut linked_from = Vec::with_capacity(linkers.first.len());
    for id in &linkers.first {
        linked_from.extend(address(pages, *id)?);
    }
    Ok(Broken {
        url: record.url.clone(),
        status: record.status,
        why: why(record),
        links: linkers.count,
        linked_from,
    })
}

fn line(one: &Broken) -> String {
    let (url, why, from) = (json!(one.url), json!(one.why), json!(one.linked_from));
    let (status, links) = (one.status, one.links);
    format!(
        "{{\"url\":{url},\"status\":{status},\"why\":{why},\"links\":{links},\"linked_from\":{from}}}\n"
    )
}
