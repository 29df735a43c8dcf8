//! Ranges of keys, and on which side of a bound a key lies.

use std::ops::{
    Bound, Deref, Range, RangeFrom, RangeFull, RangeInclusive, RangeTo, RangeToInclusive,
};

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

/// A range of keys: `..`, `"a".."b"`, `"a"..`, `..="b"` and so on, or a pair of [`Bound`]s.
///
/// Keys are anything that gives bytes: strings, slices, arrays, vectors.
///
/// ```
/// # fn main() -> criba::Result<()> {
/// # let dir = tempfile::tempdir().unwrap();
/// # let db = criba::Db::open(dir.path().join("data"))?;
/// for key in ["a", "b", "c"] {
///     db.put(key, "")?;
/// }
/// assert_eq!(db.range(..).count(), 3);
/// assert_eq!(db.range("b"..).count(), 2);
/// assert_eq!(db.range(b"a"..=b"b").count(), 2);
/// # Ok(())
/// # }
/// ```
pub trait KeyRange {
    /// Where the range begins and where it ends.
    fn into_bounds(self) -> (Bound<Slice>, Bound<Slice>);
}

impl KeyRange for RangeFull {
    fn into_bounds(self) -> Bounds {
        (Bound::Unbounded, Bound::Unbounded)
    }
}

fn own<K: AsRef<[u8]>>(key: K) -> Slice {
    Slice::from(key.as_ref())
}

impl<K: AsRef<[u8]>> KeyRange for Range<K> {
    fn into_bounds(self) -> Bounds {
        (
            Bound::Included(own(self.start)),
            Bound::Excluded(own(self.end)),
        )
    }
}

impl<K: AsRef<[u8]>> KeyRange for RangeInclusive<K> {
    fn into_bounds(self) -> Bounds {
        let (start, end) = self.into_inner();
        (Bound::Included(own(start)), Bound::Included(own(end)))
    }
}

impl<K: AsRef<[u8]>> KeyRange for RangeFrom<K> {
    fn into_bounds(self) -> Bounds {
        (Bound::Included(own(self.start)), Bound::Unbounded)
    }
}

impl<K: AsRef<[u8]>> KeyRange for RangeTo<K> {
    fn into_bounds(self) -> Bounds {
        (Bound::Unbounded, Bound::Excluded(own(self.end)))
    }
}

impl<K: AsRef<[u8]>> KeyRange for RangeToInclusive<K> {
    fn into_bounds(self) -> Bounds {
        (Bound::Unbounded, Bound::Included(own(self.end)))
    }
}

impl<K: AsRef<[u8]>, L: AsRef<[u8]>> KeyRange for (Bound<K>, Bound<L>) {
    fn into_bounds(self) -> Bounds {
        (self.0.map(own), self.1.map(own))
    }
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
