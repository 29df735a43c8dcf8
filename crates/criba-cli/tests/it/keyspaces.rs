//! Keyspaces at the command line: named, listed, moved, dropped.

use serde_json::Value;

use super::{criba, in_dir, stdout};

/// The exit code and the text of an error.
fn refused(arguments: &[&str]) -> (i32, String) {
    let output = criba(arguments);
    assert!(output.stdout.is_empty(), "{arguments:?}");
    let error = String::from_utf8(output.stderr).unwrap();
    (output.status.code().unwrap(), error)
}

fn json(arguments: &[&str]) -> Vec<Value> {
    let output = stdout(arguments);
    let lines = output.lines();
    lines
        .map(|line| serde_json::from_str(line).unwrap())
        .collect()
}

fn segment_of(store: &str, keyspace: &str) -> String {
    let stats = json(&["stats", store, "--json", "--keyspace", keyspace]);
    assert_eq!(stats[0]["keyspace"], keyspace);
    assert!(stats[0].get("keyspaces").is_none());
    stats[0]["runs"][0]["segments"][0]["segment"].to_string()
}

#[test]
fn each_command_reads_and_writes_the_keyspace_it_names() {
    let dir = tempfile::tempdir().unwrap();
    let store = dir.path().join("store");
    let store = in_dir(&store);
    let users = ["--keyspace", "users"];
    stdout(&["put", store, "k", "of default"]);
    stdout(&["put", store, "k", "of users", users[0], users[1]]);
    stdout(&["put", store, "l", "2", users[0], users[1]]);
    assert_eq!(stdout(&["get", store, "k"]), "of default");
    let named = ["get", store, "k", "--keyspace", "default"];
    assert_eq!(stdout(&named), "of default");
    let user = ["get", store, "k", users[0], users[1]];
    assert_eq!(stdout(&user), "of users");
    let scan = ["scan", store, "--from", "l", users[0], users[1]];
    assert_eq!(stdout(&scan), "l\t2\n");
    let explain = ["explain", store, "l", "--json"];
    assert_eq!(json(&explain)[0]["found"], false);
    let explain = [&explain[..], &users].concat();
    assert_eq!(json(&explain)[0]["found"], true);
    stdout(&["delete", store, "k", users[0], users[1]]);
    assert_eq!(criba(&user).status.code(), Some(1));
    assert_eq!(stdout(&["get", store, "k"]), "of default");
}

#[test]
fn what_reads_makes_no_keyspace() {
    let dir = tempfile::tempdir().unwrap();
    let store = dir.path().join("store");
    let store = in_dir(&store);
    stdout(&["put", store, "k", "v"]);
    for command in [
        &["get", store, "k"][..],
        &["delete", store, "k"],
        &["scan", store],
        &["explain", store, "k"],
        &["export", store],
        &["stats", store],
        &["inspect", store, "1"],
    ] {
        let named = [command, &["--keyspace", "no\u{1b}[1m"]].concat();
        let (code, error) = refused(&named);
        assert_eq!(code, 2, "{command:?}");
        let expected = "there is no keyspace \"no\\x1b[1m\"; criba keyspaces STORE";
        assert!(error.contains(expected), "{command:?}: {error}");
    }
    assert_eq!(json(&["keyspaces", store, "--json"]).len(), 1);
}

#[test]
fn names_that_no_keyspace_can_have() {
    let dir = tempfile::tempdir().unwrap();
    let store = dir.path().join("store");
    let store_name = in_dir(&store);
    let long = "n".repeat(256);
    for (name, expected) in [
        ("", "0 bytes"),
        (&long, "256 bytes"),
        ("\\xff", "\"\\xff\" is not UTF-8"),
        ("\\q", "no known escape"),
    ] {
        let put = ["put", store_name, "k", "v", "-u", "--keyspace", name];
        let (code, error) = refused(&put);
        assert_eq!(code, 2, "{name}");
        assert!(
            error.contains("--keyspace: ") && error.contains(expected),
            "{error}"
        );
    }
    assert!(!store.exists());
}

#[test]
fn keyspaces_are_listed_verified_and_repaired() {
    let dir = tempfile::tempdir().unwrap();
    let [store, repaired] = ["store", "repaired"].map(|name| dir.path().join(name));
    let (store, repaired) = (in_dir(&store), in_dir(&repaired));
    let file = dir.path().join("lines.tsv");
    std::fs::write(&file, "k\t1\nl\t2\n").unwrap();
    stdout(&["import", store, in_dir(&file), "--keyspace", "users"]);
    stdout(&["put", store, "k", "v", "-u", "--keyspace", "e\\x1b\u{202e}"]);
    let text = stdout(&["keyspaces", store]);
    assert!(text.is_ascii() && text.contains("\ne\\x1b\\xe2\\x80\\xae "));
    let rows = json(&["keyspaces", store, "--json"]);
    let of = |name: &str| {
        let row = rows.iter().find(|row| row["keyspace"] == name).unwrap();
        ["approximate_len", "segments"].map(|field| row[field].as_u64().unwrap())
    };
    assert_eq!(rows.len(), 3);
    assert_eq!(of("default"), [0, 0]);
    assert_eq!(of("users"), [2, 1]);
    assert_eq!(of("e\u{1b}\u{202e}")[0], 1);
    let stats = json(&["stats", store, "--json"]);
    assert_eq!(stats[0]["keyspace"], "default");
    assert_eq!(stats[0]["keyspaces"], Value::from(rows));
    let page = dir.path().join("page.html");
    let text = stdout(&["stats", store, "--html", in_dir(&page)]);
    let page = std::fs::read_to_string(&page).unwrap();
    for text in [text, page] {
        assert!(text.contains("users") && !text.contains('\u{202e}'));
    }
    let segment = segment_of(store, "users");
    for place in [&[][..], &["--keyspace", "users"]] {
        let found = json(&[&["inspect", store, &segment, "--json"], place].concat());
        assert_eq!(found[0]["keyspace"], "users");
    }
    let elsewhere = ["inspect", store, &segment, "--keyspace", "default"];
    assert_eq!(refused(&elsewhere).0, 2);
    assert!(stdout(&["verify", store]).starts_with("3 keyspaces, "));
    assert_eq!(json(&["verify", store, "--json"])[0]["keyspaces"], 3);
    let report = json(&["repair", store, "--to", repaired, "--json"]);
    assert_eq!(
        (&report[0]["keyspaces"], &report[0]["keys"]),
        (&3.into(), &3.into())
    );
    let all = |store| stdout(&["export", store, "--all"]);
    assert_eq!(all(repaired), all(store));
}

#[test]
fn a_keyspace_is_dropped_once() {
    let dir = tempfile::tempdir().unwrap();
    let store = dir.path().join("store");
    let store = in_dir(&store);
    stdout(&["put", store, "k", "v"]);
    for name in ["users", "more"] {
        stdout(&["put", store, "k", "v", "--keyspace", name]);
    }
    let text = stdout(&["drop-keyspace", store, "users"]);
    assert!(
        text.starts_with("dropped \"users\": about 1 keys"),
        "{text}"
    );
    let (code, error) = refused(&["drop-keyspace", store, "users"]);
    assert_eq!(code, 1);
    assert!(error.contains("there is no keyspace \"users\""), "{error}");
    let dropped = json(&["drop-keyspace", store, "m\\x6fre", "-u", "--json"]);
    assert_eq!(dropped[0]["keyspace"], "more");
    for name in ["default", ""] {
        assert_eq!(refused(&["drop-keyspace", store, name]).0, 2);
    }
    assert_eq!(stdout(&["export", store, "--all"]), "\\=default\nk\tv\n");
}

#[test]
fn a_checkpoint_has_all_keyspaces() {
    let dir = tempfile::tempdir().unwrap();
    let [store, monday, inside] = ["store", "monday", "store/new/inside"].map(|name| {
        let path = dir.path().join(name);
        in_dir(&path).to_owned()
    });
    stdout(&["put", &store, "k", "v"]);
    stdout(&["put", &store, "k", "v", "--keyspace", "users"]);
    let made = json(&["checkpoint", &store, &monday, "--json"]);
    assert_eq!(made[0]["sequence"], 2);
    let files = ["linked_files", "copied_files"].map(|name| made[0][name].as_u64().unwrap());
    assert!(files[0] + files[1] > 0, "{made:?}");
    stdout(&["put", &store, "k", "later"]);
    assert_eq!(
        stdout(&["export", &monday, "--all"]),
        "\\=default\nk\tv\n\\=users\nk\tv\n"
    );
    for target in [&monday, &inside] {
        assert_eq!(refused(&["checkpoint", &store, target]).0, 2);
    }
    let text = stdout(&["checkpoint", &store, &format!("{monday}-2")]);
    assert!(text.contains("2 keyspaces up to sequence 3"), "{text}");
    let nowhere = format!("{store}-none");
    assert_eq!(refused(&["checkpoint", &nowhere, &inside]).0, 2);
}

#[test]
fn a_whole_store_is_moved_as_lines() {
    let dir = tempfile::tempdir().unwrap();
    let path = |name: &str| in_dir(&dir.path().join(name)).to_owned();
    let (file, json_file) = (path("lines.tsv"), path("lines.json"));
    let (a, b, c) = (path("a"), path("b"), path("c"));
    let text = "\\=a\\x1b\\tb\nk\t1\n\\=default\nk\t2\nl\t3\n\\=empty\n\\=users\nk\t4\n";
    std::fs::write(&file, text).unwrap();
    stdout(&["import", &a, &file]);
    assert_eq!(stdout(&["export", &a, "--all"]), text);
    stdout(&["export", &a, &json_file, "--all", "--json"]);
    stdout(&["import", &b, &json_file, "--json"]);
    assert_eq!(stdout(&["export", &b, "--all"]), text);
    let alone = criba(&["export", &b]);
    assert_eq!(alone.stdout, b"k\t2\nl\t3\n");
    let note = String::from_utf8(alone.stderr).unwrap();
    assert!(note.contains("3 other keyspaces"), "{note}");
    // The lines of one keyspace fit any other.
    stdout(&["export", &a, &file, "--keyspace", "users"]);
    stdout(&["import", &c, &file, "--keyspace", "people"]);
    let people = "\\=default\n\\=people\nk\t4\n";
    assert_eq!(stdout(&["export", &c, "--all"]), people);
    let (code, error) = refused(&["import", &c, &json_file, "--json", "--keyspace", "x"]);
    assert_eq!(code, 2);
    assert!(
        error.contains("line 1: this line names a keyspace"),
        "{error}"
    );
}

#[test]
fn operators_of_keyspaces_are_kept_apart() {
    let dir = tempfile::tempdir().unwrap();
    let path = |name: &str| in_dir(&dir.path().join(name)).to_owned();
    let (store, copy, file) = (path("store"), path("copy"), path("lines.tsv"));
    let append = ["--operator", "append ,"];
    std::fs::write(&file, "k\t1\n\\+k\t2\n").unwrap();
    let lists = [
        "import",
        &store,
        &file,
        append[0],
        append[1],
        "--keyspace",
        "lists",
    ];
    stdout(&lists);
    assert_eq!(criba(&["import", &store, &file]).status.code(), Some(2));
    let get = ["get", &store, "k", "--keyspace", "lists"];
    assert_eq!(stdout(&[&get[..], &append].concat()), "1,2");
    // Another operator for the default keyspace.
    let other = "of another program";
    stdout(&["import", &store, &file, "--operator", other]);
    assert_eq!(stdout(&[&get[..], &append].concat()), "1,2");
    // Combined by one operator, the operands of the other would come to nonsense.
    let operand = path("operand.tsv");
    std::fs::write(&operand, "\\+k\t2\n").unwrap();
    let more = [
        "import",
        &store,
        &operand,
        append[0],
        append[1],
        "--keyspace",
        "lists",
    ];
    stdout(&more);
    let output = criba(&["export", &store, "--all"]);
    let error = String::from_utf8(output.stderr).unwrap();
    assert_eq!(output.status.code(), Some(2));
    assert!(
        error.contains("\"append ,\"") && error.contains(other) && error.contains("--keyspace"),
        "{error}"
    );
    let lines = stdout(&["export", &store, "--keyspace", "lists"]);
    std::fs::write(&file, lines).unwrap();
    stdout(&["import", &copy, &file, append[0], append[1]]);
    assert_eq!(stdout(&["scan", &copy, append[0], append[1]]), "k\t1,2,2\n");
}
