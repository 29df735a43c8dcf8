//! A compaction that a user asks for: what it merges, and how one waits for it or cancels it.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Condvar, Mutex};

use crate::bounds::Bounds;
use crate::compaction::{Plan, Progress, Target};
use crate::error::{Error, Result};
use crate::origin::Origin;
use crate::segment::Segment;
use crate::version::{Run, Version};

use super::shared::lock;

/// A compaction that was asked for.
#[derive(Debug)]
pub(crate) struct Asked {
    pub(super) bounds: Bounds,
    pub(super) progress: Arc<Progress>,
    pub(super) input_bytes: AtomicU64,
    turn: Mutex<Turn>,
    outcome: Mutex<Option<Result<()>>>,
    done: Condvar,
}

/// How far a compaction that was asked for has come.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Turn {
    Waiting,
    /// A thread has it and will end it.
    Taken,
    /// Cancelled before its turn.
    Over,
}

/// A compaction under way: see [`Db::compact`](crate::Db::compact).
///
/// Dropped, the compaction goes on.
#[derive(Debug, Clone)]
pub struct CompactionJob {
    pub(super) asked: Arc<Asked>,
    pub(super) origin: Origin,
}

impl CompactionJob {
    /// Waits for the end.
    ///
    /// # Errors
    ///
    /// Why it failed; [`Error::Cancelled`] after [`CompactionJob::cancel`] or a close;
    /// [`Error::Forked`] in a forked child, where nothing is compacted.
    pub fn wait(&self) -> Result<()> {
        self.origin.check()?;
        let mut outcome = lock(&self.asked.outcome);
        loop {
            match &*outcome {
                Some(result) => return result.clone(),
                None => {
                    outcome = self
                        .asked
                        .done
                        .wait(outcome)
                        .unwrap_or_else(std::sync::PoisonError::into_inner);
                }
            }
        }
    }

    /// Gives up; nothing is changed. Too late if it has ended. In a forked child it does nothing.
    pub fn cancel(&self) {
        if self.origin.is_elsewhere() {
            return;
        }
        self.asked.progress.cancelled.store(true, Ordering::Relaxed);
        let mut turn = lock(&self.asked.turn);
        if *turn == Turn::Waiting {
            *turn = Turn::Over;
            self.asked.end(Err(Error::Cancelled));
        }
    }

    /// Bytes of keys and values merged so far, and bytes of the input files; both 0 while it
    /// waits for its turn.
    pub fn progress(&self) -> (u64, u64) {
        let read = self.asked.progress.read_bytes.load(Ordering::Relaxed);
        (read, self.asked.input_bytes.load(Ordering::Relaxed))
    }

    /// Whether it has ended, well or not. In a forked child it has.
    pub fn is_done(&self) -> bool {
        self.origin.is_elsewhere() || lock(&self.asked.outcome).is_some()
    }
}

impl Asked {
    pub(super) fn new(bounds: Bounds) -> Asked {
        Asked {
            bounds,
            progress: Arc::default(),
            input_bytes: 0.into(),
            turn: Mutex::new(Turn::Waiting),
            outcome: Mutex::new(None),
            done: Condvar::new(),
        }
    }

    /// Whether it is the caller's to end from now on; not if it was cancelled before.
    pub(super) fn take(&self) -> bool {
        let mut turn = lock(&self.turn);
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
        *lock(&self.outcome) = Some(result);
        self.done.notify_all();
    }
}

/// What it takes to carry out what was asked for.
pub(super) struct Asking {
    pub(super) plan: Plan,
    pub(super) input_bytes: u64,
    /// First and last key of the inputs of a merge.
    pub(super) range: Option<(Vec<u8>, Vec<u8>)>,
}

/// Merges all that overlaps a range, and all that is older and overlaps that, into the last
/// level. `None` when there is nothing to merge.
pub(super) fn plan_range(version: &Version, bounds: &Bounds) -> Option<Asking> {
    let mut range: Option<(Vec<u8>, Vec<u8>)> = None;
    let mut inputs: Vec<&Arc<Segment>> = Vec::new();
    for run in version.runs() {
        for segment in run.segments.iter() {
            let meta = &segment.meta;
            let asked = segment.overlaps(bounds);
            let overlaps = range
                .as_ref()
                .is_some_and(|(first, last)| meta.first_key <= *last && *first <= meta.last_key);
            if asked || overlaps {
                inputs.push(segment);
            }
        }
        // What is older and overlaps what is taken must come along.
        let first = inputs.iter().map(|one| &one.meta.first_key).min();
        let last = inputs.iter().map(|one| &one.meta.last_key).max();
        range = first.cloned().zip(last.cloned());
    }
    let last_level = version.runs().last()?.level.max(1);
    let at_last: Vec<&Run> = version
        .runs()
        .iter()
        .filter(|run| run.level == last_level)
        .collect();
    let is_settled = inputs.iter().all(|one| {
        let counts = one.counts();
        let is_lean = counts.tombstones == 0 && counts.entries == counts.keys;
        one.meta.level == last_level && at_last.len() == 1 && is_lean
    });
    if inputs.is_empty() || is_settled {
        return None;
    }
    // What overlaps an input and is not taken is newer: the output is older than all of that.
    let target = at_last
        .last()
        .map_or(Target::NewRun, |run| Target::Join(run.number));
    let plan = Plan::Merge {
        inputs: inputs.iter().map(|one| one.meta.id).collect(),
        level: last_level,
        target,
    };
    Some(Asking {
        plan,
        input_bytes: inputs.iter().map(|one| one.meta.file_len).sum(),
        range,
    })
}
