//! Which filter a new segment gets: the policy, applied to the tree as it is.
//!
//! A budget is shared out over the runs that the tree has at rest while the levels above the last
//! are full: those that are there, less what waits for a merge, more what is to come. So all
//! filters together take the budget then, overhead included, and never more; after a merge has
//! emptied the levels above, the largest run keeps the bits it has, up to a tenth less than it
//! could have for the moment. Rebuilding its filter whenever the tree comes to rest would spend
//! that, but a filter is built from keys, which are in the data blocks: each time, all data of the
//! largest run would be read, for a gain that the next flushes take back. `Db::rebuild_filters`
//! does it when asked, with the same shares.

use std::collections::BTreeMap;
use std::sync::Arc;

use crate::compaction::{Filters, OutputOptions};
use crate::key::Sequence;
use crate::options::{FilterPolicy, RangeFilterPolicy, Strategy, TreeShape};
use crate::segment::{Segment, WriterOptions};
use crate::version::{Run, Version};
use criba_filters::hash_key;
use criba_filters::range::BITS_MIN as RANGE_BITS_MIN;
use criba_filters::segment::{BloomierBits, FilterSpec, allocate_weighted, payload_bits};

use super::demand::{Demand, weights};
use super::state::Tree;

/// Fewer bits than this are no filter: one bit still rules out half of the absent keys.
const BITS_MIN: f64 = 1.0;

/// More bits for one run are not worth their memory, however small the run.
const BITS_MAX: f64 = 40.0;

/// The least and the greatest part of a budget that range filters get.
const RANGE_SHARE: (f64, f64) = (0.25, 0.75);

impl Tree {
    /// The filters of segments that bring about so many keys to a level, in place of the segments
    /// with the ids `replaced`.
    pub(crate) fn filters_for(
        &self,
        version: &Version,
        level: u32,
        keys: u64,
        replaced: &[u64],
    ) -> Filters {
        // A leveled level below the first is one run that outputs join.
        let joins = level > 0 && self.options().shape.strategy == Strategy::Leveled;
        let joined = version.runs().iter().find(|run| run.level == level);
        let output = Part {
            level,
            run: joined.filter(|_| joins).map(|run| run.number),
            keys: keys.max(1),
            segments: replaced.len().max(1) as u64,
            demand: Demand::default(),
        };
        // What is absent in the oldest of the replaced runs will be absent there.
        let is_replaced = |one: &&Arc<Segment>| replaced.contains(&one.meta.id);
        let mut runs = version.runs().iter();
        let oldest = runs.rfind(|run| run.segments.iter().any(|one| is_replaced(&one)));
        let pieces = oldest.map_or_else(Vec::new, |run| {
            let run_keys = keys_of(run);
            let segments = run.segments.iter().filter(is_replaced);
            segments.map(|one| (one, run_keys)).collect()
        });
        let gone = gone(version, replaced);
        let replaced = Replaced {
            ids: replaced,
            gone: &gone,
        };
        self.filters_of_output(version, &output, &pieces, replaced)
    }

    /// The filter that a segment should have where it is.
    pub(crate) fn filter_for_rebuilt(
        &self,
        version: &Version,
        segment: &Arc<Segment>,
    ) -> Option<FilterSpec> {
        let output = Part {
            level: segment.meta.level,
            run: Some(segment.meta.run),
            keys: segment.counts().keys,
            segments: 1,
            demand: Demand::default(),
        };
        let mut runs = version.runs().iter();
        let run_keys = runs
            .find(|run| run.number == segment.meta.run)
            .map_or(0, keys_of);
        let replaced = [segment.meta.id];
        let pieces = [(segment, run_keys)];
        let replaced = Replaced {
            ids: &replaced,
            gone: &[],
        };
        let filters = self.filters_of_output(version, &output, &pieces, replaced);
        filters.of(&segment.meta.first_key)
    }

    /// `pieces` are segments whose demand the output takes over, each where it begins, with the
    /// keys of their run.
    fn filters_of_output(
        &self,
        version: &Version,
        output: &Part,
        pieces: &[(&Arc<Segment>, u64)],
        replaced: Replaced<'_>,
    ) -> Filters {
        let Replaced { ids, gone } = replaced;
        let now = self.lookups().in_runs_so_far();
        let others = remaining(version, ids, now);
        let is_last = others.iter().all(|run| run.level <= output.level);
        let policy = self.policy_of(output.level, is_last);
        let FilterPolicy::Budget { bits_per_key } = policy else {
            return Filters::alike(policy.spec());
        };
        let bits_per_key = bits_per_key * (1.0 - self.range_share());
        let outputs = cut(output, pieces, now);
        let bits = share(bits_per_key, &outputs, &others, gone, &self.options().shape);
        // Slots would speed up hits, at the cost of bits that reject.
        let specs = bits.into_iter().map(|bits| {
            (bits >= BITS_MIN).then_some(FilterSpec::Bloomier(BloomierBits::Rejecting(bits)))
        });
        let first_keys = pieces.iter().map(|(one, _)| one.meta.first_key.clone());
        // Before the first of them it is as if that began there.
        let from = std::iter::once(Vec::new()).chain(first_keys.skip(1));
        from.zip(specs).collect()
    }

    /// Bits for each key that the range filter of a new segment gets.
    pub(crate) fn range_bits(&self) -> Option<f64> {
        match (self.options().range_filter, self.options().filter) {
            (RangeFilterPolicy::Bits { bits_per_key }, _) => Some(bits_per_key),
            (RangeFilterPolicy::Budget, FilterPolicy::Budget { bits_per_key }) => {
                let share = self.range_share();
                (share > 0.0).then_some(bits_per_key * share)
            }
            _ => None,
        }
    }

    /// The part of a budget that goes to range filters.
    fn range_share(&self) -> f64 {
        let options = self.options();
        let (RangeFilterPolicy::Budget, FilterPolicy::Budget { bits_per_key }) =
            (options.range_filter, options.filter)
        else {
            return 0.0;
        };
        let (scans, lookups) = (self.scans().load().asked, self.lookups().in_runs_so_far());
        // One more of each: half and half before the first.
        let share = (scans + 1) as f64 / (scans + lookups + 2) as f64;
        let share = share.clamp(RANGE_SHARE.0, RANGE_SHARE.1);
        if bits_per_key * share < RANGE_BITS_MIN {
            return 0.0;
        }
        share
    }

    pub(crate) fn policy_of(&self, level: u32, is_last: bool) -> FilterPolicy {
        let options = self.options();
        let for_last = options.last_level_filter.filter(|_| is_last && level > 0);
        let for_level = options.level_filters.get(&level).copied();
        for_last.or(for_level).unwrap_or(options.filter)
    }

    /// How segments of an output are written.
    pub(crate) fn output_options(
        &self,
        level: u32,
        run: Option<u64>,
        filters: Filters,
        sequence_base: Sequence,
    ) -> OutputOptions {
        OutputOptions {
            writer: WriterOptions {
                store_id: self.services().store_id,
                keyspace: self.id(),
                hash_seed: self.hash_seed(),
                hash_key,
                block_bytes: self.options().block_bytes,
                entries_per_group: self.options().entries_per_group,
                compression: self.options().compression,
                filter: None,
                range_bits: self.range_bits(),
                customs: self.services().loading.customs.clone(),
                sequence_base,
                filter_salt: 0,
            },
            filters,
            segment_bytes: self.options().segment_bytes,
            below: Arc::default(),
            level,
            run,
            written_ms: 0,
        }
    }
}

/// Segments that an output replaces.
#[derive(Clone, Copy)]
struct Replaced<'a> {
    ids: &'a [u64],
    /// Level and keys of their runs, as far as these show how large runs are.
    gone: &'a [(u32, u64)],
}

/// What is to be written, or a run without the segments that are replaced.
#[derive(Clone)]
struct Part {
    level: u32,
    /// Parts of a level with the same number are or will be one run.
    run: Option<u64>,
    keys: u64,
    segments: u64,
    demand: Demand,
}

/// The output in pieces, in proportion to the keys of these segments, each with the demand there.
fn cut(output: &Part, pieces: &[(&Arc<Segment>, u64)], now: u64) -> Vec<Part> {
    let keys = |one: &Arc<Segment>| one.counts().keys.max(1) as f64;
    let all: f64 = pieces.iter().map(|(one, _)| keys(one)).sum();
    let piece = |(one, run_keys): &(&Arc<Segment>, u64)| Part {
        keys: (output.keys as f64 * keys(one) / all).ceil() as u64,
        segments: (output.segments / pieces.len() as u64).max(1),
        demand: Demand::of(std::iter::once(*one), *run_keys, now),
        ..output.clone()
    };
    if pieces.is_empty() {
        return vec![output.clone()];
    }
    pieces.iter().map(piece).collect()
}

/// Bits per key of the outputs, which are parts of one run.
fn share(
    bits_per_key: f64,
    outputs: &[Part],
    others: &[Part],
    gone: &[(u32, u64)],
    tree: &TreeShape,
) -> Vec<f64> {
    let output = &outputs[0];
    let (joined, apart): (Vec<&Part>, Vec<&Part>) = others.iter().partition(|part| {
        output.run.is_some() && (part.level, part.run) == (output.level, output.run)
    });
    let own: Vec<&Part> = outputs.iter().chain(joined).collect();
    let own_keys: u64 = own.iter().map(|part| part.keys).sum();
    let apart = at_rest(output.level, apart, tree);
    let own_run = std::iter::once((output.level, own_keys));
    let other_runs = apart.iter().map(|part| (part.level, part.keys));
    let live: Vec<(u32, u64)> = own_run.chain(other_runs).collect();
    let to_come = runs_to_come(&live, gone, tree);

    let own = own.into_iter().map(|part| (part, own_keys));
    let counted: Vec<(&Part, u64)> = own
        .chain(apart.iter().map(|part| (*part, part.keys)))
        .collect();
    let demands: Vec<Demand> = counted.iter().map(|(part, _)| part.demand).collect();
    let weighted = counted
        .iter()
        .zip(weights(&demands))
        .map(|((part, run_keys), weight)| {
            (part.keys, weight * part.keys as f64 / *run_keys as f64)
        });
    let runs: Vec<(u64, f64)> = weighted
        .chain(to_come.iter().map(|run_keys| (*run_keys, 1.0)))
        .collect();
    let keys: u64 = runs.iter().map(|run| run.0).sum();
    let filters = counted.iter().map(|(part, _)| part.segments).sum::<u64>() + to_come.len() as u64;
    let bits = payload_bits(bits_per_key, keys, filters);
    let mut shares = allocate_weighted(bits, &runs, BITS_MAX);
    shares.truncate(outputs.len());
    shares
}

/// Most runs that a level has at rest, while it is full.
fn runs_at_rest(level: u32, tree: &TreeShape) -> u32 {
    match tree.strategy {
        Strategy::Tiered | Strategy::LazyLeveled => tree.ratio - 1,
        Strategy::Leveled if level == 0 => tree.level0_runs - 1,
        Strategy::Leveled => 1,
        Strategy::Fifo { .. } => u32::MAX,
    }
}

/// Without the runs that are too many for their level, the output being one: they wait for a merge,
/// and a filter that left bits to them would be short of these as soon as they are gone.
fn at_rest<'a>(output_level: u32, parts: Vec<&'a Part>, tree: &TreeShape) -> Vec<&'a Part> {
    let mut counts = BTreeMap::from([(output_level, 1)]);
    let fits = |part: &&Part| {
        let count = counts.entry(part.level).or_insert(0_u32);
        *count += 1;
        *count <= runs_at_rest(part.level, tree).max(1)
    };
    parts.into_iter().filter(fits).collect()
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
    let most = |level: u32| match tree.strategy {
        Strategy::Tiered if level == last => tree.ratio / 2 - 1,
        Strategy::LazyLeveled if level == last => 0,
        Strategy::Fifo { .. } => 0,
        _ => runs_at_rest(level, tree),
    };
    let sizes = run_keys_of_levels(live, gone, last, u64::from(tree.ratio));
    let missing = (0..=last).zip(sizes).flat_map(|(level, size)| {
        let there = live.iter().filter(|run| run.0 == level).count();
        let more = (most(level) as usize).saturating_sub(there);
        std::iter::repeat_n(size, more).filter(|size| *size > 0)
    });
    missing.collect()
}

/// Keys of a run, level by level; 0 where nothing tells. A level of which no run is known has runs
/// larger by the ratio than those above, or smaller than those below, which have arrived from it.
fn run_keys_of_levels(live: &[(u32, u64)], gone: &[(u32, u64)], last: u32, ratio: u64) -> Vec<u64> {
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

fn remaining(version: &Version, replaced: &[u64], now: u64) -> Vec<Part> {
    let part = |run: &Run| {
        let stays = |segment: &&Arc<Segment>| !replaced.contains(&segment.meta.id);
        let segments = || run.segments.iter().filter(stays);
        let keys = segments().map(|segment| segment.counts().keys).sum();
        Part {
            level: run.level,
            run: Some(run.number),
            keys,
            segments: segments().count() as u64,
            demand: Demand::of(segments(), keys_of(run), now),
        }
    };
    let parts = version.runs().iter().map(part);
    parts.filter(|part| part.keys > 0).collect()
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
