//! A sketch that is read while it is written.

use std::sync::atomic::{AtomicU8, Ordering};

use crate::filter::KeyHash;

use super::{RANK_MAX, REGISTERS, Registers, SPARSE_MAX, Sketch, place};

/// Registers that one thread raises and any number read. Relaxed: a reader sees a sketch of some
/// of the hashes that were added, among them all of which it knows otherwise that they were.
pub(crate) struct AtomicSketch {
    ranks: Box<[AtomicU8]>,
}

impl AtomicSketch {
    pub(crate) fn insert(&self, hash: KeyHash) {
        let (register, rank) = place(hash);
        if let Some(place) = self.ranks.get(usize::from(register))
            && place.load(Ordering::Relaxed) < rank
        {
            place.fetch_max(rank, Ordering::Relaxed);
        }
    }

    /// What was added so far.
    pub(crate) fn load(&self) -> Sketch {
        let mut ranks = Box::new([0; REGISTERS]);
        for (rank, place) in ranks.iter_mut().zip(&self.ranks) {
            *rank = place.load(Ordering::Relaxed).min(RANK_MAX);
        }
        let used = ranks.iter().filter(|rank| **rank > 0).count();
        if used > SPARSE_MAX {
            return Sketch {
                registers: Registers::Dense(ranks),
            };
        }
        let list = (0..).zip(ranks.iter().copied()).filter(|one| one.1 > 0);
        Sketch {
            registers: Registers::Sparse(list.collect()),
        }
    }
}

impl Default for AtomicSketch {
    fn default() -> AtomicSketch {
        AtomicSketch {
            ranks: (0..REGISTERS).map(|_| AtomicU8::new(0)).collect(),
        }
    }
}

impl std::fmt::Debug for AtomicSketch {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("AtomicSketch").finish_non_exhaustive()
    }
}
