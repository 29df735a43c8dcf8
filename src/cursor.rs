//! What every sorted source of entries looks like from outside.

use std::cmp::Ordering;
use std::fmt;

use crate::error::Result;
use crate::key::{self, Kind, Sequence};
use crate::slice::Slice;

/// One entry on its way out of a source.
#[derive(Clone, Debug)]
pub(crate) struct Item {
    pub(crate) key: Slice,
    pub(crate) sequence: Sequence,
    pub(crate) kind: Kind,
    pub(crate) value: Slice,
}

/// Which way a cursor walks. Backwards is the exact reverse of forwards: keys descend, and
/// within a key the oldest entry comes first.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Direction {
    Forward,
    Backward,
}

impl Direction {
    pub(crate) fn compare(self, left: &Item, right: &Item) -> Ordering {
        let order = key::compare((&left.key, left.sequence), (&right.key, right.sequence));
        match self {
            Direction::Forward => order,
            Direction::Backward => order.reverse(),
        }
    }
}

/// A source of entries in the order of its direction.
pub(crate) trait Cursor: Send + fmt::Debug {
    /// The next entry, or `None` at the end. After an error there is no more.
    fn next(&mut self) -> Result<Option<Item>>;
}
