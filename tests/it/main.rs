//! One integration binary: everything a user can do, through the public interface.
#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]
#![expect(
    clippy::disallowed_methods,
    reason = "tests look at files from outside"
)]

mod allocations;
mod basics;
mod campaign;
mod checkpoint;
mod compaction;
mod concurrency;
mod corpus;
mod custom_filters;
mod damage;
mod decoders;
mod entry_cache;
mod estimate;
mod faults;
mod filters;
mod fork;
mod full;
mod get_many;
mod golden;
mod hostile;
mod interleavings;
mod keyspaces;
mod kill;
mod linear;
mod long_keys;
mod model;
mod mounts;
mod operands;
mod partial_block_reads;
mod range_filters;
mod reads;
mod rebuild;
mod recovery;
mod repair;
mod rotation;
mod tidy;
mod traffic;
mod transactions;
mod verify;
