//! The operations of a record come into memtables.

use crate::error::{Error, Result};
use crate::format::batch::{Operation, Operations};
use crate::key::{KeyspaceId, Kind, Sequence};
use crate::memtable::{Insert, Memtable, Place};
use crate::operator::Operator;
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
    operator: Option<&'t Operator>,
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
            operator: None,
            next: None,
        };
        insertion.find(first);
        insertion
    }

    /// With an operator that sums up what a key has many operands of.
    #[inline]
    pub(crate) fn summing(mut self, operator: &'t Operator) -> Insertion<'t, 'a> {
        self.operator = operator.is_set().then_some(operator);
        self
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
            if kind.has_value()
                && let Some(writes) = &mut writes
            {
                writes.put(key, sequence);
            }
            match kind {
                Kind::Operand => self.add_operand(place, hash, (key, sequence, value)),
                Kind::Tombstone | Kind::Value => {
                    self.insert.add(place, hash, (key, sequence, kind, value));
                }
            }
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

    /// Adds an operand, now and then with what it and those before it in the memtable come to: or
    /// lookups of a key with many would take ever longer.
    ///
    /// This is the place for it because there is one writer. What is older than the operand cannot
    /// change, and is still there for whoever reads at an older sequence.
    #[inline(never)]
    fn add_operand(
        &mut self,
        place: Place,
        hash: KeyHash,
        (key, sequence, operand): (&[u8], Sequence, &[u8]),
    ) {
        let summary = self
            .operator
            .filter(|_| self.insert.counts_operand(hash, operand.len()));
        let Some(operator) = summary else {
            let entry = (key, sequence, Kind::Operand, operand);
            return self.insert.add(place, hash, entry);
        };
        let mut older = Vec::new();
        let base = self.insert.operands(key, &mut older);
        let base_value = base.as_ref().filter(|(kind, _)| *kind == Kind::Value);
        let base_value = base_value.map(|(_, value)| &**value);
        let oldest_first = older.iter().rev().map(|operand| &**operand);
        let operands: Vec<&[u8]> = oldest_first.chain([operand]).collect();
        let summary = operator.merge(key, base_value, &operands);
        let bytes = summary.as_ref().ok().map(Vec::len);
        self.insert.note_summary(hash, bytes);
        match (summary, base) {
            (Ok(summary), None) => {
                let entry = (key, sequence, operand);
                self.insert.add_summed(place, hash, entry, &summary);
            }
            // With all that is below them they are a value.
            (Ok(value), Some(_)) => {
                let entry = (key, sequence, Kind::Value, &*value);
                self.insert.add(place, hash, entry);
            }
            // Lookups will say what is wrong with them.
            (Err(_), _) => {
                let entry = (key, sequence, Kind::Operand, operand);
                self.insert.add(place, hash, entry);
            }
        }
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
