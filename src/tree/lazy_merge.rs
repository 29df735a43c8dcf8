//! The sources of a scan as one. A run with range filters is opened when a key of it may be next.
//!
//! Before that, the run is *dormant*. Its range filters tell, without a read, up to which key it holds
//! nothing from where the scan begins. The run is opened when the scan comes to that key. If the scan
//! ends before, the run is never read.

use std::ops::Bound;
use std::sync::Arc;

use crate::bounds::{is_above, is_below};
use crate::cursor::{Cursor, Direction};
use crate::error::Result;
use crate::merge::Merge;
use crate::segment::{Caches, LookupCost};
use crate::sharded_counter::ShardedCounter;
use crate::slice::Slice;
use crate::version::Run;

/// See the module.
#[derive(Debug)]
pub(super) struct LazyMerge {
    pub(super) merge: Merge,
    /// Those whose next key may be nearest stand last.
    dormant: Vec<Dormant>,
    direction: Direction,
    from: Bound<Slice>,
    /// The scan wants nothing beyond.
    until: Bound<Slice>,
    caches: Arc<Caches>,
    counters: Arc<ScanCounters>,
    /// Whether the runs were asked.
    is_begun: bool,
}

#[derive(Debug)]
struct Dormant {
    run: Run,
    /// Forwards: no key of the run lies from where the scan begins to before this one. Backwards: no
    /// key lies from this one to there.
    near: Vec<u8>,
}

/// What scans asked of range filters, run by run.
///
/// ```
/// # fn main() -> criba::Result<()> {
/// use criba::storage::ReadCause;
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
/// assert_eq!(db.stats().reads.since(&before).get(ReadCause::Data).calls, 0);
/// let scans = db.stats().scans;
/// assert_eq!((scans.asked, scans.refuted, scans.in_vain), (1, 1, 0));
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct ScanStats {
    /// Runs that were asked, once by each scan.
    pub asked: u64,
    /// Of these, runs that were not read, or not yet by scans under way.
    pub refuted: u64,
    /// Of these, runs that were read, and held nothing up to where the scan had to look.
    pub in_vain: u64,
}

#[derive(Debug, Default)]
pub(crate) struct ScanCounters {
    counters: ShardedCounter<3>,
}

const ASKED: usize = 0;
const OPENED: usize = 1;
const IN_VAIN: usize = 2;

impl ScanCounters {
    pub(crate) fn load(&self) -> ScanStats {
        let [asked, opened, in_vain] = self.counters.sums();
        ScanStats {
            asked,
            refuted: asked.saturating_sub(opened),
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
            near: Vec::new(),
        };
        LazyMerge {
            merge,
            dormant: runs.into_iter().map(dormant).collect(),
            direction,
            from: from.clone(),
            until,
            caches: Arc::clone(caches),
            counters: Arc::clone(counters),
            is_begun: false,
        }
    }

    /// Moves to the next entry; `false` at the end.
    #[inline]
    pub(super) fn advance(&mut self) -> Result<bool> {
        let found = self.merge.advance()?;
        if self.dormant.is_empty() {
            return Ok(found);
        }
        self.wake()
    }

    /// Opens the runs that may hold an entry before that at which the merge stands.
    #[inline(never)]
    fn wake(&mut self) -> Result<bool> {
        if !self.is_begun {
            self.ask();
            self.is_begun = true;
        }
        while let Some(nearest) = self.dormant.last() {
            let key = match self.merge.is_at_end() {
                true => None,
                false => Some(self.merge.entry().key),
            };
            let is_next = key.is_none_or(|key| match self.direction {
                Direction::Forward => *nearest.near <= *key,
                Direction::Backward => *nearest.near > *key,
            });
            if !is_next {
                break;
            }
            let limit = key.map(<[u8]>::to_vec);
            self.open_nearest(limit.as_deref())?;
        }
        Ok(!self.merge.is_at_end())
    }

    /// Asks all runs where they may begin, and drops those that begin behind the scan.
    fn ask(&mut self) {
        let (direction, from, caches) = (self.direction, &self.from, &self.caches);
        let until = &self.until;
        let counters = self.counters.counters.mine();
        self.dormant.retain_mut(|dormant| {
            counters.add(ASKED, 1);
            let cost = &mut LookupCost::default();
            let from = from.as_ref().map(|key| &**key);
            let near = match direction {
                Direction::Forward => dormant.run.next_from(from, caches, cost),
                Direction::Backward => dormant.run.previous_to(from, caches, cost),
            };
            let Some(near) = near else { return false };
            let is_wanted = match (direction, until) {
                (Direction::Forward, until) => is_below(until, &near),
                (_, Bound::Unbounded) => true,
                (_, Bound::Included(until) | Bound::Excluded(until)) => *near > **until,
            };
            dormant.near = near;
            is_wanted
        });
        self.dormant.sort_by(|one, other| match direction {
            Direction::Forward => other.near.cmp(&one.near),
            Direction::Backward => one.near.cmp(&other.near),
        });
    }

    /// Opens the last of the dormant runs. `limit` is the key at which the merge stands.
    fn open_nearest(&mut self, limit: Option<&[u8]>) -> Result<()> {
        let Some(Dormant { run, .. }) = self.dormant.pop() else {
            return Ok(());
        };
        let mut cursor = run.walk(&self.caches, self.direction, self.from.clone());
        let is_there = cursor.advance()?;
        let key = cursor.entry().key;
        let is_within = is_there
            && match (self.direction, limit) {
                (Direction::Forward, Some(limit)) => key <= limit,
                (Direction::Backward, Some(limit)) => key >= limit,
                (Direction::Forward, None) => is_below(&self.until, key),
                (Direction::Backward, None) => is_above(&self.until, key),
            };
        let counters = self.counters.counters.mine();
        counters.add(OPENED, 1);
        if !is_within {
            counters.add(IN_VAIN, 1);
        }
        if is_there {
            self.merge.push(Box::new(cursor));
        }
        Ok(())
    }
}
