//! The state of a tree, behind a small interface.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use arc_swap::{ArcSwap, Guard};

use crate::locks::{Mutex, rank};
use crate::options::Options;
use crate::remains::Remains;
use crate::segment::Caches;
use crate::services::{Services, nanos};
use crate::version::Version;

use super::counters::LookupCounters;
use super::tombstone_gaps::Gaps;
use super::view::{Parts, View};
use super::work_times::WorkTimes;

/// One sorted set of keys: memtables, segments, and what is known of them.
#[derive(Debug)]
pub(crate) struct Tree {
    services: Arc<Services>,
    options: Options,
    /// Those of the services, for lookups.
    caches: Arc<Caches>,
    hash_seed: u64,
    view: ArcSwap<View>,
    /// Sealed memtables of the view, for writers that need no more of it.
    sealed_count: AtomicUsize,
    installing: Mutex<(), { rank::VIEW }>,
    past_views: Remains<Parts>,
    gaps: Arc<Gaps>,
    lookups: LookupCounters,
    work_times: WorkTimes,
    flush_pace: Pace,
    merge_pace: Pace,
    opened: Instant,
}

/// Time that work takes for each KiB, in nanoseconds; 0 before the first.
#[derive(Debug, Default)]
pub(crate) struct Pace(AtomicU64);

impl Pace {
    pub(super) fn set(&self, took: Duration, bytes: u64) {
        let ns_per_kib = nanos(took) / (bytes >> 10).max(1);
        self.0.store(ns_per_kib, Ordering::Relaxed);
    }

    pub(crate) fn ns_per_kib(&self) -> f64 {
        self.0.load(Ordering::Relaxed) as f64
    }
}

impl Tree {
    pub(crate) fn new(services: &Arc<Services>, options: Options, view: View) -> Tree {
        Tree {
            services: Arc::clone(services),
            options,
            caches: Arc::clone(&services.caches),
            hash_seed: services.hash_seed,
            sealed_count: AtomicUsize::new(view.sealed.len()),
            view: ArcSwap::from_pointee(view),
            installing: Mutex::default(),
            past_views: Remains::default(),
            gaps: Arc::default(),
            lookups: LookupCounters::default(),
            work_times: WorkTimes::since(services.now_ms()),
            flush_pace: Pace::default(),
            merge_pace: Pace::default(),
            opened: Instant::now(),
        }
    }

    pub(super) fn services(&self) -> &Services {
        &self.services
    }

    pub(super) fn options(&self) -> &Options {
        &self.options
    }

    #[inline]
    pub(crate) fn hash_seed(&self) -> u64 {
        self.hash_seed
    }

    #[inline]
    pub(super) fn caches(&self) -> &Arc<Caches> {
        &self.caches
    }

    /// The view of now, for a moment.
    #[inline]
    pub(crate) fn view(&self) -> Guard<Arc<View>> {
        self.view.load()
    }

    /// The view of now, for as long as it is needed.
    pub(crate) fn view_to_keep(&self) -> Arc<View> {
        self.view.load_full()
    }

    pub(crate) fn version(&self) -> Arc<Version> {
        Arc::clone(&self.view.load().version)
    }

    /// How many sealed memtables wait.
    #[inline]
    pub(crate) fn sealed_count(&self) -> usize {
        self.sealed_count.load(Ordering::Relaxed)
    }

    #[inline]
    pub(crate) fn gaps(&self) -> &Arc<Gaps> {
        &self.gaps
    }

    #[inline]
    pub(crate) fn lookups(&self) -> &LookupCounters {
        &self.lookups
    }

    pub(crate) fn work_times(&self) -> &WorkTimes {
        &self.work_times
    }

    /// How long a flush takes.
    /// Time since the store was opened.
    pub(super) fn session_age(&self) -> Duration {
        self.opened.elapsed()
    }

    pub(crate) fn flush_pace(&self) -> &Pace {
        &self.flush_pace
    }

    /// How long a merge takes.
    pub(crate) fn merge_pace(&self) -> &Pace {
        &self.merge_pace
    }

    /// Replaces the view by one made from it.
    pub(crate) fn install(&self, change: impl FnOnce(&View) -> View) {
        let guard = self.installing.lock();
        let view = change(&self.view.load());
        let sealed = view.sealed.len();
        let old = self.view.swap(Arc::new(view));
        self.sealed_count.store(sealed, Ordering::Relaxed);
        // Nobody waits for what goes with the old view.
        drop(guard);
        old.retire(&self.past_views);
    }

    /// Waits until the parts of past views that nobody holds are dropped.
    pub(crate) fn finish_past_views(&self) {
        self.past_views.finish();
    }
}
