//! Floods are found within the error bounds, and bad captures are refused.

use std::net::Ipv4Addr;
use std::process::Command;

use crate::{number, run};

const PROGRAM: &str = env!("CARGO_BIN_EXE_floods");

#[test]
fn alarms_and_errors_are_within_the_bounds() {
    let rows = run(PROGRAM, &[]);
    let all = rows.table("1");
    let scores: Vec<_> = all
        .iter()
        .filter(|row| row.get("sketch").is_some())
        .collect();
    assert_eq!(scores.len(), 16);
    for row in &scores {
        let name = row["sketch"].as_str().unwrap();
        assert!(number(row, "above") > 100.0, "{row}");
        match name {
            "space-saving, at least" => assert_eq!(number(row, "false_alarms"), 0.0, "{row}"),
            "space-saving, at most" => {
                assert!(
                    number(row, "largest_error") <= number(row, "error_bound"),
                    "{row}"
                );
                // A flood has 100 packets.
                assert!(
                    number(row, "missed") == 0.0 || number(row, "error_bound") >= 100.0,
                    "{row}"
                );
            }
            _ => {
                assert_eq!(number(row, "missed"), 0.0, "{row}");
                assert!(
                    number(row, "beyond_the_bound") <= number(row, "at_most"),
                    "{row}"
                );
            }
        }
    }
    // With the most memory only the answer that is certain may still miss some.
    for row in &scores[12..15] {
        assert!(
            number(row, "false_alarms") <= 0.05 * number(row, "above"),
            "{row}"
        );
    }
    // Conservative update is never worse than plain.
    for four in scores.chunks(4) {
        assert!(
            number(four[1], "largest_error") <= number(four[0], "largest_error"),
            "{}",
            four[1]
        );
        assert!(
            number(four[1], "false_alarms") <= number(four[0], "false_alarms"),
            "{}",
            four[1]
        );
    }
}

#[test]
fn attackers_are_found_within_a_pane() {
    let rows = run(PROGRAM, &["--seed", "3"]);
    let attackers = rows.0.iter().filter(|row| row["kind"] == "attacker");
    let delays: Vec<f64> = attackers.map(|row| number(row, "delay_in_panes")).collect();
    assert_eq!(delays.len(), 5);
    // A report may come early, as an estimate may be too high, but not late.
    assert!(
        delays.iter().all(|delay| (-2.0..=1.0).contains(delay)),
        "{delays:?}"
    );
    let attack = rows.table("An attack of 200 sources");
    assert_eq!(number(attack[0], "reported"), 0.0);
    assert_eq!(number(attack[1], "reported"), 1.0);
    assert!((35.0..45.0).contains(&number(attack[1], "first_at_s")));
    for row in rows.table("Count-min in") {
        let (mean, half) = (number(row, "mean_delay_s"), number(row, "expected"));
        assert_eq!(number(row, "reported"), number(row, "crossed"), "{row}");
        assert!(
            number(row, "longest") <= number(row, "seconds_each") + 1e-6,
            "{row}"
        );
        assert!(mean <= 1.6 * half, "{row}");
    }
}

/// A capture of libpcap: packets of IPv4 over Ethernet, a millisecond apart, from these sources.
fn capture(sources: impl Iterator<Item = Ipv4Addr>) -> Vec<u8> {
    let word = |number: u32| number.to_le_bytes();
    let mut bytes = [0xa1b2_c3d4, 0x0004_0002, 0, 0, 65_535, 1]
        .map(word)
        .concat();
    for (at, source) in (0..).zip(sources) {
        bytes.extend([at / 1_000, at % 1_000 * 1_000, 34, 34].map(word).concat());
        bytes.extend([0; 12]);
        bytes.extend([8, 0, 0x45, 0, 0, 20, 0, 0, 0, 0, 64, 17, 0, 0]);
        bytes.extend(source.octets());
        bytes.extend([198, 51, 100, 1]);
    }
    bytes
}

/// Runs it with a capture, and returns its exit code and what it says.
fn with_capture(bytes: &[u8], more: &[&str]) -> (Option<i32>, String) {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("packets.pcap");
    #[expect(clippy::disallowed_methods, reason = "the program reads this file")]
    std::fs::write(&path, bytes).unwrap();
    let output = Command::new(PROGRAM)
        .args(more)
        .arg("--pcap")
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
fn a_capture_is_searched() {
    // One packet in ten is of one source.
    let source = |at: u32| match at % 10 {
        3 => Ipv4Addr::new(192, 0, 2, 66),
        _ => Ipv4Addr::from_bits(0x0b00_0000 + at),
    };
    let bytes = capture((0..6_000).map(source));
    let (code, text) = with_capture(&bytes, &["--window", "2", "--rate", "90"]);
    assert_eq!(code, Some(0), "{text}");
    assert!(
        text.contains("Sources above the rate: 1,") && text.contains("192.0.2.66"),
        "{text}"
    );
    // It has 180 packets, one in 10 ms, after the first at 3 ms.
    assert!(text.contains(" 1.79 "), "{text}");
    let (code, text) = with_capture(&bytes, &["--window", "2", "--rate", "110"]);
    assert_eq!(code, Some(0), "{text}");
    assert!(text.contains("Sources above the rate: 0,"), "{text}");
}

#[test]
fn bad_input_is_refused() {
    let whole = capture((1..4).map(Ipv4Addr::from_bits));
    let none = capture(std::iter::empty());
    let cases: [(&[u8], &[&str], &str); 7] = [
        (&whole[..whole.len() - 1], &[], "ends within packet 3"),
        (&whole[..10], &[], "no capture file"),
        (b"<html>not packets at all</html>", &[], "no capture file"),
        (b"", &[], "no capture file"),
        (&none, &[], "has no packets of IP"),
        (&whole, &["--window", "0"], "choose from 0.001"),
        (&whole, &["--rate", "NaN"], "choose one above 0"),
    ];
    for (bytes, more, expected) in cases {
        let (code, text) = with_capture(bytes, more);
        assert_eq!(code, Some(2), "{text}");
        assert!(text.contains(expected), "{text}");
    }
    assert_eq!(with_capture(&whole, &[]).0, Some(0));
}
