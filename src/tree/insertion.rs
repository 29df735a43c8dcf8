//! The operations of a record come into a memtable.

use crate::error::{Error, Result};
use crate::format::batch::{Operation, Operations};
use crate::key::{Kind, Sequence};
use crate::memtable::{Insert, Memtable, Place};
use criba_filters::{KeyHash, hash_key};

use super::tombstone_gaps::Writes;

/// Operations that are about to be inserted, of which the first has found its place.
///
/// Nothing has changed before [`Insertion::finish`]. What is done in between takes no more time
/// than memory takes to come.
#[derive(Debug)]
pub(crate) struct Insertion<'a> {
    insert: Insert<'a>,
    hash_seed: u64,
    first: Sequence,
    operations: Operations<'a>,
    /// The operation that comes next; `None` at the end, and where they are malformed.
    next: Option<(Operation<'a>, KeyHash, Place)>,
}

impl<'a> Insertion<'a> {
    /// Begins to insert the operations of a record whose first sequence this is.
    #[inline]
    pub(crate) fn begin(
        table: &'a Memtable,
        hash_seed: u64,
        first: Sequence,
        operations: Operations<'a>,
    ) -> Insertion<'a> {
        let mut insertion = Insertion {
            insert: table.inserting(),
            hash_seed,
            first,
            operations,
            next: None,
        };
        insertion.find(first);
        insertion
    }

    /// Inserts all of them; returns the first sequence and their number.
    ///
    /// # Errors
    ///
    /// [`Error::Bug`] if one is malformed, after those before it were inserted: the caller has
    /// encoded or checked them.
    #[inline]
    pub(crate) fn finish(mut self, mut writes: Option<&mut Writes<'_>>) -> Result<(Sequence, u32)> {
        let mut count = 0_u32;
        while let Some((operation, hash, place)) = self.next.take() {
            let sequence = self.first.after(u64::from(count));
            let Operation { kind, key, value } = operation;
            if kind == Kind::Value
                && let Some(writes) = &mut writes
            {
                writes.put(key, sequence);
            }
            self.insert.add(place, hash, (key, sequence, kind, value));
            count = count.saturating_add(1);
            self.find(self.first.after(u64::from(count)));
        }
        match self.operations.next() {
            Err(malformed) => Err(Error::Bug {
                what: malformed.to_string(),
            }),
            Ok(_) => Ok((self.first, count)),
        }
    }

    /// Finds the place of the next operation.
    #[inline]
    fn find(&mut self, sequence: Sequence) {
        // Where they are malformed they stay so.
        if let Ok(Some(operation)) = self.operations.next() {
            let hash = hash_key(self.hash_seed, operation.key);
            let place = self.insert.place(operation.key, sequence);
            self.next = Some((operation, hash, place));
        }
    }
}
