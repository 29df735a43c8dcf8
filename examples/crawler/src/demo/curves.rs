//! `--curves`: how many reads a link takes, by the share of links that are new, and by memory.

use std::fmt::Write as _;

use serde_json::{Value, json};

use super::row::{Row, Task};
use super::{WAYS, directory_for};
use crate::args::Args;
use crate::failure::Failure;
use crate::progress::Bar;

/// Shares of new links, 0 to 1.
const SHARES: [f64; 7] = [0.01, 0.02, 0.05, 0.1, 0.25, 0.5, 0.9];
/// Memory, as multiples of that of the demo.
const MEMORIES: [f64; 6] = [0.25, 0.5, 1.0, 2.0, 4.0, 8.0];
/// Pages of each crawl, unless the user says otherwise.
const PAGES: u64 = 5000;
/// An address in the front takes about this, in bytes.
const FRONT_ENTRY_BYTES: u64 = 110;

/// Reads of files for each 1,000 links, of each way in the order of [`names`].
#[derive(Debug)]
pub(crate) struct Curve {
    /// What is told along the other axis.
    pub(crate) title: &'static str,
    pub(crate) unit: &'static str,
    /// A place on that axis, and the reads there.
    pub(crate) points: Vec<(f64, Vec<f64>)>,
}

/// The ways that are compared. A filter alone reads nothing.
pub(crate) fn names() -> impl Iterator<Item = &'static str> {
    ways().map(|way| way.name)
}

fn ways() -> impl Iterator<Item = &'static super::row::Way> {
    WAYS.iter().filter(|way| way.name != super::FILTER_ALONE)
}

/// Crawls the made-up web again and again.
pub(crate) fn run(args: &Args) -> Result<Vec<Curve>, Failure> {
    let base = Task {
        pages: args.web_pages.min(PAGES),
        ..super::task(args)?
    };
    let crawls = (SHARES.len() + MEMORIES.len()) * ways().count();
    let bar = Bar::new(args.quiet, crawls as u64, "crawls");
    let mut done = 0;
    let mut reads = |task: Task| -> Result<Vec<f64>, Failure> {
        let mut all = Vec::new();
        for way in ways() {
            let directory = directory_for(args)?;
            let row = Row::of(*way, task, directory.path(), &mut |_| {})?;
            all.push(1000.0 * row.total.reads as f64 / row.total.links.max(1) as f64);
            done += 1;
            bar.show(done);
        }
        Ok(all)
    };
    let mut shares = Vec::new();
    for new in SHARES {
        shares.push((100.0 * new, reads(Task { new, ..base })?));
    }
    let mut memories = Vec::new();
    for times in MEMORIES {
        let scaled = |bytes: u64| (bytes as f64 * times) as u64;
        let task = Task {
            memtable_bytes: scaled(base.memtable_bytes),
            cache_bytes: scaled(base.cache_bytes),
            front: scaled(base.front as u64) as usize,
            ..base
        };
        let front_bytes = task.front as u64 * FRONT_ENTRY_BYTES;
        let bytes = 2 * task.memtable_bytes + task.cache_bytes + front_bytes;
        memories.push((bytes as f64 / 1e6, reads(task)?));
    }
    Ok(vec![
        Curve {
            title: "Reads of files for 1,000 links, by the share of new links",
            unit: "% of the links are new",
            points: shares,
        },
        Curve {
            title: "Reads of files for 1,000 links, by memory",
            unit: "MB of memory",
            points: memories,
        },
    ])
}

/// The curves as tables.
pub(crate) fn text(curves: &[Curve]) -> String {
    let mut out = String::new();
    for curve in curves {
        let heads: String = names().map(|name| format!("{name:>12}")).collect();
        // Writing to memory cannot fail.
        writeln!(out, "{}\n\n{:<24}{heads}", curve.title, curve.unit).unwrap_or_default();
        for (at, reads) in &curve.points {
            let cells: String = reads.iter().map(|reads| format!("{reads:>12.1}")).collect();
            writeln!(out, "{at:<24.2}{cells}").unwrap_or_default();
        }
        out.push('\n');
    }
    out
}

/// The curves as one object.
pub(crate) fn json(curves: &[Curve]) -> Value {
    let curve = |curve: &Curve| {
        json!({
            "title": curve.title,
            "unit": curve.unit,
            "ways": names().collect::<Vec<_>>(),
            "points": curve.points,
        })
    };
    curves.iter().map(curve).collect()
}
