//! The locks of a store and the one order in which they are taken.
//!
//! A [`Mutex`] carries its rank in its type. A thread that holds a lock takes only locks of a higher
//! rank. Builds with debug assertions, as all tests are, check it at every lock; a release build
//! pays nothing. Readers take none of these locks.

use std::ops::{Deref, DerefMut};
use std::sync::{Condvar, MutexGuard, PoisonError};
use std::time::Duration;

/// The order: whoever holds one of these may take those below it.
pub(crate) mod rank {
    /// One sync of the journals at a time; the others wait for it and share it.
    pub(crate) const SYNC: u8 = 1;
    /// The writer: journal, active memtable, the sequence of the next write.
    pub(crate) const WRITER: u8 = 2;
    /// The journal that comes next.
    pub(crate) const NEXT_JOURNAL: u8 = 3;
    /// The manifest and the numbers of files.
    pub(crate) const CATALOG: u8 = 4;
    /// What the thread that flushes is to do.
    pub(crate) const FLUSHER: u8 = 5;
    /// What the threads that compact are to do.
    pub(crate) const COMPACTOR: u8 = 6;
    /// The trees of all keyspaces.
    pub(crate) const TREES: u8 = 7;
    /// Starting background threads.
    pub(crate) const THREADS: u8 = 8;
    /// Replacing the view of a tree.
    pub(crate) const VIEW: u8 = 9;
    /// The sequences that snapshots read at.
    pub(crate) const SNAPSHOTS: u8 = 10;
    /// Gaps between entries, and the puts that cut them.
    pub(crate) const GAPS: u8 = 11;
    /// When there was work last.
    pub(crate) const WORK_TIMES: u8 = 12;
    /// Whose turn a requested compaction has, then how it ended.
    pub(crate) const REQUEST_TURN: u8 = 13;
    pub(crate) const REQUEST_OUTCOME: u8 = 14;
    /// The parts of a merge that have ended.
    pub(crate) const MERGE_PARTS: u8 = 15;
    /// Recent events.
    pub(crate) const EVENTS: u8 = 16;
    /// What was put aside to be dropped.
    pub(crate) const REMAINS: u8 = 17;
}

/// A mutex of this rank. It survives a panic of another holder: the state behind each of them is
/// changed in single steps, so it is whole.
#[derive(Debug, Default)]
pub(crate) struct Mutex<T, const RANK: u8>(std::sync::Mutex<T>);

/// A lock that is held.
#[derive(Debug)]
pub(crate) struct Guard<'a, T, const RANK: u8> {
    inner: MutexGuard<'a, T>,
    held: Held<RANK>,
}

impl<T, const RANK: u8> Mutex<T, RANK> {
    pub(crate) fn new(state: T) -> Mutex<T, RANK> {
        Mutex(std::sync::Mutex::new(state))
    }

    /// Waits for the lock.
    ///
    /// # Panics
    ///
    /// With debug assertions, if this thread holds a lock of the same rank or a higher one.
    #[inline]
    pub(crate) fn lock(&self) -> Guard<'_, T, RANK> {
        let held = Held::note();
        Guard {
            inner: self.0.lock().unwrap_or_else(PoisonError::into_inner),
            held,
        }
    }
}

impl<T, const RANK: u8> Deref for Guard<'_, T, RANK> {
    type Target = T;

    #[inline]
    fn deref(&self) -> &T {
        &self.inner
    }
}

impl<T, const RANK: u8> DerefMut for Guard<'_, T, RANK> {
    #[inline]
    fn deref_mut(&mut self) -> &mut T {
        &mut self.inner
    }
}

/// Wakes threads that wait for a change of what a lock protects.
#[derive(Debug, Default)]
pub(crate) struct Signal(Condvar);

impl Signal {
    pub(crate) fn notify_one(&self) {
        self.0.notify_one();
    }

    pub(crate) fn notify_all(&self) {
        self.0.notify_all();
    }

    pub(crate) fn wait<'a, T, const RANK: u8>(
        &self,
        guard: Guard<'a, T, RANK>,
    ) -> Guard<'a, T, RANK> {
        let Guard { inner, held } = guard;
        let inner = self.0.wait(inner).unwrap_or_else(PoisonError::into_inner);
        Guard { inner, held }
    }

    /// Waits for at most this long; says whether the time ran out.
    pub(crate) fn wait_for<'a, T, const RANK: u8>(
        &self,
        guard: Guard<'a, T, RANK>,
        time: Duration,
    ) -> (Guard<'a, T, RANK>, bool) {
        let Guard { inner, held } = guard;
        let waited = self.0.wait_timeout(inner, time);
        let (inner, timeout) = waited.unwrap_or_else(PoisonError::into_inner);
        (Guard { inner, held }, timeout.timed_out())
    }
}

/// This thread holds a lock of this rank.
#[derive(Debug)]
struct Held<const RANK: u8>;

#[cfg(debug_assertions)]
thread_local! {
    /// A bit for each rank that this thread holds.
    static HELD: std::cell::Cell<u32> = const { std::cell::Cell::new(0) };
}

impl<const RANK: u8> Held<RANK> {
    #[inline]
    fn note() -> Held<RANK> {
        #[cfg(debug_assertions)]
        {
            let held = HELD.get();
            assert!(
                held >> RANK == 0,
                "a lock of rank {RANK} is taken by a thread that holds ranks {held:#b}"
            );
            HELD.set(held | 1 << RANK);
        }
        Held
    }
}

#[cfg(debug_assertions)]
impl<const RANK: u8> Drop for Held<RANK> {
    fn drop(&mut self) {
        HELD.set(HELD.get() & !(1 << RANK));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn locks_are_taken_in_their_order() {
        let (low, high) = (Mutex::<_, 3>::new(1), Mutex::<_, 4>::new(2));
        for _ in 0..2 {
            let one = low.lock();
            assert_eq!(*one + *high.lock(), 3);
        }
        // In any order, one after the other.
        drop(high.lock());
        drop(low.lock());
    }

    #[test]
    #[cfg(debug_assertions)]
    fn another_order_panics() {
        let violate = || {
            let (low, high) = (Mutex::<_, 3>::new(()), Mutex::<_, 4>::new(()));
            let held = high.lock();
            drop(low.lock());
            drop(held);
        };
        assert!(std::panic::catch_unwind(violate).is_err());
        let twice = || {
            let (one, other) = (Mutex::<_, 3>::new(()), Mutex::<_, 3>::new(()));
            let held = one.lock();
            drop(other.lock());
            drop(held);
        };
        assert!(std::panic::catch_unwind(twice).is_err());
        // What a panic has unwound is not held any more.
        drop(Mutex::<_, 1>::new(()).lock());
    }

    #[test]
    fn a_wait_gives_the_lock_back() {
        let (state, signal) = (Mutex::<_, 3>::new(7), Signal::default());
        let (guard, timed_out) = signal.wait_for(state.lock(), Duration::from_millis(1));
        assert!(timed_out);
        assert_eq!(*guard, 7);
    }
}
