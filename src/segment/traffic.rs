//! What point lookups met in a segment, counted over its whole life.

use std::sync::atomic::{AtomicU64, Ordering};

use crate::format::manifest::Traffic;

use super::reader::{Probe, Segment};

/// Counters of a segment. Relaxed: they are only ever added up.
#[derive(Debug)]
pub(crate) struct Counters {
    probes: AtomicU64,
    negatives: AtomicU64,
    true_positives: AtomicU64,
    false_positives: AtomicU64,
    block_reads: AtomicU64,
    block_bytes: AtomicU64,
    /// Lookups in the runs of the store in earlier sessions, while the segment was live.
    lookups_before: AtomicU64,
    /// Lookups of this session before the segment was live; `u64::MAX` while unknown.
    since: AtomicU64,
}

impl Default for Counters {
    fn default() -> Counters {
        Counters {
            probes: AtomicU64::new(0),
            negatives: AtomicU64::new(0),
            true_positives: AtomicU64::new(0),
            false_positives: AtomicU64::new(0),
            block_reads: AtomicU64::new(0),
            block_bytes: AtomicU64::new(0),
            lookups_before: AtomicU64::new(0),
            since: AtomicU64::new(u64::MAX),
        }
    }
}

impl Counters {
    /// A lookup has come to its end here.
    pub(super) fn count(&self, is_hit: bool, probe: &Probe) {
        let outcome = match (is_hit, probe.data_blocks) {
            (true, _) => &self.true_positives,
            (false, 0) => &self.negatives,
            (false, _) => &self.false_positives,
        };
        self.probes.fetch_add(1, Ordering::Relaxed);
        outcome.fetch_add(1, Ordering::Relaxed);
        if probe.block_reads > 0 {
            self.block_reads
                .fetch_add(probe.block_reads, Ordering::Relaxed);
            self.block_bytes
                .fetch_add(probe.block_bytes, Ordering::Relaxed);
        }
    }

    /// All that was counted; `now` is the number of lookups of this session so far.
    pub(super) fn load(&self, now: u64) -> Traffic {
        let load = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        let here = now.saturating_sub(load(&self.since));
        Traffic {
            probes: load(&self.probes),
            negatives: load(&self.negatives),
            true_positives: load(&self.true_positives),
            false_positives: load(&self.false_positives),
            block_reads: load(&self.block_reads),
            block_bytes: load(&self.block_bytes),
            lookups: load(&self.lookups_before).saturating_add(here),
        }
    }
}

impl Segment {
    /// The segment is live from now on, `now` being the number of lookups of this session so
    /// far; this was counted in earlier sessions.
    pub(crate) fn count_from(&self, earlier: &Traffic, now: u64) {
        let Ok(body) = self.body() else { return };
        let counters = &body.counters;
        for (counter, value) in [
            (&counters.probes, earlier.probes),
            (&counters.negatives, earlier.negatives),
            (&counters.true_positives, earlier.true_positives),
            (&counters.false_positives, earlier.false_positives),
            (&counters.block_reads, earlier.block_reads),
            (&counters.block_bytes, earlier.block_bytes),
            (&counters.lookups_before, earlier.lookups),
            (&counters.since, now),
        ] {
            counter.store(value, Ordering::Relaxed);
        }
    }

    /// What lookups met here in all sessions; `None` when the segment is damaged.
    pub(crate) fn traffic(&self, now: u64) -> Option<Traffic> {
        Some(self.body().ok()?.counters.load(now))
    }
}
