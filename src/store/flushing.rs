//! The thread that flushes: sealed memtables become segments, oldest first.

use std::sync::Arc;
use std::time::Instant;

use crate::error::{Result, chain};
use crate::tree::Sealed;

use super::flusher::Task;
use super::rotate::RotateReason;
use super::state::Store;

impl Store {
    /// Before a memtable is sealed: a thread must flush it.
    pub(super) fn start_flusher(&self) -> Result<()> {
        self.threads().start_flusher(Store::run_flushes)
    }

    /// The background thread: flushes until it shall stop and nothing is left to flush, so that
    /// sessions however short do not leave ever more journals behind.
    fn run_flushes(&self) {
        let monitor = self.monitor();
        let oldest = || {
            let oldest = self.tree().view().sealed.last().cloned();
            oldest.filter(|_| !monitor.is_poisoned())
        };
        loop {
            match self.flusher().next_task(oldest) {
                Task::MakeJournal(sealed) => {
                    let made = monitor.or_poison("flush", || self.log().make_journal_ready(sealed));
                    // Whoever needs it tries again, and has to bear what comes of it.
                    if let Err(error) = made {
                        monitor.failed(format!("the next journal: {}", chain(&error)));
                    }
                }
                Task::Flush(sealed) => {
                    let result = monitor.or_poison("flush", || self.flush_one(&sealed));
                    if let Err(error) = &result {
                        monitor.failed(format!("flush: {}", chain(error)));
                    }
                    drop(sealed);
                    if !self.flusher().flushed(result) {
                        return;
                    }
                }
                Task::End => return,
            }
        }
    }

    fn flush_one(&self, sealed: &Arc<Sealed>) -> Result<()> {
        let started = Instant::now();
        self.tree().flush(sealed)?;
        self.log().note_durable(sealed.last);
        self.log().forget_journals_before(sealed.floor.id);
        self.log().remove_journals_before(sealed.floor.id);
        self.tree().note_flush_time(sealed, started.elapsed());
        self.tree_changed();
        Ok(())
    }

    /// Seals the active memtable and waits until it, and all before it, are in segments.
    pub(crate) fn flush(&self) -> Result<()> {
        self.monitor().check_writable()?;
        let target = self.visible();
        loop {
            let mut writing = self.log().turn();
            self.monitor().check_writable()?;
            let view = self.tree().view();
            let is_sealed = view.active.sequence_min() > target;
            // However often flushes fail and are requested, no more memtables wait than may.
            let has_room = view.sealed.len() < self.options().sealed_memtables_max;
            drop(view);
            if !is_sealed && has_room {
                self.rotate(&mut writing, RotateReason::Flush)?;
            }
            drop(writing);
            // Until no memtable that waits holds entries up to the target.
            let is_newer = |sealed: &Arc<Sealed>| sealed.table.sequence_min() > target;
            self.flusher().wait_for_flush(|| {
                if self.tree().view().sealed.iter().all(is_newer) {
                    return Ok(true);
                }
                self.monitor().check_writable().map(|()| false)
            })?;
            if is_sealed || has_room {
                return Ok(());
            }
        }
    }
}
