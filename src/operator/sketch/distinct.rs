//! How many distinct items came.

use criba_filters::{HyperLogLog, Merge as _, Sketch as _};

use crate::error::Result;

use super::{ITEM_BYTES, hash_of, invalid};
use crate::operator::{MergeOperator, Merged};

/// Counts distinct items for each key, in a few kilobytes at any number of them.
///
/// A value takes 26 bytes and 3 for each of the first items, up to a byte for each register. The
/// estimate is nearly exact while there are few items; later its standard deviation is the error
/// that was asked for.
///
/// ```
/// use criba::{Db, sketch};
///
/// # fn main() -> criba::Result<()> {
/// # let dir = tempfile::tempdir().unwrap();
/// # let path = dir.path().join("data");
/// let visitors = sketch::Distinct::with_error(0.02)?;
/// let db = Db::builder(&path).operator(visitors).open()?;
/// for number in 0..10_000 {
///     db.merge("monday", sketch::item(format!("visitor {}", number % 5000)))?;
/// }
/// // A sketch of many items is an operand, too.
/// let monday = db.get("monday")?.unwrap();
/// db.merge("week", &monday)?;
/// db.merge("week", sketch::item("one more visitor"))?;
/// let week = visitors.estimate(&db.get("week")?.unwrap())?;
/// assert!((4_700.0..5_300.0).contains(&week));
/// # Ok(())
/// # }
/// ```
#[doc(alias = "hyperloglog")]
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Distinct {
    index_bits: u8,
    /// `distinct NN`: a name without an allocation.
    name: [u8; NAME_BYTES],
}

const NAME_BYTES: usize = 11;

impl Distinct {
    /// With estimates whose standard deviation is at most `error`, a share of the number: 0.0041
    /// to 0.26.
    ///
    /// # Errors
    ///
    /// [`Error::Invalid`](crate::Error::Invalid) for an error beyond these bounds.
    pub fn with_error(error: f64) -> Result<Distinct> {
        let sketch = HyperLogLog::with_error(error).map_err(invalid)?;
        Distinct::with_index_bits(sketch.registers().trailing_zeros() as u8)
    }

    /// With `2^index_bits` registers, 4 to 16.
    ///
    /// # Errors
    ///
    /// [`Error::Invalid`](crate::Error::Invalid) for another number.
    pub fn with_index_bits(index_bits: u8) -> Result<Distinct> {
        HyperLogLog::with_index_bits(index_bits).map_err(invalid)?;
        let mut name = *b"distinct 00";
        name[NAME_BYTES - 2] += index_bits / 10;
        name[NAME_BYTES - 1] += index_bits % 10;
        Ok(Distinct { index_bits, name })
    }

    /// About how many distinct items a value has seen.
    ///
    /// # Errors
    ///
    /// [`Error::Invalid`](crate::Error::Invalid) for bytes that are no value of this operator.
    pub fn estimate(&self, value: &[u8]) -> Result<f64> {
        Ok(self.sketch(value)?.estimate())
    }

    /// The sketch that a value is.
    ///
    /// # Errors
    ///
    /// As for [`Distinct::estimate`].
    pub fn sketch(&self, value: &[u8]) -> Result<HyperLogLog> {
        let mut sketch = self.empty().map_err(invalid)?;
        Self::add(&mut sketch, value).map_err(invalid)?;
        Ok(sketch)
    }

    fn empty(&self) -> criba_filters::Result<HyperLogLog> {
        HyperLogLog::with_index_bits(self.index_bits)
    }

    fn add(sketch: &mut HyperLogLog, bytes: &[u8]) -> criba_filters::Result<()> {
        match hash_of(bytes) {
            Some(hash) => sketch.insert_hash(hash),
            None => sketch.merge(&HyperLogLog::from_bytes(bytes)?)?,
        }
        Ok(())
    }
}

impl MergeOperator for Distinct {
    fn name(&self) -> &str {
        std::str::from_utf8(&self.name).unwrap_or_default()
    }

    fn merge(&self, _key: &[u8], base: Option<&[u8]>, operands: &[&[u8]]) -> Merged {
        let mut sketch = self.empty()?;
        for bytes in base.into_iter().chain(operands.iter().copied()) {
            let added = Self::add(&mut sketch, bytes);
            added.map_err(|error| format!("neither {ITEM_BYTES} bytes nor a sketch: {error}"))?;
        }
        Ok(sketch.to_bytes())
    }
}
