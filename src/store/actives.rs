//! The memtables that take writes: one for each keyspace that was written lately.

use std::sync::Arc;

use crate::error::Result;
use crate::key::{KeyspaceId, Sequence};
use crate::memtable::Memtable;
use crate::tree::Tree;

/// A keyspace as writers see it.
#[derive(Debug)]
struct Slot {
    tree: Arc<Tree>,
    /// Invariant: the active one of the tree's view, which is replaced only under the writer lock.
    /// `None` until the first write.
    active: Option<Arc<Memtable>>,
}

/// The active memtables of all keyspaces. They are sealed together.
#[derive(Debug, Default)]
pub(super) struct Actives {
    /// By number of keyspace; `None` for one that is not there.
    slots: Vec<Option<Slot>>,
    /// Keyspaces that have an active memtable.
    written: Vec<KeyspaceId>,
    bytes: u64,
    /// At most the sequence of every entry.
    first: Option<Sequence>,
}

impl Actives {
    /// A keyspace can be written from now on. `active` is what recovery has found of it.
    pub(super) fn add(&mut self, tree: &Arc<Tree>, active: Option<Arc<Memtable>>) {
        let id = tree.id();
        let at = id.0 as usize;
        if self.slots.len() <= at {
            self.slots.resize_with(at + 1, || None);
        }
        if let Some(table) = &active {
            self.written.push(id);
            self.bytes += table.bytes();
            let first = table.sequence_min();
            self.first = Some(self.first.map_or(first, |least| least.min(first)));
        }
        if let Some(slot) = self.slots.get_mut(at) {
            *slot = Some(Slot {
                tree: Arc::clone(tree),
                active,
            });
        }
    }

    /// A keyspace was dropped.
    pub(super) fn remove(&mut self, id: KeyspaceId) {
        let slot = self.slots.get_mut(id.0 as usize).and_then(Option::take);
        if let Some(table) = slot.and_then(|slot| slot.active) {
            self.bytes = self.bytes.saturating_sub(table.bytes());
            self.written.retain(|written| *written != id);
        }
    }

    /// Refuses writes to a keyspace that was dropped. A keyspace is dropped under the lock that
    /// guards this, so it stays until the write is made.
    #[inline]
    pub(super) fn check(&self, tree: &Tree) -> Result<()> {
        match self.slots.get(tree.id().0 as usize) {
            Some(Some(_)) => Ok(()),
            _ => Err(tree.gone()),
        }
    }

    /// The tree of a keyspace, and its memtable, which `make` makes if there is none. `None` for a
    /// keyspace that is not there.
    #[inline]
    pub(super) fn table(
        &mut self,
        id: KeyspaceId,
        make: impl FnOnce() -> Memtable,
    ) -> Option<(&Tree, &Memtable)> {
        let slot = self.slots.get_mut(id.0 as usize)?.as_mut()?;
        let active = match &slot.active {
            Some(_) => &slot.active,
            None => {
                let table = Arc::new(make());
                slot.tree.begin_memtable(&table);
                self.written.push(id);
                slot.active = Some(table);
                &slot.active
            }
        };
        active.as_deref().map(|table| (&*slot.tree, table))
    }

    /// A write from this sequence on has added so many bytes.
    #[inline]
    pub(super) fn note(&mut self, first: Sequence, bytes: u64) {
        self.first.get_or_insert(first);
        self.bytes += bytes;
    }

    /// Memory of all of them.
    #[inline]
    pub(super) fn bytes(&self) -> u64 {
        self.bytes
    }

    /// Whether nothing was written since they were sealed last.
    pub(super) fn is_empty(&self) -> bool {
        self.written.is_empty()
    }

    /// At most the sequence of every entry; `None` if there is none.
    pub(super) fn first(&self) -> Option<Sequence> {
        self.first
    }

    /// The memtables that were written. From now on there are none.
    pub(super) fn take(&mut self) -> Vec<(Arc<Tree>, Arc<Memtable>)> {
        self.bytes = 0;
        self.first = None;
        let written = std::mem::take(&mut self.written);
        let take = |id: KeyspaceId| {
            let slot = self.slots.get_mut(id.0 as usize)?.as_mut()?;
            let table = slot.active.take()?;
            Some((Arc::clone(&slot.tree), table))
        };
        written.into_iter().filter_map(take).collect()
    }
}
