//! The sequences at which snapshots read: entries that they see are kept.

use std::collections::BTreeMap;
use std::collections::btree_map::Entry;

use crate::key::Sequence;
use crate::locks::{Mutex, rank};

/// Sequences that snapshots read at, and how many read at each.
#[derive(Debug, Default)]
pub(crate) struct Snapshots(Mutex<BTreeMap<Sequence, usize>, { rank::SNAPSHOTS }>);

impl Snapshots {
    /// Registers a snapshot at the newest visible sequence.
    pub(crate) fn register(&self, visible: impl FnOnce() -> Sequence) -> Sequence {
        // Under the lock, so that a flush either knows this snapshot or began with entries that
        // are all visible to it (every interleaving: `tests/it/interleavings.rs`).
        let mut snapshots = self.0.lock();
        let sequence = visible();
        *snapshots.entry(sequence).or_default() += 1;
        sequence
    }

    /// Ends one that reads at this sequence.
    pub(crate) fn release(&self, sequence: Sequence) {
        if let Entry::Occupied(mut count) = self.0.lock().entry(sequence) {
            *count.get_mut() -= 1;
            if *count.get() == 0 {
                count.remove();
            }
        }
    }

    /// Ascending.
    pub(crate) fn sequences(&self) -> Vec<Sequence> {
        self.0.lock().keys().copied().collect()
    }
}
