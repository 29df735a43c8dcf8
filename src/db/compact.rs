//! Compactions: in the background when the tree is out of shape, or when asked for.
//!
//! A plan is made and its inputs are marked busy under the lock of [`Compacting`]; the merge (see
//! `parts`) runs without any lock; its result is installed like that of a flush: durably first, then for
//! readers. Input files go when the last reader lets go of them.

use std::collections::{BTreeSet, VecDeque};
use std::sync::atomic::Ordering;
use std::sync::{Arc, Condvar, MutexGuard};
use std::time::Duration;

use crate::bounds::Bounds;
use crate::compaction::{self, FileNumbers, Plan, Progress, Target};
use crate::error::{Error, Result};
use crate::manifest::SegmentMeta;
use crate::options::{Compaction, FilterPolicy, Strategy};
use crate::segment::Segment;
use crate::turns;
use crate::version::Version;

use super::asked::{Asked, Asking, CompactionJob, plan_range};
use super::facts::facts;
use super::flush::chain;
use super::parts::{Offer, parts_max};
use super::shared::{Counters, Shared, View, lock};
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
    /// Key ranges, first and last, of unfinished compactions that were asked for. Their inputs
    /// may leave gaps, their output has none: what overlaps them stays where it is meanwhile.
    reserved: Vec<(Vec<u8>, Vec<u8>)>,
    /// Compactions that were asked for, oldest first.
    asked: VecDeque<Arc<Asked>>,
    /// What is under way, to cancel it at close.
    running: Vec<Arc<Progress>>,
    /// Those of it that only began because writers paused.
    in_pause: Vec<Arc<Progress>>,
    /// Parts of merges for threads that have nothing else to do.
    pub(super) offers: VecDeque<Offer>,
    /// The last attempt failed; cleared by the next that succeeds.
    pub(crate) failure: Option<Arc<Error>>,
    /// File numbers that were given back while a later one was still in use.
    returned: BTreeSet<u64>,
}

/// One piece of work.
struct Job {
    plan: Plan,
    inputs: Vec<u64>,
    progress: Arc<Progress>,
    asked: Option<Arc<Asked>>,
    /// See [`Compacting::reserved`].
    reserved: Option<(Vec<u8>, Vec<u8>)>,
    /// Writers pause: nothing else wants the threads.
    in_pause: bool,
}

/// What a thread does next.
enum Next {
    Job(Job),
    /// Nothing, until it is told of work, or for so long: something may be due by its age then.
    Wait(Option<Duration>),
}

impl Compacting {
    fn hold(&mut self, job: &Job) {
        self.busy.extend(&job.inputs);
        self.reserved.extend(job.reserved.clone());
        self.running.push(Arc::clone(&job.progress));
        if job.in_pause {
            self.in_pause.push(Arc::clone(&job.progress));
        }
    }

    fn release(&mut self, job: &Job) {
        for id in &job.inputs {
            self.busy.remove(id);
        }
        self.reserved
            .retain(|range| Some(range) != job.reserved.as_ref());
        for all in [&mut self.running, &mut self.in_pause] {
            all.retain(|one| !Arc::ptr_eq(one, &job.progress));
        }
    }

    /// Whether an unfinished compaction has a segment as input, or covers it.
    pub(super) fn is_busy(&self, segment: &Segment) -> bool {
        let SegmentMeta {
            id,
            first_key,
            last_key,
            ..
        } = &segment.meta;
        let mut reserved = self.reserved.iter();
        self.busy.contains(id)
            || reserved.any(|(first, last)| first_key <= last && first <= last_key)
    }
}

impl FileNumbers for Shared {
    fn allocate(&self) -> Result<u64> {
        lock(&self.manifest)
            .allocate()
            .map_err(|error| self.poison(error))
    }

    fn give_back(&self, id: u64) {
        let mut manifest = lock(&self.manifest);
        let mut compacting = lock(&self.compacting);
        compacting.returned.insert(id);
        while let Some(last) = compacting.returned.last().copied()
            && last + 1 == manifest.state().next_file
        {
            manifest.give_back(last);
            compacting.returned.pop_last();
        }
    }
}

impl Shared {
    /// Asks for a compaction of a range.
    pub(crate) fn ask_compaction(&self, bounds: Bounds) -> CompactionJob {
        let asked = Arc::new(Asked::new(bounds));
        let mut compacting = lock(&self.compacting);
        if compacting.stop {
            asked.refuse(Err(Error::Closed));
        } else if let Err(error) = self.check_sound() {
            asked.refuse(Err(error));
        } else {
            compacting.asked.push_back(Arc::clone(&asked));
        }
        drop(compacting);
        if let Err(error) = self.start_compactors() {
            asked.refuse(Err(error));
        }
        self.compact_work.notify_all();
        CompactionJob {
            asked,
            origin: self.origin.clone(),
        }
    }

    /// The tree has changed: the debt is another, and there may be something to compact.
    pub(crate) fn tree_changed(&self) {
        // Under the lock: of two changes the debt of the later one must stay.
        let compacting = lock(&self.compacting);
        let version = Arc::clone(&self.view.load().version);
        let facts = facts(self, &version, &Compacting::default());
        let debt = compaction::debt_bytes(&facts, &self.options.tree);
        self.debt_bytes.store(debt, Ordering::Relaxed);
        // Also what somebody else works on now: nobody tells when that ends.
        if self.is_behind() {
            // Writers are back, and will wait for what a merge of a pause has in hand.
            cancel(&compacting.in_pause);
        }
        let is_due = self.options.compaction == Compaction::Background
            && !self.has_compactors()
            && (compaction::plan(&facts, &self.tree_now()).is_some()
                || self.look_in(&facts).is_some());
        drop(compacting);
        if is_due {
            self.start_background();
        }
        self.compact_work.notify_all();
    }

    fn start_background(&self) {
        match self.start_compactors() {
            Ok(()) | Err(Error::Closed) => {}
            Err(error) => {
                let what = format!("no thread to compact: {}", chain(&error));
                self.event(EventKind::Failed { what });
                // Writers that wait for it must learn that there will be none.
                lock(&self.compacting).failure = Some(Arc::new(error));
                self.compact_done.notify_all();
            }
        }
    }

    /// A background thread: compacts until it is told to stop.
    pub(crate) fn run_compactions(&self) {
        turns::come_last();
        let ended = self.or_poison("compaction", || {
            self.compact_until_stopped();
            Ok(())
        });
        let asked = std::mem::take(&mut lock(&self.compacting).asked);
        for asked in asked {
            asked.refuse(ended.clone().and(Err(Error::Closed)));
        }
    }

    fn compact_until_stopped(&self) {
        let mut compacting = lock(&self.compacting);
        while !compacting.stop {
            let job = match self.next(&mut compacting) {
                Next::Job(job) => job,
                Next::Wait(time) => {
                    compacting = self.help_or_wait(compacting, time);
                    continue;
                }
            };
            drop(compacting);
            let result = self.or_poison("compaction", || self.carry_out(&job));
            // Takes the lock itself.
            self.report(&result);
            compacting = lock(&self.compacting);
            compacting.release(&job);
            match &result {
                Ok(()) | Err(Error::Cancelled) => compacting.failure = None,
                Err(error) => compacting.failure = Some(Arc::new(error.clone())),
            }
            if let Some(asked) = &job.asked {
                asked.end(result);
            }
            self.compact_done.notify_all();
            // Work may wait for what this one held.
            self.compact_work.notify_all();
            if compacting.failure.is_some() && !compacting.stop {
                compacting = wait_for(&self.compact_work, compacting, RETRY);
            }
        }
    }

    /// With nothing of its own to do, a thread takes a part of another's merge.
    fn help_or_wait<'a>(
        &'a self,
        mut compacting: MutexGuard<'a, Compacting>,
        time: Option<Duration>,
    ) -> MutexGuard<'a, Compacting> {
        if let Some(offer) = compacting.offers.pop_front() {
            drop(compacting);
            self.help(&offer);
            return lock(&self.compacting);
        }
        match time {
            None => wait(&self.compact_work, compacting),
            Some(time) => wait_for(&self.compact_work, compacting, time),
        }
    }

    /// Ends all merges under way, for a close.
    pub(crate) fn stop_compactions(&self) {
        let mut compacting = lock(&self.compacting);
        compacting.stop = true;
        cancel(&compacting.running);
        drop(compacting);
        self.compact_work.notify_all();
        self.compact_done.notify_all();
    }

    /// Tells of a failure. The lock of [`Compacting`] must not be held.
    fn report(&self, result: &Result<()>) {
        let Err(error) = result else { return };
        if matches!(error, Error::Cancelled) {
            return;
        }
        if error.is_disk_full() {
            self.work_times.was_full(self.now_ms());
        }
        let what = format!("compaction: {}", chain(error));
        self.event(EventKind::Failed { what });
        // What is damaged stays damaged: it is no use to try again, and going on to write would
        // only pile up runs.
        if matches!(error, Error::Corrupt(_) | Error::Missing { .. }) {
            drop(self.poison(error.clone()));
        }
    }

    /// Whether nothing is under way and nothing is to be done.
    pub(crate) fn is_settled(&self) -> bool {
        let compacting = lock(&self.compacting);
        let is_idle = compacting.busy.is_empty() && compacting.asked.is_empty();
        is_idle
            && self
                .next_planned(&self.view.load().version, &compacting)
                .is_none()
    }

    /// What to do next; its inputs are busy from now on.
    fn next(&self, compacting: &mut Compacting) -> Next {
        if self.poison.get().is_some() {
            for asked in std::mem::take(&mut compacting.asked) {
                asked.refuse(self.check_sound());
            }
            return Next::Wait(None);
        }
        let version = Arc::clone(&self.view.load().version);
        if let Some(job) = self.next_asked(&version, compacting) {
            compacting.hold(&job);
            return Next::Job(job);
        }
        // One that waits for its inputs is not overtaken: they might never be free all at once.
        if !compacting.asked.is_empty() || self.options.compaction == Compaction::Manual {
            return Next::Wait(None);
        }
        // The same facts for both: what comes of age between two looks would be missed by both.
        let facts = facts(self, &version, compacting);
        let Some((plan, in_pause)) = self.wanted(&facts) else {
            return Next::Wait(self.look_in(&facts));
        };
        let job = Job {
            inputs: inputs_of(&plan),
            plan,
            progress: Arc::default(),
            asked: None,
            reserved: None,
            in_pause,
        };
        compacting.hold(&job);
        Next::Job(job)
    }

    /// The oldest compaction that was asked for, if its inputs are free.
    fn next_asked(&self, version: &Version, compacting: &mut Compacting) -> Option<Job> {
        while let Some(asked) = compacting.asked.front().cloned() {
            let asking = self.plan_asked(version, &asked.bounds);
            let blocked = asking.as_ref().is_some_and(|asking| {
                let is_held = |id: &u64| compacting.busy.contains(id);
                let overlaps = |(first, last): &(Vec<u8>, Vec<u8>)| {
                    let mut reserved = compacting.reserved.iter();
                    reserved.any(|(lower, upper)| first <= upper && lower <= last)
                };
                inputs_of(&asking.plan).iter().any(is_held)
                    || asking.range.as_ref().is_some_and(overlaps)
            });
            if blocked {
                return None;
            }
            compacting.asked.pop_front();
            let Some(asking) = asking else {
                asked.refuse(Ok(()));
                continue;
            };
            if asked.take() {
                asked
                    .input_bytes
                    .store(asking.input_bytes, Ordering::Relaxed);
                return Some(Job {
                    inputs: inputs_of(&asking.plan),
                    plan: asking.plan,
                    progress: Arc::clone(&asked.progress),
                    asked: Some(asked),
                    reserved: asking.range,
                    in_pause: false,
                });
            }
        }
        None
    }

    /// What it takes to carry out what was asked for. Where nothing is merged, to remove what is
    /// due, whatever the range: merged into one, runs could only be removed all at once.
    fn plan_asked(&self, version: &Version, bounds: &Bounds) -> Option<Asking> {
        let tree = &self.options.tree;
        if !matches!(tree.strategy, Strategy::Fifo { .. }) {
            return plan_range(version, bounds);
        }
        let plan = compaction::plan(&facts(self, version, &Compacting::default()), tree)?;
        Some(Asking {
            plan,
            input_bytes: 0,
            range: None,
        })
    }

    /// Waits until nobody else works on a segment, then holds it until [`Shared::let_go`].
    /// `false` when it is not live any more.
    pub(crate) fn hold(&self, id: u64) -> Result<bool> {
        let mut compacting = lock(&self.compacting);
        loop {
            self.check_writable()?;
            let version = Arc::clone(&self.view.load().version);
            if version.segments().all(|segment| segment.meta.id != id) {
                return Ok(false);
            }
            if compacting.busy.insert(id) {
                return Ok(true);
            }
            compacting = wait(&self.compact_done, compacting);
        }
    }

    /// Ends [`Shared::hold`].
    pub(crate) fn let_go(&self, id: u64) {
        lock(&self.compacting).busy.remove(&id);
        self.compact_work.notify_all();
        self.compact_done.notify_all();
    }

    fn next_planned(&self, version: &Version, compacting: &Compacting) -> Option<Plan> {
        match self.options.compaction {
            Compaction::Manual => None,
            Compaction::Background => {
                compaction::plan(&facts(self, version, compacting), &self.tree_now())
            }
        }
    }

    fn carry_out(&self, job: &Job) -> Result<()> {
        match &job.plan {
            Plan::Drop { segments } => {
                self.install_compacted(Vec::new(), segments)?;
                Counters::add(&self.counters.dropped, segments.len() as u64);
                Ok(())
            }
            Plan::Deepen { segments } => self.deepen(segments),
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
            } => {
                let at_work = lock(&self.compacting).running.len();
                let threads = (self.options.compaction_threads, at_work);
                let is_free = job.asked.is_some() || job.in_pause || self.takes_flushed(inputs);
                let parts_max = parts_max(threads, *level, is_free);
                self.merge(inputs, (*level, *target), &job.progress, parts_max)
            }
        }
    }

    /// Whether what is flushed meanwhile must wait for a merge of these.
    fn takes_flushed(&self, inputs: &[u64]) -> bool {
        let version = Arc::clone(&self.view.load().version);
        let mut flushed = version.segments().filter(|one| one.meta.level == 0);
        flushed.any(|one| inputs.contains(&one.meta.id))
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
        let wanted = self.filters_for(&version, level, keys, segments);
        let last = version.runs().last().map_or(0, |run| run.level);
        let is_last = last <= level;
        let policy = self.policy_of(level, is_last);
        let fits = moved.iter().all(|one| {
            let is_same = policy == self.policy_of(one.meta.level, one.meta.level == last);
            let is_budget = matches!(policy, FilterPolicy::Budget { .. });
            is_same && !is_budget
                || one.filter_fits(wanted.of(&one.meta.first_key), &self.options.customs)
        });
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

    /// All levels below 0 move down by one. A filter fits its run, which is what it was.
    fn deepen(&self, ids: &[u64]) -> Result<()> {
        let version = Arc::clone(&self.view.load().version);
        let moved: Vec<Arc<Segment>> = version
            .segments()
            .filter(|segment| ids.contains(&segment.meta.id))
            .map(|segment| Arc::new(segment.moved(segment.meta.level + 1, segment.meta.run)))
            .collect();
        Counters::add(&self.counters.moves, 1);
        self.install_compacted(moved, ids)
    }

    /// Makes the outputs live and the inputs dead: first durably, then for readers.
    pub(super) fn install_compacted(
        &self,
        added: Vec<Arc<Segment>>,
        removed: &[u64],
    ) -> Result<()> {
        let is_written = |one: &&Arc<Segment>| !removed.contains(&one.meta.id);
        let written = added.iter().filter(is_written);
        let bytes = written.map(|one| one.meta.file_len).sum();
        Counters::add(&self.counters.compacted_bytes, bytes);
        let mut manifest = lock(&self.manifest);
        let mut edit = manifest.edit();
        edit.added = added.iter().map(|segment| segment.meta.clone()).collect();
        edit.removed = removed.to_vec();
        self.add_traffic(&manifest, &mut edit);
        manifest.commit(&edit).map_err(|error| self.poison(error))?;
        drop(manifest);
        // Before anybody sees the new tree, or another thread would find that nothing was done for long.
        self.work_times.compacted(self.now_ms());
        let stays: BTreeSet<u64> = added.iter().map(|segment| segment.meta.id).collect();
        self.install_behind(|view| {
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

fn cancel(merges: &[Arc<Progress>]) {
    for progress in merges {
        progress.cancelled.store(true, Ordering::Relaxed);
    }
}

fn wait<'a>(condvar: &Condvar, guard: MutexGuard<'a, Compacting>) -> MutexGuard<'a, Compacting> {
    condvar
        .wait(guard)
        .unwrap_or_else(std::sync::PoisonError::into_inner)
}

fn wait_for<'a>(
    condvar: &Condvar,
    guard: MutexGuard<'a, Compacting>,
    time: Duration,
) -> MutexGuard<'a, Compacting> {
    match condvar.wait_timeout(guard, time) {
        Ok((guard, _)) => guard,
        Err(poisoned) => poisoned.into_inner().0,
    }
}

fn inputs_of(plan: &Plan) -> Vec<u64> {
    match plan {
        Plan::Merge { inputs: ids, .. }
        | Plan::Move { segments: ids, .. }
        | Plan::Deepen { segments: ids }
        | Plan::Drop { segments: ids } => ids.clone(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Db;
    use crate::storage::Memory;

    /// Bug: of a flush and a compaction that failed together, the number of the one that ended
    /// first was lost; on a disk that stayed full they were used up, and the store was poisoned.
    #[test]
    fn file_numbers_of_failures_that_overlap_are_not_used_up() {
        let storage = Arc::new(Memory::new());
        let db = Db::builder("numbers").storage(storage).open().unwrap();
        let shared = db.shared();
        let first = shared.allocate().unwrap();
        for _ in 0..1000 {
            let second = shared.allocate().unwrap();
            let third = shared.allocate().unwrap();
            assert_eq!((second, third), (first + 1, first + 2));
            shared.give_back(second);
            shared.give_back(third);
        }
    }
}
