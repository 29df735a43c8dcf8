//! What the threads that compact are to do, and those who wait for them.

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use crate::compaction::{Plan, Progress};
use crate::error::{Error, Result};
use crate::key::KeyspaceId;
use crate::locks::{Mutex, Signal, rank};
use crate::services::Wake;
use crate::tree::{Claims, Merging, Reserved, Tree};

use super::request::Request;

/// Time between attempts while compacting fails.
const RETRY: Duration = Duration::from_secs(1);

/// The queue of the threads that compact.
#[derive(Debug, Default)]
pub(super) struct Compactor {
    state: Mutex<Queue, { rank::COMPACTOR }>,
    /// The tree has changed, a compaction was requested, or the threads shall stop.
    work: Signal,
    /// A compaction ended, well or not.
    done: Signal,
    /// Bytes that wait for a compaction in all keyspaces: see [`crate::compaction::debt_bytes`].
    debt_bytes: AtomicU64,
    /// The same in millionths of what one round of merges works off.
    debt_units: AtomicU64,
}

/// What of a keyspace waits for a compaction.
#[derive(Clone, Copy, Debug, Default)]
struct Debt {
    bytes: u64,
    /// In millionths of what one round of merges works off.
    units: u64,
}

/// A debt in millionths of what one round of merges works off.
const PER_UNIT: f64 = 1e6;

/// What waits, and what is under way.
#[derive(Debug, Default)]
pub(super) struct Queue {
    /// The threads shall end.
    stop: bool,
    claims: Claims,
    /// Oldest first.
    requests: VecDeque<Arc<Request>>,
    /// What is under way, to cancel it at close, and in which keyspace, if in one only.
    running: Vec<(Option<KeyspaceId>, Arc<Progress>)>,
    debts: BTreeMap<KeyspaceId, Debt>,
    /// Keyspaces in which nothing is to be done before a time, unless they change; `None` for never.
    looks: BTreeMap<KeyspaceId, Option<Instant>>,
    /// The keyspace that was served last: the next one comes first.
    served: KeyspaceId,
    /// A tree has changed since sparse files were looked for.
    has_changed: bool,
    /// Those of it that only began because the tree was idle.
    while_idle: Vec<Arc<Progress>>,
    /// Parts of merges for threads that have nothing else to do.
    offers: VecDeque<Offer>,
    /// The last attempt failed; cleared by the next that succeeds.
    failure: Option<Arc<Error>>,
}

/// One piece of work.
#[derive(Debug)]
pub(super) struct Job {
    pub(super) tree: Arc<Tree>,
    pub(super) plan: Plan,
    /// Merges of other small keyspaces that are made together with it.
    pub(super) together: Vec<(Arc<Tree>, Plan)>,
    pub(super) progress: Arc<Progress>,
    pub(super) request: Option<Arc<Request>>,
    /// The key range of a request.
    pub(super) reserved: Option<Reserved>,
    /// The tree is idle: nothing else wants the threads.
    pub(super) while_idle: bool,
}

impl Job {
    /// All trees that are worked on, and what is done in each.
    pub(super) fn all(&self) -> impl Iterator<Item = (&Arc<Tree>, &Plan)> {
        let others = self.together.iter().map(|(tree, plan)| (tree, plan));
        std::iter::once((&self.tree, &self.plan)).chain(others)
    }
}

/// What there is to do.
pub(super) enum Choice {
    Job(Job),
    /// Nothing, until there is news, or for this long: something may be due by its age then.
    Wait(Option<Duration>),
}

/// What a thread does next.
pub(super) enum Task {
    Job(Job),
    /// A part of another thread's merge.
    Help(Offer),
    End,
}

/// A part of a merge that an idle thread may take.
#[derive(Debug)]
pub(super) struct Offer {
    pub(super) tree: Arc<Tree>,
    pub(super) merging: Arc<Merging>,
    pub(super) part: usize,
}

/// The segments that a plan works on.
pub(super) fn inputs_of(plan: &Plan) -> &[u64] {
    match plan {
        Plan::Merge { inputs: ids, .. }
        | Plan::Move { segments: ids, .. }
        | Plan::Deepen { segments: ids }
        | Plan::Drop { segments: ids } => ids,
    }
}

fn cancel<'a>(merges: impl IntoIterator<Item = &'a Arc<Progress>>) {
    for progress in merges {
        progress.cancelled.store(true, Ordering::Relaxed);
    }
}

impl Queue {
    pub(super) fn claims(&self) -> &Claims {
        &self.claims
    }

    /// The requests, oldest first.
    pub(super) fn requests(&self) -> Vec<Arc<Request>> {
        self.requests.iter().cloned().collect()
    }

    pub(super) fn remove_request(&mut self, request: &Arc<Request>) {
        self.requests.retain(|one| !Arc::ptr_eq(one, request));
    }

    /// Keyspaces in the order in which they are looked at: the one behind that which was served last
    /// comes first.
    pub(super) fn in_turn(&self, mut trees: Vec<Arc<Tree>>) -> Vec<Arc<Tree>> {
        let first = trees.partition_point(|tree| tree.id() <= self.served);
        trees.rotate_left(first);
        trees
    }

    /// Whether a tree has changed since the last call.
    pub(super) fn take_change(&mut self) -> bool {
        std::mem::take(&mut self.has_changed)
    }

    /// How long nothing is to be done in a keyspace. `None` when it is to be looked at.
    pub(super) fn rests(&self, id: KeyspaceId, now: Instant) -> Option<Option<Duration>> {
        match self.looks.get(&id)? {
            None => Some(None),
            Some(until) => {
                let left = until.checked_duration_since(now);
                left.filter(|left| !left.is_zero()).map(Some)
            }
        }
    }

    /// Nothing is to be done in a keyspace for this long, unless it changes.
    pub(super) fn let_rest(&mut self, id: KeyspaceId, now: Instant, time: Option<Duration>) {
        self.looks.insert(id, time.map(|time| now + time));
    }

    /// Ends all requests that wait.
    pub(super) fn refuse_requests(&mut self, result: &Result<()>) {
        for request in std::mem::take(&mut self.requests) {
            request.refuse(result.clone());
        }
    }

    fn hold(&mut self, job: &Job) {
        for (tree, plan) in job.all() {
            self.claims.add(inputs_of(plan), job.reserved.as_ref());
            self.served = tree.id();
        }
        // One of many that is dropped is left out at the end.
        let only = job.together.is_empty().then(|| job.tree.id());
        self.running.push((only, Arc::clone(&job.progress)));
        if job.while_idle {
            self.while_idle.push(Arc::clone(&job.progress));
        }
    }

    fn release(&mut self, job: &Job) {
        for (tree, plan) in job.all() {
            self.claims.remove(inputs_of(plan), job.reserved.as_ref());
            self.looks.remove(&tree.id());
        }
        self.has_changed = true;
        self.running
            .retain(|(_, one)| !Arc::ptr_eq(one, &job.progress));
        self.while_idle
            .retain(|one| !Arc::ptr_eq(one, &job.progress));
    }
}

// For the threads.
impl Compactor {
    /// Waits for the next task, which `choose` finds. Its inputs are claimed from now on.
    pub(super) fn next_task(&self, choose: impl Fn(&mut Queue) -> Choice) -> Task {
        let mut state = self.state.lock();
        while !state.stop {
            match choose(&mut state) {
                Choice::Job(job) => {
                    state.hold(&job);
                    return Task::Job(job);
                }
                Choice::Wait(time) => {
                    // With nothing of its own to do, a thread takes a part of another's merge.
                    if let Some(offer) = state.offers.pop_front() {
                        return Task::Help(offer);
                    }
                    state = match time {
                        None => self.work.wait(state),
                        Some(time) => self.work.wait_for(state, time).0,
                    };
                }
            }
        }
        Task::End
    }

    /// A job has ended. After a failure, waits until something is to be tried again.
    pub(super) fn finish(&self, job: &Job, result: Result<()>) {
        let mut state = self.state.lock();
        state.release(job);
        state.failure = match &result {
            Ok(()) | Err(Error::Cancelled) => None,
            Err(error) => Some(Arc::new(error.clone())),
        };
        if let Some(request) = &job.request {
            request.end(result);
        }
        self.done.notify_all();
        // Work may wait for what this one held.
        self.work.notify_all();
        if state.failure.is_some() && !state.stop {
            drop(self.work.wait_for(state, RETRY));
        }
    }

    /// How many compactions are under way.
    pub(super) fn running_count(&self) -> usize {
        self.state.lock().running.len()
    }

    /// Offers all parts of a merge but the first to idle threads.
    pub(super) fn offer(&self, tree: &Arc<Tree>, merging: &Arc<Merging>) {
        let offers = (1..merging.part_count()).map(|part| Offer {
            tree: Arc::clone(tree),
            merging: Arc::clone(merging),
            part,
        });
        self.state.lock().offers.extend(offers);
        self.work.notify_all();
    }

    /// A part of this merge that no thread has taken.
    pub(super) fn take_back(&self, merging: &Arc<Merging>) -> Option<usize> {
        let mut state = self.state.lock();
        let offers = &mut state.offers;
        let is_ours = |offer: &Offer| Arc::ptr_eq(&offer.merging, merging);
        let at = offers.iter().position(is_ours)?;
        offers.remove(at).map(|offer| offer.part)
    }

    /// Waits for at most this long, or until there is news; `false` when the threads shall stop.
    pub(super) fn rest(&self, time: Duration) -> bool {
        let state = self.state.lock();
        if state.stop {
            return false;
        }
        let (state, _) = self.work.wait_for(state, time);
        !state.stop
    }

    /// A thread ends: requests that wait are refused with this.
    pub(super) fn refuse_requests(&self, result: &Result<()>) {
        self.state.lock().refuse_requests(result);
    }
}

// For those who have work for them, or wait.
impl Compactor {
    /// Requests a compaction, unless `check` refuses it.
    pub(super) fn request(&self, request: &Arc<Request>, check: impl FnOnce() -> Result<()>) {
        let mut state = self.state.lock();
        if state.stop {
            request.refuse(Err(Error::Closed));
        } else if let Err(error) = check() {
            request.refuse(Err(error));
        } else {
            state.requests.push_back(Arc::clone(request));
        }
    }

    /// There is news for the threads.
    pub(super) fn notify(&self) {
        self.work.notify_all();
    }

    /// A keyspace has changed: counts its debt, bytes and units, anew. If that is too much now,
    /// merges that began while a tree was idle are cancelled.
    pub(super) fn changed(
        &self,
        id: KeyspaceId,
        count: impl FnOnce() -> (u64, f64),
        is_much: impl FnOnce() -> bool,
    ) {
        // Under the lock: of two changes the debt of the later one must stay.
        let mut state = self.state.lock();
        let (bytes, units) = count();
        let units = (units * PER_UNIT) as u64;
        self.set_debt(&mut state, id, Debt { bytes, units });
        if is_much() {
            // Writers are back, and would wait for the inputs of such a merge.
            cancel(&state.while_idle);
        }
    }

    fn set_debt(&self, state: &mut Queue, id: KeyspaceId, debt: Debt) {
        state.looks.remove(&id);
        state.has_changed = true;
        let before = match debt.bytes {
            0 => state.debts.remove(&id),
            _ => state.debts.insert(id, debt),
        };
        let before = before.unwrap_or_default();
        // Only changed under the lock.
        for (all, new, old) in [
            (&self.debt_bytes, debt.bytes, before.bytes),
            (&self.debt_units, debt.units, before.units),
        ] {
            let sum = all.load(Ordering::Relaxed).saturating_add(new);
            all.store(sum.saturating_sub(old), Ordering::Relaxed);
        }
    }

    /// A keyspace was dropped: nothing of it is to be merged any more.
    pub(super) fn forget(&self, id: KeyspaceId) {
        let mut state = self.state.lock();
        self.set_debt(&mut state, id, Debt::default());
        let running = state.running.iter().filter(|(only, _)| *only == Some(id));
        cancel(running.map(|(_, progress)| progress));
        drop(state);
        self.work.notify_all();
        self.done.notify_all();
    }

    /// Bytes that wait for a compaction.
    #[inline]
    pub(super) fn debt_bytes(&self) -> u64 {
        self.debt_bytes.load(Ordering::Relaxed)
    }

    /// The same in units of what one round of merges works off.
    #[inline]
    pub(super) fn debt_units(&self) -> f64 {
        self.debt_units.load(Ordering::Relaxed) as f64 / PER_UNIT
    }

    /// No thread can be started: writers that wait must learn that nothing will be compacted.
    pub(super) fn fail(&self, error: Error) {
        self.state.lock().failure = Some(Arc::new(error));
        self.done.notify_all();
    }

    /// Ends all merges under way, for a close.
    pub(super) fn stop(&self) {
        let mut state = self.state.lock();
        state.stop = true;
        cancel(state.running.iter().map(|(_, progress)| progress));
        drop(state);
        self.work.notify_all();
        self.done.notify_all();
    }

    /// Whether nothing is under way or requested, and nothing is due.
    pub(super) fn is_settled(&self, is_due: impl FnOnce(&Claims) -> bool) -> bool {
        let state = self.state.lock();
        state.claims.is_empty() && state.requests.is_empty() && !is_due(&state.claims)
    }

    /// Waits until nobody else works on a segment, then claims it until [`Compactor::let_go`].
    /// `false` when it is not live any more.
    pub(super) fn claim(&self, id: u64, is_live: impl Fn() -> Result<bool>) -> Result<bool> {
        let mut state = self.state.lock();
        loop {
            if !is_live()? {
                return Ok(false);
            }
            if state.claims.take(id) {
                return Ok(true);
            }
            state = self.done.wait(state);
        }
    }

    /// Ends [`Compactor::claim`] of a segment in this keyspace.
    pub(super) fn let_go(&self, keyspace: KeyspaceId, id: u64) {
        let mut state = self.state.lock();
        state.claims.remove(&[id], None);
        state.looks.remove(&keyspace);
        drop(state);
        self.work.notify_all();
        self.done.notify_all();
    }

    /// Waits until `is_over` says so, for a writer that waits for merges.
    ///
    /// # Errors
    ///
    /// What `is_over` gives; [`Error::Stalled`] while compacting fails.
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
}

impl Wake for Compactor {
    fn wake_all(&self) {
        drop(self.state.lock());
        self.work.notify_all();
        self.done.notify_all();
    }
}
