//! Compactions: in the background when the tree is out of shape, or when asked for.
//!
//! A plan is made and its inputs are marked busy under the lock of [`Compacting`]; the merge runs
//! without any lock; its result is installed like that of a flush: durably first, then for
//! readers. Input files go when the last reader lets go of them.

use std::collections::{BTreeSet, VecDeque};
use std::ops::Bound;
use std::sync::atomic::Ordering;
use std::sync::{Arc, Condvar, Mutex, MutexGuard};
use std::time::{Duration, Instant};

use crate::compaction::{
    self, FileNumbers, Inputs, Output, Plan, Progress, RunFacts, SegmentFacts, Target,
};
use crate::error::{Error, Result};
use crate::key::Sequence;
use crate::options::{Compaction, FilterPolicy};
use crate::segment::Segment;
use crate::slice::Slice;
use crate::version::{Run, Version};

use super::flush::chain;
use super::shared::{Counters, Shared, View, lock, nanos};
use super::stats::EventKind;

/// Time between attempts while compacting fails.
const RETRY: Duration = Duration::from_secs(1);

/// What the threads that compact share.
#[derive(Debug, Default)]
pub(crate) struct Compacting {
    /// The threads shall end.
    pub(crate) stop: bool,
    /// Segments that an unfinished compaction has as input.
    busy: BTreeSet<u64>,
    /// Compactions that were asked for, oldest first.
    asked: VecDeque<Arc<Asked>>,
    /// The merges under way, to cancel them at close.
    running: Vec<Arc<Progress>>,
    /// The last attempt failed; cleared by the next that succeeds.
    pub(crate) failure: Option<Arc<Error>>,
}

/// A compaction that was asked for.
#[derive(Debug)]
pub(crate) struct Asked {
    bounds: (Bound<Slice>, Bound<Slice>),
    progress: Arc<Progress>,
    input_bytes: std::sync::atomic::AtomicU64,
    outcome: Mutex<Option<Result<()>>>,
    done: Condvar,
}

/// A compaction under way: see [`Db::compact`](crate::Db::compact).
///
/// Dropped, the compaction goes on.
#[derive(Debug, Clone)]
pub struct CompactionJob {
    asked: Arc<Asked>,
}

impl CompactionJob {
    /// Waits for the end.
    ///
    /// # Errors
    ///
    /// Why it failed; [`Error::Cancelled`] after [`CompactionJob::cancel`] or a close.
    pub fn wait(&self) -> Result<()> {
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

    /// Gives up; nothing is changed. Too late if it has ended.
    pub fn cancel(&self) {
        self.asked.progress.cancelled.store(true, Ordering::Relaxed);
    }

    /// Bytes of keys and values merged so far, and bytes of the input files; both 0 while it
    /// waits for its turn.
    pub fn progress(&self) -> (u64, u64) {
        let read = self.asked.progress.read_bytes.load(Ordering::Relaxed);
        (read, self.asked.input_bytes.load(Ordering::Relaxed))
    }

    /// Whether it has ended, well or not.
    pub fn is_done(&self) -> bool {
        lock(&self.asked.outcome).is_some()
    }
}

impl Asked {
    fn end(&self, result: Result<()>) {
        *lock(&self.outcome) = Some(result);
        self.done.notify_all();
    }
}

/// One piece of work.
struct Job {
    plan: Plan,
    inputs: Vec<u64>,
    progress: Arc<Progress>,
    asked: Option<Arc<Asked>>,
}

impl FileNumbers for Shared {
    fn allocate(&self) -> Result<u64> {
        lock(&self.manifest)
            .allocate()
            .map_err(|error| self.poison(error))
    }

    fn give_back(&self, id: u64) {
        lock(&self.manifest).give_back(id);
    }
}

impl Shared {
    /// Asks for a compaction of a range.
    pub(crate) fn ask_compaction(&self, bounds: (Bound<Slice>, Bound<Slice>)) -> CompactionJob {
        let asked = Arc::new(Asked {
            bounds,
            progress: Arc::default(),
            input_bytes: 0.into(),
            outcome: Mutex::new(None),
            done: Condvar::new(),
        });
        let mut compacting = lock(&self.compacting);
        if compacting.stop {
            asked.end(Err(Error::Closed));
        } else {
            compacting.asked.push_back(Arc::clone(&asked));
        }
        drop(compacting);
        self.compact_work.notify_all();
        CompactionJob { asked }
    }

    /// The tree has changed: the debt is another, and there may be something to compact.
    pub(crate) fn tree_changed(&self) {
        let version = Arc::clone(&self.view.load().version);
        let debt = compaction::debt_bytes(&facts(&version, &BTreeSet::new()), &self.options.tree);
        self.debt_bytes.store(debt, Ordering::Relaxed);
        drop(lock(&self.compacting));
        self.compact_work.notify_all();
    }

    /// A background thread: compacts until it is told to stop.
    pub(crate) fn run_compactions(&self) {
        let mut compacting = lock(&self.compacting);
        while !compacting.stop {
            let Some(job) = self.next_job(&mut compacting) else {
                compacting = wait(&self.compact_work, compacting);
                continue;
            };
            drop(compacting);
            let result = self.carry_out(&job);
            compacting = lock(&self.compacting);
            compacting.busy.retain(|id| !job.inputs.contains(id));
            compacting
                .running
                .retain(|running| !Arc::ptr_eq(running, &job.progress));
            self.conclude(&mut compacting, &job, result);
            self.compact_done.notify_all();
            if compacting.failure.is_some() && !compacting.stop {
                compacting = match self.compact_work.wait_timeout(compacting, RETRY) {
                    Ok((guard, _)) => guard,
                    Err(poisoned) => poisoned.into_inner().0,
                };
            }
        }
        for asked in std::mem::take(&mut compacting.asked) {
            asked.end(Err(Error::Closed));
        }
    }

    /// Ends all merges under way, for a close.
    pub(crate) fn stop_compactions(&self) {
        let mut compacting = lock(&self.compacting);
        compacting.stop = true;
        for progress in &compacting.running {
            progress.cancelled.store(true, Ordering::Relaxed);
        }
        drop(compacting);
        self.compact_work.notify_all();
        self.compact_done.notify_all();
    }

    fn conclude(&self, compacting: &mut Compacting, job: &Job, result: Result<()>) {
        match &result {
            Ok(()) | Err(Error::Cancelled) => compacting.failure = None,
            Err(error) => {
                let what = format!("compaction: {}", chain(error));
                self.event(EventKind::Failed { what });
                // What is damaged stays damaged: it is no use to try again, and going on to
                // write would only pile up runs.
                if matches!(error, Error::Corrupt(_) | Error::Missing { .. }) {
                    drop(self.poison(error.clone()));
                }
                compacting.failure = Some(Arc::new(error.clone()));
            }
        }
        if let Some(asked) = &job.asked {
            asked.end(result);
        }
    }

    /// What to do next; its inputs are busy from now on.
    fn next_job(&self, compacting: &mut Compacting) -> Option<Job> {
        if self.poison.get().is_some() {
            for asked in std::mem::take(&mut compacting.asked) {
                asked.end(self.check_sound());
            }
            return None;
        }
        let version = Arc::clone(&self.view.load().version);
        let mut job = self.next_asked(&version, compacting);
        if job.is_none() && self.options.compaction == Compaction::Background {
            let facts = facts(&version, &compacting.busy);
            job = compaction::plan(&facts, &self.options.tree).map(|plan| Job {
                inputs: inputs_of(&plan),
                plan,
                progress: Arc::default(),
                asked: None,
            });
        }
        let job = job?;
        compacting.busy.extend(&job.inputs);
        compacting.running.push(Arc::clone(&job.progress));
        Some(job)
    }

    /// The oldest compaction that was asked for and whose inputs are free.
    fn next_asked(&self, version: &Version, compacting: &mut Compacting) -> Option<Job> {
        while let Some(asked) = compacting.asked.front().cloned() {
            if asked.progress.cancelled.load(Ordering::Relaxed) {
                asked.end(Err(Error::Cancelled));
                compacting.asked.pop_front();
                continue;
            }
            let Some((plan, bytes)) = plan_range(version, &asked.bounds) else {
                asked.end(Ok(()));
                compacting.asked.pop_front();
                continue;
            };
            let inputs = inputs_of(&plan);
            if inputs.iter().any(|id| compacting.busy.contains(id)) {
                return None;
            }
            compacting.asked.pop_front();
            asked.input_bytes.store(bytes, Ordering::Relaxed);
            let progress = Arc::clone(&asked.progress);
            return Some(Job {
                plan,
                inputs,
                progress,
                asked: Some(asked),
            });
        }
        None
    }

    fn carry_out(&self, job: &Job) -> Result<()> {
        match &job.plan {
            Plan::Drop { segments } => self.install_compacted(Vec::new(), segments),
            Plan::Move {
                segments,
                level,
                target,
            } if self.may_move(segments, *level) => self.move_down(segments, *level, *target),
            Plan::Move {
                segments: inputs,
                level,
                target,
            }
            | Plan::Merge {
                inputs,
                level,
                target,
            } => self.merge(inputs, *level, *target, &job.progress),
        }
    }

    /// Whether segments keep a fitting filter at another level. With a budget the bits depend on
    /// the level, so the segments are written anew, with their filter.
    fn may_move(&self, segments: &[u64], level: u32) -> bool {
        let version = Arc::clone(&self.view.load().version);
        let moved: Vec<_> = version
            .segments()
            .filter(|one| segments.contains(&one.meta.id))
            .collect();
        let keys = moved.iter().map(|one| one.counts().keys).sum();
        let has_tombstones = moved.iter().any(|one| one.counts().tombstones > 0);
        let wanted = self.filter_for(&version, level, keys, segments);
        let is_budget = matches!(self.options.filter, FilterPolicy::Budget { .. });
        let fits = !is_budget || moved.iter().all(|one| one.filter_fits(wanted));
        let is_last = version.runs().iter().all(|run| run.level <= level);
        // Tombstones that reach the last level have nothing left to hide.
        fits && !(is_last && has_tombstones)
    }

    fn move_down(&self, ids: &[u64], level: u32, target: Target) -> Result<()> {
        let version = Arc::clone(&self.view.load().version);
        let run = match target {
            Target::Join(run) => run,
            Target::NewRun => self.allocate()?,
        };
        let moved: Vec<Arc<Segment>> = version
            .segments()
            .filter(|segment| ids.contains(&segment.meta.id))
            .map(|segment| Arc::new(segment.moved(level, run)))
            .collect();
        Counters::add(&self.counters.moves, 1);
        self.install_compacted(moved, ids)
    }

    fn merge(&self, ids: &[u64], level: u32, target: Target, progress: &Progress) -> Result<()> {
        let started = Instant::now();
        let version = Arc::clone(&self.view.load().version);
        let inputs = Inputs::of(&version, ids, level, self.snapshot_sequences());
        let segments = || inputs.runs.iter().flat_map(|run| run.segments.iter());
        let keys = segments().map(|segment| segment.counts().keys).sum();
        let base = segments()
            .filter_map(|segment| segment.sequence_min())
            .min();
        let filter = self.filter_for(&version, level, keys, ids);
        let run = match target {
            Target::Join(run) => Some(run),
            Target::NewRun => None,
        };
        let options = self.output_options((level, run), filter, base.unwrap_or(Sequence(0)));
        let mut output = Output::new(&self.storage, self, options);
        let pace = |bytes| self.pace(started, bytes, progress);
        let merged = compaction::merge(&inputs, &self.no_caches, &mut output, progress, &pace)
            .and_then(|()| output.finish())
            .and_then(|finished| self.open_finished(finished))
            .and_then(|(_, segments)| {
                let bytes: u64 = segments.iter().map(|segment| segment.meta.file_len).sum();
                self.install_compacted(segments, ids).map(|()| bytes)
            });
        let bytes = match merged {
            Ok(bytes) => bytes,
            Err(error) => {
                if self.poison.get().is_none() {
                    self.remove_output(&mut output);
                }
                return Err(error);
            }
        };
        let took = started.elapsed();
        self.compact_ns_per_kib
            .store(nanos(took) / (bytes >> 10).max(1), Ordering::Relaxed);
        Counters::add(&self.counters.compactions, 1);
        Counters::add(&self.counters.compacted_bytes, bytes);
        Counters::add(&self.counters.compaction_ns, nanos(took));
        self.event(EventKind::Compacted {
            level,
            inputs: ids.len() as u64,
            bytes,
            took,
        });
        Ok(())
    }

    /// Waits until this many bytes may have been written at the allowed rate.
    fn pace(&self, started: Instant, bytes: u64, progress: &Progress) {
        let Some(rate) = self.options.compaction_rate else {
            return;
        };
        let due = Duration::from_secs_f64(bytes as f64 / rate as f64);
        let mut compacting = lock(&self.compacting);
        while !compacting.stop && !progress.cancelled.load(Ordering::Relaxed) {
            let Some(early) = due.checked_sub(started.elapsed()) else {
                return;
            };
            compacting = match self.compact_work.wait_timeout(compacting, early) {
                Ok((guard, _)) => guard,
                Err(poisoned) => poisoned.into_inner().0,
            };
        }
    }

    /// Makes the outputs live and the inputs dead: first durably, then for readers.
    fn install_compacted(&self, added: Vec<Arc<Segment>>, removed: &[u64]) -> Result<()> {
        let mut manifest = lock(&self.manifest);
        let mut edit = manifest.edit();
        edit.added = added.iter().map(|segment| segment.meta.clone()).collect();
        edit.removed = removed.to_vec();
        manifest.commit(&edit).map_err(|error| self.poison(error))?;
        drop(manifest);
        let stays: BTreeSet<u64> = added.iter().map(|segment| segment.meta.id).collect();
        self.install(|view| {
            for segment in view.version.segments() {
                let id = segment.meta.id;
                if removed.contains(&id) && !stays.contains(&id) {
                    segment.retire();
                }
            }
            View {
                active: Arc::clone(&view.active),
                sealed: view.sealed.clone(),
                version: Arc::new(view.version.with(added, removed)),
            }
        });
        self.tree_changed();
        Ok(())
    }
}

fn wait<'a>(condvar: &Condvar, guard: MutexGuard<'a, Compacting>) -> MutexGuard<'a, Compacting> {
    condvar
        .wait(guard)
        .unwrap_or_else(std::sync::PoisonError::into_inner)
}

fn inputs_of(plan: &Plan) -> Vec<u64> {
    match plan {
        Plan::Merge { inputs: ids, .. }
        | Plan::Move { segments: ids, .. }
        | Plan::Drop { segments: ids } => ids.clone(),
    }
}

/// The version as planning sees it.
fn facts(version: &Version, busy: &BTreeSet<u64>) -> Vec<RunFacts> {
    let segment = |one: &Arc<Segment>| {
        let counts = one.counts();
        SegmentFacts {
            id: one.meta.id,
            bytes: one.meta.file_len,
            entries: counts.entries,
            tombstones: counts.tombstones,
            first_key: one.meta.first_key.clone(),
            last_key: one.meta.last_key.clone(),
            busy: busy.contains(&one.meta.id),
        }
    };
    let run = |run: &Run| RunFacts {
        level: run.level,
        number: run.number,
        segments: run.segments.iter().map(segment).collect(),
    };
    version.runs().iter().map(run).collect()
}

/// Merges all that overlaps a range, and all that is older and overlaps that, into the last
/// level; also the bytes of the inputs. `None` when there is nothing to merge.
fn plan_range(
    version: &Version,
    (lower, upper): &(Bound<Slice>, Bound<Slice>),
) -> Option<(Plan, u64)> {
    let mut range: Option<(Vec<u8>, Vec<u8>)> = None;
    let mut inputs: Vec<&Arc<Segment>> = Vec::new();
    for run in version.runs() {
        for segment in run.segments.iter() {
            let meta = &segment.meta;
            let asked = (match lower {
                Bound::Unbounded => true,
                Bound::Included(lower) => *meta.last_key >= **lower,
                Bound::Excluded(lower) => *meta.last_key > **lower,
            }) && (match upper {
                Bound::Unbounded => true,
                Bound::Included(upper) => *meta.first_key <= **upper,
                Bound::Excluded(upper) => *meta.first_key < **upper,
            });
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
        one.meta.level == last_level && at_last.len() == 1 && one.counts().tombstones == 0
    });
    if inputs.is_empty() || is_settled {
        return None;
    }
    let target = match at_last.as_slice() {
        [run] => Target::Join(run.number),
        _ => Target::NewRun,
    };
    let bytes = inputs.iter().map(|one| one.meta.file_len).sum();
    let inputs = inputs.iter().map(|one| one.meta.id).collect();
    let plan = Plan::Merge {
        inputs,
        level: last_level,
        target,
    };
    Some((plan, bytes))
}
