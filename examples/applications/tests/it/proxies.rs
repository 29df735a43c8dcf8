//! Proxies find what digests show, and are wrong as often as calculated.

use crate::{Rows, number, run};

fn proxies(seed: &str) -> Rows {
    run(env!("CARGO_BIN_EXE_proxies"), &["--seed", seed])
}

/// Requests of all proxies that are measured.
const REQUESTS: f64 = 24_000.0;

/// Several proxies ask for one object in one interval, so events come in groups.
fn assert_near(measured: f64, expected: f64, what: &dyn std::fmt::Display) {
    let deviation = (expected / REQUESTS).sqrt();
    let allowed = 6.0 * deviation + 0.04 * expected;
    assert!(
        (measured - expected).abs() <= allowed,
        "{measured} {expected}: {what}"
    );
}

#[test]
fn hits_and_false_misses_are_as_many_as_calculated() {
    let rows = proxies("1");
    let table = rows.table("Hits, false misses");
    assert_eq!(table.len(), 8);
    let (never, always) = (table[0], table[1]);
    assert_eq!(number(never, "questions"), 0.0);
    assert_eq!(number(never, "remote"), 0.0);
    assert_eq!(number(always, "false_misses"), 0.0);
    let misses = 1.0 - number(always, "local");
    assert!((number(always, "questions") - 7.0 * misses).abs() < 1e-9);
    for row in &table {
        for (measured, expected) in [
            ("local", "local_expected"),
            ("remote", "remote_expected"),
            ("false_misses", "expected"),
        ] {
            assert_near(number(row, measured), number(row, expected), row);
        }
        // Whether others are asked changes nothing in the caches.
        assert_eq!(number(row, "local"), number(always, "local"));
        let found = number(row, "remote") + number(row, "false_misses");
        assert!((found - number(always, "remote")).abs() < 1e-9, "{row}");
    }
    let false_misses: Vec<f64> = table[2..]
        .iter()
        .map(|row| number(row, "false_misses"))
        .collect();
    assert!(false_misses.is_sorted() && false_misses[5] > 10.0 * false_misses[0]);
}

#[test]
fn questions_in_vain_are_as_many_as_calculated() {
    let rows = proxies("2");
    let hits = rows.table("Hits, false misses");
    for (row, hits) in rows.table("Questions in vain").iter().zip(&hits[2..]) {
        assert_near(number(row, "false_positives"), number(row, "expected"), row);
        assert_near(number(row, "stale"), number(row, "stale_expected"), row);
        // Small filters differ from each other.
        let rate = number(row, "filter_rate") / number(row, "rate_expected");
        assert!((0.85..1.2).contains(&rate), "{row}");
        let vain = number(row, "false_positives") + number(row, "stale");
        let questions = number(row, "questions") / REQUESTS;
        // All other questions found the object, some at several proxies.
        assert!(questions - vain >= number(hits, "remote") - 1e-9, "{row}");
    }
}

#[test]
fn exchanges_change_as_many_bits_as_calculated() {
    let rows = proxies("1");
    let table = rows.table("Each exchange");
    for row in &table {
        for (measured, expected) in [
            ("new_at_last", "at_last_expected"),
            ("new_in_the_mean", "mean_expected"),
            ("bits_changed", "bits_expected"),
        ] {
            let (measured, expected) = (number(row, measured), number(row, expected));
            assert!(
                (measured / expected - 1.0).abs() < 0.12,
                "{measured} {expected}: {row}"
            );
        }
        // A head of 32 bytes, and 4 for each change or an eighth for each bit.
        let changes = 32.0 + 4.0 * number(row, "bits_changed");
        assert!((number(row, "changes") - changes).abs() <= 1.0, "{row}");
        assert_eq!(number(row, "digest"), 32.0 + 480.0, "{row}");
    }
    let is_smaller = |row: usize| number(table[row], "changes") < number(table[row], "digest");
    assert!(is_smaller(0) && !is_smaller(2));
}

#[test]
fn larger_digests_are_wrong_less_often() {
    let rows = proxies("3");
    let table = rows.table("Digests of other sizes");
    for pair in table.windows(2) {
        assert!(number(pair[0], "digest") < number(pair[1], "digest"));
        let wrong = |row: usize| number(pair[row], "false_positives");
        assert!(wrong(0) > 2.0 * wrong(1), "{}", pair[1]);
        // Old entries are in digests of any size.
        assert_eq!(number(pair[0], "stale"), number(pair[1], "stale"));
    }
    for row in table {
        let (measured, expected) = (number(row, "filter_rate"), number(row, "rate_expected"));
        assert!((measured / expected - 1.0).abs() < 0.2, "{row}");
    }
}
