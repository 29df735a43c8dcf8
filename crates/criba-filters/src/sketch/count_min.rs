//! How often each key came, too high by at most a share of the stream.
//!
//! Cormode, Muthukrishnan, "An improved data stream summary: the count-min sketch and its
//! applications" (2005), section 3: `d = ceil(ln 1/delta)` rows of `w = ceil(e / epsilon)`
//! counters. A key adds to one counter of each row, and its estimate is the least of them: never
//! less than its count, and with a probability of `1 - delta` more by at most `epsilon N`, where
//! `N` is the length of the stream (theorem 1).
//!
//! Memory does not depend on the number of keys: 8 `w d` bytes, 109 KB for `epsilon` 0.001 and
//! `delta` 0.01. Insertion and estimate touch `d` counters. Good for the frequent keys of a skewed
//! stream; of a rare key it knows only that it came less than `epsilon N` times.
//!
//! With [`Update::Conservative`] (Estan, Varghese, "New directions in traffic measurement and
//! accounting", 2002, section 4.2.2) an insertion raises a counter no further than it has to:
//! errors are several times smaller, the bound is the same. What is lost is that the sketch is
//! linear: merged, it is still never too low, but not the sketch of both streams in one.

use crate::error::{Error, Result};
use crate::family::frame;
use crate::{KeyHash, Merge, Sketch};

use super::rows::{column, in_row};
use super::sizing::{CELLS_MAX, ROWS_MAX, check_cells, check_few, check_open, invalid};

const KIND: frame::Kind = *b"CMIN";
const VERSION: u8 = 1;

/// What an insertion does to the counters of a key.
///
/// ```
/// use criba_filters::{CountMin, Sketch, Update};
///
/// let mut plain = CountMin::with_shape(8, 2)?;
/// let mut exact = plain.clone().with_update(Update::Conservative);
/// for key in 0..40_u64 {
///     plain.insert(&key.to_le_bytes());
///     exact.insert(&key.to_le_bytes());
/// }
/// assert!((0..40_u64).all(|key| {
///     let key = key.to_le_bytes();
///     (1..=plain.estimate(&key)).contains(&exact.estimate(&key))
/// }));
/// # Ok::<(), criba_filters::Error>(())
/// ```
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Update {
    /// It adds to all of them. Merging is exact.
    #[default]
    Plain,
    /// It raises each no further than to the new estimate of the key.
    Conservative,
}

/// A count-min sketch.
///
/// Formulas, use, what was measured and what it costs: `docs/filters/count-min.md`.
///
/// ```
/// use criba_filters::{CountMin, Sketch};
///
/// let mut often = CountMin::with_error(0.001, 0.01)?;
/// for word in "the quick brown fox jumps over the lazy dog".split(' ') {
///     often.insert(word);
/// }
/// assert_eq!(often.estimate("the"), 2);
/// # Ok::<(), criba_filters::Error>(())
/// ```
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct CountMin {
    width: u64,
    rows: u8,
    update: Update,
    total: u64,
    /// Row after row.
    counters: Box<[u64]>,
}

impl CountMin {
    /// A sketch whose estimate is too high by more than `epsilon` times the length of the stream
    /// with a probability of at most `delta`.
    ///
    /// # Errors
    ///
    /// If one of the two is not above 0 and below 1, or more than 2^32 counters would be needed.
    pub fn with_error(epsilon: f64, delta: f64) -> Result<CountMin> {
        check_open("the error", epsilon)?;
        check_open("the probability of a larger error", delta)?;
        let width = check_cells("counters in a row", (std::f64::consts::E / epsilon).ceil())?;
        let rows = (1.0 / delta).ln().ceil().clamp(1.0, f64::from(ROWS_MAX));
        CountMin::with_shape(width, rows as u8)
    }

    /// A sketch of so many rows (1 to 64) of so many counters (at least 1, 2^32 in all at most).
    ///
    /// # Errors
    ///
    /// If one of the two is out of its bounds.
    pub fn with_shape(width: u64, rows: u8) -> Result<CountMin> {
        check_few("rows", rows, ROWS_MAX)?;
        check_cells("counters in a row", width as f64)?;
        let cells = check_cells("counters", width as f64 * f64::from(rows))?;
        let cells = usize::try_from(cells).unwrap_or(usize::MAX);
        Ok(CountMin {
            width,
            rows,
            update: Update::Plain,
            total: 0,
            counters: vec![0; cells].into_boxed_slice(),
        })
    }

    /// The same sketch with another kind of update from now on.
    #[must_use]
    pub fn with_update(self, update: Update) -> CountMin {
        CountMin { update, ..self }
    }

    /// Counts a key so many times. Counters stop at 2^64 - 1.
    #[inline]
    pub fn add(&mut self, key: impl Into<KeyHash>, count: u64) {
        self.add_hash(key.into(), count);
    }

    #[inline]
    fn add_hash(&mut self, hash: KeyHash, count: u64) {
        let least = match self.update {
            Update::Plain => 0,
            Update::Conservative => self.estimate_hash(hash).saturating_add(count),
        };
        for row in 0..self.rows {
            let place = self.place(hash, row);
            let counter = &mut self.counters[place];
            *counter = match self.update {
                Update::Plain => counter.saturating_add(count),
                Update::Conservative => least.max(*counter),
            };
        }
        self.total = self.total.saturating_add(count);
    }

    /// How often the key came: never less than that.
    #[must_use]
    #[inline]
    pub fn estimate(&self, key: impl Into<KeyHash>) -> u64 {
        self.estimate_hash(key.into())
    }

    #[inline]
    fn estimate_hash(&self, hash: KeyHash) -> u64 {
        let counts = (0..self.rows).map(|row| self.counters[self.place(hash, row)]);
        counts.min().unwrap_or(0)
    }

    /// The length of the stream.
    #[must_use]
    pub fn total(&self) -> u64 {
        self.total
    }

    /// Counters in a row, and rows.
    #[must_use]
    pub fn shape(&self) -> (u64, u8) {
        (self.width, self.rows)
    }

    /// What an estimate exceeds the count by, at most, with a probability of `1 - e^-rows`:
    /// `e N / width`.
    #[must_use]
    pub fn error_bound(&self) -> f64 {
        std::f64::consts::E * self.total as f64 / self.width as f64
    }

    #[inline]
    fn place(&self, hash: KeyHash, row: u8) -> usize {
        let row = u64::from(row);
        (row * self.width) as usize + column(in_row(hash, row), self.width)
    }
}

impl Sketch for CountMin {
    #[inline]
    fn insert_hash(&mut self, hash: KeyHash) {
        self.add_hash(hash, 1);
    }

    /// Bytes of memory, eight for each counter.
    fn memory_bytes(&self) -> usize {
        size_of::<Self>() + size_of_val::<[u64]>(&self.counters)
    }

    /// The sketch as bytes: 18 for its shape and total, eight for each counter, framed.
    fn to_bytes(&self) -> Vec<u8> {
        let mut payload = Vec::with_capacity(18 + size_of_val::<[u64]>(&self.counters));
        payload.extend(self.width.to_le_bytes());
        payload.push(self.rows);
        payload.push(u8::from(self.update == Update::Conservative));
        payload.extend(self.total.to_le_bytes());
        frame::put_words(&mut payload, &self.counters);
        frame::encode(KIND, VERSION, &payload)
    }

    fn from_bytes(bytes: &[u8]) -> Result<CountMin> {
        let mut fields = frame::decode(KIND, VERSION, bytes)?;
        let (width, rows) = read_rows(&mut fields)?;
        let update = match fields.u8("the kind of update is cut short")? {
            0 => Update::Plain,
            1 => Update::Conservative,
            _ => return Err(Error::field("the kind of update is unknown")),
        };
        let total = fields.u64("the total is cut short")?;
        let counters = fields.words(width * u64::from(rows), "the counters are cut short")?;
        fields.end()?;
        Ok(CountMin {
            width,
            rows,
            update,
            total,
            counters: counters.into_boxed_slice(),
        })
    }
}

impl Merge for CountMin {
    /// Adds another sketch. With [`Update::Plain`] the result is the sketch of both streams in one.
    fn merge(&mut self, other: &Self) -> Result<()> {
        let shape = |sketch: &CountMin| (sketch.width, sketch.rows, sketch.update);
        if shape(self) != shape(other) {
            return Err(invalid(format!(
                "{} x {} counters with {:?} update cannot be merged with {} x {} and {:?}: make both \
                 for one error, one probability and one update",
                self.rows, self.width, self.update, other.rows, other.width, other.update
            )));
        }
        for (own, other) in self.counters.iter_mut().zip(&other.counters) {
            *own = own.saturating_add(*other);
        }
        self.total = self.total.saturating_add(other.total);
        Ok(())
    }
}

/// Counters in a row, and rows, as sketches of this form write them.
pub(super) fn read_rows(fields: &mut frame::Fields<'_>) -> Result<(u64, u8)> {
    let width = fields.u64("the width is cut short")?;
    let rows = fields.u8("the number of rows is cut short")?;
    let in_bounds = (1..=CELLS_MAX).contains(&width) && (1..=ROWS_MAX).contains(&rows);
    frame::require(in_bounds, "the shape is out of bounds")?;
    Ok((width, rows))
}
