//! Operators that are ready to be used.

use super::{MergeOperator, Merged};

/// Adds numbers of 64 bits, as 8 bytes, little-endian.
///
/// The sum wraps: [`i64::MAX`] and 1 make [`i64::MIN`]. A sum that stopped at the limits would depend
/// on the order of flushes. Without a value below, counting begins at 0.
///
/// ```
/// use criba::{Db, operator::Add};
///
/// # fn main() -> criba::Result<()> {
/// # let dir = tempfile::tempdir().unwrap();
/// # let path = dir.path().join("data");
/// let db = Db::builder(&path).operator(Add::i64()).open()?;
/// db.put("stock", 10_i64.to_le_bytes())?;
/// db.merge("stock", (-3_i64).to_le_bytes())?;
/// assert_eq!(Add::to_i64(&db.get("stock")?.unwrap()), Some(7));
/// # let path = dir.path().join("other");
/// let db = Db::builder(&path).operator(Add::u64()).open()?;
/// db.merge("visits", 1_u64.to_le_bytes())?;
/// assert_eq!(Add::to_u64(&db.get("visits")?.unwrap()), Some(1));
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Add {
    name: &'static str,
}

impl Add {
    /// Numbers with a sign.
    pub fn i64() -> Add {
        Add { name: "add i64" }
    }

    /// Numbers without a sign.
    pub fn u64() -> Add {
        Add { name: "add u64" }
    }

    /// The number that a value holds; `None` if it has not 8 bytes.
    pub fn to_i64(value: &[u8]) -> Option<i64> {
        Some(i64::from_le_bytes(value.try_into().ok()?))
    }

    /// The number that a value holds; `None` if it has not 8 bytes.
    pub fn to_u64(value: &[u8]) -> Option<u64> {
        Some(u64::from_le_bytes(value.try_into().ok()?))
    }
}

impl MergeOperator for Add {
    fn name(&self) -> &str {
        self.name
    }

    fn merge(&self, _key: &[u8], base: Option<&[u8]>, operands: &[&[u8]]) -> Merged {
        let mut sum = 0_u64;
        for number in base.into_iter().chain(operands.iter().copied()) {
            // In two's complement it is the same sum with and without a sign.
            let Some(number) = Add::to_u64(number) else {
                return Err(format!("{} bytes, not the 8 of a number", number.len()).into());
            };
            sum = sum.wrapping_add(number);
        }
        Ok(sum.to_le_bytes().to_vec())
    }
}

/// Keeps the least of all values and operands, compared byte by byte.
///
/// ```
/// use criba::{Db, operator::Min};
///
/// # fn main() -> criba::Result<()> {
/// # let dir = tempfile::tempdir().unwrap();
/// let db = Db::builder(dir.path().join("data")).operator(Min).open()?;
/// for seen in ["2026-03-01", "2025-12-24", "2026-01-06"] {
///     db.merge("first seen", seen)?;
/// }
/// assert_eq!(db.get("first seen")?.unwrap(), "2025-12-24");
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Min;

impl MergeOperator for Min {
    fn name(&self) -> &str {
        "min"
    }

    fn merge(&self, _key: &[u8], base: Option<&[u8]>, operands: &[&[u8]]) -> Merged {
        let least = base.into_iter().chain(operands.iter().copied()).min();
        Ok(least.unwrap_or_default().to_vec())
    }
}

/// Keeps the greatest of all values and operands, compared byte by byte.
///
/// Numbers compare as bytes do if they have one length, no sign, and the highest byte first.
///
/// ```
/// use criba::{Db, operator::Max};
///
/// # fn main() -> criba::Result<()> {
/// # let dir = tempfile::tempdir().unwrap();
/// let db = Db::builder(dir.path().join("data")).operator(Max).open()?;
/// for seen in ["2026-03-01", "2025-12-24", "2026-01-06"] {
///     db.merge("last seen", seen)?;
/// }
/// assert_eq!(db.get("last seen")?.unwrap(), "2026-03-01");
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Max;

impl MergeOperator for Max {
    fn name(&self) -> &str {
        "max"
    }

    fn merge(&self, _key: &[u8], base: Option<&[u8]>, operands: &[&[u8]]) -> Merged {
        let greatest = base.into_iter().chain(operands.iter().copied()).max();
        Ok(greatest.unwrap_or_default().to_vec())
    }
}

/// Appends operands to the value, with a delimiter between each two if it has one.
///
/// A value grows up to 1 GiB ([`MAX_VALUE_BYTES`](crate::MAX_VALUE_BYTES)); beyond that lookups of
/// the key fail. Each combination copies the whole value: it is meant for lists of some kilobytes.
///
/// ```
/// use criba::{Db, operator::Append};
///
/// # fn main() -> criba::Result<()> {
/// # let dir = tempfile::tempdir().unwrap();
/// # let path = dir.path().join("data");
/// let db = Db::builder(&path).operator(Append::with_delimiter(",")).open()?;
/// for tag in ["red", "round", "ripe"] {
///     db.merge("apple", tag)?;
/// }
/// assert_eq!(db.get("apple")?.unwrap(), "red,round,ripe");
/// # let path = dir.path().join("other");
/// let db = Db::builder(&path).operator(Append::new()).open()?;
/// db.put("apple", "red")?;
/// db.merge("apple", "!")?;
/// assert_eq!(db.get("apple")?.unwrap(), "red!");
/// # Ok(())
/// # }
/// ```
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Append {
    name: String,
    delimiter: Vec<u8>,
}

impl Append {
    /// Without a delimiter.
    pub fn new() -> Append {
        Append {
            name: "append".to_owned(),
            delimiter: Vec::new(),
        }
    }

    /// With these bytes between each two.
    pub fn with_delimiter(delimiter: impl Into<Vec<u8>>) -> Append {
        let delimiter = delimiter.into();
        Append {
            name: format!("append {}", delimiter.escape_ascii()),
            delimiter,
        }
    }
}

impl MergeOperator for Append {
    fn name(&self) -> &str {
        &self.name
    }

    fn merge(&self, _key: &[u8], base: Option<&[u8]>, operands: &[&[u8]]) -> Merged {
        let all: Vec<&[u8]> = base.into_iter().chain(operands.iter().copied()).collect();
        Ok(all.join(&self.delimiter[..]))
    }
}
