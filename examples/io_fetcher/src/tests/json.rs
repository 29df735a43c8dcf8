//! `--json`: a line for each document, and one for the run.

use std::collections::BTreeMap;
use std::ffi::OsStr;
use std::fs;
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::net::UnixListener;

use serde_json::Value;

use super::{Place, noise, pause};

impl Place {
    /// Exit code and lines of a command, run as a process of its own.
    fn lines(&self, arguments: &[&str]) -> (i32, Vec<Value>) {
        let store = ["--json", "--store", self.store.to_str().unwrap()];
        let (name, rest) = arguments.split_first().unwrap();
        let output = super::output(&[&[*name], &store[..], rest].concat());
        let text = String::from_utf8(output.stdout).unwrap();
        // The harness writes a line of its own.
        let lines = text
            .lines()
            .filter_map(|line| line.find('{').map(|at| &line[at..]));
        let lines = lines.map(|line| serde_json::from_str(line).unwrap());
        (output.status.code().unwrap(), lines.collect())
    }

    fn ingest_lines(&self, options: &[&str]) -> (i32, Vec<Value>) {
        pause();
        let tree = self.tree.to_str().unwrap();
        self.lines(&[&["ingest", tree], options].concat())
    }
}

/// How many lines have each status.
fn statuses(lines: &[Value]) -> BTreeMap<&str, u64> {
    let mut statuses = BTreeMap::new();
    for line in lines {
        *statuses
            .entry(line["status"].as_str().unwrap())
            .or_default() += 1;
    }
    statuses
}

/// The line of a file in the tree.
fn line_of<'l>(place: &Place, lines: &'l [Value], name: &str) -> &'l Value {
    let path = place.tree.join(name);
    let mut found = lines
        .iter()
        .filter(|line| line["name"] == path.to_str().unwrap());
    let line = found.next().unwrap();
    assert!(found.next().is_none(), "{name} has two lines");
    line
}

fn plant(place: &Place) {
    place.write("a", noise(1, 10_000));
    place.write("b", noise(1, 10_000));
    place.write("c", noise(2, 5000));
    fs::hard_link(place.tree.join("c"), place.tree.join("d")).unwrap();
    place.write("empty", b"");
    let strange = place.tree.join(OsStr::from_bytes(b"x\xff\n"));
    fs::write(strange, b"strange").unwrap();
    drop(UnixListener::bind(place.tree.join("socket")).unwrap());
}

#[test]
fn ingest_says_what_became_of_each_document() {
    let place = Place::new();
    plant(&place);
    let (exit, lines) = place.ingest_lines(&["/no/such/file"]);
    assert_eq!(exit, 1);
    let expected = [
        ("duplicate", 1),
        ("empty", 1),
        ("hard_link", 1),
        ("skipped", 1),
        ("special", 1),
        ("stored", 3),
        ("summary", 1),
    ];
    assert_eq!(statuses(&lines), BTreeMap::from(expected));
    let summary = lines.last().unwrap();
    assert_eq!(summary["status"], "summary");
    assert_eq!(summary["documents"], 6);
    let hash = |seed, len| blake3::hash(&noise(seed, len)).to_hex().to_string();
    let (a, b) = (line_of(&place, &lines, "a"), line_of(&place, &lines, "b"));
    assert_eq!(
        (&a["status"], &b["status"]),
        (&"stored".into(), &"duplicate".into())
    );
    assert_eq!(
        (&a["hash"], &b["hash"]),
        (&hash(1, 10_000).into(), &a["hash"])
    );
    assert_eq!(b["duplicate_of"], a["document"]);
    assert_eq!(
        (&a["size"], &a["read_bytes"]),
        (&10_000.into(), &10_000.into())
    );
    let written = |line: &Value| line["written_bytes"].as_u64().unwrap();
    assert!(written(a) >= 10_000 && written(b) == 0);
    let all: u64 = lines
        .iter()
        .filter(|line| line["status"] == "stored")
        .map(written)
        .sum();
    assert_eq!(summary["pack_bytes_written"], all);
    let strange = lines.iter().find(|line| !line["name_escaped"].is_null());
    let strange = strange.unwrap()["name_escaped"].as_str().unwrap();
    assert!(strange.ends_with("/x\\xff\\x0a"), "{strange}");
    let skipped = lines
        .iter()
        .find(|line| line["status"] == "skipped")
        .unwrap();
    assert!(skipped["reason"].as_str().unwrap().contains("No such file"));

    // Bytes read: the sum over the documents is what the run read of its sources.
    let read = |line: &Value| line["read_bytes"].as_u64().unwrap_or(0);
    let read: u64 = lines[..lines.len() - 1].iter().map(read).sum();
    assert_eq!(summary["source_bytes_read"], read);
}

#[test]
fn ingest_says_what_is_as_it_was_and_what_is_gone() {
    let place = Place::new();
    plant(&place);
    place.write("folder/in", b"in a directory");
    let (_, first) = place.ingest_lines(&[]);
    let (exit, lines) = place.ingest_lines(&[]);
    assert_eq!(exit, 0);
    let found = statuses(&lines);
    assert_eq!((found["unchanged"], found["summary"]), (7, 1));
    for name in ["a", "b", "c", "d", "empty", "folder/in"] {
        let (before, now) = (line_of(&place, &first, name), line_of(&place, &lines, name));
        assert_eq!(before["hash"], now["hash"], "{name}");
        assert_eq!(
            (&now["read_bytes"], &now["written_bytes"]),
            (&0.into(), &0.into())
        );
    }
    let (_, lines) = place.ingest_lines(&["--paranoid"]);
    assert_eq!(statuses(&lines)["verified"], 6, "all but the empty one");

    fs::remove_dir_all(place.tree.join("folder")).unwrap();
    fs::remove_file(place.tree.join("a")).unwrap();
    let (_, lines) = place.ingest_lines(&[]);
    assert_eq!(statuses(&lines)["gone"], 2);
    assert_eq!(line_of(&place, &lines, "folder/in")["status"], "gone");
    assert_eq!(line_of(&place, &lines, "a")["status"], "gone");
    fs::remove_file(place.tree.join("b")).unwrap();
    let (_, lines) = place.ingest_lines(&["--prune"]);
    assert_eq!(line_of(&place, &lines, "b")["status"], "pruned");

    let place = Place::new();
    plant(&place);
    let (_, lines) = place.ingest_lines(&["--index-only"]);
    let found = statuses(&lines);
    assert_eq!((found["indexed"], found["duplicate"]), (3, 1));
}

#[test]
fn extract_and_check_say_what_became_of_each_document() {
    let place = Place::new();
    plant(&place);
    std::os::unix::fs::symlink("a", place.tree.join("link")).unwrap();
    let (_, stored) = place.ingest_lines(&[]);
    let out = place.out.join(place.tree.strip_prefix("/").unwrap());
    fs::create_dir_all(&out).unwrap();
    fs::write(out.join("c"), b"the user's").unwrap();
    let extract = ["extract", "--to", place.out.to_str().unwrap()];
    let (exit, lines) = place.lines(&extract);
    assert_eq!(exit, 1);
    let expected = [
        ("linked", 1),
        ("refused", 1),
        ("summary", 1),
        ("written", 5),
    ];
    assert_eq!(statuses(&lines), BTreeMap::from(expected));
    assert_eq!(lines.last().unwrap()["files"], 5);
    let (a, c) = (line_of(&place, &lines, "a"), line_of(&place, &lines, "c"));
    assert_eq!(a["hash"], line_of(&place, &stored, "a")["hash"]);
    assert_eq!(
        (&a["size"], &a["written_bytes"]),
        (&10_000.into(), &10_000.into())
    );
    assert!(
        c["reason"]
            .as_str()
            .unwrap()
            .contains("nothing is overwritten")
    );

    let (exit, lines) = place.lines(&["check"]);
    assert_eq!((exit, statuses(&lines)["sound"]), (0, 6));
    assert_eq!(line_of(&place, &lines, "b")["hash"], a["hash"]);
    let pack = place.store.join("packs/000000.pack");
    let mut bytes = fs::read(&pack).unwrap();
    bytes[5000] ^= 1;
    fs::write(&pack, bytes).unwrap();
    let (exit, lines) = place.lines(&["check"]);
    let found = statuses(&lines);
    // The content, and the two names that have it.
    assert_eq!((exit, found["damaged"], found["sound"]), (3, 3, 4));
    assert_eq!(line_of(&place, &lines, "b")["status"], "damaged");
    assert_eq!(lines.last().unwrap()["damage"], 3);
    fs::remove_dir_all(&place.out).unwrap();
    let (exit, lines) = place.lines(&extract);
    assert_eq!((exit, statuses(&lines)["damaged"]), (3, 2));
}

#[test]
fn a_run_that_ends_early_says_so_in_its_last_line() {
    let place = Place::new();
    let (exit, lines) = place.lines(&["check"]);
    assert_eq!((exit, lines.len()), (2, 1));
    assert_eq!(
        (&lines[0]["status"], &lines[0]["exit"]),
        (&"error".into(), &2.into())
    );
    assert!(lines[0]["reason"].as_str().unwrap().contains("ingest"));
}
