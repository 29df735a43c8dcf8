//! Whether a URL was discovered before: one question, four ways to answer it.
//!
//! The truth is in the store in every mode, written in the batch that discovers a URL; the modes
//! differ in what is asked. In front of all of them stands a cache of recent URLs, because links
//! repeat: on real sites more than 98 of 100 are to pages seen moments ago.
//!
//! Invariants:
//! 1. A URL that the front knows is in the store, or in the batch that is being made. The front keeps
//!    whole URLs, so it cannot take one for another.
//! 2. Every mode but `filter-only` answers exactly.

mod exact;
mod filter;
mod peer;
mod store;

use criba::Db;

use crate::failure::Failure;
use crate::keys::Partition;
use crate::summary::SeenCounts;

/// Which structure answers.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
pub(crate) enum Mode {
    /// The store: filters first, the disk on "maybe".
    Store,
    /// A Bloom filter and nothing else: loses pages, and counts them.
    FilterOnly,
    /// A hash table of all URLs in memory.
    ExactMemory,
    /// sled, a store without filters.
    Sled,
}

impl Mode {
    pub(crate) fn name(self) -> &'static str {
        match self {
            Mode::Store => "store",
            Mode::FilterOnly => "filter-only",
            Mode::ExactMemory => "exact-memory",
            Mode::Sled => "sled",
        }
    }
}

/// Answers, and counts what the answers took.
trait Seen: Send {
    /// The number of the URL with this key, if it was discovered before.
    fn find(&mut self, key: &[u8], counts: &mut SeenCounts) -> Result<Option<u64>, Failure>;

    /// Learns of a URL that was just discovered.
    fn learn(&mut self, key: &[u8], id: u64) -> Result<(), Failure>;

    /// Distinct URLs that were new and taken for seen.
    fn lost(&self) -> u64 {
        0
    }
}

/// What the answers are made with.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Choice {
    pub(crate) mode: Mode,
    pub(crate) partition: Partition,
    /// URLs that the cache in front holds; 0 for no cache.
    pub(crate) front: usize,
    /// Bits for each URL in the filter of `filter-only`.
    pub(crate) filter_bits: f64,
    /// Probability with which a filter's "certainly new" is not believed.
    pub(crate) false_positives: f64,
    /// Memory for the cache of sled.
    pub(crate) sled_bytes: u64,
}

/// The cache in front: whole URLs and their numbers.
type Front = quick_cache::unsync::Cache<Box<str>, u64>;

/// The question and all that answers it.
pub(crate) struct SeenSet {
    choice: Choice,
    front: Option<Front>,
    back: Box<dyn Seen>,
    counts: SeenCounts,
    key: Vec<u8>,
}

impl SeenSet {
    /// Takes over what the store knows already: the other structures are filled from it.
    pub(crate) fn open(db: &Db, choice: Choice) -> Result<SeenSet, Failure> {
        let back: Box<dyn Seen> = match choice.mode {
            Mode::Store => Box::new(store::InStore::new(db.clone(), choice.false_positives)),
            Mode::FilterOnly => Box::new(filter::FilterOnly::new(db, choice)?),
            Mode::ExactMemory => Box::new(exact::InMemory::new(db)?),
            Mode::Sled => Box::new(peer::InSled::new(db, choice.sled_bytes)?),
        };
        let front = (choice.front > 0).then(|| Front::new(choice.front));
        Ok(SeenSet {
            choice,
            front,
            back,
            counts: SeenCounts::default(),
            key: Vec::new(),
        })
    }

    /// The number of a URL that was seen moments ago. Counted only if it is known, so that a caller
    /// can sort out unwanted URLs before it asks [`SeenSet::find`].
    pub(crate) fn find_recent(&mut self, url: &str) -> Option<u64> {
        let id = *self.front.as_ref()?.get(url)?;
        self.counts.checks += 1;
        self.counts.repeated += 1;
        self.counts.answered_by_front += 1;
        Some(id)
    }

    /// The number of a URL that was discovered before.
    pub(crate) fn find(&mut self, url: &str) -> Result<Option<u64>, Failure> {
        self.choice.partition.seen_key(url, &mut self.key);
        self.counts.checks += 1;
        let found = self.back.find(&self.key, &mut self.counts)?;
        match found {
            Some(id) => {
                self.counts.repeated += 1;
                self.remember(url, id);
            }
            None => self.counts.new += 1,
        }
        Ok(found)
    }

    /// Learns of a URL that goes into the batch under way, and writes it there.
    pub(crate) fn insert(
        &mut self,
        url: &str,
        id: u64,
        batch: &mut criba::Batch,
    ) -> Result<(), Failure> {
        self.choice.partition.seen_key(url, &mut self.key);
        let mut value = Vec::with_capacity(9);
        common::codec::put_number(&mut value, id);
        batch.put(&self.key, value);
        self.back.learn(&self.key, id)?;
        self.remember(url, id);
        Ok(())
    }

    fn remember(&mut self, url: &str, id: u64) {
        if let Some(front) = &mut self.front {
            front.insert(url.into(), id);
        }
    }

    pub(crate) fn counts(&self) -> SeenCounts {
        self.counts
    }

    pub(crate) fn lost(&self) -> u64 {
        self.back.lost()
    }
}

/// A number as it stands in the seen set.
fn read_id(value: &[u8]) -> Result<u64, Failure> {
    Ok(common::codec::Reader(value).number()?)
}

/// Calls with each URL that the store knows, for structures that live in memory.
fn for_each(
    db: &Db,
    mut learn: impl FnMut(&[u8], u64) -> Result<(), Failure>,
) -> Result<(), Failure> {
    for entry in db.prefix(crate::keys::SEEN) {
        let (key, value) = entry?;
        learn(&key, read_id(&value)?)?;
    }
    Ok(())
}
