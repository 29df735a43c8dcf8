//! The threads that compact: in the background when the tree is out of shape, or on request.
//!
//! A plan is made and its inputs are claimed under the lock of the [`Compactor`]; the merge runs
//! without any lock. The thread that begins a merge offers its parts to the others. Those that have
//! nothing else to do take some, it does the rest itself. So no more threads work than there are,
//! and what is urgent need not wait for a large merge.
//!
//! [`Compactor`]: super::compactor::Compactor

use std::sync::Arc;
use std::time::{Duration, Instant};

use crate::bounds::Bounds;
use crate::compaction::{self, Plan, Progress};
use crate::error::{Error, Result, chain};
use crate::key::KeyspaceId;
use crate::options::Compaction;
use crate::priority;
use crate::tree::{Claims, MergePlan, Next, Tree, parts_max};

use super::compactor::{Choice, Job, Offer, Queue, Task, inputs_of};
use super::request::Request;
use super::state::Store;
use super::together::{is_enough, small_bytes};

/// What there is to do for requests.
enum Requested {
    Job(Job),
    /// Nothing now; in these keyspaces a request waits for its inputs.
    Wait(Vec<KeyspaceId>),
}

// Requests and changes.
impl Store {
    /// Requests a compaction of a range of keys of a tree.
    pub(crate) fn request_compaction(&self, tree: &Arc<Tree>, bounds: Bounds) -> Arc<Request> {
        let request = Arc::new(Request::new(tree, bounds));
        let check = || {
            tree.check(&tree.view())?;
            self.monitor().check_sound()
        };
        self.compactor().request(&request, check);
        if let Err(error) = self.start_compactors() {
            request.refuse(Err(error));
        }
        self.compactor().notify();
        request
    }

    /// A tree has changed: the debt is another, and there may be something to compact.
    pub(super) fn tree_changed(&self, tree: &Arc<Tree>) {
        // How it is to be kept is not known yet.
        if !tree.is_open() {
            return;
        }
        // Also what a thread works on now: nobody says when that ends.
        let all = || tree.facts(&tree.version(), &Claims::default());
        let debt = || self.debt_of(tree, &all());
        self.compactor()
            .changed(tree.id(), debt, || self.is_behind());
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
        let trees = self.trees().list();
        let is_due = |tree: &Arc<Tree>, claims: &Claims| {
            let plan = || {
                let facts = tree.facts(&tree.version(), claims);
                compaction::plan(&facts, &tree.shape_now())
            };
            tree.is_open() && plan().is_some()
        };
        self.compactor().is_settled(|claims| {
            self.options().compaction == Compaction::Background
                && trees.iter().any(|tree| is_due(tree, claims))
        })
    }

    /// Waits until nobody else works on a segment of a tree, then claims it until
    /// [`Store::let_go`]. `false` when it is not live any more.
    pub(crate) fn claim(&self, tree: &Tree, id: u64) -> Result<bool> {
        self.compactor().claim(id, || {
            self.monitor().check_writable()?;
            let version = tree.version();
            Ok(version.segments().any(|segment| segment.meta.id == id))
        })
    }

    /// Ends [`Store::claim`].
    pub(crate) fn let_go(&self, tree: &Tree, id: u64) {
        self.compactor().let_go(tree.id(), id);
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
                    self.report(&job, &result);
                    self.compactor().finish(&job, result);
                }
                Task::Help(offer) => self.help(&offer),
                Task::End => return,
            }
        }
    }

    /// Reports a failure.
    fn report(&self, job: &Job, result: &Result<()>) {
        let Err(error) = result else { return };
        if matches!(error, Error::Cancelled | Error::KeyspaceDropped { .. }) {
            return;
        }
        if error.is_disk_full() {
            let times = job.tree.work_times();
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
        let waiting = match self.choose_request(queue) {
            Requested::Job(job) => return Choice::Job(job),
            Requested::Wait(waiting) => waiting,
        };
        if self.options().compaction == Compaction::Manual {
            return Choice::Wait(None);
        }
        let (now, mut wait) = (Instant::now(), None);
        let mut small: Option<(Job, u64)> = None;
        for tree in queue.in_turn(self.trees().list()) {
            // A request that waits for its inputs is not overtaken: they might never be free all
            // at once.
            if !tree.is_open() || waiting.contains(&tree.id()) {
                continue;
            }
            let rest = match queue.rests(tree.id(), now) {
                Some(rest) => rest,
                None => match (self.choose_in(&tree, queue), &mut small) {
                    (Ok((job, None)), None) => return Choice::Job(job),
                    // What is large waits for its turn.
                    (Ok((_, None)), Some(_)) => None,
                    (Ok((job, Some(bytes))), None) => {
                        small = Some((job, bytes));
                        None
                    }
                    (Ok((job, Some(bytes))), Some((first, all))) => {
                        *all += bytes;
                        first.while_idle &= job.while_idle;
                        first.together.push((job.tree, job.plan));
                        None
                    }
                    (Err(rest), _) => {
                        queue.let_rest(tree.id(), now, rest);
                        rest
                    }
                },
            };
            if small.as_ref().is_some_and(|(_, bytes)| is_enough(*bytes)) {
                break;
            }
            wait = match (wait, rest) {
                (Some(wait), Some(rest)) => Some(std::cmp::min::<Duration>(wait, rest)),
                (wait, rest) => wait.or(rest),
            };
        }
        let job = small.map(|(job, _)| job);
        let job = job.or_else(|| match queue.take_change() {
            true => self.choose_sparse(queue),
            false => None,
        });
        job.map_or(Choice::Wait(wait), Choice::Job)
    }

    /// What is to be done in a tree, with its bytes if it is small, or after which time there may
    /// be something.
    fn choose_in(
        &self,
        tree: &Arc<Tree>,
        queue: &Queue,
    ) -> Result<(Job, Option<u64>), Option<Duration>> {
        // One look at the facts: what comes of age between two looks would be missed by both.
        let facts = tree.facts(&tree.version(), queue.claims());
        match tree.next(&facts, self.visible()) {
            Next::Now(plan, while_idle) => {
                let bytes = small_bytes(&plan, &facts);
                let job = Job {
                    tree: Arc::clone(tree),
                    plan,
                    together: Vec::new(),
                    progress: Arc::default(),
                    request: None,
                    reserved: None,
                    while_idle,
                };
                Ok((job, bytes))
            }
            Next::Look(wait) => Err(wait),
        }
    }

    /// The oldest request whose inputs are free, and the keyspaces of those before it.
    fn choose_request(&self, queue: &mut Queue) -> Requested {
        let mut waiting = Vec::new();
        for request in queue.requests() {
            let tree = request.tree();
            if waiting.contains(&tree.id()) {
                continue;
            }
            let version = tree.version();
            let planned = tree.plan_request(&version, request.bounds());
            let is_blocked = planned.as_ref().is_some_and(|planned| {
                let inputs = inputs_of(&planned.plan);
                queue.claims().block(inputs, planned.range.as_ref())
            });
            if is_blocked {
                waiting.push(tree.id());
                continue;
            }
            queue.remove_request(&request);
            let Some(planned) = planned else {
                request.refuse(Ok(()));
                continue;
            };
            if let Some(progress) = request.begin(planned.input_bytes) {
                return Requested::Job(Job {
                    tree: Arc::clone(tree),
                    plan: planned.plan,
                    together: Vec::new(),
                    progress,
                    request: Some(request),
                    reserved: planned.range,
                    while_idle: false,
                });
            }
        }
        Requested::Wait(waiting)
    }

    fn carry_out(&self, job: &Job) -> Result<()> {
        if !job.together.is_empty() {
            self.merge_together(job)?;
            job.all().for_each(|(tree, _)| self.tree_changed(tree));
            return Ok(());
        }
        let tree = &job.tree;
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
                self.merge(tree, &plan, &job.progress)?;
            }
        }
        self.tree_changed(tree);
        Ok(())
    }

    /// Merges all parts, with the help of idle threads.
    fn merge(
        &self,
        tree: &Arc<Tree>,
        plan: &MergePlan<'_>,
        progress: &Arc<Progress>,
    ) -> Result<()> {
        let merging = tree.begin_merge(plan, progress)?;
        if merging.part_count() > 1 {
            self.compactor().offer(tree, &merging);
        }
        let rest = |time| self.compactor().rest(time);
        tree.merge_part(&merging, 0, &rest);
        while let Some(part) = self.compactor().take_back(&merging) {
            tree.merge_part(&merging, part, &rest);
        }
        tree.finish_merge(&merging)
    }

    fn help(&self, offer: &Offer) {
        let rest = |time| self.compactor().rest(time);
        offer.tree.merge_part(&offer.merging, offer.part, &rest);
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
