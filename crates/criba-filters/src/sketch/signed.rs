//! Rows of signed counters: what the count sketch and the tug-of-war sketch have in common. An odd
//! number of rows, so that their median is one of them; linear, so that sketches can be added.

use crate::error::Result;
use crate::family::frame;

use super::count_min::read_rows;
use super::sizing::{ROWS_MAX, check_cells, check_few, invalid, median};

#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct SignedRows {
    pub(super) width: u64,
    /// Invariant: odd.
    pub(super) rows: u8,
    /// Row after row.
    pub(super) counters: Box<[i64]>,
}

impl SignedRows {
    pub(super) fn new(width: u64, rows: u8) -> Result<SignedRows> {
        check_few("rows", rows, ROWS_MAX)?;
        if rows.is_multiple_of(2) {
            return Err(invalid(format!(
                "the median of {rows} rows is none of them: choose an odd number"
            )));
        }
        check_cells("counters in a row", width as f64)?;
        let cells = check_cells("counters", width as f64 * f64::from(rows))?;
        let cells = usize::try_from(cells).unwrap_or(usize::MAX);
        Ok(SignedRows {
            width,
            rows,
            counters: vec![0; cells].into_boxed_slice(),
        })
    }

    /// Adds the counters of another sketch of the same shape.
    pub(super) fn merge(&mut self, other: &SignedRows) -> Result<()> {
        if (self.width, self.rows) != (other.width, other.rows) {
            return Err(invalid(format!(
                "{} x {} counters cannot be merged with {} x {}: make both for one error and one \
                 probability",
                self.rows, self.width, other.rows, other.width
            )));
        }
        for (own, other) in self.counters.iter_mut().zip(&other.counters) {
            *own = own.wrapping_add(*other);
        }
        Ok(())
    }

    /// The median over the rows of the sum of the squares of their counters.
    pub(super) fn squares(&self) -> f64 {
        let squares = |row: &[i64]| row.iter().map(|count| (*count as f64).powi(2)).sum::<f64>();
        let rows = self.counters.chunks(self.width as usize);
        let mut sums: Vec<f64> = rows.map(squares).collect();
        median(&mut sums).unwrap_or(0.0)
    }

    /// Bytes behind the handle.
    pub(super) fn heap_bytes(&self) -> usize {
        size_of_val::<[i64]>(&self.counters)
    }

    /// 9 bytes for the shape, 8 for each counter, framed.
    pub(super) fn to_bytes(&self, kind: frame::Kind, version: u8) -> Vec<u8> {
        let mut payload = Vec::with_capacity(9 + self.heap_bytes());
        payload.extend(self.width.to_le_bytes());
        payload.push(self.rows);
        payload.extend(self.counters.iter().flat_map(|count| count.to_le_bytes()));
        frame::encode(kind, version, &payload)
    }

    pub(super) fn from_bytes(kind: frame::Kind, version: u8, bytes: &[u8]) -> Result<SignedRows> {
        let mut fields = frame::decode(kind, version, bytes)?;
        let (width, rows) = read_rows(&mut fields)?;
        frame::require(rows % 2 == 1, "the number of rows is even")?;
        let counters = fields.words(width * u64::from(rows), "the counters are cut short")?;
        fields.end()?;
        Ok(SignedRows {
            width,
            rows,
            counters: counters.into_iter().map(u64::cast_signed).collect(),
        })
    }
}
