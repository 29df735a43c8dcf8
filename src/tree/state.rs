//! The state of a tree, behind a small interface.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::{Duration, Instant};

use arc_swap::{ArcSwap, Guard};

use crate::error::{Error, Result};
use crate::key::{KeyspaceId, Sequence};
use crate::locks::{Mutex, rank};
use crate::memtable::Memtable;
use crate::operator::Operator;
use crate::options::{Strategy, TreeOptions};
use crate::segment::Caches;
use crate::services::Services;
use crate::version::Version;

use super::counters::LookupCounters;
use super::lazy_merge::ScanCounters;
use super::tombstone_gaps::Gaps;
use super::view::View;
use super::work_times::WorkTimes;

/// One sorted set of keys: memtables, segments, and what is known of them.
#[derive(Debug)]
pub(crate) struct Tree {
    id: KeyspaceId,
    name: Box<str>,
    services: Arc<Services>,
    /// Those of the store, until the keyspace is opened.
    defaults: Arc<TreeOptions>,
    /// Set when a program has opened the keyspace in this session.
    options: OnceLock<Arc<TreeOptions>>,
    /// None, until the keyspace is opened.
    unknown_operator: Operator,
    operator: OnceLock<Operator>,
    /// The name that the manifest has.
    recorded_operator: OnceLock<Box<str>>,
    /// Those of the services, for lookups.
    caches: Arc<Caches>,
    hash_seed: u64,
    view: ArcSwap<View>,
    installing: Mutex<(), { rank::VIEW }>,
    gaps: Arc<Gaps>,
    /// Highest sequence of any entry that was dropped with its run since `open`.
    dropped: AtomicU64,
    lookups: LookupCounters,
    scans: Arc<ScanCounters>,
    work_times: WorkTimes,
    opened: Instant,
}

impl Tree {
    pub(crate) fn new(
        services: &Arc<Services>,
        (id, name): (KeyspaceId, &str),
        defaults: &Arc<TreeOptions>,
        view: View,
    ) -> Tree {
        Tree {
            id,
            name: name.into(),
            services: Arc::clone(services),
            defaults: Arc::clone(defaults),
            options: OnceLock::new(),
            unknown_operator: Operator::default(),
            operator: OnceLock::new(),
            recorded_operator: OnceLock::new(),
            caches: Arc::clone(&services.caches),
            hash_seed: services.hash_seed,
            view: ArcSwap::from_pointee(view),
            installing: Mutex::default(),
            gaps: Arc::default(),
            dropped: AtomicU64::new(0),
            lookups: LookupCounters::default(),
            scans: Arc::default(),
            work_times: WorkTimes::since(services.now_ms()),
            opened: Instant::now(),
        }
    }

    #[inline]
    pub(crate) fn id(&self) -> KeyspaceId {
        self.id
    }

    /// The name of the keyspace.
    pub(crate) fn name(&self) -> &str {
        &self.name
    }

    pub(crate) fn services(&self) -> &Services {
        &self.services
    }

    /// Those of the store.
    pub(crate) fn defaults(&self) -> &Arc<TreeOptions> {
        &self.defaults
    }

    pub(crate) fn options(&self) -> &TreeOptions {
        self.options.get().unwrap_or(&self.defaults)
    }

    /// A program opens the keyspace, with options of its own or those of the store: from now on
    /// it is kept in shape. Returns the options that it was opened with first.
    pub(crate) fn open(&self, options: Option<TreeOptions>) -> &Arc<TreeOptions> {
        let options = || options.map_or_else(|| Arc::clone(&self.defaults), Arc::new);
        self.options.get_or_init(|| {
            let options = options();
            let operator = options.operator.clone();
            self.operator
                .get_or_init(|| match self.recorded_operator() {
                    Some(name) => operator.with_recorded(name),
                    None => operator,
                });
            options
        })
    }

    /// The operator of the keyspace. Before it is opened there is none: operands stay as they are.
    #[inline]
    pub(crate) fn operator(&self) -> &Operator {
        self.operator.get().unwrap_or(&self.unknown_operator)
    }

    /// The name of the operator that has written operands, as the manifest has it.
    pub(crate) fn recorded_operator(&self) -> Option<&str> {
        self.recorded_operator.get().map(|name| &**name)
    }

    /// The manifest has this name of the operator, or none.
    pub(crate) fn note_operator(&self, name: &str) {
        if !name.is_empty() {
            self.recorded_operator.get_or_init(|| name.into());
        }
    }

    /// Refuses options that do not fit the operands that the keyspace has.
    pub(crate) fn check_operator(&self, options: &TreeOptions) -> Result<()> {
        let Some(recorded) = self.recorded_operator() else {
            return Ok(());
        };
        match options.operator.name() {
            Some(name) if name != recorded => Err(Error::Invalid(format!(
                "the keyspace {:?} has operands of the operator {recorded:?}, and was opened with \
                 {name:?}; open it with that, or without one",
                self.name
            ))),
            _ if matches!(options.shape.strategy, Strategy::Fifo { .. }) => {
                Err(Error::Invalid(format!(
                    "the keyspace {:?} has operands of the operator {recorded:?}, and \
                     Strategy::Fifo would remove what they stand on; choose another strategy",
                    self.name
                )))
            }
            _ => Ok(()),
        }
    }

    /// Whether a program has opened the keyspace in this session. Before, nothing is known of how it
    /// is to be kept.
    pub(crate) fn is_open(&self) -> bool {
        self.options.get().is_some()
    }

    /// Refuses what is asked of a keyspace that was dropped.
    #[inline]
    pub(crate) fn check(&self, view: &View) -> Result<()> {
        if view.is_dropped {
            return Err(self.gone());
        }
        Ok(())
    }

    #[cold]
    pub(crate) fn gone(&self) -> Error {
        Error::KeyspaceDropped {
            name: self.name.to_string(),
        }
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

    #[inline]
    pub(crate) fn gaps(&self) -> &Arc<Gaps> {
        &self.gaps
    }

    /// Entries up to this sequence may have been dropped although nothing has superseded them.
    /// What a view does not hold any more, this tells whoever asks after taking the view.
    pub(super) fn dropped(&self) -> Sequence {
        Sequence(self.dropped.load(Ordering::Acquire))
    }

    /// Entries up to this sequence are about to be dropped.
    pub(super) fn note_dropped(&self, last: Sequence) {
        self.dropped.fetch_max(last.0, Ordering::AcqRel);
    }

    #[inline]
    pub(crate) fn lookups(&self) -> &LookupCounters {
        &self.lookups
    }

    pub(crate) fn scans(&self) -> &Arc<ScanCounters> {
        &self.scans
    }

    pub(crate) fn work_times(&self) -> &WorkTimes {
        &self.work_times
    }

    /// Time since the store was opened.
    pub(super) fn session_age(&self) -> Duration {
        self.opened.elapsed()
    }

    /// Replaces the view by one made from it, unless the tree was dropped.
    pub(crate) fn install(&self, change: impl FnOnce(&View) -> View) {
        let guard = self.installing.lock();
        let now = self.view.load();
        if now.is_dropped {
            return;
        }
        let next = change(&now);
        // Held any longer, it would be one more holder of the old view, which could not go here.
        drop(now);
        let old = self.view.swap(Arc::new(next));
        // Nobody waits for what goes with the old view.
        drop(guard);
        old.retire(&self.services.past_things);
    }

    /// Writes go to this memtable from now on.
    pub(crate) fn begin_memtable(&self, active: &Arc<Memtable>) {
        self.install(|view| view.with_active(Arc::clone(active)));
    }

    /// The active memtable takes no more writes.
    pub(crate) fn seal_memtable(&self) {
        self.install(View::with_sealed);
    }

    /// The keyspace is gone, durably. Its files go when nobody reads them any more.
    pub(crate) fn drop_all(&self) {
        self.install(|view| {
            for segment in view.version.segments() {
                segment.retire();
            }
            View::dropped()
        });
    }
}
