//! The writes of a transaction to one tree, before its commit.

use std::collections::BTreeMap;
use std::collections::btree_map;
use std::ops::Bound;

use crate::bounds::Bounds;
use crate::error::Result;
use crate::operator::Operator;
use crate::slice::Slice;

/// What becomes of a key.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Write {
    Put(Slice),
    Delete,
    /// These operands, oldest first, come on top of what is stored.
    Merge(Vec<Slice>),
}

/// What becomes of each key that is written.
#[derive(Debug, Default)]
pub(crate) struct WriteSet(BTreeMap<Slice, Write>);

/// A part of a write set, from both ends.
pub(crate) type Written<'a> = btree_map::Range<'a, Slice, Write>;

impl WriteSet {
    /// The key will have this value, or none. A later call wins.
    pub(crate) fn set(&mut self, key: &[u8], value: Option<&[u8]>) {
        let write = value.map_or(Write::Delete, |value| Write::Put(Slice::from(value)));
        self.0.insert(Slice::from(key), write);
    }

    /// The key will have what the operator makes of this operand and what is there.
    pub(crate) fn merge(&mut self, operator: &Operator, key: &[u8], operand: &[u8]) -> Result<()> {
        let base = match self.0.get_mut(key) {
            Some(Write::Merge(operands)) => {
                operands.push(Slice::from(operand));
                return Ok(());
            }
            Some(Write::Put(value)) => Some(&**value),
            Some(Write::Delete) => None,
            None => {
                let write = Write::Merge(vec![Slice::from(operand)]);
                self.0.insert(Slice::from(key), write);
                return Ok(());
            }
        };
        let merged = operator.merge(key, base, &[operand])?;
        self.set(key, Some(&merged));
        Ok(())
    }

    /// What becomes of a key; `None` where it is left as it is.
    pub(crate) fn get(&self, key: &[u8]) -> Option<&Write> {
        if self.0.is_empty() {
            return None;
        }
        self.0.get(key)
    }

    /// All within the bounds, which may end before they begin.
    pub(crate) fn range(&self, (lower, upper): &Bounds) -> Written<'_> {
        let is_empty = match (lower, upper) {
            (Bound::Excluded(lower), Bound::Excluded(upper)) => lower >= upper,
            (
                Bound::Included(lower) | Bound::Excluded(lower),
                Bound::Included(upper) | Bound::Excluded(upper),
            ) => lower > upper,
            _ => false,
        };
        match is_empty {
            true => self.0.range(Slice::default()..Slice::default()),
            false => self.0.range((lower.clone(), upper.clone())),
        }
    }

    /// In key order.
    pub(crate) fn iter(&self) -> impl Iterator<Item = (&Slice, &Write)> {
        self.0.iter()
    }

    /// Keys that will have a value, or none, whatever is there. Those that are only merged are none
    /// of them.
    pub(crate) fn keys_set(&self) -> impl Iterator<Item = &[u8]> {
        let set = self.0.iter();
        set.filter(|(_, write)| !matches!(write, Write::Merge(_)))
            .map(|(key, _)| &**key)
    }

    pub(crate) fn len(&self) -> usize {
        self.0.len()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_range_that_ends_before_it_begins_is_empty() {
        let mut writes = WriteSet::default();
        writes.set(b"b", Some(b"1"));
        writes.set(b"b", None);
        let key = || Slice::from("b");
        let (low, high) = (|| Slice::from("a"), || Slice::from("c"));
        let cases = [
            ((Bound::Included(key()), Bound::Included(key())), 1),
            ((Bound::Included(key()), Bound::Excluded(key())), 0),
            ((Bound::Excluded(key()), Bound::Included(key())), 0),
            ((Bound::Excluded(key()), Bound::Excluded(key())), 0),
            ((Bound::Included(high()), Bound::Included(low())), 0),
            ((Bound::Excluded(high()), Bound::Excluded(low())), 0),
            ((Bound::Excluded(low()), Bound::Excluded(high())), 1),
            ((Bound::Unbounded, Bound::Unbounded), 1),
        ];
        for (bounds, count) in cases {
            assert_eq!(writes.range(&bounds).count(), count, "{bounds:?}");
        }
        assert_eq!(writes.get(b"b"), Some(&Write::Delete));
        assert_eq!((writes.get(b"c"), writes.len()), (None, 1));
    }
}
