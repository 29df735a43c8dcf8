//! The way of a write: journal, memtable, visible, durable.
//!
//! A write is made under one lock: its record goes to the journal, its entries to the memtable,
//! then it becomes visible. A synced write then waits for the disk outside that lock: the first
//! to come syncs for all that have written by then, so concurrent writers share one fsync. A
//! reader may see a write whose sync is still under way.

use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use crate::error::{Error, Result};
use crate::format::batch::{ONE_BYTES_MAX, Operation, Payload};
use crate::journal::{self, Point};
use crate::key::{MAX_KEY_BYTES, MAX_VALUE_BYTES, Sequence};
use crate::memtable::Memtable;
use crate::options::Durability;
use crate::storage::SyncFile;

use super::Db;
use super::insertion::Insertion;
use super::rotate::Then;
use super::shared::{Counters, Shared, lock};

/// Most bytes of one batch, keys and values and a few bytes for each operation.
pub(crate) const MAX_BATCH_BYTES: usize = (u32::MAX - (1 << 20)) as usize;

/// Most operations of one batch. An entry takes up to 11 bytes more in a memtable than in a batch, and
/// a memtable that is nearly full must have names left for all of them.
const MAX_BATCH_OPERATIONS: u32 = 1 << 28;

/// What the one who writes has in hand.
#[derive(Debug)]
pub(crate) struct Writing {
    /// Invariant: the active one of the view, which is replaced only by who has this in hand.
    pub(crate) active: Arc<Memtable>,
    /// `None` until the first write of this session.
    pub(crate) journal: Option<journal::Writer>,
    /// Where the next journal begins while there is none.
    pub(crate) point: Point,
    /// The newest journal there is, 0 for none.
    pub(crate) last_journal: u64,
    /// Journals that were recovered.
    pub(crate) recovered: Vec<u64>,
    /// Whether they are known to survive power loss.
    pub(crate) recovered_durable: bool,
    /// Sealed journals that are not synced yet, oldest first.
    pub(crate) unsynced: Vec<Unsynced>,
    /// The journal of the next memtable was asked for.
    pub(crate) has_asked: bool,
}

/// A journal to sync.
#[derive(Debug)]
pub(crate) struct Unsynced {
    pub(crate) id: u64,
    path: PathBuf,
    file: Arc<dyn SyncFile>,
}

impl Unsynced {
    pub(crate) fn of(journal: &journal::Writer) -> Unsynced {
        Unsynced {
            id: journal.id(),
            path: journal.path().to_owned(),
            file: journal.syncer(),
        }
    }

    fn sync(&self) -> Result<()> {
        self.file
            .sync()
            .map_err(|error| Error::io(&self.path, error))
    }
}

/// Writes that become visible and durable together or not at all.
///
/// Made by [`Db::batch`]. Nothing happens before [`Batch::commit`]; a dropped batch is forgotten.
/// Later operations on a key win over earlier ones. Keys and values are limited as for
/// [`Db::put`], the whole batch to a little less than 4 GiB and 2^28 operations; a batch beyond a
/// limit is refused by `commit` and nothing of it is written.
#[derive(Debug, Clone)]
pub struct Batch {
    db: Db,
    payload: Vec<u8>,
    count: u32,
    invalid: Option<Error>,
}

impl Batch {
    pub(crate) fn new(db: Db) -> Batch {
        Batch {
            db,
            payload: Vec::new(),
            count: 0,
            invalid: None,
        }
    }

    /// Adds a put.
    pub fn put(&mut self, key: impl AsRef<[u8]>, value: impl AsRef<[u8]>) -> &mut Batch {
        let (key, value) = (key.as_ref(), value.as_ref());
        if self.accepts(key, value) {
            Operation::put(key, value).encode(&mut self.payload);
            self.count += 1;
        }
        self
    }

    /// Adds a delete. Deleting a key that is not there is no error.
    pub fn delete(&mut self, key: impl AsRef<[u8]>) -> &mut Batch {
        let key = key.as_ref();
        if self.accepts(key, &[]) {
            Operation::delete(key).encode(&mut self.payload);
            self.count += 1;
        }
        self
    }

    fn accepts(&mut self, key: &[u8], value: &[u8]) -> bool {
        if self.invalid.is_none() {
            let after = self.payload.len() + key.len() + value.len() + 16;
            let is_full = after > MAX_BATCH_BYTES || self.count >= MAX_BATCH_OPERATIONS;
            self.invalid = check_limits(key, value).err().or_else(|| {
                is_full.then(|| {
                    Error::Invalid(format!(
                        "a batch takes at most {MAX_BATCH_BYTES} bytes and {MAX_BATCH_OPERATIONS} \
                         operations; commit it in parts"
                    ))
                })
            });
        }
        self.invalid.is_none()
    }

    /// Operations so far.
    pub fn len(&self) -> usize {
        self.count as usize
    }

    /// Whether there is nothing to commit.
    pub fn is_empty(&self) -> bool {
        self.count == 0
    }

    /// Commits with the durability of the store's options.
    ///
    /// # Errors
    ///
    /// As for [`Db::put`].
    pub fn commit(self) -> Result<()> {
        let durability = self.db.shared().options.durability;
        self.commit_with(durability)
    }

    /// Commits with this durability.
    ///
    /// # Errors
    ///
    /// As for [`Db::put`].
    pub fn commit_with(self, durability: Durability) -> Result<()> {
        if let Some(error) = self.invalid {
            return Err(error);
        }
        let payload = Payload::Encoded {
            bytes: &self.payload,
            count: self.count,
        };
        self.db.shared().commit(payload, durability)
    }
}

pub(crate) fn check_limits(key: &[u8], value: &[u8]) -> Result<()> {
    let too_long = |what, len, max| {
        Err(Error::Invalid(format!(
            "a {what} of {len} bytes; at most {max} are possible"
        )))
    };
    if key.len() > MAX_KEY_BYTES {
        return too_long("key", key.len(), MAX_KEY_BYTES);
    }
    if value.len() > MAX_VALUE_BYTES {
        return too_long("value", value.len(), MAX_VALUE_BYTES);
    }
    Ok(())
}

impl Shared {
    /// Writes one operation.
    pub(crate) fn commit_one(&self, one: Operation<'_>, durability: Durability) -> Result<()> {
        let encoded_bytes = one.encoded_bytes();
        if encoded_bytes <= ONE_BYTES_MAX {
            return self.commit(Payload::One(one), durability);
        }
        let mut bytes = Vec::with_capacity(encoded_bytes);
        one.encode(&mut bytes);
        let payload = Payload::Encoded {
            bytes: &bytes,
            count: 1,
        };
        self.commit(payload, durability)
    }

    /// Writes operations that become visible together.
    pub(crate) fn commit(&self, payload: Payload<'_>, durability: Durability) -> Result<()> {
        self.check_writable()?;
        if payload.count() > 0 {
            self.make_room(payload.bytes())?;
            self.write(payload, durability)?;
        }
        match durability {
            Durability::Sync => self.sync_to(self.visible()),
            Durability::Buffered | Durability::Process => Ok(()),
        }
    }

    fn write(&self, payload: Payload<'_>, durability: Durability) -> Result<()> {
        let mut writing = lock(&self.writer);
        self.check_writable()?;
        self.begin_session(&mut writing)?;
        let (bytes, limit) = (writing.active.bytes(), self.options.memtable_bytes);
        if bytes >= limit && self.view.load().sealed.len() < self.options.sealed_memtables_max {
            self.rotate(&mut writing, Then::MoreWrites)?;
        } else if bytes >= limit / 2 {
            self.ask_for_journal(&mut writing, None);
        }
        let Writing {
            active, journal, ..
        } = &mut *writing;
        let Some(journal) = journal else {
            return Err(Error::Closed);
        };
        // While the journal is written, what the memtable will touch comes from memory.
        let operations = (journal.point().next, payload.operations());
        let insertion = Insertion::begin(active, self.hash_seed, operations);
        let durable = self.durable();
        let appended = match payload {
            Payload::Encoded { bytes, count } => journal.append(count, bytes, durable),
            Payload::One(one) => journal.append_made(1, durable, |out| one.encode(out)),
        };
        let first = appended
            .and_then(|first| match durability {
                Durability::Buffered => Ok(first),
                Durability::Process | Durability::Sync => journal.write_out().map(|()| first),
            })
            .map_err(|error| match error {
                error @ Error::Invalid(_) => error,
                error => self.poison(error),
            })?;
        let mut writes = self.gaps.writes();
        let inserted = insertion.finish(Some(&mut writes))?;
        let all = (first, payload.count());
        assert_eq!(inserted, all, "a batch counts its operations");
        Counters::add(&self.counters.user_bytes, payload.bytes());
        self.visible
            .store(first.after(u64::from(all.1)).0 - 1, Ordering::Release);
        drop(writes);
        Ok(())
    }

    /// Returns when everything up to `target` survives power loss. What is taken to be durable
    /// is what was written before the sync began: see `tests/it/interleavings.rs`.
    pub(crate) fn sync_to(&self, target: Sequence) -> Result<()> {
        if self.durable() >= target {
            return Ok(());
        }
        // Whoever waits here finds its write synced by the one before, in most cases.
        let turn = lock(&self.syncing);
        if self.durable() >= target {
            return Ok(());
        }
        let last = self.sync_journals()?;
        self.note_durable(last)?;
        drop(turn);
        Ok(())
    }

    /// Syncs all there is, also what tells the journal that something is durable: nothing of a
    /// store that was closed may be torn. Returns the last sequence.
    pub(crate) fn sync_last(&self) -> Result<Sequence> {
        let turn = lock(&self.syncing);
        let last = self.sync_journals()?;
        drop(turn);
        Ok(last)
    }

    /// Called by the holder of `syncing`. A journal is synced although its last operation is
    /// durable: the next one continues the chain from the very end of it.
    fn sync_journals(&self) -> Result<Sequence> {
        self.check_sound()?;
        let (files, last) = self.take_unsynced()?;
        for file in &files {
            file.sync().map_err(|error| self.poison(error))?;
        }
        self.durable.fetch_max(last.0, Ordering::AcqRel);
        Ok(last)
    }

    /// All journals that may hold unsynced records, oldest first, and the last sequence in them.
    fn take_unsynced(&self) -> Result<(Vec<Unsynced>, Sequence)> {
        let mut writing = lock(&self.writer);
        let mut files = std::mem::take(&mut writing.unsynced);
        let last = match &mut writing.journal {
            None => {
                self.make_recovered_durable(&mut writing)
                    .map_err(|error| self.poison(error))?;
                writing.point.last()
            }
            Some(journal) => {
                journal.write_out().map_err(|error| self.poison(error))?;
                files.push(Unsynced::of(journal));
                journal.point().last()
            }
        };
        Ok((files, last))
    }

    /// Tells the journal what is durable when no other record will do so at once: without it,
    /// later damage in what was just synced could pass for a torn tail.
    fn note_durable(&self, last: Sequence) -> Result<()> {
        let mut writing = lock(&self.writer);
        if let Some(journal) = &mut writing.journal
            && journal.point().last() == last
        {
            journal
                .append(0, &[], last)
                .and_then(|_| journal.write_out())
                .map_err(|error| self.poison(error))?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;
    use crate::storage::Memory;

    #[test]
    fn a_batch_has_no_more_operations_than_a_memtable_can_name() {
        let db = Db::builder("batches").storage(Arc::new(Memory::new()));
        let db = db.open().unwrap();
        let mut batch = db.batch();
        batch.put("first", "");
        // As if there were many more.
        batch.count = MAX_BATCH_OPERATIONS - 1;
        batch.put("last", "");
        assert_eq!(batch.count, MAX_BATCH_OPERATIONS);
        assert!(batch.invalid.is_none());
        batch.delete("too many");
        assert!(matches!(batch.commit(), Err(Error::Invalid(_))));
        assert_eq!(db.iter().count(), 0);
    }
}
