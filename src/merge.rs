//! Many sorted sources as one.

use std::cmp::Ordering;
use std::collections::BinaryHeap;

use crate::cursor::{Cursor, Direction, Item};
use crate::error::Result;

/// Several cursors of one direction as one. No two of them hold the same key and sequence.
#[derive(Debug)]
pub(crate) struct Merge {
    heap: BinaryHeap<Head>,
    waiting: Vec<Box<dyn Cursor>>,
    direction: Direction,
}

/// A cursor and the entry it stands at. The heap's greatest is what comes first.
#[derive(Debug)]
struct Head {
    item: Item,
    cursor: Box<dyn Cursor>,
    direction: Direction,
}

impl Ord for Head {
    fn cmp(&self, other: &Head) -> Ordering {
        self.direction.compare(&other.item, &self.item)
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
}

impl Cursor for Merge {
    fn next(&mut self) -> Result<Option<Item>> {
        // Sources are first read at the first call, so that making an iterator costs no read.
        for mut cursor in std::mem::take(&mut self.waiting) {
            if let Some(item) = cursor.next()? {
                self.heap.push(Head {
                    item,
                    cursor,
                    direction: self.direction,
                });
            }
        }
        let Some(mut head) = self.heap.peek_mut() else {
            return Ok(None);
        };
        match head.cursor.next()? {
            Some(next) => Ok(Some(std::mem::replace(&mut head.item, next))),
            None => Ok(Some(std::collections::binary_heap::PeekMut::pop(head).item)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::key::{Kind, Sequence};
    use crate::slice::Slice;

    #[derive(Debug)]
    struct Fixed(std::vec::IntoIter<Item>);

    impl Cursor for Fixed {
        fn next(&mut self) -> Result<Option<Item>> {
            Ok(self.0.next())
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
        Box::new(Fixed(items.into_iter()))
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
}
