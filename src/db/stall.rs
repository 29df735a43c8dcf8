//! Holds writers back when flushing or compacting falls behind, gently first, so that memory and
//! the number of runs stay bounded.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use crate::error::{Error, Result};
use crate::options::Compaction;

use super::shared::{Counters, Shared, lock, nanos};
use super::stats::EventKind;

/// Longest that one write is slowed.
const SLOW_MAX: Duration = Duration::from_millis(100);

/// Delays are saved up until they are worth a wait: a clock cannot wait for microseconds.
const SLOW_MIN: Duration = Duration::from_micros(200);

/// Charged to a write beside its bytes, as its entries are charged to the memtable.
const WRITE_BYTES: u64 = 144;

/// Bytes that wait for compaction, in units of what is due at any time, from which on writers
/// are slowed, and at which they stop.
const DEBT_SLOW: u64 = 4;
const DEBT_STOP: u64 = 32;

/// From so much on, merges that have time make way.
const DEBT_HURRY: u64 = 1;

impl Shared {
    /// Waits until a write of this size may be made.
    ///
    /// Writers are slowed to the pace of the last flush when more than half of the sealed
    /// memtables wait (and at least two), and more and more, up to the pace of compaction, as the
    /// debt grows from [`DEBT_SLOW`] to [`DEBT_STOP`]. They stop when all sealed memtables wait
    /// and the active one is full, until one is flushed, and beyond [`DEBT_STOP`].
    ///
    /// # Errors
    ///
    /// [`Error::Stalled`] when flushing or compacting fails, so that waiting would not help.
    pub(crate) fn make_room(&self, bytes: u64) -> Result<()> {
        let sealed = self.sealed_count.load(Ordering::Relaxed);
        if sealed >= self.options.sealed_memtables_max {
            let is_full = self.view.load().active.bytes() >= self.options.memtable_bytes;
            if is_full {
                return self.stop_writer(sealed as u64);
            }
        }
        let debt = self.debt_units();
        if debt >= DEBT_STOP as f64 {
            return self.stop_for_compaction(sealed as u64);
        }
        let (mut ns_per_kib, mut slow) = (0.0, false);
        // The first that waits is no sign of falling behind.
        if sealed >= 2 && sealed * 2 > self.options.sealed_memtables_max {
            slow = true;
            ns_per_kib = self.flush_ns_per_kib.load(Ordering::Relaxed) as f64;
        }
        if debt > DEBT_SLOW as f64 {
            let part = (debt - DEBT_SLOW as f64) / (DEBT_STOP - DEBT_SLOW) as f64;
            let pace = self.compact_ns_per_kib.load(Ordering::Relaxed) as f64;
            slow = true;
            // What comes in is merged about as often as a level is larger than the one above.
            ns_per_kib += part * pace * f64::from(self.options.tree.ratio);
        }
        if slow {
            let owed = ((bytes + WRITE_BYTES) as f64 * ns_per_kib / 1024.0) as u64;
            self.slow_writer(owed, sealed as u64);
        }
        Ok(())
    }

    /// Whether more waits for compaction than one round of merges works off.
    pub(super) fn is_behind(&self) -> bool {
        self.debt_units() >= DEBT_HURRY as f64
    }

    /// The debt, in units of the first level's size, or of the flushed runs that are merged into
    /// it together: about what one round of merges works off.
    fn debt_units(&self) -> f64 {
        if self.options.compaction == Compaction::Manual {
            return 0.0;
        }
        let tree = &self.options.tree;
        let flushed = self
            .options
            .memtable_bytes
            .saturating_mul(tree.level0_runs.into());
        let unit = tree.base_bytes.max(flushed);
        self.debt_bytes.load(Ordering::Relaxed) as f64 / unit as f64
    }

    fn slow_writer(&self, owed_ns: u64, sealed: u64) {
        if self.counters.slowed.fetch_add(1, Ordering::Relaxed) == 0 {
            self.event(EventKind::Slowed { sealed });
        }
        let owed_ns = owed_ns.min(i64::MAX as u64) as i64;
        let owed = self.owed_ns.fetch_add(owed_ns, Ordering::Relaxed) + owed_ns;
        let delay = Duration::from_nanos(owed.max(0) as u64).min(SLOW_MAX);
        if delay < SLOW_MIN {
            return;
        }
        self.owed_ns.store(0, Ordering::Relaxed);
        let started = Instant::now();
        let flushing = lock(&self.flushing);
        // Woken early when a flush ends; the time out is the usual case.
        drop(self.flush_done.wait_timeout(flushing, delay));
        let took = started.elapsed();
        // A wait takes some tens of microseconds more, which are taken off the next.
        let too_long = took.saturating_sub(delay).min(SLOW_MIN);
        let too_long = nanos(too_long) as i64;
        self.owed_ns.fetch_sub(too_long, Ordering::Relaxed);
        Counters::add(&self.counters.slowed_ns, nanos(took));
    }

    fn stop_for_compaction(&self, sealed: u64) -> Result<()> {
        let started = Instant::now();
        if self.counters.stopped.fetch_add(1, Ordering::Relaxed) == 0 {
            self.event(EventKind::Stopped { sealed });
        }
        let mut compacting = lock(&self.compacting);
        let result = loop {
            if let Err(error) = self.check_writable() {
                break Err(error);
            }
            if self.debt_units() < DEBT_STOP as f64 {
                break Ok(());
            }
            if let Some(cause) = &compacting.failure {
                break Err(Error::Stalled {
                    cause: Arc::clone(cause),
                });
            }
            compacting = self
                .compact_done
                .wait(compacting)
                .unwrap_or_else(std::sync::PoisonError::into_inner);
        };
        Counters::add(&self.counters.stopped_ns, nanos(started.elapsed()));
        result
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
