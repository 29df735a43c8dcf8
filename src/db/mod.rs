//! The store as its users see it.

mod account;
mod batch;
mod builder;
mod compaction_job;
mod handle;
mod iter;
mod repair;
mod segment_options;
mod session_options;
mod snapshot;
pub(crate) mod stats;
mod upkeep;

pub use batch::Batch;
pub use builder::Builder;
pub use compaction_job::CompactionJob;
pub use handle::Db;
pub use iter::Iter;
pub use snapshot::Snapshot;
