//! A Bloom filter from which keys can be removed: a counter of four bits in place of each bit.
//!
//! Fan, Cao, Almeida, Broder, "Summary cache: a scalable wide-area web cache sharing protocol"
//! (2000), section V.C. Memory: four times that of a Bloom filter of the same rate, 38.3 bits per
//! key at 1 %. Insert, lookup and removal touch `k` cells each, cache misses all.
//!
//! - A counter that has reached 15 stays there: it no longer knows how many keys it stands for. So
//!   a key may stay "maybe there" for good, but none is ever lost. A removal that meets such a
//!   counter is not counted: `len` is 0 only when all counters are. With as many keys as the filter
//!   was made for, some counter gets there with a probability of at most `1.37e-15 m` (the same
//!   section).
//! - Only keys that are there may be removed. A key that was never inserted and passes by chance,
//!   once removed, takes others with it: they are then denied.
//! - It counts how often a key was inserted only up to 14, and too high where keys share cells; for
//!   that, see [`SpectralBloom`](super::SpectralBloom).

use crate::error::Result;
use crate::family::frame;
use crate::{Delete, Insert, KeyHash, Membership, Merge};

use super::rows::probes;
use super::sizing::{self, CELLS_MAX, PROBES_MAX, check_cells, check_few, invalid};

const KIND: frame::Kind = *b"CBLM";
const VERSION: u8 = 1;

/// A counter that has reached this stays there. Written to disk; must not be changed.
const FULL: u8 = 15;
const COUNTER_BITS: u32 = 4;

/// A Bloom filter with counters of four bits.
///
/// Formulas, use, what was measured and what it costs: `docs/filters/counting.md`.
///
/// ```
/// use criba_filters::{CountingBloom, Delete, Insert, Membership};
///
/// let mut open = CountingBloom::with_rate(10_000, 0.01)?;
/// open.insert("session/17")?;
/// assert!(open.remove("session/17")); // only what was put in
/// assert!(open.is_empty());
/// # Ok::<(), criba_filters::Error>(())
/// ```
#[doc(alias = "cbf")]
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct CountingBloom {
    cells: u64,
    probes: u8,
    keys: u64,
    /// Two counters to a byte, the lower half first.
    counters: Box<[u8]>,
}

impl CountingBloom {
    /// A filter that answers "maybe" for an absent key with a probability of `rate` once it holds
    /// so many keys.
    ///
    /// # Errors
    ///
    /// If `rate` is not above 0 and below 1, or more than 2^32 counters would be needed.
    pub fn with_rate(keys: u64, rate: f64) -> Result<CountingBloom> {
        let (cells, probes) = sizing::bloom(keys, rate)?;
        CountingBloom::with_shape(cells, probes)
    }

    /// A filter of so many counters (1 to 2^32) and hash functions (1 to 64).
    ///
    /// # Errors
    ///
    /// If one of the two is out of its bounds.
    pub fn with_shape(cells: u64, probes: u8) -> Result<CountingBloom> {
        let cells = check_cells("counters", cells as f64)?;
        let probes = check_few("hash functions", probes, PROBES_MAX)?;
        Ok(CountingBloom {
            cells,
            probes,
            keys: 0,
            counters: vec![0; byte_count(cells)].into_boxed_slice(),
        })
    }

    /// How often the key was inserted, at most; 15 stands for that or any greater number.
    #[must_use]
    pub fn estimate(&self, key: impl Into<KeyHash>) -> u8 {
        let counts = probes(key.into(), 0, self.shape()).map(|cell| self.get(cell));
        counts.min().unwrap_or(0)
    }

    /// Number of counters, and of hash functions.
    #[inline]
    #[must_use]
    pub fn shape(&self) -> (u64, u8) {
        (self.cells, self.probes)
    }

    /// The share of counters that are not zero.
    #[must_use]
    pub fn fill(&self) -> f64 {
        self.share(|count| count > 0)
    }

    /// The share of counters that are full and can never be lowered again.
    #[must_use]
    pub fn full(&self) -> f64 {
        self.share(|count| count == FULL)
    }

    fn share(&self, is_meant: impl Fn(u8) -> bool) -> f64 {
        let cells = usize::try_from(self.cells).unwrap_or(usize::MAX);
        let count = (0..cells).filter(|cell| is_meant(self.get(*cell))).count();
        count as f64 / self.cells as f64
    }

    /// Probability that an absent key passes once the filter holds so many distinct keys, by
    /// theory.
    #[must_use]
    pub fn rate_with(&self, keys: u64) -> f64 {
        sizing::bloom_rate(self.cells, self.probes, keys)
    }

    #[inline]
    fn get(&self, cell: usize) -> u8 {
        self.counters[cell / 2] >> shift(cell) & FULL
    }

    #[inline]
    fn set(&mut self, cell: usize, count: u8) {
        let pair = &mut self.counters[cell / 2];
        *pair = *pair & !(FULL << shift(cell)) | count << shift(cell);
    }
}

impl Membership for CountingBloom {
    #[inline]
    fn may_contain_hash(&self, hash: KeyHash) -> bool {
        probes(hash, 0, self.shape()).all(|cell| self.get(cell) > 0)
    }

    /// Insertions that were not taken back: a key put in twice counts twice. A removal that met a
    /// full counter, which stays, does not count.
    fn len(&self) -> u64 {
        self.keys
    }

    /// Four for each counter.
    fn bits(&self) -> u64 {
        self.cells * u64::from(COUNTER_BITS)
    }

    /// As if all keys in it were distinct.
    fn expected_rate(&self) -> f64 {
        self.rate_with(self.keys)
    }

    fn current_rate(&self) -> f64 {
        self.fill().powi(i32::from(self.probes))
    }

    /// The filter as bytes: 17 for its shape and number of keys, half a byte for each counter,
    /// framed.
    fn to_bytes(&self) -> Vec<u8> {
        let mut payload = Vec::with_capacity(17 + self.counters.len());
        put_shape(&mut payload, self.shape());
        payload.extend(self.keys.to_le_bytes());
        payload.extend(&self.counters);
        frame::encode(KIND, VERSION, &payload)
    }

    fn from_bytes(bytes: &[u8]) -> Result<CountingBloom> {
        let mut fields = frame::decode(KIND, VERSION, bytes)?;
        let (cells, probes) = read_shape(&mut fields)?;
        let keys = fields.u64("the number of keys is cut short")?;
        let counters = fields.bytes(byte_count(cells) as u64, "the counters are cut short")?;
        fields.end()?;
        let unused = cells % 2 == 1 && counters.last().is_some_and(|last| last >> COUNTER_BITS > 0);
        frame::require(!unused, "a counter after the last one is not zero")?;
        Ok(CountingBloom {
            cells,
            probes,
            keys,
            counters: counters.into(),
        })
    }
}

impl Insert for CountingBloom {
    /// Adds a key, once more if it is there already. There is always room.
    #[inline]
    fn insert_hash(&mut self, hash: KeyHash) -> Result<()> {
        for cell in probes(hash, 0, self.shape()) {
            let count = self.get(cell);
            self.set(cell, count.saturating_add(1).min(FULL));
        }
        self.keys = self.keys.saturating_add(1);
        Ok(())
    }
}

impl Delete for CountingBloom {
    /// Takes a key out, once if it was inserted more than once. `false`, and nothing is changed, if
    /// it is certainly not there.
    fn remove_hash(&mut self, hash: KeyHash) -> bool {
        if !self.may_contain_hash(hash) {
            return false;
        }
        let mut stays = false;
        for cell in probes(hash, 0, self.shape()) {
            let count = self.get(cell);
            stays |= count == FULL;
            // A cell that this key has twice may be at 0 already if the key was never there.
            if count != FULL {
                self.set(cell, count.saturating_sub(1));
            }
        }
        if !stays {
            self.keys = self.keys.saturating_sub(1);
        }
        true
    }
}

impl Merge for CountingBloom {
    /// If no key was ever removed from either, the result is the filter of both streams in one; and
    /// as long as no counter is full, it is that in any case.
    fn merge(&mut self, other: &Self) -> Result<()> {
        if self.shape() != other.shape() {
            return Err(shapes_differ(self.shape(), other.shape()));
        }
        for (own, other) in self.counters.iter_mut().zip(&other.counters) {
            let sum = |shift: u32| {
                let (own, other) = (*own >> shift & FULL, *other >> shift & FULL);
                (own + other).min(FULL) << shift
            };
            *own = sum(0) | sum(COUNTER_BITS);
        }
        self.keys = self.keys.saturating_add(other.keys);
        Ok(())
    }
}

#[inline]
fn shift(cell: usize) -> u32 {
    (cell % 2) as u32 * COUNTER_BITS
}

fn byte_count(cells: u64) -> usize {
    usize::try_from(cells.div_ceil(2)).unwrap_or(usize::MAX)
}

/// Number of cells and of hash functions, as all filters with such a shape write them.
pub(super) fn put_shape(payload: &mut Vec<u8>, (cells, probes): (u64, u8)) {
    payload.extend(cells.to_le_bytes());
    payload.push(probes);
}

pub(super) fn read_shape(fields: &mut frame::Fields<'_>) -> Result<(u64, u8)> {
    let cells = fields.u64("the number of cells is cut short")?;
    let in_bounds = (1..=CELLS_MAX).contains(&cells);
    frame::require(in_bounds, "the number of cells is out of bounds")?;
    let probes = fields.u8("the number of hash functions is cut short")?;
    let in_bounds = (1..=PROBES_MAX).contains(&probes);
    frame::require(in_bounds, "the number of hash functions is out of bounds")?;
    Ok((cells, probes))
}

pub(super) fn shapes_differ(own: (u64, u8), other: (u64, u8)) -> crate::error::Error {
    invalid(format!(
        "{} cells with {} hash functions cannot be merged with {} cells and {}: build both for one \
         shape",
        own.0, own.1, other.0, other.1
    ))
}
