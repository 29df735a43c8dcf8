//! The body of a filter in memory as a whole.
//!
//! On disk a lookup of a Bloomier filter reads all its words from one place, mostly of one page. In memory
//! they are divided: eight planes, those of the highest bits that all values have, lie apart, for each block
//! of slots a line of the processor's cache. They tell nearly all absent keys, so that of 18 planes lookups of
//! absent keys touch less than half of the memory. What other programs and the other reads of this one take
//! away from a cache that all share is fetched anew line by line, so that it is the lines that are touched at
//! all which cost, not how many a lookup touches.

use crate::prefetch::prefetch;

use super::form::{Eight, LANES};
use super::lookup::Window;

#[derive(Debug)]
pub(crate) enum Resident {
    /// As on disk.
    Whole(Words),
    Divided(Divided),
}

/// Words that begin at a multiple of 64 bytes, so that a Bloom line is one cache line.
#[derive(Debug)]
pub(crate) struct Words {
    space: Vec<u64>,
    skip: usize,
}

impl Words {
    pub(crate) fn with_capacity(words: usize) -> Words {
        let mut space: Vec<u64> = Vec::with_capacity(words + 7);
        let skip = (64 - space.as_ptr().addr() % 64) % 64 / 8;
        space.resize(skip, 0);
        Words { space, skip }
    }

    pub(crate) fn extend(&mut self, words: &[u64]) {
        self.space.extend_from_slice(words);
    }

    #[inline]
    pub(crate) fn get(&self) -> &[u64] {
        self.space.get(self.skip..).unwrap_or_default()
    }
}

/// A line of the processor's cache.
#[derive(Debug)]
#[repr(align(64))]
struct Line(Eight);

/// The body of a Bloomier filter.
#[derive(Debug)]
pub(crate) struct Divided {
    /// Of each block the eight planes that tell most.
    highest: Vec<Line>,
    /// The other planes, in their order.
    rest: Vec<u64>,
}

impl Divided {
    /// For so many blocks, and words of all their planes.
    pub(super) fn with_capacity(blocks: usize, words: usize) -> Divided {
        Divided {
            highest: Vec::with_capacity(blocks),
            rest: Vec::with_capacity(words.saturating_sub(blocks * LANES)),
        }
    }

    /// Adds a block.
    pub(super) fn push(&mut self, highest: Eight, rest: [&[u64]; 2]) {
        self.highest.push(Line(highest));
        rest.iter()
            .for_each(|part| self.rest.extend_from_slice(part));
    }

    /// Begins to fetch what is read first of a window.
    #[inline(always)]
    pub(super) fn prefetch(&self, window: &Window) {
        prefetch(&self.highest, window.block as usize, 2);
    }

    /// The planes that tell most, of the first block of a window and of the last.
    #[inline(always)]
    pub(super) fn highest(&self, window: &Window) -> Option<(&Eight, &Eight)> {
        let first = window.block as usize;
        let last = first + usize::from(window.shift != 0);
        Some((&self.highest.get(first)?.0, &self.highest.get(last)?.0))
    }

    /// The other planes of a window whose first block has so many of them, in the order that a window has.
    pub(super) fn rest(&self, window: &Window, planes: u32) -> Option<&[u64]> {
        let blocks = if window.shift == 0 { 1 } else { 2 };
        let first = window.first.checked_sub(window.block * LANES as u64)?;
        self.rest
            .get(first as usize..)?
            .get(..planes as usize * blocks)
    }
}
