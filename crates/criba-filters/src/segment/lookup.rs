//! The steps of a lookup: hash to window, window to answer.
//!
//! A lookup is split in two so that the caller decides how the body is read: whole in memory, mapped,
//! or page by page from disk. The first step touches resident memory only, the second nothing but the
//! words it is given.

use std::ops::Range;

use crate::prefetch::prefetch;

/// What the resident part of a filter knows about a key.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Lookup {
    /// The answer, without a look at the body.
    Answered(Answer),
    /// The part of the body that holds the answer.
    Window(Window),
}

/// The one contiguous range of body words that a lookup needs, and what to do with it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Window {
    /// First body word.
    pub(crate) first: u64,
    /// Bloomier: blocks of slots before it in the whole body.
    pub(crate) block: u64,
    /// Bloomier: planes per 64 slots, that is bits of the value. Bloom: words of a line.
    pub(crate) planes: u32,
    /// Bloomier: the first slot's position in its word; if not 0, the next block is needed too.
    /// Bloom: 0.
    pub(crate) shift: u32,
    /// Bloomier: the coefficients of the key's equation. Bloom: the mixed hash.
    pub(crate) row: u64,
    /// Bloomier: the key's fingerprint bits. Bloom: unused.
    pub(crate) fingerprint: u64,
}

/// A [`Lookup`] where its parts stay, so that they are not moved about between the steps.
#[derive(Clone, Copy, Debug)]
pub struct Begun {
    /// Without one the window counts.
    pub answered: Option<Answer>,
    /// The window to read, where there is no answer yet.
    pub window: Window,
}

/// Not begun: nothing is known of the key.
impl Default for Begun {
    #[inline]
    fn default() -> Self {
        Begun::of(Lookup::Answered(Answer::Maybe))
    }
}

impl Begun {
    /// The same in another form.
    #[inline]
    #[must_use]
    pub fn of(lookup: Lookup) -> Begun {
        match lookup {
            Lookup::Answered(answer) => Begun {
                answered: Some(answer),
                window: Window::NONE,
            },
            Lookup::Window(window) => Begun {
                answered: None,
                window,
            },
        }
    }
}

impl Window {
    /// Of no words, where no window counts.
    const NONE: Window = Window {
        first: 0,
        block: 0,
        planes: 0,
        shift: 0,
        row: 0,
        fingerprint: 0,
    };

    /// The word indices within the body, 1 to 128 of them; they lie within the body whose length the
    /// filter was parsed with.
    #[inline]
    #[must_use]
    pub fn words(&self) -> Range<u64> {
        self.first..self.first + u64::from(self.count())
    }

    /// The number of words.
    #[inline]
    pub(crate) fn count(&self) -> u32 {
        // Not a shift, of which the compiler does not see that it makes no less.
        self.planes + if self.shift == 0 { 0 } else { self.planes }
    }

    /// The words in a body that is in memory as a whole; `None` if they are not in it.
    #[inline(always)]
    pub(crate) fn of<'a>(&self, body: &'a [u64]) -> Option<&'a [u64]> {
        body.get(self.first as usize..)?
            .get(..self.count() as usize)
    }

    /// Begins to fetch the words from a body that is in memory as a whole.
    #[inline(always)]
    pub(crate) fn prefetch(&self, body: &[u64]) {
        prefetch(body, self.first as usize, self.count() as usize);
    }
}

/// What a filter says about a key.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Answer {
    /// The key is not in the segment: certain.
    No,
    /// The key may be in the segment, its position is not known.
    Maybe,
    /// The key may be in the segment, and if so it is here.
    At(Location),
}

/// Where a key is, as far as the filter has stored it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Location {
    /// The ordinal of the data block, but for bits that are not known, which are zero: so it is the first of
    /// the blocks that the key may be in.
    pub block: u32,
    /// Number of low bits of the ordinal that are not known, 0 to 31: 0 when
    /// [`Filter::block_ordinal_complete`](super::Filter::block_ordinal_complete).
    pub unknown_bits: u8,
    /// Ordinal of the restart group within the block (`u16::MAX` stands for that or any later one);
    /// `None` when slots are not stored.
    pub slot: Option<u16>,
}

impl Location {
    /// The blocks that the key may be in, of which there may be fewer.
    #[inline]
    pub fn blocks(&self) -> Range<u32> {
        let count = 1_u32.checked_shl(self.unknown_bits.into());
        self.block..self.block.saturating_add(count.unwrap_or(u32::MAX))
    }

    /// Whether the bits that are known are those of this block.
    #[inline]
    pub fn may_be_in(&self, block: u32) -> bool {
        let known = |block: u32| u64::from(block) >> self.unknown_bits.min(32);
        known(block) == known(self.block)
    }
}
