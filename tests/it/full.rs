//! Real file systems that are full, and a limit on the size of files.
//!
//! A child process writes until nothing more goes: it must end by errors, never by a signal. With
//! room again, the store opens and has all that was promised. What cannot be mounted is skipped
//! aloud.

use std::io::Write as _;
use std::path::Path;
use std::process::{Command, Stdio};

use criba::{Access, Builder, Db, Durability, Error};

use crate::mounts::{Kind, Mount, skipped};

/// Names the store to the child: its presence makes a child of the test.
const STORE: &str = "CRIBA_FULL_STORE";
/// Bytes of a memtable of the child.
const MEMTABLE: &str = "CRIBA_FULL_MEMTABLE";
const CHILD: &str = "full::the_child_writes_until_nothing_goes";

const THREADS: usize = 4;

/// No file system here has room for more.
const WRITES: usize = 100_000;

/// What is left free when the child begins.
const FREE_BYTES: u64 = 20 << 20;

/// How often a thread tries again after [`Error::Stalled`]: room may come back when a merge ends.
const TRIES: usize = 500;

fn builder(path: &Path) -> Builder {
    let memtable = std::env::var(MEMTABLE).map_or(1 << 20, |bytes| bytes.parse().unwrap());
    Db::builder(path)
        .memtable_bytes(memtable)
        .segment_bytes(1 << 20)
}

fn key(thread: usize, n: usize) -> String {
    format!("{thread}/{n:07}")
}

/// A kilobyte that hardly compresses.
fn value(thread: usize, n: usize) -> Vec<u8> {
    let mut state = (thread * WRITES + n) as u64;
    let byte = |_| {
        state = state
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1);
        (state >> 56) as u8
    };
    (0..1000).map(byte).collect()
}

fn durability(n: usize) -> Durability {
    match n % 16 {
        0 => Durability::Sync,
        n if n % 4 == 0 => Durability::Process,
        _ => Durability::Buffered,
    }
}

/// Not a test of its own: without the variable it does nothing.
#[test]
fn the_child_writes_until_nothing_goes() {
    let Some(store) = std::env::var_os(STORE) else {
        return;
    };
    let db = builder(Path::new(&store)).open().unwrap();
    std::thread::scope(|scope| {
        for thread in 0..THREADS {
            let db = db.clone();
            scope.spawn(move || {
                let (kept, error) = write(&db, thread);
                // What was promised can be read as ever.
                if kept > 0 {
                    let first = db.get(key(thread, 0)).unwrap();
                    assert_eq!(first.as_deref(), Some(&value(thread, 0)[..]));
                }
                let line = format!("\nkept {thread} {kept}: {error}\n");
                std::io::stderr().write_all(line.as_bytes()).unwrap();
                assert!(error.is_disk_full(), "{error:?}");
                let is_named = matches!(
                    error,
                    Error::Stalled { .. } | Error::Poisoned { .. } | Error::Io { .. }
                );
                assert!(is_named, "{error:?}");
            });
        }
    });
    // It may well say that it could not sync.
    drop(db.close());
}

/// How many writes are promised, and what ended them.
fn write(db: &Db, thread: usize) -> (usize, Error) {
    let mut kept = 0;
    let mut tries = 0;
    let mut n = 0;
    while n < WRITES {
        let mut batch = db.batch();
        batch.put(key(thread, n), value(thread, n));
        match batch.commit_with(durability(n)) {
            Ok(()) if durability(n) == Durability::Buffered => n += 1,
            Ok(()) => {
                n += 1;
                kept = n;
            }
            Err(Error::Stalled { .. }) if tries < TRIES => tries += 1,
            Err(error) => return (kept, error),
        }
    }
    panic!("there was room for everything");
}

/// Runs the child; returns what it promised of each thread.
fn run_child(store: &Path, memtable: u64, prefix: &[&str]) -> Vec<usize> {
    let exe = std::env::current_exe().unwrap();
    let arguments = ["--exact", CHILD, "--nocapture", "--test-threads=1"];
    let mut command = match prefix.split_first() {
        Some((program, rest)) => {
            let mut command = Command::new(program);
            command.args(rest).arg(exe);
            command
        }
        None => Command::new(exe),
    };
    let output = command
        .args(arguments)
        .env(STORE, store)
        .env(MEMTABLE, memtable.to_string())
        .stdin(Stdio::null())
        .output()
        .unwrap();
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(output.status.success(), "{:?}: {said}", output.status);
    let mut kept = vec![0; THREADS];
    for line in said.lines().filter_map(|line| line.strip_prefix("kept ")) {
        let (thread, rest) = line.split_once(' ').unwrap();
        let (count, _) = rest.split_once(':').unwrap();
        kept[thread.parse::<usize>().unwrap()] = count.parse().unwrap();
    }
    assert!(kept.iter().any(|kept| *kept > 0), "{said}");
    kept
}

/// With room again the store has what was promised, and takes more.
fn check(store: &Path, kept: &[usize]) {
    let db = builder(store).open().unwrap();
    for (thread, kept) in kept.iter().enumerate() {
        for n in 0..*kept {
            let found = db.get(key(thread, n)).unwrap();
            assert_eq!(
                found.as_deref(),
                Some(&value(thread, n)[..]),
                "{thread}/{n}"
            );
        }
    }
    db.put("more", "room").unwrap();
    db.compact_all().unwrap().wait().unwrap();
    assert!(db.verify(&mut |_, _| {}).unwrap().findings.is_empty());
    db.close().unwrap();
    let db = builder(store).open().unwrap();
    assert_eq!(db.get("more").unwrap().as_deref(), Some(&b"room"[..]));
}

fn fill_up(mount: Option<Mount>) {
    let Some(mount) = mount else { return };
    let filler = mount.fill();
    let file = std::fs::OpenOptions::new()
        .write(true)
        .open(&filler)
        .unwrap();
    let len = file.metadata().unwrap().len();
    file.set_len(len - FREE_BYTES).unwrap();
    file.sync_all().unwrap();
    let store = mount.path().join("store");
    let kept = run_child(&store, 1 << 20, &[]);
    drop(file);
    std::fs::remove_file(filler).unwrap();
    check(&store, &kept);
}

#[test]
fn a_full_tmpfs_ends_writes_by_errors() {
    fill_up(Mount::tmpfs(64 << 20));
}

#[test]
fn a_full_ext4_ends_writes_by_errors() {
    fill_up(Mount::image(Kind::Ext4, 96 << 20));
}

/// Not mapped: a page that was written back needs new room.
#[test]
fn a_full_btrfs_ends_writes_by_errors() {
    fill_up(Mount::image(Kind::Btrfs, 160 << 20));
}

/// Not mapped either, as its files can share extents.
#[test]
fn a_full_xfs_ends_writes_by_errors() {
    fill_up(Mount::image(Kind::Xfs, 320 << 20));
}

/// Opening for writing says that nothing can be written, and changes nothing.
#[test]
fn open_reports_a_full_disk_and_a_read_only_one() {
    for mount in [Mount::tmpfs(8 << 20), Mount::image(Kind::Ext4, 16 << 20)] {
        let Some(mount) = mount else { return };
        let store = mount.path().join("store");
        let open = || builder(&store).open();
        let db = open().unwrap();
        db.put("key", "value").unwrap();
        db.close().unwrap();
        let filler = mount.fill();
        let error = open().unwrap_err();
        assert!(error.is_disk_full(), "{error}");
        assert!(error.to_string().contains("reading only"), "{error}");
        let new = Db::open(mount.path().join("new")).unwrap_err();
        assert!(new.is_disk_full(), "{new}");
        std::fs::remove_file(filler).unwrap();
        mount.make_read_only();
        let error = open().unwrap_err().to_string();
        assert!(error.contains("Read-only file system"), "{error}");
        let reader = builder(&store).access(Access::ReadOnly).open().unwrap();
        assert_eq!(reader.get("key").unwrap().as_deref(), Some(&b"value"[..]));
        drop(reader);
        mount.make_writable();
        let db = open().unwrap();
        assert_eq!(db.get("key").unwrap().as_deref(), Some(&b"value"[..]));
    }
}

#[test]
fn a_limit_on_the_size_of_files_ends_writes_by_errors() {
    if Command::new("prlimit").arg("--version").output().is_err() {
        return skipped("there is no command prlimit here");
    }
    let directory = tempfile::tempdir().unwrap();
    // Less than a journal, and less than a journal's first reserve.
    for limit in [100_000, 1_200_000] {
        let store = directory.path().join(limit.to_string());
        let limit = format!("--fsize={limit}");
        let kept = run_child(&store, 4 << 20, &["prlimit", &limit]);
        check(&store, &kept);
    }
}
