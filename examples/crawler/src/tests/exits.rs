//! Every exit code, by situations that lead to it.
#![expect(
    clippy::disallowed_methods,
    reason = "tests damage stores and fill disks"
)]

use std::net::TcpListener;
use std::path::Path;
use std::process::Command;

use super::program::{self, Ended, text};
use super::small_site;

/// Runs the program, and expects it to end so and to say so.
fn check(options: &[&str], code: i32, says: &str) -> Ended {
    let ended = program::run(options);
    assert_eq!(ended.code, Some(code), "{options:?}: {ended:?}");
    assert!(ended.stderr.contains(says), "{options:?}: {ended:?}");
    ended
}

#[test]
fn done() {
    let (_, served) = small_site();
    let dir = tempfile::tempdir().unwrap();
    let store = dir.path().join("store");
    let root = served.root().unwrap().to_string();
    // A limit that was reached is an end that was asked for; one seed of two is enough.
    let missing = format!("{root}status/404");
    check(
        &["--store", text(&store), "--pages", "5", &root, &missing],
        0,
        "",
    );
    check(&["--store", text(&store), &root, &missing], 0, "");
    // Nothing is left to do, and that is no fault.
    check(&["--store", text(&store), &root], 0, "");
    check(&["--store", text(&store), "--recrawl", &root], 0, "");
}

#[test]
fn usage() {
    let (_, served) = small_site();
    let dir = tempfile::tempdir().unwrap();
    let store = dir.path().join("store");
    let root = served.root().unwrap().to_string();
    let of_store = ["--store", text(&store)];
    let with = |options: &[&'static str]| [&of_store, options].concat();
    check(&with(&["--no-such-option"]), 2, "--no-such-option");
    check(
        &with(&["--timeout", "0", "http://localhost:1/"]),
        2,
        "--timeout",
    );
    check(&with(&["ftp://localhost/"]), 2, "ftp://localhost/");
    check(&with(&["--agent", "", "http://localhost:1/"]), 2, "--agent");
    check(
        &with(&["--false-positives", "2", "http://localhost:1/"]),
        2,
        "--false-positives",
    );
    check(&[&of_store[..], &["--pages", "3", &root]].concat(), 0, "");
    check(
        &[&of_store[..], &["--recrawl", &root]].concat(),
        2,
        "without --recrawl",
    );
    let other_order = [&of_store[..], &["--partition", "none", &root]].concat();
    check(&other_order, 2, "--partition host");
    let letter = dir.path().join("letter");
    std::fs::write(&letter, "a letter").unwrap();
    let archive = [&of_store[..], &["--warc", text(&letter), &root]].concat();
    check(&archive, 2, "letter exists");
}

#[test]
fn store() {
    let (_, served) = small_site();
    let dir = tempfile::tempdir().unwrap();
    let root = served.root().unwrap().to_string();
    let path = |name: &str| dir.path().join(name);
    let with = |store: &Path, code, says| check(&["--store", text(store), &root], code, says);

    let other = path("other");
    criba::Db::open(&other)
        .unwrap()
        .put("key", "value")
        .unwrap();
    with(&other, 3, "something else");

    let folder = path("folder");
    std::fs::create_dir(&folder).unwrap();
    std::fs::write(folder.join("letter"), "a letter").unwrap();
    with(&folder, 3, "folder");

    let locked = path("locked");
    let held = super::open(&locked);
    with(&locked, 3, "held by another process");
    drop(held);

    let damaged = path("damaged");
    with(&damaged, 0, "");
    for entry in std::fs::read_dir(&damaged).unwrap() {
        let path = entry.unwrap().path();
        if path.is_file() {
            let mut bytes = std::fs::read(&path).unwrap();
            bytes.iter_mut().for_each(|byte| *byte ^= 0x55);
            std::fs::write(&path, bytes).unwrap();
        }
    }
    with(&damaged, 3, "damaged");
}

#[test]
fn incomplete() {
    let (_, served) = small_site();
    let dir = tempfile::tempdir().unwrap();
    let root = served.root().unwrap();
    let seed = |path: &str| root.join(path).unwrap().to_string();
    let with = |name: &str, seeds: &[&str], says: &str| {
        let store = dir.path().join(name);
        let options = ["--store", text(&store), "--no-sitemaps", "--attempts", "2"];
        check(&[&options, seeds].concat(), 4, says);
        // And it stays so: nothing of the seeds is there.
        check(&[&options, seeds].concat(), 4, says);
    };
    with("404", &[&seed("/status/404")], "/status/404: status 404");
    with("500", &[&seed("/status/500")], "/status/500: status 500");
    let both = [&*seed("/status/404"), &*seed("/status/500")];
    with("both", &both, "/status/500: status 500");
    with("forbidden", &[&seed("/private/x")], "robots.txt forbids it");
    with(
        "moved",
        &[&seed("/moved/forbidden")],
        "robots.txt forbids it",
    );
    let away = "leads to http://elsewhere.invalid/, which is left out";
    with("away", &[&seed("/moved/away")], away);
    with("ring", &[&seed("/ring/self")], "too many redirects");
    with("nowhere", &[&seed("/moved/nowhere")], "leads nowhere");
    // A port that was free a moment ago.
    let port = TcpListener::bind("127.0.0.1:0").unwrap().local_addr();
    with("held", &[&format!("http://{}/", port.unwrap())], "");
}

/// Nothing is asked for, and no store is made, if a file cannot be written.
#[test]
fn a_file_that_cannot_be_written_ends_the_program_before_the_first_request() {
    let (_, served) = small_site();
    let dir = tempfile::tempdir().unwrap();
    let store = dir.path().join("store");
    let root = served.root().unwrap().to_string();
    let missing = dir.path().join("missing").join("file");
    for option in ["--list", "--html", "--log", "--broken", "--warc"] {
        let options = ["--store", text(&store), option, text(&missing), &root];
        let ended = check(&options, 5, "missing/file: No such file");
        assert!(ended.stderr.contains("error: cannot "), "{ended:?}");
    }
    assert!(served.requests().is_empty());
}

/// The device takes the bytes and has no room for them.
#[test]
fn a_file_that_has_no_room_is_named_and_takes_nothing_else_away() {
    let (site, served) = small_site();
    let dir = tempfile::tempdir().unwrap();
    let store = dir.path().join("store");
    let root = served.root().unwrap().to_string();
    for option in ["--list", "--html", "--broken"] {
        let other = dir.path().join("other");
        let beside = if option == "--list" {
            "--html"
        } else {
            "--list"
        };
        let options = [
            "--store",
            text(&store),
            option,
            "/dev/full",
            beside,
            text(&other),
            "--json",
        ];
        let ended = check(
            &[&options[..], &[&root]].concat(),
            5,
            "cannot write /dev/full: ",
        );
        assert_eq!(program::json(&ended)["waiting"], 0);
        assert!(std::fs::metadata(&other).unwrap().len() > 1000, "{option}");
    }
    let compared = super::Comparison::of(&site.expected(), &served.requests());
    assert!(compared.is_right(), "{compared:?}");
    for option in ["--log", "--warc"] {
        let store = dir.path().join(option);
        check(
            &["--store", text(&store), option, "/dev/full", &root],
            5,
            "cannot write /dev/full: ",
        );
    }
}

/// A limit on the size of files stands for a disk that is nearly full.
#[test]
fn a_store_that_has_no_room_is_a_refusal_of_the_system() {
    let (_, served) = small_site();
    let dir = tempfile::tempdir().unwrap();
    let store = dir.path().join("store");
    let mut arguments = program::fixed();
    let root = served.root().unwrap().to_string();
    arguments.extend(["--store".into(), text(&store).into(), root.clone()]);
    let limited = ["sh", "-c", "trap '' XFSZ; ulimit -f 64; exec \"$@\"", "sh"];
    let output = program::command(&limited, &arguments).output().unwrap();
    let ended = program::ended(output);
    assert_eq!(ended.code, Some(5), "{ended:?}");
    assert!(ended.stderr.contains(text(&store)), "{ended:?}");
    // With room it goes on.
    check(&["--store", text(&store), &root], 0, "");
}

#[test]
fn a_full_disk_is_a_refusal_of_the_system() {
    let dir = tempfile::tempdir().unwrap();
    let mount = |arguments: &[&str]| {
        let ended = Command::new("mount")
            .args(arguments)
            .arg(dir.path())
            .output();
        ended.is_ok_and(|ended| ended.status.success())
    };
    if !mount(&["-t", "tmpfs", "-o", "size=200k", "tmpfs"]) {
        crate::say(format_args!(
            "a full disk: skipped, no file system can be mounted here"
        ));
        return;
    }
    let (_, served) = small_site();
    let store = dir.path().join("store");
    let root = served.root().unwrap().to_string();
    let ended = program::run(&["--store", text(&store), &root]);
    let with_room = mount(&["-o", "remount,size=100m", "tmpfs"]);
    let resumed = program::run(&["--store", text(&store), &root]);
    let unmounted = Command::new("umount").arg(dir.path()).status().unwrap();
    assert!(unmounted.success() && with_room);
    assert_eq!(ended.code, Some(5), "{ended:?}");
    assert!(ended.stderr.contains("No space left"), "{ended:?}");
    assert_eq!(resumed.code, Some(0), "{resumed:?}");
}
