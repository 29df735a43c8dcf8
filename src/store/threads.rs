//! Background threads, each started at the first work for it: a session that only reads a tree of
//! which nothing would be merged while it is idle, or that writes less than half a memtable, has none.

use std::path::PathBuf;
use std::sync::Weak;
use std::thread::JoinHandle;

use crate::error::{Error, Result};
use crate::locks::{Mutex, rank};

/// The threads that work on a store `S`.
#[derive(Debug)]
pub(super) struct Threads<S>(Mutex<State<S>, { rank::THREADS }>);

#[derive(Debug)]
struct State<S> {
    /// What they work on; they keep it alive, and it must not keep itself alive.
    store: Weak<S>,
    /// The directory of the store, for messages.
    path: PathBuf,
    handles: Vec<JoinHandle<()>>,
    flushers: usize,
    compactors: usize,
    /// The store is closing: none is started any more.
    is_over: bool,
}

impl<S: Send + Sync + 'static> Threads<S> {
    pub(super) fn of(store: Weak<S>, path: PathBuf) -> Threads<S> {
        Threads(Mutex::new(State {
            store,
            path,
            handles: Vec::new(),
            flushers: 0,
            compactors: 0,
            is_over: false,
        }))
    }

    /// Starts the thread that flushes, unless it runs.
    pub(super) fn start_flusher(&self, run: fn(&S)) -> Result<()> {
        let mut state = self.0.lock();
        if state.flushers == 0 {
            state.start("criba-flush".to_owned(), run)?;
            state.flushers = 1;
        }
        Ok(())
    }

    /// Starts threads that compact until there are this many.
    pub(super) fn start_compactors(&self, count: usize, run: fn(&S)) -> Result<()> {
        let mut state = self.0.lock();
        while state.compactors < count {
            let name = format!("criba-compact-{}", state.compactors);
            state.start(name, run)?;
            state.compactors += 1;
        }
        Ok(())
    }

    pub(super) fn compactor_count(&self) -> usize {
        self.0.lock().compactors
    }

    /// Starts none from now on, and waits for those that run.
    ///
    /// # Errors
    ///
    /// [`Error::Bug`] if one has panicked.
    pub(super) fn end(&self) -> Result<()> {
        let mut state = self.0.lock();
        state.is_over = true;
        let handles = std::mem::take(&mut state.handles);
        drop(state);
        if handles.into_iter().any(|thread| thread.join().is_err()) {
            let what = "a background thread panicked".to_owned();
            return Err(Error::Bug { what });
        }
        Ok(())
    }

    /// How many background threads were started.
    #[cfg(test)]
    pub(super) fn started(&self) -> usize {
        let state = self.0.lock();
        state.flushers + state.compactors
    }
}

impl<S: Send + Sync + 'static> State<S> {
    fn start(&mut self, name: String, run: fn(&S)) -> Result<()> {
        let Some(store) = self.store.upgrade().filter(|_| !self.is_over) else {
            return Err(Error::Closed);
        };
        let handle = std::thread::Builder::new()
            .name(name)
            .spawn(move || run(&store))
            .map_err(|error| Error::io(self.path.clone(), error))?;
        self.handles.push(handle);
        Ok(())
    }
}
