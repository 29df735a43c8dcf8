//! A sketch that is read while it is written.

use std::sync::atomic::{AtomicU8, Ordering};

use crate::KeyHash;

use super::{INDEX_BITS, KeySketch, RANK_MAX, REGISTERS, Registers, place};

/// A [`KeySketch`] that any number of threads add to and read. Relaxed: a reader sees a sketch of
/// some of the hashes that were added, among them all of which it knows otherwise that they were.
///
/// ```
/// use criba_filters::KeyHash;
/// use criba_filters::store::AtomicSketch;
///
/// let keys = AtomicSketch::default();
/// std::thread::scope(|scope| {
///     scope.spawn(|| keys.insert(KeyHash::from("apple")));
///     keys.insert(KeyHash::from("melon"));
/// });
/// assert_eq!(keys.load().estimate().round(), 2.0);
/// ```
pub struct AtomicSketch {
    ranks: Box<[AtomicU8]>,
}

impl AtomicSketch {
    /// Counts a hash; any number of threads may do so at once.
    #[inline]
    pub fn insert(&self, hash: KeyHash) {
        let (register, rank) = place(hash);
        if let Some(place) = self.ranks.get(usize::from(register))
            && place.load(Ordering::Relaxed) < rank
        {
            place.fetch_max(rank, Ordering::Relaxed);
        }
    }

    /// What was added so far.
    pub fn load(&self) -> KeySketch {
        let load = |place: &AtomicU8| place.load(Ordering::Relaxed).min(RANK_MAX);
        KeySketch {
            registers: Registers::from_dense(INDEX_BITS, self.ranks.iter().map(load).collect()),
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
