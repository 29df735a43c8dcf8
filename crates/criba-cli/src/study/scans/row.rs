//! The results of one tree and filter.

use criba::Stats;

use super::count::{ALL, Cost, Wanted};
use super::store::Tree;
use crate::json::Object;
use crate::study::args::StudyArgs;
use crate::study::row::per;

/// What was counted.
#[derive(Clone, Debug)]
pub(super) struct Row {
    pub(super) tree: Tree,
    /// Bits for each key that were asked for; `None` without range filters.
    pub(super) bits: Option<f64>,
    pub(super) flushes: u32,
    pub(super) keys: u64,
    pub(super) runs: u64,
    segments: u64,
    /// Segments that would not be helped by a filter, by their own sample, and have none.
    pub(super) declined: u64,
    filter_bytes: u64,
    /// In the order of [`ALL`].
    pub(super) costs: Vec<Cost>,
    /// Blocks beside those that the same tree reads without filter.
    pub(super) ratios: Vec<Option<f64>>,
}

impl Row {
    pub(super) fn new(
        (tree, bits, flushes): (Tree, Option<f64>, u32),
        stats: &Stats,
        costs: Vec<Cost>,
    ) -> Row {
        let segments = || stats.runs.iter().flat_map(|run| &run.segments);
        let filters = || segments().filter_map(|segment| segment.range_filter.as_ref());
        Row {
            tree,
            bits,
            flushes,
            keys: segments().map(|segment| segment.keys).sum(),
            runs: stats.runs.len() as u64,
            segments: segments().count() as u64,
            declined: filters().filter(|filter| filter.disk_bytes == 0).count() as u64,
            filter_bytes: filters().map(|filter| filter.disk_bytes).sum(),
            ratios: vec![None; costs.len()],
            costs,
        }
    }

    pub(super) fn filter_name(&self) -> String {
        self.bits
            .map_or("none".into(), |bits| format!("{bits} bits"))
    }

    pub(super) fn bits_per_key(&self) -> f64 {
        per(self.filter_bytes * 8, self.keys)
    }

    /// The cost of scans of one kind.
    pub(super) fn cost(&self, wanted: Wanted) -> Cost {
        let place = ALL.iter().position(|one| *one == wanted);
        place.map_or(Cost::default(), |place| self.costs[place])
    }

    /// For scans of nothing.
    pub(super) fn empty_ratio(&self) -> Option<f64> {
        self.ratios.first().copied().flatten()
    }

    /// One JSON object, with one for each kind of scan in it.
    pub(super) fn json(&self, name: &str, args: &StudyArgs) -> Object {
        let scans = ALL.iter().zip(&self.costs).zip(&self.ratios);
        let scans = scans.map(|((wanted, cost), ratio)| {
            Object::new()
                .field("entries", wanted.name())
                .field("scans", cost.scans)
                .field("found", cost.entries)
                .field("blocks", cost.blocks)
                .field("other_reads", cost.others)
                .field("blocks_per_scan", cost.blocks_per_scan())
                .field("ratio_to_none", *ratio)
                .field("asked", cost.asked)
                .field("refuted", cost.refuted)
                .field("in_vain", cost.in_vain)
                .field("share_in_vain", cost.share_in_vain())
                .into()
        });
        Object::new()
            .field("tree", self.tree.name)
            .field("filter", self.filter_name())
            .field("bits", self.bits)
            .field("bits_per_key", self.bits_per_key())
            .field("flushes", self.flushes)
            .field("keys", self.keys)
            .field("runs", self.runs)
            .field("segments", self.segments)
            .field("segments_without_filter", self.declined)
            .field("scans", scans.collect::<Vec<serde_json::Value>>())
            .field("value_bytes", args.value_bytes)
            .field("block_bytes", args.block_bytes)
            .field("input", name)
            .field("seed", args.seed)
    }
}

/// Beside the row without filter of the same tree.
pub(super) fn with_ratios(mut rows: Vec<Row>) -> Vec<Row> {
    let none: Vec<Row> = rows
        .iter()
        .filter(|row| row.bits.is_none())
        .cloned()
        .collect();
    for row in rows.iter_mut().filter(|row| row.bits.is_some()) {
        let same = |one: &&Row| (one.tree, one.flushes) == (row.tree, row.flushes);
        let Some(none) = none.iter().find(same) else {
            continue;
        };
        let pairs = row.costs.iter().zip(&none.costs);
        let ratio = |(own, none): (&Cost, &Cost)| {
            (none.blocks > 0).then(|| own.blocks as f64 / none.blocks as f64)
        };
        row.ratios = pairs.map(ratio).collect();
    }
    rows
}
