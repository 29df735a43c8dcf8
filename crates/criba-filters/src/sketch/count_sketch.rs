//! How often each key came, with an error that a few frequent keys do not spoil.
//!
//! Charikar, Chen, Farach-Colton, "Finding frequent items in data streams" (2002), section 3: in
//! each row a key has a counter and a sign, which it adds; its estimate is the median of its
//! counters, each times the sign. What other keys have added cancels out in the mean, so the
//! estimate is too high as often as too low. A row of `w` counters is off by more than `epsilon
//! sqrt(F2)` with a probability of at most `1 / (w epsilon^2)` by Chebyshev's inequality (lemma 2),
//! where `F2` is the sum of the squares of all counts; the median makes that `delta`.
//!
//! Memory: 8 bytes for each counter. `sqrt(F2)` is much less than `N` where keys are many and
//! counts alike, and never more, so for one error the count sketch needs fewer counters than
//! [`CountMin`](super::CountMin) where `epsilon` is not small, and more where it is, as `1 /
//! epsilon^2`.
//!
//! It is linear: counts may be taken back, sketches added, and the sketch of the difference of two
//! streams is the difference of their sketches.

use crate::error::Result;
use crate::family::frame;
use crate::{KeyHash, Merge, Sketch};

use super::rows::{column, in_row, sign};
use super::signed::SignedRows;
use super::sizing::{ROWS_MAX, check_cells, check_open, median, median_of_rows};

const KIND: frame::Kind = *b"CSKT";
const VERSION: u8 = 1;

/// A count sketch.
///
/// Formulas, use, what was measured and what it costs: `docs/filters/count-sketch.md`.
///
/// ```
/// use criba_filters::{CountSketch, Sketch};
///
/// let mut often = CountSketch::with_error(0.05, 0.01)?;
/// often.add("apple", 300);
/// often.add("apple", -20); // taken back
/// often.insert("apple");
/// assert_eq!(often.estimate("apple"), 281);
/// # Ok::<(), criba_filters::Error>(())
/// ```
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct CountSketch {
    cells: SignedRows,
}

impl CountSketch {
    /// A sketch whose estimate is off by more than `epsilon sqrt(F2)` with a probability of at most
    /// `delta`.
    ///
    /// # Errors
    ///
    /// If one of the two is not above 0 and below 1, or more than 2^32 counters would be needed.
    pub fn with_error(epsilon: f64, delta: f64) -> Result<CountSketch> {
        check_open("the error", epsilon)?;
        check_open("the probability of a larger error", delta)?;
        let (rows, failure) = median_of_rows(delta);
        let width = (1.0 / (failure * epsilon * epsilon)).ceil();
        CountSketch::with_shape(check_cells("counters in a row", width)?, rows)
    }

    /// A sketch of so many rows (1 to 63, an odd number, for the median) of so many counters (at
    /// least 1, 2^32 in all at most).
    ///
    /// # Errors
    ///
    /// If one of the two is out of its bounds, or the number of rows is even.
    pub fn with_shape(width: u64, rows: u8) -> Result<CountSketch> {
        let cells = SignedRows::new(width, rows)?;
        Ok(CountSketch { cells })
    }

    /// Counts a key so many times; a negative number takes counts back. Counters wrap around beyond
    /// 63 bits, so that what is taken back again leaves no trace.
    #[inline]
    pub fn add(&mut self, key: impl Into<KeyHash>, count: i64) {
        self.add_hash(key.into(), count);
    }

    #[inline]
    fn add_hash(&mut self, hash: KeyHash, count: i64) {
        for row in 0..self.cells.rows {
            let (place, sign) = self.place(hash, row);
            let counter = &mut self.cells.counters[place];
            *counter = counter.wrapping_add(sign.wrapping_mul(count));
        }
    }

    /// How often the key came, more or less. A key that never came has an estimate near zero, below
    /// it as often as above.
    #[must_use]
    #[inline]
    pub fn estimate(&self, key: impl Into<KeyHash>) -> i64 {
        self.estimate_hash(key.into())
    }

    #[inline]
    fn estimate_hash(&self, hash: KeyHash) -> i64 {
        let mut counts = [0; ROWS_MAX as usize];
        let counts = &mut counts[..usize::from(self.cells.rows)];
        for (row, count) in (0..self.cells.rows).zip(counts.iter_mut()) {
            let (place, sign) = self.place(hash, row);
            *count = sign.wrapping_mul(self.cells.counters[place]);
        }
        median(counts).unwrap_or(0)
    }

    /// The second moment of the stream, the sum of the squares of all counts: the median of the
    /// sums of squares of the rows. Its relative error has a standard deviation of `sqrt(2 /
    /// width)` or less in each row (Thorup, Zhang 2004; the fast form of
    /// [`TugOfWar`](super::TugOfWar)).
    #[must_use]
    pub fn second_moment(&self) -> f64 {
        self.cells.squares()
    }

    /// Counters in a row, and rows.
    #[must_use]
    pub fn shape(&self) -> (u64, u8) {
        (self.cells.width, self.cells.rows)
    }

    #[inline]
    fn place(&self, hash: KeyHash, row: u8) -> (usize, i64) {
        let row = u64::from(row);
        let mixed = in_row(hash, row);
        let place = (row * self.cells.width) as usize + column(mixed, self.cells.width);
        (place, sign(mixed))
    }
}

impl Sketch for CountSketch {
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

    fn from_bytes(bytes: &[u8]) -> Result<CountSketch> {
        let cells = SignedRows::from_bytes(KIND, VERSION, bytes)?;
        Ok(CountSketch { cells })
    }
}

impl Merge for CountSketch {
    /// Adds another sketch: the result is the sketch of both streams in one.
    fn merge(&mut self, other: &Self) -> Result<()> {
        self.cells.merge(&other.cells)
    }
}
