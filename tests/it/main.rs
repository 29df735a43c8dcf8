//! One integration binary: everything a user can do, through the public interface.
#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]
#![expect(
    clippy::disallowed_methods,
    reason = "tests look at files from outside"
)]

mod allocations;
mod basics;
mod campaign;
mod compaction;
mod concurrency;
mod corpus;
mod custom_filters;
mod damage;
mod decoders;
mod estimate;
mod faults;
mod filters;
mod fork;
mod full;
mod golden;
mod groups;
mod hostile;
mod interleavings;
mod kept;
mod kill;
mod linear;
mod long_keys;
mod many;
mod model;
mod mounts;
mod reads;
mod rebuild;
mod recovery;
mod repair;
mod rotation;
mod tidy;
mod traffic;
mod verify;
