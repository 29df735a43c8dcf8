//! Keeps the tree in shape: decides what to merge, and merges it.
//!
//! [`plan`] is pure: runs and a wanted shape in, a plan out; so is [`cuts`], which divides a large
//! merge among threads. [`merge`] carries a plan out: it
//! reads the inputs once, writes new segments with filters made for where they go, and changes
//! nothing that is live; the caller installs the result.

mod merge;
mod output;
mod plan;
mod retain;
mod split;
mod tail;

pub(crate) use merge::{Inputs, Progress, merge};
pub(crate) use output::{FileNumbers, Filters, Output, OutputOptions, remove_segments};
pub(crate) use plan::{Plan, RunFacts, SegmentFacts, Target, debt_bytes, due_in, plan, while_idle};
pub(crate) use retain::Retain;
pub(crate) use split::{Extent, cuts};
