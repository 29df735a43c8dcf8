//! When a merge begins: at once, or when the tree has been idle for long enough.
//!
//! While the tree is idle, more is merged than must be, so that reads have fewer runs to ask.
//! A merge begins when the tree has been idle for as long as the merge is expected to take. Nobody
//! knows how long a pause will last. With this rule, a merge that turns out to be in vain, because the
//! store is closed or written again, has wasted no more time than the pause had before it.

use std::time::Duration;

use crate::compaction::{self, Plan, RunFacts};
use crate::key::Sequence;
use crate::options::TreeShape;

use super::state::Tree;

/// Times are looked at this often at least, as the clock may be set.
const LOOK_MAX: Duration = Duration::from_secs(60);
/// And no more often than this.
const LOOK_MIN: Duration = Duration::from_millis(10);

/// Idle time before a merge of which it is not known how long it takes, because this session has
/// neither flushed nor merged. Short sessions, as of commands, leave the tree as it is.
const UNKNOWN: Duration = Duration::from_secs(10);

/// A session that has neither flushed nor merged may be a short one, whose merge would be thrown away
/// at its end. So a merge waits there until the session is as old as the merge would take at this
/// pace, which is slower than any disk, but no longer than [`UNKNOWN`].
const SLOW_BYTES_PER_MS: u64 = 10_000;

/// What is to be done in a tree.
pub(crate) enum Next {
    /// This, and whether only because the tree is idle.
    Now(Plan, bool),
    /// Nothing now. After this time there may be something; `None` for never, unless the tree changes.
    Look(Option<Duration>),
}

impl Tree {
    /// The measures of the tree, as far as the disk has room for them.
    pub(crate) fn shape_now(&self) -> TreeShape {
        TreeShape {
            merge_levels_whole: self.work_times().had_room(self.services().now_ms()),
            ..self.options().shape
        }
    }

    /// What is to be done in the tree next, by its shape, its age, or because it is idle.
    pub(crate) fn next(&self, facts: &[RunFacts], visible: Sequence) -> Next {
        if let Some(plan) = compaction::plan(facts, &self.shape_now()) {
            return match self.early_by(&plan, facts) {
                None => Next::Now(plan, false),
                Some(left) => Next::Look(Some(left.max(LOOK_MIN))),
            };
        }
        match self.while_idle(facts, visible) {
            Some((plan, due_in)) if due_in.is_zero() => Next::Now(plan, true),
            Some((_, due_in)) => Next::Look(Some(due_in.clamp(LOOK_MIN, LOOK_MAX))),
            None => {
                let due_in = compaction::due_in(facts, &self.options().shape);
                // What is due and not done waits for another thread, which will tell, or is refused.
                let wait = due_in.map(|due| if due.is_zero() { LOOK_MAX } else { due });
                Next::Look(wait.map(|wait| wait.clamp(LOOK_MIN, LOOK_MAX)))
            }
        }
    }

    /// What is to be merged when the tree is idle, and the time until then. `None` for nothing.
    fn while_idle(&self, facts: &[RunFacts], visible: Sequence) -> Option<(Plan, Duration)> {
        let (plan, bytes) = compaction::while_idle(facts, &self.options().shape)?;
        let takes = self.merge_time(bytes).unwrap_or(UNKNOWN);
        let now_ms = self.services().now_ms();
        let due_in = self.work_times().idle_in(now_ms, visible, takes)?;
        Some((plan, due_in))
    }

    /// How long a merge that is due still waits, because the session may be a short one.
    fn early_by(&self, plan: &Plan, facts: &[RunFacts]) -> Option<Duration> {
        let Plan::Merge { inputs, .. } = plan else {
            return None;
        };
        let segments = facts.iter().flat_map(|run| &run.segments);
        let merged = segments.filter(|segment| inputs.contains(&segment.id));
        let bytes = merged.map(|segment| segment.bytes).sum();
        if self.merge_time(bytes).is_some() {
            return None;
        }
        let wait = Duration::from_millis(bytes / SLOW_BYTES_PER_MS).min(UNKNOWN);
        wait.checked_sub(self.session_age())
            .filter(|left| !left.is_zero())
    }

    /// How long a merge of so many bytes takes, by the last merge of this session, or else by its
    /// last flush; `None` before both.
    fn merge_time(&self, bytes: u64) -> Option<Duration> {
        let paces = [&self.services().merge_pace, &self.services().flush_pace];
        let known = paces.iter().map(|pace| pace.ns_per_kib());
        let ns_per_kib = known.into_iter().find(|pace| *pace > 0.0)?;
        Some(Duration::from_nanos(
            (bytes as f64 / 1024.0 * ns_per_kib) as u64,
        ))
    }
}
