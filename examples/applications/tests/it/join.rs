//! A join by filters is exact, costs what was calculated, and files that are no relations are refused.

use std::process::Command;

use serde_json::Value;

use crate::{number, run};

const JOIN: &str = env!("CARGO_BIN_EXE_join");

/// Whether a count is what was expected, as far as chance and the seed of the test allow.
fn is_near(found: f64, expected: f64) -> bool {
    (found - expected).abs() <= 5.0 * expected.sqrt() + 2.0
}

#[test]
fn false_positives_and_bytes_are_as_calculated() {
    let rows = run(JOIN, &[]);
    let sizes = rows.table("A Bloom filter of 2000 keys");
    for row in &sizes {
        let (in_vain, expected) = (number(row, "in_vain"), number(row, "expected"));
        assert!(is_near(in_vain, expected), "{row}");
        // Nothing that has a partner is missing.
        assert_eq!(number(row, "rows_sent") - in_vain, 500.0);
        let (bytes, calculated) = (number(row, "bytes"), number(row, "calculated"));
        assert!((bytes / calculated - 1.0).abs() < 0.06, "{row}");
    }
    let bytes: Vec<f64> = sizes.iter().map(|row| number(row, "bytes")).collect();
    let least = (0..bytes.len()).min_by(|&a, &b| bytes[a].total_cmp(&bytes[b]));
    let best = number(sizes[least.unwrap()], "bits_per_key");
    // 8 * 0.4805 * 19,500 rows of 108 bytes for 2,000 keys: log(4,040) / 0.4805.
    assert!((15.0..=20.0).contains(&best), "{best}");
}

#[test]
fn a_filter_of_the_calculated_size_beats_both_other_ways() {
    let rows = run(JOIN, &["--seed", "7"]);
    let [all, keys, bloom, planned] = rows.table("Ways to join")[..] else {
        panic!("four ways");
    };
    assert_eq!(number(all, "in_vain"), 19_500.0);
    assert_eq!(number(keys, "in_vain"), 0.0);
    assert!(number(bloom, "bytes") < 0.75 * number(keys, "bytes"));
    assert!(number(keys, "bytes") < 0.1 * number(all, "bytes"));
    assert!((number(planned, "bytes") / number(bloom, "bytes") - 1.0).abs() < 0.02);
}

/// A number of the title of a table, after the word or sign.
fn in_title(row: &Value, before: &str) -> f64 {
    let title = row["table"].as_str().unwrap();
    let (_, rest) = title.split_once(before).unwrap();
    let digits = rest.split(' ').next().unwrap().replace(',', "");
    digits.parse().unwrap()
}

#[test]
fn a_map_lets_the_other_site_check_the_condition() {
    let rows = run(JOIN, &[]);
    let maps = rows.table("A map with numbers of 10 bits");
    let (matching, by_filter) = (in_title(maps[0], "; "), in_title(maps[0], "number of A; "));
    assert!(matching > 5.0 && by_filter > 40_000.0, "{}", maps[0]);
    for row in &maps {
        let expected = number(row, "expected");
        assert!(is_near(number(row, "in_vain"), expected), "{row}");
        assert_eq!(number(row, "rows_sent") - number(row, "in_vain"), matching);
        let too_many = number(row, "counted_by_B") - matching;
        assert!(is_near(too_many, expected), "{row}");
        let (bytes, calculated) = (number(row, "bytes"), number(row, "calculated"));
        assert!((bytes / calculated - 1.0).abs() < 0.15, "{row}");
    }
    let least = maps.iter().map(|row| number(row, "bytes"));
    assert!(least.reduce(f64::min).unwrap() < 0.3 * by_filter);
}

/// Runs the program on two files, and gives its output, or its exit code and error.
fn run_files(left: &[u8], right: &[u8]) -> Result<Vec<Value>, (i32, String)> {
    let folder = tempfile::tempdir().unwrap();
    let paths = ["left", "right"].map(|name| folder.path().join(name));
    #[expect(clippy::disallowed_methods, reason = "the input of the program")]
    for (path, content) in paths.iter().zip([left, right]) {
        std::fs::write(path, content).unwrap();
    }
    let mut command = Command::new(JOIN);
    command
        .args(["--json", "--left"])
        .arg(&paths[0])
        .arg("--right")
        .arg(&paths[1]);
    let output = command.output().unwrap();
    if !output.status.success() {
        let error = String::from_utf8(output.stderr).unwrap();
        return Err((output.status.code().unwrap(), error));
    }
    let text = String::from_utf8(output.stdout).unwrap();
    Ok(text
        .lines()
        .map(|line| serde_json::from_str(line).unwrap())
        .collect())
}

#[test]
fn files_are_joined_on_their_keys() {
    let rows = run_files(b"a\t10\nb\t20\nc\tx\n", b"b\t21 b\r\nc\t\nd\t30\n\na\t10\n").unwrap();
    // 3 of 4 rows have a partner; only b is above.
    let first = rows.iter().find(|row| row["bits_per_key"] == 0).unwrap();
    assert_eq!(
        (number(first, "rows_sent"), number(first, "in_vain")),
        (4.0, 1.0)
    );
    let map = rows.iter().find(|row| row["check_bits"] == 20).unwrap();
    assert_eq!(
        (number(map, "rows_sent"), number(map, "counted_by_B")),
        (1.0, 1.0)
    );
    assert!(number(map, "expected") < 0.001);
    assert_eq!(in_title(map, "numbers of "), 5.0);
}

#[test]
fn nothing_in_common_and_everything_in_common_are_joined() {
    for right in [&b"c\t1\nd\t2\n"[..], b"a\t1\nb\t2\n"] {
        let rows = run_files(b"a\t1\nb\t2\n", right).unwrap();
        let keys = rows
            .iter()
            .find(|row| row["way"] == "A sends its keys (semijoin)")
            .unwrap();
        assert_eq!(number(keys, "in_vain"), 0.0);
    }
}

#[test]
fn files_that_are_no_relations_are_refused_with_their_line() {
    let good = &b"a\t1\n"[..];
    for (left, right, expected) in [
        (&b"a\t1\nb 2\n"[..], good, "left, line 2: there is no tab"),
        (
            good,
            b"x\t1\ny\t2\nx\t3\n",
            "right, line 3: the key has a row already",
        ),
        (b"\n\n", good, "left has no rows"),
        (good, b"\t1\n", "right, line 1: the key is empty"),
    ] {
        let (code, error) = run_files(left, right).unwrap_err();
        assert_eq!(code, 2, "{error}");
        assert!(error.contains(expected), "{error}");
    }
    let output = Command::new(JOIN).args(["--left", "x"]).output().unwrap();
    assert_eq!(output.status.code(), Some(2));
    // Site B is alone: no site A listens there.
    let output = Command::new(JOIN)
        .args(["--small", "--site-b", "127.0.0.1:1"])
        .output()
        .unwrap();
    assert_eq!(output.status.code(), Some(5));
}
