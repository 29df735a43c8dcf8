//! Replicas agree on the newest versions, in as many rounds and bytes as was calculated.

use std::process::Command;
use std::sync::LazyLock;

use serde_json::Value;

use crate::{Rows, number, run};

const REPLICAS: &str = env!("CARGO_BIN_EXE_replicas");

/// One run for all tests, with pieces of another size than the default.
static ROWS: LazyLock<Rows> = LazyLock::new(|| run(REPLICAS, &["--piece", "100"]));

/// Entries that the receiver needed.
fn useful(row: &Value) -> f64 {
    number(row, "entries_sent") - number(row, "in_vain")
}

#[test]
fn differences_are_found_with_the_bytes_that_were_calculated() {
    let rows = ROWS.table("Two replicas of 5000 entries");
    assert_eq!(rows.len(), 4 * 5);
    for row in rows {
        // Each key that differs is repaired once.
        assert_eq!(useful(row), number(row, "differences"), "{row}");
        let (bytes, calculated) = (number(row, "bytes_to_find"), number(row, "calculated"));
        let (rounds, expected) = (number(row, "rounds"), number(row, "expected"));
        match row["method"].as_str().unwrap() {
            "all hashes" => {
                assert_eq!(bytes, calculated, "{row}");
                assert_eq!(rounds, 1.0);
            }
            "sketch" => {
                // An estimate is off by some, and a table that was too small is sent in twice the size.
                assert!(
                    bytes > 0.6 * calculated && bytes < 2.5 * calculated,
                    "{row}"
                );
                assert!((1.0..=2.0).contains(&number(row, "sketches")), "{row}");
            }
            _ => {
                assert!((rounds - expected).abs() < 4.0, "{row}");
                // Each round more or less has at most the bytes of a round.
                let round = calculated / expected.floor();
                assert!(
                    (bytes - calculated).abs() < 0.25 * calculated + round,
                    "{row}"
                );
            }
        }
    }
}

#[test]
fn rounds_are_those_of_the_rate() {
    for row in ROWS.table("Rounds for 100 differences") {
        // The greatest of many geometric numbers spreads like Gumbel's law.
        let spread = 1.28 / -number(row, "rate").ln() + 0.3;
        let off = number(row, "rounds") - number(row, "expected");
        assert!(off.abs() < 5.0 * spread / 12_f64.sqrt(), "{row}");
    }
}

#[test]
fn replicas_agree_after_each_partition() {
    let rows = ROWS.table("Partitions");
    assert_eq!(rows.len(), 6);
    for row in &rows {
        assert_eq!(useful(row), number(row, "keys"), "{row}");
        assert!(
            number(row, "in_vain") > 0.0 && number(row, "rounds") < 9.0,
            "{row}"
        );
    }
    let conflicts = rows.iter().map(|row| number(row, "on_both_sides"));
    assert!(conflicts.sum::<f64>() > 10.0);
}

#[test]
fn special_cases_end_with_what_must_be_there() {
    let rows = ROWS.table("Special cases");
    assert_eq!(rows.len(), 6 * 3);
    for row in rows {
        let (entries, values) = match row["case"].as_str().unwrap() {
            "identical" => (0.0, 1_000.0),
            "right is empty" | "left is empty" => (1_000.0, 1_000.0),
            "nothing in common" => (2_000.0, 2_000.0),
            // The right one deletes, and wins by its number.
            "left deletes 100" | "both write 100" => (100.0, 900.0),
            other => panic!("{other}"),
        };
        assert_eq!(
            (useful(row), number(row, "values_after_it")),
            (entries, values),
            "{row}"
        );
        assert_eq!(number(row, "rounds") == 0.0, entries == 0.0, "{row}");
    }
}

#[test]
fn a_piece_has_at_least_one_element() {
    let output = Command::new(REPLICAS)
        .args(["--piece", "0"])
        .output()
        .unwrap();
    assert_eq!(output.status.code(), Some(2));
}
