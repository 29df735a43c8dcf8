//! Keeps the tree in shape: decides what to merge, and merges it.
//!
//! [`plan`] is pure: runs and a wanted shape in, a plan out. [`merge`] carries a plan out: it
//! reads the inputs once, writes new segments with filters made for where they go, and changes
//! nothing that is live; the caller installs the result.

mod merge;
mod output;
mod plan;
mod retain;

pub(crate) use merge::{Inputs, Progress, merge};
pub(crate) use output::{FileNumbers, Output, OutputOptions};
pub(crate) use plan::{Plan, RunFacts, SegmentFacts, Target, debt_bytes, plan};
pub(crate) use retain::Retain;
