//! Names with their frequencies, from a file or made up, and the bigrams of a name.
//!
//! A file has one name on each line, and after it, where it is known, how frequent the name is. The lists
//! of the census of the United States of 1990 have this form (`SMITH 1.006 1.006 1`). A list without
//! frequencies, such as `propernames` of Debian's package `miscfiles`, gets them by Zipf's law.

use std::collections::BTreeMap;
use std::path::Path;

use common::escape::Plain;

use crate::{Error, Options, Random, Result};

/// Fewer names than this make no study.
const FEWEST: usize = 50;

/// A name and its share of all people.
#[derive(Debug, Clone, PartialEq)]
pub struct Name {
    /// In lower case, letters only.
    pub text: String,
    /// All shares together are 1.
    pub share: f64,
}

/// Names, the most frequent one first.
#[derive(Debug)]
pub struct Names {
    /// Each name is there once.
    pub names: Vec<Name>,
    /// Where the names are from: for the report.
    pub source: String,
}

impl Names {
    /// The most frequent names of `file`, or names that are made up: 1,000 of them, or 200 with
    /// [`Options::small`].
    ///
    /// # Errors
    ///
    /// If the file cannot be read, or is no such list.
    pub fn load(file: Option<&Path>, options: &Options) -> Result<Names> {
        let most = options.size(1_000, 200) as usize;
        let mut random = Random::new(options.seed, u64::MAX);
        let Some(path) = file else {
            let frequencies = zipf_order(made_up(most, &mut random), &mut random);
            let source = format!("made up from seed {}", options.seed);
            return Ok(Names::new(frequencies, most, source));
        };
        #[expect(clippy::disallowed_methods, reason = "the user names this file")]
        let bytes = std::fs::read(path).map_err(Error::file(path))?;
        let source = Plain(&path.display().to_string()).to_string();
        let frequencies = parse(&String::from_utf8_lossy(&bytes), &mut random)
            .map_err(|problem| Error::Usage(format!("{source}: {problem}")))?;
        Ok(Names::new(frequencies, most, source))
    }

    fn new(frequencies: BTreeMap<String, f64>, most: usize, source: String) -> Names {
        let mut names: Vec<Name> = frequencies
            .into_iter()
            .map(|(text, share)| Name { text, share })
            .collect();
        // The sort is stable: names of equal frequency stay in the order of the alphabet.
        names.sort_by(|a, b| b.share.total_cmp(&a.share));
        names.truncate(most);
        let all: f64 = names.iter().map(|name| name.share).sum();
        for name in &mut names {
            name.share /= all;
        }
        Names { names, source }
    }

    /// Draws the name of a person, by frequency: the place of the name in the list.
    pub fn draw(&self, random: &mut Random) -> usize {
        let mut rest = random.share();
        let last = self.names.len() - 1;
        let found = self.names.iter().position(|name| {
            rest -= name.share;
            rest < 0.0
        });
        found.unwrap_or(last)
    }

    /// So many different e-mail addresses, made from pairs of names.
    pub fn addresses(&self, count: u64) -> Vec<String> {
        let names = self.names.len() as u64;
        let name = |place: u64| &self.names[(place % names) as usize].text;
        let address = |number: u64| {
            let (first, last) = (name(number), name(number / names));
            format!("{first}.{last}{}@example.org", number / (names * names))
        };
        (0..count).map(address).collect()
    }
}

/// The distinct bigrams of a name with a blank at both ends: ` a`, `an`, `nn`, `n ` for "ann".
pub fn bigrams(name: &str) -> Vec<String> {
    let letters: Vec<char> = format!(" {name} ").chars().collect();
    let mut bigrams: Vec<String> = letters
        .windows(2)
        .map(|pair| pair.iter().collect())
        .collect();
    bigrams.sort_unstable();
    bigrams.dedup();
    bigrams
}

/// The names of a list with their frequencies, or a problem and what to do about it.
fn parse(text: &str, random: &mut Random) -> Parsed {
    let mut frequencies = BTreeMap::new();
    // The first line with a frequency, and the first without.
    let (mut with, mut without) = (None, None);
    for (number, line) in (1_u64..).zip(text.lines()) {
        let mut fields = line.split_whitespace();
        let Some(first) = fields.next() else { continue };
        let name = letters(first);
        if name.is_empty() {
            return Err(format!(
                "line {number} has no letters: put one name on each line"
            ));
        }
        let frequency = match fields.next() {
            Some(field) => {
                with.get_or_insert(number);
                field.parse().unwrap_or(f64::NAN)
            }
            None => {
                without.get_or_insert(number);
                1.0
            }
        };
        if !(frequency.is_finite() && frequency >= 0.0) {
            return Err(format!(
                "line {number} has no number after the name: put the frequency there, or nothing"
            ));
        }
        *frequencies.entry(name).or_insert(0.0) += frequency;
    }
    if let (Some(with), Some(without)) = (with, without) {
        return Err(format!(
            "line {with} has a frequency and line {without} has none: give it for all names, or for none"
        ));
    }
    frequencies.retain(|_, frequency| *frequency > 0.0);
    if frequencies.len() < FEWEST {
        return Err(format!(
            "there are only {} names: give a list of at least {FEWEST}",
            frequencies.len()
        ));
    }
    match without {
        Some(_) => Ok(zipf_order(frequencies.into_keys().collect(), random)),
        None => Ok(frequencies),
    }
}

type Parsed = std::result::Result<BTreeMap<String, f64>, String>;

fn letters(field: &str) -> String {
    let letters = field.chars().filter(|letter| letter.is_alphabetic());
    letters.flat_map(char::to_lowercase).collect()
}

/// The names in random order, with frequencies by Zipf's law: 1, 1/2, 1/3 and so on.
fn zipf_order(mut names: Vec<String>, random: &mut Random) -> BTreeMap<String, f64> {
    random.shuffle(&mut names);
    let frequencies = (1..).map(|rank: u32| 1.0 / f64::from(rank));
    names.into_iter().zip(frequencies).collect()
}

/// Distinct names of two or three syllables.
fn made_up(count: usize, random: &mut Random) -> Vec<String> {
    const STARTS: [&str; 14] = [
        "b", "br", "d", "f", "g", "h", "k", "l", "m", "r", "s", "st", "t", "w",
    ];
    const VOWELS: [&str; 6] = ["a", "e", "i", "o", "u", "ie"];
    const ENDS: [&str; 8] = ["", "", "n", "r", "l", "s", "ck", "tt"];
    let mut names = std::collections::BTreeSet::new();
    while names.len() < count {
        let mut name = String::new();
        for _ in 0..2 + random.below(2) {
            for part in [&STARTS[..], &VOWELS, &ENDS] {
                name.push_str(part[random.below(part.len() as u64) as usize]);
            }
        }
        names.insert(name);
    }
    names.into_iter().collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn list(line: impl Fn(u32) -> String) -> Parsed {
        let letter = |number: u32| char::from(b'a' + (number % 26) as u8);
        let lines = (0..60).map(|number| {
            let name = format!("{}{}", letter(number), letter(number / 26));
            format!("{name}{}\n", line(number))
        });
        parse(&lines.collect::<String>(), &mut Random::new(1, 0))
    }

    #[test]
    fn bigrams_are_distinct_and_have_blanks_at_the_ends() {
        assert_eq!(bigrams("ann"), [" a", "an", "n ", "nn"]);
        assert_eq!(bigrams("anana"), [" a", "a ", "an", "na"]);
    }

    #[test]
    fn lists_have_frequencies_for_all_or_for_none() {
        let census = list(|number| format!("   {number}.5  9.0  1")).unwrap();
        assert_eq!((census.len(), census["aa"]), (60, 0.5));
        let plain = list(|_| String::new()).unwrap();
        let mut shares: Vec<f64> = plain.into_values().collect();
        shares.sort_by(f64::total_cmp);
        assert_eq!((shares[59], shares[58]), (1.0, 0.5));
    }

    #[test]
    fn problems_name_the_line_and_the_way_out() {
        let mixed = |number| String::from(if number < 9 { " 1.0" } else { "" });
        assert!(
            list(mixed)
                .unwrap_err()
                .contains("line 1 has a frequency and line 10 has none")
        );
        assert!(list(|_| " many".into()).unwrap_err().contains("line 1 "));
        assert!(list(|_| " -1".into()).unwrap_err().contains("line 1 "));
        let few = parse("ann\nbob\n", &mut Random::new(1, 0)).unwrap_err();
        assert!(few.contains("only 2 names"), "{few}");
        assert!(parse("12\n", &mut Random::new(1, 0)).is_err());
    }

    #[test]
    fn draws_follow_the_shares() {
        let options = Options {
            seed: 1,
            small: true,
            json: false,
            html: None,
        };
        let names = Names::load(None, &options).unwrap();
        assert_eq!(names.names.len(), 200);
        let mut random = Random::new(2, 0);
        let first = (0..10_000).filter(|_| names.draw(&mut random) == 0).count();
        // The harmonic number of 200 is 5.878, so the mean is 1,701 and the deviation 38.
        assert!((1_530..1_870).contains(&first), "{first}");
    }
}
