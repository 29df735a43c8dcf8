//! The index as an ingest sees it: the store, and what the next batch will add to it.
//!
//! Counts what answered each lookup, table by table: these numbers are what the program is for.

use std::collections::BTreeMap;

use common::codec::{Malformed, put_number};
use criba::Durability;

use crate::account::Account;
use crate::archive::Archive;
use crate::exit::Failure;
use crate::keys::{self, Table};

#[derive(Debug)]
pub(crate) struct Ledger<'a> {
    archive: &'a Archive,
    pending: [BTreeMap<Vec<u8>, Vec<u8>>; Table::ALL.len()],
    next_document: u64,
    accounts: Accounts,
}

/// The lookups of each table.
pub(crate) type Accounts = [Account; Table::ALL.len()];

impl<'a> Ledger<'a> {
    pub(crate) fn new(archive: &'a Archive) -> Ledger<'a> {
        Ledger {
            archive,
            pending: Default::default(),
            next_document: archive.next_document,
            accounts: Accounts::default(),
        }
    }

    /// Looks a key up, and counts what answered.
    pub(crate) fn get(&mut self, table: Table, key: &[u8]) -> Result<Option<Vec<u8>>, Failure> {
        let account = &mut self.accounts[table as usize];
        if let Some(value) = self.pending[table as usize].get(key) {
            account.add_from_batch();
            return Ok(Some(value.clone()));
        }
        let lookup = self.archive.tables[table].explain(key)?;
        account.add(&lookup);
        Ok(lookup.value.map(|value| value.to_vec()))
    }

    pub(crate) fn put(&mut self, table: Table, key: impl Into<Vec<u8>>, value: Vec<u8>) {
        self.pending[table as usize].insert(key.into(), value);
    }

    /// Takes back what the next batch would have added.
    pub(crate) fn withdraw(&mut self, table: Table, key: &[u8]) {
        self.pending[table as usize].remove(key);
    }

    pub(crate) fn take_number(&mut self) -> u64 {
        self.next_document += 1;
        self.next_document - 1
    }

    pub(crate) fn pending(&self) -> usize {
        self.pending.iter().map(BTreeMap::len).sum()
    }

    /// Commits everything as one batch, or what waits for one table, with the numbers that the next
    /// run goes on from. The packs up to `packs_end` must have been synced.
    pub(crate) fn commit(&mut self, only: Option<Table>, packs_end: u64) -> Result<(), Failure> {
        let mut batch = self.archive.db.batch();
        let is_due = |table| only.is_none_or(|only| only == table);
        for (table, _) in Table::ALL.into_iter().filter(|&(table, _)| is_due(table)) {
            let mut keyspace = batch.keyspace(&self.archive.tables[table]);
            for (key, value) in std::mem::take(&mut self.pending[table as usize]) {
                keyspace.put(key, value);
            }
        }
        if batch.is_empty() {
            return Ok(());
        }
        let mut next = Vec::new();
        put_number(&mut next, self.next_document);
        put_number(&mut next, packs_end);
        batch.put(keys::NEXT, next);
        batch.commit_with(Durability::Process)?;
        Ok(())
    }

    pub(crate) fn accounts(&self) -> Accounts {
        self.accounts
    }
}

/// A record of the index that does not decode.
pub(crate) fn malformed(what: &str) -> impl FnOnce(Malformed) -> Failure + '_ {
    move |Malformed| {
        Failure::damaged(format!(
            "the record of {what} in the index is not one that this program writes; check the store"
        ))
    }
}
