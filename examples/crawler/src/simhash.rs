//! Fingerprints of texts that stay close when a text changes little.
//!
//! Charikar's simhash (2002): every shingle of three words is hashed, and each bit of the
//! fingerprint is what the majority of the hashes says. Two texts that share most shingles differ
//! in few bits.
//!
//! The same shingles make the [`Sketch`] by which a page is found to be new or not, with one
//! difference: there, words that begin with a digit are all the same. Calendars, counters and
//! sessions differ in numbers only.
//!
//! The text is collected and then read some kilobytes at a time, in steps that handle many bytes:
//! which bytes belong to words, as one bit each; the words, eight bytes at a time; the 64
//! majorities side by side in bit planes, where plane `k` holds bit `k` of all 64 counts, sixteen
//! hashes at a time.

use crate::sketch::{Sketch, Smallest};

/// In how many bits two fingerprints differ; up to 3 of 64 is "nearly the same text" (Manku, Jain,
/// Das Sarma: "Detecting near-duplicates for web crawling", 2007).
pub(crate) fn distance(one: u64, other: u64) -> u32 {
    (one ^ other).count_ones()
}

/// Any odd numbers will do; these are those of xxHash64.
const PRIMES: [u64; 3] = [
    0x9e37_79b1_85eb_ca87,
    0xc2b2_ae3d_27d4_eb4f,
    0x1656_67b1_9e37_79f9,
];

/// Takes a text in pieces.
#[derive(Debug, Default)]
pub(crate) struct Simhash {
    /// What was not read yet: it ends within a word, perhaps.
    text: Vec<u8>,
    /// The text is looked at when there is so much of it, in bytes.
    enough: usize,
    /// Room for the word that is moved to the front.
    open: Vec<u8>,
    /// Room for [`Words`].
    in_word: Vec<u64>,
    counts: Counts,
    smallest: Smallest,
    /// Between two readings the last two words, the older one first, as far as there were any.
    words: Vec<u64>,
}

/// Text is read when there is so much of it: what is in the nearest cache is read fastest.
const TOGETHER_BYTES: usize = 8 << 10;

impl Simhash {
    /// Adds a piece of text. A word may go on in the next piece. Case does not count, nor does what
    /// stands between words.
    ///
    /// A call of its own, so that the loop of the tokenizer that calls it stays small.
    #[inline(never)]
    pub(crate) fn text(&mut self, text: &[u8]) {
        for piece in text.chunks(TOGETHER_BYTES) {
            self.text.extend_from_slice(piece);
            if self.text.len() >= TOGETHER_BYTES.max(self.enough) {
                self.read_words();
            }
        }
    }

    /// Ends the word that the last piece may have left open.
    pub(crate) fn boundary(&mut self) {
        if self.text.last().is_some_and(|&byte| byte != b' ') {
            self.text.push(b' ');
        }
    }

    /// Reads all words but the last, which may go on.
    fn read_words(&mut self) {
        let end = self.text.iter().rposition(|&byte| !is_in_word(byte));
        let end = end.map_or(0, |end| end + 1);
        if end > 0 {
            self.open.extend_from_slice(&self.text[end..]);
            self.text.truncate(end);
            self.read_all();
            std::mem::swap(&mut self.text, &mut self.open);
        }
        // A very long word is looked through again when it is twice as long.
        self.enough = 2 * self.text.len();
    }

    fn read_all(&mut self) {
        self.words
            .extend(Words::new(&mut self.text, &mut self.in_word));
        for three in self.words.windows(3) {
            let hash = shingle(three[0], three[1], three[2]);
            self.counts.add(hash);
            self.smallest
                .add(if three.iter().any(|&word| is_number(word)) {
                    shingle(plain(three[0]), plain(three[1]), plain(three[2]))
                } else {
                    hash
                });
        }
        self.words.drain(..self.words.len().saturating_sub(2));
        self.text.clear();
    }

    /// The fingerprint, zero if there was no word, and the sketch; the next text may begin.
    pub(crate) fn finish(&mut self) -> (u64, Sketch) {
        self.read_all();
        self.enough = 0;
        for room in [&mut self.text, &mut self.open] {
            room.shrink_to(4 * TOGETHER_BYTES);
        }
        for room in [&mut self.in_word, &mut self.words] {
            room.shrink_to(TOGETHER_BYTES);
        }
        let mut counts = std::mem::take(&mut self.counts);
        if counts.total == 0 {
            // What is missing is zero, and stands behind.
            let (one, other) = match self.words[..] {
                [] => return (0, Sketch::of_nothing()),
                [one] => (one, 0),
                [one, other, ..] => (one, other),
            };
            counts.add(shingle(one, other, 0));
            self.smallest.add(shingle(plain(one), plain(other), 0));
        }
        self.words.clear();
        (counts.majority(), self.smallest.finish())
    }
}

/// Whether the word with this hash begins with a digit.
fn is_number(word: u64) -> bool {
    word & 1 == 1
}

/// The hash of a word, the same for all numbers.
fn plain(word: u64) -> u64 {
    if is_number(word) { 1 } else { word }
}

/// The order of the words counts.
fn shingle(older: u64, old: u64, word: u64) -> u64 {
    let both = older.wrapping_mul(PRIMES[1]) ^ old.wrapping_mul(PRIMES[2]).rotate_left(21);
    mix(both ^ word)
}

/// The finaliser of MurmurHash3.
fn mix(mut hash: u64) -> u64 {
    hash = (hash ^ hash >> 33).wrapping_mul(0xff51_afd7_ed55_8ccd);
    hash = (hash ^ hash >> 33).wrapping_mul(0xc4ce_b9fe_1a85_ec53);
    hash ^ hash >> 33
}

/// Bytes that are looked at together.
const BLOCK: usize = 64;

/// The words of a text, hashed. The lowest bit of a hash is set if the word begins with a digit.
struct Words<'a> {
    /// In lower case, with at least eight bytes behind the last word.
    text: &'a [u8],
    /// A bit for each byte: whether it belongs to a word.
    in_word: &'a [u64],
    /// The block that is looked at,
    block: usize,
    /// where in it words begin and end that were not taken yet,
    edges: u64,
    /// and whether its last byte is in a word.
    last: u64,
}

impl<'a> Words<'a> {
    fn new(text: &'a mut Vec<u8>, in_word: &'a mut Vec<u64>) -> Words<'a> {
        // One block more, without words: searches end there.
        text.resize(text.len().next_multiple_of(BLOCK) + BLOCK, 0);
        in_word.clear();
        in_word.extend(text.chunks_exact_mut(BLOCK).map(lower_case));
        Words {
            text,
            block: 0,
            edges: in_word.first().map_or(0, |bits| bits ^ bits << 1),
            last: in_word.first().map_or(0, |bits| bits >> (BLOCK - 1)),
            in_word,
        }
    }

    /// The next place where a word begins or ends.
    #[inline]
    fn edge(&mut self) -> Option<usize> {
        while self.edges == 0 {
            self.block += 1;
            let bits = *self.in_word.get(self.block)?;
            self.edges = bits ^ (bits << 1 | self.last);
            self.last = bits >> (BLOCK - 1);
        }
        let edge = self.block * BLOCK + self.edges.trailing_zeros() as usize;
        self.edges &= self.edges - 1;
        Some(edge)
    }
}

impl Iterator for Words<'_> {
    type Item = u64;

    #[inline]
    fn next(&mut self) -> Option<u64> {
        let (start, end) = (self.edge()?, self.edge()?);
        let mut hash = (end - start) as u64;
        for at in (start..end).step_by(8) {
            let eight = self.text[at..].first_chunk().copied().unwrap_or_default();
            let beyond = 8_usize.saturating_sub(end - at) as u32;
            let eight = u64::from_le_bytes(eight) << (8 * beyond);
            hash = (hash ^ eight).wrapping_mul(PRIMES[0]).rotate_left(29);
        }
        let is_number = self.text[start].is_ascii_digit();
        Some(hash & !1 | u64::from(is_number))
    }
}

/// As [`lower_case`] has it.
fn is_in_word(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || byte >= 0x80
}

/// Letters become lower case, and what is no letter, digit or beyond ASCII zero. Returns a bit for
/// each byte that is not zero then.
fn lower_case(block: &mut [u8]) -> u64 {
    for byte in block.iter_mut() {
        let lower = *byte | 0x20;
        let is_letter = lower.wrapping_sub(b'a') < 26;
        let is_other = byte.wrapping_sub(b'0') < 10 || *byte >= 0x80;
        let kept = if is_other { *byte } else { 0 };
        *byte = if is_letter { lower } else { kept };
    }
    const LOW: u64 = 0x7f7f_7f7f_7f7f_7f7f;
    // Brings the lowest bits of eight bytes together in the highest byte.
    const GATHER: u64 = 0x0102_0408_1020_4080;
    let (chunks, _) = block.as_chunks::<8>();
    chunks.iter().rev().fold(0, |bits, eight| {
        let eight = u64::from_le_bytes(*eight);
        let filled = (((eight & LOW) + LOW) | eight) & !LOW;
        bits << 8 | (filled >> 7).wrapping_mul(GATHER) >> 56
    })
}

/// Enough for 2^32 hashes: more text than a page may have.
const PLANES: usize = 32;

/// How many hashes are added to the planes at a time: four planes' worth.
const TOGETHER: usize = 16;

/// For each of 64 bits, how many hashes have it.
#[derive(Debug, Default)]
struct Counts {
    planes: [u64; PLANES],
    /// Hashes not yet in the planes: those up to `total % TOGETHER`.
    waiting: [u64; TOGETHER],
    total: u64,
}

impl Counts {
    fn add(&mut self, hash: u64) {
        let place = self.total as usize % TOGETHER;
        self.waiting[place] = hash;
        self.total += 1;
        if place == TOGETHER - 1 {
            self.add_waiting();
        }
    }

    /// Sixteen ones in each place make eight carries into the next plane, these four, two, and one.
    fn add_waiting(&mut self) {
        let mut carries = std::mem::take(&mut self.waiting);
        let (low, high) = self.planes.split_at_mut(4);
        for (plane, pairs) in low.iter_mut().zip([8, 4, 2, 1]) {
            for pair in 0..pairs {
                let (one, other) = (carries[2 * pair], carries[2 * pair + 1]);
                let half = one ^ other;
                carries[pair] = one & other | half & *plane;
                *plane ^= half;
            }
        }
        let mut carry = carries[0];
        for plane in high {
            let next = *plane & carry;
            *plane ^= carry;
            carry = next;
            if carry == 0 {
                break;
            }
        }
    }

    /// The bits that more than half of the hashes have.
    fn majority(mut self) -> u64 {
        self.add_waiting();
        let half = self.total / 2;
        let (mut more, mut equal) = (0, u64::MAX);
        for (weight, plane) in self.planes.iter().enumerate().rev() {
            let half = if half >> weight & 1 == 1 { u64::MAX } else { 0 };
            more |= equal & plane & !half;
            equal &= !(plane ^ half);
        }
        more
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn hash(text: &str) -> u64 {
        let mut simhash = Simhash::default();
        simhash.text(text.as_bytes());
        simhash.finish().0
    }

    /// A text of so many words, each from a small vocabulary.
    fn text(seed: u64, words: usize) -> Vec<String> {
        let word = |at: usize| format!("w{}", mix(seed ^ mix(at as u64 + 1)) % 997);
        (0..words).map(word).collect()
    }

    #[test]
    fn pieces_case_and_spacing_do_not_count() {
        let whole = hash("The quick brown fox, jumps over the lazy dog");
        let mut pieces = Simhash::default();
        for piece in [
            "THE qu",
            "ick\nbr",
            "own ",
            "",
            "fox -- jumps over  the",
            " lazy",
        ] {
            pieces.text(piece.as_bytes());
        }
        pieces.boundary();
        pieces.text(b"dog");
        assert_eq!(pieces.finish().0, whole);
        assert_ne!(hash("The quick brown fox, jumps over the crazy dog"), whole);
    }

    #[test]
    fn long_texts_are_read_in_parts_that_do_not_matter() {
        let mut words = text(7, 9000);
        words[4000] = "long".repeat(10_000);
        let (whole, all) = (words.join(" "), words.join("-<!"));
        // As it was defined before parts were: all words of one text.
        let hashes: Vec<u64> =
            Words::new(&mut whole.clone().into_bytes(), &mut Vec::new()).collect();
        let (mut counts, mut smallest) = (Counts::default(), Smallest::default());
        for three in hashes.windows(3) {
            counts.add(shingle(three[0], three[1], three[2]));
            let [one, two, last] = [three[0], three[1], three[2]].map(plain);
            smallest.add(shingle(one, two, last));
        }
        let sketch = smallest.finish();
        let expected = (counts.majority(), sketch);
        let mut simhash = Simhash::default();
        for step in [1, 2, 63, 4096, 8191, 8192, 8193, 100_000] {
            for text in [&whole, &all] {
                text.as_bytes()
                    .chunks(step)
                    .for_each(|piece| simhash.text(piece));
                assert_eq!(simhash.finish(), expected, "{step}");
            }
        }
        for word in &words {
            simhash.text(word.as_bytes());
            simhash.boundary();
        }
        assert_eq!(simhash.finish(), expected);
        assert!(simhash.text.capacity() <= 4 * TOGETHER_BYTES);
    }

    #[test]
    fn words_begin_and_end_anywhere() {
        fn words(text: &str) -> Vec<u64> {
            Words::new(&mut text.as_bytes().to_vec(), &mut Vec::new()).collect()
        }
        let long = "x".repeat(200);
        for before in 0..130 {
            for word in ["a", "Zz09", "eight888", "nine99999", "\u{fc}ber", &long] {
                let alone = words(&word.to_ascii_lowercase());
                assert_eq!(alone.len(), 1);
                let spaced = format!("{}{word}{}", " ".repeat(before), "@[`{/:".repeat(before));
                assert_eq!(words(&spaced), alone, "{before} {word}");
            }
        }
        let all = words("a b ab ba aa aaaaaaaa aaaaaaaab aaaaaaaaa 0 00 \u{e9}");
        for (at, one) in all.iter().enumerate() {
            assert!(!all[..at].contains(one), "{at}");
        }
        assert!(words("").is_empty() && words(&" ".repeat(64)).is_empty());
    }

    #[test]
    fn nothing_is_zero_and_short_texts_differ() {
        assert_eq!(hash(""), 0);
        assert_eq!(hash(" ,.- \n"), 0);
        let all = [
            hash("a"),
            hash("b"),
            hash("a b"),
            hash("b a"),
            hash("a b c"),
        ];
        for (at, one) in all.iter().enumerate() {
            assert_ne!(*one, 0);
            assert!(all[..at].iter().all(|other| distance(*one, *other) > 8));
        }
    }

    #[test]
    fn a_sketch_does_not_tell_numbers_apart() {
        fn both(text: &str) -> (u64, Sketch) {
            let mut simhash = Simhash::default();
            simhash.text(text.as_bytes());
            simhash.finish()
        }
        let (one, other) = (
            both("page 7 of 2nd part"),
            both("page 1234567890 of 3 part"),
        );
        assert_ne!(one.0, other.0);
        assert_eq!(one.1, other.1);
        assert_eq!(one.1.hashes().len(), 3);
        assert_ne!(one.1, both("page x of 3 part").1);
        assert_ne!(one.1, both("page 7 of x3 part").1);
        assert_eq!(both("7").1, both("8").1);
        assert_ne!(both("7").1, both("seven").1);
        assert_eq!(both("- !").1, Sketch::of_nothing());
    }

    #[test]
    fn the_planes_count_like_counters() {
        let mut planes = Counts::default();
        let mut counts = [0_i64; 64];
        for n in 0..1000_u64 {
            let hash = mix(n) & mix(n + 5000) | mix(n % 7);
            planes.add(hash);
            for (bit, count) in counts.iter_mut().enumerate() {
                *count += if hash >> bit & 1 == 1 { 1 } else { -1 };
            }
        }
        let expected = (0..64)
            .filter(|&bit| counts[bit] > 0)
            .fold(0, |bits, bit| bits | 1 << bit);
        assert_eq!(planes.majority(), expected);
    }

    #[test]
    fn near_texts_are_near_and_others_far() {
        let (mut near, mut farthest, mut nearest, rounds) = (0, 0, 64, 400);
        for seed in 0..rounds {
            let mut words = text(seed, 2000);
            let one = hash(&words.join(" "));
            words[300] = "changed".into();
            let changed = distance(one, hash(&words.join(" ")));
            near += u32::from(changed <= 3);
            farthest = farthest.max(changed);
            nearest = nearest.min(distance(one, hash(&text(seed + 1000, 2000).join(" "))));
        }
        // A changed word changes 3 shingles of 1998, which tips bits whose counts are nearly even.
        assert!(near >= 375, "{near} of {rounds}");
        assert!(farthest < nearest, "{farthest} {nearest}");
    }
}
