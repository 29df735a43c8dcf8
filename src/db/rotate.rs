//! From one journal and memtable to the next.
//!
//! The journal that comes next is created ahead, by the thread that flushes, once half of a
//! memtable is full: who writes does not wait for the disk when the memtable changes. Where it is
//! not ready in time it is created there and then.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use crate::error::Result;
use crate::journal::{self, NewJournal};
use crate::manifest::JournalFloor;
use crate::memtable::Memtable;

use super::shared::{Sealed, Shared, View, lock};
use super::write::{Unsynced, Writing};

/// Recovered journals up to this number are kept until the memtable is full; with more of them
/// their entries are flushed when the next session begins to write.
const RECOVERED_JOURNALS_MAX: usize = 8;

/// The journal that comes next.
#[derive(Debug, Default)]
pub(crate) struct NextJournal {
    /// The journal that is written now, 0 before the first write of the session.
    current: u64,
    ready: Option<journal::Ready>,
}

/// What follows a rotation.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Then {
    /// The memtable was full, and the next one will be.
    MoreWrites,
    Anything,
}

impl Shared {
    /// The first write of a session: from now on the store counts as open for writing.
    pub(crate) fn begin_session(&self, writing: &mut Writing) -> Result<()> {
        if writing.journal.is_some() {
            return Ok(());
        }
        let many = writing.recovered.len() > RECOVERED_JOURNALS_MAX;
        if many {
            self.start_flusher()?;
        }
        let mut manifest = lock(&self.manifest);
        let begun = self
            .make_recovered_durable(writing)
            .and_then(|()| manifest.begin())
            .and_then(|()| manifest.allocate())
            .and_then(|id| self.create_journal(id, writing))
            .and_then(|journal| manifest.mark_open(journal.id()).map(|()| journal));
        let journal = begun.map_err(|error| self.poison(error))?;
        drop(manifest);
        let durable = journal.point().last();
        self.durable.fetch_max(durable.0, Ordering::AcqRel);
        if many {
            let sealed = Self::sealed_before(writing, &journal);
            self.seal_active(writing, sealed);
        }
        writing.recovered.clear();
        self.begin_journal(journal, writing);
        Ok(())
    }

    /// What an earlier session wrote and did not sync, or could not.
    pub(crate) fn make_recovered_durable(&self, writing: &mut Writing) -> Result<()> {
        if !writing.recovered_durable {
            journal::make_durable(&self.storage, &writing.recovered)?;
            writing.recovered_durable = true;
        }
        Ok(())
    }

    /// A journal that begins where the ones before it end.
    pub(crate) fn create_journal(&self, id: u64, writing: &Writing) -> Result<journal::Writer> {
        let new = self.new_journal(id, writing.last_journal);
        let journal = writing.journal.as_ref();
        let start = journal.map_or(writing.point, journal::Writer::point);
        journal::Writer::create(&self.storage, new, start)
    }

    fn new_journal(&self, id: u64, previous: u64) -> NewJournal {
        NewJournal {
            id,
            store_id: self.store_id,
            previous,
            reserve: self.options.map_journal,
        }
    }

    /// The first journal of a session is written from now on.
    pub(crate) fn begin_journal(&self, journal: journal::Writer, writing: &mut Writing) {
        lock(&self.next_journal).current = journal.id();
        writing.last_journal = journal.id();
        writing.journal = Some(journal);
    }

    /// Seals the active memtable and begins a new one with a journal of its own. Does nothing
    /// when the active one is empty.
    pub(crate) fn rotate(&self, writing: &mut Writing, then: Then) -> Result<()> {
        self.begin_session(writing)?;
        if writing.active.is_empty() {
            return Ok(());
        }
        self.start_flusher()?;
        let next = self
            .take_next_journal(writing)
            .map_err(|error| self.poison(error))?;
        if let Some(old) = &mut writing.journal {
            old.seal(next.id()).map_err(|error| self.poison(error))?;
            writing.unsynced.push(Unsynced::of(old));
        }
        let sealed = Self::sealed_before(writing, &next);
        writing.last_journal = next.id();
        let old = writing.journal.replace(next);
        writing.has_asked = false;
        if then == Then::MoreWrites {
            self.ask_for_journal(writing, old);
        }
        self.seal_active(writing, sealed);
        Ok(())
    }

    /// The one that was made ready, or a new one.
    fn take_next_journal(&self, writing: &Writing) -> Result<journal::Writer> {
        // Held until its number is the current one, so that none is made ready before that. If one
        // is just being made, waiting is faster than making another.
        let mut next = lock(&self.next_journal);
        let journal = match (next.ready.take(), &writing.journal) {
            (Some(ready), Some(old)) => ready.begin(old.point()),
            _ => {
                let id = lock(&self.manifest).allocate()?;
                self.create_journal(id, writing)?
            }
        };
        next.current = journal.id();
        Ok(journal)
    }

    /// Everything in the active memtable is in journals before this one.
    pub(crate) fn sealed_before(writing: &Writing, next: &journal::Writer) -> Sealed {
        let point = next.point();
        Sealed {
            table: Arc::clone(&writing.active),
            last: point.last(),
            floor: JournalFloor {
                id: next.id(),
                next: point.next,
                chain: point.chain,
            },
        }
    }

    fn seal_active(&self, writing: &mut Writing, sealed: Sealed) {
        let sealed = Arc::new(sealed);
        let spares = Arc::downgrade(&self.spares);
        let active = Memtable::with_spares(self.options.memtable_bytes, spares);
        writing.active = Arc::new(active);
        // What the old view holds, the new one does.
        self.install(|view| {
            let mut all = vec![sealed];
            all.extend(view.sealed.iter().cloned());
            View {
                active: Arc::clone(&writing.active),
                sealed: all,
                version: Arc::clone(&view.version),
            }
        });
        drop(lock(&self.flushing));
        self.flush_work.notify_one();
    }

    /// Has the next journal made ready, once for each memtable, and the sealed one put away.
    pub(crate) fn ask_for_journal(&self, writing: &mut Writing, sealed: Option<journal::Writer>) {
        // Without the thread, the rotation will tell why.
        if writing.has_asked || self.start_flusher().is_err() {
            return;
        }
        writing.has_asked = true;
        let mut flushing = lock(&self.flushing);
        flushing.wants_journal = true;
        flushing.sealed_journals.extend(sealed);
        drop(flushing);
        self.flush_work.notify_one();
    }

    /// What was asked for with [`Shared::ask_for_journal`].
    pub(crate) fn make_journal_ready(&self, sealed: Vec<journal::Writer>) -> Result<()> {
        // Cuts them to their length.
        drop(sealed);
        let mut next = lock(&self.next_journal);
        if next.current == 0 || next.ready.is_some() || self.poison.get().is_some() {
            return Ok(());
        }
        let id = lock(&self.manifest).allocate();
        let id = id.map_err(|error| self.poison(error))?;
        let new = self.new_journal(id, next.current);
        next.ready = Some(journal::Ready::create(&self.storage, new)?);
        Ok(())
    }

    /// Journals before this one are needed no more, and nobody shall hold them open. Whoever closes
    /// one last frees its room, which takes a while.
    pub(crate) fn forget_journals_before(&self, floor: u64) {
        let mut writing = lock(&self.writer);
        let all = std::mem::take(&mut writing.unsynced);
        let (dead, unsynced) = all.into_iter().partition(|journal| journal.id < floor);
        writing.unsynced = unsynced;
        drop(writing);
        drop::<Vec<Unsynced>>(dead);
    }

    /// At the end of a session: a journal that was made ready is not needed. If it stays, it does no
    /// harm.
    pub(crate) fn forget_ready_journal(&self) {
        lock(&self.flushing).sealed_journals.clear();
        if let Some(ready) = lock(&self.next_journal).ready.take() {
            let name = journal::file_name(ready.id());
            drop(ready);
            self.storage.remove(&name).ok();
        }
    }
}
