//! The results of one strategy and filter: what was counted, what is calculated, and ratios.

use std::time::Duration;

use criba::{FilterPolicy, Stats, Strategy};

use super::count::Counted;
use super::load::Loading;
use crate::choice::{StudyFilter, strategy_name};
use crate::levels::{Level, expected_wasted_reads};
use crate::study::count::Cost;
use crate::study::row::{Memory, per};

/// The results of one store.
#[derive(Clone, Debug)]
pub(super) struct Row {
    pub(super) strategy: Strategy,
    pub(super) filter: StudyFilter,
    /// Keys that were loaded.
    pub(super) keys: u64,
    pub(super) levels: Vec<Level>,
    pub(super) memory: Memory,
    pub(super) counts: Counts,
    pub(super) write_amplification: f64,
    pub(super) merges: u64,
    pub(super) moves: u64,
    /// Until compaction had settled.
    pub(super) load_time: Duration,
    /// Wasted reads beside those of the uniform Bloom filter with the same strategy, measured and
    /// calculated; `None` where there is none to compare with.
    pub(super) ratio_to_bloom: Option<f64>,
    pub(super) expected_ratio_to_bloom: Option<f64>,
}

/// What lookups cost.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(super) struct Counts {
    pub(super) present: Cost,
    pub(super) absent: Cost,
}

impl Row {
    pub(super) fn new(
        filter: StudyFilter,
        loading: &Loading<'_>,
        loaded: &Stats,
        counted: Counted,
    ) -> Row {
        let compactions = &loaded.compactions;
        Row {
            strategy: loading.strategy,
            filter,
            keys: loading.count,
            memory: Memory::new(&counted.stats),
            counts: Counts {
                present: counted.present,
                absent: counted.absent,
            },
            write_amplification: compactions.write_amplification().unwrap_or(f64::NAN),
            merges: compactions.merges,
            moves: compactions.moves,
            load_time: loading.took,
            levels: counted.levels,
            ratio_to_bloom: None,
            expected_ratio_to_bloom: None,
        }
    }

    pub(super) fn strategy_name(&self) -> &'static str {
        strategy_name(self.strategy)
    }

    /// `budget` where bits are shared out, `uniform` where every key has the same.
    pub(super) fn allocation(&self) -> &'static str {
        allocation(self.filter)
    }

    pub(super) fn runs(&self) -> u64 {
        self.levels.iter().map(|level| level.runs).sum()
    }

    /// Bits of memory for each key, overhead included.
    pub(super) fn bits_per_key(&self) -> f64 {
        per(self.memory.filter_bytes * 8, self.memory.stored_keys)
    }

    /// Data blocks read in vain for each absent key, by calculation from the designed rates.
    pub(super) fn expected_wasted_reads(&self) -> f64 {
        expected_wasted_reads(&self.levels)
    }

    /// Data blocks read in vain for each absent key, counted.
    pub(super) fn wasted_reads(&self) -> f64 {
        per(self.counts.absent.data.calls, self.counts.absent.lookups)
    }

    /// Reads of any cause for each present key.
    pub(super) fn reads_per_present(&self) -> f64 {
        per(self.counts.present.reads.calls, self.counts.present.lookups)
    }

    /// Bytes of segments for each byte of live keys and values. Nothing was overwritten, so this
    /// is what blocks, filters and indexes add; obsolete entries there are none.
    pub(super) fn space_amplification(&self, live_bytes: u64) -> f64 {
        per(self.memory.file_bytes, live_bytes)
    }

    fn is_uniform_bloom(&self) -> bool {
        // The bits do not matter.
        matches!(self.filter.choice(1.0).policy(), FilterPolicy::Bloom { .. })
    }
}

/// `budget` where bits are shared out, `uniform` where every key has the same.
pub(super) fn allocation(filter: StudyFilter) -> &'static str {
    match filter.choice(1.0).policy() {
        FilterPolicy::Budget { .. } => "budget",
        _ => "uniform",
    }
}

/// Sets every row beside the first uniform Bloom filter over the same tree.
pub(super) fn rows_with_ratios(mut rows: Vec<Row>) -> Vec<Row> {
    let blooms: Vec<Row> = rows
        .iter()
        .filter(|row| row.is_uniform_bloom())
        .cloned()
        .collect();
    for row in &mut rows {
        let same_tree = |bloom: &&Row| (bloom.strategy, bloom.keys) == (row.strategy, row.keys);
        let Some(bloom) = blooms.iter().find(same_tree) else {
            continue;
        };
        let ratio = |own: f64, other: f64| Some(own / other).filter(|ratio| ratio.is_finite());
        row.ratio_to_bloom = ratio(row.wasted_reads(), bloom.wasted_reads());
        row.expected_ratio_to_bloom =
            ratio(row.expected_wasted_reads(), bloom.expected_wasted_reads());
    }
    rows
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;
    use crate::study::args::StudyArgs;
    use crate::study::count::Reads;

    /// Two strategies and small trees.
    pub(crate) fn small_args() -> StudyArgs {
        use clap::{Args as _, FromArgMatches as _};
        let command = StudyArgs::augment_args(clap::Command::new("study"));
        let line = "study --tree --strategy leveled,lazy-leveled --ratio 4 --memtable-bytes 64KiB";
        StudyArgs::from_arg_matches(&command.get_matches_from(line.split(' '))).unwrap()
    }

    /// A row such as a study might have, for the tests of reports.
    pub(crate) fn example(strategy: &str, filter: &str, wasted: u64) -> Row {
        let cost = |calls: u64| Cost {
            lookups: 200_000,
            reads: Reads {
                calls,
                bytes: calls * 4096,
            },
            data: Reads {
                calls,
                bytes: calls * 4096,
            },
            probes: 800_000,
            negatives: 800_000 - wasted,
            false_positives: wasted,
            ..Cost::default()
        };
        let level = |level, runs| Level {
            level,
            runs,
            segments: runs,
            keys: 1000,
            designed: wasted as f64 / 400_000.0,
            ..Level::default()
        };
        Row {
            strategy: crate::choice::strategy(strategy).unwrap(),
            filter: crate::choice::study_filter(filter).unwrap(),
            keys: 400_000,
            levels: vec![level(0, 3), level(1, 1)],
            memory: Memory {
                segments: 4,
                stored_keys: 2000,
                filter_bytes: 2600,
                file_bytes: 88_000,
                r_bits: 10.0,
                ..Memory::default()
            },
            counts: Counts {
                present: cost(200_000 + wasted / 2),
                absent: cost(wasted),
            },
            write_amplification: 7.5,
            merges: 10,
            moves: 1,
            load_time: Duration::from_millis(1500),
            ratio_to_bloom: None,
            expected_ratio_to_bloom: None,
        }
    }

    #[test]
    fn tree_defaults_are_those_of_trees() {
        let args = small_args();
        assert_eq!(
            (args.value_bytes, args.lookups, args.bits),
            (20, 200_000, 10.0)
        );
        let names: Vec<String> = args.filter.iter().map(|filter| filter.name()).collect();
        assert_eq!(names, ["bloom", "bloomier-uniform", "budget"]);
    }

    #[test]
    fn rows_are_compared_within_their_strategy() {
        let rows = rows_with_ratios(vec![
            example("leveled", "bloom", 8000),
            example("leveled", "budget", 400),
            example("tiered", "budget", 400),
        ]);
        let ratios: Vec<_> = rows.iter().map(|row| row.ratio_to_bloom).collect();
        assert_eq!(ratios, [Some(1.0), Some(0.05), None]);
        assert_eq!(rows[1].expected_ratio_to_bloom, Some(0.05));
        assert_eq!(rows[1].wasted_reads(), 0.002);
        assert_eq!(rows[1].expected_wasted_reads(), 0.002);
        assert_eq!(
            (rows[1].allocation(), rows[0].allocation()),
            ("budget", "uniform")
        );
        assert_eq!(rows[0].space_amplification(80_000), 1.1);
    }
}
