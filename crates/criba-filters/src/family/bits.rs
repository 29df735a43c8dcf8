//! Arrays of bits and of small cells, in words.

use super::frame::{Fields, put_words, require};
use crate::error::{Error, Result};

/// Most bits of one array: 8 GiB. More is a mistake in a parameter more often than a wish.
pub(super) const BITS_MAX: u64 = 1 << 36;

/// A fixed number of bits.
///
/// Invariant: bits of the last word beyond `len` are zero.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct Bits {
    words: Vec<u64>,
    len: u64,
}

impl Bits {
    /// So many bits, all zero.
    pub(super) fn new(len: u64) -> Result<Self> {
        if len > BITS_MAX {
            return Error::invalid(format!(
                "{len} bits are more than one filter may have ({BITS_MAX}): choose fewer keys, a \
                 higher rate, or several filters"
            ));
        }
        let words = vec![0; len.div_ceil(64) as usize];
        Ok(Self { words, len })
    }

    pub(super) fn len(&self) -> u64 {
        self.len
    }

    pub(super) fn words(&self) -> &[u64] {
        &self.words
    }

    #[inline]
    pub(super) fn get(&self, at: u64) -> bool {
        bit(&self.words, at)
    }

    #[inline]
    pub(super) fn set(&mut self, at: u64) {
        self.words[(at / 64) as usize] |= 1 << (at % 64);
    }

    pub(super) fn ones(&self) -> u64 {
        ones(&self.words)
    }

    /// Share of bits that are set; 0 where there are none.
    pub(super) fn fill(&self) -> f64 {
        self.ones() as f64 / self.len.max(1) as f64
    }

    /// Combines each word with that of an array of equal length.
    pub(super) fn zip(&self, other: &Self, combine: impl Fn(u64, u64) -> u64) -> Self {
        let pairs = self.words.iter().zip(&other.words);
        Self {
            words: pairs.map(|(a, b)| combine(*a, *b)).collect(),
            len: self.len,
        }
    }

    /// Sets all bits that are set in an array of equal length.
    pub(super) fn unite(&mut self, other: &Self) {
        debug_assert_eq!(self.len, other.len);
        for (own, other) in self.words.iter_mut().zip(&other.words) {
            *own |= other;
        }
    }

    pub(super) fn put(&self, payload: &mut Vec<u8>) {
        payload.extend(self.len.to_le_bytes());
        put_words(payload, &self.words);
    }

    pub(super) fn read(fields: &mut Fields<'_>) -> Result<Self> {
        let len = fields.u64("the number of bits is cut short")?;
        let words = fields.words(len.div_ceil(64), "bits are cut short")?;
        Self::from_words(words, len)
    }

    /// `words` are as many as `len` bits need.
    pub(super) fn from_words(words: Vec<u64>, len: u64) -> Result<Self> {
        require(words.len() as u64 == len.div_ceil(64), "bits are cut short")?;
        let unused = words.last().map_or(0, |last| match len % 64 {
            0 => 0,
            used => last >> used,
        });
        require(unused == 0, "there are bits beyond the last")?;
        Ok(Self { words, len })
    }
}

fn ones(words: &[u64]) -> u64 {
    words.iter().map(|word| u64::from(word.count_ones())).sum()
}

/// A fixed number of cells of `width` bits each, 1 to 64, packed without gaps.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct Cells {
    bits: Bits,
    width: u32,
    count: u64,
}

impl Cells {
    /// So many cells, all zero.
    pub(super) fn new(count: u64, width: u32) -> Result<Self> {
        let bits = Bits::new(count.saturating_mul(u64::from(width)))?;
        Ok(Self { bits, width, count })
    }

    pub(super) fn count(&self) -> u64 {
        self.count
    }

    pub(super) fn width(&self) -> u32 {
        self.width
    }

    pub(super) fn bits(&self) -> u64 {
        self.bits.len
    }

    #[inline]
    pub(super) fn get(&self, at: u64) -> u64 {
        cell(&self.bits.words, self.width, at)
    }

    /// Writes a cell; `value` has no bit beyond the width.
    #[inline]
    pub(super) fn set(&mut self, at: u64, value: u64) {
        let mask = u64::MAX >> (64 - self.width);
        let first = at * u64::from(self.width);
        let (word, shift) = ((first / 64) as usize, first % 64);
        let words = &mut self.bits.words;
        words[word] = words[word] & !(mask << shift) | value << shift;
        if shift + u64::from(self.width) > 64 {
            let down = 64 - shift;
            words[word + 1] = words[word + 1] & !(mask >> down) | value >> down;
        }
    }

    pub(super) fn put(&self, payload: &mut Vec<u8>) {
        payload.extend(self.width.to_le_bytes());
        payload.extend(self.count.to_le_bytes());
        put_words(payload, &self.bits.words);
    }

    pub(super) fn read(fields: &mut Fields<'_>) -> Result<Self> {
        let width = fields.u32("the width of cells is cut short")?;
        require((1..=64).contains(&width), "cells have 1 to 64 bits")?;
        let count = fields.u64("the number of cells is cut short")?;
        let len = count.checked_mul(u64::from(width));
        let len = len.ok_or(Error::field("there are too many cells"))?;
        let words = fields.words(len.div_ceil(64), "cells are cut short")?;
        let bits = Bits::from_words(words, len)?;
        Ok(Self { bits, width, count })
    }
}

/// A bit among these words.
#[inline]
pub(super) fn bit(words: &[u64], at: u64) -> bool {
    words[(at / 64) as usize] >> (at % 64) & 1 != 0
}

/// A cell of so many bits among these words.
#[inline]
pub(super) fn cell(words: &[u64], width: u32, at: u64) -> u64 {
    let first = at * u64::from(width);
    let last = first + u64::from(width) - 1;
    let shift = first % 64;
    let low = words[(first / 64) as usize] >> shift;
    // Where the cell does not go over into another word, this is the same one, and what it adds is
    // above the width. A branch would be guessed wrong too often.
    let high = (words[(last / 64) as usize] << 1) << (63 - shift);
    (low | high) & (u64::MAX >> (64 - width))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cells_of_any_width_keep_their_values() {
        for width in 1..=64 {
            let mut cells = Cells::new(100, width).unwrap();
            let value = |i: u64| i.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> (64 - width);
            for round in 0..2 {
                for i in 0..100 {
                    cells.set(i, value(i + round));
                }
                assert!((0..100).all(|i| cells.get(i) == value(i + round)));
            }
            let mut bytes = Vec::new();
            cells.put(&mut bytes);
            assert_eq!(Cells::read(&mut Fields::new(&bytes)), Ok(cells));
        }
    }

    #[test]
    fn foreign_lengths_are_refused() {
        for (width, count) in [(0, 1), (65, 1), (64, u64::MAX), (8, 9)] {
            let mut bytes = Vec::new();
            bytes.extend(u32::to_le_bytes(width));
            bytes.extend(u64::to_le_bytes(count));
            bytes.extend([0; 8]);
            assert!(Cells::read(&mut Fields::new(&bytes)).is_err());
        }
        assert!(Bits::from_words(vec![2], 1).is_err());
        assert!(Bits::from_words(vec![1], 1).is_ok());
        assert!(Bits::from_words(vec![1], 0).is_err());
        assert!(Bits::new(BITS_MAX + 1).is_err());
    }
}
