//! Carries out a merge, whole or cut by key range into parts.
//!
//! The thread that begins a merge offers its parts to the others. Those that have nothing else to
//! do take some, it does the rest itself, and installs what all have written by one edit. So no
//! more threads work than there are, and what is urgent need not wait for a large merge. When a
//! part fails or is cancelled the others end, too, and the output of all is removed.

use std::cell::Cell;
use std::sync::atomic::Ordering;
use std::sync::{Arc, Condvar, Mutex};
use std::time::{Duration, Instant};

use crate::compaction::{
    self, Extent, FileNumbers, Inputs, Output, OutputOptions, Progress, Target, remove_segments,
};
use crate::error::{Error, Result};
use crate::key::Sequence;
use crate::segment::{Finished, Segment};
use crate::version::Version;

use super::estimate::merged_keys;
use super::shared::{Counters, Shared, lock, nanos};
use super::stats::EventKind;

/// Longest that a merge held back by its rate does not look whether it was cancelled.
const CANCEL: Duration = Duration::from_millis(20);

/// Pieces of a segment that are looked at for where to cut: how evenly is a matter of these.
const PIECES: u32 = 16;

/// A merge under way.
#[derive(Debug)]
pub(super) struct Merging {
    parts: Vec<Inputs>,
    options: OutputOptions,
    progress: Arc<Progress>,
    started: Instant,
    /// Of the parts that have ended, in any order.
    outcomes: Mutex<Vec<(usize, Result<Part>)>>,
    /// A part has ended.
    ended: Condvar,
}

/// A part of a merge that an idle thread may take.
#[derive(Debug)]
pub(super) struct Offer {
    merging: Arc<Merging>,
    part: usize,
}

/// What a part has written.
#[derive(Debug)]
struct Part {
    finished: Vec<Finished>,
    ids: Vec<u64>,
    took: Duration,
}

impl Merging {
    /// Waits for all parts; what they have written, in key order.
    fn wait(&self) -> Vec<Result<Part>> {
        let mut outcomes = lock(&self.outcomes);
        while outcomes.len() < self.parts.len() {
            outcomes = self
                .ended
                .wait(outcomes)
                .unwrap_or_else(std::sync::PoisonError::into_inner);
        }
        let mut all = std::mem::take(&mut *outcomes);
        all.sort_by_key(|(part, _)| *part);
        all.into_iter().map(|(_, outcome)| outcome).collect()
    }
}

/// Into how many parts a merge may be cut, when so many of all threads have work of their own: as
/// many as idle threads can take with the one that begins it. Merges into deep levels may be long;
/// unless one was asked for, or writers pause, or what is flushed meanwhile must wait for it anyway, a
/// thread stays free for that.
pub(super) fn parts_max((threads, at_work): (usize, usize), level: u32, is_free: bool) -> usize {
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

impl Shared {
    pub(super) fn merge(
        &self,
        ids: &[u64],
        (level, target): (u32, Target),
        progress: &Arc<Progress>,
        parts_max: usize,
    ) -> Result<()> {
        let version = Arc::clone(&self.view.load().version);
        let inputs = Inputs::of(&version, ids, level, self.snapshot_sequences());
        let input_bytes: u64 = inputs.segments().map(|one| one.meta.file_len).sum();
        let keys = merged_keys(&inputs.runs, !inputs.older.is_empty());
        let filters = self.filters_for(&version, level, keys, ids);
        let base = inputs.segments().filter_map(|one| one.sequence_min()).min();
        let cuts = self.cuts(&inputs, parts_max);
        // Parts of one run need its number before there is a file; one merge names it by its first.
        let (run, own_run) = match target {
            Target::Join(run) => (Some(run), None),
            Target::NewRun if cuts.is_empty() => (None, None),
            Target::NewRun => {
                let run = self.allocate()?;
                (Some(run), Some(run))
            }
        };
        let mut options = self.output_options((level, run), filters, base.unwrap_or(Sequence(0)));
        options.written_ms = self.merged_ms(inputs.segments());
        options.below = last_keys(&version, level + 1);
        let merging = Arc::new(Merging {
            parts: inputs.cut(&cuts),
            options,
            progress: Arc::clone(progress),
            started: Instant::now(),
            outcomes: Mutex::default(),
            ended: Condvar::new(),
        });
        let written = self.write_parts(&merging);
        let merged = written.and_then(|parts| self.install_parts(parts, ids));
        let (bytes, spent) = merged.inspect_err(|_| {
            if let Some(run) = own_run
                && self.poison.get().is_none()
            {
                self.give_back(run);
            }
        })?;
        let took = merging.started.elapsed();
        // By what was worked off: next to nothing may be left of it.
        self.compact_ns_per_kib
            .store(nanos(took) / (input_bytes >> 10).max(1), Ordering::Relaxed);
        Counters::add(&self.counters.compactions, 1);
        Counters::add(&self.counters.compacted_parts, merging.parts.len() as u64);
        Counters::add(&self.counters.compaction_ns, nanos(spent));
        self.event(EventKind::Compacted {
            level,
            inputs: ids.len() as u64,
            bytes,
            took,
        });
        Ok(())
    }

    fn cuts(&self, inputs: &Inputs, parts_max: usize) -> Vec<Vec<u8>> {
        if parts_max < 2 {
            return Vec::new();
        }
        let extents: Vec<Extent> = inputs.segments().flat_map(|one| extents(one)).collect();
        compaction::cuts(&extents, parts_max, self.options.segment_bytes)
    }

    /// Merges all parts, with the help of idle threads.
    fn write_parts(&self, merging: &Arc<Merging>) -> Result<Vec<Part>> {
        if merging.parts.len() > 1 {
            let mut compacting = lock(&self.compacting);
            let offers = (1..merging.parts.len()).map(|part| Offer {
                merging: Arc::clone(merging),
                part,
            });
            compacting.offers.extend(offers);
            drop(compacting);
            self.compact_work.notify_all();
        }
        self.merge_part(merging, 0);
        while let Some(part) = self.take_back(merging) {
            self.merge_part(merging, part);
        }
        let outcomes = merging.wait();
        let is_cause = |error: &&Error| !matches!(error, Error::Cancelled);
        let errors = || outcomes.iter().filter_map(|outcome| outcome.as_ref().err());
        let Some(error) = errors().find(is_cause).or_else(|| errors().next()).cloned() else {
            return outcomes.into_iter().collect();
        };
        self.remove_parts(outcomes.into_iter().flatten().flat_map(|part| part.ids));
        Err(error)
    }

    fn take_back(&self, merging: &Arc<Merging>) -> Option<usize> {
        let mut compacting = lock(&self.compacting);
        let offers = &mut compacting.offers;
        let is_ours = |offer: &Offer| Arc::ptr_eq(&offer.merging, merging);
        let at = offers.iter().position(is_ours)?;
        offers.remove(at).map(|offer| offer.part)
    }

    pub(super) fn help(&self, offer: &Offer) {
        self.merge_part(&offer.merging, offer.part);
    }

    /// Tells of the end of the part, come what may: someone waits for it.
    fn merge_part(&self, merging: &Merging, part: usize) {
        let outcome = self.or_poison("merge", || self.write_part(merging, &merging.parts[part]));
        if outcome.is_err() {
            merging.progress.cancelled.store(true, Ordering::Relaxed);
        }
        lock(&merging.outcomes).push((part, outcome));
        merging.ended.notify_all();
    }

    fn write_part(&self, merging: &Merging, inputs: &Inputs) -> Result<Part> {
        let started = Instant::now();
        let progress = &*merging.progress;
        if progress.cancelled.load(Ordering::Relaxed) {
            return Err(Error::Cancelled);
        }
        let mut output = Output::new(&self.storage, self, merging.options.clone());
        let counted = Cell::new(0);
        let pace = |bytes: u64| {
            let more = bytes - counted.replace(bytes);
            let all = progress.written_bytes.fetch_add(more, Ordering::Relaxed) + more;
            self.pace(merging.started, all, progress);
        };
        let merged = compaction::merge(inputs, &self.no_caches, &mut output, progress, &pace)
            .and_then(|()| output.finish());
        match merged {
            Ok(finished) => Ok(Part {
                finished,
                ids: output.into_ids(),
                took: started.elapsed(),
            }),
            Err(error) => {
                if self.poison.get().is_none() {
                    self.remove_output(&mut output);
                }
                Err(error)
            }
        }
    }

    /// Makes all parts live at once. Returns their bytes and the time they took.
    fn install_parts(&self, parts: Vec<Part>, inputs: &[u64]) -> Result<(u64, Duration)> {
        let spent = parts.iter().map(|part| part.took).sum();
        let ids: Vec<u64> = parts.iter().flat_map(|part| &part.ids).copied().collect();
        let finished: Vec<Finished> = parts.into_iter().flat_map(|part| part.finished).collect();
        let bytes = finished.iter().map(|finished| finished.meta.file_len).sum();
        self.open_finished(finished)
            .and_then(|(_, segments)| self.install_compacted(segments, inputs))
            .inspect_err(|_| self.remove_parts(ids.into_iter()))?;
        Ok((bytes, spent))
    }

    /// Removes segments that are not live. After a failed edit it is unknown whether they are.
    fn remove_parts(&self, ids: impl Iterator<Item = u64>) {
        if self.poison.get().is_none() {
            for what in remove_segments(&self.storage, self, ids.collect()) {
                self.event(EventKind::Failed { what });
            }
        }
    }

    /// Waits until this many bytes may have been written at the allowed rate.
    fn pace(&self, started: Instant, bytes: u64, progress: &Progress) {
        let Some(rate) = self.options.compaction_rate else {
            return;
        };
        let due = Duration::from_secs_f64(bytes as f64 / rate as f64);
        let mut compacting = lock(&self.compacting);
        while !compacting.stop && !progress.cancelled.load(Ordering::Relaxed) {
            let Some(early) = due.checked_sub(started.elapsed()) else {
                return;
            };
            let early = early.min(CANCEL);
            compacting = match self.compact_work.wait_timeout(compacting, early) {
                Ok((guard, _)) => guard,
                Err(poisoned) => poisoned.into_inner().0,
            };
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts_are_for_idle_threads() {
        // The thread that begins a merge is at work already.
        assert_eq!(parts_max((1, 1), 1, false), 1);
        assert_eq!(parts_max((2, 1), 1, false), 2);
        assert_eq!(parts_max((2, 2), 1, false), 1);
        assert_eq!(parts_max((2, 1), 2, false), 1);
        assert_eq!(parts_max((2, 1), 2, true), 2);
        assert_eq!(parts_max((8, 3), 5, false), 5);
        assert_eq!(parts_max((8, 3), 5, true), 6);
        assert_eq!(parts_max((1, 1), 5, false), 1);
    }
}
