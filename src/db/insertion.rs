//! The operations of a record come into a memtable.

use crate::error::{Error, Result};
use crate::filter::{KeyHash, hash_key};
use crate::format::batch::{Operation, Operations};
use crate::format::cursor::Malformed;
use crate::key::{Kind, Sequence};
use crate::memtable::{Memtable, Place};

use super::gaps::Writes;

/// Operations that are about to be inserted, of which the first has found its place.
///
/// Nothing has changed before [`Insertion::finish`]. What is done in between takes no more time than
/// memory takes to come.
#[derive(Debug)]
pub(crate) struct Insertion<'a> {
    table: &'a Memtable,
    hash_seed: u64,
    first: Sequence,
    operations: Operations<'a>,
    next: Option<Next<'a>>,
}

/// The operation that comes next.
#[derive(Debug)]
struct Next<'a> {
    operation: Operation<'a>,
    hash: KeyHash,
    place: Place<'a>,
}

fn invalid(malformed: &Malformed) -> Error {
    Error::Invalid(malformed.to_string())
}

impl<'a> Insertion<'a> {
    /// Of a record with this first sequence and payload.
    ///
    /// # Errors
    ///
    /// [`Error::Invalid`] if its first operation is malformed.
    #[inline]
    pub(crate) fn begin(
        table: &'a Memtable,
        hash_seed: u64,
        (first, payload): (Sequence, &'a [u8]),
    ) -> Result<Insertion<'a>> {
        let mut insertion = Insertion {
            table,
            hash_seed,
            first,
            operations: Operations::of(payload),
            next: None,
        };
        insertion.next = insertion.find(first)?;
        Ok(insertion)
    }

    /// Inserts all of them; returns the first sequence and their number.
    ///
    /// # Errors
    ///
    /// [`Error::Invalid`] if one is malformed, after those before it were inserted.
    #[inline]
    pub(crate) fn finish(mut self, mut writes: Option<&mut Writes<'_>>) -> Result<(Sequence, u32)> {
        let mut count = 0_u32;
        while let Some(next) = self.next.take() {
            let sequence = self.first.after(u64::from(count));
            let Operation { kind, key, value } = next.operation;
            if kind == Kind::Value
                && let Some(writes) = &mut writes
            {
                writes.put(key, sequence);
            }
            let entry = (key, sequence, kind, value);
            self.table.insert_at(next.place, next.hash, entry);
            count = count.saturating_add(1);
            self.next = self.find(self.first.after(u64::from(count)))?;
        }
        Ok((self.first, count))
    }

    /// Finds the place of the next operation.
    #[inline]
    fn find(&mut self, sequence: Sequence) -> Result<Option<Next<'a>>> {
        let operation = self
            .operations
            .next()
            .map_err(|malformed| invalid(&malformed))?;
        Ok(operation.map(|operation| {
            let hash = hash_key(self.hash_seed, operation.key);
            let place = self.table.place(hash, operation.key, sequence);
            Next {
                operation,
                hash,
                place,
            }
        }))
    }
}
