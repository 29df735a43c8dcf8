//! The atomics of the tree, and how large its parts are.
//!
//! The tree takes both from here alone. Its model (`tests/model.rs`) compiles the same files
//! against other ones: atomics that try every interleaving, and parts small enough for that.

pub(super) use std::hint::spin_loop;
pub(super) use std::sync::OnceLock;
pub(super) use std::sync::atomic::{
    AtomicBool, AtomicU8, AtomicU16, AtomicU32, AtomicU64, Ordering as Memory, fence,
};

/// Slots of a node: as many as make a leaf two cache lines. The order has room for fifteen.
pub(super) const SLOTS: usize = 14;

/// Things that a pool makes at a time.
pub(super) const SEGMENT: usize = 64;

/// Segments in the first level of a pool, as a power of two.
pub(super) const FIRST_LOG2: u32 = 4;

/// Levels of a pool: enough for 2^32 things.
pub(super) const LEVELS: usize = 23;

/// Bytes of the first chunk of entries. It is small, as many tables are; each is twice as long as
/// the one before.
pub(super) const CHUNK_BYTES_MIN: usize = 4 << 10;
