//! What it takes to compact a range of keys on request.

use std::sync::Arc;

use crate::bounds::Bounds;
use crate::compaction::{self, Plan, Target};
use crate::options::Strategy;
use crate::segment::Segment;
use crate::version::{Run, Version};

use super::claims::{Claims, KeyRange, Reserved};
use super::state::Tree;

impl Tree {
    /// What it takes to carry out a request. Where nothing is merged, to remove what is due,
    /// whatever the range: merged into one, runs could only be removed all at once. `None` when
    /// there is nothing to do.
    pub(crate) fn plan_request(&self, version: &Version, bounds: &Bounds) -> Option<RequestedPlan> {
        let tree = &self.options().shape;
        if !matches!(tree.strategy, Strategy::Fifo { .. }) {
            return self.plan_range(version, bounds);
        }
        let plan = compaction::plan(&self.facts(version, &Claims::default()), tree)?;
        Some(RequestedPlan {
            plan,
            input_bytes: 0,
            range: None,
        })
    }
}

/// What it takes to carry out what was asked for.
pub(crate) struct RequestedPlan {
    pub(crate) plan: Plan,
    pub(crate) input_bytes: u64,
    /// First and last key of the inputs of a merge.
    pub(crate) range: Option<Reserved>,
}

impl Tree {
    /// Merges all that overlaps a range, and all that is older and overlaps that, into the last
    /// level. `None` when there is nothing to merge.
    fn plan_range(&self, version: &Version, bounds: &Bounds) -> Option<RequestedPlan> {
        let mut range: Option<KeyRange> = None;
        let mut inputs: Vec<&Arc<Segment>> = Vec::new();
        for run in version.runs() {
            for segment in run.segments.iter() {
                let meta = &segment.meta;
                let asked = segment.overlaps(bounds);
                let overlaps = range.as_ref().is_some_and(|(first, last)| {
                    meta.first_key <= *last && *first <= meta.last_key
                });
                if asked || overlaps {
                    inputs.push(segment);
                }
            }
            // What is older and overlaps what is taken must come along.
            let first = inputs.iter().map(|one| &one.meta.first_key).min();
            let last = inputs.iter().map(|one| &one.meta.last_key).max();
            range = first.cloned().zip(last.cloned());
        }
        let last_level = version.runs().last()?.level.max(1);
        let at_last: Vec<&Run> = version
            .runs()
            .iter()
            .filter(|run| run.level == last_level)
            .collect();
        let is_settled = inputs.iter().all(|one| {
            let counts = one.counts();
            let is_lean = counts.tombstones == 0 && counts.entries == counts.keys;
            one.meta.level == last_level && at_last.len() == 1 && is_lean
        });
        if inputs.is_empty() || is_settled {
            return None;
        }
        // What overlaps an input and is not taken is newer: the output is older than all of that.
        let target = at_last
            .last()
            .map_or(Target::NewRun, |run| Target::Join(run.number));
        let plan = Plan::Merge {
            inputs: inputs.iter().map(|one| one.meta.id).collect(),
            level: last_level,
            target,
        };
        Some(RequestedPlan {
            plan,
            input_bytes: inputs.iter().map(|one| one.meta.len).sum(),
            range: range.map(|range| Reserved {
                keyspace: self.id(),
                range,
            }),
        })
    }
}
