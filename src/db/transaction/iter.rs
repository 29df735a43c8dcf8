//! Iterators over a range of keys as a transaction sees it.

use std::cell::RefCell;
use std::cmp::Ordering;
use std::fmt;
use std::ops::Bound;
use std::sync::Arc;

use crate::bounds::Bounds;
use crate::cursor::Direction;
use crate::error::Result;
use crate::slice::Slice;
use crate::store::Reads;
use crate::tree::{ReadSet, Tree, WriteSet, Written};

use super::super::iter::Iter;
use super::state::outcome;

/// Keys and values in key order, from both ends, as a transaction sees them.
///
/// Made by [`Transaction::range`](crate::Transaction::range) and its like. After an error it ends.
///
/// ```
/// # fn main() -> criba::Result<()> {
/// # let dir = tempfile::tempdir().unwrap();
/// # let db = criba::Db::open(dir.path().join("data"))?;
/// db.put("a", "1")?;
/// db.put("c", "3")?;
/// let mut tx = db.transaction();
/// tx.put("b", "2")?;
/// let mut text = String::new();
/// for entry in tx.iter().rev() {
///     let (key, value) = entry?;
///     text += &format!("{key:?}={value:?} ");
/// }
/// assert_eq!(text, r#""c"="3" "b"="2" "a"="1" "#);
/// # Ok(())
/// # }
/// ```
pub struct TransactionIter<'a> {
    tree: Arc<Tree>,
    bounds: Bounds,
    /// Where it says what it has read, if that matters.
    reads: Option<&'a RefCell<Reads>>,
    stored: Ends<Iter>,
    own: Ends<Written<'a>>,
    /// How far the walk has come; the read set knows of it since the first step.
    read: Option<Progress>,
    ended: bool,
}

/// How far a walk has come.
#[derive(Debug)]
struct Progress {
    /// Its number in the read set.
    number: u64,
    /// The last keys that were returned from the front and from the back.
    front: Option<Slice>,
    back: Option<Slice>,
    /// Whether nothing was left.
    is_whole: bool,
}

/// An iterator that is looked into from both ends.
struct Ends<I: DoubleEndedIterator> {
    rest: I,
    front: Option<I::Item>,
    back: Option<I::Item>,
}

impl<I: DoubleEndedIterator> Ends<I> {
    fn new(rest: I) -> Ends<I> {
        Ends {
            rest,
            front: None,
            back: None,
        }
    }

    /// The next item from this end.
    fn peek(&mut self, direction: Direction) -> Option<&I::Item> {
        let (near, far) = match direction {
            Direction::Forward => (&mut self.front, &mut self.back),
            Direction::Backward => (&mut self.back, &mut self.front),
        };
        if near.is_none() {
            let next = match direction {
                Direction::Forward => self.rest.next(),
                Direction::Backward => self.rest.next_back(),
            };
            // The last that is left may have been looked at from the other end.
            *near = next.or_else(|| far.take());
        }
        near.as_ref()
    }

    fn take(&mut self, direction: Direction) -> Option<I::Item> {
        self.peek(direction)?;
        match direction {
            Direction::Forward => self.front.take(),
            Direction::Backward => self.back.take(),
        }
    }
}

impl<'a> TransactionIter<'a> {
    /// A walk within these bounds over what is stored and, on top of it, what was written.
    pub(super) fn new(
        (tree, bounds): (&Arc<Tree>, Bounds),
        stored: Iter,
        written: Option<&'a WriteSet>,
        reads: Option<&'a RefCell<Reads>>,
    ) -> TransactionIter<'a> {
        let own = written.map_or_else(Written::default, |writes| writes.range(&bounds));
        TransactionIter {
            tree: Arc::clone(tree),
            bounds,
            reads,
            stored: Ends::new(stored),
            own: Ends::new(own),
            read: None,
            ended: false,
        }
    }

    /// From now on the whole range counts as read, until the walk ends and says how much of it was.
    fn begin(&mut self) {
        let (None, Some(reads)) = (&self.read, self.reads) else {
            return;
        };
        let mut reads = reads.borrow_mut();
        let reads = reads.entry(self.tree.id());
        let (_, reads) = reads.or_insert_with(|| (Arc::clone(&self.tree), ReadSet::default()));
        self.read = Some(Progress {
            number: reads.open(self.bounds.clone()),
            front: None,
            back: None,
            is_whole: false,
        });
    }

    fn step(&mut self, direction: Direction) -> Option<Result<(Slice, Slice)>> {
        if self.ended {
            return None;
        }
        self.begin();
        let next = self.merged(direction);
        self.ended = !matches!(next, Some(Ok(_)));
        if let Some(read) = &mut self.read {
            match (&next, direction) {
                (None, _) => read.is_whole = true,
                (Some(Ok((key, _))), Direction::Forward) => read.front = Some(key.clone()),
                (Some(Ok((key, _))), Direction::Backward) => read.back = Some(key.clone()),
                (Some(Err(_)), _) => {}
            }
        }
        next
    }

    /// The next entry of a direction: an own write takes the place of what is stored.
    fn merged(&mut self, direction: Direction) -> Option<Result<(Slice, Slice)>> {
        loop {
            let stored = match self.stored.peek(direction) {
                Some(Ok((key, _))) => Some(key),
                Some(Err(_)) => return self.stored.take(direction),
                None => None,
            };
            let Some((own, _)) = self.own.peek(direction) else {
                return self.stored.take(direction);
            };
            let order = stored.map_or(Ordering::Less, |stored| match direction {
                Direction::Forward => (**own).cmp(stored),
                Direction::Backward => (**stored).cmp(own),
            });
            if order.is_gt() {
                return self.stored.take(direction);
            }
            let stored = match order.is_eq() {
                true => self.stored.take(direction).transpose(),
                false => Ok(None),
            };
            let (key, write) = self.own.take(direction)?;
            let stored = || Ok(stored?.map(|(_, value)| value));
            match outcome(&self.tree, key, write, stored) {
                Ok(Some(value)) => return Some(Ok((key.clone(), value))),
                Ok(None) => {}
                Err(error) => return Some(Err(error)),
            }
        }
    }
}

impl Iterator for TransactionIter<'_> {
    type Item = Result<(Slice, Slice)>;

    fn next(&mut self) -> Option<Self::Item> {
        self.step(Direction::Forward)
    }
}

impl DoubleEndedIterator for TransactionIter<'_> {
    fn next_back(&mut self) -> Option<Self::Item> {
        self.step(Direction::Backward)
    }
}

impl std::iter::FusedIterator for TransactionIter<'_> {}

impl Drop for TransactionIter<'_> {
    fn drop(&mut self) {
        let (Some(read), Some(reads)) = (self.read.take(), self.reads) else {
            return;
        };
        let (lower, upper) = self.bounds.clone();
        let parts = match read.is_whole {
            true => [Some((lower, upper)), None],
            false => {
                let front = read.front.map(|last| (lower, Bound::Included(last)));
                let back = read.back.map(|last| (Bound::Included(last), upper));
                [front, back]
            }
        };
        let mut reads = reads.borrow_mut();
        if let Some((_, reads)) = reads.get_mut(&self.tree.id()) {
            reads.close(read.number, parts.into_iter().flatten());
        }
    }
}

impl fmt::Debug for TransactionIter<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("TransactionIter")
            .field("bounds", &self.bounds)
            .field("read", &self.read)
            .field("ended", &self.ended)
            .finish_non_exhaustive()
    }
}
