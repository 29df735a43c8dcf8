//! Bytes on disk, both ways: pure functions over slices.
//!
//! A damaged file is input, not a bug: nothing here indexes without a check, and every length
//! read from disk is compared with what remains before anything is allocated. `docs/format.md`
//! specifies each structure.
#![cfg_attr(
    not(test),
    deny(
        clippy::indexing_slicing,
        clippy::arithmetic_side_effects,
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        clippy::unwrap_used,
        clippy::expect_used,
        clippy::panic
    )
)]

pub(crate) mod batch;
pub(crate) mod block;
pub(crate) mod checksum;
pub(crate) mod current;
pub(crate) mod cursor;
pub(crate) mod index;
pub(crate) mod journal;
pub(crate) mod manifest;
pub(crate) mod region;
pub(crate) mod segment;
pub(crate) mod sidecar;
pub(crate) mod varint;

pub(crate) use cursor::{Cursor, Malformed};
