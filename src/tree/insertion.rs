//! The operations of a record come into memtables.

use crate::error::{Error, Result};
use crate::format::batch::{Operation, Operations};
use crate::key::{KeyspaceId, Kind, Sequence};
use crate::memtable::{Insert, Memtable, Place};
use criba_filters::{KeyHash, hash_key};

use super::tombstone_gaps::Writes;

/// Operations of one keyspace that are about to be inserted, of which the first has found its place.
///
/// Nothing has changed before [`Insertion::finish`]. What is done in between takes no more time
/// than memory takes to come.
#[derive(Debug)]
pub(crate) struct Insertion<'t, 'a> {
    insert: Insert<'t>,
    hash_seed: u64,
    keyspace: KeyspaceId,
    first: Sequence,
    operations: Operations<'a>,
    /// The operation that comes next; `None` at the end, and where they are malformed.
    next: Option<(Operation<'a>, KeyHash, Place)>,
}

impl<'t, 'a> Insertion<'t, 'a> {
    /// Begins to insert the operations of a record whose first sequence this is, up to the first
    /// of another keyspace than that of the table.
    #[inline]
    pub(crate) fn begin(
        (keyspace, table): (KeyspaceId, &'t Memtable),
        hash_seed: u64,
        first: Sequence,
        operations: Operations<'a>,
    ) -> Insertion<'t, 'a> {
        let mut insertion = Insertion {
            insert: table.inserting(),
            hash_seed,
            keyspace,
            first,
            operations,
            next: None,
        };
        insertion.find(first);
        insertion
    }

    /// Inserts them; returns their number, and the operations that follow, of another keyspace.
    ///
    /// # Errors
    ///
    /// [`Error::Bug`] if one is malformed, after those before it were inserted: the caller has
    /// encoded or checked them.
    #[inline]
    pub(crate) fn finish(
        mut self,
        mut writes: Option<&mut Writes<'_>>,
    ) -> Result<(u32, Operations<'a>)> {
        let mut count = 0_u32;
        while let Some((operation, hash, place)) = self.next.take() {
            let sequence = self.first.after(u64::from(count));
            let Operation {
                kind, key, value, ..
            } = operation;
            if kind == Kind::Value
                && let Some(writes) = &mut writes
            {
                writes.put(key, sequence);
            }
            self.insert.add(place, hash, (key, sequence, kind, value));
            count = count.saturating_add(1);
            self.find(self.first.after(u64::from(count)));
        }
        let follows = self.operations.keyspace().filter(|id| *id != self.keyspace);
        if follows.is_none() && !self.operations.is_at_end() {
            let what = "a record holds a malformed operation".to_owned();
            return Err(Error::Bug { what });
        }
        Ok((count, self.operations))
    }

    /// Finds the place of the next operation.
    #[inline]
    fn find(&mut self, sequence: Sequence) {
        // Where they are malformed they stay so.
        if self.operations.keyspace() == Some(self.keyspace)
            && let Ok(Some(operation)) = self.operations.next()
        {
            let hash = hash_key(self.hash_seed, operation.key);
            let place = self.insert.place(operation.key, sequence);
            self.next = Some((operation, hash, place));
        }
    }
}
