//! The sources of a scan as one. A run with range filters is opened when a key of it may be next.
//!
//! Before that, the run is *dormant*: it is known to hold nothing from where the scan began to the
//! entry at which the merge stands. When the merge moves on, the range filters of the run are asked
//! for the keys in between. If they refute all up to the end of the scan, the run is never read.

use std::ops::Bound;
use std::sync::Arc;

use crate::bounds::{is_above, is_below};
use crate::cursor::{Cursor, Direction};
use crate::error::Result;
use crate::merge::Merge;
use crate::segment::{Caches, LookupCost, RangeAnswer};
use crate::sharded_counter::ShardedCounter;
use crate::slice::Slice;
use crate::version::Run;

/// Questions about one dormant run after which it is opened: a scan that goes on for so long is
/// likely to meet it, and each question takes some of the time of a read from memory.
const QUESTIONS_MAX: u32 = 16;

/// See the module.
#[derive(Debug)]
pub(super) struct LazyMerge {
    pub(super) merge: Merge,
    dormant: Vec<Dormant>,
    direction: Direction,
    /// The scan wants nothing beyond.
    until: Bound<Slice>,
    caches: Arc<Caches>,
    counters: Arc<ScanCounters>,
}

#[derive(Debug)]
struct Dormant {
    run: Run,
    /// The run holds nothing that the scan wants before this bound.
    from: Bound<Slice>,
    questions: u32,
}

/// Ranges for which scans asked the filters of runs.
///
/// ```
/// # fn main() -> criba::Result<()> {
/// use criba::{Db, RangeFilterPolicy};
/// # let dir = tempfile::tempdir().unwrap();
/// let path = dir.path().join("data");
/// let policy = RangeFilterPolicy::Bits { bits_per_key: 12.0 };
/// let db = Db::builder(&path).range_filter(policy).open()?;
/// for number in 0..10_000 {
///     db.put(format!("{:06}", number * 37), "row")?;
/// }
/// db.flush()?;
/// // A range between two keys: nothing is there, and nothing is read.
/// let before = db.stats().reads;
/// assert_eq!(db.range("123450".."123454").count(), 0);
/// assert_eq!(db.stats().reads.since(&before).total().calls, 0);
/// let scans = db.stats().scans;
/// assert_eq!((scans.asked, scans.refuted, scans.in_vain), (1, 1, 0));
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct ScanStats {
    /// Questions: one for each run and range.
    pub asked: u64,
    /// Of these, answered with a no: the run was not read.
    pub refuted: u64,
    /// Of these, the run was opened, and held nothing in the range.
    pub in_vain: u64,
}

#[derive(Debug, Default)]
pub(crate) struct ScanCounters {
    counters: ShardedCounter<3>,
}

const ASKED: usize = 0;
const REFUTED: usize = 1;
const IN_VAIN: usize = 2;

impl ScanCounters {
    pub(crate) fn load(&self) -> ScanStats {
        let [asked, refuted, in_vain] = self.counters.sums();
        ScanStats {
            asked,
            refuted,
            in_vain,
        }
    }
}

impl LazyMerge {
    /// All runs are walked from `from` to `until`. Those that cannot be asked are among the cursors.
    pub(super) fn new(
        merge: Merge,
        (direction, from, until): (Direction, &Bound<Slice>, Bound<Slice>),
        runs: Vec<Run>,
        (caches, counters): (&Arc<Caches>, &Arc<ScanCounters>),
    ) -> LazyMerge {
        let dormant = |run| Dormant {
            run,
            from: from.clone(),
            questions: 0,
        };
        LazyMerge {
            merge,
            dormant: runs.into_iter().map(dormant).collect(),
            direction,
            until,
            caches: Arc::clone(caches),
            counters: Arc::clone(counters),
        }
    }

    /// Moves to the next entry; `false` at the end.
    #[inline]
    pub(super) fn advance(&mut self) -> Result<bool> {
        let found = self.merge.advance()?;
        if self.dormant.is_empty() {
            return Ok(found);
        }
        self.wake(found)
    }

    /// Opens the runs that may hold an entry before that at which the merge stands. The oldest run is
    /// asked first: it is the largest, so its next entry is likely to be near, and the others are
    /// asked for a short range.
    #[inline(never)]
    fn wake(&mut self, mut found: bool) -> Result<bool> {
        for at in (0..self.dormant.len()).rev() {
            let key = found.then(|| self.merge.key());
            let key = key.filter(|key| match self.direction {
                Direction::Forward => is_below(&self.until, key),
                Direction::Backward => is_above(&self.until, key),
            });
            let limit = key.map_or(self.until.clone(), Bound::Included);
            let is_whole = limit == self.until;
            let dormant = &mut self.dormant[at];
            if dormant.may_hold(&limit, self.direction, (&self.caches, &self.counters)) {
                let from = dormant.from.clone();
                let cursor = dormant.run.walk(&self.caches, self.direction, from);
                self.dormant.remove(at);
                self.open(Box::new(cursor), &limit)?;
                found = !self.merge.is_at_end();
            } else if is_whole {
                self.dormant.remove(at);
            } else if let Bound::Included(key) = limit {
                dormant.from = Bound::Excluded(key);
            }
        }
        Ok(found)
    }

    fn open(&mut self, mut cursor: Box<dyn Cursor>, limit: &Bound<Slice>) -> Result<()> {
        let is_there = cursor.advance()?;
        let is_within = is_there
            && match self.direction {
                Direction::Forward => is_below(limit, cursor.entry().key),
                Direction::Backward => is_above(limit, cursor.entry().key),
            };
        if !is_within {
            self.counters.counters.mine().add(IN_VAIN, 1);
        }
        if is_there {
            self.merge.push(cursor);
        }
        Ok(())
    }
}

impl Dormant {
    /// Whether the run may hold a key up to the limit.
    fn may_hold(
        &mut self,
        limit: &Bound<Slice>,
        direction: Direction,
        (caches, counters): (&Caches, &ScanCounters),
    ) -> bool {
        self.questions += 1;
        if self.questions > QUESTIONS_MAX {
            return true;
        }
        let (from, limit) = (
            self.from.as_ref().map(|key| &**key),
            limit.as_ref().map(|key| &**key),
        );
        let range = match direction {
            Direction::Forward => (from, limit),
            Direction::Backward => (limit, from),
        };
        let answer = self.run.may_hold(range, caches, &mut LookupCost::default());
        let counters = counters.counters.mine();
        counters.add(ASKED, 1);
        if answer == RangeAnswer::No {
            counters.add(REFUTED, 1);
        }
        answer != RangeAnswer::No
    }
}
