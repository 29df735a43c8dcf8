//! What the thread that flushes is to do, and those who wait for it.

use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use crate::arena::Spares;
use crate::error::{Error, Result};
use crate::journal;
use crate::key::Sequence;
use crate::locks::{Guard, Mutex, Signal, rank};
use crate::services::Wake;

use super::generation::Generation;

/// Time between attempts while flushing fails.
const RETRY: Duration = Duration::from_secs(1);

/// How long memory of memtables is kept for the next one after a flush.
const KEEP_SPARES: Duration = Duration::from_secs(1);

/// The queue of the thread that flushes.
#[derive(Debug)]
pub(super) struct Flusher {
    state: Mutex<State, { rank::FLUSHER }>,
    /// Generations that wait to be flushed.
    waiting: AtomicUsize,
    /// Memtables were sealed, or the thread shall stop.
    work: Signal,
    /// A flush ended, well or not.
    done: Signal,
    /// Memory of memtables that were flushed.
    spares: Arc<Spares>,
}

#[derive(Debug, Default)]
struct State {
    /// Sealed memtables, oldest first.
    queue: VecDeque<Arc<Generation>>,
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
    Flush(Arc<Generation>),
    End,
}

impl Flusher {
    pub(super) fn new(memtable_bytes: u64) -> Flusher {
        Flusher {
            state: Mutex::default(),
            waiting: AtomicUsize::new(0),
            work: Signal::default(),
            done: Signal::default(),
            spares: Arc::new(Spares::of_bytes(memtable_bytes)),
        }
    }

    /// Memory for the next memtables.
    pub(super) fn spares(&self) -> &Arc<Spares> {
        &self.spares
    }

    /// Memtables were sealed.
    pub(super) fn push(&self, generation: Generation) {
        let mut state = self.state.lock();
        state.queue.push_back(Arc::new(generation));
        self.waiting.store(state.queue.len(), Ordering::Relaxed);
        drop(state);
        self.work.notify_one();
    }

    /// How many generations of memtables wait.
    #[inline]
    pub(super) fn waiting(&self) -> usize {
        self.waiting.load(Ordering::Relaxed)
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

    /// Waits for the next task. Nothing is flushed unless `may_flush` says so.
    pub(super) fn next_task(&self, may_flush: impl Fn() -> bool) -> Task {
        let mut state = self.state.lock();
        loop {
            if state.wants_journal && !state.stop {
                state.wants_journal = false;
                return Task::MakeJournal(std::mem::take(&mut state.sealed_journals));
            }
            if let Some(oldest) = state.queue.front()
                && may_flush()
            {
                return Task::Flush(Arc::clone(oldest));
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
        if !has_failed {
            state.queue.pop_front();
            self.waiting.store(state.queue.len(), Ordering::Relaxed);
        }
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

    /// Waits until no memtable that waits holds entries up to `target`. Gives up when a flush fails
    /// meanwhile.
    ///
    /// # Errors
    ///
    /// What `check` gives; the failure of the flush.
    pub(super) fn wait_for_flush(
        &self,
        target: Sequence,
        check: impl Fn() -> Result<()>,
    ) -> Result<()> {
        let mut state = self.state.lock();
        let failures = state.failures;
        self.work.notify_one();
        while state.queue.iter().any(|one| one.first <= target) {
            check()?;
            if state.failures > failures
                && let Some(cause) = &state.failure
            {
                return Err(Error::clone(cause));
            }
            state = self.done.wait(state);
        }
        Ok(())
    }

    /// Waits until fewer generations wait, for a writer that has no room.
    ///
    /// # Errors
    ///
    /// What `check` gives; [`Error::Stalled`] while flushing fails.
    pub(super) fn wait_for_room(&self, max: usize, check: impl Fn() -> Result<()>) -> Result<()> {
        let mut state = self.state.lock();
        while state.queue.len() >= max {
            check()?;
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
