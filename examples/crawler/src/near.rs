//! Pages that nearly are other pages: simhashes within 3 of 64 bits (Manku, Jain, Das Sarma, 2007).
//!
//! Two values that differ in at most 3 bits agree in at least one of four bands of 16. So values
//! are grouped by each band in turn, and compared within their group. This is done once, at the
//! end, and takes 24 bytes of memory for each page.

use crate::record::{Record, State};
use crate::simhash;

const BITS_MAX: u32 = 3;

/// Comparisons of one value within one group. Templates with nearly no text of their own make large
/// groups; beyond this, pages may be missed in the count.
const NEIGHBOURS_MAX: usize = 512;

/// Pages to compare.
#[derive(Debug, Default)]
pub(crate) struct Near {
    /// Hash of the body in two halves, which is 24 bytes with the simhash and not 32, and the
    /// simhash.
    pages: Vec<([u64; 2], u64)>,
}

impl Near {
    pub(crate) fn add(&mut self, record: &Record) {
        if record.state == State::Fetched && record.simhash != 0 {
            let (high, low) = (record.content_hash >> 64, record.content_hash);
            self.pages.push(([high as u64, low as u64], record.simhash));
        }
    }

    /// Pages that are nearly, but not exactly, another one.
    pub(crate) fn count(mut self) -> u64 {
        self.pages.sort_unstable();
        self.pages.dedup_by_key(|(content, _)| *content);
        let hashes: Vec<u64> = self.pages.into_iter().map(|(_, hash)| hash).collect();
        near(&hashes)
    }
}

/// How many of these are close to another one.
fn near(hashes: &[u64]) -> u64 {
    let mut order: Vec<u32> = (0..hashes.len() as u32).collect();
    let mut is_near = vec![false; hashes.len()];
    for band in 0..4 {
        let part = |at: u32| hashes[at as usize] >> (16 * band) & 0xffff;
        order.sort_unstable_by_key(|&at| (part(at), hashes[at as usize]));
        for (rank, &one) in order.iter().enumerate() {
            let others = order[rank + 1..].iter().take(NEIGHBOURS_MAX);
            for &other in others.take_while(|&&other| part(other) == part(one)) {
                if simhash::distance(hashes[one as usize], hashes[other as usize]) <= BITS_MAX {
                    is_near[one as usize] = true;
                    is_near[other as usize] = true;
                }
            }
        }
    }
    is_near.iter().filter(|&&near| near).count() as u64
}

#[cfg(test)]
mod tests {
    use super::near;

    #[test]
    fn three_bits_are_near_and_four_are_not() {
        let base = 0x0123_4567_89ab_cdef;
        assert_eq!(near(&[base, base ^ 0x8000_0001_0001_0000]), 2);
        assert_eq!(near(&[base, base ^ 0x8000_0001_0001_0001]), 0);
        assert_eq!(near(&[base, base, 0, u64::MAX]), 2);
        assert_eq!(near(&[]), 0);
    }

    #[test]
    fn agrees_with_comparing_all_pairs() {
        let mut random = 88_172_645_463_325_252_u64;
        let mut hashes = Vec::new();
        for _ in 0..300 {
            random ^= random << 13;
            random ^= random >> 7;
            random ^= random << 17;
            hashes.push(random);
            let flips =
                (0..random % 6).fold(0, |flips, bit| flips | 1 << (random >> (6 * bit) & 63));
            hashes.push(random ^ flips);
        }
        let close = |&one: &u64| {
            hashes
                .iter()
                .filter(|&&other| (one ^ other).count_ones() <= 3)
                .count()
                > 1
        };
        let expected = hashes.iter().filter(|one| close(one)).count() as u64;
        assert!(expected > 100 && expected < 600, "{expected}");
        assert_eq!(near(&hashes), expected);
    }
}
