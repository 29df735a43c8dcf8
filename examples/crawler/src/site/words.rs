//! Numbers and words from a seed.

/// SplitMix64 (Steele, Lea, Flood, 2014).
#[derive(Debug, Clone)]
pub(super) struct Random(pub(super) u64);

impl Random {
    pub(super) fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.0;
        mixed = (mixed ^ mixed >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ mixed >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ mixed >> 31
    }

    /// A number below `bound`, which is not zero.
    pub(super) fn below(&mut self, bound: usize) -> usize {
        usize::try_from(self.next() % bound as u64).unwrap_or(0)
    }

    /// A paragraph of so many words.
    pub(super) fn paragraph(&mut self, words: usize) -> String {
        let words: Vec<String> = (0..words).map(|_| self.word()).collect();
        format!("<p>{}.</p>\n", words.join(" "))
    }

    fn word(&mut self) -> String {
        const SYLLABLES: [&str; 16] = [
            "ba", "cri", "do", "fel", "ga", "hin", "ka", "lo", "mer", "nu", "pa", "ri", "so", "ta",
            "ver", "zu",
        ];
        let count = 1 + self.below(3);
        (0..count)
            .map(|_| SYLLABLES[self.below(SYLLABLES.len())])
            .collect()
    }
}
