//! The body of a filter in memory as a whole.
//!
//! On disk a lookup of a Bloomier filter reads all its words from one place, mostly of one page. In memory
//! they are divided: four planes, which tell nearly all absent keys, lie apart, so that lookups of absent keys
//! touch little more than two ninths of 18 planes. What other programs and the other reads of this one take away from a
//! cache that all share is fetched anew line by line: it is the lines that are touched at all which cost.

use crate::prefetch::prefetch;

use super::form::Four;
use super::lookup::Window;

/// Planes of a block that lie apart, and bits of a value that are looked at first.
pub(crate) const TELLING: u32 = (size_of::<Four>() / size_of::<u64>()) as u32;

#[derive(Debug)]
/// The body of a filter, as a reader keeps it in memory; [`Filter::arrange`](super::Filter::arrange)
/// makes it.
pub enum Resident {
    /// As on disk.
    Whole(Words),
    /// In two parts, of which lookups of absent keys mostly touch the first.
    Divided(Divided),
}

/// Words that begin at a multiple of 64 bytes, so that a Bloom line is one cache line.
#[derive(Debug)]
pub struct Words {
    space: Vec<u64>,
    skip: usize,
}

impl Words {
    /// Empty, with room for this many words.
    #[must_use]
    pub fn with_capacity(words: usize) -> Words {
        let mut space: Vec<u64> = Vec::with_capacity(words + 7);
        let skip = (64 - space.as_ptr().addr() % 64) % 64 / 8;
        space.resize(skip, 0);
        Words { space, skip }
    }

    /// Adds words behind those that are there.
    pub fn extend(&mut self, words: &[u64]) {
        self.space.extend_from_slice(words);
    }

    /// The words.
    #[inline]
    #[must_use]
    pub fn get(&self) -> &[u64] {
        self.space.get(self.skip..).unwrap_or_default()
    }
}

/// What tells most of a block, half a line of the processor's cache.
#[derive(Debug)]
#[repr(align(32))]
struct Telling(Four);

/// The body of a Bloomier filter.
#[derive(Debug)]
pub struct Divided {
    /// Of each block the four planes that tell most.
    telling: Vec<Telling>,
    /// The other planes, in their order.
    rest: Vec<u64>,
}

impl Divided {
    /// For so many blocks, and words of all their planes.
    pub(crate) fn with_capacity(blocks: usize, words: usize) -> Divided {
        Divided {
            telling: Vec::with_capacity(blocks),
            rest: Vec::with_capacity(words.saturating_sub(blocks * TELLING as usize)),
        }
    }

    /// Adds a block.
    pub(crate) fn push(&mut self, telling: Four, rest: [&[u64]; 2]) {
        self.telling.push(Telling(telling));
        rest.iter()
            .for_each(|part| self.rest.extend_from_slice(part));
    }

    /// Begins to fetch what is read first of a window.
    #[inline(always)]
    pub(crate) fn prefetch(&self, window: &Window) {
        prefetch(&self.telling, window.block as usize, 2);
    }

    /// The planes that tell most, of the first block of a window and of the last.
    #[inline(always)]
    pub(crate) fn telling(&self, window: &Window) -> Option<(&Four, &Four)> {
        let first = window.block as usize;
        let last = first + usize::from(window.shift != 0);
        Some((&self.telling.get(first)?.0, &self.telling.get(last)?.0))
    }

    /// The other planes of a window whose first block has so many of them, in the order that a window has.
    pub(crate) fn rest(&self, window: &Window, planes: u32) -> Option<&[u64]> {
        let blocks = if window.shift == 0 { 1 } else { 2 };
        let first = window
            .first
            .checked_sub(window.block * u64::from(TELLING))?;
        self.rest
            .get(first as usize..)?
            .get(..planes as usize * blocks)
    }
}
