//! The store as its users see it.

mod account;
mod batch;
mod builder;
mod compaction_job;
mod handle;
mod iter;
mod keyspace;
mod keyspace_options;
mod merge;
mod repair;
mod segment_options;
mod session_options;
mod snapshot;
pub(crate) mod stats;
mod transaction;
mod upkeep;

pub use batch::{Batch, BatchKeyspace};
pub use builder::Builder;
pub use compaction_job::CompactionJob;
pub use handle::Db;
pub use iter::Iter;
pub use keyspace::Keyspace;
pub use keyspace_options::KeyspaceOptions;
pub use snapshot::Snapshot;
pub use transaction::{
    Isolation, Transaction, TransactionIter, TransactionKeyspace, TransactionKeyspaceMut,
};
