//! How unevenly keys are spread: the second moment `F2` of a stream, the sum of the squares of
//! counts.
//!
//! Alon, Matias, Szegedy, "The space complexity of approximating the frequency moments" (1996),
//! section 2.2. Each counter is a rope at which every key pulls, to the left or to the right by a
//! sign of its own: its square is `F2` in the mean, with a variance of at most `2 F2^2`. The mean
//! of `s1` of them is off by more than `epsilon F2` with a probability of at most `2 / (s1
//! epsilon^2)`, the median of `s2` such means with at most `delta`.
//!
//! `F2` over the square of the length is the probability that two draws from the stream are the
//! same key; over the number of distinct keys it tells a flat stream from a skewed one, and it is
//! the size of the join of a table with itself.
//!
//! Memory: 8 bytes for each of `s1 s2` counters. An insertion touches all of them: this is the
//! sketch of the paper, for study.
//! [`CountSketch::second_moment`](super::CountSketch::second_moment) has the same error with one
//! counter of each row, and should be used instead.
//!
//! Signs are the bits of the mixed hash of a key: what the proof asks of them, that any four are
//! independent, is taken to hold.

use crate::error::Result;
use crate::family::frame;
use crate::{KeyHash, Merge, Sketch};

use super::rows::in_row;
use super::signed::SignedRows;
use super::sizing::{check_cells, check_open, median_of_rows};

const KIND: frame::Kind = *b"TUGW";
const VERSION: u8 = 1;

/// Counters whose signs come from one mixed hash.
const SIGNS: usize = 64;

/// The sketch of Alon, Matias and Szegedy for the second moment.
///
/// Formulas, use, what was measured and what it costs: `docs/filters/ams.md`.
///
/// ```
/// use criba_filters::{TugOfWar, Sketch};
///
/// let mut skew = TugOfWar::with_error(0.2, 0.05)?;
/// skew.add("apple", 4);
/// skew.insert("melon");
/// assert!((skew.estimate() - 17.0).abs() <= 8.0); // exactly 4 * 4 + 1
/// # Ok::<(), criba_filters::Error>(())
/// ```
#[doc(alias = "ams")]
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct TugOfWar {
    /// A row for each mean.
    cells: SignedRows,
}

impl TugOfWar {
    /// A sketch whose estimate is off by more than `epsilon F2` with a probability of at most
    /// `delta`.
    ///
    /// # Errors
    ///
    /// If one of the two is not above 0 and below 1, or more than 2^32 counters would be needed.
    pub fn with_error(epsilon: f64, delta: f64) -> Result<TugOfWar> {
        check_open("the error", epsilon)?;
        check_open("the probability of a larger error", delta)?;
        let (rows, failure) = median_of_rows(delta);
        let width = (2.0 / (failure * epsilon * epsilon)).ceil();
        TugOfWar::with_shape(check_cells("counters for a mean", width)?, rows)
    }

    /// A sketch of the median of so many means (1 to 63, an odd number) of so many counters (at
    /// least 1, 2^32 in all at most).
    ///
    /// # Errors
    ///
    /// If one of the two is out of its bounds, or the number of means is even.
    pub fn with_shape(width: u64, rows: u8) -> Result<TugOfWar> {
        let cells = SignedRows::new(width, rows)?;
        Ok(TugOfWar { cells })
    }

    /// Counts a key so many times; a negative number takes counts back. Counters wrap around beyond
    /// 63 bits, so that what is taken back again leaves no trace.
    #[inline]
    pub fn add(&mut self, key: impl Into<KeyHash>, count: i64) {
        self.add_hash(key.into(), count);
    }

    #[inline]
    fn add_hash(&mut self, hash: KeyHash, count: i64) {
        for (group, counters) in (0..).zip(self.cells.counters.chunks_mut(SIGNS)) {
            let signs = in_row(hash, group);
            for (bit, counter) in counters.iter_mut().enumerate() {
                // All ones for a set bit: the number is then negated.
                let mask = -((signs >> bit & 1) as i64);
                *counter = counter.wrapping_add((count ^ mask).wrapping_sub(mask));
            }
        }
    }

    /// The second moment of the stream.
    #[must_use]
    pub fn estimate(&self) -> f64 {
        self.cells.squares() / self.cells.width as f64
    }

    /// Counters of each mean, and means.
    #[must_use]
    pub fn shape(&self) -> (u64, u8) {
        (self.cells.width, self.cells.rows)
    }

    /// The standard deviation of the relative error of one mean, at most: `sqrt(2 / width)`.
    #[must_use]
    pub fn standard_error(&self) -> f64 {
        (2.0 / self.cells.width as f64).sqrt()
    }
}

impl Sketch for TugOfWar {
    #[inline]
    fn insert_hash(&mut self, hash: KeyHash) {
        self.add_hash(hash, 1);
    }

    /// Bytes of memory, eight for each counter.
    fn memory_bytes(&self) -> usize {
        size_of::<Self>() + self.cells.heap_bytes()
    }

    /// The sketch as bytes: 9 for its shape, eight for each counter, framed.
    fn to_bytes(&self) -> Vec<u8> {
        self.cells.to_bytes(KIND, VERSION)
    }

    fn from_bytes(bytes: &[u8]) -> Result<TugOfWar> {
        let cells = SignedRows::from_bytes(KIND, VERSION, bytes)?;
        Ok(TugOfWar { cells })
    }
}

impl Merge for TugOfWar {
    /// Adds another sketch: the result is the sketch of both streams in one.
    fn merge(&mut self, other: &Self) -> Result<()> {
        self.cells.merge(&other.cells)
    }
}
