//! How many keys there are, without reading any.
//!
//! Of each segment it is known exactly how many keys have a value there and how many are deleted;
//! of each set there is a sketch. What is not known is how many of them are hidden by newer
//! entries. So sources are taken newest first, and of each run only the keys that no newer source
//! has, value or tombstone, are counted: the overlap is estimated, the rest is exact.
//!
//! Overlap is only looked for where it can be. Sources whose key ranges are connected form a
//! group; between groups, and within a group of a single run, there is none. So keys that were
//! written in ascending order are counted exactly, and so is a tree that was merged into one run.
//!
//! What is known of a version is estimated once and kept with it: see [`Counted`]. Memtables, which
//! change all the time, are then held against that. Where no key of a group is deleted, the group
//! is one set of keys and costs one comparison; where some are, each of its runs is compared by
//! itself, or it would not be known whether what a memtable deletes was there.
//!
//! Error: see [`Union`]. Cost: no reads, no locks, and for the counts see
//! `docs/architecture.md`.

use std::borrow::Cow;
use std::ops::Bound;
use std::sync::Arc;

use crate::bounds::{self, Bounds};
use crate::memtable::Memtable;
use crate::segment::Segment;
use crate::slice::Slice;
use crate::version::{Counted, CountedGroup, Run, Version};
use criba_filters::store::{KeySketch, Set, Union};

use super::view::View;

/// About how many keys there are.
pub(crate) fn approximate_len(view: &View) -> u64 {
    rounded(live_keys(view))
}

/// About how many keys there are within the bounds.
pub(crate) fn approximate_len_in(view: &View, bounds: &Bounds) -> u64 {
    let sources = sources(view, bounds);
    rounded(estimate(sources, Some(bounds), &mut |_, _| {}).live)
}

/// The keys that a merge of these runs, newest first, will leave: with their tombstones, or
/// without where nothing lies below that they hide.
pub(crate) fn merged_keys(runs: &[Run], with_deleted: bool) -> u64 {
    let mut all = Vec::new();
    for (order, run) in runs.iter().enumerate() {
        all.extend(
            run.segments
                .iter()
                .filter_map(|one| Source::of_segment(one, order)),
        );
    }
    let estimate = estimate(all, None, &mut |_, _| {});
    rounded(if with_deleted {
        estimate.distinct
    } else {
        estimate.live
    })
}

/// The version alone, as if memtables were empty.
pub(crate) fn counted(version: &Version) -> &Counted {
    version.counted(|| {
        let mut live_by_run = vec![0.0; version.runs().len()];
        let runs = version.runs().iter().enumerate();
        let mut all: Vec<(usize, Arc<Segment>)> = runs
            .flat_map(|(run, one)| one.segments.iter().map(move |one| (run, Arc::clone(one))))
            .filter(|(_, one)| one.damage().is_none())
            .collect();
        all.sort_by(|left, right| left.1.meta.first_key.cmp(&right.1.meta.first_key));
        let mut groups = Vec::new();
        while !all.is_empty() {
            let metas = all.iter().map(|one| &one.1.meta);
            let key_ranges = metas.map(|meta| (&*meta.first_key, &*meta.last_key));
            let others = all.split_off(connected(key_ranges));
            groups.push(count_group(all, &mut |run, live| live_by_run[run] += live));
            all = others;
        }
        Counted {
            groups,
            live_by_run,
        }
    })
}

fn count_group(
    segments: Vec<(usize, Arc<Segment>)>,
    each: &mut dyn FnMut(usize, f64),
) -> CountedGroup {
    let last_key = segments.iter().map(|one| &*one.1.meta.last_key).max();
    let first_key = segments.first().map(|one| &*one.1.meta.first_key);
    let (first_key, last_key) = (first_key.unwrap_or_default(), last_key.unwrap_or_default());
    let all = segments.iter();
    let mut sources: Vec<Source<'_>> = all
        .filter_map(|(run, one)| Source::of_segment(one, *run))
        .collect();
    sources.sort_by_key(|source| source.order);
    let estimate = estimate_group(&sources, None, each);
    let is_set = sources
        .iter()
        .all(|one| one.sketches.is_some() && one.key_count == one.value_count);
    let is_mixed = sources.windows(2).any(|two| two[0].order != two[1].order);
    let whole = (is_set && is_mixed).then(|| {
        let mut whole = Set::default();
        for (values, _) in sources.iter().filter_map(|one| one.sketches.as_ref()) {
            whole.sketch.merge(values);
        }
        whole.count = estimate.live;
        whole
    });
    let (first_key, last_key) = (Slice::from(first_key), Slice::from(last_key));
    drop(sources);
    CountedGroup {
        segments,
        first_key,
        last_key,
        live: estimate.live,
        whole,
    }
}

/// Keys whose newest entry is a value, memtables included.
fn live_keys(view: &View) -> f64 {
    let tables: Vec<Source<'_>> = table_sources(view).collect();
    let mut settled = 0.0;
    let mut sources = Vec::new();
    for group in &counted(&view.version).groups {
        let overlaps = |table: &Source<'_>| {
            *table.first_key <= *group.last_key && *group.first_key <= *table.last_key
        };
        if !tables.iter().any(overlaps) {
            settled += group.live;
            continue;
        }
        // Runs are older than all memtables.
        let order = |run: usize| 1 + view.sealed.len() + run;
        match &group.whole {
            Some(set) => sources.push(Source::of_group(group, set, order(0))),
            None => sources.extend(
                group
                    .segments
                    .iter()
                    .filter_map(|(run, one)| Source::of_segment(one, order(*run))),
            ),
        }
    }
    sources.extend(tables);
    settled + estimate(sources, None, &mut |_, _| {}).live
}

fn rounded(keys: f64) -> u64 {
    keys.round() as u64
}

/// A memtable or segment, with what is known of its keys.
struct Source<'a> {
    keys: Keys<'a>,
    /// Newer ones have smaller numbers; segments of one run, which do not overlap, the same.
    order: usize,
    first_key: Cow<'a, [u8]>,
    last_key: Cow<'a, [u8]>,
    /// Sketches of the keys with values and of the deleted ones; `None` when unreadable: the
    /// source then hides nothing and nothing hides it.
    sketches: Option<(Cow<'a, KeySketch>, Cow<'a, KeySketch>)>,
    /// Keys in the sketch of values, and in both together.
    value_count: f64,
    key_count: f64,
    /// Keys with values, all of them and those in the range that was asked for.
    live: f64,
    asked: f64,
}

#[derive(Clone, Copy)]
enum Keys<'a> {
    Segment(&'a Segment),
    Memtable(&'a Memtable),
    /// Segments that are taken together. Only asked for as a whole.
    Group,
}

impl<'a> Source<'a> {
    fn of_segment(segment: &'a Segment, order: usize) -> Option<Source<'a>> {
        let sets = segment.key_sets()?;
        let values = (sets.keys - sets.deleted) as f64;
        let sketches = sets.sketches;
        let sketches = sketches.values.as_ref().zip(sketches.deleted.as_ref());
        Some(Source {
            keys: Keys::Segment(segment),
            order,
            first_key: Cow::Borrowed(&segment.meta.first_key),
            last_key: Cow::Borrowed(&segment.meta.last_key),
            sketches: sketches
                .map(|(values, deleted)| (Cow::Borrowed(values), Cow::Borrowed(deleted))),
            value_count: values,
            key_count: sets.keys as f64,
            live: values,
            asked: values,
        })
    }

    fn of_group(group: &'a CountedGroup, set: &'a Set, order: usize) -> Source<'a> {
        Source {
            keys: Keys::Group,
            order,
            first_key: Cow::Borrowed(&group.first_key),
            last_key: Cow::Borrowed(&group.last_key),
            sketches: Some((Cow::Borrowed(&set.sketch), Cow::Owned(KeySketch::default()))),
            value_count: set.count,
            key_count: set.count,
            live: set.count,
            asked: set.count,
        }
    }

    /// A key that was put and deleted again, or the other way round, is in both sketches. So the
    /// set of values is a little larger than what it stands for, and is taken for representative.
    fn of_memtable(table: &'a Memtable, order: usize) -> Option<Source<'a>> {
        let (first_key, last_key) = table.key_range()?;
        let key_count = table.key_count() as f64;
        let live = table.value_count() as f64;
        let (values, deleted) = table.sketches();
        let value_count = if deleted.is_empty() {
            live
        } else {
            values.estimate().clamp(live, key_count.max(live))
        };
        Some(Source {
            keys: Keys::Memtable(table),
            order,
            first_key: Cow::Owned(first_key.to_vec()),
            last_key: Cow::Owned(last_key.to_vec()),
            sketches: Some((Cow::Owned(values), Cow::Owned(deleted))),
            value_count,
            key_count,
            live,
            asked: live,
        })
    }

    /// `None` when nothing of it is in the range.
    fn within(mut self, bounds: &Bounds) -> Option<Source<'a>> {
        if !bounds::overlaps(bounds, &self.first_key, &self.last_key) {
            return None;
        }
        self.asked = match self.keys {
            Keys::Segment(segment) => self.live * segment.share_of(bounds),
            Keys::Memtable(table) => table.counts_in(bounds).1,
            Keys::Group => self.live,
        };
        Some(self)
    }

    /// About how many keys, deleted or not, are within the bounds.
    fn keys_in(&self, bounds: &Bounds) -> f64 {
        match self.keys {
            Keys::Segment(segment) => self.key_count * segment.share_of(bounds),
            Keys::Memtable(table) => table.counts_in(bounds).0,
            Keys::Group => self.key_count,
        }
    }
}

/// The memtables that hold something.
fn table_sources(view: &View) -> impl Iterator<Item = Source<'_>> {
    let tables = std::iter::once(&view.active)
        .chain(&view.sealed)
        .enumerate();
    tables.filter_map(|(order, table)| Source::of_memtable(table, order))
}

/// Everything that holds keys of the range.
fn sources<'a>(view: &'a View, bounds: &Bounds) -> Vec<Source<'a>> {
    let runs = (1 + view.sealed.len()..).zip(view.version.runs());
    let segments = runs.flat_map(|(order, run)| {
        let segments = run.segments.iter();
        segments.filter_map(move |segment| Source::of_segment(segment, order))
    });
    let all = table_sources(view).chain(segments);
    all.filter_map(|source| source.within(bounds)).collect()
}

#[derive(Clone, Copy, Debug, Default, PartialEq)]
struct Estimate {
    /// Keys in the range asked for whose newest entry is a value.
    live: f64,
    /// Keys, deleted or not, of all sources.
    distinct: f64,
}

/// `each` is told of the keys of each order that nothing newer hides.
fn estimate(
    mut sources: Vec<Source<'_>>,
    bounds: Option<&Bounds>,
    each: &mut dyn FnMut(usize, f64),
) -> Estimate {
    sources.sort_by(|left, right| left.first_key.cmp(&right.first_key));
    let mut total = Estimate::default();
    let mut rest = sources.as_mut_slice();
    while !rest.is_empty() {
        let ranges = rest.iter().map(|one| (&*one.first_key, &*one.last_key));
        let (group, others) = rest.split_at_mut(connected(ranges));
        group.sort_by_key(|source| source.order);
        let part = estimate_group(group, bounds, each);
        total.live += part.live;
        total.distinct += part.distinct;
        rest = others;
    }
    total
}

/// How many of the key ranges, from the first on, are connected. They are ordered by first key.
fn connected<'a>(ranges: impl Iterator<Item = (&'a [u8], &'a [u8])>) -> usize {
    let mut end: &[u8] = &[];
    let mut count = 0;
    for (first, last) in ranges {
        if count > 0 && first > end {
            break;
        }
        end = end.max(last);
        count += 1;
    }
    count
}

/// The sources are ordered newest first.
fn estimate_group(
    sources: &[Source<'_>],
    bounds: Option<&Bounds>,
    each: &mut dyn FnMut(usize, f64),
) -> Estimate {
    let mut total = Estimate::default();
    let mut union = Union::default();
    let mut newer = 0;
    for run in sources.chunk_by(|left, right| left.order == right.order) {
        let (mut values, mut all) = (Set::default(), Set::default());
        let (mut live, mut asked) = (0.0, 0.0);
        for source in run {
            live += source.live;
            asked += source.asked;
            if let Some((value_sketch, deleted_sketch)) = &source.sketches {
                values.add_disjoint(value_sketch, source.value_count);
                all.add_disjoint(deleted_sketch, source.key_count);
            } else {
                total.distinct += source.key_count;
            }
        }
        all.sketch.merge(&values.sketch);
        let new_values = union.count_new(&values);
        if values.count > 0.0 {
            let hidden = live * (1.0 - new_values / values.count);
            let part = bounds.map_or(1.0, |bounds| part_hidden(run, &sources[..newer], bounds));
            asked -= hidden * part;
        }
        total.live += asked.max(0.0);
        each(run[0].order, asked.max(0.0));
        let new = if all.count == values.count {
            new_values
        } else {
            union.count_new(&all)
        };
        union.add(&all, new);
        newer += run.len();
    }
    total.distinct += union.count();
    total
}

/// Which part of the keys of a run that newer sources hide is in the range: as much as of the
/// newer keys that lie where the run does.
fn part_hidden(run: &[Source<'_>], newer: &[Source<'_>], range: &Bounds) -> f64 {
    let key = |key: Option<&Cow<'_, [u8]>>| Slice::from(key.map_or(&[][..], |key| key));
    let first = key(run.iter().map(|source| &source.first_key).min());
    let last = key(run.iter().map(|source| &source.last_key).max());
    let (lower, upper) = range;
    let common = (
        match lower {
            Bound::Included(key) | Bound::Excluded(key) if *key >= first => lower.clone(),
            _ => Bound::Included(first.clone()),
        },
        match upper {
            Bound::Included(key) | Bound::Excluded(key) if *key <= last => upper.clone(),
            _ => Bound::Included(last.clone()),
        },
    );
    let span = (Bound::Included(first), Bound::Included(last));
    let count = |bounds| {
        newer
            .iter()
            .map(|source| source.keys_in(bounds))
            .sum::<f64>()
    };
    let all = count(&span);
    if common == span || all <= 0.0 {
        return 1.0;
    }
    (count(&common) / all).min(1.0)
}
