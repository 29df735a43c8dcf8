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

/// A length or a count on its way into a field of four bytes.
///
/// # Panics
///
/// If it does not fit: the caller has bounded it, and a wrong number must never reach the disk.
#[expect(clippy::expect_used, reason = "a broken bound must stop the encoder")]
pub(crate) fn four_bytes(number: u64) -> u32 {
    u32::try_from(number).expect("what is encoded is bounded below 2^32")
}

#[cfg(test)]
mod tests {
    use super::four_bytes;

    #[test]
    fn what_fits_in_four_bytes_stays_as_it_is() {
        for number in [0, 1, u32::MAX - 1, u32::MAX] {
            assert_eq!(four_bytes(number.into()), number);
        }
    }

    /// Bug: the greatest number stood for all greater ones.
    #[test]
    #[should_panic(expected = "bounded below 2^32")]
    fn what_does_not_fit_in_four_bytes_is_not_written() {
        four_bytes(1 << 32);
    }
}
