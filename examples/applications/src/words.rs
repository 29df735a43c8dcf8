//! Words: a list of them, and the words of a text, from files or made up.
//!
//! A word is in lower case and consists of the letters a to z and the apostrophe. Words with other
//! letters are left out, as the misspellings of [`edits`](crate::edits) know no others.

use std::path::Path;

use common::escape::Plain;

use crate::{Error, Options, Random, Result};

/// Where Debian's packages `wamerican` and `wbritish` put their list.
const DEBIAN_WORDS: &str = "/usr/share/dict/words";
/// A text that every Debian has.
const DEBIAN_TEXT: &str = "/usr/share/common-licenses/GPL-3";
/// A text that this project has.
const OWN_TEXT: &str = include_str!("../../../README.md");

/// Words, and where they are from.
#[derive(Debug)]
pub struct Words {
    /// A list is sorted and has each word once; a text has its words as they come.
    pub words: Vec<String>,
    /// For the report.
    pub source: String,
}

impl Words {
    /// A list: the words of `file`, or of Debian's list, or else made up, with the words of the
    /// text that [`text`](Self::text) has without a file.
    ///
    /// With [`Options::small`] it is a part of the list.
    ///
    /// # Errors
    ///
    /// If a file cannot be read, or has fewer than 100 words.
    pub fn list(file: Option<&Path>, options: &Options) -> Result<Words> {
        let debian = Path::new(DEBIAN_WORDS);
        let mut list = match file.or_else(|| debian.exists().then_some(debian)) {
            Some(path) => Words {
                words: read(path)?.lines().filter_map(word).collect(),
                source: shown(path),
            },
            None => made_up(options.seed),
        };
        list.sort();
        if list.words.len() < 100 {
            let (count, source) = (list.words.len(), &list.source);
            return Err(Error::Usage(format!(
                "{source} has only {count} words of the letters a to z: give a list with at least 100, \
                 one on each line"
            )));
        }
        let step = list
            .words
            .len()
            .div_ceil(options.size(u64::MAX, 4_000) as usize);
        list.words = list.words.into_iter().step_by(step).collect();
        if file.is_none() && !debian.exists() {
            // So that a text has words that are in the list.
            list.words.extend(Words::text(None)?.words);
            list.sort();
        }
        Ok(list)
    }

    fn sort(&mut self) {
        self.words.sort_unstable();
        self.words.dedup();
    }

    /// The words of a text, as they come: of `file`, or of the GPL in Debian, or else of this
    /// project's first page.
    ///
    /// # Errors
    ///
    /// If a file cannot be read, or has no words.
    pub fn text(file: Option<&Path>) -> Result<Words> {
        let debian = Path::new(DEBIAN_TEXT);
        let (text, source) = match file.or_else(|| debian.exists().then_some(debian)) {
            Some(path) => (read(path)?, shown(path)),
            None => (OWN_TEXT.into(), "README.md of criba".into()),
        };
        let is_outside = |letter: char| !letter.is_alphanumeric() && letter != '\'';
        let words: Vec<String> = text.split(is_outside).filter_map(word).collect();
        if words.is_empty() {
            return Err(Error::Usage(format!(
                "{source} has no words of the letters a to z: give a text in English"
            )));
        }
        Ok(Words { words, source })
    }
}

/// A file that the user named, or one of Debian.
///
/// # Errors
///
/// If it cannot be read.
pub(crate) fn read(path: &Path) -> Result<String> {
    #[expect(clippy::disallowed_methods, reason = "the user names this file")]
    let bytes = std::fs::read(path).map_err(Error::file(path))?;
    Ok(String::from_utf8_lossy(&bytes).into_owned())
}

/// The name of a file, fit for a terminal.
pub(crate) fn shown(path: &Path) -> String {
    Plain(&path.display().to_string()).to_string()
}

/// In lower case and without quotes around it, if it has no other letters.
fn word(text: &str) -> Option<String> {
    let word = text.trim().trim_matches('\'').to_lowercase();
    let is_letter = |letter: u8| letter.is_ascii_lowercase() || letter == b'\'';
    (!word.is_empty() && word.bytes().all(is_letter)).then_some(word)
}

/// About 100,000 strings of syllables, many with an ending; some are one edit away from others.
fn made_up(seed: u64) -> Words {
    const ONSETS: &[u8] = b"bcdfghlmnprstvw";
    const CORES: &[u8] = b"aeiou";
    const CODAS: [&str; 8] = ["", "", "n", "r", "t", "l", "nd", "st"];
    const ENDINGS: [&str; 8] = ["", "", "", "s", "ed", "ing", "er", "'s"];
    let mut random = Random::new(seed, 100);
    let mut below = |bound: usize| random.below(bound as u64) as usize;
    let mut made = |number: usize| {
        let mut word = String::new();
        for _ in 0..2 + number % 3 {
            word.push(char::from(ONSETS[below(ONSETS.len())]));
            word.push(char::from(CORES[below(CORES.len())]));
        }
        word + CODAS[below(CODAS.len())] + ENDINGS[below(ENDINGS.len())]
    };
    Words {
        words: (0..120_000).map(&mut made).collect(),
        source: format!("made up from seed {seed}, as {DEBIAN_WORDS} is missing"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_are_of_plain_letters() {
        assert_eq!(word(" 'Don't' "), Some("don't".into()));
        for other in ["café", "", "''", "x2"] {
            assert_eq!(word(other), None, "{other}");
        }
    }

    #[test]
    fn made_up_words_repeat_and_differ() {
        let mut words = made_up(7).words;
        assert_eq!(words, made_up(7).words);
        words.sort_unstable();
        words.dedup();
        assert!((90_000..120_000).contains(&words.len()), "{}", words.len());
    }
}
