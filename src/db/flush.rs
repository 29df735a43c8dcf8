//! Turns sealed memtables into segments, in the background, oldest first.

use std::ops::Bound;
use std::sync::atomic::Ordering;
use std::sync::{Arc, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use crate::compaction::{Output, OutputOptions, Retain};
use crate::cursor::{Cursor, Direction};
use crate::error::{Error, Result};
use crate::journal;
use crate::key::Sequence;
use crate::manifest::{SegmentMeta, Traffic};
use crate::segment::{Finished, Segment};

use super::rotate::Then;
use super::shared::{Counters, Flushing, Sealed, Shared, View, lock, nanos};
use super::stats::EventKind;

/// Time between attempts while flushing fails.
const RETRY: Duration = Duration::from_secs(1);

/// How long memory of memtables is kept for the next one after a flush.
const KEEP_SPARES: Duration = Duration::from_secs(1);

impl Shared {
    /// The background thread: flushes until it is told to stop and nothing is left to flush, so
    /// that sessions however short do not leave ever more journals behind.
    pub(crate) fn run_flushes(&self) {
        let mut flushing = lock(&self.flushing);
        loop {
            if flushing.wants_journal && !flushing.stop {
                flushing.wants_journal = false;
                let sealed = std::mem::take(&mut flushing.sealed_journals);
                drop(flushing);
                let made = self.or_poison("flush", || self.make_journal_ready(sealed));
                // Whoever needs it tries again, and has to bear what comes of it.
                if let Err(error) = made {
                    let what = format!("the next journal: {}", chain(&error));
                    self.event(EventKind::Failed { what });
                }
                flushing = lock(&self.flushing);
                continue;
            }
            let oldest = self.view.load().sealed.last().cloned();
            let Some(sealed) = oldest.filter(|_| self.poison.get().is_none()) else {
                if flushing.stop {
                    return;
                }
                flushing = self.wait_for_work(flushing);
                continue;
            };
            drop(flushing);
            let result = self.or_poison("flush", || self.flush_one(&sealed));
            flushing = lock(&self.flushing);
            match result {
                Ok(()) => flushing.failure = None,
                Err(error) => {
                    self.event(EventKind::Failed {
                        what: format!("flush: {}", chain(&error)),
                    });
                    flushing.failure = Some(Arc::new(error));
                    flushing.failures += 1;
                }
            }
            self.flush_done.notify_all();
            if flushing.failure.is_some() {
                if flushing.stop {
                    return;
                }
                flushing = match self.flush_work.wait_timeout(flushing, RETRY) {
                    Ok((guard, _)) => guard,
                    Err(poisoned) => poisoned.into_inner().0,
                };
            }
        }
    }

    /// Waits to be told of work. When none comes, memory that was kept for more goes back.
    fn wait_for_work<'a>(&'a self, flushing: MutexGuard<'a, Flushing>) -> MutexGuard<'a, Flushing> {
        if self.spares.is_empty() {
            let waited = self.flush_work.wait(flushing);
            return waited.unwrap_or_else(PoisonError::into_inner);
        }
        let waited = self.flush_work.wait_timeout(flushing, KEEP_SPARES);
        let (guard, timeout) = waited.unwrap_or_else(PoisonError::into_inner);
        if !timeout.timed_out() {
            return guard;
        }
        // Not under the lock: a writer may want it.
        drop(guard);
        self.spares.clear();
        lock(&self.flushing)
    }

    /// Seals the active memtable and waits until it, and all before it, are in segments.
    pub(crate) fn flush(&self) -> Result<()> {
        self.check_writable()?;
        let target = self.visible();
        loop {
            let mut writing = lock(&self.writer);
            self.check_writable()?;
            let view = self.view.load();
            let is_sealed = view.active.sequence_min() > target;
            // However often flushes fail and are asked for, no more memtables wait than may.
            let has_room = view.sealed.len() < self.options.sealed_memtables_max;
            drop(view);
            if !is_sealed && has_room {
                self.rotate(&mut writing, Then::Anything)?;
            }
            drop(writing);
            self.wait_for_flush(target)?;
            if is_sealed || has_room {
                return Ok(());
            }
        }
    }

    /// Returns when no memtable that waits holds entries up to `target`.
    fn wait_for_flush(&self, target: Sequence) -> Result<()> {
        let mut flushing = lock(&self.flushing);
        let failures = flushing.failures;
        self.flush_work.notify_one();
        loop {
            let view = self.view.load();
            let is_newer = |sealed: &Arc<Sealed>| sealed.table.sequence_min() > target;
            if view.sealed.iter().all(is_newer) {
                return Ok(());
            }
            drop(view);
            self.check_writable()?;
            if flushing.failures > failures
                && let Some(cause) = &flushing.failure
            {
                return Err(Error::clone(cause));
            }
            flushing = self
                .flush_done
                .wait(flushing)
                .unwrap_or_else(PoisonError::into_inner);
        }
    }

    fn flush_one(&self, sealed: &Arc<Sealed>) -> Result<()> {
        let started = Instant::now();
        let bytes = self.flush_into(sealed, |finished| {
            // Before anybody sees that it was: a pause begins no later than what they do then.
            self.work_times.flushed(self.now_ms());
            self.install_flushed(sealed, finished)
        })?;
        self.forget_journals_before(sealed.floor.id);
        self.remove_journals_before(sealed.floor.id);
        let took = started.elapsed();
        let kib = (sealed.table.bytes() >> 10).max(1);
        self.flush_ns_per_kib
            .store(nanos(took) / kib, Ordering::Relaxed);
        Counters::add(&self.counters.flushes, 1);
        self.event(EventKind::Flushed {
            entries: sealed.table.entry_count(),
            bytes,
            took,
        });
        self.tree_changed();
        Ok(())
    }

    /// Writes a memtable to segments, which `install` makes live.
    pub(crate) fn flush_into<T>(
        &self,
        sealed: &Sealed,
        install: impl FnOnce(Vec<Finished>) -> Result<T>,
    ) -> Result<T> {
        let options = self.flush_options(sealed);
        let mut output = Output::new(&self.storage, self, options);
        let installed = self
            .write_flush(sealed, &mut output)
            .and_then(|()| output.finish())
            .and_then(install);
        installed.inspect_err(|_| {
            // After a failed edit it is unknown whether the files are live: they stay.
            if self.poison.get().is_none() {
                self.remove_output(&mut output);
            }
        })
    }

    fn flush_options(&self, sealed: &Sealed) -> OutputOptions {
        let version = Arc::clone(&self.view.load().version);
        let filters = self.filters_for(&version, 0, sealed.table.key_count(), &[]);
        let mut options = self.output_options((0, None), filters, sealed.table.sequence_min());
        options.written_ms = self.flushed_ms(&version);
        options
    }

    /// Writes the entries that any reader can still see. No version is held meanwhile: whoever lets
    /// go of one last removes the files that were merged since, and writers wait for a flush.
    fn write_flush(&self, sealed: &Sealed, output: &mut Output<'_>) -> Result<()> {
        let mut retain = Retain::new(self.snapshot_sequences());
        let mut walk = sealed.table.walk(Direction::Forward, Bound::Unbounded);
        // All that is older is in segments: memtables are flushed in order. Merges only make it less.
        let is_oldest = |key: &[u8]| {
            let view = self.view.load();
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
            self.event(EventKind::Failed { what });
        }
    }

    /// Opens segments that were just written.
    pub(crate) fn open_finished(
        &self,
        finished: Vec<Finished>,
    ) -> Result<(Vec<SegmentMeta>, Vec<Arc<Segment>>)> {
        let mut segments = Vec::with_capacity(finished.len());
        let mut added = Vec::with_capacity(finished.len());
        for finished in finished {
            added.push(finished.meta.clone());
            if let Some(what) = finished.filter_refusal {
                let segment = finished.meta.id;
                self.event(EventKind::FilterNotBuilt { segment, what });
            }
            let loading = self.options.filter_loading();
            let segment = Segment::open(&self.storage, self.store_id, finished.meta, &loading)?;
            if let Some(damage) = segment.damage() {
                return Err(damage.clone());
            }
            segment.count_from(&Traffic::default(), self.lookups_in_runs());
            segments.push(Arc::new(
                segment.with_filter_build_time(finished.filter_build_time),
            ));
        }
        Ok((added, segments))
    }

    /// Makes the new segments live: first durably, then for readers. Returns their bytes.
    fn install_flushed(&self, sealed: &Arc<Sealed>, finished: Vec<Finished>) -> Result<u64> {
        let bytes = finished.iter().map(|finished| finished.meta.file_len).sum();
        Counters::add(&self.counters.flushed_bytes, bytes);
        let (added, segments) = self.open_finished(finished)?;
        let mut manifest = lock(&self.manifest);
        let mut edit = manifest.edit();
        edit.added = added;
        edit.floor = Some(sealed.floor);
        self.add_traffic(&manifest, &mut edit);
        manifest.commit(&edit).map_err(|error| self.poison(error))?;
        drop(manifest);
        self.durable.fetch_max(sealed.last.0, Ordering::AcqRel);
        self.install_behind(|view| View {
            active: Arc::clone(&view.active),
            sealed: view
                .sealed
                .iter()
                .filter(|one| !Arc::ptr_eq(one, sealed))
                .cloned()
                .collect(),
            version: Arc::new(view.version.with(segments, &[])),
        });
        Ok(bytes)
    }

    /// Everything in these journals is in segments. One that cannot be removed now is removed by
    /// the next `open`.
    pub(crate) fn remove_journals_before(&self, floor: u64) {
        let names = match self.storage.list() {
            Ok(names) => names,
            Err(error) => {
                let what = format!("journals that are not needed stay for now: {error}");
                return self.event(EventKind::Failed { what });
            }
        };
        for name in names {
            if journal::parse_name(&name).is_some_and(|id| id < floor) {
                self.storage.remove_later(&name);
            }
        }
    }
}

/// An error and its causes in one line.
pub(crate) fn chain(error: &Error) -> String {
    let mut text = error.to_string();
    let mut source = std::error::Error::source(error);
    while let Some(cause) = source {
        text.push_str(": ");
        text.push_str(&cause.to_string());
        source = cause.source();
    }
    text
}
