//! Filters of words err as often as was calculated, and everything behind them is exact.

use std::path::PathBuf;
use std::process::Command;

use crate::{number, run};

const SPELL: &str = env!("CARGO_BIN_EXE_spell");

/// A file in a directory of its own, which lives as long as the first value.
fn file(text: &str) -> (tempfile::TempDir, PathBuf) {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("file");
    #[expect(clippy::disallowed_methods, reason = "an input of the program")]
    std::fs::write(&path, text).unwrap();
    (folder, path)
}

/// About 4,000 words of one to three of 60 syllables: many are one edit away from others.
fn words() -> String {
    let syllable = |number: usize| {
        let (onset, rest) = (number % 12, number / 12 % 5);
        format!(
            "{}{}",
            ["b", "d", "f", "g", "k", "l", "m", "n", "p", "r", "s", "t"][onset],
            ["a", "e", "i", "o", "u"][rest]
        )
    };
    let word = |number: usize| syllable(number) + &syllable(number / 60) + &syllable(number / 37);
    (0..3_600).map(|number| word(number) + "\n").collect()
}

#[test]
fn as_many_misspellings_pass_as_was_calculated() {
    let (_folder, list) = file(&words());
    let (_other, text) = file("Bababa dadaba's bababa xyzzy 'QUUX' caf\u{e9} 12");
    let files = [
        "--words",
        list.to_str().unwrap(),
        "--text",
        text.to_str().unwrap(),
    ];
    let rows = run(SPELL, &[&files[..], &["--only", "spelling"]].concat());
    let mut last = f64::INFINITY;
    for row in rows.table("Misspellings") {
        let (passed, non_words) = (number(row, "passed"), number(row, "non-words"));
        let expected = non_words * number(row, "calculated");
        assert!(
            (passed - expected).abs() < 5.0 * expected.sqrt() + 2.0,
            "{row}"
        );
        assert_eq!(
            number(row, "misspellings"),
            non_words + number(row, "real-word_errors")
        );
        assert!(number(row, "real-word_errors") > 0.0, "{row}");
        assert!(number(row, "calculated") < last, "{row}");
        last = number(row, "calculated");
    }
    for row in rows.table("Suggestions") {
        assert_eq!(
            number(row, "candidates_each"),
            number(row, "candidates_calculated")
        );
        let (passed, expected) = (number(row, "passed"), number(row, "passed_calculated"));
        let others = expected - number(row, "kept");
        let all = number(row, "misspellings");
        // Neighbours of one word share candidates, so the deviation is more than that of a sum.
        assert!(
            (passed - expected).abs() < 20.0 * (others / all).sqrt() + 0.01,
            "{row}"
        );
        assert!(number(row, "kept") >= 1.0, "the right word is one of them");
    }
}

#[test]
fn a_text_is_counted_word_by_word() {
    let (_folder, list) = file(&words());
    let (_other, text) = file("Bababa dadaba's bababa xyzzy 'QUUX' caf\u{e9} 12");
    let files = [
        "--words",
        list.to_str().unwrap(),
        "--text",
        text.to_str().unwrap(),
    ];
    let rows = run(SPELL, &[&files[..], &["--only", "spelling"]].concat());
    let written = rows.table("A text")[0];
    // Twice "bababa"; three others, as the words with an accent or digits are left out.
    assert_eq!(
        [number(written, "words"), number(written, "in_the_list")],
        [5.0, 2.0]
    );
    assert_eq!(number(written, "not_in_it"), 3.0);
    assert_eq!(
        number(written, "trie_asked"),
        2.0 + number(written, "of_these_passed")
    );
    for row in rows.table("Lookup") {
        let is_exact = row["structure"] != "filter alone";
        assert_eq!(number(row, "non-words_accepted") == 0.0, is_exact, "{row}");
    }
}

#[test]
fn the_filter_saves_the_reads_of_words_that_break_by_rule() {
    let (_folder, list) = file(&words());
    // Short patterns are of the rule: a break before each "b". The others, with five letters and the
    // dot, take it back before a second syllable "ba": 60 words.
    let mut patterns = "UTF-8\n1b\n".to_owned();
    for onset in "bdfgklmnprst".chars() {
        for vowel in "aeiou".chars() {
            patterns += &format!(".{onset}{vowel}2ba\n");
        }
    }
    let (_other, patterns) = file(&patterns);
    let files = [
        "--words",
        list.to_str().unwrap(),
        "--patterns",
        patterns.to_str().unwrap(),
    ];
    let rows = run(SPELL, &[&files[..], &["--only", "hyphenation"]].concat());
    let rows = rows.table("Hyphenation");
    let (plain, own) = (number(rows[0], "block_reads"), rows[rows.len() - 1]);
    let (words, exceptions) = (number(rows[0], "looked_up"), number(rows[0], "exceptions"));
    assert!(
        exceptions > 5.0 && exceptions < words / 10.0,
        "{exceptions}"
    );
    for row in &rows[1..rows.len() - 1] {
        let by_rule = words - exceptions;
        let expected = exceptions + by_rule * number(row, "rate_calculated");
        let asked = number(row, "looked_up");
        // Few keys: the share of bits that are set varies from filter to filter.
        assert!((asked - expected).abs() < 0.35 * expected, "{row}");
        assert!(number(row, "block_reads") <= asked, "{row}");
        let saved = 1.0 - number(row, "block_reads") / plain;
        assert!((saved - number(row, "saved")).abs() < 1e-9, "{row}");
    }
    assert_eq!(number(own, "looked_up"), words);
    assert!(number(own, "block_reads") < plain / 2.0, "{own}");
}

#[test]
fn drawn_exceptions_are_a_tenth() {
    // Without the package of patterns this is what runs; with it, real exceptions are a tenth, too.
    let (_folder, list) = file(&words());
    let rows = run(
        SPELL,
        &["--only", "hyphenation", "--words", list.to_str().unwrap()],
    );
    let rows = rows.table("Hyphenation");
    assert!(number(rows[0], "exceptions") > 0.0);
}

#[test]
fn forbidden_passwords_are_refused_and_few_good_ones() {
    let (_folder, list) = file(&words());
    let files = ["--words", list.to_str().unwrap()];
    let rows = run(SPELL, &[&files[..], &["--only", "passwords"]].concat());
    let rows = rows.table("");
    assert_eq!(rows.len(), 5);
    for row in &rows[..4] {
        let good = number(row, "good_passwords");
        let (refused, expected) = (number(row, "refused"), good * number(row, "calculated"));
        assert!(
            (refused - expected).abs() < 5.0 * expected.sqrt() + 2.0,
            "{row}"
        );
    }
    assert_eq!(number(rows[4], "refused"), 0.0);

    let (_other, passwords) = file("letmein\n\n12345678\nletmein\n");
    let more = [
        "--only",
        "passwords",
        "--passwords",
        passwords.to_str().unwrap(),
    ];
    let rows = run(SPELL, &[&files[..], &more].concat());
    let title = rows.table("")[0]["table"].as_str().unwrap().to_owned();
    assert!(title.starts_with("2 forbidden passwords"), "{title}");
}

#[test]
fn patterns_without_exceptions_are_refused() {
    let (_folder, list) = file(&words());
    let (_other, patterns) = file("1b\n");
    let output = Command::new(SPELL)
        .arg("--words")
        .arg(&list)
        .arg("--patterns")
        .arg(&patterns)
        .args(["--only", "hyphenation"])
        .output()
        .unwrap();
    let message = String::from_utf8(output.stderr).unwrap();
    assert_eq!(output.status.code(), Some(2), "{message}");
    assert!(message.contains("no exceptions"), "{message}");
}

#[test]
fn bad_input_says_what_to_do() {
    let (_folder, few) = file("one\ntwo\n3\n");
    let (_other, list) = file(&words());
    let few = few.to_str().unwrap();
    for (arguments, part) in [
        (["--words", few], "at least 100"),
        (["--text", "/dev/null"], "a text in English"),
        (["--patterns", few], "one pattern"),
        (["--passwords", "/dev/null"], "one on each line"),
    ] {
        let mut command = Command::new(SPELL);
        if arguments[0] != "--words" {
            command.arg("--words").arg(&list);
        }
        let output = command.arg("--small").args(arguments).output().unwrap();
        let message = String::from_utf8(output.stderr).unwrap();
        assert_eq!(output.status.code(), Some(2), "{arguments:?}: {message}");
        assert!(message.contains(part), "{arguments:?}: {message}");
    }
    let output = Command::new(SPELL)
        .args(["--words", "/nowhere"])
        .output()
        .unwrap();
    assert_eq!(output.status.code(), Some(5));
}
