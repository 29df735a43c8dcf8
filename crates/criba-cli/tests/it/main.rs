//! The `criba` program as a user runs it.
#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]
#![expect(
    clippy::disallowed_methods,
    reason = "tests look at files from outside"
)]

mod keyspaces;
#[cfg(feature = "lab")]
mod lab;
#[cfg(feature = "study")]
mod ranges;

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
fn operands_are_exported_with_and_without_their_operator() {
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("lines.tsv");
    let text = "a\t1\n\\+a\t2\n\\+a\\x00\t3\nb\t4\n";
    std::fs::write(&file, text).unwrap();
    let [a, b, c] = ["a", "b", "c"].map(|name| dir.path().join(name));
    let (a, b, c) = (in_dir(&a), in_dir(&b), in_dir(&c));
    let refused = criba(&["import", a, in_dir(&file)]);
    assert_eq!(refused.status.code(), Some(2));
    let error = String::from_utf8(refused.stderr).unwrap();
    assert!(
        error.contains("line 2") && error.contains("--operator"),
        "{error}"
    );
    let append = ["--operator", "append ,"];
    // Of an operator that this program does not have: the operands stay as they are.
    stdout(&[
        "import",
        a,
        in_dir(&file),
        "--operator",
        "of another program",
    ]);
    assert_eq!(stdout(&["export", a]), text);
    assert_eq!(criba(&["get", a, "a"]).status.code(), Some(2));
    // The store knows whose they are.
    let other = criba(&["get", a, "a", append[0], append[1]]);
    assert_eq!(other.status.code(), Some(2));
    let json = dir.path().join("lines.json");
    stdout(&["export", a, in_dir(&json), "--json"]);
    stdout(&["import", b, in_dir(&json), "--json", append[0], append[1]]);
    let combined = "a\t1,2\na\\x00\t3\nb\t4\n";
    assert_eq!(stdout(&["scan", b, append[0], append[1]]), combined);
    assert_eq!(stdout(&["get", b, "a", append[0], append[1]]), "1,2");
    // Operands of two sessions lie in two segments, uncombined.
    for _ in 0..2 {
        stdout(&["import", c, in_dir(&json), "--json", append[0], append[1]]);
    }
    let twice = "a\t1,2\na\\x00\t3,3\nb\t4\n";
    assert!(stdout(&["export", c]).contains("\n\\+a\\x00\t3\n"));
    assert_eq!(stdout(&["export", c, append[0], append[1]]), twice);
}

#[cfg(feature = "study")]
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

#[cfg(feature = "study")]
#[test]
fn trees_are_studied_after_compaction() {
    let page = tempfile::NamedTempFile::new().unwrap();
    let small = "study --tree --strategy leveled,lazy-leveled --keys 35000 --ratio 4 \
                 --memtable-bytes 64KiB --lookups 20000 --json --html";
    let mut arguments: Vec<&str> = small.split_whitespace().collect();
    arguments.push(in_dir(page.path()));
    let output = stdout(&arguments);
    let rows: Vec<serde_json::Value> = output
        .lines()
        .map(|line| serde_json::from_str(line).unwrap())
        .collect();
    let names = |row: &serde_json::Value| {
        ["strategy", "allocation", "filter"].map(|name| row[name].as_str().unwrap().to_owned())
    };
    let expected = [
        ["leveled", "uniform", "bloom"],
        ["leveled", "uniform", "bloomier-uniform"],
        ["leveled", "budget", "budget"],
        ["lazy-leveled", "uniform", "bloom"],
        ["lazy-leveled", "uniform", "bloomier-uniform"],
        ["lazy-leveled", "budget", "budget"],
    ];
    assert_eq!(rows.iter().map(names).collect::<Vec<_>>(), expected);
    for row in &rows {
        let number = |field: &str| {
            let value = row[field].as_f64();
            value.unwrap_or_else(|| panic!("{field} in {row}"))
        };
        assert_eq!(number("stored_keys"), 35_000.0, "{row}");
        assert!(number("levels") >= 3.0 && number("runs") >= 3.0, "{row}");
        assert!(number("lookups_absent") >= 20_000.0, "{row}");
        let counted = number("wasted_reads") / number("lookups_absent");
        let told = number("wasted_reads_per_absent");
        assert!((counted / told - 1.0).abs() < 1e-9, "{row}");
        let expected = number("expected_wasted_reads");
        assert!((counted / expected - 1.0).abs() < 0.6, "{row}");
        assert!(number("reads_per_present") >= 1.0, "{row}");
        assert!(number("write_amplification") > 1.0, "{row}");
        assert!((1.0..1.5).contains(&number("space_amplification")), "{row}");
        // The budget is kept; small filters take a little more than their payload.
        assert!((8.5..11.5).contains(&number("bits_per_key")), "{row}");
        let levels = row["per_level"].as_array().unwrap();
        assert_eq!(levels.len() as f64, number("levels"));
    }
    for strategy in rows.chunks(3) {
        let ratio = strategy[2]["ratio_to_uniform_bloom"].as_f64().unwrap();
        assert!(ratio < 0.2, "{}", strategy[2]);
    }
    let page = std::fs::read_to_string(page.path()).unwrap();
    assert!(page.contains("<svg") && page.contains("lazy-leveled budget"));
}

#[test]
fn options_of_trees_need_trees() {
    for line in [
        "study --strategy tiered",
        "study --ratio 4",
        "study --tree --runs 3",
        "study --tree --input x",
        "study --tree --strategy fifo",
        "study --tree --bits 0",
        "study --tree --filter nonsense",
    ] {
        let arguments: Vec<&str> = line.split(' ').collect();
        assert_eq!(criba(&arguments).status.code(), Some(2), "{line}");
    }
}

#[test]
fn stats_tell_of_levels() {
    let dir = tempfile::tempdir().unwrap();
    let (store, file) = (dir.path().join("store"), dir.path().join("lines.tsv"));
    let lines: String = (0..3000).map(|n| format!("key{n:05}\t{n}\n")).collect();
    std::fs::write(&file, lines).unwrap();
    let budget = ["--filter", "budget:9"];
    stdout(&[&["import", in_dir(&store), in_dir(&file)], &budget[..]].concat());
    let text = stdout(&["stats", in_dir(&store)]);
    for expected in [
        "write amplification",
        "designed",
        "bloomier",
        "stalls",
        "3,000",
    ] {
        assert!(text.contains(expected), "{expected} in {text}");
    }
    let page = dir.path().join("stats.html");
    let output = stdout(&["stats", in_dir(&store), "--json", "--html", in_dir(&page)]);
    let stats: serde_json::Value = serde_json::from_str(&output).unwrap();
    let level = &stats["levels"][0];
    assert_eq!((&level["keys"], &level["runs"]), (&3000.into(), &1.into()));
    let bits = level["r_bits"].as_f64().unwrap();
    assert!((8.2..9.1).contains(&bits), "{bits}");
    assert!(stats["compactions"]["merges"].is_u64());
    let page = std::fs::read_to_string(&page).unwrap();
    assert!(page.contains("<svg") && page.contains("key02999"));
}

#[test]
fn the_command_says_what_is_lost() {
    let criba = |arguments: &[&str]| {
        let output = Command::new(env!("CARGO_BIN_EXE_criba"))
            .args(arguments)
            .output()
            .unwrap();
        let text = [output.stdout, output.stderr].concat();
        (output.status.code(), String::from_utf8(text).unwrap())
    };
    let directory = tempfile::tempdir().unwrap();
    let in_dir = |name: &str| directory.path().join(name).to_str().unwrap().to_owned();
    let (store, to) = (in_dir("store"), in_dir("new"));
    assert_eq!(criba(&["put", &store, "key", "value"]).0, Some(0));
    assert_eq!(criba(&["repair", &store]).0, Some(2));
    let (code, text) = criba(&["repair", &store, "--to", &to]);
    assert_eq!(code, Some(0), "{text}");
    assert!(
        text.contains("1 keys") && text.contains("nothing is lost"),
        "{text}"
    );
    assert_eq!(criba(&["repair", &store, "--to", &to]).0, Some(2));
    std::fs::remove_file(format!("{store}/CURRENT")).unwrap();
    let (code, text) = criba(&["get", &store, "key"]);
    assert_eq!(code, Some(3));
    assert!(text.contains("criba repair"), "{text}");
    let (code, text) = criba(&["repair", &store, "--in-place", "--json"]);
    assert_eq!(code, Some(3), "{text}");
    let report: serde_json::Value = serde_json::from_str(&text).unwrap();
    assert_eq!(report["keys"], 1);
    assert!(
        report["lost"][0]["file"]
            .as_str()
            .unwrap()
            .ends_with("CURRENT")
    );
    assert_eq!(criba(&["get", &store, "key"]), (Some(0), "value".into()));
    assert_eq!(
        criba(&["repair", &in_dir("none"), "--to", &in_dir("x")]).0,
        Some(2)
    );
}
