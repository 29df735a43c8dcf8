//! The manifest under its lock, and the numbers of files.
//!
//! After a failed change it is unknown what is on disk, so each change that fails poisons the
//! monitor.

use std::collections::BTreeSet;
use std::sync::Arc;

use crate::compaction::FileNumbers;
use crate::error::Result;
use crate::format::manifest::Edit;
use crate::locks::{Mutex, rank};
use crate::manifest::Manifest;

use super::monitor::Monitor;

/// Which files are live.
#[derive(Debug)]
pub(crate) struct Catalog {
    state: Mutex<State, { rank::CATALOG }>,
    monitor: Arc<Monitor>,
}

#[derive(Debug)]
struct State {
    manifest: Manifest,
    /// File numbers that were given back while a later one was still in use.
    returned: BTreeSet<u64>,
}

impl Catalog {
    pub(crate) fn new(manifest: Manifest, monitor: &Arc<Monitor>) -> Catalog {
        Catalog {
            state: Mutex::new(State {
                manifest,
                returned: BTreeSet::new(),
            }),
            monitor: Arc::clone(monitor),
        }
    }

    /// Changes the manifest, durably.
    pub(crate) fn change<T>(&self, change: impl FnOnce(&mut Manifest) -> Result<T>) -> Result<T> {
        let mut state = self.state.lock();
        change(&mut state.manifest).map_err(|error| self.monitor.poison(error))
    }

    /// Makes one edit of the manifest, which `fill` completes, durable. When `fill` refuses,
    /// nothing is changed.
    pub(crate) fn commit(
        &self,
        fill: impl FnOnce(&Manifest, &mut Edit) -> Result<()>,
    ) -> Result<()> {
        let mut state = self.state.lock();
        let mut edit = state.manifest.edit();
        fill(&state.manifest, &mut edit)?;
        let committed = state.manifest.commit(&edit);
        committed.map_err(|error| self.monitor.poison(error))
    }
}

impl Catalog {
    /// Looks at the manifest. No edit is made meanwhile.
    pub(crate) fn look<T>(&self, look: impl FnOnce(&Manifest) -> T) -> T {
        look(&self.state.lock().manifest)
    }
}

impl FileNumbers for Catalog {
    fn allocate(&self) -> Result<u64> {
        self.change(Manifest::allocate)
    }

    fn give_back(&self, id: u64) {
        let mut state = self.state.lock();
        state.returned.insert(id);
        while let Some(last) = state.returned.last().copied()
            && last + 1 == state.manifest.state().next_file
        {
            state.manifest.give_back(last);
            state.returned.pop_last();
        }
    }
}
