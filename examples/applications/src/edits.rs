//! Misspellings: all strings at edit distance 1 from a word, and one of them at random.
//!
//! The four edits are those of Damerau, 1964: a letter is missing, two neighbours are swapped, a letter
//! is wrong, a letter is too many. Norvig's corrector (2007) takes them back the same way.

use crate::Random;

/// The letters of words.
pub const LETTERS: &[u8; 27] = b"abcdefghijklmnopqrstuvwxyz'";

/// Calls `each` with every distinct string that one edit makes of the word, and with no other.
///
/// The edits are undone by edits: a word is among the candidates of each of its misspellings.
pub fn for_each_edit(word: &[u8], mut each: impl FnMut(&[u8])) {
    let mut edited = Vec::with_capacity(word.len() + 1);
    for at in 0..word.len() {
        // Of equal neighbours, the first stands for all: any of them taken out leaves the same.
        if at == 0 || word[at] != word[at - 1] {
            edited.clear();
            edited.extend_from_slice(&word[..at]);
            edited.extend_from_slice(&word[at + 1..]);
            each(&edited);
        }
    }
    edited.clear();
    edited.extend_from_slice(word);
    for at in 1..word.len() {
        if word[at] != word[at - 1] {
            edited.swap(at - 1, at);
            each(&edited);
            edited.swap(at - 1, at);
        }
    }
    for at in 0..word.len() {
        for &letter in LETTERS.iter().filter(|&&letter| letter != word[at]) {
            edited[at] = letter;
            each(&edited);
        }
        edited[at] = word[at];
    }
    for at in 0..=word.len() {
        // A letter before an equal one makes the same as the letter after it.
        let next = word.get(at);
        for &letter in LETTERS.iter().filter(|&letter| Some(letter) != next) {
            edited.clear();
            edited.extend_from_slice(&word[..at]);
            edited.push(letter);
            edited.extend_from_slice(&word[at..]);
            each(&edited);
        }
    }
}

/// How many strings [`for_each_edit`] makes: with `n` letters, `r` runs of equal letters and an
/// alphabet of `a`, these are `r` deletions, `r - 1` swaps, `(a - 1) n` replacements, and
/// `(a - 1) n + a` insertions.
pub fn edits(word: &[u8]) -> u64 {
    let others = LETTERS.len() as u64 - 1;
    let runs = word.chunk_by(|one, next| one == next).count() as u64;
    2 * others * word.len() as u64 + others + 2 * runs
}

/// The word with one random edit; each of the four kinds comes as often as any other.
///
/// A word of one letter is not made empty.
pub fn misspelled(word: &str, random: &mut Random) -> String {
    let letters = word.as_bytes();
    loop {
        let mut edited = letters.to_vec();
        let mut place = |places: usize| random.below(places as u64) as usize;
        match place(4) {
            0 if letters.len() > 1 => {
                edited.remove(place(letters.len()));
            }
            1 if letters.len() > 1 => {
                let at = 1 + place(letters.len() - 1);
                edited.swap(at - 1, at);
            }
            2 => edited[place(letters.len())] = LETTERS[place(LETTERS.len())],
            3 => edited.insert(place(letters.len() + 1), LETTERS[place(LETTERS.len())]),
            _ => continue,
        }
        if edited != letters {
            return String::from_utf8_lossy(&edited).into_owned();
        }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use super::*;

    fn all(word: &str) -> Vec<Vec<u8>> {
        let mut all = Vec::new();
        for_each_edit(word.as_bytes(), |edited| all.push(edited.to_vec()));
        all
    }

    #[test]
    fn edits_are_distinct_counted_and_undone() {
        for word in ["a", "cat", "aa", "committee", "don't"] {
            let edited = all(word);
            let distinct: HashSet<_> = edited.iter().collect();
            assert_eq!(distinct.len(), edited.len(), "{word}");
            assert_eq!(edits(word.as_bytes()), edited.len() as u64, "{word}");
            assert!(!edited.contains(&word.as_bytes().to_vec()));
            for other in edited.iter().filter(|other| !other.is_empty()) {
                let back = all(std::str::from_utf8(other).unwrap());
                assert!(back.contains(&word.as_bytes().to_vec()), "{word}");
            }
        }
    }

    #[test]
    fn a_misspelling_is_one_edit_away() {
        let mut random = Random::new(1, 0);
        for word in ["a", "aa", "banana"] {
            for _ in 0..200 {
                let wrong = misspelled(word, &mut random);
                assert!(all(word).contains(&wrong.into_bytes()), "{word}");
            }
        }
    }
}
