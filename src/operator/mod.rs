//! Merge operators: how operands that were written blindly become the value of a key.
//!
//! [`Keyspace::merge`](crate::Keyspace::merge) writes an *operand* without a read. A lookup combines the
//! operands of the key with the value below them by the operator of the store, and flushes and
//! merges combine early. A counter that is raised, a list that grows, or a count of distinct
//! visitors is then one write, not a read and a write that other writers must not divide.
//!
//! [`Add`], [`Min`], [`Max`] and [`Append`] are ready; [`sketch`] has unions of sketches. A program
//! can bring an operator of its own, and [`check_laws`] helps to test it.
//!
//! ```
//! use criba::{Db, operator::Add};
//!
//! # fn main() -> criba::Result<()> {
//! # let dir = tempfile::tempdir().unwrap();
//! # let path = dir.path().join("data");
//! let db = Db::builder(&path).operator(Add::i64()).open()?;
//! db.merge("visits", 1_i64.to_le_bytes())?;
//! db.merge("visits", 1_i64.to_le_bytes())?;
//! assert_eq!(db.get("visits")?.unwrap(), 2_i64.to_le_bytes());
//! # Ok(())
//! # }
//! ```

mod laws;
mod named;
mod ready;
pub mod sketch;

use std::error::Error as Cause;
use std::fmt;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;

use crate::error::{Error, Result};
use crate::key::MAX_VALUE_BYTES;

pub use laws::{Violation, check_laws};
pub use named::named;
pub use ready::{Add, Append, Max, Min};

/// The result of [`MergeOperator::merge`]: the bytes, or why there are none.
pub type Merged = std::result::Result<Vec<u8>, Box<dyn Cause + Send + Sync>>;

/// Combines operands into a value.
///
/// Operands and values have one format. What several operands come to without a value below them
/// is an operand itself.
///
/// # Laws
///
/// The store calls `merge` whenever it likes and with whichever neighbouring operands it has at
/// hand, so the grouping must make no difference. For a base `b`, which may be `None`, and
/// operands `X` and `Y`, oldest first:
///
/// 1. `merge(b, X ++ Y) == merge(Some(merge(b, X)), Y)`: a value takes further operands.
/// 2. `merge(b, X ++ Y) == merge(b, [merge(None, X)] ++ Y)`: operands are combined before they meet
///    a value.
/// 3. If one grouping is refused, all are.
/// 4. Equal arguments give equal results, on every machine and in every version of the program.
///
/// Equal means equal in every byte. Addition that wraps obeys; addition that stops at the limits
/// does not where numbers have a sign: `MAX + 1 - 1` depends on the grouping. [`check_laws`] tries
/// groupings of generated operands.
///
/// # Failures
///
/// What `merge` refuses, with an error or a panic, becomes [`Error::Operator`] for the lookup of
/// this key. Other keys are not concerned, and nothing is lost: the operands stay as they are.
///
/// `merge` may run under locks of the store. It must not call the store.
///
/// ```
/// use criba::operator::{MergeOperator, Merged, check_laws};
///
/// /// Keeps the longest; of several the oldest.
/// struct Longest;
///
/// impl MergeOperator for Longest {
///     fn name(&self) -> &str {
///         "longest"
///     }
///
///     fn merge(&self, _key: &[u8], base: Option<&[u8]>, operands: &[&[u8]]) -> Merged {
///         let all = base.into_iter().chain(operands.iter().copied());
///         let longest = all.reduce(|best, one| if one.len() > best.len() { one } else { best });
///         Ok(longest.unwrap_or_default().to_vec())
///     }
/// }
///
/// check_laws(&Longest, b"key", Some(b"base"), &["a", "longer", "longest", "b"])?;
/// # Ok::<(), criba::operator::Violation>(())
/// ```
pub trait MergeOperator: Send + Sync {
    /// A name of 1 to 255 bytes that says what it does, with all that changes its results: it
    /// stands for the operator on disk.
    fn name(&self) -> &str;

    /// What the operands make of the base: the newest value of the key before them, `None` if
    /// there was none or it was deleted. There is at least one operand; the oldest is first.
    ///
    /// # Errors
    ///
    /// Any: its text becomes part of [`Error::Operator`].
    fn merge(&self, key: &[u8], base: Option<&[u8]>, operands: &[&[u8]]) -> Merged;
}

impl<T: MergeOperator + ?Sized> MergeOperator for Arc<T> {
    fn name(&self) -> &str {
        (**self).name()
    }

    fn merge(&self, key: &[u8], base: Option<&[u8]>, operands: &[&[u8]]) -> Merged {
        (**self).merge(key, base, operands)
    }
}

/// The operator of a tree, if it has one.
#[derive(Clone, Default)]
pub(crate) struct Operator {
    operator: Option<Arc<dyn MergeOperator>>,
    /// The name of the one that its operands were written for, where that is recorded.
    recorded: Option<Arc<str>>,
}

impl Operator {
    pub(crate) fn new(operator: impl MergeOperator + 'static) -> Operator {
        Operator {
            operator: Some(Arc::new(operator)),
            recorded: None,
        }
    }

    /// The same for operands that were written for the operator of this name.
    pub(crate) fn with_recorded(mut self, name: &str) -> Operator {
        self.recorded = Some(name.into());
        self
    }

    #[inline]
    pub(crate) fn is_set(&self) -> bool {
        self.operator.is_some()
    }

    pub(crate) fn name(&self) -> Option<&str> {
        self.operator.as_ref().map(|operator| operator.name())
    }

    fn get(&self, key: &[u8]) -> Result<&dyn MergeOperator> {
        self.operator.as_deref().ok_or_else(|| Error::NoOperator {
            name: self.recorded.as_deref().map(Box::from),
            key: key.into(),
        })
    }

    /// # Errors
    ///
    /// [`Error::NoOperator`] without one, [`Error::Operator`] if it refuses or panics, or if the
    /// result is longer than a value can be.
    pub(crate) fn merge(
        &self,
        key: &[u8],
        base: Option<&[u8]>,
        operands: &[&[u8]],
    ) -> Result<Vec<u8>> {
        let operator = self.get(key)?;
        match outcome(operator, key, base, operands) {
            Ok(merged) if merged.len() <= MAX_VALUE_BYTES => Ok(merged),
            Ok(merged) => {
                let len = merged.len();
                let what = format!("{len} bytes are more than the {MAX_VALUE_BYTES} of a value");
                Err(Error::operator(operator.name(), key, what))
            }
            Err(what) => Err(Error::operator(operator.name(), key, what)),
        }
    }
}

impl fmt::Debug for Operator {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.name().fmt(f)
    }
}

/// What an operator makes of this, or why it does not.
fn outcome(
    operator: &dyn MergeOperator,
    key: &[u8],
    base: Option<&[u8]>,
    operands: &[&[u8]],
) -> std::result::Result<Vec<u8>, String> {
    // It is only read, and what it changes behind a reference it must keep whole itself.
    let merge = || operator.merge(key, base, operands);
    match catch_unwind(AssertUnwindSafe(merge)) {
        Ok(merged) => merged.map_err(|error| told(&*error)),
        Err(panic) => {
            let text = panic.downcast_ref::<&str>().copied();
            let text = text.or_else(|| panic.downcast_ref::<String>().map(String::as_str));
            Err(format!("panic: {}", text.unwrap_or("without a message")))
        }
    }
}

/// An error and its causes in one line.
fn told(error: &dyn Cause) -> String {
    let mut text = error.to_string();
    let mut cause = error.source();
    while let Some(error) = cause {
        text.push_str(": ");
        text.push_str(&error.to_string());
        cause = error.source();
    }
    text
}
