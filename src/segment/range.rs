//! Whether a key can lie within a range, before a block is read.
//!
//! The fences name the blocks that the range touches. If there are three, the one in the middle lies
//! within the range; of two or one, the range filter is asked.

use std::ops::Bound;

use crate::bounds::{is_above, is_below};
use criba_filters::range::Between;

use super::body::Body;
use super::caches::Caches;
use super::outcome::LookupCost;
use super::range_filter::{RangeState, SegmentRangeFilter};
use super::reader::Segment;

/// The two keys between which all keys of a block lie.
struct BlockFences {
    lower: Vec<u8>,
    upper: Vec<u8>,
}

impl BlockFences {
    fn between(&self) -> Between<'_> {
        Between {
            lower: &self.lower,
            upper: &self.upper,
        }
    }
}

impl Body {
    /// The two keys between which all keys of a block lie; the prefix of the first is put back.
    fn fences_of(&self, block: u32) -> BlockFences {
        let properties = &self.properties;
        let lower = self.fences.least_key(block, &properties.first_key);
        let next = block + 1;
        let upper = if next < self.fences.block_count() {
            self.fences.least_key(next, &properties.first_key)
        } else {
            properties.last_key.clone()
        };
        BlockFences { lower, upper }
    }

    fn block_may_hold(
        &self,
        filter: &SegmentRangeFilter,
        block: u32,
        range: (Option<&[u8]>, Option<&[u8]>),
        reading: (&Caches, &mut LookupCost),
    ) -> bool {
        filter.may_hold(block, self.fences_of(block).between(), range, reading)
    }
}

impl Segment {
    /// Whether a key may lie between two bounds; `false` is certain. Every version of a key counts, also tombstones. The filter
    /// is asked with both bounds included: a cell reaches beyond its key on both sides.
    pub(crate) fn may_hold(
        &self,
        (lower, upper): (Bound<&[u8]>, Bound<&[u8]>),
        caches: &Caches,
        cost: &mut LookupCost,
    ) -> bool {
        let (first, last) = self.ends();
        if !is_above(&lower, last) || !is_below(&upper, first) {
            return false;
        }
        // What is wrong with the segment is an error of the scan, which has to look at it.
        let Ok(body) = self.body() else {
            return true;
        };
        // Bounds outside of the segment leave their side open.
        let lower = key_of(lower).filter(|key| *key >= first);
        let upper = key_of(upper).filter(|key| *key <= last);
        if lower.is_none() && upper.is_none() {
            return true;
        }
        let RangeState::Ready(filter) = &body.range else {
            return true;
        };
        let from = lower.map_or(0, |key| body.fences.first_block_of(key));
        let to = match upper {
            Some(key) => body.fences.last_block_of(key),
            None => body.fences.block_count() - 1,
        };
        match to.saturating_sub(from) {
            0 => body.block_may_hold(filter, from, (lower, upper), (caches, cost)),
            1 => {
                body.block_may_hold(filter, from, (lower, None), (caches, &mut *cost))
                    || body.block_may_hold(filter, to, (None, upper), (caches, cost))
            }
            // The block in the middle lies within the range.
            _ => true,
        }
    }

    /// A key before which the segment has none from `from` on; `None` if it has none at all.
    pub(crate) fn next_from(
        &self,
        from: &[u8],
        caches: &Caches,
        cost: &mut LookupCost,
    ) -> Option<Vec<u8>> {
        let (first, last) = self.ends();
        if from <= first {
            return Some(first.to_vec());
        }
        if from > last {
            return None;
        }
        // A scan has to look at a segment that is damaged, or has no filter.
        let Ok(body) = self.body() else {
            return Some(from.to_vec());
        };
        let RangeState::Ready(filter) = &body.range else {
            return Some(from.to_vec());
        };
        let block = body.fences.first_block_of(from);
        let fences = body.fences_of(block);
        match filter.next_from(block, fences.between(), from, (caches, cost)) {
            // The next block begins at its fence, or behind it.
            None if block + 1 < body.fences.block_count() => Some(fences.upper),
            next => next,
        }
    }

    /// A key that is greater than all of the segment up to `to`; `None` if it has none up to there.
    pub(crate) fn previous_to(
        &self,
        to: &[u8],
        caches: &Caches,
        cost: &mut LookupCost,
    ) -> Option<Vec<u8>> {
        let behind = |key: &[u8]| Some([key, &[0]].concat());
        let (first, last) = self.ends();
        if to >= last {
            return behind(last);
        }
        if to < first {
            return None;
        }
        let Ok(body) = self.body() else {
            return behind(to);
        };
        let RangeState::Ready(filter) = &body.range else {
            return behind(to);
        };
        let block = body.fences.last_block_of(to);
        let fences = body.fences_of(block);
        match filter.previous_to(block, fences.between(), to, (caches, cost)) {
            // Keys of the block before are at most the fence: equal where a key goes on in this block.
            None if block > 0 => behind(&fences.lower),
            previous => previous,
        }
    }

    /// Whether there is a range filter to ask.
    pub(crate) fn has_range_filter(&self) -> bool {
        let body = self.body().ok();
        body.is_some_and(|body| matches!(body.range, RangeState::Ready(_)))
    }
}

fn key_of(bound: Bound<&[u8]>) -> Option<&[u8]> {
    match bound {
        Bound::Included(key) | Bound::Excluded(key) => Some(key),
        Bound::Unbounded => None,
    }
}
