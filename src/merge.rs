//! Many sorted sources as one.

use std::cmp::Ordering;
use std::collections::BinaryHeap;
use std::collections::binary_heap::PeekMut;

use crate::cursor::{Cursor, Direction, NO_ENTRY};
use crate::error::Result;
use crate::format::block::Entry;
use crate::key::long_head;
use crate::slice::Slice;

/// Several cursors of one direction as one. No two of them hold the same key and sequence.
#[derive(Debug)]
pub(crate) struct Merge {
    heap: BinaryHeap<Head>,
    waiting: Vec<Box<dyn Cursor>>,
    direction: Direction,
}

/// A cursor that stands at an entry. The heap's greatest is what comes first.
#[derive(Debug)]
struct Head {
    /// Of two with different ranks the one with the smaller comes first: most are told apart without a
    /// look at their entries.
    rank: u128,
    cursor: Box<dyn Cursor>,
    direction: Direction,
}

/// See [`Head::rank`].
fn rank_of(cursor: &dyn Cursor, direction: Direction) -> u128 {
    let head = long_head(cursor.entry().key);
    match direction {
        Direction::Forward => head,
        Direction::Backward => !head,
    }
}

impl Ord for Head {
    fn cmp(&self, other: &Head) -> Ordering {
        other.rank.cmp(&self.rank).then_with(|| {
            let (one, other) = (self.cursor.entry(), other.cursor.entry());
            self.direction.compare(&other, &one)
        })
    }
}

impl PartialOrd for Head {
    fn partial_cmp(&self, other: &Head) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl PartialEq for Head {
    fn eq(&self, other: &Head) -> bool {
        self.cmp(other) == Ordering::Equal
    }
}

impl Eq for Head {}

impl Merge {
    pub(crate) fn new(cursors: Vec<Box<dyn Cursor>>, direction: Direction) -> Merge {
        Merge {
            heap: BinaryHeap::with_capacity(cursors.len()),
            waiting: cursors,
            direction,
        }
    }

    /// Adds a cursor that stands at an entry, not before those that were shown.
    pub(crate) fn push(&mut self, cursor: Box<dyn Cursor>) {
        self.heap.push(Head {
            rank: rank_of(&*cursor, self.direction),
            cursor,
            direction: self.direction,
        });
    }

    /// Whether it stands at no entry.
    pub(crate) fn is_at_end(&self) -> bool {
        self.heap.is_empty()
    }

    /// Sources are first read at the first call of `advance`: making an iterator costs no read.
    fn start(&mut self) -> Result<()> {
        for mut cursor in std::mem::take(&mut self.waiting) {
            if cursor.advance()? {
                self.push(cursor);
            }
        }
        Ok(())
    }
}

impl Cursor for Merge {
    fn advance(&mut self) -> Result<bool> {
        if !self.waiting.is_empty() {
            self.start()?;
        } else if let Some(mut head) = self.heap.peek_mut() {
            if head.cursor.advance()? {
                head.rank = rank_of(&*head.cursor, self.direction);
            } else {
                PeekMut::pop(head);
            }
        }
        Ok(!self.heap.is_empty())
    }

    fn entry(&self) -> Entry<'_> {
        let head = self.heap.peek();
        head.map_or(NO_ENTRY, |head| head.cursor.entry())
    }

    fn key(&self) -> Slice {
        let head = self.heap.peek();
        head.map_or_else(Slice::default, |head| head.cursor.key())
    }

    fn value(&self) -> Slice {
        let head = self.heap.peek();
        head.map_or_else(Slice::default, |head| head.cursor.value())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cursor::Item;
    use crate::key::{Kind, Sequence};

    #[derive(Debug)]
    struct Fixed {
        rest: std::vec::IntoIter<Item>,
        current: Option<Item>,
    }

    impl Cursor for Fixed {
        fn advance(&mut self) -> Result<bool> {
            self.current = self.rest.next();
            Ok(self.current.is_some())
        }

        fn entry(&self) -> Entry<'_> {
            self.current.as_ref().map_or(NO_ENTRY, Item::entry)
        }

        fn key(&self) -> Slice {
            Slice::from(self.entry().key)
        }

        fn value(&self) -> Slice {
            Slice::from(self.entry().value)
        }
    }

    fn fixed(entries: &[(&str, u64)]) -> Box<dyn Cursor> {
        let items: Vec<Item> = entries
            .iter()
            .map(|(key, sequence)| Item {
                key: Slice::from(*key),
                sequence: Sequence(*sequence),
                kind: Kind::Value,
                value: Slice::default(),
            })
            .collect();
        Box::new(Fixed {
            rest: items.into_iter(),
            current: None,
        })
    }

    fn drain(mut merge: Merge) -> String {
        std::iter::from_fn(|| merge.next().unwrap())
            .map(|item| format!("{}{} ", item.key.escape_ascii(), item.sequence))
            .collect()
    }

    #[test]
    fn merges_in_both_directions() {
        let cursors = vec![
            fixed(&[("a", 1), ("c", 9)]),
            fixed(&[]),
            fixed(&[("a", 5), ("b", 2)]),
        ];
        assert_eq!(
            drain(Merge::new(cursors, Direction::Forward)),
            "a5 a1 b2 c9 "
        );
        let cursors = vec![fixed(&[("c", 9), ("a", 1)]), fixed(&[("b", 2), ("a", 5)])];
        assert_eq!(
            drain(Merge::new(cursors, Direction::Backward)),
            "c9 b2 a1 a5 "
        );
    }

    #[test]
    fn nothing_is_shown_before_the_first_entry_and_behind_the_last() {
        let mut merge = Merge::new(vec![fixed(&[("a", 1)])], Direction::Forward);
        let shown = |merge: &Merge| (merge.entry() == NO_ENTRY, merge.key(), merge.value());
        let nothing = (true, Slice::default(), Slice::default());
        assert_eq!(shown(&merge), nothing);
        assert!(merge.advance().unwrap());
        assert_eq!(merge.key(), "a");
        for _ in 0..2 {
            assert!(!merge.advance().unwrap());
            assert_eq!(shown(&merge), nothing);
        }
    }
}
