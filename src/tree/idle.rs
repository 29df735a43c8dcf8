//! What is merged in pauses of writers: when nothing was written for a while, or so little that no
//! flush comes for much longer than they come apart. Longer ones, in which more is merged, and
//! shorter ones, in which only flushed runs that wait are.

use std::time::Duration;

use crate::compaction::{self, Plan, RunFacts};
use crate::key::Sequence;
use crate::options::TreeShape;

use super::state::Tree;

/// Times are looked at this often at least, as the clock may be set.
const LOOK_MAX: Duration = Duration::from_secs(60);
/// And no more often than this.
const LOOK_MIN: Duration = Duration::from_millis(10);

/// Bytes that are merged in a long pause, for each millisecond that it has lasted, which is about
/// what two threads merge that have nothing else to do: of what has lasted for so long one may
/// expect that it does so once more.
const LONG_PAUSE_BYTES_EACH_MS: u64 = 650_000;

/// Bytes of flushed runs that wait, for each millisecond in which nothing was flushed or compacted
/// before they are merged with each other: about as many as a merge does. So long at least.
const WAITING_BYTES_EACH_MS: u64 = 100_000;
const WAITING_MIN_MS: u64 = 50;

impl Tree {
    /// The measures of the tree, as far as the disk has room for them.
    pub(crate) fn shape_now(&self) -> TreeShape {
        TreeShape {
            merge_levels_whole: self.work_times().had_room(self.services().now_ms()),
            ..self.options().tree
        }
    }

    /// What is to be done in the tree now, and whether because writers pause.
    pub(crate) fn wanted(&self, facts: &[RunFacts], visible: Sequence) -> Option<(Plan, bool)> {
        if let Some(plan) = compaction::plan(facts, &self.shape_now()) {
            return Some((plan, false));
        }
        let (plan, pause_in) = self.in_pause(facts, visible)?;
        pause_in.is_zero().then_some((plan, true))
    }

    /// What is to be merged in a pause, or before it of what waits, and the time until then. `None`
    /// for nothing.
    fn in_pause(&self, facts: &[RunFacts], visible: Sequence) -> Option<(Plan, Duration)> {
        let (now_ms, tree) = (self.services().now_ms(), &self.options().tree);
        let all = compaction::in_pause(facts, tree).map(|plan| (plan, 0));
        let all = all.or_else(|| {
            let (plan, bytes) = compaction::in_long_pause(facts, tree)?;
            Some((plan, bytes / LONG_PAUSE_BYTES_EACH_MS))
        });
        let lasting_ms = all.as_ref().map_or(0, |(_, lasting_ms)| *lasting_ms);
        let times = self.work_times();
        let pause_in = times.pause_in(now_ms, visible, lasting_ms)?;
        let all = all.map(|(plan, _)| (plan, pause_in));
        let waiting = compaction::while_waiting(facts, tree).and_then(|(plan, bytes)| {
            let idle_ms = WAITING_MIN_MS.max(bytes / WAITING_BYTES_EACH_MS);
            Some((plan, times.idle_in(now_ms, idle_ms)?))
        });
        all.into_iter().chain(waiting).min_by_key(|(_, left)| *left)
    }

    /// Time until a look for what is due by its age in this tree, or in a pause; `None` when
    /// nothing will be.
    pub(crate) fn look_in(&self, facts: &[RunFacts], visible: Sequence) -> Option<Duration> {
        if let Some((_, pause_in)) = self.in_pause(facts, visible) {
            return Some(pause_in.clamp(LOOK_MIN, LOOK_MAX));
        }
        let due = compaction::due_in(facts, &self.options().tree)?;
        // What is due and not done waits for another thread, which will tell, or is refused.
        let wait = if due.is_zero() { LOOK_MAX } else { due };
        Some(wait.clamp(LOOK_MIN, LOOK_MAX))
    }
}
