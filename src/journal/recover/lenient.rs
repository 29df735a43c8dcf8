//! Replays damaged journals, for who prefers a part to nothing.
//!
//! [`tolerate`] takes what the strict replay takes before it refuses. [`salvage`] takes every
//! intact record, in order. A record that stands behind the start of a later journal was dropped
//! by an earlier recovery, which gave its sequence again: it is not brought back.

use std::collections::BTreeSet;

use super::{Apply, Expect, Replay, load};
use crate::error::{Error, Result};
use crate::format::journal::{BadHeader, HEADER_BYTES, Journal, START_BYTES, Step, sealed_by};
use crate::journal::file_name;
use crate::key::Sequence;
use crate::loss::Loss;
use crate::storage::{ReadCause, Storage};

/// What damaged journals still gave.
#[derive(Clone, Debug, Default)]
pub(crate) struct Salvaged {
    /// Above every sequence that was ever given, as far as can be told.
    pub(crate) next: Sequence,
    pub(crate) operations: u64,
    pub(crate) losses: Vec<Loss>,
    /// The journals that lost something and are still there.
    pub(crate) damaged: BTreeSet<u64>,
}

impl Salvaged {
    fn lose(&mut self, storage: &dyn Storage, id: u64, (from, to): (usize, usize), what: String) {
        let path = storage.path_of(&file_name(id));
        let bytes = to.saturating_sub(from) as u64;
        self.losses.push(Loss::new(path, from as u64, bytes, what));
        self.damaged.insert(id);
    }

    fn miss(&mut self, storage: &dyn Storage, id: u64) {
        let path = storage.path_of(&file_name(id));
        let what = "the journal is missing";
        self.losses.push(Loss::new(path, 0, 0, what));
    }
}

fn missing<'a>(ids: &'a [u64], expect: &'a Expect<'_>) -> impl Iterator<Item = u64> + 'a {
    let needed = expect.floor.iter().map(|(id, _)| id).chain(expect.required);
    needed.copied().filter(|id| !ids.contains(id))
}

/// Replays up to the first damage. Parameters as for [`super::recover`].
///
/// # Errors
///
/// Those of the system.
pub(crate) fn tolerate(
    storage: &dyn Storage,
    ids: &[u64],
    expect: &Expect<'_>,
    apply: &mut Apply<'_>,
) -> Result<Salvaged> {
    let mut replay = Replay::new(storage, ids, expect);
    let first_missing = missing(ids, expect).min();
    let mut damage = None;
    for &id in ids
        .iter()
        .take_while(|id| first_missing.is_none_or(|missing| **id < missing))
    {
        match replay.journal(id, apply) {
            Ok(()) => {}
            Err(error @ (Error::Corrupt(_) | Error::Missing { .. })) => {
                damage = Some(error);
                break;
            }
            Err(error) => return Err(error),
        }
    }
    let mut salvaged = Salvaged {
        next: replay.last().after(1),
        operations: replay.operations,
        ..Salvaged::default()
    };
    if damage.is_none() {
        match (first_missing, expect.clean_at) {
            (Some(id), _) => salvaged.miss(storage, id),
            (None, Some(clean_at)) => damage = replay.check_clean(clean_at).err(),
            (None, None) => {}
        }
    }
    let used = replay.used;
    salvaged.blame(damage, ids);
    for &id in ids {
        salvaged.drop_behind(storage, id, used, expect.store_id)?;
    }
    if let Some(clean_at) = expect.clean_at {
        salvaged.next = salvaged.next.max(clean_at.after(1));
    }
    Ok(salvaged)
}

impl Salvaged {
    /// Where the strict way gave up.
    fn blame(&mut self, damage: Option<Error>, ids: &[u64]) {
        let loss = match damage {
            Some(Error::Corrupt(at)) => Loss::new(at.path, at.offset, 0, at.what),
            Some(Error::Missing { path }) => Loss::new(path, 0, 0, "the journal is missing"),
            _ => return,
        };
        let name = loss.path.file_name().unwrap_or_default();
        let named = |id: &&u64| *file_name(**id) == *name;
        self.damaged.extend(ids.iter().find(named));
        self.losses.push(loss);
    }

    /// Reports what is in a journal behind the place up to which journals were used.
    fn drop_behind(
        &mut self,
        storage: &dyn Storage,
        id: u64,
        used: Option<(u64, usize)>,
        store_id: u128,
    ) -> Result<()> {
        let from = match used {
            Some((last, _)) if id < last => return Ok(()),
            Some((last, end)) if id == last => end,
            _ => 0,
        };
        let bytes = read_journal(storage, id)?;
        let journal = Journal::headless(&bytes, id, store_id);
        let mut at = from;
        while let Some(found) = journal.next_record(at) {
            if let Some(record) = journal.step(found).record() {
                let operations = u64::from(record.operations());
                self.next = self.next.max(record.first.after(operations));
            }
            at = found.saturating_add(1);
        }
        let is_empty = from == 0 && bytes.len() <= HEADER_BYTES;
        if !is_empty && !journal.is_zero_from(from) {
            let what = "it lies behind the first damage".to_owned();
            self.lose(storage, id, (from, bytes.len()), what);
        }
        Ok(())
    }
}

fn read_journal(storage: &dyn Storage, id: u64) -> Result<crate::slice::Slice> {
    let name = file_name(id);
    load(storage, &name).map_err(|error| Error::io(storage.path_of(&name), error))
}

/// Takes every intact record. Parameters as for [`super::recover`].
///
/// Records arrive in the order of their sequences, with gaps where something is lost. One that
/// `apply` refuses as corrupt is passed over.
///
/// # Errors
///
/// Those of the system.
pub(crate) fn salvage(
    storage: &dyn Storage,
    ids: &[u64],
    expect: &Expect<'_>,
    apply: &mut Apply<'_>,
) -> Result<Salvaged> {
    let starts = starts(storage, ids, expect.store_id)?;
    let first = expect.floor.map_or(Sequence(1), |(_, start)| start.next);
    let mut salvager = Salvager {
        storage,
        expect,
        ids,
        next: first,
        watermark: Sequence(0),
        out: Salvaged::default(),
    };
    for id in missing(ids, expect) {
        salvager.out.miss(storage, id);
    }
    // The least start of this journal and all behind it.
    let least = |index: usize| starts.iter().skip(index).flatten().min().copied();
    if let (Some(&id), Some(start)) = (ids.first(), least(0)) {
        salvager.pass_to(start, id, (0, 0));
    }
    for (index, &id) in ids.iter().enumerate() {
        salvager.journal(id, least(index + 1), apply)?;
    }
    Ok(salvager.finish())
}

/// Where each journal begins: as it says, or by its first intact record if its header is damaged.
/// `None` for one that holds nothing, or that leaves it to a first record that is damaged: it goes
/// on where the one before it ends.
fn starts(storage: &dyn Storage, ids: &[u64], store_id: u128) -> Result<Vec<Option<Sequence>>> {
    let start = |id: &u64| {
        let path = storage.path_of(&file_name(*id));
        let read = storage.open(&file_name(*id)).and_then(|file| {
            let len = file.len().min(START_BYTES) as usize;
            file.read(ReadCause::Open, 0, len)
        });
        let bytes = read.map_err(|error| Error::io(path, error))?;
        match Journal::new(&bytes, *id) {
            Ok(journal) => {
                let is_ours = journal.header().store_id == store_id;
                let start = journal.start().filter(|_| is_ours);
                Ok(start.map(|start| start.next))
            }
            Err(BadHeader::Unborn) => Ok(None),
            Err(BadHeader::Damaged(_)) => {
                let bytes = read_journal(storage, *id)?;
                let journal = Journal::headless(&bytes, *id, store_id);
                let first = journal.next_record(HEADER_BYTES);
                let record = first.and_then(|at| journal.step(at).record().copied());
                Ok(record.map(|record| record.first))
            }
        }
    };
    ids.iter().map(start).collect()
}

struct Salvager<'a> {
    storage: &'a dyn Storage,
    expect: &'a Expect<'a>,
    ids: &'a [u64],
    /// Every sequence below was taken or is known to be lost.
    next: Sequence,
    /// The highest sequence that is known to have been durable.
    watermark: Sequence,
    out: Salvaged,
}

impl Salvager<'_> {
    fn journal(&mut self, id: u64, limit: Option<Sequence>, apply: &mut Apply<'_>) -> Result<()> {
        let bytes = read_journal(self.storage, id)?;
        let journal = match Journal::new(&bytes, id) {
            Ok(journal) if journal.header().store_id == self.expect.store_id => journal,
            Ok(_) => {
                let what = "this journal belongs to another store".to_owned();
                self.out.lose(self.storage, id, (0, bytes.len()), what);
                return Ok(());
            }
            Err(BadHeader::Unborn) => {
                if missing_if_unborn(id, self.expect) {
                    let what = "the header of a journal that is needed is gone".to_owned();
                    self.out.lose(self.storage, id, (0, bytes.len()), what);
                }
                if let Some(limit) = limit {
                    self.pass_to(limit, id, (0, bytes.len()));
                }
                return Ok(());
            }
            Err(BadHeader::Damaged(malformed)) => {
                let end = HEADER_BYTES.min(bytes.len());
                self.out.lose(self.storage, id, (0, end), malformed.what);
                Journal::headless(&bytes, id, self.expect.store_id)
            }
        };
        let good = self.take_records(&journal, limit, apply)?;
        let end = bytes.len();
        match limit {
            Some(limit) if limit > self.next => self.pass_to(limit, id, (good, end)),
            // An earlier recovery has dropped what is behind, and the next journal goes on.
            Some(_) => {}
            None if journal.is_zero_from(good) => {}
            None => {
                let what = format!("no intact record from sequence {} on", self.next);
                self.out.lose(self.storage, id, (good, end), what);
            }
        }
        Ok(())
    }

    /// Takes what is intact; returns where the last intact record ends.
    fn take_records(
        &mut self,
        journal: &Journal<'_>,
        limit: Option<Sequence>,
        apply: &mut Apply<'_>,
    ) -> Result<usize> {
        let id = journal.header().id;
        let (mut good, mut offset) = (HEADER_BYTES, HEADER_BYTES);
        loop {
            let step = journal.step(offset);
            if let Some(record) = step.record() {
                let end = record.first.after(u64::from(record.operations()));
                if limit.is_some_and(|limit| end > limit) {
                    return Ok(good);
                }
                self.watermark = self.watermark.max(record.watermark);
            }
            if let Step::Record {
                record,
                payload,
                end,
                ..
            } = step
                && record.first >= self.next
            {
                self.note_hole(id, (good, offset), record.first);
                if let Some(next_id) = record.is_seal().then(|| sealed_by(payload)).flatten() {
                    if !self.ids.contains(&next_id) {
                        self.out.miss(self.storage, next_id);
                    }
                } else if record.operations() > 0 {
                    let operations = record.operations();
                    match apply(id, record.first, operations, payload) {
                        Ok(()) => self.out.operations += u64::from(operations),
                        Err(Error::Corrupt(at)) => {
                            self.out.lose(self.storage, id, (offset, end), at.what);
                        }
                        Err(error) => return Err(error),
                    }
                }
                self.next = record.first.after(u64::from(record.operations()));
                (good, offset) = (end, end);
                continue;
            }
            match journal.next_record(offset.saturating_add(1)) {
                Some(found) if !matches!(step, Step::End) => offset = found,
                _ => return Ok(good),
            }
        }
    }

    /// Between the intact parts of a journal something may be lost.
    fn note_hole(&mut self, id: u64, (from, to): (usize, usize), next: Sequence) {
        if next > self.next {
            self.pass_to(next, id, (from, to));
        } else if from < to {
            let what = "damaged; no operation is lost with it".to_owned();
            self.out.lose(self.storage, id, (from, to), what);
        }
    }

    /// The sequences up to `next` are nowhere, unless they are in segments.
    fn pass_to(&mut self, next: Sequence, id: u64, range: (usize, usize)) {
        let from = self.next.max(self.expect.durable.after(1));
        if next > from {
            let last = Sequence(next.0 - 1);
            let what = format!("operations {from} to {last} are nowhere");
            self.out.lose(self.storage, id, range, what);
        }
        self.next = self.next.max(next);
    }

    fn finish(mut self) -> Salvaged {
        let promised = self.expect.clean_at.unwrap_or_default().max(self.watermark);
        if let Some(&id) = self.ids.last() {
            self.pass_to(promised.after(1), id, (0, 0));
        }
        let last = promised.max(self.expect.durable);
        self.out.next = self.next.max(last.after(1));
        self.out
    }
}

/// Whether a journal must be there with its header.
fn missing_if_unborn(id: u64, expect: &Expect<'_>) -> bool {
    expect.required.contains(&id) || expect.floor.is_some_and(|(floor, _)| floor == id)
}
