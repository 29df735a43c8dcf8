//! From one journal and memtable to the next.
//!
//! The journal that comes next is created ahead, by the thread that flushes, once half of a
//! memtable is full: a writer does not wait for the disk when the memtable changes. Where it is
//! not ready in time it is created there and then.

use std::sync::Arc;

use crate::error::Result;
use crate::journal;
use crate::memtable::Memtable;
use crate::tree::{Sealed, View};

use super::log::Writing;
use super::state::Store;

/// Recovered journals up to this number are kept until the memtable is full; with more of them
/// their entries are flushed when the next session begins to write.
const RECOVERED_JOURNALS_MAX: usize = 8;

/// Why the memtable is sealed.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum RotateReason {
    /// It was full, and the next one will be.
    MoreWrites,
    /// It is to be flushed.
    Flush,
}

impl Store {
    /// The first write of a session: from now on the store counts as open for writing.
    #[inline]
    pub(super) fn begin_session(&self, writing: &mut Writing) -> Result<()> {
        if writing.has_journal() {
            return Ok(());
        }
        self.open_session(writing)
    }

    #[cold]
    fn open_session(&self, writing: &mut Writing) -> Result<()> {
        let flushes = writing.recovered_count() > RECOVERED_JOURNALS_MAX;
        if flushes {
            self.start_flusher()?;
        }
        let journal = self.log().open_journal(writing)?;
        if flushes {
            let sealed = writing.sealed_before(&journal);
            self.seal_active(writing, sealed);
        }
        self.log().begin_journal(journal, writing);
        Ok(())
    }

    /// Seals the active memtable and begins a new one with a journal of its own. Does nothing
    /// when the active one is empty.
    pub(super) fn rotate(&self, writing: &mut Writing, reason: RotateReason) -> Result<()> {
        self.begin_session(writing)?;
        if writing.active().is_empty() {
            return Ok(());
        }
        self.start_flusher()?;
        let next = self.log().seal_journal(writing)?;
        let sealed = writing.sealed_before(&next);
        let old = self.log().go_on_in(next, writing);
        if reason == RotateReason::MoreWrites {
            self.request_journal(writing, old);
        }
        self.seal_active(writing, sealed);
        Ok(())
    }

    fn seal_active(&self, writing: &mut Writing, sealed: Sealed) {
        let sealed = Arc::new(sealed);
        let spares = Arc::downgrade(self.flusher().spares());
        let active = Memtable::with_spares(self.options().memtable_bytes, spares);
        let active = Arc::new(active);
        writing.set_active(Arc::clone(&active));
        // What the old view holds, the new one does.
        self.tree().install(|view| {
            let mut all = vec![sealed];
            all.extend(view.sealed.iter().cloned());
            View::new(active, all, Arc::clone(&view.version))
        });
        self.flusher().notify();
    }

    /// Has the next journal made ready, once for each memtable, and the sealed one put away.
    pub(super) fn request_journal(&self, writing: &mut Writing, sealed: Option<journal::Writer>) {
        // Without the thread, the rotation will say why.
        if writing.has_asked() || self.start_flusher().is_err() {
            return;
        }
        writing.note_asked();
        self.flusher().request_journal(sealed);
    }
}
