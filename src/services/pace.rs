//! How long flushes and merges take in this session.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use super::monitor::nanos;

/// Time that work takes for each KiB, in nanoseconds; 0 before the first.
#[derive(Debug, Default)]
pub(crate) struct Pace(AtomicU64);

impl Pace {
    /// The last piece of work took so long.
    pub(crate) fn set(&self, took: Duration, bytes: u64) {
        let ns_per_kib = nanos(took) / (bytes >> 10).max(1);
        self.0.store(ns_per_kib, Ordering::Relaxed);
    }

    pub(crate) fn ns_per_kib(&self) -> f64 {
        self.0.load(Ordering::Relaxed) as f64
    }
}
