//! Turns a sealed memtable into segments.

use std::ops::Bound;
use std::sync::Arc;

use crate::compaction::{Output, Retain};
use crate::cursor::{Cursor, Direction};
use crate::error::{Error, Result};
use crate::manifest::{SegmentMeta, Traffic};
use crate::memtable::Memtable;
use crate::segment::{Finished, NewFile, Segment, SegmentFiles};
use crate::services::{EventKind, Services};

use super::state::Tree;
use super::view::View;

/// Where the segments of a flush go.
pub(crate) enum Destination {
    /// To files of their own.
    Own,
    /// To one file, behind what is there, if there is one yet.
    Shared(Option<NewFile>),
}

impl Tree {
    /// The output to which [`Tree::write_sealed`] writes a sealed memtable.
    pub(crate) fn flush_output(&self, table: &Memtable, destination: Destination) -> Output<'_> {
        let version = self.version();
        let filters = self.filters_for(&version, 0, table.key_count(), &[]);
        let mut options = self.output_options(0, None, filters, table.sequence_min());
        options.written_ms = self.flushed_ms(&version);
        let (storage, catalog) = (&self.services().storage, &self.services().catalog);
        match destination {
            Destination::Own => Output::new(storage, catalog, options),
            Destination::Shared(file) => Output::in_file(storage, catalog, options, file),
        }
    }

    /// Writes the entries that any reader can still see. No version is held meanwhile: whoever lets
    /// go of one last removes the files that were merged since, and writers wait for a flush.
    pub(crate) fn write_sealed(
        &self,
        table: &Arc<Memtable>,
        output: &mut Output<'_>,
    ) -> Result<()> {
        let snapshots = self.services().snapshots.sequences();
        let mut retain = Retain::new(snapshots, self.operator().clone());
        let mut walk = table.walk(Direction::Forward, Bound::Unbounded);
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
            retain.take(&walk.entry(), &is_oldest, &mut |entry| output.add(entry))?;
        }
        let refusal = retain.finish(&is_oldest, &mut |entry| output.add(entry))?;
        self.note_refusal("flush", refusal);
        // The journal goes after this, and with it the last copy of what the walk has missed.
        let count = table.entry_count();
        assert_eq!(seen, count, "a flush comes by every entry of the memtable");
        Ok(())
    }

    /// Operands were written as they are, because the operator has refused them: lookups will, too.
    pub(super) fn note_refusal(&self, work: &str, refusal: Option<Error>) {
        if let Some(error) = refusal {
            self.services().monitor.failed(format!("{work}: {error}"));
        }
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
        let mut files = SegmentFiles::of(&self.services().storage);
        self.open_finished_in(&mut files, finished)
    }

    /// The same, of files that hold segments of other trees, too.
    pub(crate) fn open_finished_in(
        &self,
        files: &mut SegmentFiles<'_>,
        finished: Vec<Finished>,
    ) -> Result<(Vec<SegmentMeta>, Vec<Arc<Segment>>)> {
        let Services {
            store_id, loading, ..
        } = self.services();
        let mut segments = Vec::with_capacity(finished.len());
        let mut added = Vec::with_capacity(finished.len());
        for finished in finished {
            added.push(finished.meta.clone());
            if let Some(what) = finished.filter_refusal {
                let segment = finished.meta.id;
                let event = EventKind::FilterNotBuilt { segment, what };
                self.services().monitor.event(event);
            }
            let file = files.of_segment(&finished.meta)?;
            let segment = Segment::open(&file, *store_id, finished.meta, loading)?;
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

    /// Shows readers the segments in place of the memtable, once they are live durably.
    pub(crate) fn install_flushed(&self, table: &Arc<Memtable>, segments: Vec<Arc<Segment>>) {
        // Before anybody sees that it was: they take the tree to be idle no earlier.
        self.work_times().flushed(self.services().now_ms());
        let view = |view: &View| view.with_flushed(table, segments);
        self.install(view);
    }
}
