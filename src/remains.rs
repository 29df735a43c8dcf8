//! Drops what takes long to drop, on a thread of its own.
//!
//! To let go of a file of 64 MiB takes the system milliseconds, and so do maps and large pieces of
//! memory. Readers and writers that happen to be the last to hold such a thing put it aside here.

use std::collections::VecDeque;
use std::fmt;
use std::sync::Arc;

use crate::locks::{Mutex, Signal, rank};

/// Things that wait to be dropped. The thread is there as long as there are any.
pub(crate) struct Remains<T>(Arc<Inner<T>>);

struct Inner<T> {
    state: Mutex<State<T>, { rank::REMAINS }>,
    ended: Signal,
}

struct State<T> {
    waiting: VecDeque<T>,
    is_running: bool,
}

impl<T> Default for Remains<T> {
    fn default() -> Self {
        Remains(Arc::new(Inner {
            state: Mutex::new(State {
                waiting: VecDeque::new(),
                is_running: false,
            }),
            ended: Signal::default(),
        }))
    }
}

impl<T> Clone for Remains<T> {
    fn clone(&self) -> Self {
        Remains(Arc::clone(&self.0))
    }
}

impl<T> fmt::Debug for Remains<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Remains").finish_non_exhaustive()
    }
}

impl<T: Send + 'static> Remains<T> {
    /// Puts a thing aside. Where no thread can be started it is dropped at once.
    pub(crate) fn add(&self, thing: T) {
        let mut state = self.0.state.lock();
        state.waiting.push_back(thing);
        if state.is_running {
            return;
        }
        state.is_running = true;
        drop(state);
        let inner = Arc::clone(&self.0);
        let thread = std::thread::Builder::new().name("criba-drop".to_owned());
        if thread.spawn(move || inner.run()).is_err() {
            self.0.run();
        }
    }

    /// Waits until none is left.
    pub(crate) fn finish(&self) {
        let mut state = self.0.state.lock();
        while state.is_running {
            state = self.0.ended.wait(state);
        }
    }
}

impl<T> Inner<T> {
    fn run(&self) {
        while let Some(thing) = self.next() {
            drop(thing);
        }
    }

    fn next(&self) -> Option<T> {
        let mut state = self.state.lock();
        let next = state.waiting.pop_front();
        if next.is_none() {
            state.is_running = false;
            self.ended.notify_all();
        }
        next
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicUsize, Ordering};

    use super::*;

    struct Counted(Arc<AtomicUsize>);

    impl Drop for Counted {
        fn drop(&mut self) {
            assert_eq!(std::thread::current().name(), Some("criba-drop"));
            self.0.fetch_add(1, Ordering::Relaxed);
        }
    }

    #[test]
    fn all_are_dropped_in_the_end_and_not_by_this_thread() {
        let (remains, dropped) = (Remains::default(), Arc::new(AtomicUsize::new(0)));
        for round in 1..20 {
            for _ in 0..10 {
                remains.add(Counted(Arc::clone(&dropped)));
            }
            remains.finish();
            assert_eq!(dropped.load(Ordering::Relaxed), 10 * round);
        }
        remains.finish();
    }
}
