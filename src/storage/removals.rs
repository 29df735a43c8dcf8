//! Files that are removed by a thread of their own.
//!
//! To remove a file takes the system some milliseconds for each 64 MiB: its pages in memory are let
//! go of, and a device may be told that its blocks are free. Who merges, looks up or drops an
//! iterator has something better to do.

use std::collections::VecDeque;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};

/// Files that wait to be removed. The thread is there as long as there are any.
#[derive(Clone, Debug, Default)]
pub(super) struct Removals(Arc<Inner>);

#[derive(Debug, Default)]
struct Inner {
    state: Mutex<State>,
    ended: Condvar,
}

#[derive(Debug, Default)]
struct State {
    waiting: VecDeque<PathBuf>,
    is_running: bool,
}

impl Removals {
    /// A file that cannot be removed stays. Without a thread it is removed at once.
    pub(super) fn add(&self, path: PathBuf) {
        let mut state = self.0.state();
        state.waiting.push_back(path);
        if state.is_running {
            return;
        }
        state.is_running = true;
        drop(state);
        let inner = Arc::clone(&self.0);
        let thread = std::thread::Builder::new().name("criba-remove".to_owned());
        if thread.spawn(move || inner.run()).is_err() {
            self.0.run();
        }
    }

    /// Waits until none is left.
    pub(super) fn finish(&self) {
        let mut state = self.0.state();
        while state.is_running {
            let waited = self.0.ended.wait(state);
            state = waited.unwrap_or_else(PoisonError::into_inner);
        }
    }
}

impl Inner {
    fn run(&self) {
        while let Some(path) = self.next() {
            remove(&path);
        }
    }

    fn next(&self) -> Option<PathBuf> {
        let mut state = self.state();
        let next = state.waiting.pop_front();
        if next.is_none() {
            state.is_running = false;
            self.ended.notify_all();
        }
        next
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Nobody is there who could be told of an error; whoever opens the store next tries again.
#[expect(clippy::disallowed_methods, reason = "a file of the store")]
fn remove(path: &Path) {
    std::fs::remove_file(path).ok();
}

#[cfg(test)]
#[expect(clippy::disallowed_methods, reason = "of files as they are")]
mod tests {
    use super::*;

    #[test]
    fn all_that_were_added_are_gone_in_the_end() {
        let directory = tempfile::tempdir().unwrap();
        let removals = Removals::default();
        for round in 0..20 {
            let paths: Vec<PathBuf> = (0..10)
                .map(|n| directory.path().join(format!("{round}-{n}")))
                .collect();
            for path in &paths {
                std::fs::write(path, b"bytes").unwrap();
                // One that is not there is passed over.
                removals.add(path.with_extension("missing"));
                removals.add(path.clone());
            }
            removals.finish();
            assert!(paths.iter().all(|path| !path.exists()));
        }
        removals.finish();
    }
}
