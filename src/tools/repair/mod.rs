//! Makes a new store of what is intact in a damaged one, which is only read.
//!
//! Where the manifest can be trusted, exactly its segments and journals are read. Where it cannot,
//! all files that are there are: sequences tell which entry of a key is the newest, but a key whose
//! tombstone has been merged away may come back from a file that was not needed any more.

mod copy;
mod place;
mod survey;

pub use copy::Repaired;
pub(crate) use copy::{NewStore, repair_from};
pub(crate) use place::{repair, repair_in_place};
