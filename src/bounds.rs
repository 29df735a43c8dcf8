//! Ranges of keys, and on which side of a bound a key lies.

use std::ops::{Bound, Deref, RangeBounds};

use crate::slice::Slice;

/// Where a range of keys begins and where it ends.
pub(crate) type Bounds = (Bound<Slice>, Bound<Slice>);

/// Whether a lower bound lets this key in.
#[inline]
pub(crate) fn is_above<K: Deref<Target = [u8]>>(lower: &Bound<K>, key: &[u8]) -> bool {
    match lower {
        Bound::Unbounded => true,
        Bound::Included(lower) => *key >= **lower,
        Bound::Excluded(lower) => *key > **lower,
    }
}

/// Whether an upper bound lets this key in.
#[inline]
pub(crate) fn is_below<K: Deref<Target = [u8]>>(upper: &Bound<K>, key: &[u8]) -> bool {
    match upper {
        Bound::Unbounded => true,
        Bound::Included(upper) => *key <= **upper,
        Bound::Excluded(upper) => *key < **upper,
    }
}

/// Whether some key from `first` to `last` can be within the bounds.
pub(crate) fn overlaps((lower, upper): &Bounds, first: &[u8], last: &[u8]) -> bool {
    is_above(lower, last) && is_below(upper, first)
}

/// The bounds of a range of keys as slices that the iterator owns.
pub(crate) fn owned_bounds<K: AsRef<[u8]>>(range: &impl RangeBounds<K>) -> Bounds {
    let own = |bound: Bound<&K>| bound.map(|key| Slice::from(key.as_ref()));
    (own(range.start_bound()), own(range.end_bound()))
}

/// The bounds of all keys that begin with `prefix`.
pub(crate) fn prefix_bounds(prefix: &[u8]) -> Bounds {
    let upper = match prefix.iter().rposition(|byte| *byte != 0xff) {
        None => Bound::Unbounded,
        Some(last) => {
            let mut successor = prefix[..=last].to_vec();
            successor[last] += 1;
            Bound::Excluded(Slice::from(successor))
        }
    };
    (Bound::Included(Slice::from(prefix)), upper)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_prefix_ends_before_its_successor() {
        let upper = |prefix: &[u8]| prefix_bounds(prefix).1;
        assert_eq!(upper(b"a"), Bound::Excluded(Slice::from("b")));
        assert_eq!(upper(b"a\xff\xff"), Bound::Excluded(Slice::from("b")));
        assert_eq!(upper(b"\xff"), Bound::Unbounded);
        assert_eq!(upper(b""), Bound::Unbounded);
    }
}
