//! Which segments unfinished compactions work on.

use std::collections::BTreeSet;

use crate::key::KeyspaceId;
use crate::manifest::SegmentMeta;
use crate::segment::Segment;

/// First and last key.
pub(crate) type KeyRange = (Vec<u8>, Vec<u8>);

/// The keys of a keyspace that a compaction was requested for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Reserved {
    pub(crate) keyspace: KeyspaceId,
    pub(crate) range: KeyRange,
}

/// What unfinished compactions have taken for themselves.
#[derive(Debug, Default)]
pub(crate) struct Claims {
    /// Segments that are inputs.
    inputs: BTreeSet<u64>,
    /// Key ranges of compactions that were requested. Their inputs may leave gaps, their output has
    /// none: what overlaps them stays where it is meanwhile.
    reserved: Vec<Reserved>,
}

impl Claims {
    pub(crate) fn is_empty(&self) -> bool {
        self.inputs.is_empty()
    }

    pub(crate) fn add(&mut self, inputs: &[u64], reserved: Option<&Reserved>) {
        self.inputs.extend(inputs);
        self.reserved.extend(reserved.cloned());
    }

    pub(crate) fn remove(&mut self, inputs: &[u64], reserved: Option<&Reserved>) {
        for id in inputs {
            self.inputs.remove(id);
        }
        self.reserved.retain(|one| Some(one) != reserved);
    }

    /// Takes one segment; `false` if another has it.
    pub(crate) fn take(&mut self, id: u64) -> bool {
        self.inputs.insert(id)
    }

    /// Whether another compaction stands in the way of one with these inputs and this range.
    pub(crate) fn block(&self, inputs: &[u64], range: Option<&Reserved>) -> bool {
        let overlaps = |wanted: &Reserved| {
            let (first, last) = &wanted.range;
            let mut reserved = self.reserved.iter();
            reserved.any(|one| {
                let (lower, upper) = &one.range;
                one.keyspace == wanted.keyspace && first <= upper && lower <= last
            })
        };
        inputs.iter().any(|id| self.inputs.contains(id)) || range.is_some_and(overlaps)
    }

    /// Whether an unfinished compaction has a segment as input, or covers it.
    pub(crate) fn is_busy(&self, segment: &Segment) -> bool {
        let SegmentMeta {
            id,
            keyspace,
            first_key,
            last_key,
            ..
        } = &segment.meta;
        let mut reserved = self.reserved.iter();
        self.inputs.contains(id)
            || reserved.any(|one| {
                let (first, last) = &one.range;
                one.keyspace == *keyspace && first_key <= last && first <= last_key
            })
    }
}
