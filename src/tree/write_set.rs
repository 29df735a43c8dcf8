//! The writes of a transaction to one tree, before its commit.

use std::collections::BTreeMap;
use std::collections::btree_map;
use std::ops::Bound;

use crate::bounds::Bounds;
use crate::slice::Slice;

/// For each key its value, or `None` where it is deleted.
#[derive(Debug, Default)]
pub(crate) struct WriteSet(BTreeMap<Slice, Option<Slice>>);

/// A part of a write set, from both ends.
pub(crate) type Written<'a> = btree_map::Range<'a, Slice, Option<Slice>>;

impl WriteSet {
    /// The key will have this value, or none. A later call wins.
    pub(crate) fn set(&mut self, key: &[u8], value: Option<&[u8]>) {
        self.0.insert(Slice::from(key), value.map(Slice::from));
    }

    /// The value that a key will have: `Some(None)` where it is deleted, `None` where it is left as
    /// it is.
    pub(crate) fn get(&self, key: &[u8]) -> Option<&Option<Slice>> {
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
    pub(crate) fn iter(&self) -> impl Iterator<Item = (&Slice, &Option<Slice>)> {
        self.0.iter()
    }

    pub(crate) fn keys(&self) -> impl Iterator<Item = &[u8]> {
        self.0.keys().map(|key| &**key)
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
        assert_eq!(writes.get(b"b"), Some(&None));
        assert_eq!((writes.get(b"c"), writes.len()), (None, 1));
    }
}
