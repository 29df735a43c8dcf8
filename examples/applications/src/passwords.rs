//! Passwords: those that are too easy to guess, and good ones.

use std::path::Path;

use crate::words::{read, shown};
use crate::{Error, Random, Result};

/// Characters of good passwords.
const CHARACTERS: &[u8] = b"abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789!#%&*+-_";

/// Passwords that are refused, sorted and each once, and where they are from: the lines of `file`, or
/// else all words, with a capital, reversed, and with each digit after them.
///
/// # Errors
///
/// If the file cannot be read, or is empty.
pub fn forbidden(file: Option<&Path>, words: &[String]) -> Result<(Vec<String>, String)> {
    let (mut list, source) = match file {
        Some(path) => {
            let lines = read(path)?;
            let lines = lines.lines().filter(|line| !line.is_empty());
            (lines.map(String::from).collect(), shown(path))
        }
        None => {
            let list: Vec<String> = words.iter().flat_map(|word| derived(word)).collect();
            (list, "from the word list".into())
        }
    };
    if list.is_empty() {
        return Err(Error::Usage(format!(
            "{source} has no passwords: give a file with one on each line"
        )));
    }
    list.sort_unstable();
    list.dedup();
    Ok((list, source))
}

fn derived(word: &str) -> Vec<String> {
    let mut first = word.chars();
    let capital = first.next().map(|letter| letter.to_ascii_uppercase());
    let mut all = vec![
        word.into(),
        capital.into_iter().chain(first).collect(),
        word.chars().rev().collect(),
    ];
    all.extend((0..10).map(|digit| format!("{word}{digit}")));
    all
}

/// A password of 8 to 12 random characters.
pub fn good(random: &mut Random) -> String {
    let length = 8 + random.below(5);
    let mut character = |_| char::from(CHARACTERS[random.below(CHARACTERS.len() as u64) as usize]);
    (0..length).map(&mut character).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn thirteen_of_each_word() {
        let (list, _) = forbidden(None, &["secret".into(), "anna".into()]).unwrap();
        for password in ["secret", "Secret", "terces", "secret7", "anna0", "Anna"] {
            assert!(list.binary_search(&password.into()).is_ok(), "{password}");
        }
        // A palindrome is its own reverse.
        assert_eq!(list.len(), 25);
    }

    #[test]
    fn good_passwords_have_the_length() {
        let mut random = Random::new(1, 0);
        for _ in 0..100 {
            assert!((8..=12).contains(&good(&mut random).len()));
        }
    }
}
