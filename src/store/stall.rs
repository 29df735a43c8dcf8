//! Holds writers back when flushing or compacting falls behind, gently first, so that memory and
//! the number of runs stay bounded.

use std::time::Instant;

use crate::compaction::{self, RunFacts};
use crate::error::Result;
use crate::options::Compaction;
use crate::services::{EventKind, Tally, nanos};
use crate::tree::Tree;

use super::state::Store;

/// Charged to a write beside its bytes, as its entries are charged to the memtable.
const WRITE_BYTES: u64 = 144;

/// Bytes that wait for compaction, in units of what is due at any time, from which on writers
/// are slowed, and at which they stop.
const DEBT_SLOW: u64 = 4;
const DEBT_STOP: u64 = 32;

/// Debt from which on merges that have time make way, in the same units.
const DEBT_HURRY: u64 = 1;

impl Store {
    /// Waits until a write of this size may be made.
    ///
    /// Writers are slowed to the pace of the last flush when more than half of the sealed
    /// memtables wait (and at least two), and more and more, up to the pace of compaction, as the
    /// debt grows from [`DEBT_SLOW`] to [`DEBT_STOP`]. They stop when all sealed memtables wait
    /// and the active one is full, until one is flushed, and beyond [`DEBT_STOP`].
    ///
    /// # Errors
    ///
    /// [`Error::Stalled`](crate::Error::Stalled) when flushing or compacting fails, so that waiting
    /// would not help.
    pub(super) fn make_room(&self, bytes: u64) -> Result<()> {
        let sealed = self.flusher().waiting();
        if sealed >= self.options().sealed_memtables_max {
            let is_full = self.log().active_bytes() >= self.options().memtable_bytes;
            if is_full {
                return self.stop_for_flush(sealed as u64);
            }
        }
        let debt = self.debt_units();
        if debt >= DEBT_STOP as f64 {
            return self.stop_for_compaction(sealed as u64);
        }
        let (mut ns_per_kib, mut slow) = (0.0, false);
        // The first that waits is no sign of falling behind.
        if sealed >= 2 && sealed * 2 > self.options().sealed_memtables_max {
            slow = true;
            ns_per_kib = self.services().flush_pace.ns_per_kib();
        }
        if debt > DEBT_SLOW as f64 {
            let part = (debt - DEBT_SLOW as f64) / (DEBT_STOP - DEBT_SLOW) as f64;
            let pace = self.services().merge_pace.ns_per_kib();
            slow = true;
            // What comes in is merged about as often as a level is larger than the one above.
            ns_per_kib += part * pace * f64::from(self.options().tree.shape.ratio);
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
        if self.options().compaction == Compaction::Manual {
            return 0.0;
        }
        self.compactor().debt_units()
    }

    /// The debt of one keyspace, in bytes and in these units.
    pub(super) fn debt_of(&self, tree: &Tree, facts: &[RunFacts]) -> (u64, f64) {
        let shape = &tree.options().shape;
        let bytes = compaction::debt_bytes(facts, shape);
        let flushed = self.options().memtable_bytes;
        let flushed = flushed.saturating_mul(shape.level0_runs.into());
        (bytes, bytes as f64 / shape.base_bytes.max(flushed) as f64)
    }

    fn slow_writer(&self, owed_ns: u64, sealed: u64) {
        let monitor = self.monitor();
        if monitor.count(Tally::Slowed, 1) == 0 {
            monitor.event(EventKind::Slowed { sealed });
        }
        let Some(delay) = self.pacer().owe(owed_ns) else {
            return;
        };
        let started = Instant::now();
        // Woken early when a flush ends; the time out is the usual case.
        self.flusher().wait_a_while(delay);
        let took = started.elapsed();
        self.pacer().waited(delay, took);
        monitor.count(Tally::SlowedNs, nanos(took));
    }

    fn stop_for_compaction(&self, sealed: u64) -> Result<()> {
        self.stop_writer(sealed, || {
            self.compactor().wait_for_room(|| {
                self.monitor().check_writable()?;
                Ok(self.debt_units() < DEBT_STOP as f64)
            })
        })
    }

    fn stop_for_flush(&self, sealed: u64) -> Result<()> {
        self.stop_writer(sealed, || {
            let max = self.options().sealed_memtables_max;
            let check = || self.monitor().check_writable();
            self.flusher().wait_for_room(max, check)
        })
    }

    fn stop_writer(&self, sealed: u64, wait: impl FnOnce() -> Result<()>) -> Result<()> {
        let monitor = self.monitor();
        let started = Instant::now();
        if monitor.count(Tally::Stopped, 1) == 0 {
            monitor.event(EventKind::Stopped { sealed });
        }
        let result = wait();
        monitor.count(Tally::StoppedNs, nanos(started.elapsed()));
        result
    }
}
