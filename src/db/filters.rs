//! Which filter a new segment gets: the policy, applied to the tree as it is.

use std::sync::Arc;

use crate::compaction::OutputOptions;
use crate::filter::{BloomierBits, FilterSpec, allocate_weighted, hash_key};
use crate::key::Sequence;
use crate::options::{FilterPolicy, Strategy, TreeShape};
use crate::segment::{Segment, WriterOptions};
use crate::version::{Run, Version};

use super::demand::{Demand, weights};
use super::shared::Shared;

/// Fewer bits than this are no filter: one bit still rules out half of the absent keys.
const BITS_MIN: f64 = 1.0;

/// More bits for one run are not worth their memory, however small the run.
const BITS_MAX: f64 = 40.0;

impl Shared {
    /// The filter of segments that bring about so many keys to a level, in place of the segments
    /// with the ids `replaced`.
    pub(crate) fn filter_for(
        &self,
        version: &Version,
        level: u32,
        keys: u64,
        replaced: &[u64],
    ) -> Option<FilterSpec> {
        let now = self.lookups_in_runs();
        let others = remaining(version, replaced, now);
        let is_last = others.iter().all(|run| run.level <= level);
        let policy = self.policy_of(level, is_last);
        let FilterPolicy::Budget { bits_per_key } = policy else {
            return policy.spec();
        };
        // The output first, as a part of the run that it joins. What is absent in the oldest of
        // the replaced runs will be absent in the output.
        let keys = keys.max(1);
        let output = Remaining {
            level,
            keys,
            demand: oldest_demand(version, replaced, now),
        };
        let joined = |run: &Remaining| level > 0 && run.level == level && self.joins_runs();
        let stays: u64 = others
            .iter()
            .filter(|run| joined(run))
            .map(|run| run.keys)
            .sum();
        let parts: Vec<&Remaining> = std::iter::once(&output).chain(&others).collect();
        let demands: Vec<Demand> = parts.iter().map(|part| part.demand).collect();
        let weighted = parts.iter().zip(weights(&demands)).map(|(part, weight)| {
            let run_keys = if joined(part) {
                keys + stays
            } else {
                part.keys
            };
            (part.keys, weight * part.keys as f64 / run_keys as f64)
        });
        let mut parts: Vec<(u64, f64)> = weighted.collect();
        // What replaced runs tell of the size of their level counts, too.
        let gone = gone(version, replaced);
        let sizes = |run: &Remaining| (run.level, run.keys);
        let live: Vec<_> = std::iter::once(&output).chain(&others).map(sizes).collect();
        let to_come = runs_to_come(&live, &gone, &self.options.tree);
        parts.extend(to_come.into_iter().map(|run_keys| (run_keys, 1.0)));
        let bits = allocate_weighted(bits_per_key, &parts, BITS_MAX)[0];
        // Slots would speed up hits, at the cost of bits that reject.
        (bits >= BITS_MIN).then_some(FilterSpec::Bloomier(BloomierBits::Rejecting(bits)))
    }

    pub(crate) fn policy_of(&self, level: u32, is_last: bool) -> FilterPolicy {
        let options = &self.options;
        let for_last = options.last_level_filter.filter(|_| is_last && level > 0);
        let for_level = options.level_filters.get(&level).copied();
        for_last.or(for_level).unwrap_or(options.filter)
    }

    /// Whether a level below the first is one run that outputs join.
    fn joins_runs(&self) -> bool {
        self.options.tree.strategy == Strategy::Leveled
    }

    /// How segments of an output are written.
    pub(crate) fn output_options(
        &self,
        (level, run): (u32, Option<u64>),
        filter: Option<FilterSpec>,
        sequence_base: Sequence,
    ) -> OutputOptions {
        OutputOptions {
            writer: WriterOptions {
                store_id: self.store_id,
                hash_seed: self.hash_seed,
                hash_key,
                block_bytes: self.options.block_bytes,
                entries_per_group: self.options.entries_per_group,
                compression: self.options.compression,
                filter,
                sequence_base,
                filter_salt: 0,
            },
            segment_bytes: self.options.segment_bytes,
            level,
            run,
            written_ms: 0,
        }
    }
}

/// A run without some of its segments.
struct Remaining {
    level: u32,
    keys: u64,
    demand: Demand,
}

/// Level and keys of what is replaced, run by run.
fn gone(version: &Version, replaced: &[u64]) -> Vec<(u32, u64)> {
    let is_replaced = |segment: &&Arc<Segment>| replaced.contains(&segment.meta.id);
    let run = |run: &Run| {
        let segments = run.segments.iter().filter(is_replaced);
        let keys = segments.map(|segment| segment.counts().keys).sum();
        (run.level, keys)
    };
    let runs = version.runs().iter().map(run);
    runs.filter(|(_, keys)| *keys > 0).collect()
}

/// Keys of the runs that will join those of the tree before they are merged down, by the runs there
/// are and the ones that have just gone, each with its level.
///
/// A filter of a low level stays while the levels above fill up. If its bits were computed from
/// what lies above at the moment, which after a merge is nothing, it would take the whole budget,
/// and all that comes later would exceed it. So runs to come count as if they were there: the
/// budget is kept when the levels above the last are full, and not quite used up before. A last
/// level of several runs is expected half full.
fn runs_to_come(live: &[(u32, u64)], gone: &[(u32, u64)], tree: &TreeShape) -> Vec<u64> {
    let last = live.iter().map(|(level, _)| *level).max().unwrap_or(0);
    // Of a level that is merged down when it has so many runs, one less are there at rest.
    let most = |level: u32| match tree.strategy {
        Strategy::Tiered if level == last => tree.ratio / 2,
        Strategy::LazyLeveled if level == last => 1,
        Strategy::Tiered | Strategy::LazyLeveled => tree.ratio,
        Strategy::Leveled if level == 0 => tree.level0_runs,
        Strategy::Leveled | Strategy::Fifo { .. } => 1,
    };
    let sizes = run_keys_of_levels(live, gone, (last, u64::from(tree.ratio)));
    let missing = (0..=last).zip(sizes).flat_map(|(level, size)| {
        let there = live.iter().filter(|run| run.0 == level).count();
        let more = (most(level) as usize).saturating_sub(1 + there);
        std::iter::repeat_n(size, more).filter(|size| *size > 0)
    });
    missing.collect()
}

/// Keys of a run, level by level; 0 where nothing tells. A level of which no run is known has runs
/// larger by the ratio than those above, or smaller than those below, which have arrived from it.
fn run_keys_of_levels(
    live: &[(u32, u64)],
    gone: &[(u32, u64)],
    (last, ratio): (u32, u64),
) -> Vec<u64> {
    let known = |level: u32| live.iter().chain(gone).filter(move |run| run.0 == level);
    let mean = |level: u32| {
        let sum: u64 = known(level).map(|run| run.1).sum();
        sum / (known(level).count() as u64).max(1)
    };
    let mut sizes: Vec<u64> = (0..=last).map(mean).collect();
    for level in 1..sizes.len() {
        if sizes[level] == 0 {
            sizes[level] = sizes[level - 1].saturating_mul(ratio);
        }
    }
    // The smallest run that was merged into the last level has just come down.
    let arrived = gone.iter().filter(|run| run.0 == last).map(|run| run.1);
    let mut below = arrived.min().unwrap_or(0);
    for size in sizes.iter_mut().rev().skip(1) {
        if *size == 0 {
            *size = below / ratio;
        }
        below = *size;
    }
    sizes
}

fn remaining(version: &Version, replaced: &[u64], now: u64) -> Vec<Remaining> {
    let run = |run: &Run| {
        let stays = |segment: &&Arc<Segment>| !replaced.contains(&segment.meta.id);
        let segments = || run.segments.iter().filter(stays);
        let keys = segments().map(|segment| segment.counts().keys).sum();
        Remaining {
            level: run.level,
            keys,
            demand: Demand::of(segments(), keys_of(run), now),
        }
    };
    let runs = version.runs().iter().map(run);
    runs.filter(|run| run.keys > 0).collect()
}

/// The demand of the oldest run of which segments are replaced, by these segments.
fn oldest_demand(version: &Version, replaced: &[u64], now: u64) -> Demand {
    let is_replaced = |segment: &&Arc<Segment>| replaced.contains(&segment.meta.id);
    let run = version
        .runs()
        .iter()
        .rfind(|run| run.segments.iter().any(|segment| is_replaced(&segment)));
    run.map_or_else(Demand::default, |run| {
        Demand::of(run.segments.iter().filter(is_replaced), keys_of(run), now)
    })
}

fn keys_of(run: &Run) -> u64 {
    let keys = run.segments.iter().map(|segment| segment.counts().keys);
    keys.sum()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(strategy: Strategy, live: &[(u32, u64)], gone: &[(u32, u64)], expected: &[u64]) {
        let tree = TreeShape {
            strategy,
            ratio: 4,
            level0_runs: 3,
            ..TreeShape::default()
        };
        assert_eq!(runs_to_come(live, gone, &tree), expected, "{strategy:?}");
    }

    #[test]
    fn levels_above_the_last_are_expected_to_be_full() {
        let lazy = Strategy::LazyLeveled;
        // One of three is there; what has gone is as large as what will come.
        check(lazy, &[(0, 10), (1, 1000)], &[], &[10, 10]);
        check(lazy, &[(1, 1000)], &[(0, 8), (0, 12)], &[10, 10, 10]);
        check(lazy, &[(0, 10), (0, 10), (0, 10), (1, 1000)], &[], &[]);
        // A level of which nothing is known has runs as many times larger as the ratio.
        check(lazy, &[(0, 10), (2, 1000)], &[], &[10, 10, 40, 40, 40]);
        // What has come down tells how large the runs above were.
        let arrived = [(2, 160), (2, 840)];
        check(lazy, &[(2, 1000)], &arrived, &[10, 10, 10, 40, 40, 40]);
        // Nothing is known at all, or nothing is above.
        check(lazy, &[(1, 1000)], &[], &[]);
        check(lazy, &[(0, 10)], &[], &[]);
        check(lazy, &[], &[], &[]);
    }

    #[test]
    fn a_last_level_of_several_runs_is_expected_half_full() {
        let tree = |runs: &[(u32, u64)], expected: &[u64]| {
            check(Strategy::Tiered, runs, &[], expected);
        };
        tree(&[(0, 10), (1, 40)], &[10, 10]);
        tree(&[(0, 10), (1, 40), (1, 40)], &[10, 10]);
        tree(&[(0, 10)], &[]);
    }

    #[test]
    fn only_level_0_fills_up_where_levels_are_leveled() {
        let runs = [(0, 10), (1, 100), (2, 1000)];
        check(Strategy::Leveled, &runs, &[(0, 10)], &[10]);
        check(
            Strategy::Fifo {
                bytes: 1,
                age: None,
            },
            &runs,
            &[],
            &[],
        );
    }
}
