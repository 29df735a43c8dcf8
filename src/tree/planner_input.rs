//! The tree as planning sees it.

use std::sync::Arc;

use crate::compaction::{RunFacts, SegmentFacts};
use crate::options::Strategy;
use crate::segment::Segment;
use crate::version::{Run, Version};

use super::age::age_of;
use super::claims::Claims;
use super::estimate::counted;
use super::state::Tree;

impl Tree {
    /// All runs, newest first; what these claims hold is busy.
    pub(crate) fn facts(&self, version: &Version, claims: &Claims) -> Vec<RunFacts> {
        let now_ms = self.services().now_ms();
        let segment = |one: &Arc<Segment>| {
            let counts = one.counts();
            SegmentFacts {
                id: one.meta.id,
                bytes: one.meta.len,
                entries: counts.entries,
                tombstones: counts.tombstones,
                first_key: one.meta.first_key.clone(),
                last_key: one.meta.last_key.clone(),
                age: age_of(one, now_ms),
                busy: claims.is_busy(one),
            }
        };
        let run = |run: &Run| RunFacts {
            level: run.level,
            number: run.number,
            segments: run.segments.iter().map(segment).collect(),
            hidden_bytes: 0,
        };
        let mut runs: Vec<RunFacts> = version.runs().iter().map(run).collect();
        // Only whether the first level is the last one for long depends on it, when it is to be
        // merged.
        let tree = &self.options().shape;
        let flushed = runs.iter().filter(|run| run.level == 0).count();
        let asks = tree.strategy == Strategy::Leveled && flushed >= tree.level0_runs as usize;
        if asks && runs.last().is_some_and(|run| run.level == 1) {
            let live = &counted(version).live_by_run;
            for (run, live) in runs.iter_mut().zip(live) {
                run.hidden_bytes = hidden_bytes(run, *live);
            }
        }
        runs
    }
}

/// What of a run is not in its so many live entries, if all are of one size.
fn hidden_bytes(run: &RunFacts, live: f64) -> u64 {
    let all: u64 = run.segments.iter().map(|one| one.entries).sum();
    let hidden = 1.0 - live / all.max(1) as f64;
    (run.bytes() as f64 * hidden.clamp(0.0, 1.0)) as u64
}
