//! Whether an address was discovered before.
//!
//! The truth is in the store, written in the batch that discovers an address. In front of it stands
//! a cache of recent addresses, because links repeat. Another structure than the store may be asked
//! in its place ([`Seen`]), to compare.
//!
//! Invariants:
//! 1. An address that the front knows is in the store, or in the batch that is being made. The front
//!    keeps whole addresses, so it cannot take one for another.
//! 2. [`InStore`] answers exactly.

mod store;

pub use store::InStore;

use common::codec::put_number;
use criba::Batch;

use crate::error::Error;
use crate::keys::Partition;
use crate::store::Store;

/// The account of all answers. Each check is counted in exactly one of the
/// `answered_by_*` fields or in `verified_on_disk`.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct SeenCounts {
    /// Addresses looked up.
    pub checks: u64,
    /// Answered "new".
    pub new: u64,
    /// Answered "seen before".
    pub repeated: u64,
    /// Answered "seen before" by the cache of recent addresses in front.
    pub answered_by_front: u64,
    /// Answered "seen before" by a memtable.
    pub answered_by_memtable: u64,
    /// Answered "new" because no segment's range of keys has the address: no filter was asked.
    pub answered_by_ranges: u64,
    /// Answered "new" by filters, without a data block.
    pub answered_by_filter: u64,
    /// Answered with the help of a data block.
    pub verified_on_disk: u64,
    /// Questions to filters.
    pub filters_asked: u64,
    /// Data blocks asked for in vain: the segment did not have the address.
    pub false_positives: u64,
    /// Of these, made up ([`InStore::doubting`]); the blocks they read are not in the counts below.
    pub forced: u64,
    /// Data blocks asked for, in cache or not.
    pub blocks: u64,
    /// Blocks and filter pages that were read from the file.
    pub disk_reads: u64,
    /// Data blocks that the same lookups would have asked for without filters.
    pub blocks_without_filters: u64,
}

impl SeenCounts {
    /// Reads of the file for each check; 0 before the first.
    pub fn disk_reads_per_check(&self) -> f64 {
        self.disk_reads as f64 / self.checks.max(1) as f64
    }
}

/// A structure that knows which addresses were discovered.
pub trait Seen: Send {
    /// The number of the address with this key, if it was discovered before. Counts what the answer
    /// took.
    ///
    /// # Errors
    ///
    /// When the structure cannot be read.
    fn find(&mut self, key: &[u8], counts: &mut SeenCounts) -> Result<Option<u64>, Error>;

    /// Learns of an address that was just discovered.
    ///
    /// # Errors
    ///
    /// When the structure cannot be written.
    fn learn(&mut self, key: &[u8], id: u64) -> Result<(), Error> {
        let _ = (key, id);
        Ok(())
    }

    /// New addresses that it took for seen, each counted once. A structure that answers exactly has
    /// none.
    fn lost(&self) -> u64 {
        0
    }
}

/// The cache in front: whole addresses and their numbers.
type Front = quick_cache::unsync::Cache<Box<str>, u64>;

/// The seen set: a front, and what stands behind it.
pub struct SeenSet {
    partition: Partition,
    front: Option<Front>,
    back: Box<dyn Seen>,
    counts: SeenCounts,
    key: Vec<u8>,
}

impl std::fmt::Debug for SeenSet {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let mut shown = f.debug_struct("SeenSet");
        shown.field("counts", &self.counts).finish_non_exhaustive()
    }
}

impl SeenSet {
    /// The number that [`Seen::find`] gives for a new address that it takes for seen.
    pub const LOST: u64 = u64::MAX;

    /// The store answers, behind a front of so many addresses; 0 for no front. An address in the
    /// front takes about its length and 60 bytes.
    pub fn in_store(store: &Store, front: usize) -> SeenSet {
        SeenSet::new(store, front, Box::new(InStore::new(store)))
    }

    /// Another structure answers. It has to know all addresses of the store already.
    pub fn new(store: &Store, front: usize, back: Box<dyn Seen>) -> SeenSet {
        SeenSet {
            partition: store.partition(),
            front: (front > 0).then(|| Front::new(front)),
            back,
            counts: SeenCounts::default(),
            key: Vec::new(),
        }
    }

    /// The number of an address that was seen moments ago. Counted only if it is known, so that a
    /// caller can sort out unwanted addresses before it asks [`SeenSet::find`].
    pub(crate) fn recent(&mut self, address: &str) -> Option<u64> {
        let id = *self.front.as_ref()?.get(address)?;
        self.counts.checks += 1;
        self.counts.repeated += 1;
        self.counts.answered_by_front += 1;
        Some(id)
    }

    /// The number of an address that was discovered before.
    pub(crate) fn find(&mut self, address: &str) -> Result<Option<u64>, Error> {
        self.partition.seen_key(address, &mut self.key);
        self.counts.checks += 1;
        let found = self.back.find(&self.key, &mut self.counts)?;
        match found {
            Some(id) => {
                self.counts.repeated += 1;
                self.remember(address, id);
            }
            None => self.counts.new += 1,
        }
        Ok(found)
    }

    /// Learns of an address that goes into the batch under way, and writes it there.
    pub(crate) fn insert(
        &mut self,
        address: &str,
        id: u64,
        (store, batch): (&Store, &mut Batch),
    ) -> Result<(), Error> {
        self.partition.seen_key(address, &mut self.key);
        let mut value = Vec::with_capacity(9);
        put_number(&mut value, id);
        batch.keyspace(&store.seen).put(&self.key, value);
        self.back.learn(&self.key, id)?;
        self.remember(address, id);
        Ok(())
    }

    fn remember(&mut self, address: &str, id: u64) {
        if let Some(front) = &mut self.front {
            front.insert(address.into(), id);
        }
    }

    /// The account of all answers so far.
    pub fn counts(&self) -> SeenCounts {
        self.counts
    }

    /// New addresses that were taken for seen; see [`Seen::lost`].
    pub fn lost(&self) -> u64 {
        self.back.lost()
    }
}

impl Store {
    /// Calls `learn` with the key and the number of each address, to fill a [`Seen`].
    ///
    /// # Errors
    ///
    /// When the store cannot be read, or `learn` fails.
    pub fn for_each_seen(
        &self,
        mut learn: impl FnMut(&[u8], u64) -> Result<(), Error>,
    ) -> Result<(), Error> {
        for entry in self.seen.iter() {
            let (key, value) = entry?;
            learn(&key, crate::store::read_id(&value)?)?;
        }
        Ok(())
    }
}
