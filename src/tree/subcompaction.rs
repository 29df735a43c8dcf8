//! Carries out a merge, whole or cut by key range into parts.
//!
//! One thread begins a merge and ends it, any thread may merge a part. What all have written
//! becomes live by one edit. When a part fails or is cancelled the others end, too, and the output
//! of all is removed.

use std::cell::Cell;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use crate::compaction::{
    self, Extent, FileNumbers, Inputs, Output, OutputOptions, Progress, Target, remove_segments,
};
use crate::error::{Error, Result};
use crate::key::Sequence;
use crate::locks::{Mutex, Signal, rank};
use crate::segment::{Finished, NewFile, Segment};
use crate::services::{EventKind, Services, Tally, nanos};
use crate::version::Version;

use super::estimate::merged_keys;
use super::state::Tree;

/// Longest that a merge held back by its rate does not look whether it was cancelled.
const CANCEL: Duration = Duration::from_millis(20);

/// Pieces of a segment that are looked at for where to cut: how evenly is a matter of these.
const PIECES: u32 = 16;

/// A merge under way.
#[derive(Debug)]
pub(crate) struct Merging {
    level: u32,
    inputs: Vec<u64>,
    input_bytes: u64,
    /// The number of the run that this merge makes, if it needed one before it had written.
    own_run: Option<u64>,
    parts: Vec<Inputs>,
    options: OutputOptions,
    progress: Arc<Progress>,
    /// Bytes that merges before this one have noted there.
    before: u64,
    started: Instant,
    /// Of the parts that have ended, in any order.
    outcomes: Mutex<Vec<(usize, Result<Part>)>, { rank::MERGE_PARTS }>,
    /// A part has ended.
    ended: Signal,
}

/// What a part has written.
#[derive(Debug)]
struct Part {
    finished: Vec<Finished>,
    ids: Vec<u64>,
    took: Duration,
}

impl Merging {
    /// The segments that are merged.
    pub(crate) fn inputs(&self) -> &[u64] {
        &self.inputs
    }

    /// Bytes of these.
    pub(crate) fn input_bytes(&self) -> u64 {
        self.input_bytes
    }

    /// Parts that can be merged at the same time, by their ordinals.
    pub(crate) fn part_count(&self) -> usize {
        self.parts.len()
    }

    /// Waits for all parts; what they have written, in key order.
    fn wait(&self) -> Vec<Result<Part>> {
        let mut outcomes = self.outcomes.lock();
        while outcomes.len() < self.parts.len() {
            outcomes = self.ended.wait(outcomes);
        }
        let mut all = std::mem::take(&mut *outcomes);
        all.sort_by_key(|(part, _)| *part);
        all.into_iter().map(|(_, outcome)| outcome).collect()
    }
}

/// Into how many parts a merge may be cut, when so many of all threads have work of their own: as
/// many as idle threads can take with the one that begins it. Merges into deep levels may be long;
/// unless one was asked for, or the tree is idle, or what is flushed meanwhile must wait for it
/// anyway, a thread stays free for that.
pub(crate) fn parts_max(threads: usize, at_work: usize, level: u32, is_free: bool) -> usize {
    let spare = usize::from(level > 1 && !is_free);
    threads
        .saturating_sub(at_work.saturating_sub(1) + spare)
        .max(1)
}

/// The pieces of a segment between which it may be cut.
fn extents(segment: &Segment) -> Vec<Extent> {
    let pieces = segment.pieces(PIECES);
    let last = std::iter::once(&segment.meta.last_key);
    let ends = pieces.iter().skip(1).map(|(key, _)| key).chain(last);
    let extent = |((first_key, bytes), last_key): (&(Vec<u8>, u64), &Vec<u8>)| Extent {
        first_key: first_key.clone(),
        last_key: last_key.clone(),
        bytes: *bytes,
    };
    pieces.iter().zip(ends).map(extent).collect()
}

/// The last keys of the segments of a level that is one run.
fn last_keys(version: &Version, level: u32) -> Arc<[Vec<u8>]> {
    let mut runs = version.runs().iter().filter(|run| run.level == level);
    let (Some(run), None) = (runs.next(), runs.next()) else {
        return Arc::default();
    };
    let last_key = |one: &Arc<Segment>| one.meta.last_key.clone();
    run.segments.iter().map(last_key).collect()
}

/// What is merged, and where to.
#[derive(Clone, Copy, Debug)]
pub(crate) struct MergePlan<'a> {
    pub(crate) inputs: &'a [u64],
    pub(crate) level: u32,
    pub(crate) target: Target,
    /// Into how many parts it may be cut.
    pub(crate) parts_max: usize,
}

/// Waits for at most a time while the rate of a merge is too high; `false` when it shall wait no
/// longer.
pub(crate) type Rest<'a> = &'a dyn Fn(Duration) -> bool;

impl Tree {
    /// Begins a merge: after this its parts can be merged by any threads.
    pub(crate) fn begin_merge(
        &self,
        plan: &MergePlan<'_>,
        progress: &Arc<Progress>,
    ) -> Result<Arc<Merging>> {
        let MergePlan { level, .. } = *plan;
        let ids = plan.inputs;
        let services = self.services();
        let version = self.version();
        let inputs = Inputs::of(&version, ids, level, services.snapshots.sequences())
            .combining(self.operator());
        let input_bytes: u64 = inputs.segments().map(|one| one.meta.len).sum();
        let keys = merged_keys(&inputs.runs, !inputs.older.is_empty());
        let filters = self.filters_for(&version, level, keys, ids);
        let base = inputs.segments().filter_map(|one| one.sequence_min()).min();
        let cuts = self.cuts(&inputs, plan.parts_max);
        // Parts of one run need its number before there is a file; one merge names it by its first.
        let (run, own_run) = match plan.target {
            Target::Join(run) => (Some(run), None),
            Target::NewRun if cuts.is_empty() => (None, None),
            Target::NewRun => {
                let run = services.catalog.allocate()?;
                (Some(run), Some(run))
            }
        };
        let base = base.unwrap_or(Sequence(0));
        let mut options = self.output_options(level, run, filters, base);
        options.written_ms = self.merged_ms(inputs.segments());
        options.below = last_keys(&version, level + 1);
        Ok(Arc::new(Merging {
            level,
            inputs: ids.to_vec(),
            input_bytes,
            own_run,
            parts: inputs.cut(&cuts),
            options,
            progress: Arc::clone(progress),
            before: progress.written_bytes.load(Ordering::Relaxed),
            started: Instant::now(),
            outcomes: Mutex::default(),
            ended: Signal::default(),
        }))
    }

    fn cuts(&self, inputs: &Inputs, parts_max: usize) -> Vec<Vec<u8>> {
        if parts_max < 2 {
            return Vec::new();
        }
        let extents: Vec<Extent> = inputs.segments().flat_map(|one| extents(one)).collect();
        compaction::cuts(&extents, parts_max, self.options().segment_bytes)
    }

    /// Merges one part. Notes its end, come what may: the thread that began the merge waits for it.
    pub(crate) fn merge_part(&self, merging: &Merging, part: usize, rest: Rest<'_>) {
        let write = || self.write_part(merging, &merging.parts[part], rest);
        let outcome = self.services().monitor.or_poison("merge", write);
        if outcome.is_err() {
            merging.progress.cancelled.store(true, Ordering::Relaxed);
        }
        merging.outcomes.lock().push((part, outcome));
        merging.ended.notify_all();
    }

    fn write_part(&self, merging: &Merging, inputs: &Inputs, rest: Rest<'_>) -> Result<Part> {
        let started = Instant::now();
        let services = self.services();
        let options = merging.options.clone();
        let mut output = Output::new(&services.storage, &services.catalog, options);
        let merged = self.merge_to(&mut output, merging, inputs, rest);
        match merged.and_then(|()| output.finish()) {
            Ok(finished) => Ok(Part {
                finished,
                ids: output.into_ids(),
                took: started.elapsed(),
            }),
            Err(error) => {
                if !services.monitor.is_poisoned() {
                    self.remove_output(&mut output);
                }
                Err(error)
            }
        }
    }

    /// Merges all of a merge that has one part to a file, behind what is there. Notes the numbers
    /// of the segments, which the caller removes after a failure.
    pub(crate) fn merge_to_file(
        &self,
        merging: &Merging,
        file: &mut Option<NewFile>,
        ids: &mut Vec<u64>,
        rest: Rest<'_>,
    ) -> Result<Vec<Finished>> {
        let Services {
            storage, catalog, ..
        } = self.services();
        let options = merging.options.clone();
        let mut output = Output::in_file(storage, catalog, options, file.take());
        let mut parts = merging.parts.iter();
        let merged = parts
            .try_for_each(|part| self.merge_to(&mut output, merging, part, rest))
            .and_then(|()| output.finish_all());
        *file = output.take_file();
        ids.extend(output.into_ids());
        merged
    }

    fn merge_to(
        &self,
        output: &mut Output<'_>,
        merging: &Merging,
        inputs: &Inputs,
        rest: Rest<'_>,
    ) -> Result<()> {
        let progress = &*merging.progress;
        if progress.cancelled.load(Ordering::Relaxed) {
            return Err(Error::Cancelled);
        }
        let counted = Cell::new(0);
        let pace = |bytes: u64| {
            let more = bytes - counted.replace(bytes);
            let all = progress.written_bytes.fetch_add(more, Ordering::Relaxed) + more;
            self.pace(merging, all.saturating_sub(merging.before), rest);
        };
        let no_caches = &self.services().no_caches;
        let refusal = compaction::merge(inputs, no_caches, output, progress, &pace)?;
        self.note_refusal("merge", refusal);
        Ok(())
    }

    /// Waits until this many bytes may have been written at the allowed rate.
    fn pace(&self, merging: &Merging, bytes: u64, rest: Rest<'_>) {
        let Some(rate) = self.services().compaction_rate else {
            return;
        };
        let due = Duration::from_secs_f64(bytes as f64 / rate as f64);
        while !merging.progress.cancelled.load(Ordering::Relaxed) {
            let Some(early) = due.checked_sub(merging.started.elapsed()) else {
                return;
            };
            if !rest(early.min(CANCEL)) {
                return;
            }
        }
    }

    /// Waits for all parts of a merge and makes what they have written live at once.
    pub(crate) fn finish_merge(&self, merging: &Merging) -> Result<()> {
        let services = self.services();
        let merged = self
            .parts_of(merging)
            .and_then(|parts| self.install_parts(parts, &merging.inputs));
        let (bytes, spent) = merged.inspect_err(|_| {
            if let Some(run) = merging.own_run
                && !services.monitor.is_poisoned()
            {
                services.catalog.give_back(run);
            }
        })?;
        let took = merging.started.elapsed();
        // By what was worked off: next to nothing may be left of it.
        services.merge_pace.set(took, merging.input_bytes);
        let monitor = &services.monitor;
        monitor.count(Tally::Compactions, 1);
        monitor.count(Tally::CompactedParts, merging.parts.len() as u64);
        monitor.count(Tally::CompactionNs, nanos(spent));
        monitor.event(EventKind::Compacted {
            level: merging.level,
            inputs: merging.inputs.len() as u64,
            bytes,
            took,
        });
        Ok(())
    }

    /// Waits for the parts; when one has failed, removes what the others have written.
    fn parts_of(&self, merging: &Merging) -> Result<Vec<Part>> {
        let outcomes = merging.wait();
        let is_cause = |error: &&Error| !matches!(error, Error::Cancelled);
        let errors = || outcomes.iter().filter_map(|outcome| outcome.as_ref().err());
        let Some(error) = errors().find(is_cause).or_else(|| errors().next()).cloned() else {
            return outcomes.into_iter().collect();
        };
        self.remove_parts(outcomes.into_iter().flatten().flat_map(|part| part.ids));
        Err(error)
    }

    /// Makes all parts live at once. Returns their bytes and the time they took.
    fn install_parts(&self, parts: Vec<Part>, inputs: &[u64]) -> Result<(u64, Duration)> {
        let spent = parts.iter().map(|part| part.took).sum();
        let ids: Vec<u64> = parts.iter().flat_map(|part| &part.ids).copied().collect();
        let finished: Vec<Finished> = parts.into_iter().flat_map(|part| part.finished).collect();
        let bytes = finished.iter().map(|finished| finished.meta.len).sum();
        self.open_finished(finished)
            .and_then(|(_, segments)| self.install_compacted(segments, inputs))
            .inspect_err(|_| self.remove_parts(ids.into_iter()))?;
        Ok((bytes, spent))
    }

    /// Removes segments that are not live. After a failed edit it is unknown whether they are.
    fn remove_parts(&self, ids: impl Iterator<Item = u64>) {
        let services = self.services();
        if !services.monitor.is_poisoned() {
            let (storage, numbers) = (&services.storage, &services.catalog);
            for what in remove_segments(storage, numbers, ids.collect()) {
                services.monitor.failed(what);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts_are_for_idle_threads() {
        // The thread that begins a merge is at work already.
        assert_eq!(parts_max(1, 1, 1, false), 1);
        assert_eq!(parts_max(2, 1, 1, false), 2);
        assert_eq!(parts_max(2, 2, 1, false), 1);
        assert_eq!(parts_max(2, 1, 2, false), 1);
        assert_eq!(parts_max(2, 1, 2, true), 2);
        assert_eq!(parts_max(8, 3, 5, false), 5);
        assert_eq!(parts_max(8, 3, 5, true), 6);
        assert_eq!(parts_max(1, 1, 5, false), 1);
    }
}
