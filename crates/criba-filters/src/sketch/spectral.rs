//! A Bloom filter that tells how often a key came: the least of the key's counters.
//!
//! Cohen, Matias, "Spectral Bloom filters" (SIGMOD 2003), section 3.2, *minimum increase*: an
//! insertion raises only those counters of the key that are the least. The estimate is never too
//! low, and is wrong with at most the probability with which a Bloom filter of the same shape has a
//! false positive (claim 1); measured it is wrong several times less often, because a counter is
//! only raised when it has to be.
//!
//! Memory: a counter of 32 bits where a Bloom filter has a bit, so 307 bits per distinct key at 1
//! %: the compact string-array index of the paper is not built here. It pays where few keys are
//! expected in truth or the counts are wanted with high certainty; for "within a share of the whole
//! stream", [`CountMin`](super::CountMin) needs memory that does not grow with the number of keys.
//!
//! Keys cannot be removed: lowering counters that were not raised would make counts too low.
//! Counters stop at 4,294,967,295.

use crate::error::Result;
use crate::family::frame;
use crate::{KeyHash, Merge, Sketch};

use super::counting::{put_shape, read_shape, shapes_differ};
use super::rows::probes;
use super::sizing::{self, PROBES_MAX, check_cells, check_few};

const KIND: frame::Kind = *b"SPEC";
const VERSION: u8 = 1;
const COUNTER_BYTES: u64 = 4;

/// A spectral Bloom filter with minimum increase.
///
/// Formulas, use, what was measured and what it costs: `docs/filters/spectral.md`.
///
/// ```
/// use criba_filters::{SpectralBloom, Sketch};
///
/// let mut often = SpectralBloom::with_rate(1_000, 0.01)?; // 1,000 distinct keys
/// for word in "the quick brown fox jumps over the lazy dog".split(' ') {
///     often.insert(word);
/// }
/// assert!(often.estimate("the") >= 2 && often.total() == 9);
/// # Ok::<(), criba_filters::Error>(())
/// ```
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct SpectralBloom {
    probes: u8,
    total: u64,
    counters: Box<[u32]>,
}

impl SpectralBloom {
    /// A filter whose count of a key is wrong with a probability of at most `rate` once it holds so
    /// many distinct keys.
    ///
    /// # Errors
    ///
    /// If `rate` is not above 0 and below 1, or more than 2^32 counters would be needed.
    pub fn with_rate(distinct_keys: u64, rate: f64) -> Result<SpectralBloom> {
        let (cells, probes) = sizing::bloom(distinct_keys, rate)?;
        SpectralBloom::with_shape(cells, probes)
    }

    /// A filter of so many counters (1 to 2^32) and hash functions (1 to 64).
    ///
    /// # Errors
    ///
    /// If one of the two is out of its bounds.
    pub fn with_shape(cells: u64, probes: u8) -> Result<SpectralBloom> {
        let cells = check_cells("counters", cells as f64)?;
        let cells = usize::try_from(cells).unwrap_or(usize::MAX);
        Ok(SpectralBloom {
            probes: check_few("hash functions", probes, PROBES_MAX)?,
            total: 0,
            counters: vec![0; cells].into_boxed_slice(),
        })
    }

    /// Counts a key so many times.
    #[inline]
    pub fn add(&mut self, key: impl Into<KeyHash>, count: u32) {
        self.add_hash(key.into(), count);
    }

    #[inline]
    fn add_hash(&mut self, hash: KeyHash, count: u32) {
        let least = self.estimate_hash(hash).saturating_add(count);
        for cell in probes(hash, 0, self.shape()) {
            let counter = &mut self.counters[cell];
            *counter = least.max(*counter);
        }
        self.total = self.total.saturating_add(u64::from(count));
    }

    /// How often the key came: never less than that.
    #[must_use]
    #[inline]
    pub fn estimate(&self, key: impl Into<KeyHash>) -> u32 {
        self.estimate_hash(key.into())
    }

    #[inline]
    fn estimate_hash(&self, hash: KeyHash) -> u32 {
        let counts = probes(hash, 0, self.shape()).map(|cell| self.counters[cell]);
        counts.min().unwrap_or(0)
    }

    /// Whether a key may have come at all; `false` is certain.
    #[must_use]
    pub fn may_contain(&self, key: impl Into<KeyHash>) -> bool {
        self.estimate(key) > 0
    }

    /// The length of the stream.
    #[must_use]
    pub fn total(&self) -> u64 {
        self.total
    }

    /// Number of counters, and of hash functions.
    #[inline]
    #[must_use]
    pub fn shape(&self) -> (u64, u8) {
        (self.counters.len() as u64, self.probes)
    }

    /// The share of counters that are not zero.
    #[must_use]
    pub fn fill(&self) -> f64 {
        let used = self.counters.iter().filter(|count| **count > 0).count();
        used as f64 / self.counters.len() as f64
    }

    /// Probability that a key that never came has a count now, from the fill.
    #[must_use]
    pub fn current_rate(&self) -> f64 {
        self.fill().powi(i32::from(self.probes))
    }

    /// Probability that the count of a key is too high after so many distinct keys, at most.
    #[must_use]
    pub fn rate_with(&self, distinct_keys: u64) -> f64 {
        let (cells, probes) = self.shape();
        sizing::bloom_rate(cells, probes, distinct_keys)
    }
}

impl Sketch for SpectralBloom {
    #[inline]
    fn insert_hash(&mut self, hash: KeyHash) {
        self.add_hash(hash, 1);
    }

    /// Bytes of memory, four for each counter.
    fn memory_bytes(&self) -> usize {
        size_of::<Self>() + size_of_val::<[u32]>(&self.counters)
    }

    /// The filter as bytes: 17 for its shape and total, four for each counter, framed.
    fn to_bytes(&self) -> Vec<u8> {
        let mut payload = Vec::with_capacity(17 + size_of_val::<[u32]>(&self.counters));
        put_shape(&mut payload, self.shape());
        payload.extend(self.total.to_le_bytes());
        payload.extend(self.counters.iter().flat_map(|count| count.to_le_bytes()));
        frame::encode(KIND, VERSION, &payload)
    }

    fn from_bytes(bytes: &[u8]) -> Result<SpectralBloom> {
        let mut fields = frame::decode(KIND, VERSION, bytes)?;
        let (cells, probes) = read_shape(&mut fields)?;
        let total = fields.u64("the total is cut short")?;
        let counters = fields.bytes(cells * COUNTER_BYTES, "the counters are cut short")?;
        fields.end()?;
        let (counters, _) = counters.as_chunks();
        let counters = counters.iter().map(|bytes| u32::from_le_bytes(*bytes));
        Ok(SpectralBloom {
            probes,
            total,
            counters: counters.collect(),
        })
    }
}

impl Merge for SpectralBloom {
    /// Adds all counts of another filter. Counts are still never too low, but may be higher than
    /// those of one filter that had seen both streams.
    fn merge(&mut self, other: &Self) -> Result<()> {
        if self.shape() != other.shape() {
            return Err(shapes_differ(self.shape(), other.shape()));
        }
        for (own, other) in self.counters.iter_mut().zip(&other.counters) {
            *own = own.saturating_add(*other);
        }
        self.total = self.total.saturating_add(other.total);
        Ok(())
    }
}
