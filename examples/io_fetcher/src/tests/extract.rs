//! What `extract` writes, and what it leaves alone.

use std::collections::BTreeMap;
use std::fs::{self, File, Permissions};
use std::os::fd::AsRawFd as _;
use std::os::unix::fs::{FileExt as _, MetadataExt as _, PermissionsExt as _, symlink};
use std::path::{Path, PathBuf};
use std::process;
use std::time::{Duration, UNIX_EPOCH};

use super::{Place, files, noise, plant};
use crate::exit::Exit;
use crate::extract;

impl Place {
    /// Where a path of the tree is when it was extracted.
    fn extracted(&self, name: &str) -> PathBuf {
        self.out
            .join(self.tree.strip_prefix("/").unwrap())
            .join(name)
    }

    fn extract_with(&self, options: &[&str]) -> Exit {
        let to = self.out.to_str().unwrap();
        self.run(&[&["extract", "--to", to], options].concat())
            .unwrap()
    }

    fn chmod(&self, name: &str, mode: u32) {
        let path = self.tree.join(name);
        fs::set_permissions(path, Permissions::from_mode(mode)).unwrap();
    }

    fn mode(&self, name: &str) -> u32 {
        self.extracted(name).metadata().unwrap().mode() & 0o7777
    }
}

/// Bug: it was taken for what a killed run had left, and deleted.
#[test]
fn a_file_that_is_named_like_a_part_stays() {
    let place = Place::new();
    place.write("a", b"content");
    drop(place.ingest(&[]));
    let names = ["a.io_fetcher-part", ".io_fetcher-0123456789abcdef"];
    fs::create_dir_all(place.extracted("")).unwrap();
    for name in names {
        fs::write(place.extracted(name), b"the user's").unwrap();
    }
    assert_eq!(place.extract_with(&[]), Exit::Done);
    for name in names {
        assert_eq!(fs::read(place.extracted(name)).unwrap(), b"the user's");
    }
    assert_eq!(files(&place.extracted("")).len(), 3);
}

/// Bug: names from 240 bytes on were stored and could not be extracted.
#[test]
fn names_of_any_length_come_back() {
    let place = Place::new();
    for len in [1, 239, 240, 254, 255] {
        place.write(&"n".repeat(len), format!("{len}"));
        place.write(&format!("{}/below", "d".repeat(len)), format!("{len}"));
    }
    drop(place.ingest(&[]));
    assert!(place.extract() == place.files());
}

/// Bug: a path that was as long as the system takes was too long below another directory.
#[test]
fn paths_of_any_length_come_back() {
    let place = Place::new();
    let left = 4095 - place.tree.as_os_str().len() - 1;
    // Directories of 200 bytes, and the last name as long as the system takes.
    let folders = vec!["f".repeat(199); left / 200 - 1].join("/");
    let file = "x".repeat((left - folders.len() - 1).min(255));
    let name = format!("{folders}/{file}");
    let path = place.write(&name, b"deep");
    assert!(path.as_os_str().len() > 3800);
    symlink("nowhere", path.with_file_name("link")).unwrap();
    fs::create_dir(path.with_file_name("directory")).unwrap();
    drop(place.ingest(&[]));
    assert_eq!(place.extract_with(&[]), Exit::Done);
    // In two steps, neither too long for the system.
    let half = folders.split_at(folders.len() / 2 / 200 * 200);
    let folder = File::open(place.extracted(half.0)).unwrap();
    let folder = format!("/proc/self/fd/{}/{}", folder.as_raw_fd(), half.1);
    let folder = Path::new(&folder);
    assert_eq!(fs::read(folder.join(file)).unwrap(), b"deep");
    assert_eq!(
        fs::read_link(folder.join("link")).unwrap(),
        Path::new("nowhere")
    );
    assert!(folder.join("directory").is_dir());
    assert_eq!(folder.read_dir().unwrap().count(), 3);
}

/// Bug: a directory that had become a link let what it once held be written where the link leads.
#[test]
fn nothing_is_written_through_a_link() {
    let place = Place::new();
    let outside = place.store.with_file_name("outside");
    fs::create_dir(&outside).unwrap();
    place.write("d/a", b"stored");
    place.write("d/e/b", b"stored");
    drop(place.ingest(&[]));
    fs::remove_dir_all(place.tree.join("d")).unwrap();
    symlink(&outside, place.tree.join("d")).unwrap();
    place.write("z", b"after it");
    drop(place.ingest(&[]));
    assert_eq!(place.extract_with(&[]), Exit::Partly);
    assert_eq!(outside.read_dir().unwrap().count(), 0);
    assert_eq!(fs::read_link(place.extracted("d")).unwrap(), outside);
    assert_eq!(fs::read(place.extracted("z")).unwrap(), b"after it");
}

/// Bug: the sticky bit, modes of directories, and times before 1970 were lost without a word.
#[test]
fn modes_and_times_come_back() {
    let place = Place::new();
    let file = |name: &str| File::open(place.write(name, name)).unwrap();
    let second = Duration::from_secs(1);
    let times = BTreeMap::from([
        (
            "old",
            UNIX_EPOCH - 1_000_000_000 * second - Duration::from_nanos(1),
        ),
        ("first", UNIX_EPOCH),
        (
            "new",
            UNIX_EPOCH + 4_000_000_000 * second + Duration::from_nanos(123_456_789),
        ),
    ]);
    for (name, time) in &times {
        file(name).set_modified(*time).unwrap();
    }
    let modes = [("old", 0o1444), ("first", 0o600), ("new", 0o777)];
    let folders = [
        ("private", 0o700),
        ("shared", 0o1777),
        ("fixed", 0o555),
        ("fixed/in", 0o500),
    ];
    for (name, _) in folders {
        place.write(&format!("{name}/file"), name);
    }
    fs::create_dir(place.tree.join("fixed/empty")).unwrap();
    let modes = [&modes[..], &folders[..], &[("fixed/empty", 0o555)]].concat();
    for (name, mode) in modes.iter().rev() {
        place.chmod(name, *mode);
    }
    drop(place.ingest(&[]));
    assert_eq!(place.extract_with(&[]), Exit::Done);
    for (name, mode) in &modes {
        assert_eq!(place.mode(name), *mode, "{name}");
    }
    for (name, time) in &times {
        let found = place
            .extracted(name)
            .metadata()
            .unwrap()
            .modified()
            .unwrap();
        assert_eq!(found, *time, "{name}");
    }
    assert!(files(&place.extracted("")) == place.files());
    // So that they can be removed.
    for name in ["fixed", "fixed/in", "fixed/empty"] {
        place.chmod(name, 0o700);
        fs::set_permissions(place.extracted(name), Permissions::from_mode(0o700)).unwrap();
    }
}

/// Bug: setuid and setgid bits were lost without a word.
#[test]
fn setuid_bits_are_kept_when_asked_for_and_reported_otherwise() {
    let place = Place::new();
    let modes = [
        ("user", 0o4755),
        ("group", 0o2710),
        ("both", 0o6700),
        ("d", 0o2770),
    ];
    for (name, mode) in modes {
        match name {
            "d" => fs::create_dir(place.tree.join(name)).unwrap(),
            _ => drop(place.write(name, name)),
        }
        place.chmod(name, mode);
    }
    place.write("plain", b"plain");
    drop(place.ingest(&[]));
    for (option, kept, without) in [(&[][..], 0o1777, 4), (&["--setuid"], 0o7777, 0)] {
        place.clear_out();
        let to = place.out.to_str().unwrap();
        let command = place.command(&[&["extract", "--to", to], option].concat());
        let crate::args::Command::Extract(args) = command else {
            panic!("extract")
        };
        let archive = crate::archive::Archive::open_to_read(&place.store).unwrap();
        let (tally, _) = extract::extract(&archive, &place.out, &args).unwrap();
        assert_eq!((tally.without_setuid, tally.refused), (without, 0));
        for (name, mode) in modes {
            assert_eq!(place.mode(name), mode & kept, "{name}");
        }
    }
}

/// What is there already keeps its mode, too.
#[test]
fn a_directory_of_the_user_is_left_as_it_is() {
    let place = Place::new();
    place.write("d/a", b"a");
    place.chmod("d", 0o700);
    drop(place.ingest(&[]));
    fs::create_dir_all(place.extracted("d")).unwrap();
    fs::set_permissions(place.extracted("d"), Permissions::from_mode(0o750)).unwrap();
    assert_eq!(place.extract_with(&[]), Exit::Done);
    assert_eq!(place.mode("d"), 0o750);
    assert_eq!(fs::read(place.extracted("d/a")).unwrap(), b"a");
}

/// Bug: a file of holes took the disk that its zeros would take.
#[test]
fn holes_stay_holes() {
    let place = Place::new();
    let file = File::create(place.tree.join("sparse")).unwrap();
    file.set_len((16 << 20) + 17).unwrap();
    for at in [3_u64, 4096, (5 << 20) - 1, 12 << 20] {
        file.write_all_at(&noise(at, 5000), at).unwrap();
    }
    file.sync_all().unwrap();
    File::create(place.tree.join("hole"))
        .unwrap()
        .set_len(64 << 20)
        .unwrap();
    place.write("zeros", [0; 4096 * 3]);
    for granularity in ["document", "line", "cdc"] {
        place.clear_out();
        if place.store.exists() {
            fs::remove_dir_all(&place.store).unwrap();
        }
        drop(place.ingest(&["--granularity", granularity]));
        assert_eq!(place.extract_with(&[]), Exit::Done);
        assert!(
            files(&place.extracted("")) == place.files(),
            "{granularity}"
        );
        let bytes = |path: PathBuf| path.metadata().unwrap().blocks() * 512;
        let (from, to) = (
            bytes(place.tree.join("sparse")),
            bytes(place.extracted("sparse")),
        );
        assert!(to <= from + (64 << 10), "{granularity}: {from} {to}");
        assert!(bytes(place.extracted("hole")) <= 64 << 10);
        // Bug: zeros that took space in the source became holes.
        assert!(bytes(place.extracted("zeros")) >= 4096 * 3);
    }
}

/// A file as large as an image of a disk, with hardly anything in it.
#[test]
fn a_gibibyte_of_holes_takes_no_space() {
    const RANGE: usize = 16 << 20;
    let place = Place::new();
    let file = File::create(place.tree.join("disk")).unwrap();
    file.set_len(1 << 30).unwrap();
    for at in [0_u64, 123_456_789, (1 << 30) - 6000] {
        file.write_all_at(&noise(at, 6000), at).unwrap();
    }
    file.sync_all().unwrap();
    drop(place.ingest(&[]));
    assert_eq!(place.extract_with(&[]), Exit::Done);
    let blocks = |path: &Path| path.metadata().unwrap().blocks() * 512;
    let (from, to) = (place.tree.join("disk"), place.extracted("disk"));
    assert!(blocks(&from) < 1 << 20, "the source has no holes here");
    assert!(blocks(&to) < 1 << 20, "{}", blocks(&to));
    assert_eq!(to.metadata().unwrap().len(), 1 << 30);
    let (from, to) = (File::open(from).unwrap(), File::open(to).unwrap());
    let mut range = vec![0; RANGE];
    let mut hash = |file: &File, at: u64| {
        file.read_exact_at(&mut range, at).unwrap();
        blake3::hash(&range)
    };
    for at in (0..1 << 30).step_by(RANGE) {
        assert_eq!(hash(&from, at), hash(&to, at), "{at}");
    }
}

fn set_time(path: &Path, seconds: i64) {
    use rustix::fs::{AtFlags, CWD, Timespec, Timestamps, utimensat};
    let time = Timespec {
        tv_sec: seconds,
        tv_nsec: 123_456_789,
    };
    let times = Timestamps {
        last_access: time,
        last_modification: time,
    };
    utimensat(CWD, path, &times, AtFlags::SYMLINK_NOFOLLOW).unwrap();
}

/// Bug: directories and links got the time of the extraction.
#[test]
fn times_of_directories_and_links_come_back() {
    let place = Place::new();
    let folders = [
        "a", "a/x", "a/x/y", "a/z", "a.b", "b", "b/c", "empty", "old",
    ];
    for folder in folders {
        fs::create_dir(place.tree.join(folder)).unwrap();
        place.write(&format!("{folder}/file"), folder);
    }
    fs::remove_file(place.tree.join("empty/file")).unwrap();
    symlink("nowhere", place.tree.join("b/link")).unwrap();
    place.chmod("b/c", 0o500);
    let names = [&folders[..], &["b/link"]].concat();
    let seconds = |at: usize| match names[at] {
        "old" => -1_000_000_000,
        _ => 1_000_000_000 + at as i64,
    };
    for (at, name) in names.iter().enumerate() {
        set_time(&place.tree.join(name), seconds(at));
    }
    drop(place.ingest(&[]));
    assert_eq!(place.extract_with(&[]), Exit::Done);
    for (at, name) in names.iter().enumerate() {
        let meta = place.extracted(name).symlink_metadata().unwrap();
        assert_eq!(
            (meta.mtime(), meta.mtime_nsec()),
            (seconds(at), 123_456_789),
            "{name}"
        );
    }
    assert_eq!(place.mode("b/c"), 0o500);
    // Only what changed is written again.
    let again = place.ingest(&[]);
    assert_eq!(again.archive.committed_bytes(), 0);
}

/// Bug: each document was refused for itself.
#[test]
fn a_place_that_takes_nothing_is_refused_at_once() {
    let place = Place::new();
    plant(&place, 20);
    drop(place.ingest(&[]));
    let file = place.store.with_file_name("file");
    fs::write(&file, b"the user's").unwrap();
    for to in [file.clone(), file.join("below")] {
        let refused = place
            .run(&["extract", "--to", to.to_str().unwrap()])
            .unwrap_err();
        assert_eq!(refused.exit, Exit::Usage, "{refused}");
        assert!(refused.sentence.contains("--to"), "{refused}");
    }
    assert_eq!(fs::read(&file).unwrap(), b"the user's");
    // Nothing is made for a name that is not there.
    let to = place.out.to_str().unwrap();
    let refused = place
        .run(&["extract", "--to", to, "/no/such/name"])
        .unwrap_err();
    assert_eq!((refused.exit, place.out.exists()), (Exit::Usage, false));
}

/// Bug: on a full disk, each of the documents that were left was tried and refused.
#[test]
fn a_full_disk_ends_the_run() {
    let place = Place::new();
    for n in 0..100 {
        place.write(&format!("{n}"), noise(n, 50_000));
    }
    drop(place.ingest(&[]));
    fs::create_dir(&place.out).unwrap();
    let mount =
        |command: &mut process::Command| command.status().is_ok_and(|status| status.success());
    let tmpfs = ["-t", "tmpfs", "-o", "size=1m", "tmpfs"];
    if !mount(process::Command::new("mount").args(tmpfs).arg(&place.out)) {
        eprintln!("skipped: no file system can be mounted here");
        return;
    }
    let to = place.out.to_str().unwrap();
    let full = place.run(&["extract", "--to", to]);
    let written = files(&place.extracted(""));
    assert!(mount(process::Command::new("umount").arg(&place.out)));
    let full = full.unwrap_err();
    assert_eq!(full.exit, Exit::Io, "{full}");
    let whole = place.files();
    assert!(!written.is_empty() && written.len() < 100);
    assert!(
        written
            .iter()
            .all(|(name, content)| whole[name] == *content)
    );
}

/// Bug: a URL of a few hundred bytes was stored and could not be extracted.
#[test]
fn long_urls_come_back() {
    let place = Place::new();
    let (server, _) = super::web::serve(b"answer".to_vec());
    let ask = |tail: &str| format!("{server}/{}{tail}", "é/".repeat(300));
    let urls = [ask(""), ask("1"), ask("2"), format!("{server}/short")];
    let urls: Vec<&str> = urls.iter().map(String::as_str).collect();
    drop(place.ingest_these(&urls));
    assert_eq!(place.extract_with(&[]), Exit::Done);
    let names = files(&place.out);
    assert_eq!(names.len(), 4, "{names:?}");
    assert!(names.values().all(|content| content == b"answer"));
    assert_eq!(
        place.extract_with(&[]),
        Exit::Partly,
        "the same names again"
    );
    assert!(files(&place.out) == names);
}

#[test]
fn a_kill_leaves_whole_files() {
    let place = Place::new();
    plant(&place, 400);
    for n in 0..20 {
        place.write(&format!("big/{n}"), noise(n, 2_000_000));
    }
    drop(place.ingest(&[]));
    let (store, all) = (place.store.to_str().unwrap(), place.files());
    let (mut killed, mut parts) = (0, 0);
    for round in 0..12 {
        place.clear_out();
        fs::create_dir_all(place.extracted("")).unwrap();
        let theirs = place.extracted("theirs.io_fetcher-part");
        fs::write(&theirs, b"the user's").unwrap();
        let to = place.out.to_str().unwrap();
        let arguments = ["extract", "--store", store, "--to", to];
        let after = Duration::from_millis(4 + 5 * round);
        killed += u64::from(super::is_killed(&arguments, after));
        let mut found = files(&place.extracted(""));
        assert_eq!(
            found.remove(Path::new("theirs.io_fetcher-part")).unwrap(),
            b"the user's"
        );
        let before = found.len();
        found.retain(|path, _| {
            let name = path.file_name().unwrap().to_str().unwrap();
            let number = name.strip_prefix(".io_fetcher-").unwrap_or_default();
            number.len() != 16 || !number.bytes().all(|byte| byte.is_ascii_hexdigit())
        });
        parts += before - found.len();
        assert!(before - found.len() <= 1);
        assert!(found.iter().all(|(path, content)| all[path] == *content));
        // The rest comes with the next run; what is there is reported and left as it is.
        let exit = place.extract_with(&[]);
        assert_eq!(
            exit,
            if found.is_empty() {
                Exit::Done
            } else {
                Exit::Partly
            }
        );
        let found = files(&place.extracted(""));
        assert!(all.iter().all(|(path, content)| found[path] == *content));
    }
    println!("{killed} killed, {parts} passing names left");
    assert!(killed > 0, "no round was fast enough");
}
