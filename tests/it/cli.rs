//! The `criba` program as a user runs it. Only with the feature `cli`.

use std::path::Path;
use std::process::{Command, Output, Stdio};

fn criba(arguments: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_criba"))
        .args(arguments)
        .stdin(Stdio::null())
        .output()
        .unwrap()
}

fn stdout(arguments: &[&str]) -> String {
    let output = criba(arguments);
    let error = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(output.status.success(), "{arguments:?}: {error}");
    String::from_utf8(output.stdout).unwrap()
}

fn in_dir(path: &Path) -> &str {
    path.to_str().unwrap()
}

#[test]
fn point_commands_and_their_exit_codes() {
    let dir = tempfile::tempdir().unwrap();
    let store = dir.path().join("store");
    let store = in_dir(&store);
    assert_eq!(
        criba(&["get", store, "k"]).status.code(),
        Some(2),
        "no store there"
    );
    stdout(&["put", store, "k", "value"]);
    stdout(&["put", store, "k2", "bold\u{1b}[1m", "--durability", "sync"]);
    assert_eq!(stdout(&["get", store, "k"]), "value");
    assert_eq!(criba(&["get", store, "absent"]).status.code(), Some(1));
    assert_eq!(stdout(&["scan", store]), "k\tvalue\nk2\tbold\\x1b[1m\n");
    stdout(&["delete", store, "k"]);
    assert_eq!(criba(&["get", store, "k"]).status.code(), Some(1));
    assert!(stdout(&["explain", store, "k2"]).contains("found"));
    assert_eq!(criba(&["study", "--runs", "0"]).status.code(), Some(2));
    std::fs::write(dir.path().join("store/CURRENT"), "nonsense").unwrap();
    assert_eq!(criba(&["stats", store]).status.code(), Some(3));
}

#[test]
fn what_is_exported_is_imported_without_loss() {
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("lines.tsv");
    let mut lines: Vec<String> = (0..5000)
        .map(|n| format!("key{n:05}\t{n} \\x00\\t\\\\"))
        .collect();
    lines.push("\\xff\\xfe\t".into());
    let text = lines.join("\n") + "\n";
    std::fs::write(&file, &text).unwrap();
    let (a, b) = (dir.path().join("a"), dir.path().join("b"));
    stdout(&["import", in_dir(&a), in_dir(&file)]);
    assert_eq!(stdout(&["export", in_dir(&a)]).lines().count(), lines.len());
    let json = dir.path().join("lines.json");
    stdout(&["export", in_dir(&a), in_dir(&json), "--json"]);
    stdout(&["import", in_dir(&b), in_dir(&json), "--json"]);
    assert_eq!(
        stdout(&["export", in_dir(&b)]),
        stdout(&["export", in_dir(&a)])
    );
    let stats = stdout(&["stats", in_dir(&a), "--json"]);
    assert!(stats.contains("bloomier"), "{stats}");
}

#[test]
fn study_counts_what_it_says() {
    let page = tempfile::NamedTempFile::new().unwrap();
    let html = in_dir(page.path());
    let output = stdout(&[
        "study",
        "--keys",
        "20000",
        "--lookups",
        "5000",
        "--json",
        "--html",
        html,
    ]);
    let rows: Vec<serde_json::Value> = output
        .lines()
        .map(|line| serde_json::from_str(line).unwrap())
        .collect();
    assert_eq!(rows.len(), 5);
    let number = |row: usize, field: &str| rows[row][field].as_f64().unwrap();
    for (row, setting) in [
        "none",
        "bloom:10",
        "bloom:15",
        "bloomier:block",
        "bloomier:slot",
    ]
    .iter()
    .enumerate()
    {
        assert_eq!(rows[row]["setting"], *setting);
        assert!(number(row, "reads_per_present") >= 1.0);
        for field in [
            "keys",
            "runs",
            "segments",
            "r_bits",
            "bits_per_key",
            "reads_per_absent",
            "bytes_per_present",
            "bytes_per_absent",
            "probes_per_absent",
            "false_positive_rate",
            "designed_rate",
            "build_ns_per_key",
        ] {
            assert!(!rows[row][field].is_array(), "{field}");
            assert!(rows[row].get(field).is_some(), "{setting} has no {field}");
        }
    }
    assert!(number(0, "reads_per_absent") > 3.9);
    assert!(number(3, "reads_per_absent") < number(1, "reads_per_absent"));
    assert!(
        std::fs::read_to_string(page.path())
            .unwrap()
            .contains("<svg")
    );
}
