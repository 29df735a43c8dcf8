//! The exact join of two relations in memory, which each answer of the other site must equal.

use crate::answers::Answer;
use crate::relation::{Joined, Relation, join, number_of};
use crate::{Error, Result};

/// Which pairs the asking site A wants.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Wanted {
    /// All with equal keys.
    All,
    /// Those in which B's number is above A's.
    Above,
}

impl Wanted {
    /// Whether the pair of these values is wanted.
    pub fn has(self, ours: &[u8], theirs: &[u8]) -> bool {
        self == Wanted::All || number_of(theirs) > number_of(ours)
    }
}

/// The two relations, and their join without any filter.
#[derive(Debug)]
pub struct Exact {
    /// The rows of site A.
    pub left: Relation,
    /// The rows of site B.
    pub right: Relation,
    /// All pairs.
    pub all: Joined,
    /// The pairs in which B's number is above A's.
    pub above: Joined,
}

impl Exact {
    /// Joins them.
    pub fn of(left: Relation, right: Relation) -> Exact {
        let all = join(&left, &right);
        let above = |pair: &&(_, Vec<u8>, Vec<u8>)| Wanted::Above.has(&pair.1, &pair.2);
        Exact {
            above: all.iter().filter(above).cloned().collect(),
            all,
            left,
            right,
        }
    }

    /// Bits of the largest number of A, from 1 to 32.
    pub fn value_bits(&self) -> u32 {
        let largest = self.left.values().map(|value| number_of(value)).max();
        (u64::BITS - largest.unwrap_or(0).leading_zeros()).clamp(1, 32)
    }

    /// Refuses rows that are not those of the exact join.
    ///
    /// # Errors
    ///
    /// If there are others, or fewer.
    pub fn check(&self, answer: &Answer, wanted: Wanted) -> Result<()> {
        let exact = match wanted {
            Wanted::All => &self.all,
            Wanted::Above => &self.above,
        };
        if answer.joined == *exact {
            return Ok(());
        }
        Err(Error::Wrong(format!(
            "a join has {} rows, or others than the {} of the exact one",
            answer.joined.len(),
            exact.len()
        )))
    }

    /// Refuses a count of the rows above A's numbers that is too low: a false negative.
    ///
    /// # Errors
    ///
    /// If it is too low.
    pub fn check_count(&self, answer: &Answer) -> Result<()> {
        let above = self.above.len() as u64;
        let counted = answer.numbers.map_or(0, |(count, _)| count);
        match counted < above {
            true => Err(Error::Wrong(format!("B counts {counted} rows of {above}"))),
            false => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn relation(rows: &[(&str, &str)]) -> Relation {
        let row = |&(key, value): &(&str, &str)| (key.into(), value.into());
        rows.iter().map(row).collect()
    }

    #[test]
    fn wrong_answers_are_refused() {
        let left = relation(&[("a", "1"), ("b", "5"), ("c", "7")]);
        let exact = Exact::of(left, relation(&[("a", "2"), ("b", "5"), ("d", "9")]));
        assert_eq!((exact.all.len(), exact.above.len()), (2, 1));
        assert_eq!(exact.value_bits(), 3);
        let mut answer = Answer {
            joined: exact.all.clone(),
            ..Answer::default()
        };
        exact.check(&answer, Wanted::All).unwrap();
        assert!(exact.check(&answer, Wanted::Above).is_err());
        answer.joined.pop();
        assert!(exact.check(&answer, Wanted::All).is_err());
        exact.check(&answer, Wanted::Above).unwrap();
        answer.numbers = Some((1, 2));
        exact.check_count(&answer).unwrap();
        answer.numbers = Some((0, 0));
        assert!(exact.check_count(&answer).is_err());
    }
}
