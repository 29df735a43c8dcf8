//! What the thread that flushes is to do, and those who wait for it.

use std::sync::Arc;
use std::time::Duration;

use crate::arena::Spares;
use crate::error::{Error, Result};
use crate::journal;
use crate::locks::{Guard, Mutex, Signal, rank};
use crate::services::Wake;
use crate::tree::Sealed;

/// Time between attempts while flushing fails.
const RETRY: Duration = Duration::from_secs(1);

/// How long memory of memtables is kept for the next one after a flush.
const KEEP_SPARES: Duration = Duration::from_secs(1);

/// The queue of the thread that flushes.
#[derive(Debug)]
pub(super) struct Flusher {
    state: Mutex<State, { rank::FLUSHER }>,
    /// A memtable was sealed, or the thread shall stop.
    work: Signal,
    /// A flush ended, well or not.
    done: Signal,
    /// Memory of memtables that were flushed.
    spares: Arc<Spares>,
}

#[derive(Debug, Default)]
struct State {
    /// The thread shall end.
    stop: bool,
    /// The next journal shall be made ready.
    wants_journal: bool,
    /// Journals that are not written any more, to be put away.
    sealed_journals: Vec<journal::Writer>,
    /// The last attempt failed; cleared by the next that succeeds.
    failure: Option<Arc<Error>>,
    /// Attempts that failed, ever.
    failures: u64,
}

/// What the thread does next.
pub(super) enum Task {
    /// Make the next journal ready, and put these away.
    MakeJournal(Vec<journal::Writer>),
    Flush(Arc<Sealed>),
    End,
}

impl Flusher {
    pub(super) fn new(memtable_bytes: u64) -> Flusher {
        Flusher {
            state: Mutex::default(),
            work: Signal::default(),
            done: Signal::default(),
            spares: Arc::new(Spares::of_bytes(memtable_bytes)),
        }
    }

    /// Memory for the next memtables.
    pub(super) fn spares(&self) -> &Arc<Spares> {
        &self.spares
    }

    /// A memtable was sealed.
    pub(super) fn notify(&self) {
        drop(self.state.lock());
        self.work.notify_one();
    }

    /// Has the next journal made ready, and a sealed one put away.
    pub(super) fn request_journal(&self, sealed: Option<journal::Writer>) {
        let mut state = self.state.lock();
        state.wants_journal = true;
        state.sealed_journals.extend(sealed);
        drop(state);
        self.work.notify_one();
    }

    /// The thread ends when nothing is left to flush.
    pub(super) fn stop(&self) {
        self.state.lock().stop = true;
        self.work.notify_all();
        self.done.notify_all();
    }

    /// Closes the journals that nobody has put away, once the thread has ended.
    pub(super) fn close_sealed_journals(&self) {
        self.state.lock().sealed_journals.clear();
    }

    /// Waits for the next task; `oldest` is the memtable that is flushed next, if any may be.
    pub(super) fn next_task(&self, oldest: impl Fn() -> Option<Arc<Sealed>>) -> Task {
        let mut state = self.state.lock();
        loop {
            if state.wants_journal && !state.stop {
                state.wants_journal = false;
                return Task::MakeJournal(std::mem::take(&mut state.sealed_journals));
            }
            if let Some(sealed) = oldest() {
                return Task::Flush(sealed);
            }
            if state.stop {
                return Task::End;
            }
            state = self.wait_for_work(state);
        }
    }

    /// Waits to be notified of work. When none comes, memory that was kept for more goes back.
    fn wait_for_work<'a>(
        &'a self,
        state: Guard<'a, State, { rank::FLUSHER }>,
    ) -> Guard<'a, State, { rank::FLUSHER }> {
        if self.spares.is_empty() {
            return self.work.wait(state);
        }
        let (state, timed_out) = self.work.wait_for(state, KEEP_SPARES);
        if !timed_out {
            return state;
        }
        // Not under the lock: a writer may want it.
        drop(state);
        self.spares.clear();
        self.state.lock()
    }

    /// A flush has ended. After a failure, waits until it is to be tried again. Returns whether the
    /// thread goes on.
    pub(super) fn flushed(&self, result: Result<()>) -> bool {
        let mut state = self.state.lock();
        state.failure = result.err().map(Arc::new);
        let has_failed = state.failure.is_some();
        state.failures += u64::from(has_failed);
        self.done.notify_all();
        if !has_failed {
            return true;
        }
        if state.stop {
            return false;
        }
        drop(self.work.wait_for(state, RETRY));
        true
    }

    /// Waits until `is_over` says so. Gives up when a flush fails meanwhile.
    ///
    /// # Errors
    ///
    /// What `is_over` gives; the failure of the flush.
    pub(super) fn wait_for_flush(&self, is_over: impl Fn() -> Result<bool>) -> Result<()> {
        let mut state = self.state.lock();
        let failures = state.failures;
        self.work.notify_one();
        while !is_over()? {
            if state.failures > failures
                && let Some(cause) = &state.failure
            {
                return Err(Error::clone(cause));
            }
            state = self.done.wait(state);
        }
        Ok(())
    }

    /// Waits until `is_over` says so, for a writer that has no room.
    ///
    /// # Errors
    ///
    /// What `is_over` gives; [`Error::Stalled`] while flushing fails.
    pub(super) fn wait_for_room(&self, is_over: impl Fn() -> Result<bool>) -> Result<()> {
        let mut state = self.state.lock();
        while !is_over()? {
            if let Some(cause) = &state.failure {
                return Err(Error::Stalled {
                    cause: Arc::clone(cause),
                });
            }
            state = self.done.wait(state);
        }
        Ok(())
    }

    /// Waits for this long, or until a flush ends.
    pub(super) fn wait_a_while(&self, time: Duration) {
        drop(self.done.wait_for(self.state.lock(), time));
    }
}

impl Wake for Flusher {
    fn wake_all(&self) {
        drop(self.state.lock());
        self.done.notify_all();
        self.work.notify_all();
    }
}
