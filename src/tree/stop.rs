//! Where a lookup has stopped that needs a block, to go on once it was read.

use crate::segment::{LookupCost, Need};
use crate::slice::Slice;

use super::counters::BlocksRead;

/// A lookup that has stopped in a run.
#[derive(Debug)]
pub(super) struct Stop {
    /// The ordinal of the run.
    pub(super) run: usize,
    /// What it needs of the segment there.
    pub(super) need: Need,
    /// Its account in that segment so far, with the answer of the filter.
    pub(super) cost: LookupCost,
    /// Read in the runs before.
    pub(super) read: BlocksRead,
    /// Met before, newest first.
    pub(super) operands: Vec<Slice>,
}
