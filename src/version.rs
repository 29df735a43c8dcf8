//! The set of live segments: an immutable value.
//!
//! Invariants:
//! 1. Runs are ordered newest first: by level ascending, then by run number descending. An entry
//!    of a key in an earlier run is newer than one in a later run.
//! 2. The segments of a run are in key order and do not overlap.

mod bounds;

use std::ops::Bound;
use std::sync::{Arc, OnceLock};

use crate::bounds::{Bounds as KeyBounds, is_below};
use crate::cursor::{Cursor, Direction, NO_ENTRY};
use crate::error::Result;
use crate::format::block::Entry;
use crate::segment::{Caches, LookupCost, Reading, Segment, SegmentWalk};
use crate::slice::Slice;
use criba_filters::store::Set;

use bounds::Bounds;

/// What the store holds in segments at one moment.
#[derive(Clone, Debug, Default)]
pub(crate) struct Version {
    runs: Vec<Run>,
    counted: OnceLock<Counted>,
}

/// How many keys there are in a version, by estimate: costs some time and is the same for as long
/// as the version is live, so it is kept with it.
#[derive(Clone, Debug, Default)]
pub(crate) struct Counted {
    /// In key order.
    pub(crate) groups: Vec<CountedGroup>,
    /// For each run, keys with values in it that no newer run hides.
    pub(crate) live_by_run: Vec<f64>,
}

/// Segments whose key ranges are connected.
#[derive(Clone, Debug)]
pub(crate) struct CountedGroup {
    /// With the ordinals of their runs.
    pub(crate) segments: Vec<(usize, Arc<Segment>)>,
    pub(crate) first_key: Slice,
    pub(crate) last_key: Slice,
    /// Keys whose newest entry is a value.
    pub(crate) live: f64,
    /// All keys as one set, where that is worth having: segments of several runs, none of them
    /// with deleted keys.
    pub(crate) whole: Option<Set>,
}

/// Segments that together are one sorted sequence.
#[derive(Clone, Debug)]
pub(crate) struct Run {
    pub(crate) level: u32,
    /// A higher number is newer.
    pub(crate) number: u64,
    pub(crate) segments: Arc<[Arc<Segment>]>,
    bounds: Arc<Bounds>,
    /// Whether a segment has a range filter that can be asked.
    pub(crate) has_range_filters: bool,
}

impl Version {
    pub(crate) fn new(mut segments: Vec<Arc<Segment>>) -> Version {
        segments.sort_by(|left, right| {
            let place = |segment: &Segment| (segment.meta.level, u64::MAX - segment.meta.run);
            let order = place(left).cmp(&place(right));
            order.then_with(|| left.meta.first_key.cmp(&right.meta.first_key))
        });
        let runs = segments
            .chunk_by(|left, right| {
                (left.meta.level, left.meta.run) == (right.meta.level, right.meta.run)
            })
            .map(|run| Run::new(run[0].meta.level, run[0].meta.run, run.into()))
            .collect();
        Version {
            runs,
            counted: OnceLock::new(),
        }
    }

    /// This version with some segments more and some fewer.
    pub(crate) fn with(&self, added: Vec<Arc<Segment>>, removed: &[u64]) -> Version {
        let mut segments = added;
        segments.extend(
            self.segments()
                .filter(|segment| !removed.contains(&segment.meta.id))
                .cloned(),
        );
        let version = Version::new(segments);
        debug_assert_eq!(
            version.unsound(),
            None,
            "a version must keep its invariants"
        );
        version
    }

    /// Which invariant does not hold, if any; with it that flushed runs are in order.
    pub(crate) fn unsound(&self) -> Option<String> {
        let mut ids: Vec<u64> = self.segments().map(|one| one.meta.id).collect();
        ids.sort_unstable();
        if let Some(twice) = ids.windows(2).find(|pair| pair[0] == pair[1]) {
            return Some(format!("segment {} is there twice", twice[0]));
        }
        for run in &self.runs {
            let overlap = |pair: &&[Arc<Segment>]| pair[0].meta.last_key >= pair[1].meta.first_key;
            if let Some(pair) = run.segments.windows(2).find(overlap) {
                let (left, right) = (pair[0].meta.id, pair[1].meta.id);
                return Some(format!("{left} and {right} overlap in level {}", run.level));
            }
        }
        let flushed: Vec<&Run> = self.runs.iter().filter(|run| run.level == 0).collect();
        let disorder = |pair: &&[&Run]| {
            let oldest = pair[0].segments.iter().filter_map(|one| one.sequence_min());
            let newest = pair[1].segments.iter().map(|one| one.meta.sequence_max);
            oldest
                .min()
                .zip(newest.max())
                .is_some_and(|(upper, lower)| upper <= lower)
        };
        let pair = flushed.windows(2).find(disorder)?;
        Some(format!(
            "run {} is not newer than {}",
            pair[0].number, pair[1].number
        ))
    }

    /// Newest first.
    pub(crate) fn runs(&self) -> &[Run] {
        &self.runs
    }

    /// The estimate of this version, made at the first call.
    pub(crate) fn counted(&self, count: impl FnOnce() -> Counted) -> &Counted {
        self.counted.get_or_init(count)
    }

    pub(crate) fn segments(&self) -> impl Iterator<Item = &Arc<Segment>> {
        self.runs.iter().flat_map(|run| run.segments.iter())
    }
}

impl Run {
    fn new(level: u32, number: u64, segments: Arc<[Arc<Segment>]>) -> Run {
        Run {
            level,
            number,
            bounds: Arc::new(Bounds::of(segments.iter().map(|one| one.ends()))),
            has_range_filters: segments.iter().any(|one| one.has_range_filter()),
            segments,
        }
    }

    /// A part of this run.
    pub(crate) fn with_segments(&self, segments: Vec<Arc<Segment>>) -> Run {
        Run::new(self.level, self.number, segments.into())
    }

    /// The one segment that can hold the key.
    #[inline]
    pub(crate) fn find(&self, key: &[u8]) -> Option<&Arc<Segment>> {
        let at = self.bounds.find(key, |at| self.segments[at].ends())?;
        self.segments.get(at)
    }

    /// Whether a segment of the run has keys in the range, by its first and last key.
    pub(crate) fn overlaps(&self, range: &KeyBounds) -> bool {
        self.segments.iter().any(|segment| segment.overlaps(range))
    }

    /// Whether a key of the run lies between two bounds; see [`Segment::may_hold`].
    pub(crate) fn may_hold(
        &self,
        (lower, upper): (Bound<&[u8]>, Bound<&[u8]>),
        caches: &Caches,
        cost: &mut LookupCost,
    ) -> bool {
        let from = match lower {
            Bound::Unbounded => 0,
            Bound::Included(key) | Bound::Excluded(key) => {
                let before = |one: &Arc<Segment>| *one.meta.last_key < *key;
                self.segments.partition_point(before)
            }
        };
        let rest = self.segments[from..].iter();
        rest.take_while(|segment| is_below(&upper, &segment.meta.first_key))
            .any(|segment| segment.may_hold((lower, upper), caches, cost))
    }

    /// A key before which the run has none from `from` on; `None` if it has none at all. An excluded bound
    /// is taken for an included one.
    pub(crate) fn next_from(
        &self,
        from: Bound<&[u8]>,
        caches: &Caches,
        cost: &mut LookupCost,
    ) -> Option<Vec<u8>> {
        let (Bound::Included(from) | Bound::Excluded(from)) = from else {
            return Some(self.segments.first()?.meta.first_key.clone());
        };
        let before = |one: &Arc<Segment>| *one.meta.last_key < *from;
        let at = self.segments.partition_point(before);
        let segment = self.segments.get(at)?;
        let next = || Some(self.segments.get(at + 1)?.meta.first_key.clone());
        segment.next_from(from, caches, cost).or_else(next)
    }

    /// A key that is greater than all of the run up to `to`; `None` if it has none up to there. An
    /// excluded bound is taken for an included one.
    pub(crate) fn previous_to(
        &self,
        to: Bound<&[u8]>,
        caches: &Caches,
        cost: &mut LookupCost,
    ) -> Option<Vec<u8>> {
        let behind = |segment: &Arc<Segment>| [&*segment.meta.last_key, &[0]].concat();
        let (Bound::Included(to) | Bound::Excluded(to)) = to else {
            return self.segments.last().map(behind);
        };
        let until = |one: &Arc<Segment>| *one.meta.first_key <= *to;
        let at = self.segments.partition_point(until).checked_sub(1)?;
        let before = || self.segments.get(at.checked_sub(1)?).map(behind);
        self.segments[at]
            .previous_to(to, caches, cost)
            .or_else(before)
    }

    /// Walks the run from a bound on.
    pub(crate) fn walk(
        &self,
        caches: &Arc<Caches>,
        direction: Direction,
        from: Bound<Slice>,
    ) -> RunWalk {
        let range = match (&from, direction) {
            (Bound::Unbounded, _) => 0..self.segments.len(),
            (Bound::Included(key) | Bound::Excluded(key), Direction::Forward) => {
                let before = |segment: &Arc<Segment>| *segment.meta.last_key < **key;
                self.segments.partition_point(before)..self.segments.len()
            }
            (Bound::Included(key) | Bound::Excluded(key), Direction::Backward) => {
                let until = |segment: &Arc<Segment>| *segment.meta.first_key <= **key;
                0..self.segments.partition_point(until)
            }
        };
        RunWalk {
            segments: Arc::clone(&self.segments),
            rest: range,
            caches: Arc::clone(caches),
            direction,
            from,
            reading: Reading::Blocks,
            current: None,
            blocks: (0, 0),
        }
    }
}

/// A cursor over a run: its segments one after the other.
#[derive(Debug)]
pub(crate) struct RunWalk {
    segments: Arc<[Arc<Segment>]>,
    /// Ordinals of the segments not yet entered.
    rest: std::ops::Range<usize>,
    caches: Arc<Caches>,
    direction: Direction,
    from: Bound<Slice>,
    reading: Reading,
    current: Option<SegmentWalk>,
    /// Data blocks asked for in segments that were left, and read from storage.
    blocks: (u64, u64),
}

impl RunWalk {
    /// Data blocks asked for, and read from storage.
    pub(crate) fn blocks(&self) -> (u64, u64) {
        let here = self.current.as_ref().map_or((0, 0), SegmentWalk::blocks);
        (self.blocks.0 + here.0, self.blocks.1 + here.1)
    }

    /// The same walk, reading ahead.
    pub(crate) fn ahead(mut self) -> RunWalk {
        self.reading = Reading::Ahead;
        self
    }
}

impl Cursor for RunWalk {
    fn advance(&mut self) -> Result<bool> {
        loop {
            if let Some(walk) = &mut self.current
                && walk.advance()?
            {
                return Ok(true);
            }
            self.blocks = self.blocks();
            let ordinal = match self.direction {
                Direction::Forward => self.rest.next(),
                Direction::Backward => self.rest.next_back(),
            };
            let Some(ordinal) = ordinal else {
                self.current = None;
                return Ok(false);
            };
            self.current = Some(SegmentWalk::new(
                Arc::clone(&self.segments[ordinal]),
                Arc::clone(&self.caches),
                self.direction,
                self.from.clone(),
                self.reading,
            ));
        }
    }

    fn entry(&self) -> Entry<'_> {
        self.current.as_ref().map_or(NO_ENTRY, SegmentWalk::entry)
    }

    fn key(&self) -> Slice {
        let current = self.current.as_ref();
        current.map_or_else(Slice::default, SegmentWalk::key)
    }

    fn value(&self) -> Slice {
        let current = self.current.as_ref();
        current.map_or_else(Slice::default, SegmentWalk::value)
    }
}
