//! The sequences at which snapshots and transactions read: entries that they see are kept.

use std::collections::BTreeMap;
use std::collections::btree_map::Entry;
use std::time::{Duration, Instant};

use crate::key::Sequence;
use crate::locks::{Mutex, rank};

/// Sequences that are read at, and how many read at each.
#[derive(Debug, Default)]
pub(crate) struct Snapshots(Mutex<BTreeMap<Sequence, Registered>, { rank::SNAPSHOTS }>);

/// Whoever reads at a sequence.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Reader {
    Snapshot,
    Transaction,
}

/// The readers at one sequence.
#[derive(Debug)]
struct Registered {
    snapshots: u64,
    transactions: u64,
    /// When the first of them came.
    since: Instant,
}

impl Registered {
    fn count(&mut self, reader: Reader) -> &mut u64 {
        match reader {
            Reader::Snapshot => &mut self.snapshots,
            Reader::Transaction => &mut self.transactions,
        }
    }
}

/// All that are registered now.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(crate) struct Census {
    pub(crate) snapshots: u64,
    pub(crate) transactions: u64,
    /// The least sequence that is read at, and how long it has been.
    pub(crate) oldest: Option<(Sequence, Duration)>,
}

impl Snapshots {
    /// Registers a reader at the newest visible sequence.
    pub(crate) fn register(&self, reader: Reader, visible: impl FnOnce() -> Sequence) -> Sequence {
        // Under the lock, so that a flush either knows this snapshot or began with entries that
        // are all visible to it (every interleaving: `tests/it/interleavings.rs`).
        let mut snapshots = self.0.lock();
        let sequence = visible();
        let registered = snapshots.entry(sequence).or_insert_with(|| Registered {
            snapshots: 0,
            transactions: 0,
            since: Instant::now(),
        });
        *registered.count(reader) += 1;
        sequence
    }

    /// Ends one that reads at this sequence.
    pub(crate) fn release(&self, reader: Reader, sequence: Sequence) {
        if let Entry::Occupied(mut registered) = self.0.lock().entry(sequence) {
            *registered.get_mut().count(reader) -= 1;
            let Registered {
                snapshots,
                transactions,
                ..
            } = registered.get();
            if snapshots + transactions == 0 {
                registered.remove();
            }
        }
    }

    /// Ascending.
    pub(crate) fn sequences(&self) -> Vec<Sequence> {
        self.0.lock().keys().copied().collect()
    }

    pub(crate) fn census(&self) -> Census {
        let snapshots = self.0.lock();
        let oldest = snapshots.first_key_value();
        Census {
            snapshots: snapshots.values().map(|one| one.snapshots).sum(),
            transactions: snapshots.values().map(|one| one.transactions).sum(),
            oldest: oldest.map(|(sequence, one)| (*sequence, one.since.elapsed())),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn readers_at_one_sequence_are_counted_apart_and_let_go_together() {
        let registry = Snapshots::default();
        let at = |reader, sequence| registry.register(reader, || Sequence(sequence));
        at(Reader::Snapshot, 7);
        at(Reader::Transaction, 7);
        at(Reader::Transaction, 9);
        let counts = || {
            let Census {
                snapshots,
                transactions,
                oldest,
            } = registry.census();
            (snapshots, transactions, oldest.map(|(oldest, _)| oldest.0))
        };
        assert_eq!(counts(), (1, 2, Some(7)));
        registry.release(Reader::Snapshot, Sequence(7));
        assert_eq!((counts(), registry.sequences().len()), ((0, 2, Some(7)), 2));
        registry.release(Reader::Transaction, Sequence(7));
        assert_eq!(counts(), (0, 1, Some(9)));
        registry.release(Reader::Transaction, Sequence(9));
        assert_eq!((counts(), registry.sequences()), ((0, 0, None), vec![]));
    }
}
