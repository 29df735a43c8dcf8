//! What every sorted source of entries looks like from outside.
//!
//! A cursor stands at an entry and shows it in its place: whoever merges thousands of entries and
//! keeps none copies nothing and counts no references. What is to be kept is asked for as slices.

use std::cmp::Ordering;
use std::fmt;

use crate::error::Result;
use crate::format::block::Entry;
use crate::key::{self, Kind, Sequence};
use crate::slice::Slice;

/// One entry that was taken out of a source.
#[derive(Clone, Debug)]
pub(crate) struct Item {
    pub(crate) key: Slice,
    pub(crate) sequence: Sequence,
    pub(crate) kind: Kind,
    pub(crate) value: Slice,
}

impl Item {
    pub(crate) fn entry(&self) -> Entry<'_> {
        Entry {
            key: &self.key,
            sequence: self.sequence,
            kind: self.kind,
            value: &self.value,
        }
    }
}

/// Which way a cursor walks. Backwards is the exact reverse of forwards: keys descend, and
/// within a key the oldest entry comes first.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Direction {
    Forward,
    Backward,
}

impl Direction {
    pub(crate) fn compare(self, left: &Entry<'_>, right: &Entry<'_>) -> Ordering {
        let order = key::compare((left.key, left.sequence), (right.key, right.sequence));
        match self {
            Direction::Forward => order,
            Direction::Backward => order.reverse(),
        }
    }
}

/// A source of entries in the order of its direction.
///
/// It stands before its first entry until [`Cursor::advance`] is called. At no entry, before the
/// first and behind the last, it shows an empty key and value of sequence 0.
pub(crate) trait Cursor: Send + fmt::Debug {
    /// Moves to the next entry; `false` at the end. After an error there is no more.
    fn advance(&mut self) -> Result<bool>;

    /// The entry at which it stands.
    fn entry(&self) -> Entry<'_>;

    /// The key of that entry, to be kept.
    fn key(&self) -> Slice;

    /// The value of that entry, to be kept.
    fn value(&self) -> Slice;

    /// The entry at which it stands, to be kept.
    fn item(&self) -> Item {
        let Entry { sequence, kind, .. } = self.entry();
        Item {
            key: self.key(),
            sequence,
            kind,
            value: self.value(),
        }
    }

    /// The next entry, or `None` at the end.
    fn next(&mut self) -> Result<Option<Item>> {
        Ok(self.advance()?.then(|| self.item()))
    }
}

/// What a cursor shows that stands at no entry.
pub(crate) const NO_ENTRY: Entry<'static> = Entry {
    key: &[],
    sequence: Sequence(0),
    kind: Kind::Tombstone,
    value: &[],
};

/// The key of the entry before, in memory that is used again.
#[derive(Debug, Default)]
pub(crate) struct LastKey {
    key: Vec<u8>,
    is_set: bool,
}

impl LastKey {
    pub(crate) fn get(&self) -> Option<&[u8]> {
        self.is_set.then_some(&*self.key)
    }

    pub(crate) fn set(&mut self, key: &[u8]) {
        self.key.clear();
        self.key.extend_from_slice(key);
        self.is_set = true;
    }
}
