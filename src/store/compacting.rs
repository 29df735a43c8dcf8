//! The threads that compact: in the background when the tree is out of shape, or on request.
//!
//! A plan is made and its inputs are claimed under the lock of the [`Compactor`]; the merge runs
//! without any lock. The thread that begins a merge offers its parts to the others. Those that have
//! nothing else to do take some, it does the rest itself. So no more threads work than there are,
//! and what is urgent need not wait for a large merge.
//!
//! [`Compactor`]: super::compactor::Compactor

use std::sync::Arc;

use crate::bounds::Bounds;
use crate::compaction::{self, Plan, Progress};
use crate::error::{Error, Result, chain};
use crate::options::Compaction;
use crate::priority;
use crate::tree::{Claims, MergePlan, Next, parts_max};

use super::compactor::{Choice, Job, Offer, Queue, Task, inputs_of};
use super::request::Request;
use super::state::Store;

// Requests and changes.
impl Store {
    /// Requests a compaction of a range.
    pub(crate) fn request_compaction(&self, bounds: Bounds) -> Arc<Request> {
        let request = Arc::new(Request::new(bounds));
        let check = || self.monitor().check_sound();
        self.compactor().request(&request, check);
        if let Err(error) = self.start_compactors() {
            request.refuse(Err(error));
        }
        self.compactor().notify();
        request
    }

    /// The tree has changed: the debt is another, and there may be something to compact.
    pub(super) fn tree_changed(&self) {
        let tree = self.tree();
        // Also what a thread works on now: nobody says when that ends.
        let all = || tree.facts(&tree.version(), &Claims::default());
        let debt = || compaction::debt_bytes(&all(), &self.options().tree);
        self.compactor().renew_debt(debt, || self.is_behind());
        let is_background = self.options().compaction == Compaction::Background;
        if is_background && !self.has_compactors() {
            let facts = all();
            let is_due = !matches!(tree.next(&facts, self.visible()), Next::Look(None));
            if is_due {
                self.start_background();
            }
        }
        self.compactor().notify();
    }

    fn has_compactors(&self) -> bool {
        self.threads().compactor_count() == self.options().compaction_threads
    }

    /// There may be something to compact.
    fn start_compactors(&self) -> Result<()> {
        if self.monitor().is_read_only() {
            return Ok(());
        }
        let count = self.options().compaction_threads;
        self.threads()
            .start_compactors(count, Store::run_compactions)
    }

    fn start_background(&self) {
        match self.start_compactors() {
            Ok(()) | Err(Error::Closed) => {}
            Err(error) => {
                self.monitor()
                    .failed(format!("no thread to compact: {}", chain(&error)));
                self.compactor().fail(error);
            }
        }
    }

    /// Whether nothing is under way and nothing is to be done.
    pub(crate) fn is_settled(&self) -> bool {
        let tree = self.tree();
        self.compactor().is_settled(|claims| {
            self.options().compaction == Compaction::Background
                && compaction::plan(&tree.facts(&tree.version(), claims), &tree.shape_now())
                    .is_some()
        })
    }

    /// Waits until nobody else works on a segment, then claims it until [`Store::let_go`].
    /// `false` when it is not live any more.
    pub(crate) fn claim(&self, id: u64) -> Result<bool> {
        self.compactor().claim(id, || {
            self.monitor().check_writable()?;
            let version = self.tree().version();
            Ok(version.segments().any(|segment| segment.meta.id == id))
        })
    }

    /// Ends [`Store::claim`].
    pub(crate) fn let_go(&self, id: u64) {
        self.compactor().let_go(id);
    }
}

// What the threads do.
impl Store {
    /// A background thread: compacts until it shall stop.
    fn run_compactions(&self) {
        priority::lower(self.options().compaction_niceness);
        let ended = self.monitor().or_poison("compaction", || {
            self.compact_until_stopped();
            Ok(())
        });
        let refusal = ended.and(Err(Error::Closed));
        self.compactor().refuse_requests(&refusal);
    }

    fn compact_until_stopped(&self) {
        loop {
            match self.compactor().next_task(|queue| self.choose(queue)) {
                Task::Job(job) => {
                    let work = || self.carry_out(&job);
                    let result = self.monitor().or_poison("compaction", work);
                    self.report(&result);
                    self.compactor().finish(&job, result);
                }
                Task::Help(offer) => self.help(&offer),
                Task::End => return,
            }
        }
    }

    /// Reports a failure.
    fn report(&self, result: &Result<()>) {
        let Err(error) = result else { return };
        if matches!(error, Error::Cancelled) {
            return;
        }
        if error.is_disk_full() {
            let times = self.tree().work_times();
            times.was_full(self.services().now_ms());
        }
        self.monitor()
            .failed(format!("compaction: {}", chain(error)));
        // What is damaged stays damaged: it is no use to try again, and going on to write would
        // only pile up runs.
        if matches!(error, Error::Corrupt(_) | Error::Missing { .. }) {
            drop(self.monitor().poison(error.clone()));
        }
    }

    /// What to do next. Called with the compactor's lock.
    fn choose(&self, queue: &mut Queue) -> Choice {
        if let Err(error) = self.monitor().check_sound() {
            queue.refuse_requests(&Err(error));
            return Choice::Wait(None);
        }
        if let Some(job) = self.choose_request(queue) {
            return Choice::Job(job);
        }
        // One that waits for its inputs is not overtaken: they might never be free all at once.
        let waits = queue.first_request().is_some();
        if waits || self.options().compaction == Compaction::Manual {
            return Choice::Wait(None);
        }
        let (tree, visible) = (self.tree(), self.visible());
        // One look at the facts: what comes of age between two looks would be missed by both.
        let facts = tree.facts(&tree.version(), queue.claims());
        let (plan, while_idle) = match tree.next(&facts, visible) {
            Next::Now(plan, while_idle) => (plan, while_idle),
            Next::Look(wait) => return Choice::Wait(wait),
        };
        Choice::Job(Job {
            plan,
            progress: Arc::default(),
            request: None,
            reserved: None,
            while_idle,
        })
    }

    /// The oldest request, if its inputs are free.
    fn choose_request(&self, queue: &mut Queue) -> Option<Job> {
        let version = self.tree().version();
        while let Some(request) = queue.first_request() {
            let planned = self.tree().plan_request(&version, request.bounds());
            let is_blocked = planned.as_ref().is_some_and(|planned| {
                let inputs = inputs_of(&planned.plan);
                queue.claims().block(inputs, planned.range.as_ref())
            });
            if is_blocked {
                return None;
            }
            queue.remove_first_request();
            let Some(planned) = planned else {
                request.refuse(Ok(()));
                continue;
            };
            if let Some(progress) = request.begin(planned.input_bytes) {
                return Some(Job {
                    plan: planned.plan,
                    progress,
                    request: Some(request),
                    reserved: planned.range,
                    while_idle: false,
                });
            }
        }
        None
    }

    fn carry_out(&self, job: &Job) -> Result<()> {
        let tree = self.tree();
        match &job.plan {
            Plan::Drop { segments } => tree.drop_segments(segments)?,
            Plan::Deepen { segments } => tree.deepen(segments)?,
            Plan::Move {
                segments,
                level,
                target,
            } if tree.may_move(segments, *level) => tree.move_down(segments, *level, *target)?,
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
                let at_work = self.compactor().running_count();
                let threads = self.options().compaction_threads;
                let is_free = job.request.is_some() || job.while_idle || tree.takes_flushed(inputs);
                let plan = MergePlan {
                    inputs,
                    level: *level,
                    target: *target,
                    parts_max: parts_max(threads, at_work, *level, is_free),
                };
                self.merge(&plan, &job.progress)?;
            }
        }
        self.tree_changed();
        Ok(())
    }

    /// Merges all parts, with the help of idle threads.
    fn merge(&self, plan: &MergePlan<'_>, progress: &Arc<Progress>) -> Result<()> {
        let merging = self.tree().begin_merge(plan, progress)?;
        if merging.part_count() > 1 {
            self.compactor().offer(&merging);
        }
        let rest = |time| self.compactor().rest(time);
        self.tree().merge_part(&merging, 0, &rest);
        while let Some(part) = self.compactor().take_back(&merging) {
            self.tree().merge_part(&merging, part, &rest);
        }
        self.tree().finish_merge(&merging)
    }

    fn help(&self, offer: &Offer) {
        let rest = |time| self.compactor().rest(time);
        self.tree().merge_part(&offer.merging, offer.part, &rest);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Db;
    use crate::compaction::FileNumbers as _;
    use crate::sim::Memory;

    /// Bug: of a flush and a compaction that failed together, the number of the one that ended
    /// first was lost; on a disk that stayed full they were used up, and the store was poisoned.
    #[test]
    fn file_numbers_of_failures_that_overlap_are_not_used_up() {
        let storage = Arc::new(Memory::new());
        let db = Db::builder("numbers").storage(storage).open().unwrap();
        let catalog = &db.store().services().catalog;
        let first = catalog.allocate().unwrap();
        for _ in 0..1000 {
            let second = catalog.allocate().unwrap();
            let third = catalog.allocate().unwrap();
            assert_eq!((second, third), (first + 1, first + 2));
            catalog.give_back(second);
            catalog.give_back(third);
        }
    }
}
