//! A cursor over a table.

use std::ops::Bound;
use std::sync::Arc;

use crate::cursor::{Cursor, Direction, NO_ENTRY};
use crate::error::Result;
use crate::format::block;
use crate::key::Sequence;
use crate::slice::Slice;

use super::Memtable;
use super::entries::{Entry, EntryRef};
use super::tree::{Target, at};

/// Before everything: newer entries of a key come first.
pub(super) const FIRST: Target<'static> = before(b"");

/// Before the newest entry of a key.
const fn before(key: &[u8]) -> Target<'_> {
    Target {
        key,
        sequence: Sequence(u64::MAX),
    }
}

/// Behind the oldest entry of a key: the first sequence is 1.
const fn behind(key: &[u8]) -> Target<'_> {
    Target {
        key,
        sequence: Sequence(0),
    }
}

/// Where entries within a lower bound begin.
pub(super) fn first_from(lower: Bound<&[u8]>) -> Target<'_> {
    match lower {
        Bound::Unbounded => FIRST,
        Bound::Included(key) => before(key),
        Bound::Excluded(key) => behind(key),
    }
}

/// A cursor over a table that owns what it needs. Entries that are added behind its back may or
/// may not appear; the reader's sequence hides them.
#[derive(Debug)]
pub(crate) struct Walk {
    table: Arc<Memtable>,
    direction: Direction,
    next: Position,
    /// The entries of a leaf, last one first, from the one on at which it stands.
    entries: Vec<EntryRef>,
}

#[derive(Debug)]
enum Position {
    Start(Bound<Slice>),
    /// Forwards with this entry, backwards with the one before it.
    At(EntryRef),
    End,
}

impl Walk {
    pub(super) fn new(table: Arc<Memtable>, direction: Direction, from: Bound<Slice>) -> Walk {
        Walk {
            table,
            direction,
            next: Position::Start(from),
            entries: Vec::new(),
        }
    }

    /// Notes what one leaf has to give.
    fn refill(&mut self) {
        let next = std::mem::replace(&mut self.next, Position::End);
        match self.direction {
            Direction::Forward => self.refill_forward(&next),
            Direction::Backward => self.refill_backward(&next),
        }
        // Neighbours by key lie anywhere. Of the first leaf, many want one entry.
        if !matches!(next, Position::Start(_)) {
            self.table.tree.prefetch(&self.entries);
        }
        self.entries.reverse();
    }

    fn refill_forward(&mut self, next: &Position) {
        let tree = &self.table.tree;
        let mut target = match next {
            Position::Start(from) => first_from(from.as_ref().map(|key| &**key)),
            Position::At(entry) => at(tree.entry(*entry)),
            Position::End => return,
        };
        // The leaf in which a key would be may end before it.
        while self.entries.is_empty()
            && let Some(found) = tree.from(target)
        {
            self.entries.extend(found.entries());
            let Some(after) = found.after else {
                self.next = Position::End;
                return;
            };
            self.next = Position::At(after);
            target = at(tree.entry(after));
        }
    }

    fn refill_backward(&mut self, next: &Position) {
        let tree = &self.table.tree;
        let target = match next {
            Position::Start(Bound::Unbounded) => None,
            Position::Start(Bound::Included(key)) => Some(behind(key)),
            Position::Start(Bound::Excluded(key)) => Some(before(key)),
            Position::At(entry) => Some(at(tree.entry(*entry))),
            Position::End => return,
        };
        let Some(found) = tree.before(target) else {
            return;
        };
        self.entries.extend(found.entries().iter().rev());
        if let Some(least) = found.entries().first() {
            self.next = Position::At(*least);
        }
    }
}

impl Walk {
    fn current(&self) -> Option<Entry<'_>> {
        let entry = self.entries.last()?;
        Some(self.table.tree.entry(*entry))
    }
}

impl Cursor for Walk {
    fn advance(&mut self) -> Result<bool> {
        self.entries.pop();
        if self.entries.is_empty() {
            self.refill();
        }
        Ok(!self.entries.is_empty())
    }

    fn entry(&self) -> block::Entry<'_> {
        self.current().map_or(NO_ENTRY, |entry| block::Entry {
            key: entry.key(),
            sequence: entry.sequence,
            kind: entry.kind(),
            value: entry.value(),
        })
    }

    fn key(&self) -> Slice {
        let current = self.current();
        current.map_or_else(Slice::default, |entry| entry.key_slice())
    }

    fn value(&self) -> Slice {
        let current = self.current();
        current.map_or_else(Slice::default, |entry| entry.value_slice())
    }
}
