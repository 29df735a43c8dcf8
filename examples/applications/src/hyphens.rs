//! Hyphenation by patterns (Liang, 1983), and a simpler rule that gets most words right.
//!
//! A pattern has letters with digits between them. Wherever its letters occur in a word, its digits
//! apply; the largest digit at a place counts, and a word may break where it is odd. The short
//! patterns alone are the rule here. A word that all patterns together break elsewhere is an exception.

use std::collections::HashMap;
use std::path::Path;

use criba_filters::hash_key;

use crate::words::{read, shown};
use crate::{Error, Result};

/// Where Debian's package `hyphen-en-us` puts its patterns.
const DEBIAN_PATTERNS: &str = "/usr/share/hyphen/hyph_en_US.dic";
/// The longest patterns that belong to the rule: these get nine words in ten right.
const RULE_LETTERS: usize = 4;
/// Letters of a word before its first break, and after its last.
const LEFT_RIGHT: (usize, usize) = (2, 3);

/// Where words break: by rule, and rightly.
#[derive(Debug)]
pub struct Hyphens {
    /// Digits of each pattern, by its letters. Without any, exceptions are drawn.
    patterns: HashMap<Vec<u8>, Vec<u8>>,
    seed: u64,
    /// For the report.
    pub source: String,
}

impl Hyphens {
    /// The patterns of `file`, or of Debian; else one word in ten is drawn to be an exception.
    ///
    /// # Errors
    ///
    /// If a file cannot be read, or has no patterns.
    pub fn load(file: Option<&Path>, seed: u64) -> Result<Hyphens> {
        let debian = Path::new(DEBIAN_PATTERNS);
        let Some(path) = file.or_else(|| debian.exists().then_some(debian)) else {
            return Ok(Hyphens {
                patterns: HashMap::new(),
                seed,
                source: format!("one word in ten drawn, as {DEBIAN_PATTERNS} is missing"),
            });
        };
        let patterns: HashMap<_, _> = read(path)?.lines().filter_map(pattern).collect();
        let source = shown(path);
        if patterns.is_empty() {
            return Err(Error::Usage(format!(
                "{source} has no hyphenation patterns: give a file such as {DEBIAN_PATTERNS}, \
                 with one pattern (\"hy3ph\") on each line"
            )));
        }
        Ok(Hyphens {
            patterns,
            seed,
            source,
        })
    }

    /// The word with hyphens, by the rule alone.
    pub fn by_rule(&self, word: &str) -> String {
        match self.patterns.is_empty() {
            true => between_consonants(word),
            false => self.by_patterns(word, RULE_LETTERS),
        }
    }

    /// The word with hyphens where it rightly breaks.
    pub fn rightly(&self, word: &str) -> String {
        if !self.patterns.is_empty() {
            return self.by_patterns(word, usize::MAX);
        }
        let rule = between_consonants(word);
        let is_exception = hash_key(self.seed, word.as_bytes()).0.is_multiple_of(10);
        match (is_exception, rule.contains('-')) {
            (false, _) => rule,
            (true, true) => word.into(),
            (true, false) => with_hyphens(word, |at| at == 1),
        }
    }

    fn by_patterns(&self, word: &str, longest: usize) -> String {
        let letters = [b".", word.as_bytes(), b"."].concat();
        let mut digits = vec![0; letters.len() + 1];
        for from in 0..letters.len() {
            let end = letters.len().min(from.saturating_add(longest));
            for to in from + 1..=end {
                let pattern = self.patterns.get(&letters[from..to]);
                for (digit, new) in digits[from..].iter_mut().zip(pattern.into_iter().flatten()) {
                    *digit = (*digit).max(*new);
                }
            }
        }
        // The digit before letter `at` of the word is one further on, after the dot.
        let (left, right) = LEFT_RIGHT;
        let breaks = |at: usize| at >= left && at + right <= word.len() && digits[at + 1] % 2 == 1;
        with_hyphens(word, breaks)
    }
}

/// Letters and digits of a pattern of plain letters.
fn pattern(line: &str) -> Option<(Vec<u8>, Vec<u8>)> {
    let (mut letters, mut digits) = (Vec::new(), vec![0]);
    for byte in line.trim().bytes() {
        match byte {
            b'0'..=b'9' => *digits.last_mut()? = byte - b'0',
            b'a'..=b'z' | b'.' | b'\'' => {
                letters.push(byte);
                digits.push(0);
            }
            _ => return None,
        }
    }
    let is_pattern = !letters.is_empty() && digits.iter().any(|&digit| digit > 0);
    is_pattern.then_some((letters, digits))
}

/// The rule where there are no patterns: between two consonants that stand between vowels.
fn between_consonants(word: &str) -> String {
    let is_vowel = |letter: &u8| b"aeiouy".contains(letter);
    let letters = word.as_bytes();
    let breaks = |at: usize| {
        let around = at.checked_sub(2).and_then(|from| letters.get(from..at + 2));
        around.is_some_and(|around| {
            let vowels: Vec<bool> = around.iter().map(is_vowel).collect();
            vowels == [true, false, false, true]
        })
    };
    with_hyphens(word, breaks)
}

fn with_hyphens(word: &str, breaks: impl Fn(usize) -> bool) -> String {
    let mut out = String::with_capacity(word.len() + 4);
    for (at, letter) in word.char_indices() {
        if breaks(at) {
            out.push('-');
        }
        out.push(letter);
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn liangs_example() {
        // Liang's thesis, 1983: the patterns that meet in "hyphenation" give hy-phen-ation.
        let patterns = "hy3ph he2n hena4 hen5at 1na n2at 1tio 2io o2n";
        let hyphens = Hyphens {
            patterns: patterns.split(' ').filter_map(pattern).collect(),
            seed: 0,
            source: String::new(),
        };
        assert_eq!(hyphens.rightly("hyphenation"), "hy-phen-ation");
        // Of these patterns only hen5at is longer than those of the rule.
        assert_eq!(hyphens.by_rule("hyphenation"), "hy-phenation");
    }

    #[test]
    fn one_in_ten_is_an_exception() {
        let hyphens = Hyphens {
            patterns: HashMap::new(),
            seed: 1,
            source: String::new(),
        };
        let words = (0..10_000).map(|number| format!("winter{number}"));
        let exceptions = words.filter(|word| hyphens.by_rule(word) != hyphens.rightly(word));
        let count = exceptions.count();
        assert!((850..1_150).contains(&count), "{count}");
        assert_eq!(hyphens.by_rule("winter"), "win-ter");
    }

    #[test]
    fn what_is_no_pattern_is_left_out() {
        for line in ["UTF-8", "LEFTHYPHENMIN 2", "", "12", "abc", "a2\u{fb01}"] {
            assert_eq!(pattern(line), None, "{line}");
        }
    }
}
