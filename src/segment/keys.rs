//! What is known of the keys of a segment without reading them: how many, which sets of sketches,
//! and how they lie.

use std::ops::Bound;

use crate::format::segment::Sketches;
use crate::slice::Slice;

use super::reader::Segment;

/// The keys of a segment: how many, and sketches of them.
#[derive(Clone, Copy, Debug)]
pub(crate) struct KeySets<'a> {
    pub(crate) keys: u64,
    /// Keys whose newest entry here is a tombstone.
    pub(crate) deleted: u64,
    pub(crate) sketches: &'a Sketches,
}

impl Segment {
    /// The keys, as far as they are known; `None` when the segment is damaged.
    pub(crate) fn key_sets(&self) -> Option<KeySets<'_>> {
        let properties = &self.body().ok()?.properties;
        Some(KeySets {
            keys: properties.keys,
            deleted: properties.deleted_keys.min(properties.keys),
            sketches: &properties.sketches,
        })
    }

    /// The segment in at most so many pieces of whole blocks, in key order: the least key of each,
    /// and the bytes of its blocks. One piece when the segment is damaged.
    pub(crate) fn pieces(&self, most: u32) -> Vec<(Vec<u8>, u64)> {
        let Ok(body) = self.body() else {
            return vec![(self.meta.first_key.clone(), self.meta.len)];
        };
        let fences = &body.fences;
        let blocks = fences.block_count();
        let stride = blocks.div_ceil(most.max(1)).max(1);
        let offset = |block: u32| {
            if block < blocks {
                fences.extent(block).0
            } else {
                body.footer.data_end
            }
        };
        let starts = (0..blocks).step_by(stride as usize);
        let piece = |block: u32| {
            let bytes = offset(block.saturating_add(stride)) - offset(block);
            (fences.least_key(block, &self.meta.first_key), bytes)
        };
        starts.map(piece).collect()
    }

    /// About which part of the segment lies within these bounds, 0.0 to 1.0: by whole blocks,
    /// and within a block as if its keys were spread evenly.
    pub(crate) fn share_of(&self, (lower, upper): &(Bound<Slice>, Bound<Slice>)) -> f64 {
        let Ok(body) = self.body() else { return 0.0 };
        let range = (&*self.meta.first_key, &*self.meta.last_key);
        let blocks = f64::from(body.fences.block_count());
        let position = |key: &[u8]| match key {
            key if key <= range.0 => 0.0,
            key if key > range.1 => blocks,
            key => body.fences.position(key, range),
        };
        let from = match lower {
            Bound::Unbounded => 0.0,
            Bound::Included(key) | Bound::Excluded(key) => position(key),
        };
        let to = match upper {
            Bound::Unbounded => blocks,
            Bound::Included(key) | Bound::Excluded(key) => position(key),
        };
        ((to - from) / blocks).clamp(0.0, 1.0)
    }
}
