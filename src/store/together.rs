//! Merges of many small keyspaces in one go: to one file, and live by one edit.
//!
//! Each by itself would cost a file and some syncs, whatever it holds.

use std::sync::Arc;
use std::time::Instant;

use crate::compaction::{Plan, RunFacts, remove_segments};
use crate::error::{Error, Result};
use crate::segment::{Finished, SegmentFiles};
use crate::services::{EventKind, Tally, nanos};
use crate::tree::{MergePlan, Merging, Tree};

use super::compactor::{Job, inputs_of};
use super::state::Store;

/// Merges of fewer bytes are made together with others.
const SMALL_BYTES: u64 = 4 << 20;

/// Bytes of inputs that are merged together.
const TOGETHER_BYTES: u64 = 64 << 20;

/// A merge of one of the keyspaces.
struct Part {
    tree: Arc<Tree>,
    merging: Arc<Merging>,
    finished: Vec<Finished>,
}

/// Bytes that a plan merges, if it is one that is made together with others.
pub(super) fn small_bytes(plan: &Plan, facts: &[RunFacts]) -> Option<u64> {
    let Plan::Merge { inputs, .. } = plan else {
        return None;
    };
    let segments = facts.iter().flat_map(|run| &run.segments);
    let merged = segments.filter(|one| inputs.contains(&one.id));
    let bytes = merged.map(|one| one.bytes).sum();
    (bytes < SMALL_BYTES).then_some(bytes)
}

/// Whether so many bytes of inputs are enough.
pub(super) fn is_enough(bytes: u64) -> bool {
    bytes >= TOGETHER_BYTES
}

impl Store {
    /// Carries out the merges of a job, which are small.
    pub(super) fn merge_together(&self, job: &Job) -> Result<()> {
        let started = Instant::now();
        let services = self.services();
        let mut ids = Vec::new();
        let merged = self
            .write_together(job, &mut ids)
            .and_then(|parts| self.install_together(parts, started));
        merged.inspect_err(|_| {
            // After a failed edit it is unknown whether the files are live: they stay.
            if !services.monitor.is_poisoned() {
                for what in remove_segments(&services.storage, &services.catalog, ids) {
                    services.monitor.failed(what);
                }
            }
        })
    }

    fn write_together(&self, job: &Job, ids: &mut Vec<u64>) -> Result<Vec<Part>> {
        let rest = |time| self.compactor().rest(time);
        let mut file = None;
        let mut parts = Vec::new();
        for (tree, plan) in job.all() {
            let (level, target) = match plan {
                Plan::Merge { level, target, .. } => (*level, *target),
                // Only merges are small.
                _ => continue,
            };
            let plan = MergePlan {
                inputs: inputs_of(plan),
                level,
                target,
                parts_max: 1,
            };
            let merging = tree.begin_merge(&plan, &job.progress)?;
            let finished = tree.merge_to_file(&merging, &mut file, ids, &rest)?;
            parts.push(Part {
                tree: Arc::clone(tree),
                merging,
                finished,
            });
        }
        if let Some(file) = file {
            file.sync()?;
        }
        let storage = &self.services().storage;
        storage
            .sync_dir()
            .map_err(|error| Error::io(storage.path_of(""), error))?;
        Ok(parts)
    }

    fn install_together(&self, parts: Vec<Part>, started: Instant) -> Result<()> {
        let services = self.services();
        let mut files = SegmentFiles::of(&services.storage);
        let mut opened = Vec::new();
        for Part {
            tree,
            merging,
            finished,
        } in parts
        {
            let (_, segments) = tree.open_finished_in(&mut files, finished)?;
            tree.count_compacted(&segments, merging.inputs());
            opened.push((tree, merging, segments));
        }
        let mut live = Vec::new();
        services.catalog.commit(|manifest, edit| {
            for (tree, merging, segments) in &opened {
                // What was dropped meanwhile is left out.
                let is_live = tree.check_live(manifest).is_ok();
                if is_live {
                    tree.add_compacted(manifest, edit, (segments, merging.inputs()));
                }
                live.push(is_live);
            }
            Ok(())
        })?;
        let (mut inputs, mut input_bytes, mut bytes, mut level) = (0, 0, 0, 0);
        let count = opened.len() as u64;
        for ((tree, merging, segments), is_live) in opened.into_iter().zip(live) {
            inputs += merging.inputs().len() as u64;
            input_bytes += merging.input_bytes();
            bytes += segments.iter().map(|one| one.meta.len).sum::<u64>();
            level = level.max(segments.first().map_or(0, |one| one.meta.level));
            if is_live {
                tree.show_compacted(segments, merging.inputs());
            } else {
                segments.iter().for_each(|segment| segment.retire());
            }
        }
        let took = started.elapsed();
        services.merge_pace.set(took, input_bytes);
        let monitor = &services.monitor;
        monitor.count(Tally::Compactions, count);
        monitor.count(Tally::CompactedParts, count);
        monitor.count(Tally::CompactionNs, nanos(took));
        monitor.event(EventKind::Compacted {
            level,
            inputs,
            bytes,
            took,
        });
        Ok(())
    }
}
