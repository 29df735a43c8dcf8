//! Four ways to know whether a URL was discovered before, to compare. The store answers by default;
//! the truth is in the store in every mode, written in the batch that discovers a URL.

mod exact;
mod filter;
mod peer;

use crawl::{InStore, Seen, SeenSet, Store};

use crate::failure::Failure;

/// Which structure answers.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
pub(crate) enum Mode {
    /// The store: filters first, the disk on "maybe".
    Store,
    /// A Bloom filter and nothing else: loses pages, and counts them.
    FilterOnly,
    /// The same without the count, which asks the store. For the demo.
    #[clap(skip)]
    FilterAlone,
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
            Mode::FilterAlone => "filter-alone",
            Mode::ExactMemory => "exact-memory",
            Mode::Sled => "sled",
        }
    }
}

/// What the answers are made with.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Choice {
    pub(crate) mode: Mode,
    /// URLs that the cache in front holds; 0 for no cache.
    pub(crate) front: usize,
    /// Bits for each URL in the filter of `filter-only`.
    pub(crate) filter_bits: f64,
    /// Probability with which a filter's "certainly new" is not believed.
    pub(crate) false_positives: f64,
    /// Memory for the cache of sled.
    pub(crate) sled_bytes: u64,
}

impl Choice {
    /// Takes over what the store knows already: the other structures are filled from it.
    pub(crate) fn open(self, store: &Store) -> Result<SeenSet, Failure> {
        let back: Box<dyn Seen> = match self.mode {
            Mode::Store => Box::new(InStore::doubting(store, self.false_positives)),
            Mode::FilterOnly => Box::new(filter::FilterOnly::new(store, self.filter_bits)?),
            Mode::FilterAlone => {
                Box::new(filter::FilterOnly::new(store, self.filter_bits)?.alone())
            }
            Mode::ExactMemory => Box::new(exact::InMemory::new(store)?),
            Mode::Sled => Box::new(peer::InSled::new(store, self.sled_bytes)?),
        };
        Ok(SeenSet::new(store, self.front, back))
    }
}
