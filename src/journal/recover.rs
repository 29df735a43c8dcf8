//! Replays journals after a crash.
//!
//! The difficulty is to tell what a crash may do from what it may not. A power cut may lose any
//! part of what was not synced, so the records of a file may end with a hole, and later journals
//! may start beyond it; all that was never promised and is dropped. The same bytes may also be
//! damage that hides promised writes. Three things tell them apart:
//!
//! - watermarks: an intact header anywhere behind the hole that knows a lost sequence durable;
//! - the run of the operating system: while it lasts, nothing written out is lost, so a journal
//!   of this run ends as a process ends it, in the middle of one write and with nothing behind;
//! - what the caller knows: a clean close, required files, what the seals say.
//!
//! What stays unseen: damage of the last records when no later header has a watermark above them,
//! the machine has been started anew since and the store was not closed.

mod lenient;
mod verdict;

pub(crate) use lenient::{Salvaged, salvage, tolerate};

use std::path::{Path, PathBuf};
use std::sync::Arc;

use super::{Point, file_name};
use crate::error::{Error, Result};
use crate::format::journal::{BadHeader, HEADER_BYTES, Journal, Step, sealed_by};
use crate::key::Sequence;
use crate::slice::Slice;
use crate::storage::{self, ReadCause, Storage};

/// What the caller knows about the journals before they are read.
#[derive(Clone, Debug)]
pub(crate) struct Expect<'a> {
    pub(crate) store_id: u128,
    /// The first journal that is needed and where it starts; `None` in a store that never moved
    /// past its first journal.
    pub(crate) floor: Option<(u64, Point)>,
    /// Journals that must be there, with an intact header, and begin where those before them end:
    /// all that came before was made durable first.
    pub(crate) required: &'a [u64],
    /// The last sequence, if the store was closed cleanly: then nothing may be missing.
    pub(crate) clean_at: Option<Sequence>,
    /// Every sequence up to this one is durable in segments, so the journals may lack it.
    pub(crate) durable: Sequence,
}

/// Bytes that recovery dropped: the end of a journal, or all of one that does not continue.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Torn {
    pub(crate) path: PathBuf,
    pub(crate) offset: u64,
    pub(crate) dropped_bytes: u64,
}

/// What the journals hold.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Recovered {
    /// Where the next journal starts.
    pub(crate) point: Point,
    /// The newest journal that exists, used or not: the next one names it as previous and has a
    /// higher id.
    pub(crate) last: Option<u64>,
    /// The highest sequence known to have been durable before the crash.
    pub(crate) watermark: Sequence,
    pub(crate) records: u64,
    pub(crate) operations: u64,
    /// What this recovery dropped; not what an earlier one did.
    pub(crate) torn: Vec<Torn>,
}

/// Receives each record of operations: journal, first sequence, count and payload.
pub(crate) type Apply<'a> = dyn FnMut(u64, Sequence, u32, &[u8]) -> Result<()> + 'a;

/// Replays the journals `ids`, which are ascending and none of them before the floor.
///
/// Records arrive in order and without gaps, those at or below `expect.durable` too. On an error
/// some may have been applied already; nothing on disk is changed in any case.
///
/// # Errors
///
/// `Missing` names a journal that must be there, `Corrupt` the place where the records end though
/// they must not. Errors of `apply` are passed on.
pub(crate) fn recover(
    storage: &Arc<dyn Storage>,
    ids: &[u64],
    expect: &Expect<'_>,
    apply: &mut Apply<'_>,
) -> Result<Recovered> {
    assert!(
        ids.is_sorted_by(|left, right| left < right),
        "journals are replayed in order"
    );
    let floor = expect.floor.map(|(id, _)| id);
    assert!(
        floor.is_none_or(|floor| ids.iter().all(|&id| id >= floor)),
        "ids below the floor"
    );
    for &id in floor.iter().chain(expect.required) {
        if !ids.contains(&id) {
            return Err(Error::Missing {
                path: storage.path_of(&file_name(id)),
            });
        }
    }
    let mut replay = Replay::new(&**storage, ids, expect);
    for &id in ids {
        replay.journal(id, apply)?;
    }
    replay.finish()
}

/// Makes the journals survive power loss, whoever wrote them: to be done with those that were
/// recovered before another journal starts where they end.
pub(crate) fn make_durable(storage: &Arc<dyn Storage>, ids: &[u64]) -> Result<()> {
    for &id in ids {
        let name = file_name(id);
        storage::rewrite(&**storage, &name)
            .map_err(|error| Error::io(storage.path_of(&name), error))?;
    }
    storage
        .sync_dir()
        .map_err(|error| Error::io(storage.path_of(""), error))
}

/// Where the last journal that contributed ends.
struct Stop {
    path: PathBuf,
    offset: u64,
    is_of_this_run: bool,
    /// Behind the end there is a sector that the system may have failed to write.
    has_zero_sector: bool,
}

struct Replay<'a> {
    storage: &'a dyn Storage,
    ids: &'a [u64],
    expect: &'a Expect<'a>,
    boot_id: Option<u128>,
    point: Point,
    stop: Option<Stop>,
    /// The journal that the last seal promised.
    promised: Option<u64>,
    unborn: Vec<u64>,
    /// Something lies behind the recovered records, be it a journal without records.
    loose: bool,
    torn: Vec<Torn>,
    watermark: Sequence,
    records: u64,
    operations: u64,
    /// The last journal that contributed, and where what was used of it ends.
    used: Option<(u64, usize)>,
}

impl<'a> Replay<'a> {
    fn new(storage: &'a dyn Storage, ids: &'a [u64], expect: &'a Expect<'a>) -> Replay<'a> {
        let initial = Point::initial(expect.store_id);
        Replay {
            storage,
            ids,
            expect,
            boot_id: storage.boot_id().filter(|&boot_id| boot_id != 0),
            point: expect.floor.map_or(initial, |(_, start)| start),
            stop: None,
            promised: None,
            unborn: Vec::new(),
            loose: false,
            torn: Vec::new(),
            watermark: expect.durable,
            records: 0,
            operations: 0,
            used: None,
        }
    }

    fn journal(&mut self, id: u64, apply: &mut Apply<'_>) -> Result<()> {
        let name = file_name(id);
        let path = self.storage.path_of(&name);
        let bytes = load(self.storage, &name).map_err(|error| Error::io(&path, error))?;
        let journal = match Journal::new(&bytes, id) {
            Ok(journal) => journal,
            Err(BadHeader::Unborn) => return self.skip_unborn(id, &path, bytes.len()),
            Err(BadHeader::Damaged(malformed)) => {
                return Err(Error::corrupt(&path, malformed.at as u64, malformed.what));
            }
        };
        self.check_origin(&journal, &path)?;
        if let Some(start) = journal.start() {
            if !self.continues(start) {
                return self.skip(&journal, start, &path);
            }
            // What lies between was dropped when this journal was begun.
            self.torn.clear();
            self.loose = false;
            self.point = start;
        }
        self.follow(&journal, &path, apply)
    }

    /// The last recovered sequence: nothing up to it is lost.
    fn last(&self) -> Sequence {
        self.point.last().max(self.expect.durable)
    }

    fn must_continue(&self, id: u64) -> bool {
        self.promised == Some(id)
            || self.expect.floor.is_some_and(|(floor, _)| floor == id)
            || self.expect.required.contains(&id)
    }

    /// A journal starts where the records before it end. One that was begun while segments were
    /// ahead of the recovered journals starts behind the segments; they fill the gap.
    fn continues(&self, start: Point) -> bool {
        let bridged = start.next > self.point.next && start.last() <= self.expect.durable;
        start.chain == self.point.chain && (start.next == self.point.next || bridged)
    }

    fn skip_unborn(&mut self, id: u64, path: &Path, len: usize) -> Result<()> {
        if self.must_continue(id) {
            return Err(Error::corrupt(
                path,
                0,
                "the header of a journal that is needed is gone",
            ));
        }
        self.unborn.push(id);
        // It never held a record, so it does not spoil a clean close.
        self.drop_bytes(path, 0, len);
        Ok(())
    }

    fn check_origin(&self, journal: &Journal<'_>, path: &Path) -> Result<()> {
        let header = journal.header();
        if header.store_id != self.expect.store_id {
            return Err(Error::corrupt(
                path,
                0,
                "this journal belongs to another store",
            ));
        }
        let needed = self.expect.floor.map_or(1, |(floor, _)| floor);
        if header.previous >= needed && !self.ids.contains(&header.previous) {
            let path = self.storage.path_of(&file_name(header.previous));
            return Err(Error::Missing { path });
        }
        match journal.start() {
            Some(start) if self.must_continue(header.id) && !self.continues(start) => {
                Err(Error::corrupt(
                    path,
                    0,
                    format!(
                        "this journal begins at sequence {}, where the records before it do not \
                         end",
                        start.next
                    ),
                ))
            }
            _ => Ok(()),
        }
    }

    /// Applies the records of a journal that starts where the records before it end, if it has any.
    fn follow(&mut self, journal: &Journal<'_>, path: &Path, apply: &mut Apply<'_>) -> Result<()> {
        let header = journal.header();
        let mut offset = HEADER_BYTES;
        loop {
            self.used = Some((header.id, offset));
            let step = journal.step(offset);
            if let Some(record) = step.record()
                && (record.first != self.point.next || record.chain != self.point.chain)
            {
                let what = "an intact record does not follow the one before it";
                return Err(Error::corrupt(path, offset as u64, what));
            }
            let Step::Record {
                record,
                payload,
                end,
                after,
            } = step
            else {
                return self.stop_at(journal, path, offset, &step);
            };
            if let Some(next_id) = record.is_seal().then(|| sealed_by(payload)).flatten() {
                self.used = Some((header.id, end));
                self.promise(header.id, next_id, path, offset)?;
                return self.stop_at(journal, path, end, &journal.behind_seal(end));
            }
            if record.operations() > 0 {
                apply(header.id, record.first, record.operations(), payload)?;
            }
            self.records += 1;
            self.operations += u64::from(record.operations());
            self.watermark = self.watermark.max(record.watermark);
            self.point = after;
            offset = end;
        }
    }

    fn promise(&mut self, id: u64, next_id: u64, path: &Path, offset: usize) -> Result<()> {
        if next_id <= id {
            let what = format!("the seal names journal {next_id}, which is not a later one");
            return Err(Error::corrupt(path, offset as u64, what));
        }
        if !self.ids.contains(&next_id) {
            return Err(Error::Missing {
                path: self.storage.path_of(&file_name(next_id)),
            });
        }
        self.promised = Some(next_id);
        Ok(())
    }

    fn finish(self) -> Result<Recovered> {
        if let Some(clean_at) = self.expect.clean_at {
            self.check_clean(clean_at)?;
        }
        let next = self.last().after(1);
        Ok(Recovered {
            point: Point {
                next,
                chain: self.point.chain,
            },
            last: self.ids.last().copied(),
            watermark: self.watermark,
            records: self.records,
            operations: self.operations,
            torn: self.torn,
        })
    }
}

fn load(storage: &dyn Storage, name: &str) -> std::io::Result<Slice> {
    let file = storage.open(name)?;
    let too_large = || std::io::Error::from(std::io::ErrorKind::FileTooLarge);
    let len = usize::try_from(file.len()).ok().ok_or_else(too_large)?;
    file.read(ReadCause::Open, 0, len)
}
