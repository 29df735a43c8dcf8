//! What was seen in a group of pages, in little memory, and whether a page brings something new.
//!
//! A group keeps the smallest distinct hashes of all sketches of its pages ([`HASHES_MAX`] at
//! most). Once it is full, its largest hash is its *reach*: below it, the group knows every shingle
//! that a sketch has brought; above it, it knows nothing. So a page is judged by those of its
//! hashes that lie within reach. A sketch holds only the smallest hashes of its page, so a shingle
//! of a long page may look unseen once more; never the other way.
//!
//! A page is new when at least a quarter of the hashes within reach were not seen. With "most of
//! them", four of five pages of the JDK's documentation are old: headings, navigation and footers
//! are the larger part of a short page. The text of a trap is finite once numbers count as one word
//! (`simhash.rs`), so its share of unseen shingles falls to nearly nothing.

use common::codec::{Malformed, Reader};

use crate::sketch::Sketch;

/// Hashes that a group keeps: 4 KiB.
pub(crate) const HASHES_MAX: usize = 1024;

/// With fewer hashes within reach, a page is not judged: of a very large group, one or two of a
/// page's hashes are within reach, and these say little.
const JUDGED_MIN: usize = 4;

/// A page is new if one hash of that many was not seen.
const NEW_PART: usize = 4;

/// What a page is to a group.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Verdict {
    /// A good part of it was not seen in the group.
    New,
    /// Nearly all of it was.
    Old,
    /// There is too little to compare.
    Unknown,
}

/// What was seen in a group.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Known {
    /// Ascending and distinct.
    hashes: Vec<u32>,
}

impl Known {
    /// Whether a page brings something new to the group.
    pub(crate) fn judge(&self, page: &Sketch) -> Verdict {
        let within = match self.hashes.last() {
            Some(&reach) if self.hashes.len() == HASHES_MAX => {
                let end = page.hashes().partition_point(|&hash| hash <= reach);
                &page.hashes()[..end]
            }
            _ => page.hashes(),
        };
        // A short page is within reach as a whole, and so may be judged by all there is of it.
        let enough = page.hashes().len().min(JUDGED_MIN);
        if within.is_empty() || within.len() < enough {
            return Verdict::Unknown;
        }
        let unseen = within.iter().filter(|hash| !self.has(hash)).count();
        if unseen * NEW_PART >= within.len() {
            Verdict::New
        } else {
            Verdict::Old
        }
    }

    fn has(&self, hash: &u32) -> bool {
        self.hashes.binary_search(hash).is_ok()
    }

    /// Adds what a page brings; whether anything changed.
    pub(crate) fn add(&mut self, page: &Sketch) -> bool {
        let mut has_changed = false;
        for &hash in page.hashes() {
            let is_full = self.hashes.len() == HASHES_MAX;
            if is_full && self.hashes.last().is_some_and(|&reach| hash >= reach) {
                break;
            }
            if let Err(place) = self.hashes.binary_search(&hash) {
                if is_full {
                    self.hashes.pop();
                }
                self.hashes.insert(place, hash);
                has_changed = true;
            }
        }
        has_changed
    }

    /// At most `4 * HASHES_MAX` bytes.
    pub(crate) fn encode(&self) -> Vec<u8> {
        let mut out = Vec::with_capacity(4 * self.hashes.len());
        for hash in &self.hashes {
            out.extend_from_slice(&hash.to_le_bytes());
        }
        out
    }

    /// The reverse of [`Known::encode`].
    pub(crate) fn decode(bytes: &[u8]) -> Result<Known, Malformed> {
        if bytes.len() > 4 * HASHES_MAX {
            return Err(Malformed);
        }
        let mut reader = Reader(bytes);
        let mut hashes = Vec::with_capacity(bytes.len() / 4);
        while reader.end().is_err() {
            let hash = u32::from_le_bytes(reader.array()?);
            if hashes.last().is_some_and(|&last| last >= hash) {
                return Err(Malformed);
            }
            hashes.push(hash);
        }
        Ok(Known { hashes })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::simhash::Simhash;

    fn sketch(text: &str) -> Sketch {
        let mut simhash = Simhash::default();
        simhash.text(text.as_bytes());
        simhash.finish().1
    }

    /// A text of words that depend on a seed.
    fn words(seed: usize, count: usize) -> String {
        let word = |at: usize| format!("w{} ", (seed * 7919 + at * 104_729) % 100_003);
        (0..count).map(word).collect()
    }

    #[test]
    fn a_page_is_new_by_the_part_that_was_not_seen() {
        let mut known = Known::default();
        let common = words(1, 300);
        assert_eq!(known.judge(&sketch(&common)), Verdict::New);
        assert!(known.add(&sketch(&common)));
        assert_eq!(known.judge(&sketch(&common)), Verdict::Old);
        assert!(!known.add(&sketch(&common)));
        // Shares of a tenth and of a half.
        let part = |seed, count| common.clone() + &words(seed, count);
        assert_eq!(known.judge(&sketch(&part(2, 33))), Verdict::Old);
        assert_eq!(known.judge(&sketch(&part(3, 300))), Verdict::New);
    }

    #[test]
    fn numbers_are_one_word_to_it() {
        let month = |year: u32, name: &str| {
            let days: String = (1..=31).map(|day| format!("{year}-{day} ")).collect();
            format!("{name} {year} Mo Tu We Th Fr Sa Su {days} next previous")
        };
        let mut known = Known::default();
        known.add(&sketch(&month(2026, "January")));
        assert_eq!(known.judge(&sketch(&month(2027, "January"))), Verdict::Old);
        known.add(&sketch(&month(2026, "February")));
        assert_eq!(known.judge(&sketch(&month(1, "February"))), Verdict::Old);
    }

    #[test]
    fn pages_without_text_are_alike_and_files_are_not_judged() {
        let mut known = Known::default();
        assert_eq!(known.judge(&Sketch::default()), Verdict::Unknown);
        assert_eq!(known.judge(&sketch(" ,;- ")), Verdict::New);
        known.add(&sketch(""));
        for seed in 0..100 {
            known.add(&sketch(&words(seed, 300)));
        }
        assert_eq!(known.hashes.len(), HASHES_MAX);
        assert_eq!(known.judge(&sketch("  ")), Verdict::Old);
        known.add(&sketch("One"));
        assert_eq!(known.judge(&sketch("One")), known.judge(&sketch("one.")));
    }

    #[test]
    fn a_full_group_judges_within_its_reach() {
        let mut known = Known::default();
        for seed in 0..2000 {
            known.add(&sketch(&words(seed, 400)));
            assert!(known.hashes.len() <= HASHES_MAX);
            assert!(known.hashes.is_sorted_by(|one, other| one < other));
        }
        // Pages with few shingles have too few within reach, and long ones enough.
        let mut judged = [0; 3];
        for seed in 5000..5200 {
            judged[known.judge(&sketch(&words(seed, 20))) as usize] += 1;
        }
        assert_eq!(judged[Verdict::Unknown as usize], 200, "{judged:?}");
        let mut smallest = crate::sketch::Smallest::default();
        known
            .hashes
            .iter()
            .take(32)
            .for_each(|&hash| smallest.add(u64::from(hash) << 32));
        assert_eq!(known.judge(&smallest.finish()), Verdict::Old);
        known
            .hashes
            .iter()
            .take(32)
            .for_each(|&hash| smallest.add(u64::from(hash + 1) << 32));
        assert_eq!(known.judge(&smallest.finish()), Verdict::New);
    }

    #[test]
    fn bytes_come_back_and_others_are_refused() {
        let mut known = Known::default();
        for seed in 0..50 {
            assert_eq!(Known::decode(&known.encode()), Ok(known.clone()));
            known.add(&sketch(&words(seed, 100)));
        }
        let bytes = known.encode();
        assert_eq!(bytes.len(), 4 * HASHES_MAX);
        for len in 0..bytes.len() {
            let cut = Known::decode(&bytes[..len]);
            assert_eq!(cut.is_ok(), len % 4 == 0, "{len}");
        }
        assert_eq!(
            Known::decode(&[bytes, vec![0xff; 4]].concat()),
            Err(Malformed)
        );
        assert_eq!(Known::decode(&[2, 0, 0, 0, 1, 0, 0, 0]), Err(Malformed));
        assert_eq!(Known::decode(&[1, 0, 0, 0, 1, 0, 0, 0]), Err(Malformed));
    }
}
