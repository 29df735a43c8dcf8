//! A compaction that a user has requested: its turn, its progress and its end.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use crate::bounds::Bounds;
use crate::compaction::Progress;
use crate::error::{Error, Result};
use crate::locks::{Mutex, Signal, rank};
use crate::tree::Tree;

/// A compaction that was requested.
#[derive(Debug)]
pub(crate) struct Request {
    tree: Arc<Tree>,
    bounds: Bounds,
    progress: Arc<Progress>,
    input_bytes: AtomicU64,
    turn: Mutex<Turn, { rank::REQUEST_TURN }>,
    outcome: Mutex<Option<Result<()>>, { rank::REQUEST_OUTCOME }>,
    done: Signal,
}

/// How far a compaction that was requested has come.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Turn {
    Waiting,
    /// A thread has it and will end it.
    Taken,
    /// Cancelled before its turn.
    Over,
}

// For the user.
impl Request {
    pub(crate) fn new(tree: &Arc<Tree>, bounds: Bounds) -> Request {
        Request {
            tree: Arc::clone(tree),
            bounds,
            progress: Arc::default(),
            input_bytes: 0.into(),
            turn: Mutex::new(Turn::Waiting),
            outcome: Mutex::new(None),
            done: Signal::default(),
        }
    }

    /// Waits for the end.
    pub(crate) fn wait(&self) -> Result<()> {
        let mut outcome = self.outcome.lock();
        loop {
            match &*outcome {
                Some(result) => return result.clone(),
                None => outcome = self.done.wait(outcome),
            }
        }
    }

    /// Gives up; nothing is changed. Too late if it has ended.
    pub(crate) fn cancel(&self) {
        self.progress.cancelled.store(true, Ordering::Relaxed);
        let mut turn = self.turn.lock();
        if *turn == Turn::Waiting {
            *turn = Turn::Over;
            self.end(Err(Error::Cancelled));
        }
    }

    /// Bytes of keys and values merged so far, and bytes of the input files.
    pub(crate) fn progress(&self) -> (u64, u64) {
        let read = self.progress.read_bytes.load(Ordering::Relaxed);
        (read, self.input_bytes.load(Ordering::Relaxed))
    }

    /// Whether it has ended, well or not.
    pub(crate) fn is_done(&self) -> bool {
        self.outcome.lock().is_some()
    }
}

// For the threads.
impl Request {
    pub(super) fn tree(&self) -> &Arc<Tree> {
        &self.tree
    }

    pub(super) fn bounds(&self) -> &Bounds {
        &self.bounds
    }

    /// Whether it is the caller's to end from now on, with these bytes of inputs; not if it was
    /// cancelled before. Returns where its progress is noted.
    pub(super) fn begin(&self, input_bytes: u64) -> Option<Arc<Progress>> {
        self.take().then(|| {
            self.input_bytes.store(input_bytes, Ordering::Relaxed);
            Arc::clone(&self.progress)
        })
    }

    fn take(&self) -> bool {
        let mut turn = self.turn.lock();
        let is_mine = *turn == Turn::Waiting;
        if is_mine {
            *turn = Turn::Taken;
        }
        is_mine
    }

    /// Ends it before its turn.
    pub(super) fn refuse(&self, result: Result<()>) {
        if self.take() {
            self.end(result);
        }
    }

    pub(super) fn end(&self, result: Result<()>) {
        *self.outcome.lock() = Some(result);
        self.done.notify_all();
    }
}
