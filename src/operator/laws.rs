//! Tries whether an operator keeps its laws.

use std::fmt;

use super::{MergeOperator, outcome};

/// More operands would make groupings too many: those behind are left out.
const OPERANDS_MAX: usize = 24;

/// Bytes of an argument or a result that the text of a violation shows.
const SHOWN_BYTES: usize = 64;

/// A law that an operator breaks: two groupings of the same operands, and what they come to.
///
/// Made by [`check_laws`].
#[derive(Clone, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub struct Violation {
    /// The name of the operator.
    pub name: String,
    /// The whole counterexample, in a sentence.
    pub what: String,
}

impl fmt::Display for Violation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "the operator \"{}\" is not associative: {}",
            self.name, self.what
        )
    }
}

impl std::error::Error for Violation {}

/// What one grouping comes to; why it is refused does not matter.
type Outcome = Result<Vec<u8>, String>;

/// Checks the laws of [`MergeOperator`] for these operands, oldest first: combines each part of
/// them by itself, puts the rest around it, and compares with what all come to at once.
///
/// It is meant for property tests: a generator makes keys, bases and operands, also malformed ones,
/// and this function tries the groupings of each, some hundred calls of `merge`. Operands from the
/// twenty-fifth on are left out.
///
/// # Errors
///
/// The first [`Violation`], whose text is the counterexample.
///
/// ```
/// use criba::operator::{Add, MergeOperator, Merged, check_laws};
///
/// let numbers = [1_i64, -5, i64::MAX].map(i64::to_le_bytes);
/// check_laws(&Add::i64(), b"key", None, &numbers)?;
///
/// struct Saturating;
/// impl MergeOperator for Saturating {
///     fn name(&self) -> &str {
///         "saturating"
///     }
///     fn merge(&self, _: &[u8], base: Option<&[u8]>, operands: &[&[u8]]) -> Merged {
///         let mut sum = 0_i64;
///         for number in base.into_iter().chain(operands.iter().copied()) {
///             sum = sum.saturating_add(Add::to_i64(number).ok_or("no number")?);
///         }
///         Ok(sum.to_le_bytes().to_vec())
///     }
/// }
/// // i64::MAX + 1 - 1 depends on the grouping.
/// let numbers = [i64::MAX, 1, -1].map(i64::to_le_bytes);
/// let violation = check_laws(&Saturating, b"key", None, &numbers).unwrap_err();
/// assert!(violation.to_string().contains("not associative"));
/// # Ok::<(), criba::operator::Violation>(())
/// ```
pub fn check_laws<B: AsRef<[u8]>>(
    operator: &impl MergeOperator,
    key: &[u8],
    base: Option<&[u8]>,
    operands: &[B],
) -> Result<(), Violation> {
    let operands = operands.iter().take(OPERANDS_MAX).map(B::as_ref).collect();
    let trial = Trial {
        operator,
        key,
        operands,
    };
    trial.check(base)?;
    match base {
        Some(_) => trial.check(None),
        None => Ok(()),
    }
}

struct Trial<'a> {
    operator: &'a dyn MergeOperator,
    key: &'a [u8],
    operands: Vec<&'a [u8]>,
}

impl Trial<'_> {
    fn merge(&self, base: Option<&[u8]>, operands: &[&[u8]]) -> Outcome {
        outcome(self.operator, self.key, base, operands)
    }

    fn check(&self, base: Option<&[u8]>) -> Result<(), Violation> {
        let count = self.operands.len();
        if count == 0 {
            return Ok(());
        }
        let whole = self.merge(base, &self.operands);
        let again = self.merge(base, &self.operands);
        self.compare(base, &whole, &again, "the same again")?;
        for start in 0..count {
            for end in start + 1..=count {
                let found = self.combined_first(base, (start, end));
                let grouping = format!("operands {start}..{end} combined first");
                self.compare(base, &whole, &found, &grouping)?;
            }
        }
        for end in 1..count {
            let value = self.merge(base, &self.operands[..end]);
            let found = value.and_then(|value| self.merge(Some(&value), &self.operands[end..]));
            let grouping = format!("operands ..{end} made a value first");
            self.compare(base, &whole, &found, &grouping)?;
        }
        let found = self.one_by_one(base);
        self.compare(base, &whole, &found, "one by one")
    }

    fn combined_first(&self, base: Option<&[u8]>, (start, end): (usize, usize)) -> Outcome {
        let combined = self.merge(None, &self.operands[start..end])?;
        let mut all = self.operands[..start].to_vec();
        all.push(&combined);
        all.extend_from_slice(&self.operands[end..]);
        self.merge(base, &all)
    }

    fn one_by_one(&self, base: Option<&[u8]>) -> Outcome {
        let mut value = base.map(<[u8]>::to_vec);
        for operand in &self.operands {
            value = Some(self.merge(value.as_deref(), &[operand])?);
        }
        Ok(value.unwrap_or_default())
    }

    fn compare(
        &self,
        base: Option<&[u8]>,
        whole: &Outcome,
        found: &Outcome,
        grouping: &str,
    ) -> Result<(), Violation> {
        let is_same = match (whole, found) {
            (Ok(whole), Ok(found)) => whole == found,
            (Err(_), Err(_)) => true,
            (Ok(_), Err(_)) | (Err(_), Ok(_)) => false,
        };
        if is_same {
            return Ok(());
        }
        let operands: Vec<String> = self.operands.iter().map(|one| shown(one)).collect();
        Err(Violation {
            name: self.operator.name().to_owned(),
            what: format!(
                "for key {}, base {} and operands [{}], all at once give {}, {grouping} give {}",
                shown(self.key),
                base.map_or("none".to_owned(), shown),
                operands.join(", "),
                shown_outcome(whole),
                shown_outcome(found),
            ),
        })
    }
}

fn shown_outcome(outcome: &Outcome) -> String {
    match outcome {
        Ok(bytes) => shown(bytes),
        Err(what) => format!("a refusal ({what})"),
    }
}

/// As escaped text, cut where it is long.
fn shown(bytes: &[u8]) -> String {
    match bytes.get(..SHOWN_BYTES) {
        Some(first) if bytes.len() > SHOWN_BYTES => {
            format!("\"{}...\" ({} bytes)", first.escape_ascii(), bytes.len())
        }
        _ => format!("\"{}\"", bytes.escape_ascii()),
    }
}
