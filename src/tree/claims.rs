//! Which segments unfinished compactions work on.

use std::collections::BTreeSet;

use crate::manifest::SegmentMeta;
use crate::segment::Segment;

/// First and last key.
pub(crate) type KeyRange = (Vec<u8>, Vec<u8>);

/// What unfinished compactions have taken for themselves.
#[derive(Debug, Default)]
pub(crate) struct Claims {
    /// Segments that are inputs.
    inputs: BTreeSet<u64>,
    /// Key ranges of compactions that were requested. Their inputs may leave gaps, their output has
    /// none: what overlaps them stays where it is meanwhile.
    reserved: Vec<KeyRange>,
}

impl Claims {
    pub(crate) fn is_empty(&self) -> bool {
        self.inputs.is_empty()
    }

    pub(crate) fn add(&mut self, inputs: &[u64], reserved: Option<&KeyRange>) {
        self.inputs.extend(inputs);
        self.reserved.extend(reserved.cloned());
    }

    pub(crate) fn remove(&mut self, inputs: &[u64], reserved: Option<&KeyRange>) {
        for id in inputs {
            self.inputs.remove(id);
        }
        self.reserved.retain(|range| Some(range) != reserved);
    }

    /// Takes one segment; `false` if another has it.
    pub(crate) fn take(&mut self, id: u64) -> bool {
        self.inputs.insert(id)
    }

    /// Whether another compaction stands in the way of one with these inputs and this range.
    pub(crate) fn block(&self, inputs: &[u64], range: Option<&KeyRange>) -> bool {
        let overlaps = |(first, last): &KeyRange| {
            let mut reserved = self.reserved.iter();
            reserved.any(|(lower, upper)| first <= upper && lower <= last)
        };
        inputs.iter().any(|id| self.inputs.contains(id)) || range.is_some_and(overlaps)
    }

    /// Whether an unfinished compaction has a segment as input, or covers it.
    pub(crate) fn is_busy(&self, segment: &Segment) -> bool {
        let SegmentMeta {
            id,
            first_key,
            last_key,
            ..
        } = &segment.meta;
        let mut reserved = self.reserved.iter();
        self.inputs.contains(id)
            || reserved.any(|(first, last)| first_key <= last && first <= last_key)
    }
}
