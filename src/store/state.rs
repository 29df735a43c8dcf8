//! The state of an open store: its owners, each with locks of its own.

use std::sync::{Arc, Weak};

use crate::key::Sequence;
use crate::options::Options;
use crate::services::{Monitor, Services, Wake};
use crate::storage::Counting;
use crate::tree::Tree;

use super::compactor::Compactor;
use super::flusher::Flusher;
use super::log::Log;
use super::pacer::Pacer;
use super::report::RecoveryReport;
use super::threads::Threads;
use super::trees::Trees;

/// What all handles and background threads of an open store share.
#[derive(Debug)]
pub(crate) struct Store {
    options: Options,
    counting: Counting,
    services: Arc<Services>,
    /// That of the services.
    monitor: Arc<Monitor>,
    log: Log,
    trees: Trees,
    flusher: Arc<Flusher>,
    compactor: Arc<Compactor>,
    pacer: Pacer,
    threads: Threads<Store>,
    recovery: RecoveryReport,
}

/// What a store is made of.
pub(super) struct Parts {
    pub(super) options: Options,
    pub(super) counting: Counting,
    pub(super) services: Arc<Services>,
    pub(super) log: Log,
    pub(super) trees: Trees,
    pub(super) recovery: RecoveryReport,
}

impl Store {
    pub(super) fn new(parts: Parts) -> Arc<Store> {
        let Parts {
            options,
            counting,
            services,
            log,
            trees,
            recovery,
        } = parts;
        let flusher = Arc::new(Flusher::new(options.memtable_bytes));
        let compactor = Arc::new(Compactor::default());
        let monitor = Arc::clone(&services.monitor);
        let wakes: [Arc<dyn Wake>; 2] = [
            Arc::<Flusher>::clone(&flusher),
            Arc::<Compactor>::clone(&compactor),
        ];
        monitor.will_wake(wakes.into());
        let path = services.storage.path_of("");
        // It knows itself, so that it can start threads on itself.
        Arc::new_cyclic(|itself| Store {
            options,
            counting,
            services,
            monitor,
            log,
            trees,
            flusher,
            compactor,
            pacer: Pacer::default(),
            threads: Threads::of(Weak::clone(itself), path),
            recovery,
        })
    }

    #[inline]
    pub(crate) fn options(&self) -> &Options {
        &self.options
    }

    /// Counts of what the storage was asked for.
    pub(crate) fn counting(&self) -> &Counting {
        &self.counting
    }

    pub(crate) fn services(&self) -> &Arc<Services> {
        &self.services
    }

    #[inline]
    pub(crate) fn monitor(&self) -> &Monitor {
        &self.monitor
    }

    #[inline]
    pub(super) fn log(&self) -> &Log {
        &self.log
    }

    /// That of the default keyspace.
    #[inline]
    pub(crate) fn tree(&self) -> &Arc<Tree> {
        self.trees.default_tree()
    }

    pub(crate) fn trees(&self) -> &Trees {
        &self.trees
    }

    pub(super) fn flusher(&self) -> &Flusher {
        &self.flusher
    }

    pub(super) fn compactor(&self) -> &Compactor {
        &self.compactor
    }

    pub(super) fn pacer(&self) -> &Pacer {
        &self.pacer
    }

    pub(super) fn threads(&self) -> &Threads<Store> {
        &self.threads
    }

    /// What `open` has found and done.
    pub(crate) fn recovery(&self) -> &RecoveryReport {
        &self.recovery
    }

    /// Sequence of the newest write that readers see.
    #[inline]
    pub(crate) fn visible(&self) -> Sequence {
        self.log.visible()
    }

    /// Bytes that wait for a compaction.
    pub(crate) fn debt_bytes(&self) -> u64 {
        self.compactor.debt_bytes()
    }

    /// For handles that are dropped in a forked child: all that they share stays as it is, with its
    /// files, threads and locks, until the process ends.
    pub(crate) fn leak(self: &Arc<Self>) {
        std::mem::forget(Arc::clone(self));
    }
}
