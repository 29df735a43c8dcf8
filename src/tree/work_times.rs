//! When there was work last, and from when on the tree is idle.

use std::time::Duration;

use crate::key::Sequence;
use crate::locks::{Mutex, rank};

/// The tree is idle when for this long nothing at all was written, flushed or merged.
const SILENCE_MS: u64 = 500;

/// Or when something is written, but nothing was flushed or merged for this long, and for this many
/// times as long as from the last flush but one to the last: writers that also read are slow, and
/// not idle.
const PAUSE_MS: u64 = 5000;
const PAUSE_TIMES: u64 = 4;

/// After a merge for which the disk had no room, those that are not needed wait for so long: a
/// minute, and each time twice as long. They need room for a copy of whole levels, and write all
/// that fits before they fail.
const SHORT_MIN_MS: u64 = 60_000;
const SHORT_MAX_MS: u64 = 3_600_000;

/// When there was work, by the clock of the storage; 0 where no clock is.
#[derive(Debug)]
pub(crate) struct WorkTimes(Mutex<Times, { rank::WORK_TIMES }>);

#[derive(Debug, Default)]
struct Times {
    /// End of the last flush; the opening before there was any.
    flushed_ms: u64,
    /// From the end of the flush before to that.
    apart_ms: u64,
    /// End of the last flush or compaction.
    worked_ms: u64,
    /// The last write that was seen, and when it was first seen.
    written: Sequence,
    written_ms: u64,
    /// The disk was too full for a merge: until when that is held against others, and for how long.
    short_until_ms: u64,
    short_ms: u64,
}

impl Times {
    fn short_for(&self, now_ms: u64) -> u64 {
        // A clock that was set back makes it no longer.
        self.short_until_ms
            .saturating_sub(now_ms)
            .min(self.short_ms)
    }

    /// Time until then, and until room on the disk is looked for again.
    fn left(&self, due_ms: u64, now_ms: u64) -> Duration {
        let due_in_ms = due_ms.saturating_sub(now_ms);
        Duration::from_millis(due_in_ms.max(self.short_for(now_ms)))
    }
}

impl WorkTimes {
    pub(crate) fn since(now_ms: Option<u64>) -> WorkTimes {
        let now_ms = now_ms.unwrap_or(0);
        WorkTimes(Mutex::new(Times {
            flushed_ms: now_ms,
            worked_ms: now_ms,
            written_ms: now_ms,
            ..Times::default()
        }))
    }

    pub(crate) fn flushed(&self, now_ms: Option<u64>) {
        let now_ms = now_ms.unwrap_or(0);
        let mut times = self.0.lock();
        times.apart_ms = now_ms.saturating_sub(times.flushed_ms);
        times.flushed_ms = now_ms;
        times.worked_ms = now_ms;
    }

    pub(crate) fn compacted(&self, now_ms: Option<u64>) {
        let now_ms = now_ms.unwrap_or(0);
        let mut times = self.0.lock();
        times.worked_ms = now_ms;
        if times.short_for(now_ms) == 0 {
            times.short_ms = 0;
        }
    }

    /// A merge has failed for lack of room on the disk.
    pub(crate) fn was_full(&self, now_ms: Option<u64>) {
        let now_ms = now_ms.unwrap_or(0);
        let mut times = self.0.lock();
        if times.short_for(now_ms) > 0 {
            // Not for small ones, too, which are tried again each second: it would be an hour at
            // once.
            return;
        }
        times.short_ms = (times.short_ms.saturating_mul(2)).clamp(SHORT_MIN_MS, SHORT_MAX_MS);
        times.short_until_ms = now_ms.saturating_add(times.short_ms);
    }

    /// Whether there was room on the disk for all merges lately.
    pub(super) fn had_room(&self, now_ms: Option<u64>) -> bool {
        self.0.lock().short_for(now_ms.unwrap_or(0)) == 0
    }

    /// Time until the tree will have been idle for this long, if no write follows this one; `None`
    /// without a clock.
    pub(super) fn idle_in(
        &self,
        now_ms: Option<u64>,
        written: Sequence,
        lasting: Duration,
    ) -> Option<Duration> {
        let now_ms = now_ms?;
        let lasting_ms = u64::try_from(lasting.as_millis()).unwrap_or(u64::MAX);
        let mut times = self.0.lock();
        if times.written != written {
            (times.written, times.written_ms) = (written, now_ms);
        }
        // A clock that was set back begins anew.
        times.worked_ms = times.worked_ms.min(now_ms);
        times.written_ms = times.written_ms.min(now_ms);
        let silent_from = times.written_ms.max(times.worked_ms);
        let silence_ms = SILENCE_MS.max(lasting_ms);
        let pause_ms = PAUSE_MS.max(times.apart_ms.saturating_mul(PAUSE_TIMES));
        let pause_ms = pause_ms.max(lasting_ms);
        let due_ms = silent_from.saturating_add(silence_ms);
        let due_ms = due_ms.min(times.worked_ms.saturating_add(pause_ms));
        Some(times.left(due_ms, now_ms))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn idle_in_ms(
        times: &WorkTimes,
        now_ms: u64,
        (written, lasting_ms): (u64, u64),
    ) -> Option<u128> {
        let lasting = Duration::from_millis(lasting_ms);
        let left = times.idle_in(Some(now_ms), Sequence(written), lasting);
        left.map(|left| left.as_millis())
    }

    #[test]
    fn idle_is_half_a_second_without_writes_or_four_times_the_pace() {
        let times = WorkTimes::since(Some(10_000));
        let left = |now_ms, written| idle_in_ms(&times, now_ms, (written, 0));
        // Nothing is written.
        assert_eq!((left(10_000, 0), left(10_400, 0)), (Some(500), Some(100)));
        assert_eq!(left(10_500, 0), Some(0));
        // Something is: for five seconds no flush comes.
        assert_eq!((left(10_500, 1), left(10_900, 2)), (Some(500), Some(500)));
        assert_eq!((left(14_950, 3), left(15_000, 4)), (Some(50), Some(0)));
        // They come every two seconds, and a compaction ends later.
        times.flushed(Some(15_000));
        times.flushed(Some(17_000));
        assert_eq!((left(17_000, 5), left(17_500, 5)), (Some(500), Some(0)));
        assert_eq!((left(24_900, 6), left(25_000, 7)), (Some(100), Some(0)));
        times.compacted(Some(26_000));
        assert_eq!((left(26_000, 7), left(26_500, 7)), (Some(500), Some(0)));
        // Set back, and without a clock.
        assert_eq!((left(300, 7), left(800, 7)), (Some(500), Some(0)));
        assert_eq!(times.idle_in(None, Sequence(8), Duration::ZERO), None);
        times.flushed(None);
        assert_eq!(left(5000, 8), Some(0));
    }

    #[test]
    fn a_longer_merge_needs_a_longer_pause() {
        let times = WorkTimes::since(Some(10_000));
        let left = |now_ms, written, lasting_ms| idle_in_ms(&times, now_ms, (written, lasting_ms));
        assert_eq!(left(10_000, 0, 1300), Some(1300));
        assert_eq!(left(11_300, 0, 1300), Some(0));
        assert_eq!(left(11_000, 1, 1300), Some(1300));
        // Something is written all the time.
        assert_eq!(
            (left(14_900, 2, 1300), left(15_000, 3, 1300)),
            (Some(100), Some(0))
        );
        assert_eq!(
            (left(15_000, 4, 8000), left(18_000, 5, 8000)),
            (Some(3000), Some(0))
        );
        assert_eq!(
            left(18_000, 6, u64::MAX),
            Some(u128::from(u64::MAX - 18_000))
        );
    }

    #[test]
    fn where_the_disk_was_full_it_takes_longer_each_time() {
        let times = WorkTimes::since(Some(0));
        let left = |now_ms| times.idle_in(Some(now_ms), Sequence(0), Duration::ZERO);
        let room = |now_ms| times.had_room(Some(now_ms));
        assert!(room(0));
        times.was_full(Some(10_000));
        assert_eq!(left(10_000), Some(Duration::from_secs(60)));
        assert!(!room(69_999) && room(70_000));
        // What was merged meanwhile says nothing, and neither does what was not: it was small.
        times.compacted(Some(20_000));
        times.was_full(Some(30_000));
        assert_eq!(left(30_000), Some(Duration::from_secs(40)));
        times.was_full(Some(70_000));
        assert_eq!(left(70_000), Some(Duration::from_secs(120)));
        // Set back.
        assert_eq!(left(100), Some(Duration::from_secs(120)));
        for hour in 1..10 {
            times.was_full(Some(hour * 3_600_000));
        }
        assert_eq!(left(9 * 3_600_000), Some(Duration::from_secs(3600)));
        times.compacted(Some(36_000_000));
        times.was_full(Some(36_000_000));
        assert_eq!(left(36_000_000), Some(Duration::from_secs(60)));
    }
}
