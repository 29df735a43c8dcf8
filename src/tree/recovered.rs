//! What journals hold, by keyspace.

use std::collections::BTreeMap;

use crate::format::batch::{self, Operations};
use crate::key::{KeyspaceId, Sequence};
use crate::manifest::State;
use crate::memtable::Memtable;
use crate::operator::Operator;

use super::insertion::Insertion;

/// The operations of journals, in a memtable for each keyspace.
#[derive(Debug, Default)]
pub(crate) struct RecoveredTables {
    pub(crate) tables: BTreeMap<KeyspaceId, Memtable>,
    /// Batches that were applied.
    pub(crate) batches: u64,
    memtable_bytes: u64,
    /// Numbers below were given. Those that are not live are of keyspaces that were dropped.
    next_keyspace: KeyspaceId,
    live: Vec<KeyspaceId>,
    /// That of the default keyspace. The others are not open yet.
    operator: Operator,
}

impl RecoveredTables {
    /// None yet, of a store with the keyspaces that the manifest knows.
    pub(crate) fn of(state: &State, memtable_bytes: u64, operator: &Operator) -> RecoveredTables {
        RecoveredTables {
            operator: operator.clone(),
            memtable_bytes,
            next_keyspace: state.next_keyspace,
            live: state.keyspaces().keys().copied().collect(),
            ..RecoveredTables::default()
        }
    }

    /// The same where it is not known which keyspaces there are.
    pub(crate) fn of_any() -> RecoveredTables {
        RecoveredTables {
            next_keyspace: KeyspaceId(u32::MAX),
            ..RecoveredTables::default()
        }
    }

    /// Inserts the operations of a record, all or none. Those of a keyspace that was dropped are passed
    /// over.
    ///
    /// # Errors
    ///
    /// What is wrong with the record, in words.
    pub(crate) fn apply(
        &mut self,
        (first, count): (Sequence, u32),
        payload: &[u8],
        hash_seed: u64,
    ) -> Result<(), String> {
        self.check(count, payload)?;
        self.batches += 1;
        let mut rest = Operations::of(payload);
        let mut next = first;
        while let Some(keyspace) = rest.keyspace() {
            let is_live = self.live.is_empty() || self.live.binary_search(&keyspace).is_ok();
            if !is_live {
                rest.next().map_err(|malformed| malformed.to_string())?;
                next = next.after(1);
                continue;
            }
            let memtable_bytes = self.memtable_bytes;
            let make = || Memtable::new(memtable_bytes);
            let table = self.tables.entry(keyspace).or_insert_with(make);
            let insertion = Insertion::begin((keyspace, table), hash_seed, next, rest);
            let insertion = match keyspace {
                KeyspaceId::DEFAULT => insertion.summing(&self.operator),
                _ => insertion,
            };
            let (added, behind) = insertion.finish(None).map_err(|error| error.to_string())?;
            next = next.after(u64::from(added));
            rest = behind;
        }
        Ok(())
    }

    fn check(&self, count: u32, payload: &[u8]) -> Result<(), String> {
        match batch::count(payload) {
            Ok(decoded) if decoded == count => {}
            Ok(decoded) => return Err(format!("{decoded} operations where {count} are stated")),
            Err(malformed) => return Err(malformed.to_string()),
        }
        let mut operations = Operations::of(payload);
        while let Ok(Some(operation)) = operations.next() {
            if operation.keyspace >= self.next_keyspace {
                let id = operation.keyspace;
                return Err(format!("it names keyspace {id}, which was never made"));
            }
        }
        Ok(())
    }
}
