//! Pauses of writers: when for much longer than flushes come apart nothing was flushed, nor merged
//! for what was.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use crate::compaction::{self, Plan, RunFacts};

use super::shared::Shared;

/// How long a pause is at least, and how many times as long as from flush to flush.
const PAUSE_MS: u64 = 1000;
const PAUSE_TIMES: u64 = 4;

/// When there was work for the threads of the store, by the clock of the storage.
#[derive(Debug, Default)]
pub(crate) struct WorkTimes {
    /// End of the last flush; the opening before there was any. 0 where no clock is.
    flushed_ms: AtomicU64,
    /// From the end of the flush before to that. One thread flushes.
    apart_ms: AtomicU64,
    /// End of the last flush or compaction.
    worked_ms: AtomicU64,
}

impl WorkTimes {
    pub(crate) fn since(now_ms: Option<u64>) -> WorkTimes {
        let now_ms = now_ms.unwrap_or(0);
        WorkTimes {
            flushed_ms: now_ms.into(),
            apart_ms: 0.into(),
            worked_ms: now_ms.into(),
        }
    }

    pub(crate) fn flushed(&self, now_ms: Option<u64>) {
        self.compacted(now_ms);
        let now_ms = now_ms.unwrap_or(0);
        let before_ms = self.flushed_ms.swap(now_ms, Ordering::Relaxed);
        let apart_ms = now_ms.saturating_sub(before_ms);
        self.apart_ms.store(apart_ms, Ordering::Relaxed);
    }

    pub(crate) fn compacted(&self, now_ms: Option<u64>) {
        self.worked_ms.store(now_ms.unwrap_or(0), Ordering::Relaxed);
    }

    /// Time until it is a pause; `None` without a clock.
    fn pause_in(&self, now_ms: Option<u64>) -> Option<Duration> {
        let now_ms = now_ms?;
        let apart_ms = self.apart_ms.load(Ordering::Relaxed);
        let pause_ms = PAUSE_MS.max(apart_ms.saturating_mul(PAUSE_TIMES));
        // A clock that was set back begins anew.
        let worked_ms = self.worked_ms.fetch_min(now_ms, Ordering::Relaxed);
        let past_ms = now_ms.saturating_sub(worked_ms);
        Some(Duration::from_millis(pause_ms.saturating_sub(past_ms)))
    }
}

impl Shared {
    /// What is to be done in the tree now, and whether because writers pause.
    pub(super) fn wanted(&self, facts: &[RunFacts]) -> Option<(Plan, bool)> {
        if let Some(plan) = compaction::plan(facts, &self.options.tree) {
            return Some((plan, false));
        }
        let (plan, pause_in) = self.in_pause(facts)?;
        pause_in.is_zero().then_some((plan, true))
    }

    /// What is to be merged in a pause, and the time until it is one. `None` for nothing.
    pub(super) fn in_pause(&self, facts: &[RunFacts]) -> Option<(Plan, Duration)> {
        let pause_in = self.work_times.pause_in(self.now_ms())?;
        let plan = compaction::in_pause(facts, &self.options.tree)?;
        Some((plan, pause_in))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_pause_is_a_second_and_four_times_the_pace() {
        let times = WorkTimes::since(Some(10_000));
        let left = |now_ms| times.pause_in(Some(now_ms)).map(|left| left.as_millis());
        assert_eq!((left(10_000), left(10_900)), (Some(1000), Some(100)));
        times.flushed(Some(10_200));
        assert_eq!((left(10_200), left(11_200)), (Some(1000), Some(0)));
        times.flushed(Some(11_200));
        assert_eq!((left(12_200), left(15_300)), (Some(3000), Some(0)));
        times.flushed(Some(11_300));
        assert_eq!(left(11_300), Some(1000));
        times.compacted(Some(12_000));
        assert_eq!((left(12_900), left(13_000)), (Some(100), Some(0)));
        // Set back, and without a clock.
        assert_eq!((left(300), left(800)), (Some(1000), Some(500)));
        assert_eq!(times.pause_in(None), None);
        times.flushed(None);
        assert_eq!(left(1000), Some(0));
    }
}
