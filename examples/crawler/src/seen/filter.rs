//! `--seen filter-only`: a Bloom filter and nothing else, as crawlers do that trade pages for
//! memory.
//!
//! A false positive looks like "already seen": the URL is dropped and never fetched. Beside it, the
//! store says what the truth is, so that the losses can be counted. What would have been discovered
//! on lost pages is not in this count; nobody has seen it.

use std::collections::HashSet;

use criba::Db;
use criba_filters::segment::MemoryBloom;
use criba_filters::{KeyHash, hash_key};

use crate::failure::Failure;
use crate::summary::SeenCounts;

use super::{Choice, Seen, for_each, read_id};

/// URLs that the first filter is made for; each further one is for twice as many.
const FIRST_URLS: usize = 4096;

/// Stands for the number of a URL that was lost, and so has none.
pub(super) const NOBODY: u64 = u64::MAX;

const SEED: u64 = 0x6372_6962_6121;

pub(super) struct FilterOnly {
    db: Db,
    bits: f64,
    /// The last one takes new URLs; all are asked.
    filters: Vec<MemoryBloom>,
    /// URLs that the last filter can still take.
    room: usize,
    lost: HashSet<Box<[u8]>>,
}

impl FilterOnly {
    pub(super) fn new(db: &Db, choice: Choice) -> Result<FilterOnly, Failure> {
        let mut made = FilterOnly {
            db: db.clone(),
            bits: choice.filter_bits,
            filters: Vec::new(),
            room: 0,
            lost: HashSet::new(),
        };
        for_each(db, |key, id| made.learn(key, id))?;
        Ok(made)
    }

    fn may_contain(&self, hash: KeyHash) -> bool {
        self.filters.iter().any(|filter| filter.may_contain(hash))
    }
}

impl Seen for FilterOnly {
    fn find(&mut self, key: &[u8], counts: &mut SeenCounts) -> Result<Option<u64>, Failure> {
        counts.answered_by_filter += 1;
        if !self.may_contain(hash_key(SEED, key)) {
            return Ok(None);
        }
        if let Some(value) = self.db.get(key)? {
            return read_id(&value).map(Some);
        }
        counts.false_positives += 1;
        self.lost.insert(key.into());
        Ok(Some(NOBODY))
    }

    fn learn(&mut self, key: &[u8], _id: u64) -> Result<(), Failure> {
        if self.room == 0 {
            let urls = FIRST_URLS << self.filters.len().min(20);
            self.filters.push(MemoryBloom::new(urls, self.bits));
            self.room = urls;
        }
        self.room -= 1;
        if let Some(filter) = self.filters.last() {
            filter.insert(hash_key(SEED, key));
        }
        Ok(())
    }

    fn lost(&self) -> u64 {
        self.lost.len() as u64
    }
}
