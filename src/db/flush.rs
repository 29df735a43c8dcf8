//! Turns sealed memtables into segments, in the background, oldest first.

use std::ops::Bound;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use crate::cursor::{Cursor, Direction, Item};
use crate::error::{Error, Result};
use crate::filter::hash_key;
use crate::format::block::Entry;
use crate::journal;
use crate::key::Sequence;
use crate::segment::{self, Finished, Segment, Writer, WriterOptions};
use crate::slice::Slice;

use super::shared::{Counters, Sealed, Shared, View, lock, nanos};
use super::stats::EventKind;

/// Time between attempts while flushing fails.
const RETRY: Duration = Duration::from_secs(1);

impl Shared {
    /// The background thread: flushes until it is told to stop and nothing is left to flush, so
    /// that sessions however short do not leave ever more journals behind.
    pub(crate) fn run_flushes(&self) {
        let mut flushing = lock(&self.flushing);
        loop {
            let oldest = self.view.load().sealed.last().cloned();
            let Some(sealed) = oldest.filter(|_| self.poison.get().is_none()) else {
                if flushing.stop {
                    return;
                }
                flushing = self
                    .flush_work
                    .wait(flushing)
                    .unwrap_or_else(std::sync::PoisonError::into_inner);
                continue;
            };
            drop(flushing);
            let result = self.flush_one(&sealed);
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
                self.rotate(&mut writing)?;
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
                .unwrap_or_else(std::sync::PoisonError::into_inner);
        }
    }

    fn flush_one(&self, sealed: &Arc<Sealed>) -> Result<()> {
        let started = Instant::now();
        let mut output = Output::new(self, sealed.table.sequence_min());
        let installed = output
            .write(sealed)
            .and_then(|()| output.finish())
            .and_then(|finished| self.install_flushed(sealed, finished));
        let bytes = match installed {
            Ok(bytes) => bytes,
            Err(error) => {
                // After a failed edit it is unknown whether the files are live: they stay.
                if self.poison.get().is_none() {
                    output.remove();
                }
                return Err(error);
            }
        };
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
        Ok(())
    }

    /// Makes the new segments live: first durably, then for readers. Returns their bytes.
    fn install_flushed(&self, sealed: &Arc<Sealed>, finished: Vec<Finished>) -> Result<u64> {
        let bytes = finished.iter().map(|finished| finished.meta.file_len).sum();
        let mut segments = Vec::with_capacity(finished.len());
        let mut added = Vec::with_capacity(finished.len());
        for finished in finished {
            added.push(finished.meta.clone());
            let residency = self.options.residency;
            let segment = Segment::open(&self.storage, self.store_id, finished.meta, residency)?;
            if let Some(damage) = segment.damage() {
                return Err(damage.clone());
            }
            segments.push(Arc::new(
                segment.with_filter_build_time(finished.filter_build_time),
            ));
        }
        let mut manifest = lock(&self.manifest);
        let mut edit = manifest.edit();
        edit.added = added;
        edit.floor = Some(sealed.floor);
        manifest.commit(&edit).map_err(|error| self.poison(error))?;
        drop(manifest);
        self.durable.fetch_max(sealed.last.0, Ordering::AcqRel);
        self.install(|view| View {
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
    fn remove_journals_before(&self, floor: u64) {
        let names = match self.storage.list() {
            Ok(names) => names,
            Err(error) => {
                let what = format!("journals that are not needed stay for now: {error}");
                return self.event(EventKind::Failed { what });
            }
        };
        for name in names {
            if journal::parse_name(&name).is_some_and(|id| id < floor)
                && let Err(error) = self.storage.remove(&name)
            {
                let what = format!("{name} is not needed and stays for now: {error}");
                self.event(EventKind::Failed { what });
            }
        }
    }
}

/// An error and its causes in one line.
fn chain(error: &Error) -> String {
    let mut text = error.to_string();
    let mut source = std::error::Error::source(error);
    while let Some(cause) = source {
        text.push_str(": ");
        text.push_str(&cause.to_string());
        source = cause.source();
    }
    text
}

/// The segments of one flush.
struct Output<'a> {
    shared: &'a Shared,
    writer: Option<Writer>,
    ids: Vec<u64>,
    run: u64,
    sequence_base: Sequence,
    finished: Vec<Finished>,
}

impl<'a> Output<'a> {
    fn new(shared: &'a Shared, sequence_base: Sequence) -> Output<'a> {
        let (ids, finished) = (Vec::new(), Vec::new());
        Output {
            shared,
            writer: None,
            ids,
            run: 0,
            sequence_base,
            finished,
        }
    }

    /// Writes the entries that any reader can still see.
    fn write(&mut self, sealed: &Sealed) -> Result<()> {
        let mut retain = Retain::new(self.shared.snapshot_sequences());
        let mut walk = sealed.table.walk(Direction::Forward, Bound::Unbounded);
        while let Some(item) = walk.next()? {
            let new_key = retain.key.as_ref() != Some(&item.key);
            if retain.keeps(&item) {
                self.add(&item, new_key)?;
            }
        }
        Ok(())
    }

    fn add(&mut self, item: &Item, new_key: bool) -> Result<()> {
        let full = self
            .writer
            .as_ref()
            .is_some_and(|writer| writer.is_full(self.shared.options.segment_bytes));
        // All versions of a key stay in one segment.
        if full && new_key {
            self.finish_segment()?;
        }
        let writer = match &mut self.writer {
            Some(writer) => writer,
            None => {
                let writer = self.create()?;
                self.writer.insert(writer)
            }
        };
        writer.add(&Entry {
            key: &item.key,
            sequence: item.sequence,
            kind: item.kind,
            value: &item.value,
        })
    }

    fn create(&mut self) -> Result<Writer> {
        let shared = self.shared;
        let id = lock(&shared.manifest)
            .allocate()
            .map_err(|error| shared.poison(error))?;
        if self.ids.is_empty() {
            self.run = id;
        }
        self.ids.push(id);
        let options = WriterOptions {
            store_id: shared.store_id,
            hash_seed: shared.hash_seed,
            hash_key,
            block_bytes: shared.options.block_bytes,
            entries_per_group: shared.options.entries_per_group,
            compression: shared.options.compression,
            filter: shared.options.filter.spec(),
            sequence_base: self.sequence_base,
            filter_salt: shared.hash_seed.wrapping_mul(id | 1).rotate_left(29) ^ id,
        };
        Writer::create(&shared.storage, id, options)
    }

    fn finish_segment(&mut self) -> Result<()> {
        if let Some(writer) = self.writer.take() {
            self.finished.push(writer.finish(0, self.run)?);
        }
        Ok(())
    }

    fn finish(&mut self) -> Result<Vec<Finished>> {
        self.finish_segment()?;
        let storage = &self.shared.storage;
        storage
            .sync_dir()
            .map_err(|error| Error::io(storage.path_of(""), error))?;
        Ok(std::mem::take(&mut self.finished))
    }

    /// Removes what a failed flush has written. Its file numbers are given back: while the disk
    /// is full there may be many attempts, and no room to reserve more numbers.
    fn remove(&mut self) {
        self.writer = None;
        while let Some(id) = self.ids.pop() {
            let name = segment::file_name(id);
            match self.shared.storage.remove(&name) {
                Err(error) if error.kind() != std::io::ErrorKind::NotFound => {
                    let what = format!("{name} is not needed and stays for now: {error}");
                    self.shared.event(EventKind::Failed { what });
                }
                _ => lock(&self.shared.manifest).give_back(id),
            }
        }
    }
}

/// Decides which versions of a key must be kept: the newest, and for each snapshot the newest
/// that it sees.
struct Retain {
    snapshots: Vec<Sequence>,
    key: Option<Slice>,
    /// Sequence of the version before (the newer one) that was seen.
    newer: Sequence,
}

impl Retain {
    fn new(snapshots: Vec<Sequence>) -> Retain {
        Retain {
            snapshots,
            key: None,
            newer: Sequence(0),
        }
    }

    /// Takes versions in order: keys ascending, newest first.
    fn keeps(&mut self, item: &Item) -> bool {
        let newest = self.key.as_ref() != Some(&item.key);
        if newest {
            self.key = Some(item.key.clone());
        }
        // A snapshot between this version and the newer one sees this one.
        let first = self
            .snapshots
            .partition_point(|snapshot| *snapshot < item.sequence);
        let seen = self
            .snapshots
            .get(first)
            .is_some_and(|snapshot| *snapshot < self.newer);
        self.newer = item.sequence;
        newest || seen
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::key::Kind;

    #[test]
    fn keeps_the_newest_and_what_snapshots_see() {
        let kept = |snapshots: &[u64], versions: &[u64]| -> Vec<u64> {
            let mut retain = Retain::new(snapshots.iter().copied().map(Sequence).collect());
            let item = |sequence| Item {
                key: Slice::from("key"),
                sequence: Sequence(sequence),
                kind: Kind::Value,
                value: Slice::default(),
            };
            versions
                .iter()
                .copied()
                .filter(|v| retain.keeps(&item(*v)))
                .collect()
        };
        assert_eq!(kept(&[], &[9, 7, 3]), [9]);
        assert_eq!(kept(&[8], &[9, 7, 3]), [9, 7]);
        assert_eq!(kept(&[7], &[9, 7, 3]), [9, 7]);
        assert_eq!(kept(&[6], &[9, 7, 3]), [9, 3]);
        assert_eq!(kept(&[3, 6, 8, 20], &[9, 7, 3]), [9, 7, 3]);
        assert_eq!(kept(&[2], &[9, 7, 3]), [9]);
        assert_eq!(kept(&[9], &[9, 7, 3]), [9]);
    }
}
