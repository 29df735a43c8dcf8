//! A few shingles that stand for all shingles of a text.
//!
//! Of the hashes of all shingles the smallest [`LEN`] distinct ones are kept (Broder 1997,
//! min-wise). Which ones these are depends on the text alone. So two sketches are compared where
//! both are complete, and the share that agrees estimates that of all shingles.
//!
//! A hash here is the upper half of one whose bits are mixed already, so it is not mixed again.

/// Shingles in a sketch. A share is estimated from that many draws: with a true share of a quarter,
/// the standard deviation is 8 in 100.
pub(crate) const LEN: usize = 32;

/// The smallest distinct hashes of a text, ascending. Empty for what is no text.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Sketch {
    hashes: [u32; LEN],
    len: usize,
}

impl Sketch {
    /// Of a page that could hold text and holds none. All such pages are alike.
    pub(crate) fn of_nothing() -> Sketch {
        Sketch {
            hashes: [0; LEN],
            len: 1,
        }
    }

    /// Ascending and distinct.
    pub(crate) fn hashes(&self) -> &[u32] {
        &self.hashes[..self.len]
    }
}

/// Room to collect in: it is sorted only when it is full, so most hashes cost one comparison.
const ROOM: usize = 2 * LEN;

/// Collects the smallest hashes of one text.
#[derive(Debug)]
pub(crate) struct Smallest {
    room: [u32; ROOM],
    len: usize,
    /// Hashes from here on are not among the smallest.
    limit: u32,
}

impl Default for Smallest {
    fn default() -> Smallest {
        Smallest {
            room: [0; ROOM],
            len: 0,
            limit: u32::MAX,
        }
    }
}

impl Smallest {
    /// Adds a hash whose upper half is mixed well.
    #[inline]
    pub(crate) fn add(&mut self, hash: u64) {
        let hash = (hash >> 32) as u32;
        if hash < self.limit {
            self.keep(hash);
        }
    }

    fn keep(&mut self, hash: u32) {
        self.room[self.len] = hash;
        self.len += 1;
        if self.len == ROOM {
            self.tidy();
        }
    }

    /// Leaves the smallest, ascending, each once.
    fn tidy(&mut self) {
        let kept = &mut self.room[..self.len];
        kept.sort_unstable();
        let mut distinct = 0;
        for at in 0..kept.len() {
            if distinct == 0 || kept[at] != kept[distinct - 1] {
                kept[distinct] = kept[at];
                distinct += 1;
            }
        }
        self.len = distinct.min(LEN);
        if self.len == LEN {
            self.limit = self.room[LEN - 1];
        }
    }

    /// The sketch of the text; the next one may begin.
    pub(crate) fn finish(&mut self) -> Sketch {
        self.tidy();
        let mut sketch = Sketch {
            len: self.len,
            ..Sketch::default()
        };
        sketch.hashes[..self.len].copy_from_slice(&self.room[..self.len]);
        self.len = 0;
        self.limit = u32::MAX;
        sketch
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    fn random(state: &mut u64) -> u64 {
        *state ^= *state << 13;
        *state ^= *state >> 7;
        *state ^= *state << 17;
        *state
    }

    #[test]
    fn the_smallest_distinct_ones_are_kept() {
        let mut state = 88_172_645_463_325_252;
        let mut smallest = Smallest::default();
        for count in [0, 1, 31, 32, 33, 64, 65, 500, 5000] {
            // Few different ones, so that most stand there several times.
            let range = (count / 2).max(1) as u64;
            let all: Vec<u64> = (0..count)
                .map(|_| (random(&mut state) % range).wrapping_mul(0x9e37_79b9_7f4a_7c15))
                .collect();
            let sorted: BTreeSet<u32> = all.iter().map(|hash| (hash >> 32) as u32).collect();
            let expected: Vec<u32> = sorted.into_iter().take(LEN).collect();
            all.iter().for_each(|&hash| smallest.add(hash));
            assert_eq!(smallest.finish().hashes(), expected, "{count}");
        }
        assert_eq!(smallest.finish(), Sketch::default());
    }

    #[test]
    fn nothing_is_a_text_of_its_own() {
        assert_eq!(Sketch::of_nothing().hashes(), [0]);
        assert!(Sketch::default().hashes().is_empty());
    }
}
