//! Whether a key can lie within a range, before a block is read.
//!
//! The fences name the blocks that the range touches. If there are three, the one in the middle lies
//! within the range; of two or one, the range filter is asked.

use std::ops::Bound;
use std::sync::atomic::Ordering;

use crate::bounds::{is_above, is_below};
use criba_filters::range::Between;

use super::body::Body;
use super::caches::Caches;
use super::outcome::LookupCost;
use super::range_filter::{RangeState, SegmentRangeFilter};
use super::reader::Segment;

/// What a segment, or a run, says of a range.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum RangeAnswer {
    /// No key lies in it: certain.
    No,
    /// A key may lie in it.
    Maybe,
    /// A whole block lies in it.
    Yes,
}

impl Body {
    /// The two keys between which all keys of a block lie; the prefix of the first is put back.
    fn fences_of(&self, block: u32) -> (Vec<u8>, Vec<u8>) {
        let properties = &self.properties;
        let lower = self.fences.least_key(block, &properties.first_key);
        let next = block + 1;
        let upper = if next < self.fences.block_count() {
            self.fences.least_key(next, &properties.first_key)
        } else {
            properties.last_key.clone()
        };
        (lower, upper)
    }

    fn block_may_hold(
        &self,
        filter: &SegmentRangeFilter,
        block: u32,
        range: (Option<&[u8]>, Option<&[u8]>),
        reading: (&Caches, &mut LookupCost),
    ) -> bool {
        let (lower, upper) = self.fences_of(block);
        let fences = Between {
            lower: &lower,
            upper: &upper,
        };
        filter.may_hold(block, fences, range, reading)
    }
}

impl Segment {
    /// Whether a key lies between two bounds. Every version of a key counts, also tombstones. The filter
    /// is asked with both bounds included: a cell reaches beyond its key on both sides.
    pub(crate) fn may_hold(
        &self,
        (lower, upper): (Bound<&[u8]>, Bound<&[u8]>),
        caches: &Caches,
        cost: &mut LookupCost,
    ) -> RangeAnswer {
        let (first, last) = self.ends();
        if !is_above(&lower, last) || !is_below(&upper, first) {
            return RangeAnswer::No;
        }
        // What is wrong with the segment is an error of the scan, which has to look at it.
        let Ok(body) = self.body() else {
            return RangeAnswer::Maybe;
        };
        // Bounds outside of the segment leave their side open.
        let lower = key_of(lower).filter(|key| *key >= first);
        let upper = key_of(upper).filter(|key| *key <= last);
        if lower.is_none() && upper.is_none() {
            return RangeAnswer::Yes;
        }
        let RangeState::Ready(filter) = &body.range else {
            return RangeAnswer::Maybe;
        };
        let from = lower.map_or(0, |key| body.fences.first_block_of(key));
        let to = match upper {
            Some(key) => body.fences.last_block_of(key),
            None => body.fences.block_count() - 1,
        };
        let may_hold = match to.saturating_sub(from) {
            0 => body.block_may_hold(filter, from, (lower, upper), (caches, cost)),
            1 => {
                body.block_may_hold(filter, from, (lower, None), (caches, &mut *cost))
                    || body.block_may_hold(filter, to, (None, upper), (caches, cost))
            }
            _ => return RangeAnswer::Yes,
        };
        filter.counts.asked.fetch_add(1, Ordering::Relaxed);
        if may_hold {
            return RangeAnswer::Maybe;
        }
        filter.counts.refuted.fetch_add(1, Ordering::Relaxed);
        RangeAnswer::No
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
