//! The filter keeps one-hit wonders out, wrongly as often as calculated, and forgets nothing when resized.
#![expect(
    clippy::disallowed_methods,
    reason = "a test writes what a user would have recorded"
)]

use std::process::Command;

use crate::{number, run};

const CACHE: &str = env!("CARGO_BIN_EXE_cache");

#[test]
fn one_hit_wonders_are_as_many_as_calculated() {
    let rows = run(CACHE, &[]);
    let traces = rows.table("The traces");
    let share = number(traces[0], "share");
    assert!((share - number(traces[0], "expected")).abs() < 0.01);
    assert!((share - 0.75).abs() < 0.02, "{share}");
    assert_eq!(number(traces[1], "objects"), 1_729.0);
    assert_eq!(number(traces[1], "one-hit_wonders"), 1_369.0);
}

#[test]
fn the_filter_saves_writes_and_keeps_the_hits() {
    let rows = run(CACHE, &[]);
    for (table, most) in [("Made up", 0.25), ("Files that", 0.9)] {
        let policies = rows.table(table);
        let [lru, filter] = [policies[0], policies[3]];
        assert_eq!(filter["policy"], "filter, then LRU");
        assert!(number(filter, "of_LRU") < most, "{filter}");
        assert!(number(filter, "hit_rate") > number(lru, "hit_rate"));
        assert!(number(filter, "for_nothing") < number(lru, "for_nothing") / 3.0);
        assert_eq!(number(lru, "of_LRU"), 1.0);
    }
    let lru = rows.table("Made up")[0];
    let (measured, expected) = (number(lru, "hit_rate"), number(lru, "expected"));
    assert!((measured - expected).abs() < 0.015, "{lru}");
}

#[test]
fn wrong_answers_are_as_many_as_calculated() {
    let rows = run(CACHE, &["--seed", "7"]);
    let rates = rows.table("Rates of a full generation");
    assert_eq!(rates.len(), 4);
    for row in &rates {
        let bytes = number(row, "filter") / number(row, "filter_expected");
        assert!((bytes - 1.0).abs() < 0.01, "{row}");
        for (measured, expected) in [
            ("wrong", "wrong_expected"),
            ("one-hit_kept", "kept_expected"),
        ] {
            let (measured, expected) = (number(row, measured), number(row, expected));
            // One filter in four of its kind has a fill that is off by more than its own deviation.
            let allowed = 5.0 * expected.sqrt() + 0.03 * expected + 3.0;
            assert!((measured - expected).abs() < allowed, "{row}");
        }
    }
    let kept = |row: usize| number(rates[row], "one-hit_kept");
    assert!(
        kept(3) > 10.0 * kept(1),
        "a rate of 20 % keeps more than one of 1 %"
    );
}

#[test]
fn another_size_forgets_nothing() {
    let rows = run(CACHE, &[]);
    let sizes = rows.table("Another size");
    let keys = |row: usize| number(sizes[row], "keys");
    assert_eq!([keys(1), keys(3)], [2.0 * keys(0); 2]);
    assert_eq!(keys(2), (keys(0) / 2.0).floor());
    let after = |row: usize| number(sizes[row], "writes_after");
    let before = number(sizes[0], "writes_before");
    for row in [1, 2] {
        assert!(
            (after(row) - after(0)).abs() < 0.15 * before,
            "{}",
            sizes[row]
        );
    }
    assert!(
        after(3) < after(0) / 2.0,
        "an empty filter has forgotten all"
    );
}

#[test]
fn a_trace_of_ones_own() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("trace\x1b.txt");
    let path = path.to_str().unwrap();
    // Each of 50 objects comes twice in a row, one with a name that is not UTF-8; and one comes once.
    let mut text: Vec<u8> = (0..50)
        .flat_map(|object| format!("file {object}\t10\nfile {object}\n").into_bytes())
        .collect();
    text.extend(b"\xff\t0\n# no object\n");
    std::fs::write(path, text).unwrap();
    let rows = run(CACHE, &["--trace", path]);
    let trace = rows.table("The traces")[1];
    assert!(
        trace["trace"]
            .as_str()
            .unwrap()
            .ends_with("trace\\u{1b}.txt")
    );
    let numbers =
        ["requests", "objects", "one-hit_wonders", "bytes"].map(|name| number(trace, name));
    assert_eq!(numbers, [101.0, 51.0, 1.0, 500.0]);
    let table = trace["trace"].as_str().unwrap();
    let policies = rows.table(&format!("{table}: a cache"));
    assert!((number(policies[0], "hit_rate") - 50.0 / 101.0).abs() < 1e-9);
    // The second request is the last one: the filter keeps an object, and nobody asks for it again.
    assert_eq!(number(policies[3], "hit_rate"), 0.0);
    assert_eq!(number(policies[3], "writes"), 50.0);
}

#[test]
fn bad_traces_are_refused() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("trace");
    for (text, code, part) in [
        ("a\t1\nb\tmuch\n", 2, "line 2: \"much\" is no size"),
        ("# nothing\n", 2, "has no requests"),
        ("a\t99999999999\n", 2, "too large"),
    ] {
        std::fs::write(&path, text).unwrap();
        let output = Command::new(CACHE)
            .arg("--trace")
            .arg(&path)
            .arg("--small")
            .output()
            .unwrap();
        let error = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(code), "{error}");
        assert!(error.contains(part), "{error}");
    }
    let missing = folder.path().join("missing");
    let output = Command::new(CACHE)
        .arg("--trace")
        .arg(&missing)
        .output()
        .unwrap();
    assert_eq!(output.status.code(), Some(5));
    // One object without a size: nothing can be shared out, and nothing fails.
    std::fs::write(&path, "a\n").unwrap();
    run(CACHE, &["--trace", path.to_str().unwrap()]);
    std::fs::write(&path, "a\t0\na\n").unwrap();
    run(CACHE, &["--trace", path.to_str().unwrap()]);
}
