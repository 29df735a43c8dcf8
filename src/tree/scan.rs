//! Scans of a range of keys, from both ends, over one consistent view.

use std::ops::Bound;
use std::sync::Arc;

use crate::bounds::{Bounds, is_above, is_below};
use crate::cursor::{Cursor, Direction, Item, LastKey};
use crate::error::{Error, Result};
use crate::format::block::Entry;
use crate::key::{Kind, Sequence};
use crate::merge::Merge;
use crate::operator::Operator;
use crate::segment::Caches;
use crate::slice::Slice;
use crate::version::Run;

use super::lazy_merge::{LazyMerge, ScanCounters};
use super::operands::Gathered;
use super::state::Tree;
use super::tombstone_gaps::{Gaps, PASSED_MIN, Step};
use super::view::View;

/// The entries of a range of keys, as of one moment, from both ends.
#[derive(Debug)]
pub(crate) struct Scan {
    view: Arc<View>,
    caches: Arc<Caches>,
    gaps: Arc<Gaps>,
    counters: Arc<ScanCounters>,
    operator: Operator,
    sequence: Sequence,
    /// What is left, without regard to what was returned from the front: see [`Scan::lower_now`].
    lower: Bound<Slice>,
    upper: Bound<Slice>,
    front: Option<Visible>,
    back: Option<Visible>,
}

impl Scan {
    /// `visible` is the newest sequence that readers see; `at` the one to read at, if not that.
    pub(crate) fn new(
        tree: &Tree,
        visible: impl Fn() -> Sequence,
        at: Option<Sequence>,
        (lower, upper): Bounds,
    ) -> Scan {
        let (view, now) = consistent_view(tree, visible);
        Scan {
            view,
            caches: Arc::clone(tree.caches()),
            gaps: Arc::clone(tree.gaps()),
            counters: Arc::clone(tree.scans()),
            operator: tree.operator().clone(),
            sequence: at.unwrap_or(now),
            lower,
            upper,
            front: None,
            back: None,
        }
    }

    /// Whether the keyspace was dropped before the scan began.
    pub(crate) fn is_of_dropped(&self) -> bool {
        self.view.is_dropped
    }

    /// Keeps the files and memtables of the view until the process ends.
    pub(crate) fn leak(&self) {
        std::mem::forget(Arc::clone(&self.view));
    }

    fn open(&self, direction: Direction, from: &Bound<Slice>) -> Visible {
        let tables = std::iter::once(&self.view.active).chain(&self.view.sealed);
        let mut cursors: Vec<Box<dyn Cursor>> = tables
            .filter(|table| !table.is_empty())
            .map(|table| Box::new(table.walk(direction, from.clone())) as Box<dyn Cursor>)
            .collect();
        let until = match direction {
            Direction::Forward => self.upper.clone(),
            Direction::Backward => self.lower_now().map(Slice::from),
        };
        let runs = self.view.version.runs().iter();
        let (dormant, read): (Vec<&Run>, Vec<&Run>) = runs.partition(|run| run.has_range_filters);
        cursors.extend(read.into_iter().map(|run| {
            Box::new(run.walk(&self.caches, direction, from.clone())) as Box<dyn Cursor>
        }));
        let merge = LazyMerge::new(
            Merge::new(cursors, direction),
            (direction, from, until.clone()),
            dormant.into_iter().cloned().collect(),
            (&self.caches, &self.counters),
        );
        Visible {
            merge,
            direction,
            sequence: self.sequence,
            operator: self.operator.clone(),
            failed: None,
            is_ahead: false,
            newest: None,
            done_key: LastKey::default(),
            until,
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

    /// Stands at the first entry of a direction, stepping over a known gap and leaving word of a
    /// new one.
    fn first(&mut self, direction: Direction) -> Result<bool> {
        let asked = match direction {
            Direction::Forward => self.lower.clone(),
            Direction::Backward => self.upper.clone(),
        };
        let (start, from) = match self.gaps.step(&asked, direction, self.sequence) {
            Step::None => (asked.clone(), asked),
            Step::Over { start, from } => (start, from),
            Step::End => return Ok(false),
        };
        let mut side = self.open(direction, &start);
        let found = side.advance()?;
        // From where it began to what it found, or as far as it looked, nothing is visible.
        if side.passed >= PASSED_MIN {
            let end = if found {
                Bound::Excluded(side.key())
            } else {
                side.until.clone()
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

    /// Stands at the next entry of a direction; `false` at the end. Not called again after the end
    /// or an error, unless that is about the operands of the entry.
    pub(crate) fn advance(&mut self, direction: Direction) -> Result<bool> {
        let found = self.walk(direction)?;
        if found
            && self
                .side(direction)
                .is_some_and(|side| side.failed.is_some())
        {
            return self.fail(direction);
        }
        Ok(found)
    }

    /// The entry at which a direction stands has operands that could not be combined.
    #[cold]
    fn fail(&mut self, direction: Direction) -> Result<bool> {
        let side = match direction {
            Direction::Forward => &mut self.front,
            Direction::Backward => &mut self.back,
        };
        match side.as_mut().and_then(|side| side.failed.take()) {
            Some(error) => Err(error),
            None => Ok(true),
        }
    }

    #[inline(always)]
    fn walk(&mut self, direction: Direction) -> Result<bool> {
        let side = match direction {
            Direction::Forward => &mut self.front,
            Direction::Backward => &mut self.back,
        };
        let found = match side {
            None => self.first(direction)?,
            Some(side) => side.advance()?,
        };
        let Some(side) = self.side(direction).filter(|_| found) else {
            return Ok(false);
        };
        // Whether the other side has not been here yet.
        match direction {
            Direction::Forward if self.back.is_none() => Ok(true),
            Direction::Forward => Ok(is_below(&self.upper, side.entry().key)),
            Direction::Backward if !is_above(&self.lower_now(), side.entry().key) => Ok(false),
            Direction::Backward => {
                self.upper = Bound::Excluded(side.key());
                Ok(true)
            }
        }
    }

    fn side(&self, direction: Direction) -> Option<&Visible> {
        match direction {
            Direction::Forward => self.front.as_ref(),
            Direction::Backward => self.back.as_ref(),
        }
    }

    /// The entry at which a direction stands, after it has advanced.
    pub(crate) fn entry(&self, direction: Direction) -> Option<(&[u8], &[u8])> {
        let entry = self.side(direction)?.entry();
        Some((entry.key, entry.value))
    }

    /// The same, to be kept.
    pub(crate) fn owned_entry(&self, direction: Direction) -> Option<(Slice, Slice)> {
        self.side(direction).map(|side| (side.key(), side.value()))
    }
}

/// A view, and a sequence up to which it holds every write.
fn consistent_view(tree: &Tree, visible: impl Fn() -> Sequence) -> (Arc<View>, Sequence) {
    let mut view = tree.view_to_keep();
    loop {
        let now = visible();
        let again = tree.view_to_keep();
        // In a view that was replaced meanwhile, the newest writes may be missing.
        if Arc::ptr_eq(&view, &again) {
            return (view, now);
        }
        view = again;
    }
}

/// Of every key the newest entry that the reader sees, unless it is a tombstone. Operands are combined
/// with what they stand on.
#[derive(Debug)]
struct Visible {
    merge: LazyMerge,
    direction: Direction,
    sequence: Sequence,
    operator: Operator,
    /// Why the operands of the entry that is shown could not be combined.
    failed: Option<Error>,
    /// Backwards, and forwards behind operands: the merge stands at the first entry of the next
    /// key, ...
    is_ahead: bool,
    /// ... and this is the entry that is shown.
    newest: Option<Item>,
    /// Forwards: the key that has been decided; its older entries are passed over.
    done_key: LastKey,
    /// Nothing beyond this bound is wanted, however much of it would have to be passed over.
    until: Bound<Slice>,
    /// Entries taken so far that were not returned.
    passed: u64,
}

impl Visible {
    /// Stands at the next entry; `false` at the end.
    fn advance(&mut self) -> Result<bool> {
        match self.direction {
            Direction::Forward => self.advance_forward(),
            Direction::Backward => self.advance_backward(),
        }
    }

    /// Newest first: the first entry of a key that is seen decides.
    fn advance_forward(&mut self) -> Result<bool> {
        while self.step_forward()? {
            let entry = self.merge.merge.entry();
            if !is_below(&self.until, entry.key) {
                return Ok(false);
            }
            self.passed += 1;
            if entry.sequence > self.sequence || self.done_key.get() == Some(entry.key) {
                continue;
            }
            self.done_key.set(entry.key);
            match entry.kind {
                Kind::Value => return Ok(true),
                Kind::Tombstone => {}
                Kind::Operand => {
                    self.combine_forward()?;
                    return Ok(true);
                }
            }
        }
        Ok(false)
    }

    fn step_forward(&mut self) -> Result<bool> {
        if self.newest.is_some() {
            self.newest = None;
            if std::mem::take(&mut self.is_ahead) {
                return Ok(true);
            }
        }
        self.merge.advance()
    }

    /// Shows what the operand at which the merge stands, and those behind it, come to.
    #[cold]
    fn combine_forward(&mut self) -> Result<()> {
        let newest = self.merge.merge.item();
        let mut gathered = Gathered::newest_first(newest.value.clone());
        // Without an operator there is no reason to look at the others.
        while self.operator.is_set() && self.merge.advance()? {
            let entry = self.merge.merge.entry();
            if *entry.key != *newest.key {
                self.is_ahead = true;
                break;
            }
            self.passed += 1;
            match entry.kind {
                Kind::Operand => {
                    gathered.push(&self.operator, &newest.key, self.merge.merge.value());
                    continue;
                }
                Kind::Value => gathered.set_base(self.merge.merge.value()),
                Kind::Tombstone => {}
            }
            break;
        }
        self.show_combined(newest, gathered);
        Ok(())
    }

    fn show_combined(&mut self, newest: Item, gathered: Gathered) {
        let (value, failed) = match gathered.finish(&self.operator, &newest.key) {
            Ok(value) => (value, None),
            Err(error) => (Slice::default(), Some(error)),
        };
        self.failed = failed;
        self.newest = Some(Item {
            kind: Kind::Value,
            value,
            ..newest
        });
    }

    fn advance_backward(&mut self) -> Result<bool> {
        loop {
            let (newest, gathered) = self.newest_backward()?;
            match (newest, gathered) {
                (None, _) => {
                    self.newest = None;
                    return Ok(false);
                }
                (Some(newest), Some(gathered)) => {
                    self.show_combined(newest, gathered);
                    return Ok(true);
                }
                (Some(newest), None) if newest.kind == Kind::Value => {
                    self.newest = Some(newest);
                    return Ok(true);
                }
                (Some(_tombstone), None) => {}
            }
        }
    }

    /// The entry at which it stands.
    fn entry(&self) -> Entry<'_> {
        match &self.newest {
            Some(item) => item.entry(),
            None => self.merge.merge.entry(),
        }
    }

    fn key(&self) -> Slice {
        match &self.newest {
            Some(item) => item.key.clone(),
            None => self.merge.merge.key(),
        }
    }

    fn value(&self) -> Slice {
        match &self.newest {
            Some(item) => item.value.clone(),
            None => self.merge.merge.value(),
        }
    }

    /// Oldest first: the last entry of a key that is seen decides. If that is an operand, it comes
    /// with all since the last entry of another kind.
    fn newest_backward(&mut self) -> Result<(Option<Item>, Option<Gathered>)> {
        let (mut newest, mut gathered): (Option<Item>, Option<Gathered>) = (None, None);
        loop {
            if !std::mem::take(&mut self.is_ahead) {
                self.passed += 1;
                if !self.merge.advance()? {
                    return Ok((newest, gathered));
                }
            }
            let entry = self.merge.merge.entry();
            if !is_above(&self.until, entry.key) {
                return Ok((newest, gathered));
            }
            if newest
                .as_ref()
                .is_some_and(|newest| newest.key != entry.key)
            {
                self.is_ahead = true;
                return Ok((newest, gathered));
            }
            if entry.sequence <= self.sequence {
                let item = self.merge.merge.item();
                if item.kind == Kind::Operand {
                    let gathered = gathered.get_or_insert_with(|| {
                        let base = newest.take().filter(|base| base.kind == Kind::Value);
                        Gathered::oldest_first(base.map(|base| base.value))
                    });
                    gathered.push(&self.operator, &item.key, item.value.clone());
                } else {
                    gathered = None;
                }
                newest = Some(item);
            }
        }
    }
}
