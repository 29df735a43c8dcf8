//! Holds writers back when flushing falls behind, gently first, so that memory stays bounded.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use crate::error::{Error, Result};

use super::shared::{Counters, Shared, lock, nanos};
use super::stats::EventKind;

/// Longest that one write is slowed.
const SLOW_MAX: Duration = Duration::from_millis(100);

/// Charged to a write beside its bytes, as its entries are charged to the memtable.
const WRITE_BYTES: u64 = 144;

impl Shared {
    /// Waits until a write of this size may be made.
    ///
    /// With half of the sealed memtables waiting, writes are slowed to the pace of the last
    /// flush; with all of them waiting and the active one full, they stop until one is flushed.
    ///
    /// # Errors
    ///
    /// [`Error::Stalled`] when flushing fails, so that waiting would not help.
    pub(crate) fn make_room(&self, bytes: u64) -> Result<()> {
        let view = self.view.load();
        let sealed = view.sealed.len();
        let full = view.active.bytes() >= self.options.memtable_bytes;
        drop(view);
        if full && sealed >= self.options.sealed_memtables_max {
            return self.stop_writer(sealed as u64);
        }
        // The first that waits is no sign of falling behind.
        if sealed >= 2 && sealed * 2 > self.options.sealed_memtables_max {
            self.slow_writer(bytes, sealed as u64);
        }
        Ok(())
    }

    fn slow_writer(&self, bytes: u64, sealed: u64) {
        let ns_per_kib = self.flush_ns_per_kib.load(Ordering::Relaxed);
        let delay = Duration::from_nanos((bytes + WRITE_BYTES).saturating_mul(ns_per_kib) >> 10);
        let started = Instant::now();
        if self.counters.slowed.fetch_add(1, Ordering::Relaxed) == 0 {
            self.event(EventKind::Slowed { sealed });
        }
        let flushing = lock(&self.flushing);
        // Woken early when a flush ends; the time out is the usual case.
        drop(self.flush_done.wait_timeout(flushing, delay.min(SLOW_MAX)));
        Counters::add(&self.counters.slowed_ns, nanos(started.elapsed()));
    }

    fn stop_writer(&self, sealed: u64) -> Result<()> {
        let started = Instant::now();
        if self.counters.stopped.fetch_add(1, Ordering::Relaxed) == 0 {
            self.event(EventKind::Stopped { sealed });
        }
        let mut flushing = lock(&self.flushing);
        let result = loop {
            if let Err(error) = self.check_writable() {
                break Err(error);
            }
            if self.view.load().sealed.len() < self.options.sealed_memtables_max {
                break Ok(());
            }
            if let Some(cause) = &flushing.failure {
                break Err(Error::Stalled {
                    cause: Arc::clone(cause),
                });
            }
            flushing = self
                .flush_done
                .wait(flushing)
                .unwrap_or_else(std::sync::PoisonError::into_inner);
        };
        Counters::add(&self.counters.stopped_ns, nanos(started.elapsed()));
        result
    }
}
