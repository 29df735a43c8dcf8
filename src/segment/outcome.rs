//! What a lookup found in a segment, and what that cost.

use crate::key::Kind;
use crate::slice::Slice;
use criba_filters::segment::Answer;

/// The newest visible entry of a key.
#[derive(Clone, Debug)]
pub(crate) struct Hit {
    pub(crate) kind: Kind,
    pub(crate) value: Slice,
    /// Behind an operand: the older entries of the key in the same segment, newest first, down to the
    /// first that is no operand. `None` for none.
    pub(crate) older: Option<Box<[Hit]>>,
}

impl Hit {
    #[inline]
    pub(crate) fn of(kind: Kind, value: Slice) -> Hit {
        Hit {
            kind,
            value,
            older: None,
        }
    }

    /// The value, or nothing where the key was deleted.
    #[inline]
    pub(crate) fn into_value(self) -> Option<Slice> {
        (self.kind == Kind::Value).then_some(self.value)
    }
}

/// What one lookup asked for and read in one segment.
#[derive(Clone, Debug, Default)]
pub(crate) struct LookupCost {
    /// The filter's answer, once it was asked. Noted for lookups that are explained or have stopped
    /// only.
    pub(crate) answer: Option<Answer>,
    /// The answer named a block whose fences do not cover the key.
    pub(crate) refuted: bool,
    /// The block that the filter, or else the fences, named first.
    pub(crate) block: Option<u32>,
    pub(crate) filter_damaged: bool,
    pub(crate) filter_pages: u64,
    pub(crate) data_blocks: u64,
    pub(crate) from_cache: u64,
    pub(crate) read_bytes: u64,
    /// Data blocks that were not in the cache, and their bytes.
    pub(crate) block_reads: u64,
    pub(crate) block_bytes: u64,
}
