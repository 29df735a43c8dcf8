//! What point lookups met in a segment, counted over its whole life.

use std::sync::atomic::{AtomicU64, Ordering};

use crate::format::manifest::Traffic;
use crate::sharded_counter::ShardedCounter;

use super::outcome::LookupCost;

/// What is counted of a lookup, in the order of [`ShardedCounter::sums`].
const NEGATIVES: usize = 0;
const TRUE_POSITIVES: usize = 1;
const FALSE_POSITIVES: usize = 2;
const BLOCK_READS: usize = 3;
const BLOCK_BYTES: usize = 4;

/// Counters of a segment. Relaxed: they are only ever added up.
#[derive(Debug)]
pub(crate) struct Counters {
    outcomes: ShardedCounter<5>,
    /// Lookups in the runs of the store in earlier sessions, while the segment was live.
    lookups_before: AtomicU64,
    /// Lookups of this session before the segment was live; `u64::MAX` while unknown.
    since: AtomicU64,
}

impl Default for Counters {
    fn default() -> Counters {
        Counters {
            outcomes: ShardedCounter::default(),
            lookups_before: AtomicU64::new(0),
            since: AtomicU64::new(u64::MAX),
        }
    }
}

impl Counters {
    /// A lookup has come to its end here.
    #[inline]
    pub(super) fn count(&self, is_hit: bool, cost: &LookupCost) {
        let outcome = match (is_hit, cost.data_blocks) {
            (true, _) => TRUE_POSITIVES,
            (false, 0) => NEGATIVES,
            (false, _) => FALSE_POSITIVES,
        };
        let counters = self.outcomes.mine();
        counters.add(outcome, 1);
        if cost.block_reads > 0 {
            counters.add(BLOCK_READS, cost.block_reads);
            counters.add(BLOCK_BYTES, cost.block_bytes);
        }
    }

    /// All that was counted; `now` is the number of lookups of this session so far.
    pub(super) fn load(&self, now: u64) -> Traffic {
        let [
            negatives,
            true_positives,
            false_positives,
            block_reads,
            block_bytes,
        ] = self.outcomes.sums();
        let here = now.saturating_sub(self.since.load(Ordering::Relaxed));
        let before = self.lookups_before.load(Ordering::Relaxed);
        Traffic {
            probes: negatives
                .saturating_add(true_positives)
                .saturating_add(false_positives),
            negatives,
            true_positives,
            false_positives,
            block_reads,
            block_bytes,
            lookups: before.saturating_add(here),
        }
    }

    /// Counting begins with what earlier sessions have counted, `now` being the number of lookups
    /// of this session so far.
    pub(super) fn begin(&self, earlier: &Traffic, now: u64) {
        self.outcomes.set([
            earlier.negatives,
            earlier.true_positives,
            earlier.false_positives,
            earlier.block_reads,
            earlier.block_bytes,
        ]);
        self.lookups_before
            .store(earlier.lookups, Ordering::Relaxed);
        self.since.store(now, Ordering::Relaxed);
    }
}
