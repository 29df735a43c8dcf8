//! Spell checker: three word lists of which a filter keeps most questions away from the exact list.
//!
//! - *Spelling.* A Bloom filter of about 100,000 words stands before a trie of them. The filter alone
//!   was one of the first spell checkers (McIlroy, "Development of a spelling list", 1982). The program
//!   misspells each word by one random edit and counts misspellings that pass. Some are words
//!   themselves, "real-word errors", which no word list finds. Suggestions are the words at edit
//!   distance 1 (Norvig, "How to write a spelling corrector", 2007): hundreds of candidates, few words.
//! - *Hyphenation.* Most words break by a rule, a tenth are exceptions in a table on disk. A filter of
//!   the exceptions says which words to look up: the example of the first paper on Bloom filters
//!   (Bloom, "Space/time trade-offs in hash coding with allowable errors", 1970). criba is the table.
//! - *Passwords.* A filter of forbidden passwords refuses all of these, and a few good ones (Spafford,
//!   "OPUS: preventing weak password choices", 1992).

#[path = "spell/hyphenation.rs"]
mod hyphenation;
#[path = "spell/suggestions.rs"]
mod suggestions;
#[path = "spell/weak_passwords.rs"]
mod weak_passwords;

use std::collections::HashSet;
use std::path::PathBuf;
use std::process::ExitCode;

use applications::numbers::grouped;
use applications::{
    Cell, Error, Hyphens, Line, Options, Plot, Random, Report, Result, Scale, Table, Words, edits,
    nanos_per_call, program,
};
use clap::{Parser, ValueEnum};
use criba_filters::{Classic, Design, Insert, Membership, hash_key};
use fst::Set;

/// Checks spelling by a Bloom filter and a trie; hyphenates; refuses weak passwords.
#[derive(Parser, Debug)]
#[command(name = "spell", version)]
struct Args {
    /// Show one of the word lists only
    #[arg(long, value_enum)]
    only: Option<Part>,
    /// Correct words, one on each line [default: /usr/share/dict/words, else made up]
    #[arg(long, value_name = "FILE")]
    words: Option<PathBuf>,
    /// A text to check [default: the GPL in /usr/share/common-licenses, else a page of criba]
    #[arg(long, value_name = "FILE")]
    text: Option<PathBuf>,
    /// Hyphenation patterns [default: those of hyphen-en-us, else exceptions are drawn]
    #[arg(long, value_name = "FILE")]
    patterns: Option<PathBuf>,
    /// Forbidden passwords, one on each line [default: derived from the words]
    #[arg(long, value_name = "FILE")]
    passwords: Option<PathBuf>,
    #[command(flatten)]
    options: Options,
}

#[derive(ValueEnum, Debug, Clone, Copy, PartialEq)]
enum Part {
    Spelling,
    Hyphenation,
    Passwords,
}

fn main() -> ExitCode {
    program(|args: &Args| &args.options, run)
}

fn run(args: &Args) -> Result<Report> {
    let mut report = Report::new(
        "spell",
        "Spell checker",
        "How many wrong words does a Bloom filter let pass, and how many lookups does it save?",
    );
    let list = Words::list(args.words.as_deref(), &args.options)?;
    let is_wanted = |part| args.only.is_none_or(|only| only == part);
    if is_wanted(Part::Spelling) {
        let text = Words::text(args.text.as_deref())?;
        spelling(&list, &text, args.options.seed, &mut report)?;
    }
    if is_wanted(Part::Hyphenation) {
        let hyphens = Hyphens::load(args.patterns.as_deref(), args.options.seed)?;
        hyphenation::hyphenation(&list, &hyphens, args.options.seed, &mut report)?;
    }
    if is_wanted(Part::Passwords) {
        weak_passwords::weak_passwords(
            &list,
            args.passwords.as_deref(),
            &args.options,
            &mut report,
        )?;
    }
    Ok(report)
}

/// Bits for each word where the filter's size is not what is varied.
const BITS: f64 = 10.0;

/// A filter of these words.
pub(crate) fn filter_of<W: AsRef<str>>(words: &[W], design: Design, seed: u64) -> Result<Classic> {
    let mut filter = Classic::new(design)?;
    for word in words {
        filter.insert(hash_key(seed, word.as_ref().as_bytes()))?;
    }
    Ok(filter)
}

/// The words in both levels, and in a hash set that is always right.
pub(crate) struct Checker<'a> {
    pub(crate) filter: Classic,
    pub(crate) trie: Set<Vec<u8>>,
    exact: HashSet<&'a [u8]>,
    seed: u64,
}

impl<'a> Checker<'a> {
    pub(crate) fn new(words: &'a [String], bits_per_word: f64, seed: u64) -> Result<Checker<'a>> {
        let keys = words.len() as u64;
        let design = Design::for_bits(keys, (bits_per_word * keys as f64) as u64)?;
        Ok(Checker {
            filter: filter_of(words, design, seed)?,
            trie: Set::from_iter(words)?,
            exact: words.iter().map(String::as_bytes).collect(),
            seed,
        })
    }

    pub(crate) fn passes(&self, word: &[u8]) -> bool {
        self.filter.may_contain(hash_key(self.seed, word))
    }

    /// Both levels: the trie is asked only after a "maybe".
    pub(crate) fn is_word(&self, word: &[u8]) -> bool {
        self.passes(word) && self.trie.contains(word)
    }

    /// How many of the words pass the filter; both levels together must be as the hash set.
    fn count_passes<'w>(&self, words: impl Iterator<Item = &'w String>) -> Result<u64> {
        let mut passed = 0;
        for word in words {
            let is_right = self.exact.contains(word.as_bytes());
            if self.is_word(word.as_bytes()) != is_right {
                return Err(Error::Wrong(format!("whether {word:?} is a word")));
            }
            passed += u64::from(self.passes(word.as_bytes()));
        }
        Ok(passed)
    }
}

fn spelling(list: &Words, text: &Words, seed: u64, report: &mut Report) -> Result<()> {
    let mut random = Random::new(seed, 0);
    let mut typos: Vec<(&String, String)> = (list.words.iter())
        .map(|word| (word, edits::misspelled(word, &mut random)))
        .collect();
    random.shuffle(&mut typos);
    let checker = Checker::new(&list.words, BITS, seed)?;
    report.table(lookups(&checker, &typos, &list.source)?);
    let mut saved = of_the_text(&checker, text, &mut random, report)?;
    misspellings(list, &typos, seed, report)?;
    saved.push(suggestions::suggestions(list, &typos, seed, report)?);
    report.conclude(format!(
        "The filter keeps from the trie {}.",
        saved.join(", ")
    ));
    Ok(())
}

/// Time, memory and errors of a lookup in each structure.
fn lookups(checker: &Checker<'_>, typos: &[(&String, String)], source: &str) -> Result<Table> {
    let words = checker.exact.len() as f64;
    let heads = [
        "structure",
        "memory",
        "bits per word",
        "ns for a word",
        "ns for a non-word",
        "non-words accepted",
        "calculated",
    ];
    let title = format!(
        "Lookup of {} words, {BITS} bits each in the filter ({source})",
        grouped(words as u64)
    );
    let mut table = Table::new(title, &heads);
    let right: Vec<&[u8]> = typos.iter().map(|(word, _)| word.as_bytes()).collect();
    let wrong: Vec<&[u8]> = (typos.iter().map(|(_, typo)| typo.as_bytes()))
        .filter(|typo| !checker.exact.contains(typo))
        .collect();
    let filter = checker.filter.bits().div_ceil(8);
    let trie = checker.trie.as_fst().as_bytes().len() as u64;
    // Pointer and length of each word, a byte of control in each bucket, and the letters.
    let buckets = (checker.exact.capacity() as u64 * 8 / 7).next_power_of_two();
    let letters: usize = checker.exact.iter().map(|word| word.len()).sum();
    let hash_set = buckets * 17 + letters as u64;
    let rate = checker.filter.expected_rate();
    type Ask<'f> = (&'static str, u64, f64, &'f dyn Fn(&[u8]) -> bool);
    let structures: [Ask<'_>; 4] = [
        ("filter alone", filter, rate, &|word| checker.passes(word)),
        ("trie alone", trie, 0.0, &|word| checker.trie.contains(word)),
        ("hash set alone", hash_set, 0.0, &|word| {
            checker.exact.contains(word)
        }),
        ("filter, then trie", filter + trie, 0.0, &|word| {
            checker.is_word(word)
        }),
    ];
    for (name, bytes, calculated, ask) in structures {
        let accepted = |words: &[&[u8]]| words.iter().filter(|word| ask(word)).count();
        if accepted(&right) != right.len() {
            return Err(Error::Wrong(format!("{name} refuses a word of the list")));
        }
        let nanos = |words: &[&[u8]]| {
            nanos_per_call(words.len(), || {
                std::hint::black_box(accepted(words));
            })
        };
        table.row([
            name.into(),
            Cell::Bytes(bytes),
            Cell::Number(8.0 * bytes as f64 / words, 2),
            Cell::Number(nanos(&right), 0),
            Cell::Number(nanos(&wrong), 0),
            Cell::Share(accepted(&wrong) as f64 / wrong.len() as f64),
            Cell::Share(calculated),
        ]);
    }
    Ok(table)
}

/// A text as it was written, and with an error in each word; returns what the filter saves.
fn of_the_text(
    checker: &Checker<'_>,
    text: &Words,
    random: &mut Random,
    report: &mut Report,
) -> Result<Vec<String>> {
    let mut saved = Vec::new();
    let heads = [
        "text",
        "words",
        "in the list",
        "not in it",
        "of these passed",
        "calculated",
        "trie asked",
        "saved",
        "ns by the trie",
        "ns by both",
    ];
    let mut table = Table::new(
        format!("A text through both levels ({})", text.source),
        &heads,
    );
    let wrong: Vec<String> = (text.words.iter())
        .map(|word| edits::misspelled(word, random))
        .collect();
    for (name, words) in [
        ("as written", &text.words),
        ("with one edit in each", &wrong),
    ] {
        let all = words.len() as u64;
        let asked = checker.count_passes(words.iter())?;
        let known = words
            .iter()
            .filter(|word| checker.exact.contains(word.as_bytes()));
        let known = known.count() as u64;
        let kept_off = (all - asked) as f64 / all as f64;
        saved.push(format!(
            "{:.1} % of the words of the text {name}",
            100.0 * kept_off
        ));
        let nanos = |ask: &dyn Fn(&[u8]) -> bool| {
            nanos_per_call(words.len(), || {
                let found = words.iter().filter(|word| ask(word.as_bytes()));
                std::hint::black_box(found.count());
            })
        };
        table.row([
            name.into(),
            all.into(),
            known.into(),
            (all - known).into(),
            (asked - known).into(),
            Cell::Number((all - known) as f64 * checker.filter.expected_rate(), 1),
            asked.into(),
            Cell::Share(kept_off),
            Cell::Number(nanos(&|word| checker.trie.contains(word)), 0),
            Cell::Number(nanos(&|word| checker.is_word(word)), 0),
        ]);
    }
    report.table(table);
    Ok(saved)
}

/// Misspellings that filters of different sizes let pass.
fn misspellings(
    list: &Words,
    typos: &[(&String, String)],
    seed: u64,
    report: &mut Report,
) -> Result<()> {
    let heads = [
        "bits per word",
        "probes",
        "filter",
        "misspellings",
        "real-word errors",
        "non-words",
        "passed",
        "share",
        "calculated",
    ];
    let mut table = Table::new("Misspellings that the filter alone lets pass", &heads);
    let (mut measured, mut expected, mut real) = (Vec::new(), Vec::new(), Vec::new());
    for bits in [4.0, 6.0, 8.0, 10.0, 12.0, 14.0, 16.0, 20.0] {
        let checker = Checker::new(&list.words, bits, seed)?;
        let words = typos
            .iter()
            .filter(|(_, typo)| checker.exact.contains(typo.as_bytes()));
        let words = words.count() as u64;
        let passed = checker.count_passes(typos.iter().map(|(_, typo)| typo))? - words;
        let all = typos.len() as u64;
        let (share, rate) = (
            passed as f64 / (all - words) as f64,
            checker.filter.expected_rate(),
        );
        table.row([
            Cell::Number(bits, 0),
            Cell::Count(checker.filter.design().probes.into()),
            Cell::Bytes(checker.filter.bits().div_ceil(8)),
            all.into(),
            words.into(),
            (all - words).into(),
            passed.into(),
            Cell::Share(share),
            Cell::Share(rate),
        ]);
        measured.push((bits, 100.0 * share));
        expected.push((bits, 100.0 * rate));
        real.push((bits, 100.0 * words as f64 / all as f64));
        if bits == BITS {
            report.conclude(format!(
                "With {bits} bits a word, {} of {} misspellings pass by an error of the filter, and {} \
                 because they are words themselves: no word list finds these.",
                grouped(passed),
                grouped(all),
                grouped(words),
            ));
        }
    }
    report.table(table);
    report.plot(Plot {
        title: "Misspellings that pass, percent".into(),
        across: "bits per word".into(),
        scales: (Scale::Linear, Scale::Logarithmic),
        lines: vec![
            Line::new("second", "by the filter, calculated", expected),
            Line::dots("first", "by the filter, measured", measured),
            Line::new(
                "none",
                "real-word errors, measured: no word list finds them",
                real,
            ),
        ],
    });
    Ok(())
}
