//! Data blocks of a mapped segment: verified once, then used where they are.
//!
//! A file that is not mapped is read into memory of the store's own, and its blocks are kept in
//! the cache. What is mapped is in the system's cache anyway: only that a block was verified is
//! kept, one bit of it. Compressed blocks go to the store's cache in both cases.

use crate::format::region::{Candidate, TRAILER_BYTES};
use crate::sharded_counter::{line, lines};
use crate::slice::Slice;

use super::Block;
use super::blockbits::BlockBits;

#[derive(Debug)]
pub(super) struct Mapped {
    /// The whole file, once for each line of counters: whoever holds a value of it counts a
    /// reference, and all threads would count them in one place.
    bytes: Box<[Slice]>,
    /// Of each data block, whether it was verified and is not compressed. The bytes do not depend
    /// on the bit, they have been there all the time.
    verified: BlockBits,
}

impl Mapped {
    pub(super) fn new(bytes: &Slice, block_count: u32) -> Mapped {
        Mapped {
            bytes: (0..lines()).map(|_| bytes.counted_apart()).collect(),
            verified: BlockBits::new(block_count),
        }
    }

    /// The block at this place of the file, if it was verified.
    pub(super) fn get(&self, ordinal: u32, (offset, len): (u64, u64)) -> Option<Block> {
        if !self.was_verified(ordinal) {
            return None;
        }
        let start = usize::try_from(offset).ok()?;
        let end = start.checked_add(usize::try_from(len).ok()?)?;
        let bytes = self.bytes.get(line())?;
        let stored = bytes.get(start..end)?;
        let trailer = stored.get(stored.len().checked_sub(TRAILER_BYTES)?..)?;
        let payload = usize::try_from(Candidate::of(trailer)?.payload_len).ok()?;
        if payload > stored.len() {
            return None;
        }
        Block::of_payload(bytes.slice(start..start + payload)).ok()
    }

    pub(super) fn was_verified(&self, ordinal: u32) -> bool {
        self.verified.get(ordinal)
    }

    /// Of the same file, other blocks have been verified as well.
    pub(super) fn take_over(&self, before: &Mapped) {
        self.verified.set_all_of(&before.verified);
    }

    /// The block has been verified.
    pub(super) fn note(&self, ordinal: u32, block: &Block) {
        if block.payload.is_mapped() {
            self.verified.set(ordinal);
        }
    }
}
