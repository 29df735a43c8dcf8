//! `--seen filter-only`: a Bloom filter and nothing else, as crawlers do that trade pages for
//! memory.
//!
//! A false positive looks like "already seen": the URL is dropped and never fetched. Beside it, the
//! store says what the truth is, so that the losses can be counted. What would have been discovered
//! on lost pages is not in this count; nobody has seen it.

use std::collections::HashSet;

use common::codec::Reader;
use crawl::{Error, Seen, SeenCounts, SeenSet, Store};
use criba::Keyspace;
use criba_filters::segment::MemoryBloom;
use criba_filters::{KeyHash, hash_key};

/// URLs that the first filter is made for; each further one is for twice as many.
const FIRST_URLS: usize = 4096;

const SEED: u64 = 0x6372_6962_6121;

pub(super) struct FilterOnly {
    /// Says what the truth is. `None` if nobody is to know.
    truth: Option<Keyspace>,
    bits: f64,
    /// The last one takes new URLs; all are asked.
    filters: Vec<MemoryBloom>,
    /// URLs that the last filter can still take.
    room: usize,
    lost: HashSet<Box<[u8]>>,
}

impl FilterOnly {
    pub(super) fn new(store: &Store, bits: f64) -> Result<FilterOnly, Error> {
        let mut made = FilterOnly {
            truth: Some(store.seen().clone()),
            bits,
            filters: Vec::new(),
            room: 0,
            lost: HashSet::new(),
        };
        store.for_each_seen(|key, id| made.learn(key, id))?;
        Ok(made)
    }

    /// Does not ask the store what the truth is: all that it takes for seen has the number 0.
    pub(super) fn alone(mut self) -> FilterOnly {
        self.truth = None;
        self
    }

    fn may_contain(&self, hash: KeyHash) -> bool {
        self.filters.iter().any(|filter| filter.may_contain(hash))
    }
}

impl Seen for FilterOnly {
    fn find(&mut self, key: &[u8], counts: &mut SeenCounts) -> Result<Option<u64>, Error> {
        counts.answered_by_filter += 1;
        counts.filters_asked += 1;
        if !self.may_contain(hash_key(SEED, key)) {
            return Ok(None);
        }
        let Some(truth) = &self.truth else {
            return Ok(Some(0));
        };
        if let Some(value) = truth.get(key)? {
            return Ok(Some(Reader(&value).number()?));
        }
        counts.false_positives += 1;
        self.lost.insert(key.into());
        Ok(Some(SeenSet::LOST))
    }

    fn learn(&mut self, key: &[u8], _id: u64) -> Result<(), Error> {
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
