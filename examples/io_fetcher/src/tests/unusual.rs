//! What trees hold beside plain files, and sources that are not what they should be.

use std::ffi::OsStr;
use std::fs::{self, File};
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::fs::{PermissionsExt as _, symlink};
use std::os::unix::net::UnixListener;
use std::path::Path;

use super::{Place, noise, plant};
use crate::args::Command;
use crate::exit::Exit;
use crate::ingest::{How, Run, Work};
use crate::list;
use crate::read;
use crate::record::What;

/// A named pipe: who opens it to read waits for someone who writes.
fn pipe(path: &Path) {
    use rustix::fs::{CWD, FileType, Mode, mknodat};
    mknodat(CWD, path, FileType::Fifo, Mode::from_raw_mode(0o644), 0).unwrap();
}

#[test]
fn links_specials_and_strange_names() {
    let place = Place::new();
    let path = place.write("a", noise(1, 5000));
    fs::hard_link(&path, place.tree.join("b")).unwrap();
    fs::hard_link(&path, place.tree.join("c")).unwrap();
    symlink("../nowhere\n", place.tree.join("link")).unwrap();
    symlink(&place.tree, place.tree.join("loop")).unwrap();
    let socket = UnixListener::bind(place.tree.join("socket")).unwrap();
    pipe(&place.tree.join("pipe"));
    fs::write(
        place.tree.join(OsStr::from_bytes(b"\xff\x1b[31m\n")),
        b"strange",
    )
    .unwrap();
    place.write("empty", b"");
    fs::create_dir(place.tree.join("nothing here")).unwrap();
    fs::set_permissions(&path, fs::Permissions::from_mode(0o640)).unwrap();

    let ended = place.ingest(&[]);
    let counts = ended.counts;
    assert_eq!((counts.documents, counts.stored, counts.empty), (5, 2, 1));
    assert_eq!(
        (counts.hard_links, counts.specials, counts.links),
        (2, 2, 2)
    );
    assert_eq!(counts.troubles, 0);
    assert_eq!((counts.hard_linked, counts.foreign), (3, 0));
    assert_eq!(ended.counts.opened, 3, "another name is not another file");
    drop((ended, socket));
    assert!(place.extract() == place.files());
    let out = place.out.join(place.tree.strip_prefix("/").unwrap());
    assert_eq!(
        fs::read_link(out.join("link")).unwrap(),
        Path::new("../nowhere\n")
    );
    assert!(out.join("nothing here").is_dir() && !out.join("socket").exists());
    assert!(!out.join("pipe").exists());
    let mode = out.join("a").metadata().unwrap().permissions().mode();
    assert_eq!(mode & 0o777, 0o640);
    let times =
        [&out, &place.tree].map(|root| root.join("a").metadata().unwrap().modified().unwrap());
    assert_eq!(times[0], times[1]);

    // A new name for what was there before is known by its inode.
    fs::hard_link(&path, place.tree.join("d")).unwrap();
    let ended = place.ingest(&[]);
    assert_eq!(ended.counts.stored, 0);
    assert_eq!(place.run(&["list"]).unwrap_err().exit, Exit::Locked);
}

/// Bug: what is not kept was lost without a word.
#[test]
fn what_is_not_kept_is_counted() {
    use rustix::fs::{XattrFlags, setxattr};
    let place = Place::new();
    let (file, folder) = (place.write("a", b"a"), place.tree.join("d"));
    place.write("empty", b"");
    fs::create_dir(&folder).unwrap();
    pipe(&folder.join("pipe"));
    fs::hard_link(&file, folder.join("b")).unwrap();
    for path in [&place.tree.join("empty"), &folder] {
        if let Err(error) = setxattr(path, "user.note", b"x", XattrFlags::empty()) {
            eprintln!("skipped: this file system keeps no attributes: {error}");
            return;
        }
    }
    // Others than root cannot give a file away.
    let owner = std::os::unix::fs::lchown(&file, Some(4711), None);
    let counts = place.ingest(&[]).counts;
    // The file has two names.
    assert_eq!(counts.foreign, if owner.is_ok() { 2 } else { 0 });
    assert_eq!((counts.attributed, counts.hard_linked), (2, 2));
    assert_eq!((counts.specials, counts.other_file_systems), (1, 0));
    let said = counts.not_kept().unwrap();
    assert!(
        said.contains("2 access lists or extended attributes"),
        "{said}"
    );
    // Attributes are looked at with what is new or changed, the rest with every run.
    let counts = place.ingest(&[]).counts;
    assert_eq!(
        (counts.attributed, counts.hard_linked, counts.specials),
        (0, 2, 1)
    );
}

/// Files that cannot be read, in ways that root does not get around: what was listed is something
/// else by the time it is opened, or the device fails.
#[test]
fn what_cannot_be_read_is_skipped_and_the_rest_is_stored() {
    let place = Place::new();
    let names = [
        "good",
        "vanished",
        "directory",
        "pipe",
        "link",
        "shorter",
        "device",
    ];
    let content = noise(1, 9000);
    let mut works = Vec::new();
    for (at, name) in names.iter().enumerate() {
        let path = place.write(name, &content[at..]);
        works.push(Work {
            stamp: read::stamp(&path.metadata().unwrap()),
            path,
            device: 1,
            links: 1,
            slot: (0, 0),
            old: None,
            verify: None,
        });
    }
    for path in works[1..].iter().map(|work| &work.path) {
        fs::remove_file(path).unwrap();
    }
    fs::create_dir(&works[2].path).unwrap();
    pipe(&works[3].path);
    symlink(&works[0].path, &works[4].path).unwrap();
    place.write("shorter", b"short");
    // Nothing is mapped at its beginning, so reading there is an error of the device.
    works[6].path = "/proc/self/mem".into();

    let Command::Ingest(args) = place.command(&["ingest", "nothing"]) else {
        panic!("ingest")
    };
    let ended = place.ingest_these(&["--files-from", "/dev/null", "/dev/null"]);
    let mut run = Run::new(&ended.archive, &args);
    let outcomes = run.process(&works).unwrap();
    assert_eq!(run.counts.specials, 0);
    let outcomes: Vec<_> = outcomes
        .into_iter()
        .map(|outcome| outcome.map(|fate| fate.how == How::New))
        .collect();
    let errors: Vec<_> = outcomes
        .iter()
        .map(|outcome| outcome.clone().err().unwrap_or_default())
        .collect();
    assert_eq!(outcomes[0], Ok(true));
    assert!(
        errors[1..].iter().all(|what| !what.is_empty()),
        "{errors:?}"
    );
    assert!(errors[1].contains("No such file"), "{errors:?}");
    assert!(errors[6].contains("Input/output error"), "{errors:?}");
}

#[test]
fn what_is_gone_is_kept_until_pruned() {
    let place = Place::new();
    plant(&place, 60);
    drop(place.ingest(&[]));
    let before = place.files();
    fs::remove_dir_all(place.tree.join("d1")).unwrap();
    fs::remove_file(place.tree.join("d0/e0/f0")).unwrap();
    let left = place.files();
    let ended = place.ingest(&[]);
    assert_eq!(ended.counts.gone as usize, before.len() - left.len());
    drop(ended);
    assert!(place.extract() == before, "it can still be extracted");
    assert_eq!(place.ingest(&[]).counts.gone, 0);
    drop(place.ingest(&["--prune"]));
    assert!(place.extract() == left);

    // A file where a directory was, and the other way round.
    fs::remove_dir_all(place.tree.join("d2")).unwrap();
    place.write("d2", b"a file now");
    fs::remove_file(place.tree.join("d3/e0/f3")).unwrap();
    place.write("d3/e0/f3/below", b"a directory now");
    drop(place.ingest(&["--prune"]));
    assert!(place.extract() == place.files());
}

/// Bug: a directory whose files were named one by one with others between was settled twice at
/// once, and the second record replaced the first.
#[test]
fn lists_of_files() {
    let place = Place::new();
    plant(&place, 30);
    let list = place.store.with_extension("list");
    let names = ["d0/e0/f0", "d1/e1/f1", "not there", "d0/e0/f21", "d1/e1/f1"];
    let names = names.map(|name| place.tree.join(name).to_str().unwrap().to_owned());
    fs::write(&list, names.join("\0")).unwrap();
    let list = list.to_str().unwrap();
    let ended = place.ingest_these(&["--files-from", list, "-0"]);
    assert_eq!((ended.counts.new, ended.counts.troubles), (3, 1));
    assert_eq!(
        ended.counts.gone, 0,
        "others in the directory were not asked for"
    );
    drop(ended);
    assert_eq!(
        place.run(&["ingest", "--files-from", list, "-0"]).unwrap(),
        Exit::Partly
    );
    assert_eq!(place.ingest(&[]).counts.unchanged, 3);
    assert!(place.extract() == place.files());
}

#[test]
fn the_store_is_not_fetched_into_itself() {
    let place = Place::new();
    place.write("a", b"a");
    let store = place.tree.join("store");
    let (store, tree) = (store.to_str().unwrap(), place.tree.to_str().unwrap());
    for _ in 0..2 {
        // The later `--store` is the one that counts.
        let mut command = vec!["io_fetcher", "ingest", "--store", store, tree];
        command.push("--json");
        let cli = <crate::args::Cli as clap::Parser>::try_parse_from(command).unwrap();
        assert_eq!(crate::run(&cli.command).unwrap(), Exit::Done);
    }
    let archive = crate::archive::Archive::open_to_read(Path::new(store)).unwrap();
    let mut names = Vec::new();
    list::each(&archive, &[], |named| {
        if matches!(named.what, What::File { .. }) {
            names.push(named.name);
        }
        Ok(())
    })
    .unwrap();
    assert_eq!(names.len(), 1, "{names:?}");
}

#[test]
fn a_huge_file_of_nothing_takes_little() {
    let place = Place::new();
    let file = File::create(place.tree.join("sparse")).unwrap();
    file.set_len(40 << 20).unwrap();
    let ended = place.ingest(&[]);
    assert!(
        ended.archive.packs.end() < 64 << 10,
        "{}",
        ended.archive.packs.end()
    );
    let archive = &ended.archive;
    let document = archive.document(1).unwrap();
    assert_eq!(
        (document.size, archive.verify(&document)),
        (40 << 20, Ok(()))
    );
}

#[test]
fn nothing_is_overwritten_and_nothing_leaves_the_directory() {
    let place = Place::new();
    place.write("a", b"a");
    drop(place.ingest(&[]));
    place.extract();
    let to = place.out.to_str().unwrap();
    assert_eq!(place.run(&["extract", "--to", to]).unwrap(), Exit::Partly);
    let one = place.tree.join("a");
    let refused = place.run(&["extract", "--to", to, "/no/such/name"]);
    assert_eq!(refused.unwrap_err().exit, Exit::Usage);
    assert_eq!(
        place
            .run(&["extract", "--stdout", one.to_str().unwrap()])
            .unwrap(),
        Exit::Done
    );
    assert_eq!(
        place
            .run(&["stats", "--explain", one.to_str().unwrap()])
            .unwrap(),
        Exit::Done
    );
}
