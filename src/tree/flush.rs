//! Turns a sealed memtable into segments.

use std::ops::Bound;
use std::sync::Arc;
use std::time::{Duration, Instant};

use crate::compaction::{Output, OutputOptions, Retain};
use crate::cursor::{Cursor, Direction};
use crate::error::Result;
use crate::manifest::{SegmentMeta, Traffic};
use crate::segment::{Finished, Segment};
use crate::services::{EventKind, Services, Tally};

use super::state::Tree;
use super::view::{Sealed, View};

impl Tree {
    /// Writes a sealed memtable to segments and makes them live.
    pub(crate) fn flush(&self, sealed: &Arc<Sealed>) -> Result<()> {
        let started = Instant::now();
        self.write_segments(sealed, |finished| {
            // Before anybody sees that it was: they take the tree to be idle no earlier.
            self.work_times().flushed(self.services().now_ms());
            self.install_flushed(sealed, finished, started)
        })
    }

    /// The memtable was flushed and its journals are gone: all that took this long.
    pub(crate) fn note_flush_time(&self, sealed: &Sealed, took: Duration) {
        self.flush_pace().set(took, sealed.table.bytes());
    }

    /// Writes a memtable to segments, which `install` makes live.
    pub(crate) fn write_segments<T>(
        &self,
        sealed: &Sealed,
        install: impl FnOnce(Vec<Finished>) -> Result<T>,
    ) -> Result<T> {
        let options = self.flush_options(sealed);
        let services = self.services();
        let mut output = Output::new(&services.storage, &services.catalog, options);
        let installed = self
            .write_flush(sealed, &mut output)
            .and_then(|()| output.finish())
            .and_then(install);
        installed.inspect_err(|_| {
            // After a failed edit it is unknown whether the files are live: they stay.
            if !services.monitor.is_poisoned() {
                self.remove_output(&mut output);
            }
        })
    }

    fn flush_options(&self, sealed: &Sealed) -> OutputOptions {
        let version = self.version();
        let filters = self.filters_for(&version, 0, sealed.table.key_count(), &[]);
        let mut options = self.output_options(0, None, filters, sealed.table.sequence_min());
        options.written_ms = self.flushed_ms(&version);
        options
    }

    /// Writes the entries that any reader can still see. No version is held meanwhile: whoever lets
    /// go of one last removes the files that were merged since, and writers wait for a flush.
    fn write_flush(&self, sealed: &Sealed, output: &mut Output<'_>) -> Result<()> {
        let mut retain = Retain::new(self.services().snapshots.sequences());
        let mut walk = sealed.table.walk(Direction::Forward, Bound::Unbounded);
        // All that is older is in segments: memtables are flushed in order. Merges only make it
        // less.
        let is_oldest = |key: &[u8]| {
            let view = self.view();
            view.version
                .runs()
                .iter()
                .all(|run| run.find(key).is_none())
        };
        let mut seen = 0;
        while walk.advance()? {
            seen += 1;
            let entry = walk.entry();
            if retain.keeps(&entry, is_oldest) {
                output.add(&entry)?;
            }
        }
        // The journal goes after this, and with it the last copy of what the walk has missed.
        let count = sealed.table.entry_count();
        assert_eq!(seen, count, "a flush comes by every entry of the memtable");
        Ok(())
    }

    /// Removes what a failed flush or compaction has written.
    pub(crate) fn remove_output(&self, output: &mut Output<'_>) {
        for what in output.remove() {
            self.services().monitor.failed(what);
        }
    }

    /// Opens segments that were just written.
    pub(crate) fn open_finished(
        &self,
        finished: Vec<Finished>,
    ) -> Result<(Vec<SegmentMeta>, Vec<Arc<Segment>>)> {
        let Services {
            storage, store_id, ..
        } = self.services();
        let store_id = *store_id;
        let mut segments = Vec::with_capacity(finished.len());
        let mut added = Vec::with_capacity(finished.len());
        for finished in finished {
            added.push(finished.meta.clone());
            if let Some(what) = finished.filter_refusal {
                let segment = finished.meta.id;
                let event = EventKind::FilterNotBuilt { segment, what };
                self.services().monitor.event(event);
            }
            let loading = self.options().filter_loading();
            let segment = Segment::open(storage, store_id, finished.meta, &loading)?;
            if let Some(damage) = segment.damage() {
                return Err(damage.clone());
            }
            segment.count_from(&Traffic::default(), self.lookups().in_runs_so_far());
            segments.push(Arc::new(
                segment.with_filter_build_time(finished.filter_build_time),
            ));
        }
        Ok((added, segments))
    }

    /// Makes the new segments live: first durably, then for readers.
    fn install_flushed(
        &self,
        sealed: &Arc<Sealed>,
        finished: Vec<Finished>,
        started: Instant,
    ) -> Result<()> {
        let bytes = finished.iter().map(|finished| finished.meta.file_len).sum();
        let services = self.services();
        services.monitor.count(Tally::FlushedBytes, bytes);
        let (added, segments) = self.open_finished(finished)?;
        services.catalog.commit(|manifest, edit| {
            edit.added = added;
            edit.floor = Some(sealed.floor);
            self.add_traffic(manifest, edit);
        })?;
        // Before whoever waits for this flush sees that it was.
        services.monitor.count(Tally::Flushes, 1);
        services.monitor.event(EventKind::Flushed {
            entries: sealed.table.entry_count(),
            bytes,
            took: started.elapsed(),
        });
        self.install(|view| {
            let waits = |one: &&Arc<Sealed>| !Arc::ptr_eq(one, sealed);
            let sealed = view.sealed.iter().filter(waits).cloned().collect();
            let version = view.version.with(segments, &[]);
            View::new(Arc::clone(&view.active), sealed, Arc::new(version))
        });
        Ok(())
    }
}
