//! Rebuilds filters without rewriting data.

use std::sync::Arc;

use crate::bounds::Bounds;
use crate::compaction::FileNumbers;
use crate::error::{Error, Result};
use crate::manifest::SegmentMeta;
use crate::segment::{self, Segment, SidecarOptions};
use criba_filters::segment::FilterSpec;

use super::shared::{Shared, View, lock};

/// What [`Db::rebuild_filters`](crate::Db::rebuild_filters) did.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Rebuilt {
    /// Segments that overlap the range.
    pub segments: u64,
    /// Of these, given a new filter.
    pub rebuilt: u64,
    /// Bytes of the new filter files.
    pub written_bytes: u64,
}

impl Shared {
    pub(crate) fn rebuild_filters(&self, range: &Bounds) -> Result<Rebuilt> {
        let mut done = Rebuilt::default();
        let version = Arc::clone(&self.view.load().version);
        let overlapping = version.segments().filter(|one| one.overlaps(range));
        for id in overlapping.map(|segment| segment.meta.id) {
            if !self.hold(id)? {
                continue;
            }
            let rebuilt = self.rebuild_filter(id);
            self.let_go(id);
            done.segments += 1;
            if let Some(bytes) = rebuilt? {
                done.rebuilt += 1;
                done.written_bytes += bytes;
            }
        }
        Ok(done)
    }

    /// Rebuilds the filter of one segment that nobody else works on; `None` when it fits.
    fn rebuild_filter(&self, id: u64) -> Result<Option<u64>> {
        let version = Arc::clone(&self.view.load().version);
        let Some(segment) = version.segments().find(|one| one.meta.id == id) else {
            return Ok(None);
        };
        let wanted = self.filter_for_rebuilt(&version, segment);
        let Some(spec) = wanted.filter(|_| !segment.filter_fits(wanted, &self.options.customs))
        else {
            return Ok(None);
        };
        let file = self.allocate()?;
        let written = self
            .write_filter(segment, file, spec)
            .and_then(|(bytes, meta)| self.install_filter(segment, meta).map(|()| bytes));
        if let Err(error) = &written
            && self.poison.get().is_none()
        {
            let name = segment::filter_file_name(file);
            if self.storage.remove(&name).is_ok() || matches!(error, Error::Missing { .. }) {
                self.give_back(file);
            }
        }
        written.map(Some)
    }

    fn write_filter(
        &self,
        segment: &Segment,
        file: u64,
        spec: FilterSpec,
    ) -> Result<(u64, SegmentMeta)> {
        let options = SidecarOptions {
            id: file,
            store_id: self.store_id,
            hash_seed: self.hash_seed,
            spec,
            customs: self.options.customs.clone(),
            salt: segment::filter_salt(self.hash_seed, file),
        };
        let bytes = segment.write_sidecar(&self.storage, &self.no_caches, &options)?;
        let synced = self.storage.sync_dir();
        synced.map_err(|error| Error::io(self.storage.path_of(""), error))?;
        let meta = SegmentMeta {
            filter_file: file,
            ..segment.meta.clone()
        };
        Ok((bytes, meta))
    }

    /// Makes the segment live with its new filter: first durably, then for readers.
    fn install_filter(&self, old: &Segment, meta: SegmentMeta) -> Result<()> {
        let id = meta.id;
        let loading = self.options.filter_loading();
        let new = Segment::open(&self.storage, self.store_id, meta.clone(), &loading)?;
        if let Some(damage) = new.damage().or_else(|| new.filter_damage()) {
            return Err(damage.clone());
        }
        let mut manifest = lock(&self.manifest);
        let mut edit = manifest.edit();
        edit.removed = vec![id];
        edit.added = vec![meta];
        manifest.commit(&edit).map_err(|error| self.poison(error))?;
        drop(manifest);
        let new = new.with_blocks_of(old);
        self.install_behind(|view| View {
            active: Arc::clone(&view.active),
            sealed: view.sealed.clone(),
            version: Arc::new(view.version.with(vec![Arc::new(new)], &[id])),
        });
        old.retire_filter();
        Ok(())
    }
}
