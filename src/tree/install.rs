//! Makes what a compaction has done live: first durably, then for readers.

use std::collections::BTreeSet;
use std::sync::Arc;

use crate::error::Result;
use crate::format::manifest::Edit;
use crate::manifest::{Manifest, SegmentMeta};
use crate::segment::Segment;
use crate::services::Tally;

use super::state::Tree;

impl Tree {
    /// Refuses to change a keyspace that was dropped meanwhile.
    pub(crate) fn check_live(&self, manifest: &Manifest) -> Result<()> {
        match manifest.state().keyspaces().contains_key(&self.id()) {
            true => Ok(()),
            false => Err(self.gone()),
        }
    }

    /// Makes the outputs live and the inputs dead: first durably, then for readers.
    pub(super) fn install_compacted(
        &self,
        added: Vec<Arc<Segment>>,
        removed: &[u64],
    ) -> Result<()> {
        self.count_compacted(&added, removed);
        self.services().catalog.commit(|manifest, edit| {
            self.check_live(manifest)?;
            self.add_compacted(manifest, edit, (&added, removed));
            Ok(())
        })?;
        self.show_compacted(added, removed);
        Ok(())
    }

    /// Counts what was written, before it is installed.
    pub(crate) fn count_compacted(&self, added: &[Arc<Segment>], removed: &[u64]) {
        let is_written = |one: &&Arc<Segment>| !removed.contains(&one.meta.id);
        let written = added.iter().filter(is_written);
        let bytes = written.map(|one| one.meta.len).sum();
        let monitor = &self.services().monitor;
        monitor.count(Tally::CompactedBytes, bytes);
    }

    /// Adds the change to an edit.
    pub(crate) fn add_compacted(
        &self,
        manifest: &Manifest,
        edit: &mut Edit,
        (added, removed): (&[Arc<Segment>], &[u64]),
    ) {
        let metas: Vec<SegmentMeta> = added.iter().map(|one| one.meta.clone()).collect();
        self.add_traffic(manifest, edit, (&metas, removed));
        edit.added.extend(metas);
        edit.removed.extend_from_slice(removed);
    }

    /// Shows readers what is live durably.
    pub(crate) fn show_compacted(&self, added: Vec<Arc<Segment>>, removed: &[u64]) {
        // Before anybody sees the new tree, or another thread would find that nothing was done for
        // long.
        self.work_times().compacted(self.services().now_ms());
        let stays: BTreeSet<u64> = added.iter().map(|segment| segment.meta.id).collect();
        self.install(|view| {
            for segment in view.version.segments() {
                let id = segment.meta.id;
                if removed.contains(&id) && !stays.contains(&id) {
                    segment.retire();
                }
            }
            view.with_version(view.version.with(added, removed))
        });
    }

    /// Makes a segment live with a new filter: first durably, then for readers.
    pub(crate) fn install_filter(&self, old: &Segment, meta: SegmentMeta) -> Result<()> {
        let services = self.services();
        let id = meta.id;
        let loading = &self.services().loading;
        let new = Segment::open(old.file(), services.store_id, meta.clone(), loading)?;
        if let Some(damage) = new.damage().or_else(|| new.filter_damage()) {
            return Err(damage.clone());
        }
        services.catalog.commit(|manifest, edit| {
            self.check_live(manifest)?;
            edit.removed = vec![id];
            edit.added = vec![meta];
            Ok(())
        })?;
        let new = Arc::new(new.with_blocks_of(old));
        self.install(|view| view.with_version(view.version.with(vec![new], &[id])));
        old.retire_filter();
        Ok(())
    }
}
