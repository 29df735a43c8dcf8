//! Compactions that write no segment: segments go to another level, or go.

use std::sync::Arc;

use crate::compaction::{FileNumbers, Target};
use crate::error::Result;
use crate::options::FilterPolicy;
use crate::segment::Segment;
use crate::services::Tally;

use super::state::Tree;

impl Tree {
    /// Removes segments with what is in them.
    pub(crate) fn drop_segments(&self, ids: &[u64]) -> Result<()> {
        let version = self.version();
        let dropped = version.segments().filter(|one| ids.contains(&one.meta.id));
        // Before any view lacks them.
        if let Some(last) = dropped.map(|one| one.meta.sequence_max).max() {
            self.note_dropped(last);
        }
        self.install_compacted(Vec::new(), ids)?;
        let dropped = ids.len() as u64;
        self.services().monitor.count(Tally::Dropped, dropped);
        Ok(())
    }

    /// Whether what is flushed meanwhile must wait for a merge of these.
    pub(crate) fn takes_flushed(&self, inputs: &[u64]) -> bool {
        let version = self.version();
        let mut flushed = version.segments().filter(|one| one.meta.level == 0);
        flushed.any(|one| inputs.contains(&one.meta.id))
    }

    /// Whether segments keep a fitting filter at another level. With a budget the bits depend on
    /// the level, so the segments are written anew, with their filter.
    pub(crate) fn may_move(&self, segments: &[u64], level: u32) -> bool {
        let version = self.version();
        let moved: Vec<_> = version
            .segments()
            .filter(|one| segments.contains(&one.meta.id))
            .collect();
        let keys = moved.iter().map(|one| one.counts().keys).sum();
        let has_tombstones = moved.iter().any(|one| one.counts().tombstones > 0);
        let wanted = self.filters_for(&version, level, keys, segments);
        let last = version.runs().last().map_or(0, |run| run.level);
        let is_last = last <= level;
        let policy = self.policy_of(level, is_last);
        let fits = moved.iter().all(|one| {
            let is_same = policy == self.policy_of(one.meta.level, one.meta.level == last);
            let is_budget = matches!(policy, FilterPolicy::Budget { .. });
            is_same && !is_budget
                || one.filter_fits(
                    wanted.of(&one.meta.first_key),
                    &self.services().loading.customs,
                )
        });
        // Tombstones that reach the last level have nothing left to hide.
        fits && !(is_last && has_tombstones)
    }

    pub(crate) fn move_down(&self, ids: &[u64], level: u32, target: Target) -> Result<()> {
        let version = self.version();
        let run = match target {
            Target::Join(run) => run,
            Target::NewRun => self.services().catalog.allocate()?,
        };
        let moved: Vec<Arc<Segment>> = version
            .segments()
            .filter(|segment| ids.contains(&segment.meta.id))
            .map(|segment| Arc::new(segment.moved(level, run)))
            .collect();
        self.services().monitor.count(Tally::Moves, 1);
        self.install_compacted(moved, ids)
    }

    /// All levels below 0 move down by one. A filter fits its run, which is what it was.
    pub(crate) fn deepen(&self, ids: &[u64]) -> Result<()> {
        let version = self.version();
        let moved: Vec<Arc<Segment>> = version
            .segments()
            .filter(|segment| ids.contains(&segment.meta.id))
            .map(|segment| Arc::new(segment.moved(segment.meta.level + 1, segment.meta.run)))
            .collect();
        self.services().monitor.count(Tally::Moves, 1);
        self.install_compacted(moved, ids)
    }
}
