//! How old data is: times of segments.

use std::sync::Arc;
use std::time::Duration;

use crate::segment::Segment;
use crate::version::Version;

use super::state::Tree;

impl Tree {
    /// The time of what is flushed now, 0 for unknown. A clock that was set back makes it no older
    /// than what is older.
    pub(crate) fn flushed_ms(&self, version: &Version) -> u64 {
        let newest = version.segments().map(|one| one.meta.written_ms).max();
        self.services()
            .now_ms()
            .map_or(0, |now| now.max(newest.unwrap_or_default()))
    }

    /// The time of the newest entry of these segments, or now when one of them does not know:
    /// it was written before.
    pub(crate) fn merged_ms<'a>(&self, inputs: impl Iterator<Item = &'a Arc<Segment>>) -> u64 {
        let times: Vec<u64> = inputs.map(|one| one.meta.written_ms).collect();
        let newest = times.iter().copied().max().unwrap_or_default();
        if times.contains(&0) {
            self.services().now_ms().map_or(0, |now| now.max(newest))
        } else {
            newest
        }
    }
}

/// Age of a segment, as far as it is known.
pub(super) fn age_of(segment: &Segment, now_ms: Option<u64>) -> Option<Duration> {
    let written_ms = segment.meta.written_ms;
    let age_ms = now_ms?.saturating_sub(written_ms);
    (written_ms > 0).then(|| Duration::from_millis(age_ms))
}
