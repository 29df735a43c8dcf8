//! One file for each store: how it is opened so that it does the same work as the others.

pub mod criba;

#[cfg(feature = "coordinode")]
pub mod coordinode;
#[cfg(feature = "fjall")]
pub mod fjall;
#[cfg(feature = "lmdb")]
pub mod lmdb;
#[cfg(feature = "redb")]
pub mod redb;
#[cfg(feature = "rocksdb")]
pub mod rocksdb;
#[cfg(feature = "sled")]
pub mod sled;
