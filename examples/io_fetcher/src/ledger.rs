//! The index as an ingest sees it: the store, and what the next batch will add to it.
//!
//! Counts how every question was answered, per level of comparison: these numbers are what the
//! program is for.

use std::collections::BTreeMap;

use common::codec::{Malformed, put_number};
use criba::{Db, Durability, Stats};

use crate::exit::Failure;
use crate::keys;

/// What is asked for.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Level {
    Directory,
    Inode,
    Size,
    FirstBlock,
    Whole,
    Piece,
}

impl Level {
    pub(crate) const ALL: [Level; 6] = [
        Level::Directory,
        Level::Inode,
        Level::Size,
        Level::FirstBlock,
        Level::Whole,
        Level::Piece,
    ];

    pub(crate) fn name(self) -> &'static str {
        match self {
            Level::Directory => "directory",
            Level::Inode => "inode",
            Level::Size => "size",
            Level::FirstBlock => "first_block",
            Level::Whole => "whole",
            Level::Piece => "piece",
        }
    }
}

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
pub(crate) struct Ledger {
    db: Db,
    pending: BTreeMap<Vec<u8>, Vec<u8>>,
    next_document: u64,
    asked: [Asked; Level::ALL.len()],
    filters: Filters,
    /// Filter counters of each segment when they were last looked at.
    seen: BTreeMap<u64, (u64, u64)>,
}

impl Ledger {
    pub(crate) fn new(db: Db, next_document: u64) -> Ledger {
        let mut ledger = Ledger {
            db,
            pending: BTreeMap::new(),
            next_document,
            asked: Default::default(),
            filters: Filters::default(),
            seen: BTreeMap::new(),
        };
        // Counters of filters go on from session to session; this one counts its own.
        ledger.count_filters(&ledger.db.stats());
        ledger.filters = Filters::default();
        ledger
    }

    pub(crate) fn get(&mut self, level: Level, key: &[u8]) -> Result<Option<Vec<u8>>, Failure> {
        let found = self.look(key)?;
        let asked = &mut self.asked[level as usize];
        asked.asked += 1;
        asked.new += u64::from(found.is_none());
        Ok(found)
    }

    /// Without counting: what is looked up here is known to be there.
    pub(crate) fn look(&self, key: &[u8]) -> Result<Option<Vec<u8>>, Failure> {
        Ok(match self.pending.get(key) {
            Some(value) => Some(value.clone()),
            None => self.db.get(key)?.map(|value| value.to_vec()),
        })
    }

    pub(crate) fn put(&mut self, key: Vec<u8>, value: Vec<u8>) {
        self.pending.insert(key, value);
    }

    /// Takes back what the next batch would have added.
    pub(crate) fn withdraw(&mut self, key: &[u8]) {
        self.pending.remove(key);
    }

    pub(crate) fn take_number(&mut self) -> u64 {
        self.next_document += 1;
        self.next_document - 1
    }

    pub(crate) fn pending(&self) -> usize {
        self.pending.len()
    }

    /// Commits everything as one batch, with the numbers that the next run goes on from. The
    /// packs up to `packs_end` must have been synced.
    pub(crate) fn commit(&mut self, packs_end: u64) -> Result<(), Failure> {
        if self.pending.is_empty() {
            return Ok(());
        }
        let mut batch = self.db.batch();
        for (key, value) in std::mem::take(&mut self.pending) {
            batch.put(key, value);
        }
        let mut next = Vec::new();
        put_number(&mut next, self.next_document);
        put_number(&mut next, packs_end);
        batch.put(keys::NEXT, next);
        batch.commit_with(Durability::Process)?;
        self.count_filters(&self.db.stats());
        Ok(())
    }

    /// Commits blocks and lines only: documents that wait may not be whole yet.
    pub(crate) fn commit_pieces(&mut self, packs_end: u64) -> Result<(), Failure> {
        let others = self.pending.split_off(&[keys::PIECE + 1][..]);
        let committed = self.commit(packs_end);
        self.pending = others;
        committed
    }

    /// Adds what the filters did since they were last looked at. Called often, because counters
    /// of a segment go with it when it is merged.
    fn count_filters(&mut self, stats: &Stats) {
        let mut seen = BTreeMap::new();
        for segment in stats.segments() {
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

    pub(crate) fn asked(&self, level: Level) -> Asked {
        self.asked[level as usize]
    }

    pub(crate) fn filters(&mut self) -> Filters {
        self.count_filters(&self.db.stats());
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
