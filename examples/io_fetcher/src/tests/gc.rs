//! Space is given back, and nothing else is.

use std::fs;
use std::path::Path;

use super::{Place, noise, plant};
use crate::archive::Archive;
use crate::changes::Changes;
use crate::exit::Exit;
use crate::gc::{self, Collected};
use crate::pack::Packs;

impl Place {
    fn forget(&self, name: &str) {
        let path = self.tree.join(name);
        let forgotten = self.run(&["forget", path.to_str().unwrap()]);
        assert_eq!(forgotten.unwrap(), Exit::Done);
    }

    fn gc(&self) -> Collected {
        let archive = Archive::open_to_change(&self.store).unwrap();
        gc::collect(&archive, &mut Changes::new(&archive)).unwrap()
    }

    fn pack_bytes(&self) -> u64 {
        Packs::bytes_on_disk(&self.store.join("packs"))
    }

    fn check(&self) {
        assert_eq!(self.run(&["check"]).unwrap(), Exit::Done);
    }
}

/// Files that share nothing with those of [`plant`].
fn plant_more(place: &Place) {
    for n in 0..30 {
        place.write(&format!("more/{n}"), noise(1000 + n, 20_000 + n as usize));
    }
}

#[test]
fn what_no_name_has_goes_and_its_space_comes_back() {
    let place = Place::new();
    plant(&place, 100);
    plant_more(&place);
    drop(place.ingest(&[]));
    let (all, before) = (place.files(), place.pack_bytes());
    let none = Collected {
        removed: 0,
        ..place.gc()
    };
    assert_eq!(place.gc(), none);
    assert_eq!(place.pack_bytes(), before, "everything has a name");

    place.forget("more");
    let gone = place.gc();
    assert_eq!((gone.removed, gone.kept), (30, none.kept - 30));
    // 30 times 20,000 bytes, but for the blocks at the two ends of each: what stays may lie
    // between.
    let after = place.pack_bytes();
    assert!(
        before - after > 30 * (20_000 - 2 * 4096),
        "{before} {after}"
    );
    place.check();
    assert_eq!(place.gc().removed, 0);

    // What is still there is new again, and the rest is not.
    let ended = place.ingest(&[]);
    assert_eq!((ended.counts.new, ended.counts.stored), (30, 30));
    drop(ended);
    place.check();
    assert!(place.extract() == all);

    place.forget("");
    let last = place.gc();
    assert_eq!((last.removed, last.kept), (none.kept, 0));
    assert!(place.pack_bytes() <= 2 * 4096, "{}", place.pack_bytes());
}

#[test]
fn names_that_are_gone_keep_their_content_until_they_are_forgotten() {
    let place = Place::new();
    plant_more(&place);
    drop(place.ingest(&[]));
    let all = place.files();
    fs::remove_dir_all(place.tree.join("more")).unwrap();
    drop(place.ingest(&[]));
    assert_eq!(place.gc().removed, 0);
    assert!(place.extract() == all);
    drop(place.ingest(&["--prune"]));
    assert_eq!(place.gc().removed, 30);
}

#[test]
fn one_name_of_several_goes_alone() {
    let place = Place::new();
    for name in ["a", "b", "sub/c", "sub/d"] {
        place.write(name, noise(1, 30_000));
    }
    fs::hard_link(place.tree.join("a"), place.tree.join("e")).unwrap();
    drop(place.ingest(&[]));
    place.forget("a");
    place.forget("sub");
    assert_eq!(place.gc().removed, 0);
    place.check();
    assert_eq!(place.extract().len(), 2);
    let refused = place.run(&["forget", place.tree.join("a").to_str().unwrap()]);
    assert_eq!(refused.unwrap_err().exit, Exit::Usage);
    place.forget("b");
    place.forget("e");
    assert_eq!(place.gc().removed, 1);
    // The other name of the file does not lead to the content that went.
    assert_eq!(place.ingest(&[]).counts.stored, 1);
    assert!(place.extract() == place.files());
}

#[test]
fn contents_that_begin_alike_are_found_when_the_first_is_gone() {
    let place = Place::new();
    let begin = noise(1, 4096);
    let content = |n| [&begin[..], &noise(n, 9000)].concat();
    for n in [2, 3] {
        place.write(&format!("{n}"), content(n));
        drop(place.ingest(&[]));
    }
    place.forget("2");
    assert_eq!(place.gc().removed, 1);
    place.write("again", content(3));
    place.write("other", content(4));
    fs::remove_file(place.tree.join("2")).unwrap();
    let counts = place.ingest(&[]).counts;
    assert_eq!((counts.duplicates, counts.stored), (1, 1));
    assert!(place.extract() == place.files());
}

#[test]
fn pieces_stay_as_long_as_they_are_whole() {
    for granularity in ["cdc", "block", "line"] {
        let options = ["--granularity", granularity, "--block-bytes", "4096"];
        let place = Place::new();
        let line = |n: u64| format!("{:?}\n", noise(n, 40)).into_bytes();
        let lines = |from: u64| (from..from + 400).flat_map(line).collect::<Vec<_>>();
        place.write("a", lines(0));
        drop(place.ingest(&options));
        place.write("b", [lines(0), lines(1000)].concat());
        drop(place.ingest(&options));
        place.write("c", lines(2000));
        drop(place.ingest(&options));
        let before = place.pack_bytes();
        place.forget("a");
        place.forget("c");
        let gone = place.gc();
        assert_eq!(gone.removed, 2, "{granularity}");
        assert!(
            gone.pieces > 0 && place.pack_bytes() < before,
            "{granularity}"
        );
        place.check();
        // Their pieces again, of which those of `b` are there and those of `c` are not.
        let ended = place.ingest(&options);
        assert!(ended.counts.pieces_found > 0, "{granularity}");
        drop(ended);
        place.check();
        assert!(place.extract() == place.files(), "{granularity}");
    }
}

fn copy(from: &Path, to: &Path) {
    fs::create_dir_all(to).unwrap();
    for entry in fs::read_dir(from).unwrap() {
        let entry = entry.unwrap();
        match entry.path().is_dir() {
            true => copy(&entry.path(), &to.join(entry.file_name())),
            false => drop(fs::copy(entry.path(), to.join(entry.file_name())).unwrap()),
        }
    }
}

#[test]
fn wherever_it_ends_early_nothing_leads_nowhere() {
    let options = ["--granularity", "cdc", "--block-bytes", "4096"];
    let mut place = Place::new();
    for n in 0..8 {
        place.write(&format!("gone/{n}"), noise(n, 5000));
        place.write(&format!("kept/{n}"), noise(100 + n, 5000));
    }
    fs::hard_link(place.tree.join("gone/0"), place.tree.join("gone/name")).unwrap();
    drop(place.ingest(&options));
    place.forget("gone");
    let (original, all) = (place.store.clone(), place.files());
    let (mut batches, mut left) = (0, None);
    loop {
        place.store = original.with_extension(batches.to_string());
        copy(&original, &place.store);
        let archive = Archive::open_to_change(&place.store).unwrap();
        let ended = gc::collect(&archive, &mut Changes::limited(&archive, 3, batches));
        drop(archive);
        place.check();
        if ended.is_ok() {
            break;
        }
        if batches % 2 == 0 {
            // The next one does the rest.
            place.gc();
            place.check();
            assert_eq!(*left.get_or_insert(place.pack_bytes()), place.pack_bytes());
        }
        drop(place.ingest(&options));
        place.check();
        assert!(place.extract() == all, "{batches}");
        batches += 1;
    }
    assert!(batches >= 8, "{batches}");
    assert_eq!(left, Some(place.pack_bytes()));
}

#[test]
fn an_index_without_content_has_nothing_to_give() {
    let place = Place::new();
    plant_more(&place);
    drop(place.ingest(&["--index-only"]));
    place.forget("more/1");
    assert_eq!(place.run(&["gc"]).unwrap_err().exit, Exit::Usage);
    assert_eq!(place.ingest(&["--index-only"]).counts.new, 1);
}
