//! Things with numbers that never move: one thread adds, any number look.
//!
//! They lie in boxes of [`SEGMENT`], so that growing never stops a writer for long, and the boxes
//! in levels of which each is twice as long as the one before, so that one is found in two steps.

use super::sync::{FIRST_LOG2, LEVELS, OnceLock, SEGMENT};

type Segment<T> = OnceLock<Box<[T]>>;

#[derive(Debug)]
pub(super) struct Pool<T> {
    levels: [OnceLock<Box<[Segment<T>]>>; LEVELS],
}

impl<T: Default> Pool<T> {
    pub(super) fn new() -> Pool<T> {
        Pool {
            levels: std::array::from_fn(|_| OnceLock::new()),
        }
    }

    /// The thing of this number.
    ///
    /// # Panics
    ///
    /// If neither it nor one beside it was ever made.
    #[inline]
    pub(super) fn get(&self, number: u32) -> &T {
        let (level, segment, place) = place(number);
        let segments = self.levels[level].get();
        let things = segments.and_then(|segments| segments[segment].get());
        &things.expect("numbers are of things that were made")[place]
    }

    /// The thing of this number, which is made if need be.
    pub(super) fn make(&self, number: u32) -> &T {
        let (level, segment, place) = place(number);
        let segments = self.levels[level].get_or_init(|| {
            let count = 1_usize << (level as u32 + FIRST_LOG2);
            (0..count).map(|_| OnceLock::new()).collect()
        });
        let things = segments[segment].get_or_init(|| (0..SEGMENT).map(|_| T::default()).collect());
        &things[place]
    }
}

/// Level, segment in the level, place in the segment.
#[inline]
pub(super) fn place(number: u32) -> (usize, usize, usize) {
    let number = number as usize;
    // Levels begin at segments 0, 16, 48, 112 ...: 16 times 0, 1, 3, 7.
    let shifted = number / SEGMENT + (1 << FIRST_LOG2);
    let log2 = shifted.ilog2();
    let level = (log2 - FIRST_LOG2) as usize;
    (level, shifted - (1 << log2), number % SEGMENT)
}
