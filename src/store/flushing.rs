//! The thread that flushes: sealed memtables become segments, oldest first.

use std::sync::Arc;
use std::time::Instant;

use crate::error::{Result, chain};
use crate::services::{EventKind, Tally};
use crate::tree::Tree;

use super::flusher::Task;
use super::generation::{Flushed, Generation};
use super::rotate::RotateReason;
use super::state::Store;

impl Store {
    /// Before memtables are sealed: a thread must flush them.
    pub(super) fn start_flusher(&self) -> Result<()> {
        self.threads().start_flusher(Store::run_flushes)
    }

    /// The background thread: flushes until it shall stop and nothing is left to flush, so that
    /// sessions however short do not leave ever more journals behind.
    fn run_flushes(&self) {
        let monitor = self.monitor();
        loop {
            match self.flusher().next_task(|| !monitor.is_poisoned()) {
                Task::MakeJournal(sealed) => {
                    let made = monitor.or_poison("flush", || self.log().make_journal_ready(sealed));
                    // Whoever needs it tries again, and has to bear what comes of it.
                    if let Err(error) = made {
                        monitor.failed(format!("the next journal: {}", chain(&error)));
                    }
                }
                Task::Flush(generation) => {
                    let work = || self.flush_generation(&generation);
                    let result = monitor.or_poison("flush", work);
                    if let Err(error) = &result {
                        monitor.failed(format!("flush: {}", chain(error)));
                    }
                    drop(generation);
                    if !self.flusher().flushed(result) {
                        return;
                    }
                }
                Task::End => return,
            }
        }
    }

    fn flush_generation(&self, generation: &Generation) -> Result<()> {
        let started = Instant::now();
        let services = self.services();
        let trees = generation.write(services, |flushed| {
            self.install_flushed(generation, flushed, started)
        })?;
        self.log().note_durable(generation.last);
        self.log().forget_journals_before(generation.floor.id);
        self.log().remove_journals_before(generation.floor.id);
        services
            .flush_pace
            .set(started.elapsed(), generation.bytes());
        for tree in &trees {
            self.tree_changed(tree);
        }
        Ok(())
    }

    /// Makes the new segments live: first durably, all by one edit, then for readers.
    fn install_flushed(
        &self,
        generation: &Generation,
        flushed: Vec<Flushed>,
        started: Instant,
    ) -> Result<Vec<Arc<Tree>>> {
        let services = self.services();
        let metas = flushed.iter().flat_map(|one| &one.added);
        let bytes = metas.map(|meta| meta.len).sum();
        services.monitor.count(Tally::FlushedBytes, bytes);
        services.catalog.commit(|manifest, edit| {
            let keyspaces = manifest.state().keyspaces();
            let live = flushed
                .iter()
                .filter(|one| keyspaces.contains_key(&one.tree.id()));
            edit.floor = Some(generation.floor);
            for one in live {
                edit.added.extend(one.added.iter().cloned());
                one.tree.add_traffic(manifest, edit, (&one.added, &[]));
            }
            Ok(())
        })?;
        // Before whoever waits for this flush sees that it was.
        services.monitor.count(Tally::Flushes, 1);
        services.monitor.event(EventKind::Flushed {
            entries: generation.entries(),
            bytes,
            took: started.elapsed(),
        });
        let install = |one: Flushed| {
            let Flushed {
                tree,
                table,
                segments,
                ..
            } = one;
            if tree.view().is_dropped {
                segments.iter().for_each(|segment| segment.retire());
            }
            tree.install_flushed(&table, segments);
            tree
        };
        Ok(flushed.into_iter().map(install).collect())
    }

    /// Seals the active memtables and waits until they, and all before them, are in segments.
    pub(crate) fn flush(&self) -> Result<()> {
        self.monitor().check_writable()?;
        let target = self.visible();
        loop {
            let mut writing = self.log().turn();
            self.monitor().check_writable()?;
            let first = writing.actives().first();
            let is_sealed = first.is_none_or(|first| first > target);
            // However often flushes fail and are requested, no more memtables wait than may.
            let has_room = self.flusher().waiting() < self.options().sealed_memtables_max;
            if !is_sealed && has_room {
                self.rotate(&mut writing, RotateReason::Flush)?;
            }
            drop(writing);
            let check = || self.monitor().check_writable();
            self.flusher().wait_for_flush(target, check)?;
            if is_sealed || has_room {
                return Ok(());
            }
        }
    }
}
