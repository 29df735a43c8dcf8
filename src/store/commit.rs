//! The way of a write: journal, memtable, visible, durable.
//!
//! A write is made under one lock: its record goes to the journal, its entries to the memtable,
//! then it becomes visible. A synced write then waits for the disk outside that lock. A reader may
//! see a write whose sync is still under way.

use crate::error::{Error, Result};
use crate::format::batch::{ONE_BYTES_MAX, Operation, Payload};
use crate::key::Sequence;
use crate::options::Durability;
use crate::services::Tally;
use crate::slice::Slice;
use crate::tree::Insertion;

use super::log::Writing;
use super::rotate::RotateReason;
use super::state::Store;

impl Store {
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
        self.monitor().check_writable()?;
        if payload.count() > 0 {
            self.make_room(payload.bytes())?;
            self.write(payload, durability)?;
        }
        self.wait_until_durable(durability)
    }

    /// Waits for what a write of this durability has promised when it returns.
    fn wait_until_durable(&self, durability: Durability) -> Result<()> {
        match durability {
            Durability::Sync => self.log().sync_to(self.visible()),
            Durability::Buffered | Durability::Process => Ok(()),
        }
    }

    /// Deletes a key, and returns the value that it had. No other write comes in between.
    pub(crate) fn take(&self, key: &[u8], durability: Durability) -> Result<Option<Slice>> {
        self.monitor().check_writable()?;
        let deletion = Operation::delete(key);
        let mut bytes = Vec::with_capacity(deletion.encoded_bytes());
        deletion.encode(&mut bytes);
        let payload = Payload::Encoded {
            bytes: &bytes,
            count: 1,
        };
        self.make_room(payload.bytes())?;
        let mut writing = self.log().turn();
        let value = self.tree().get(key, || self.visible())?;
        if value.is_some() {
            self.write_in_turn(&mut writing, payload, durability)?;
        }
        drop(writing);
        self.wait_until_durable(durability)?;
        Ok(value)
    }

    fn write(&self, payload: Payload<'_>, durability: Durability) -> Result<()> {
        let mut writing = self.log().turn();
        self.write_in_turn(&mut writing, payload, durability)
    }

    #[inline]
    fn write_in_turn(
        &self,
        writing: &mut Writing,
        payload: Payload<'_>,
        durability: Durability,
    ) -> Result<()> {
        let log = self.log();
        self.monitor().check_writable()?;
        self.begin_session(writing)?;
        let (bytes, limit) = (writing.active().bytes(), self.options().memtable_bytes);
        if bytes >= limit && self.tree().view().sealed.len() < self.options().sealed_memtables_max {
            self.rotate(writing, RotateReason::MoreWrites)?;
        } else if bytes >= limit / 2 {
            self.request_journal(writing, None);
        }
        let (active, Some(journal)) = writing.parts() else {
            return Err(Error::Closed);
        };
        // While the journal is written, what the memtable will touch comes from memory.
        let (hash_seed, next) = (self.tree().hash_seed(), journal.point().next);
        let insertion = Insertion::begin(active, hash_seed, next, payload.operations());
        let first = log.append(journal, payload, durability)?;
        let mut writes = self.tree().gaps().writes();
        let inserted = insertion.finish(Some(&mut writes))?;
        let all = (first, payload.count());
        assert_eq!(inserted, all, "a batch counts its operations");
        self.monitor().count(Tally::UserBytes, payload.bytes());
        log.show(Sequence(first.after(u64::from(all.1)).0 - 1));
        drop(writes);
        Ok(())
    }

    /// Makes everything that was written before survive power loss.
    pub(crate) fn sync(&self) -> Result<()> {
        self.monitor().check_writable()?;
        self.log().sync_to(self.visible())
    }
}
