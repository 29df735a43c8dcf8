//! How old data is: times of segments, and when the next look at them is due.

use std::sync::Arc;
use std::time::{Duration, UNIX_EPOCH};

use crate::compaction::{self, RunFacts};
use crate::segment::Segment;
use crate::storage::Storage;
use crate::version::Version;

use super::shared::Shared;

/// Times are looked at this often at least, as the clock may be set, ...
const LOOK_MAX: Duration = Duration::from_secs(60);
/// ... and no more often than this.
const LOOK_MIN: Duration = Duration::from_millis(10);

/// Milliseconds since 1970, if that is known.
pub(crate) fn now_ms(storage: &dyn Storage) -> Option<u64> {
    let since = storage.now()?.duration_since(UNIX_EPOCH).ok()?;
    u64::try_from(since.as_millis()).ok().filter(|ms| *ms > 0)
}

impl Shared {
    pub(crate) fn now_ms(&self) -> Option<u64> {
        now_ms(&*self.storage)
    }

    /// The time of what is flushed now, 0 for unknown. A clock that was set back makes it no older
    /// than what is older.
    pub(crate) fn flushed_ms(&self, version: &Version) -> u64 {
        let newest = version.segments().map(|one| one.meta.written_ms).max();
        self.now_ms()
            .map_or(0, |now| now.max(newest.unwrap_or_default()))
    }

    /// The time of the newest entry of these segments, or now when one of them does not know:
    /// it was written before.
    pub(crate) fn merged_ms<'a>(&self, inputs: impl Iterator<Item = &'a Arc<Segment>>) -> u64 {
        let times: Vec<u64> = inputs.map(|one| one.meta.written_ms).collect();
        let newest = times.iter().copied().max().unwrap_or_default();
        if times.contains(&0) {
            self.now_ms().map_or(0, |now| now.max(newest))
        } else {
            newest
        }
    }

    /// Age of a segment, as far as it is known.
    pub(crate) fn age_of(&self, segment: &Segment, now_ms: Option<u64>) -> Option<Duration> {
        let written_ms = segment.meta.written_ms;
        let age_ms = now_ms?.saturating_sub(written_ms);
        (written_ms > 0).then(|| Duration::from_millis(age_ms))
    }

    /// Time until a look for what is due by its age in this tree, or in a pause; `None` when nothing
    /// will be.
    pub(super) fn look_in(&self, facts: &[RunFacts]) -> Option<Duration> {
        if let Some((_, pause_in)) = self.in_pause(facts) {
            return Some(pause_in.clamp(LOOK_MIN, LOOK_MAX));
        }
        let due = compaction::due_in(facts, &self.options.tree)?;
        // What is due and not done waits for another thread, which will tell, or is refused.
        let wait = if due.is_zero() { LOOK_MAX } else { due };
        Some(wait.clamp(LOOK_MIN, LOOK_MAX))
    }
}
