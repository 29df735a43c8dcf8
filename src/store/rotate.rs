//! From one journal, and the memtables of all keyspaces, to the next.
//!
//! The journal that comes next is created ahead, by the thread that flushes, once half of a
//! memtable is full: a writer does not wait for the disk when the memtable changes. Where it is
//! not ready in time it is created there and then.

use crate::error::Result;
use crate::journal;

use super::generation::Generation;
use super::log::Writing;
use super::state::Store;

/// Recovered journals up to this number are kept until the memtable is full; with more of them
/// their entries are flushed when the next session begins to write.
const RECOVERED_JOURNALS_MAX: usize = 8;

/// Why memtables are sealed.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum RotateReason {
    /// They were full, and the next ones will be.
    MoreWrites,
    /// They are to be flushed.
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
            let generation = writing.take_generation(&journal);
            self.seal(writing, generation);
        }
        self.log().begin_journal(journal, writing);
        Ok(())
    }

    /// Seals the active memtables and begins a new journal for those to come. Does nothing when
    /// nothing was written since the last time.
    pub(super) fn rotate(&self, writing: &mut Writing, reason: RotateReason) -> Result<()> {
        self.begin_session(writing)?;
        if writing.actives().is_empty() {
            return Ok(());
        }
        self.start_flusher()?;
        let next = self.log().seal_journal(writing)?;
        let generation = writing.take_generation(&next);
        let old = self.log().go_on_in(next, writing);
        if reason == RotateReason::MoreWrites {
            self.request_journal(writing, old);
        }
        self.seal(writing, generation);
        Ok(())
    }

    fn seal(&self, writing: &Writing, generation: Generation) {
        for (tree, _) in &generation.tables {
            tree.seal_memtable();
        }
        self.log().note_active_bytes(writing);
        self.flusher().push(generation);
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
