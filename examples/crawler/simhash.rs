//! Fingerprints of texts that stay close when a text changes little.
//!
//! Charikar's simhash (2002): every shingle of three words is hashed, and each bit of the fingerprint is
//! what the majority of the hashes says. Two texts that share most shingles differ in few bits.
//!
//! The 64 majorities are counted side by side in bit planes: plane `k` holds bit `k` of all 64 counts.
//! Seven hashes at a time become three planes by four full adders, whose carries then run through.

/// In how many bits two fingerprints differ; up to 3 of 64 is "nearly the same text" (Manku, Jain, Das
/// Sarma: "Detecting near-duplicates for web crawling", 2007).
pub(crate) fn distance(one: u64, other: u64) -> u32 {
    (one ^ other).count_ones()
}

/// Enough for 2^32 shingles: more text than a page may have.
const PLANES: usize = 32;

/// Any odd numbers will do; these are those of xxHash64.
const PRIMES: [u64; 3] = [
    0x9e37_79b1_85eb_ca87,
    0xc2b2_ae3d_27d4_eb4f,
    0x1656_67b1_9e37_79f9,
];

/// Takes a text in pieces.
#[derive(Debug, Clone, Default)]
pub(crate) struct Simhash {
    planes: [u64; PLANES],
    /// Hashes not yet in the planes: those up to `shingles % 7`.
    waiting: [u64; 7],
    shingles: u64,
    /// The hash of the word so far; zero between words.
    word: u64,
    /// The two words before.
    before: [u64; 2],
    words: u64,
}

impl Simhash {
    /// Adds a piece of text. A word may go on in the next piece. Case does not count, nor does what
    /// stands between words.
    pub(crate) fn text(&mut self, text: &[u8]) {
        let mut word = self.word;
        for &byte in text {
            let class = CLASS[usize::from(byte)];
            if class != 0 {
                // Only cheap steps for a byte; the hash of the shingle mixes them.
                word = (word.rotate_left(7) ^ u64::from(class)).wrapping_add(PRIMES[0]);
            } else if word != 0 {
                self.end_of(word);
                word = 0;
            }
        }
        self.word = word;
    }

    /// Ends the word that the last piece may have left open.
    pub(crate) fn boundary(&mut self) {
        if self.word != 0 {
            let word = std::mem::take(&mut self.word);
            self.end_of(word);
        }
    }

    /// The fingerprint; zero if there was no word.
    pub(crate) fn finish(mut self) -> u64 {
        self.boundary();
        match (self.words, self.shingles) {
            (0, _) => return 0,
            (_, 0) => self.add(mix(self.before[0] ^ self.before[1].rotate_left(21))),
            _ => {}
        }
        for hash in std::mem::take(&mut self.waiting) {
            self.carry(0, hash);
        }
        self.majority()
    }

    fn end_of(&mut self, word: u64) {
        self.words += 1;
        let [older, old] = self.before;
        if self.words > 2 {
            let both = older.wrapping_mul(PRIMES[1]) ^ old.wrapping_mul(PRIMES[2]).rotate_left(21);
            self.add(mix(both ^ word));
        }
        self.before = [old, word];
    }

    fn add(&mut self, hash: u64) {
        let place = (self.shingles % 7) as usize;
        self.waiting[place] = hash;
        self.shingles += 1;
        if place == 6 {
            let [a, b, c, d, e, f, g] = std::mem::take(&mut self.waiting);
            let (sum_one, carry_one) = full_adder(a, b, c);
            let (sum_two, carry_two) = full_adder(d, e, f);
            let (ones, carry_three) = full_adder(sum_one, sum_two, g);
            let (twos, fours) = full_adder(carry_one, carry_two, carry_three);
            self.carry(0, ones);
            self.carry(1, twos);
            self.carry(2, fours);
        }
    }

    /// Adds one to the counts of the bits that are set, in units of plane `from`.
    fn carry(&mut self, from: usize, bits: u64) {
        let mut carry = bits;
        for plane in &mut self.planes[from..] {
            let next = *plane & carry;
            *plane ^= carry;
            carry = next;
            if carry == 0 {
                break;
            }
        }
    }

    fn majority(&self) -> u64 {
        let count = |bit: usize| -> u64 {
            let planes = self.planes.iter().zip(0..);
            planes
                .map(|(plane, weight)| (plane >> bit & 1) << weight)
                .sum()
        };
        (0..64)
            .filter(|&bit| 2 * count(bit) > self.shingles)
            .fold(0, |bits, bit| bits | 1 << bit)
    }
}

/// Adds three bits in each of 64 places: sums and carries.
fn full_adder(a: u64, b: u64, c: u64) -> (u64, u64) {
    let half = a ^ b;
    (half ^ c, a & b | half & c)
}

/// The finaliser of MurmurHash3.
fn mix(mut hash: u64) -> u64 {
    hash = (hash ^ hash >> 33).wrapping_mul(0xff51_afd7_ed55_8ccd);
    hash = (hash ^ hash >> 33).wrapping_mul(0xc4ce_b9fe_1a85_ec53);
    hash ^ hash >> 33
}

/// What a byte counts as within a word, zero between words: letters in lower case, digits, and all that
/// is not ASCII.
const CLASS: [u8; 256] = {
    let mut class = [0; 256];
    let mut byte = 0;
    while byte < 256 {
        let value = byte as u8;
        if value.is_ascii_alphanumeric() || value >= 0x80 {
            class[byte] = value.to_ascii_lowercase();
        }
        byte += 1;
    }
    class
};

#[cfg(test)]
mod tests {
    use super::*;

    fn hash(text: &str) -> u64 {
        let mut simhash = Simhash::default();
        simhash.text(text.as_bytes());
        simhash.finish()
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
        assert_eq!(pieces.finish(), whole);
        assert_ne!(hash("The quick brown fox, jumps over the crazy dog"), whole);
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
    fn the_planes_count_like_counters() {
        let mut simhash = Simhash::default();
        let mut counts = [0_i64; 64];
        for n in 0..1000_u64 {
            let hash = mix(n) & mix(n + 5000) | mix(n % 7);
            simhash.add(hash);
            for (bit, count) in counts.iter_mut().enumerate() {
                *count += if hash >> bit & 1 == 1 { 1 } else { -1 };
            }
        }
        let expected = (0..64)
            .filter(|&bit| counts[bit] > 0)
            .fold(0, |bits, bit| bits | 1 << bit);
        simhash.words = 1000;
        assert_eq!(simhash.finish(), expected);
    }

    #[test]
    fn near_texts_are_near_and_others_far() {
        let (mut near, mut farthest, mut nearest, rounds) = (0, 0, 64, 100);
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
        assert!(near >= 95, "{near} of {rounds}");
        assert!(farthest < nearest, "{farthest} {nearest}");
    }
}
