//! No banned address passes, and the others cost what the formulas say.

use std::process::Command;

use crate::{number, run};

const PROGRAM: &str = env!("CARGO_BIN_EXE_banned");

#[test]
fn rates_and_probes_are_as_calculated() {
    let rows = run(PROGRAM, &[]);
    for row in rows.table("20,000 single addresses") {
        let looked_up = number(row, "store_lookups");
        let expected = 40_000.0 * number(row, "expected");
        assert!(
            (looked_up - expected).abs() < 5.0 * expected.sqrt() + 2.0,
            "{row}"
        );
        assert_eq!(
            number(row, "false_positives") * 40_000.0,
            looked_up,
            "{row}"
        );
        // A false positive costs a block at most, and none where the store's own filter says no.
        assert!(number(row, "without_filters") <= looked_up, "{row}");
        assert!(number(row, "without_filters") > 0.9 * looked_up, "{row}");
        assert!(
            number(row, "block_reads") <= 0.01 * looked_up + 2.0,
            "{row}"
        );
    }
    let lists = rows.table("The list: made up");
    let mut before = f64::INFINITY;
    for row in &lists {
        let (probes, expected) = (number(row, "probes"), number(row, "probes_expected"));
        assert!((probes - expected).abs() < 0.03 * expected, "{row}");
        assert!(probes < before, "{row}");
        before = probes;
        let (rate, expected) = (number(row, "false_positives"), number(row, "expected"));
        // Few short prefixes make the rate differ from one hash function to another.
        assert!((rate - expected).abs() < 0.35 * expected + 0.005, "{row}");
    }
    let entries = [0, 1, 2, 3].map(|row| number(lists[row], "entries"));
    assert!(entries[0] == 4_000.0 && entries.is_sorted(), "{entries:?}");
}

#[test]
fn filters_keep_up_with_changes() {
    let rows = run(PROGRAM, &["--seed", "7"]);
    let rows = rows.table("2,000 entries at a time");
    let [never, anew, counting] = [0, 1, 2].map(|row| {
        assert!(number(rows[row], "checks") > 0.0, "{}", rows[row]);
        number(rows[row], "false_positives")
    });
    assert!(
        never > 2.0 * anew && never > 2.0 * counting,
        "{never} {anew} {counting}"
    );
    assert!(number(rows[1], "rebuilds") > 0.0 && number(rows[0], "rebuilds") == 0.0);
    // Four bits for each one, in cells that are a little fewer than the bits of a blocked filter.
    let memory = |row: usize| number(rows[row], "memory");
    assert!((3.0..4.5).contains(&(memory(2) / memory(1))));
}

/// Runs it with a list, and returns its exit code and what it says.
fn with_list(list: &[u8]) -> (Option<i32>, String) {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("list.txt");
    #[expect(clippy::disallowed_methods, reason = "the program reads this file")]
    std::fs::write(&path, list).unwrap();
    let output = Command::new(PROGRAM)
        .args(["--small", "--list"])
        .arg(path)
        .output()
        .unwrap();
    let text = [output.stdout, output.stderr].concat();
    (
        output.status.code(),
        String::from_utf8_lossy(&text).into_owned(),
    )
}

#[test]
fn lists_of_any_length_are_taken() {
    for list in [
        "203.0.113.9\n",
        "::/64\n10.0.0.0/8 # private\n192.0.2.1\n0.0.0.0/1\n2001:db8::1",
    ] {
        let (code, text) = with_list(list.as_bytes());
        assert_eq!(code, Some(0), "{text}");
        assert!(text.contains("list.txt"), "{text}");
    }
}

#[test]
fn bad_lists_are_refused() {
    let cases: [(&[u8], &str); 5] = [
        (b"10.0.0.0/8\n\n10.0.0.300\n", "line 3"),
        (b"10.0.0.1/8", "write 10.0.0.0/8"),
        (b"# nothing\n", "has no networks"),
        (b"\xff\xfe", "not text"),
        (b"0.0.0.0/0\n::/0\n", "bans nearly all"),
    ];
    for (list, expected) in cases {
        let (code, text) = with_list(list);
        assert_eq!(code, Some(2), "{text}");
        assert!(text.contains(expected), "{text}");
    }
    let output = Command::new(PROGRAM)
        .args(["--list", "/nowhere/list"])
        .output()
        .unwrap();
    assert_eq!(output.status.code(), Some(5));
}
