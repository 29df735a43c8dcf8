//! Iterators over a range of keys, from both ends, over one consistent view.

use std::ops::{Bound, RangeBounds};
use std::sync::Arc;

use crate::cursor::{Cursor, Direction, Item, LastKey};
use crate::error::{Error, Result};
use crate::key::{Kind, Sequence};
use crate::merge::Merge;
use crate::segment::Caches;
use crate::slice::Slice;

use super::gaps::{Gaps, PASSED_MIN, Step};
use super::shared::{Shared, View};

/// Where a range begins and where it ends.
pub(crate) type Bounds = (Bound<Slice>, Bound<Slice>);

/// Keys and values in key order, from both ends.
///
/// It sees the store as it was when the iterator was made, owns what it needs, and can be sent
/// to another thread. It holds on to the files and memtables of that moment; drop it when it is
/// no longer needed. Reads one data block for each block's worth of entries.
///
/// After an error it ends.
#[derive(Debug)]
pub struct Iter {
    view: Arc<View>,
    caches: Arc<Caches>,
    gaps: Arc<Gaps>,
    sequence: Sequence,
    /// What is left, but for what was returned from the front: see [`Iter::lower_now`].
    lower: Bound<Slice>,
    upper: Bound<Slice>,
    front: Option<Visible>,
    back: Option<Visible>,
    /// Why there is nothing to read: the one thing that is returned.
    refused: Option<Error>,
    ended: bool,
}

impl Iter {
    pub(crate) fn new(shared: &Shared, sequence: Option<Sequence>, (lower, upper): Bounds) -> Iter {
        let (view, sequence) = consistent_view(shared, sequence);
        let caches = Arc::clone(&shared.caches);
        Iter {
            view,
            caches,
            gaps: Arc::clone(&shared.gaps),
            sequence,
            lower,
            upper,
            front: None,
            back: None,
            refused: None,
            ended: false,
        }
    }

    /// An iterator that returns the error, if there is one, and nothing else.
    pub(crate) fn refused_by(mut self, check: Result<()>) -> Iter {
        self.refused = check.err();
        self
    }

    fn open(&self, direction: Direction, from: &Bound<Slice>) -> Visible {
        let tables = std::iter::once(&self.view.active)
            .chain(self.view.sealed.iter().map(|sealed| &sealed.table));
        let mut cursors: Vec<Box<dyn Cursor>> = tables
            .filter(|table| !table.is_empty())
            .map(|table| Box::new(table.walk(direction, from.clone())) as Box<dyn Cursor>)
            .collect();
        cursors.extend(self.view.version.runs().iter().map(|run| {
            Box::new(run.walk(&self.caches, direction, from.clone())) as Box<dyn Cursor>
        }));
        Visible {
            merge: Merge::new(cursors, direction),
            direction,
            sequence: self.sequence,
            is_ahead: false,
            done_key: LastKey::default(),
            until: match direction {
                Direction::Forward => self.upper.clone(),
                Direction::Backward => self.lower_now().map(Slice::from),
            },
            passed: 0,
        }
    }

    /// What is left begins behind the last key that was returned from the front.
    fn lower_now(&self) -> Bound<&[u8]> {
        match self.front.as_ref().and_then(|front| front.done_key.get()) {
            Some(key) => Bound::Excluded(key),
            None => self.lower.as_ref().map(|key| &**key),
        }
    }

    /// The first entry of a direction, stepping over a known gap and leaving word of a new one.
    fn first(&mut self, direction: Direction) -> Result<Option<(Slice, Slice)>> {
        let asked = match direction {
            Direction::Forward => self.lower.clone(),
            Direction::Backward => self.upper.clone(),
        };
        let (start, from) = match self.gaps.step(&asked, direction, self.sequence) {
            Step::None => (asked.clone(), asked),
            Step::Over { start, from } => (start, from),
            Step::End => return Ok(None),
        };
        let mut side = self.open(direction, &start);
        let found = side.next()?;
        // From where it began to what it found, or as far as it looked, nothing is visible.
        if side.passed >= PASSED_MIN {
            let end = match &found {
                Some((key, _)) => Bound::Excluded(key.clone()),
                None => side.until.clone(),
            };
            let gap = match direction {
                Direction::Forward => (from, end),
                Direction::Backward => (end, from),
            };
            self.gaps.add(gap, self.sequence);
        }
        match direction {
            Direction::Forward => self.front = Some(side),
            Direction::Backward => self.back = Some(side),
        }
        Ok(found)
    }

    fn advance(&mut self, direction: Direction) -> Option<Result<(Slice, Slice)>> {
        if self.ended {
            return None;
        }
        if let Some(error) = self.refused.take() {
            self.ended = true;
            return Some(Err(error));
        }
        let side = match direction {
            Direction::Forward => &mut self.front,
            Direction::Backward => &mut self.back,
        };
        let next = match side {
            None => self.first(direction),
            Some(side) => side.next(),
        };
        let next = next.map(|next| next.filter(|(key, _)| self.is_inside(direction, key)));
        match &next {
            Ok(Some((key, _))) if direction == Direction::Backward => {
                self.upper = Bound::Excluded(key.clone());
            }
            Ok(Some(_)) => {}
            Ok(None) | Err(_) => self.ended = true,
        }
        next.transpose()
    }

    /// Whether the other side has not been here yet.
    fn is_inside(&self, direction: Direction, key: &[u8]) -> bool {
        match direction {
            Direction::Forward => within_upper(&self.upper, key),
            Direction::Backward => within_lower(self.lower_now(), key),
        }
    }
}

/// A view, and the sequence to read it at: one up to which the view holds every write.
fn consistent_view(shared: &Shared, sequence: Option<Sequence>) -> (Arc<View>, Sequence) {
    let mut view = super::get::owned_view(shared);
    loop {
        let visible = shared.visible();
        let again = super::get::owned_view(shared);
        // In a view that was replaced meanwhile, the newest writes may be missing.
        if Arc::ptr_eq(&view, &again) {
            return (view, sequence.unwrap_or(visible));
        }
        view = again;
    }
}

fn within_upper(upper: &Bound<Slice>, key: &[u8]) -> bool {
    match upper {
        Bound::Unbounded => true,
        Bound::Included(upper) => *key <= **upper,
        Bound::Excluded(upper) => *key < **upper,
    }
}

fn within_lower(lower: Bound<&[u8]>, key: &[u8]) -> bool {
    match lower {
        Bound::Unbounded => true,
        Bound::Included(lower) => key >= lower,
        Bound::Excluded(lower) => key > lower,
    }
}

impl Iterator for Iter {
    type Item = Result<(Slice, Slice)>;

    fn next(&mut self) -> Option<Self::Item> {
        self.advance(Direction::Forward)
    }
}

impl DoubleEndedIterator for Iter {
    fn next_back(&mut self) -> Option<Self::Item> {
        self.advance(Direction::Backward)
    }
}

impl std::iter::FusedIterator for Iter {}

/// Of every key the newest entry that the reader sees, unless it is a tombstone.
#[derive(Debug)]
struct Visible {
    merge: Merge,
    direction: Direction,
    sequence: Sequence,
    /// Backwards: the merge stands at the first entry of the next key.
    is_ahead: bool,
    /// Forwards: the key that has been decided; its older entries are passed over.
    done_key: LastKey,
    /// Nothing beyond this bound is wanted, however much of it would have to be passed over.
    until: Bound<Slice>,
    /// Entries taken so far that were not returned.
    passed: u64,
}

impl Visible {
    fn next(&mut self) -> Result<Option<(Slice, Slice)>> {
        match self.direction {
            Direction::Forward => self.next_forward(),
            Direction::Backward => self.next_backward(),
        }
    }

    /// Newest first: the first entry of a key that is seen decides.
    fn next_forward(&mut self) -> Result<Option<(Slice, Slice)>> {
        while self.merge.advance()? {
            let entry = self.merge.entry();
            if !within_upper(&self.until, entry.key) {
                return Ok(None);
            }
            self.passed += 1;
            if entry.sequence > self.sequence || self.done_key.get() == Some(entry.key) {
                continue;
            }
            self.done_key.set(entry.key);
            if entry.kind == Kind::Value {
                return Ok(Some((self.merge.key(), self.merge.value())));
            }
        }
        Ok(None)
    }

    fn next_backward(&mut self) -> Result<Option<(Slice, Slice)>> {
        loop {
            match self.newest_backward()? {
                None => return Ok(None),
                Some(item) if item.kind == Kind::Value => return Ok(Some((item.key, item.value))),
                Some(_tombstone) => {}
            }
        }
    }

    /// Oldest first: the last entry of a key that is seen decides.
    fn newest_backward(&mut self) -> Result<Option<Item>> {
        let mut newest: Option<Item> = None;
        loop {
            if !std::mem::take(&mut self.is_ahead) {
                self.passed += 1;
                if !self.merge.advance()? {
                    return Ok(newest);
                }
            }
            let entry = self.merge.entry();
            if !within_lower(self.until.as_ref().map(|until| &**until), entry.key) {
                return Ok(newest);
            }
            if newest
                .as_ref()
                .is_some_and(|newest| newest.key != entry.key)
            {
                self.is_ahead = true;
                return Ok(newest);
            }
            if entry.sequence <= self.sequence {
                newest = Some(self.merge.item());
            }
        }
    }
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
