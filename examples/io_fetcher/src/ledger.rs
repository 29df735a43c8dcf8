//! The index as an ingest sees it: the store, and what the next batch will add to it.
//!
//! Counts how every question was answered, per level of comparison: these numbers are what the
//! program is for.

use std::collections::BTreeMap;

use common::codec::{Malformed, put_number};
use criba::{Durability, Stats};

use crate::archive::Archive;
use crate::exit::Failure;
use crate::keys::{self, Table};

/// Questions of one level.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Asked {
    pub(crate) asked: u64,
    /// Of these, certainly new: nothing deeper was compared.
    pub(crate) new: u64,
}

/// What the filters of the store did.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Filters {
    /// Data blocks not read because a filter said no.
    pub(crate) reads_avoided: u64,
    /// Data blocks read in vain.
    pub(crate) false_positives: u64,
}

#[derive(Debug)]
pub(crate) struct Ledger<'a> {
    archive: &'a Archive,
    pending: [BTreeMap<Vec<u8>, Vec<u8>>; Table::ALL.len()],
    next_document: u64,
    asked: [Asked; Table::ALL.len()],
    filters: Filters,
    /// Filter counters of each segment when they were last looked at.
    seen: BTreeMap<u64, (u64, u64)>,
}

impl<'a> Ledger<'a> {
    pub(crate) fn new(archive: &'a Archive) -> Ledger<'a> {
        let mut ledger = Ledger {
            archive,
            pending: Default::default(),
            next_document: archive.next_document,
            asked: Default::default(),
            filters: Filters::default(),
            seen: BTreeMap::new(),
        };
        // Counters of filters go on from session to session; this one counts its own.
        ledger.count_filters();
        ledger.filters = Filters::default();
        ledger
    }

    pub(crate) fn get(&mut self, table: Table, key: &[u8]) -> Result<Option<Vec<u8>>, Failure> {
        let found = self.look(table, key)?;
        // A URL is a name, as a directory is.
        let level = match table {
            Table::Url => Table::Directory,
            _ => table,
        };
        let asked = &mut self.asked[level as usize];
        asked.asked += 1;
        asked.new += u64::from(found.is_none());
        Ok(found)
    }

    /// Without counting: what is looked up here is known to be there.
    pub(crate) fn look(&self, table: Table, key: &[u8]) -> Result<Option<Vec<u8>>, Failure> {
        Ok(match self.pending[table as usize].get(key) {
            Some(value) => Some(value.clone()),
            None => self.archive.tables[table]
                .get(key)?
                .map(|value| value.to_vec()),
        })
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
        self.count_filters();
        Ok(())
    }

    /// Adds what the filters did since they were last looked at. Called often, because counters
    /// of a segment go with it when it is merged.
    fn count_filters(&mut self) {
        let mut seen = BTreeMap::new();
        for segment in self.archive.stats().iter().flat_map(Stats::segments) {
            let Some(filter) = &segment.filter else {
                continue;
            };
            let now = (filter.negatives, filter.false_positives);
            let before = self.seen.get(&segment.id).copied().unwrap_or_default();
            self.filters.reads_avoided += now.0.saturating_sub(before.0);
            self.filters.false_positives += now.1.saturating_sub(before.1);
            seen.insert(segment.id, now);
        }
        self.seen = seen;
    }

    pub(crate) fn asked(&self, level: Table) -> Asked {
        self.asked[level as usize]
    }

    pub(crate) fn filters(&mut self) -> Filters {
        self.count_filters();
        self.filters
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
