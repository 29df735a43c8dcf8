//! How long writers that are slowed wait.

use std::sync::atomic::{AtomicI64, Ordering};
use std::time::Duration;

use crate::services::nanos;

/// Longest that one write is slowed.
const SLOW_MAX: Duration = Duration::from_millis(100);

/// Delays are saved up until they are worth a wait: a clock cannot wait for microseconds.
const SLOW_MIN: Duration = Duration::from_micros(200);

/// The delay that slowed writers owe.
#[derive(Debug, Default)]
pub(super) struct Pacer {
    /// In nanoseconds; less than none when they waited too long.
    owed_ns: AtomicI64,
}

impl Pacer {
    /// A writer owes this much more. Returns how long it waits now, if that is worth a wait.
    pub(super) fn owe(&self, owed_ns: u64) -> Option<Duration> {
        let owed_ns = owed_ns.min(i64::MAX as u64) as i64;
        let owed = self.owed_ns.fetch_add(owed_ns, Ordering::Relaxed) + owed_ns;
        let delay = Duration::from_nanos(owed.max(0) as u64).min(SLOW_MAX);
        if delay < SLOW_MIN {
            return None;
        }
        self.owed_ns.store(0, Ordering::Relaxed);
        Some(delay)
    }

    /// A wait takes some tens of microseconds more than it should. They are taken off the next.
    pub(super) fn waited(&self, delay: Duration, took: Duration) {
        let too_long = took.saturating_sub(delay).min(SLOW_MIN);
        let too_long = nanos(too_long) as i64;
        self.owed_ns.fetch_sub(too_long, Ordering::Relaxed);
    }
}
