//! The way of a write: journal, memtable, visible, durable.
//!
//! A write is made under one lock: its record goes to the journal, its entries to the memtable,
//! then it becomes visible. A synced write then waits for the disk outside that lock. A reader may
//! see a write whose sync is still under way.

use std::sync::Arc;

use crate::error::{Error, Result};
use crate::format::batch::{ONE_BYTES_MAX, Operation, Operations, Payload};
use crate::key::Sequence;
use crate::memtable::Memtable;
use crate::options::Durability;
use crate::services::Tally;
use crate::slice::Slice;
use crate::tree::{Insertion, Tree};

use super::actives::Actives;
use super::log::Writing;
use super::rotate::RotateReason;
use super::state::Store;

/// Least bytes that a memtable is made for.
const CAPACITY_MIN: u64 = 64 << 10;

/// With no more keyspaces than this, each may get all writes.
const KEYSPACES_FEW: u64 = 4;

/// What a memtable is made for: all writes, or a part where there are many keyspaces. One that gets
/// more works as well, but its filter tells less.
pub(super) fn capacity(memtable_bytes: u64, keyspaces: u64) -> u64 {
    let part = memtable_bytes.saturating_mul(KEYSPACES_FEW) / keyspaces.max(1);
    part.clamp(CAPACITY_MIN.min(memtable_bytes), memtable_bytes)
}

impl Store {
    /// Writes one operation of the keyspace of this tree.
    pub(crate) fn commit_one(
        &self,
        tree: &Tree,
        one: Operation<'_>,
        durability: Durability,
    ) -> Result<()> {
        let encoded_bytes = one.encoded_bytes();
        if encoded_bytes <= ONE_BYTES_MAX {
            return self.commit(&[tree], Payload::One(one), durability);
        }
        let mut bytes = Vec::with_capacity(encoded_bytes);
        one.encode(&mut bytes);
        let payload = Payload::Encoded {
            bytes: &bytes,
            count: 1,
        };
        self.commit(&[tree], payload, durability)
    }

    /// Writes operations of the keyspaces of these trees, which become visible together.
    pub(crate) fn commit(
        &self,
        trees: &[&Tree],
        payload: Payload<'_>,
        durability: Durability,
    ) -> Result<()> {
        self.monitor().check_writable()?;
        if payload.count() > 0 {
            self.make_room(payload.bytes())?;
            self.write(trees, payload, durability)?;
        }
        self.wait_until_durable(durability)
    }

    /// Waits for what a write of this durability has promised when it returns.
    pub(super) fn wait_until_durable(&self, durability: Durability) -> Result<()> {
        match durability {
            Durability::Sync => self.log().sync_to(self.visible()),
            Durability::Buffered | Durability::Process => Ok(()),
        }
    }

    /// Deletes a key, and returns the value that it had. No other write comes in between.
    pub(crate) fn take(
        &self,
        tree: &Tree,
        key: &[u8],
        durability: Durability,
    ) -> Result<Option<Slice>> {
        self.monitor().check_writable()?;
        let deletion = Operation::delete(tree.id(), key);
        let mut bytes = Vec::with_capacity(deletion.encoded_bytes());
        deletion.encode(&mut bytes);
        let payload = Payload::Encoded {
            bytes: &bytes,
            count: 1,
        };
        self.make_room(payload.bytes())?;
        let mut writing = self.log().turn();
        let value = tree.get(key, || self.visible())?;
        if value.is_some() {
            self.write_in_turn(&mut writing, payload, durability)?;
        }
        drop(writing);
        self.wait_until_durable(durability)?;
        Ok(value)
    }

    fn write(&self, trees: &[&Tree], payload: Payload<'_>, durability: Durability) -> Result<()> {
        let mut writing = self.log().turn();
        for tree in trees {
            writing.actives().check(tree)?;
        }
        self.write_in_turn(&mut writing, payload, durability)
    }

    #[inline]
    pub(super) fn write_in_turn(
        &self,
        writing: &mut Writing,
        payload: Payload<'_>,
        durability: Durability,
    ) -> Result<()> {
        let log = self.log();
        self.monitor().check_writable()?;
        self.begin_session(writing)?;
        let (bytes, limit) = (writing.actives().bytes(), self.options().memtable_bytes);
        if bytes >= limit && self.flusher().waiting() < self.options().sealed_memtables_max {
            self.rotate(writing, RotateReason::MoreWrites)?;
        } else if bytes >= limit / 2 {
            self.request_journal(writing, None);
        }
        let (actives, Some(journal)) = writing.parts() else {
            return Err(Error::Closed);
        };
        let (next, operations) = (journal.point().next, payload.operations());
        // While the journal is written, what the memtable will touch comes from memory.
        let append = || log.append(journal, payload, durability).map(drop);
        let (mut added, mut rest) = self.insert(actives, next, operations, append)?;
        while !rest.is_at_end() {
            let next = next.after(u64::from(added));
            let (more, behind) = self.insert(actives, next, rest, || Ok(()))?;
            (added, rest) = (added.saturating_add(more), behind);
        }
        assert_eq!(added, payload.count(), "a batch counts its operations");
        self.monitor().count(Tally::UserBytes, payload.bytes());
        log.note_active_bytes(writing);
        log.show(Sequence(next.after(u64::from(added)).0 - 1));
        Ok(())
    }

    /// Inserts operations up to the first of another keyspace than that of the first one. Calls
    /// `append` before anything has changed. Returns their number, and the others.
    #[inline]
    fn insert<'a>(
        &self,
        actives: &mut Actives,
        first: Sequence,
        operations: Operations<'a>,
        append: impl FnOnce() -> Result<()>,
    ) -> Result<(u32, Operations<'a>)> {
        let bug = || Error::Bug {
            what: "a write to a keyspace that is not there".into(),
        };
        let keyspace = operations.keyspace().ok_or_else(bug)?;
        let make = || self.new_memtable();
        let (tree, table) = actives.table(keyspace, make).ok_or_else(bug)?;
        let before = table.bytes();
        let (hash_seed, place) = (tree.hash_seed(), (keyspace, table));
        let insertion = Insertion::begin(place, hash_seed, first, operations);
        let insertion = insertion.summing(tree.operator());
        append()?;
        // Before the writes become visible: see `tombstone_gaps.rs`.
        let mut writes = tree.gaps().writes();
        let (added, rest) = insertion.finish(Some(&mut writes))?;
        drop(writes);
        let bytes = table.bytes() - before;
        actives.note(first, bytes);
        Ok((added, rest))
    }

    /// A memtable for a keyspace that is written. Its filter is for the part of all writes that it
    /// may get.
    #[cold]
    fn new_memtable(&self) -> Memtable {
        let spares = Arc::downgrade(self.flusher().spares());
        let keyspaces = self.trees().count() as u64;
        Memtable::with_spares(capacity(self.options().memtable_bytes, keyspaces), spares)
    }

    /// Whether operands may be written to a keyspace. From the first on, the manifest has the name of
    /// its operator.
    ///
    /// # Errors
    ///
    /// [`Error::Invalid`] without an operator: nobody could read them.
    pub(crate) fn check_merges(&self, tree: &Tree) -> Result<()> {
        let Some(name) = tree.operator().name() else {
            return Err(Error::Invalid(
                "the keyspace was opened without an operator, so a merge has no meaning; give one to \
                 Builder::operator or KeyspaceOptions::operator, or put a value"
                    .into(),
            ));
        };
        match tree.recorded_operator() {
            Some(_) => Ok(()),
            None => self.record_operator(tree, name),
        }
    }

    /// Makes everything that was written before survive power loss.
    pub(crate) fn sync(&self) -> Result<()> {
        self.monitor().check_writable()?;
        self.log().sync_to(self.visible())
    }
}
