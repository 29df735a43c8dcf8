//! The keys and ranges that a transaction has read in one tree.
//!
//! A set that is too large names more than was read: neighbours become one range. It never names
//! less, so a transaction may meet a conflict that is none, and misses none that is one.

use std::cmp::Ordering;
use std::collections::{BTreeMap, BTreeSet};
use std::ops::Bound;

use crate::bounds::{Bounds, is_above, is_below};
use crate::slice::Slice;

/// Bytes up to which keys and ranges are kept as they were read. Beyond, neighbours become one.
const READ_SET_BYTES_MAX: usize = 16 << 20;

/// Bytes charged for a key or range beside those of its keys.
const INTERVAL_BYTES: usize = 64;

/// Keys and ranges that were read.
#[derive(Debug)]
pub(crate) struct ReadSet {
    keys: BTreeSet<Box<[u8]>>,
    ranges: Vec<Bounds>,
    /// Ranges that iterators still walk, by the number of the iterator: as long as it is there, it
    /// may come to any key within.
    open: BTreeMap<u64, Bounds>,
    next_open: u64,
    /// Bytes of keys and ranges; those of open ones are not counted.
    bytes: usize,
    bytes_max: usize,
}

impl Default for ReadSet {
    fn default() -> ReadSet {
        ReadSet::with_bound(READ_SET_BYTES_MAX)
    }
}

impl ReadSet {
    fn with_bound(bytes_max: usize) -> ReadSet {
        ReadSet {
            keys: BTreeSet::new(),
            ranges: Vec::new(),
            open: BTreeMap::new(),
            next_open: 0,
            bytes: 0,
            bytes_max,
        }
    }

    /// A key was read, or found absent.
    pub(crate) fn add_key(&mut self, key: &[u8]) {
        if !self.keys.contains(key) {
            self.keys.insert(Box::from(key));
            self.bytes += key.len() + INTERVAL_BYTES;
            self.keep_within_bound();
        }
    }

    /// A walk within these bounds begins. Returns its number, for [`ReadSet::close`].
    pub(crate) fn open(&mut self, bounds: Bounds) -> u64 {
        let number = self.next_open;
        self.next_open += 1;
        self.open.insert(number, bounds);
        number
    }

    /// A walk has ended, and these parts of its range were read. One that never ends, because its
    /// iterator was forgotten, counts as if it had read all.
    pub(crate) fn close(&mut self, number: u64, read: impl IntoIterator<Item = Bounds>) {
        self.open.remove(&number);
        for bounds in read {
            let bounds = compact(&bounds);
            self.bytes += bytes_of(&bounds);
            self.ranges.push(bounds);
        }
        self.keep_within_bound();
    }

    /// In order.
    pub(crate) fn keys(&self) -> impl Iterator<Item = &[u8]> {
        self.keys.iter().map(|key| &**key)
    }

    /// In no order.
    pub(crate) fn ranges(&self) -> impl Iterator<Item = &Bounds> {
        self.ranges.iter().chain(self.open.values())
    }

    fn keep_within_bound(&mut self) {
        if self.bytes <= self.bytes_max {
            return;
        }
        let mut all = self.take_all();
        join_where(&mut all, touch);
        // Half of the bound, so that this happens seldom.
        while all.len() > 1 && all.iter().map(bytes_of).sum::<usize>() > self.bytes_max / 2 {
            let mut is_odd = false;
            join_where(&mut all, |_, _| {
                is_odd = !is_odd;
                is_odd
            });
        }
        self.bytes = all.iter().map(bytes_of).sum();
        for bounds in all {
            match bounds {
                (Bound::Included(lower), Bound::Included(upper)) if lower == upper => {
                    self.keys.insert(Box::from(&*lower));
                }
                bounds => self.ranges.push(bounds),
            }
        }
    }

    /// Keys and ranges as ranges, by their lower bounds.
    fn take_all(&mut self) -> Vec<Bounds> {
        let keys = std::mem::take(&mut self.keys);
        let keys = keys.into_iter().map(|key| {
            let key = Slice::from(key.into_vec());
            (Bound::Included(key.clone()), Bound::Included(key))
        });
        let mut all: Vec<Bounds> = keys.chain(std::mem::take(&mut self.ranges)).collect();
        all.sort_by(|left, right| compare_lower(&left.0, &right.0));
        all
    }
}

/// Bounds in memory of their own: a key that was read may hold the memory of its block.
fn compact((lower, upper): &Bounds) -> Bounds {
    let copy = |bound: &Bound<Slice>| bound.as_ref().map(|key| Slice::from(&**key));
    (copy(lower), copy(upper))
}

fn bytes_of((lower, upper): &Bounds) -> usize {
    let bytes = |bound: &Bound<Slice>| match bound {
        Bound::Unbounded => 0,
        Bound::Included(key) | Bound::Excluded(key) => key.len(),
    };
    bytes(lower) + bytes(upper) + INTERVAL_BYTES
}

/// Joins neighbours of a list that is sorted by lower bounds where `joins` says so.
fn join_where(all: &mut Vec<Bounds>, mut joins: impl FnMut(&Bounds, &Bounds) -> bool) {
    let mut joined: Vec<Bounds> = Vec::new();
    for next in all.drain(..) {
        match joined.last_mut() {
            Some(last) if joins(last, &next) => {
                if compare_upper(&last.1, &next.1).is_lt() {
                    last.1 = next.1;
                }
            }
            _ => joined.push(next),
        }
    }
    *all = joined;
}

/// Whether the second, which begins no earlier, begins within the first.
fn touch(one: &Bounds, next: &Bounds) -> bool {
    match &next.0 {
        Bound::Unbounded => true,
        Bound::Included(key) | Bound::Excluded(key) => {
            is_above(&one.0, key) && is_below(&one.1, key) || one.0 == next.0
        }
    }
}

fn compare_lower(left: &Bound<Slice>, right: &Bound<Slice>) -> Ordering {
    place(left, Ordering::Less).cmp(&place(right, Ordering::Less))
}

fn compare_upper(left: &Bound<Slice>, right: &Bound<Slice>) -> Ordering {
    place(left, Ordering::Greater).cmp(&place(right, Ordering::Greater))
}

/// Where a bound lies: `end` says on which side an unbounded one does.
fn place(bound: &Bound<Slice>, end: Ordering) -> (Ordering, &[u8], Ordering) {
    let is_upper = end == Ordering::Greater;
    match bound {
        Bound::Unbounded => (end, &[], Ordering::Equal),
        Bound::Included(key) => (Ordering::Equal, key, Ordering::Equal),
        Bound::Excluded(key) if is_upper => (Ordering::Equal, key, Ordering::Less),
        Bound::Excluded(key) => (Ordering::Equal, key, Ordering::Greater),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn range(lower: &str, upper: &str) -> Bounds {
        (
            Bound::Included(Slice::from(lower)),
            Bound::Excluded(Slice::from(upper)),
        )
    }

    fn names(set: &ReadSet, key: &[u8]) -> bool {
        let in_range = |(lower, upper): &Bounds| is_above(lower, key) && is_below(upper, key);
        set.keys().any(|one| one == key) || set.ranges().any(in_range)
    }

    fn size(set: &ReadSet) -> usize {
        set.keys.len() + set.ranges.len()
    }

    #[test]
    fn what_was_read_is_named_and_nothing_else() {
        let mut set = ReadSet::default();
        set.add_key(b"b");
        set.add_key(b"b");
        let walk = set.open(range("d", "h"));
        assert!(names(&set, b"g"), "the walk may come there");
        set.close(walk, [range("d", "f")]);
        let other = set.open(range("x", "z"));
        set.close(other, None);
        let named = |key: &str| names(&set, key.as_bytes());
        let all = ["a", "b", "c", "d", "e", "f", "g", "x"].map(named);
        let wanted = [false, true, false, true, true, false, false, false];
        assert_eq!((all, size(&set)), (wanted, 2));
    }

    #[test]
    fn a_set_that_is_too_large_names_more_never_less() {
        let bytes_max = 20 * INTERVAL_BYTES;
        let mut set = ReadSet::with_bound(bytes_max);
        let (mut keys, mut ranges) = (Vec::new(), Vec::new());
        let mut state = 7_u64;
        let mut random = || {
            state = state
                .wrapping_mul(6_364_136_223_846_793_005)
                .wrapping_add(1);
            (state >> 40) % 1000
        };
        for _ in 0..500 {
            let key = format!("{:03}", random());
            let end = format!("{:03}", random());
            if random() % 3 == 0 && key < end && random() < 30 {
                let walk = set.open(range(&key, &end));
                set.close(walk, [range(&key, &end)]);
                ranges.push((key, end));
            } else {
                set.add_key(key.as_bytes());
                keys.push(key);
            }
            assert!(set.bytes <= bytes_max, "{} bytes", set.bytes);
            let sum: usize = set.ranges.iter().map(bytes_of).sum();
            let of_keys: usize = set.keys.iter().map(|key| key.len() + INTERVAL_BYTES).sum();
            assert!(set.bytes >= sum.max(of_keys));
        }
        assert!(size(&set) > 1, "some of it is still known");
        for key in keys {
            assert!(names(&set, key.as_bytes()), "{key}");
        }
        for (lower, upper) in ranges {
            for key in (0..1000).map(|key| format!("{key:03}")) {
                let is_read = lower <= key && key < upper;
                assert!(!is_read || names(&set, key.as_bytes()), "{key}");
            }
        }
    }

    #[test]
    fn ranges_that_touch_become_one_before_anything_else_does() {
        let mut set = ReadSet::with_bound(4 * INTERVAL_BYTES);
        for bounds in [range("a", "c"), range("b", "d"), range("b", "bb")] {
            let walk = set.open(bounds.clone());
            set.close(walk, [bounds]);
        }
        set.add_key(b"ba");
        assert_eq!(size(&set), 1, "{set:?}");
        set.add_key(b"m");
        assert!(names(&set, b"a") && !names(&set, b"d") && names(&set, b"m"));
    }

    #[test]
    fn unbounded_ranges_swallow_their_neighbours() {
        let mut set = ReadSet::with_bound(2 * INTERVAL_BYTES);
        let all = (Bound::Unbounded, Bound::Unbounded);
        let walk = set.open(all.clone());
        set.close(walk, [all]);
        set.add_key(b"m");
        assert_eq!(size(&set), 1, "{set:?}");
        assert!(names(&set, b"") && names(&set, b"zzz"));
    }
}
