//! How often items came, and whether: sketches of counters.
//!
//! Both are lists of hashes while they hold little. The form depends on nothing but what is in
//! them: it is that of the sketch from a number of items on, and stays so.

use criba_filters::{
    CountMin, CountingBloom, Insert as _, Membership as _, Merge as _, Sketch as _,
};

use crate::error::{Error, Result};

use super::invalid;
use super::list::{ENTRY_BYTES, List};
use crate::operator::{MergeOperator, Merged};

/// A list takes at most this part of the memory of its sketch.
const LIST_SHARE: u64 = 8;

/// What a value is.
enum Form<S> {
    List(List),
    Sketch(S),
}

/// Sketches of one shape.
trait Shape {
    type Sketch;

    /// Whether the list has become too long for one.
    fn is_full(&self, list: &List) -> bool;

    /// A sketch of what is in the list, which is not full.
    fn sketch_of(&self, list: &List) -> criba_filters::Result<Self::Sketch>;

    fn read(&self, bytes: &[u8]) -> criba_filters::Result<Self::Sketch>;
    fn write(sketch: &Self::Sketch) -> Vec<u8>;
    fn merge(sketch: &mut Self::Sketch, other: &Self::Sketch) -> criba_filters::Result<()>;

    /// What these bytes are.
    fn form(&self, bytes: &[u8]) -> Result<Form<Self::Sketch>> {
        match List::read(bytes) {
            Some(list) => {
                let list = list.map_err(invalid)?;
                match self.is_full(&list) {
                    // Or a few bytes would take long to be counted.
                    true => Err(invalid("the list is longer than any that was written")),
                    false => Ok(Form::List(list)),
                }
            }
            None => self.read(bytes).map(Form::Sketch).map_err(|error| {
                invalid(format!(
                    "neither an item, nor a list, nor a sketch: {error}"
                ))
            }),
        }
    }

    fn to_sketch(&self, bytes: &[u8]) -> Result<Self::Sketch> {
        match self.form(bytes)? {
            Form::List(list) => self.sketch_of(&list).map_err(invalid),
            Form::Sketch(sketch) => Ok(sketch),
        }
    }

    fn union<'a>(&self, all: impl Iterator<Item = &'a [u8]>) -> Result<Vec<u8>> {
        let mut list = List::default();
        let mut sketch: Option<Self::Sketch> = None;
        for bytes in all {
            match (self.form(bytes)?, &mut sketch) {
                (Form::Sketch(other), Some(sketch)) => {
                    Self::merge(sketch, &other).map_err(invalid)?;
                }
                (Form::Sketch(other), None) => sketch = Some(other),
                (Form::List(other), _) => {
                    let mut both = list.clone();
                    both.add(&other);
                    if self.is_full(&both) {
                        // Each by itself is not full.
                        for list in [&list, &other] {
                            let part = self.sketch_of(list).map_err(invalid)?;
                            match &mut sketch {
                                Some(sketch) => Self::merge(sketch, &part).map_err(invalid)?,
                                None => sketch = Some(part),
                            }
                        }
                        list = List::default();
                    } else {
                        list = both;
                    }
                }
            }
        }
        let Some(mut sketch) = sketch else {
            return Ok(list.write());
        };
        let rest = self.sketch_of(&list).map_err(invalid)?;
        Self::merge(&mut sketch, &rest).map_err(invalid)?;
        Ok(Self::write(&sketch))
    }
}

/// Counts how often each item came, for each key: never too low, and too high by at most a share
/// of all items.
///
/// Each counter takes 8 bytes: values are 109 KB for an error of 0.001 and a probability of 0.01.
/// Up to an eighth of that a list of hashes stands for them. Counters stop at 2^64 - 1.
///
/// ```
/// use criba::{Db, sketch};
///
/// # fn main() -> criba::Result<()> {
/// # let dir = tempfile::tempdir().unwrap();
/// # let path = dir.path().join("data");
/// let words = sketch::Frequencies::with_error(0.001, 0.01)?;
/// let db = Db::builder(&path).operator(words.clone()).open()?;
/// for word in "the quick brown fox jumps over the lazy dog".split(' ') {
///     db.merge("text", sketch::item(word))?;
/// }
/// let value = db.get("text")?.unwrap();
/// assert_eq!(words.estimate(&value, "the")?, 2);
/// assert_eq!(words.sketch(&value)?.total(), 9);
/// assert!(value.len() < 200);
/// # Ok(())
/// # }
/// ```
#[doc(alias = "count-min")]
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Frequencies {
    shape: (u64, u8),
    name: String,
}

impl Frequencies {
    /// With estimates that are too high by more than `epsilon` times the number of all items with
    /// a probability of at most `delta`.
    ///
    /// # Errors
    ///
    /// [`Error::Invalid`] if one of the two is not above 0 and below 1, or more than 2^32 counters
    /// would be needed.
    pub fn with_error(epsilon: f64, delta: f64) -> Result<Frequencies> {
        let sketch = CountMin::with_error(epsilon, delta).map_err(invalid)?;
        Ok(Frequencies::of(sketch.shape()))
    }

    pub(in crate::operator) fn of(shape: (u64, u8)) -> Frequencies {
        Frequencies {
            shape,
            name: format!("frequencies {}x{}", shape.0, shape.1),
        }
    }

    /// About how often an item came: never less than that.
    ///
    /// # Errors
    ///
    /// [`Error::Invalid`] for bytes that are no value of this operator.
    pub fn estimate(&self, value: &[u8], item: impl AsRef<[u8]>) -> Result<u64> {
        Ok(self.sketch(value)?.estimate(item.as_ref()))
    }

    /// The sketch that a value is.
    ///
    /// # Errors
    ///
    /// As for [`Frequencies::estimate`].
    pub fn sketch(&self, value: &[u8]) -> Result<CountMin> {
        self.to_sketch(value)
    }
}

impl Shape for Frequencies {
    type Sketch = CountMin;

    fn is_full(&self, list: &List) -> bool {
        let bytes = self.shape.0.saturating_mul(u64::from(self.shape.1) * 8);
        list.len() > (bytes / LIST_SHARE / ENTRY_BYTES).max(1)
    }

    fn sketch_of(&self, list: &List) -> criba_filters::Result<CountMin> {
        let mut sketch = CountMin::with_shape(self.shape.0, self.shape.1)?;
        for (hash, count) in list.iter() {
            sketch.add(hash, count);
        }
        Ok(sketch)
    }

    fn read(&self, bytes: &[u8]) -> criba_filters::Result<CountMin> {
        let sketch = CountMin::from_bytes(bytes)?;
        // A sketch that is updated otherwise, or has another shape, is refused here.
        CountMin::with_shape(self.shape.0, self.shape.1)?.merge(&sketch)?;
        Ok(sketch)
    }

    fn write(sketch: &CountMin) -> Vec<u8> {
        sketch.to_bytes()
    }

    fn merge(sketch: &mut CountMin, other: &CountMin) -> criba_filters::Result<()> {
        sketch.merge(other)
    }
}

impl MergeOperator for Frequencies {
    fn name(&self) -> &str {
        &self.name
    }

    fn merge(&self, _key: &[u8], base: Option<&[u8]>, operands: &[&[u8]]) -> Merged {
        Ok(self.union(base.into_iter().chain(operands.iter().copied()))?)
    }
}

/// Keeps which items came, for each key, in a counting Bloom filter: it denies no item that came,
/// and takes another for one of them at a small rate.
///
/// Items cannot be taken back by an operand. The program can: it reads the value, removes an item
/// from the [`sketch`](Members::sketch) and puts its bytes.
///
/// ```
/// use criba::{Db, sketch};
///
/// # fn main() -> criba::Result<()> {
/// # let dir = tempfile::tempdir().unwrap();
/// # let path = dir.path().join("data");
/// let seen = sketch::Members::with_rate(10_000, 0.01)?;
/// let db = Db::builder(&path).operator(seen.clone()).open()?;
/// db.merge("ann", sketch::item("article 7"))?;
/// db.merge("ann", sketch::item("article 9"))?;
/// let value = db.get("ann")?.unwrap();
/// assert!(seen.may_contain(&value, "article 7")?);
/// assert!(!seen.may_contain(&value, "article 8")?);
/// assert_eq!(criba_filters::Membership::len(&seen.sketch(&value)?), 2);
/// # Ok(())
/// # }
/// ```
#[doc(alias = "counting bloom filter")]
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Members {
    shape: (u64, u8),
    name: String,
}

impl Members {
    /// With filters that take an absent item for one that came with a probability of `rate` once
    /// they hold so many items.
    ///
    /// # Errors
    ///
    /// [`Error::Invalid`] if `rate` is not above 0 and below 1, or more than 2^32 counters would be
    /// needed.
    pub fn with_rate(items: u64, rate: f64) -> Result<Members> {
        let filter = CountingBloom::with_rate(items, rate).map_err(invalid)?;
        Ok(Members::of(filter.shape()))
    }

    pub(in crate::operator) fn of(shape: (u64, u8)) -> Members {
        Members {
            shape,
            name: format!("members {}x{}", shape.0, shape.1),
        }
    }

    /// Whether an item may have come; `false` is certain.
    ///
    /// # Errors
    ///
    /// [`Error::Invalid`] for bytes that are no value of this operator.
    pub fn may_contain(&self, value: &[u8], item: impl AsRef<[u8]>) -> Result<bool> {
        Ok(self.sketch(value)?.may_contain(item.as_ref()))
    }

    /// The filter that a value is.
    ///
    /// # Errors
    ///
    /// As for [`Members::may_contain`].
    pub fn sketch(&self, value: &[u8]) -> Result<CountingBloom, Error> {
        self.to_sketch(value)
    }
}

impl Shape for Members {
    type Sketch = CountingBloom;

    fn is_full(&self, list: &List) -> bool {
        // Two counters to a byte. An item is counted as often as it came: each is inserted.
        list.total() > (self.shape.0 / 2 / LIST_SHARE / ENTRY_BYTES).max(1)
    }

    fn sketch_of(&self, list: &List) -> criba_filters::Result<CountingBloom> {
        let mut filter = CountingBloom::with_shape(self.shape.0, self.shape.1)?;
        for (hash, count) in list.iter() {
            for _ in 0..count {
                filter.insert_hash(hash)?;
            }
        }
        Ok(filter)
    }

    fn read(&self, bytes: &[u8]) -> criba_filters::Result<CountingBloom> {
        let filter = CountingBloom::from_bytes(bytes)?;
        CountingBloom::with_shape(self.shape.0, self.shape.1)?.merge(&filter)?;
        Ok(filter)
    }

    fn write(filter: &CountingBloom) -> Vec<u8> {
        filter.to_bytes()
    }

    fn merge(filter: &mut CountingBloom, other: &CountingBloom) -> criba_filters::Result<()> {
        filter.merge(other)
    }
}

impl MergeOperator for Members {
    fn name(&self) -> &str {
        &self.name
    }

    fn merge(&self, _key: &[u8], base: Option<&[u8]>, operands: &[&[u8]]) -> Merged {
        Ok(self.union(base.into_iter().chain(operands.iter().copied()))?)
    }
}
