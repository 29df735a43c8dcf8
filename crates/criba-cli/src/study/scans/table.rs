//! The results for a person at a terminal.

use super::count::{ALL, Wanted};
use super::keys::Keys;
use super::row::Row;
use crate::grid::{NONE, Table, number, rate, small, thousands};
use crate::study::args::StudyArgs;

/// What the rows are named by: tree, runs, filter.
const NAMES: usize = 3;

pub(super) fn table(rows: &[Row]) -> Table {
    Table {
        groups: vec![
            ("", NAMES),
            ("", 2),
            ("data blocks read for a scan of so many entries", ALL.len()),
            ("/ none", 2),
            ("in vain", 1),
        ],
        heads: vec![
            "tree", "runs", "filter", "keys", "bits/key", "0", "1", "3", "10", "100", "next", "0",
            "3", "0",
        ],
        rows: rows.iter().map(cells).collect(),
    }
}

fn cells(row: &Row) -> Vec<String> {
    let mut cells = vec![
        row.tree.name.into(),
        row.runs.to_string(),
        row.filter_name(),
        thousands(row.keys),
        number(row.bits_per_key(), 2),
    ];
    cells.extend(row.costs.iter().map(|cost| small(cost.blocks_per_scan())));
    for place in [0, 2] {
        cells.push(row.ratios[place].map_or(NONE.into(), |ratio| number(ratio, 4)));
    }
    cells.push(rate(row.cost(Wanted::Exactly(0)).share_in_vain()));
    cells
}

/// The lines above the table: what was loaded, and how it was scanned.
pub(super) fn heading(keys: &Keys, args: &StudyArgs) -> String {
    format!(
        "{}: {} keys in random order, values of {} bytes, and {} ranges of three neighbouring keys \
         that are not loaded\n{} scans of these empty ranges and {} of each other kind, all \
         entries right; filters pinned, block cache off, seed {}",
        keys.name,
        thousands(keys.order.len() as u64),
        args.value_bytes,
        thousands(keys.held_out.len() as u64),
        thousands(Wanted::Exactly(0).scans(args.lookups)),
        thousands(args.lookups),
        args.seed
    )
}

/// What the columns mean, a line for each.
pub(super) fn legend(rows: &[Row]) -> Vec<String> {
    let mut lines: Vec<String> = [
        "flushed: runs as flushes leave them, which overlap; the others: the tree of a strategy, at rest \
         after 9, 38 and 89 flushes",
        "0: a range between the keys; 1 to 100: a range from a key to a key with so many entries; next: \
         the next entry behind a place without a key, where the scan names no end",
        "blocks: counted by the storage; bits/key: of range filters on disk, header included",
        "/ none: beside the same tree without filter",
        "in vain: of the empty ranges for which filters of runs were asked, those that were not refuted",
    ]
    .map(str::to_owned)
    .into();
    let declined: u64 = rows.iter().map(|row| row.declined).sum();
    if declined > 0 {
        lines.push(format!(
            "{declined} segments of all these stores would have refuted under half of the gaps \
             between their own keys, and have no filter"
        ));
    }
    lines
}

/// What follows for empty ranges: the least and the greatest part over all trees, for each filter.
pub(super) fn sentence(rows: &[Row]) -> String {
    let mut names: Vec<String> = Vec::new();
    for row in rows.iter().filter(|row| row.bits.is_some()) {
        let name = row.filter_name();
        if !names.contains(&name) {
            names.push(name);
        }
    }
    let parts = names.iter().filter_map(|name| {
        let own = rows.iter().filter(|row| row.filter_name() == *name);
        let ratios: Vec<f64> = own.filter_map(Row::empty_ratio).collect();
        let least = ratios.iter().copied().reduce(f64::min)?;
        let most = ratios.iter().copied().reduce(f64::max)?;
        Some(format!("{} to {} with {name}", small(least), small(most)))
    });
    format!(
        "For an empty range, the blocks read are, of those without filter: {}.",
        parts.collect::<Vec<_>>().join(", ")
    )
}

/// Everything that is printed.
pub(super) fn text(rows: &[Row], keys: &Keys, args: &StudyArgs) -> String {
    let mut text = format!("{}\n\n{}\n", heading(keys, args), table(rows).whole(NAMES));
    for line in legend(rows) {
        text.push_str(&format!("  {line}\n"));
    }
    text.push_str(&format!("\n{}\n", sentence(rows)));
    text
}
