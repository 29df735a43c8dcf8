//! What the bits of a value of a Bloomier filter mean: from the lowest the ordinal of the key's block, its
//! slot, and zeros.
//!
//! Where a value has fewer bits than the ordinal, it holds the ordinal's highest: what they leave are
//! blocks one behind the other, and the fences tell of all of them at once whether the key can be there.
//! They come in reverse, highest first, so that all values have the first of them, however wide they are.

use std::hint::select_unpredictable;
use std::ops::Range;

use super::Place;
use super::lookup::{Answer, Location};
use super::resident::TELLING;
use crate::hash::{fingerprint, low_mask};

/// What is in the processor's cache of the fences tells blocks apart by 64: a sixteenth of fewer blocks than
/// this it would often not refute.
const TOLD_BLOCKS_MIN: u32 = 1024;

/// How the bits of a value are divided, but for the fingerprint, which takes the rest.
#[derive(Clone, Copy, Default, Debug)]
pub(crate) struct Layout {
    pub(crate) block_count: u32,
    pub(crate) max_slot: u16,
    pub(crate) has_slot: bool,
    /// Some values have no room for all bits of the ordinal.
    pub(crate) has_highest: bool,
    /// Bits that tell all blocks apart: 0 for one block, at most 32.
    pub(crate) block_bits: u32,
    /// Bits of the slot: 0 where it is not stored or where there is but one, at most 16.
    pub(crate) slot_bits: u32,
    /// The greatest number of so many bits, and the greatest slot that is stored.
    block_max: u64,
    stored_slot_max: u64,
}

impl Layout {
    pub(crate) fn new(block_count: u32, max_slot: u16, has_slot: bool) -> Self {
        let block_bits = u32::BITS - block_count.saturating_sub(1).leading_zeros();
        let slot_bits = if has_slot {
            u16::BITS - max_slot.leading_zeros()
        } else {
            0
        };
        Self {
            block_count,
            max_slot,
            has_slot,
            has_highest: false,
            block_bits,
            slot_bits,
            block_max: low_mask(block_bits),
            stored_slot_max: if has_slot { u64::from(max_slot) } else { 0 },
        }
    }

    /// The same for values of so many bits and more.
    pub(crate) fn of_width(self, narrow: u32) -> Self {
        Self {
            has_highest: narrow < self.block_bits,
            ..self
        }
    }

    /// The bits of an ordinal in reverse, or back.
    #[inline]
    fn reversed(&self, bits: u64) -> u64 {
        // At least one, where this is asked for.
        bits.reverse_bits() >> (u64::BITS - self.block_bits)
    }

    /// An ordinal as a value has it, or back.
    #[inline(always)]
    fn as_stored(&self, block: u64) -> u64 {
        match self.has_highest {
            true => self.reversed(block),
            false => block,
        }
    }

    /// The first of the four bits that reject most absent keys of those that all values have, if they are
    /// enough: of the fingerprint, or else the highest of many blocks, of which each is held against the fences.
    pub(crate) fn telling(&self, narrow: u32) -> Option<u32> {
        let is_enough = |from: &u32| from + TELLING <= narrow && narrow > TELLING;
        let of_fingerprint = narrow
            .checked_sub(TELLING)
            .filter(|from| *from >= self.position_bits());
        let has_many = self.block_count >= TOLD_BLOCKS_MIN;
        let highest = match self.has_highest {
            true => Some(0),
            false => self.block_bits.checked_sub(TELLING),
        };
        let of_block = || highest.filter(|_| has_many);
        of_fingerprint.or_else(of_block).filter(is_enough)
    }

    /// Bits below the fingerprint, at most 48.
    #[inline]
    pub(crate) fn position_bits(&self) -> u32 {
        self.block_bits + self.slot_bits
    }

    /// The value of a key, to be cut to the width of its block.
    pub(crate) fn value(&self, place: Place, mixed: u64) -> u64 {
        let slot = if self.has_slot {
            u64::from(place.slot)
        } else {
            0
        };
        let block = self.as_stored(place.block.into());
        (block | slot << self.block_bits) ^ fingerprint(mixed)
    }

    /// The place that a value tells, as far as it has bits for that.
    pub(crate) fn place(&self, value: u64, mixed: u64) -> Place {
        let position = value ^ fingerprint(mixed);
        Place {
            block: self.as_stored(position & self.block_max) as u32,
            slot: (position >> self.block_bits & low_mask(self.slot_bits)) as u16,
        }
    }

    /// What a value of so many bits, 1 to 64, says about the key whose fingerprint was taken from it.
    #[inline(always)]
    pub(crate) fn answer(&self, value: u64, bits: u32) -> Answer {
        // With what is above the slot: it is the fingerprint, of which only zeros pass.
        let slot = value >> self.block_bits;
        // At most 32 bits.
        let block = self.as_stored(value & self.block_max) as u32;
        if (slot > self.stored_slot_max) | (block >= self.block_count) {
            return Answer::No;
        }
        Answer::At(Location {
            block,
            unknown_bits: self.block_bits.saturating_sub(bits) as u8,
            // What is not above the greatest has 16 bits.
            slot: self.has_slot.then_some(slot as u16),
        })
    }

    /// Whether no value that has these bits, as many as tell, above its lowest `unknown` ones, at most 60, and
    /// any above them, is that of a key: as what they leave of blocks is refuted, or is none.
    ///
    /// An absent key's value is rejected here by chance or else refuted, nearly always: which of the two
    /// nobody can foretell, so there is one branch for both.
    #[inline(always)]
    pub(crate) fn is_rejected(
        &self,
        bits: u64,
        unknown: u32,
        is_refuted: impl FnOnce(Range<u32>) -> bool,
    ) -> bool {
        let mut unknown = unknown;
        let mut least = bits << unknown;
        if self.has_highest {
            // They are the lowest, and so the ordinal's highest.
            unknown = self.block_bits - TELLING;
            least = self.reversed(bits);
        }
        // At most 32 bits, as the number of blocks.
        let first = (least & self.block_max) as u32;
        let end = (u64::from(first) + (1 << unknown)).min(u64::from(self.block_count)) as u32;
        let is_one = (least >> self.block_bits <= self.stored_slot_max) & (first < end);
        // In place of none, block 0 is asked for.
        let blocks = select_unpredictable(is_one, (first, end), (0, 1));
        !is_one | is_refuted(blocks.0..blocks.1)
    }

    /// Probability that an absent key's value of so many bits is taken for a key of the segment, when
    /// the block's ordinal is compared with that of the fences around the key.
    pub(crate) fn pass_rate(&self, bits: u32) -> f64 {
        let fingerprint_bits = bits.saturating_sub(self.position_bits());
        let rejecting = self.block_bits.min(bits) + fingerprint_bits;
        let slots = (f64::from(self.max_slot) + 1.0) / f64::from(self.slot_bits).exp2();
        let slot_rate = if self.has_slot { slots } else { 1.0 };
        (-f64::from(rejecting)).exp2() * slot_rate
    }
}
