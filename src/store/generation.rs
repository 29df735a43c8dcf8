//! Memtables of several keyspaces that are sealed, flushed and made live together.
//!
//! Each journal holds the writes of one generation. So one edit makes the segments of all its
//! keyspaces live and the journal dead, and after a crash no keyspace is ahead of another.

use std::sync::Arc;

use crate::error::{Error, Result};
use crate::key::Sequence;
use crate::manifest::{JournalFloor, SegmentMeta};
use crate::memtable::Memtable;
use crate::segment::{Finished, Segment, SegmentFiles};
use crate::services::Services;
use crate::tree::{Destination, Tree};

/// Memtables of fewer bytes share one file, so that many small keyspaces cost few files and syncs.
const SHARES_FILE_BYTES: u64 = 4 << 20;

/// The memtables that were sealed together.
#[derive(Debug)]
pub(super) struct Generation {
    pub(super) tables: Vec<(Arc<Tree>, Arc<Memtable>)>,
    /// At most the sequence of every entry, and the highest sequence.
    pub(super) first: Sequence,
    pub(super) last: Sequence,
    /// Where the journals begin that are needed once it is flushed.
    pub(super) floor: JournalFloor,
}

/// The segments of one memtable, open and durable, but not live.
pub(super) struct Flushed {
    pub(super) tree: Arc<Tree>,
    pub(super) table: Arc<Memtable>,
    pub(super) added: Vec<SegmentMeta>,
    pub(super) segments: Vec<Arc<Segment>>,
}

impl Generation {
    /// Memory of all memtables.
    pub(super) fn bytes(&self) -> u64 {
        self.tables.iter().map(|(_, table)| table.bytes()).sum()
    }

    /// Entries in all memtables.
    pub(super) fn entries(&self) -> u64 {
        let entries = self.tables.iter().map(|(_, table)| table.entry_count());
        entries.sum()
    }

    /// Writes all memtables to segments, which `install` makes live. Keyspaces that were dropped
    /// are left out.
    pub(super) fn write<T>(
        &self,
        services: &Services,
        install: impl FnOnce(Vec<Flushed>) -> Result<T>,
    ) -> Result<T> {
        let mut ids = Vec::new();
        let installed = self
            .write_files(services, &mut ids)
            .and_then(|written| self.open(services, written))
            .and_then(install);
        installed.inspect_err(|_| {
            // After a failed edit it is unknown whether the files are live: they stay.
            if !services.monitor.is_poisoned() {
                let (storage, numbers) = (&services.storage, &services.catalog);
                for what in crate::compaction::remove_segments(storage, numbers, ids) {
                    services.monitor.failed(what);
                }
            }
        })
    }

    /// Writes the files, durably. Notes the numbers of all segments, also of those that failed.
    fn write_files(
        &self,
        services: &Services,
        ids: &mut Vec<u64>,
    ) -> Result<Vec<Option<Vec<Finished>>>> {
        let mut shared = None;
        let mut all = Vec::with_capacity(self.tables.len());
        for (tree, table) in &self.tables {
            if tree.view().is_dropped {
                all.push(None);
                continue;
            }
            let shares = self.tables.len() > 1 && table.bytes() < SHARES_FILE_BYTES;
            let destination = match shares {
                true => Destination::Shared(shared.take()),
                false => Destination::Own,
            };
            let mut output = tree.flush_output(table, destination);
            let written = tree.write_sealed(table, &mut output);
            let finished = written.and_then(|()| output.finish_all());
            if shares {
                shared = output.take_file();
            }
            ids.extend(output.into_ids());
            all.push(Some(finished?));
        }
        if let Some(file) = shared {
            file.sync()?;
        }
        let storage = &services.storage;
        storage
            .sync_dir()
            .map_err(|error| Error::io(storage.path_of(""), error))?;
        Ok(all)
    }

    fn open(
        &self,
        services: &Services,
        written: Vec<Option<Vec<Finished>>>,
    ) -> Result<Vec<Flushed>> {
        let mut files = SegmentFiles::of(&services.storage);
        let mut all = Vec::with_capacity(written.len());
        for ((tree, table), finished) in self.tables.iter().zip(written) {
            let Some(finished) = finished else { continue };
            let (added, segments) = tree.open_finished_in(&mut files, finished)?;
            all.push(Flushed {
                tree: Arc::clone(tree),
                table: Arc::clone(table),
                added,
                segments,
            });
        }
        Ok(all)
    }
}
