//! Damage is found, not passed on, and mended from the sources.

use std::fs;

use super::{Place, noise, pause, plant};
use crate::exit::Exit;
use crate::keys::{META, Table};

/// Flips one byte of the first pack.
fn flip(place: &Place, at: usize) {
    let pack = place.store.join("packs/000000.pack");
    let mut bytes = fs::read(&pack).unwrap();
    let at = at % bytes.len();
    bytes[at] ^= 0x10;
    fs::write(&pack, bytes).unwrap();
}

#[test]
fn a_flipped_byte_is_found_and_mended() {
    let place = Place::new();
    plant(&place, 100);
    drop(place.ingest(&[]));
    for at in [3, 10_000, 50_000] {
        if place.out.exists() {
            fs::remove_dir_all(&place.out).unwrap();
        }
        flip(&place, at);
        assert_eq!(place.run(&["check"]).unwrap(), Exit::Damaged, "{at}");
        let to = place.out.to_str().unwrap();
        assert_eq!(place.run(&["extract", "--to", to]).unwrap(), Exit::Damaged);
        // Whatever was written is right.
        let (files, out) = (
            place.files(),
            place.out.join(place.tree.strip_prefix("/").unwrap()),
        );
        let written = super::files(&out);
        assert!(written.len() < files.len() && !written.is_empty());
        for (name, content) in written {
            assert!(files[&name] == content);
        }

        let ended = place.ingest(&["--paranoid"]);
        assert!(ended.counts.repaired >= 1 && ended.counts.troubles == 0);
        drop(ended);
        assert_eq!(place.run(&["check"]).unwrap(), Exit::Done);
        assert!(place.extract() == files);
    }
}

#[test]
fn a_damaged_candidate_is_not_taken_for_the_same() {
    let place = Place::new();
    place.write("a", noise(1, 3000));
    drop(place.ingest(&[]));
    flip(&place, 100);
    place.write("b", noise(1, 3000));
    let ended = place.ingest(&[]);
    assert_eq!((ended.counts.refuted, ended.counts.stored), (1, 1));
    drop(ended);
    let (to, b) = (place.out.to_str().unwrap(), place.tree.join("b"));
    let extracted = place.run(&["extract", "--to", to, b.to_str().unwrap()]);
    assert_eq!(extracted.unwrap(), Exit::Done);
}

#[test]
fn a_pack_that_is_gone_is_damage() {
    let place = Place::new();
    plant(&place, 20);
    drop(place.ingest(&[]));
    fs::remove_file(place.store.join("packs/000000.pack")).unwrap();
    assert_eq!(place.run(&["check"]).unwrap(), Exit::Damaged);
    pause();
    drop(place.ingest(&["--paranoid"]));
    assert_eq!(place.run(&["check"]).unwrap(), Exit::Done);
    assert!(place.extract() == place.files());
}

#[test]
fn damage_of_any_table_is_found() {
    for table in [Table::Directory, Table::FirstBlock, Table::Document] {
        let place = Place::new();
        plant(&place, 100);
        let archive = place.ingest(&[]).archive;
        archive.tables[table].compact_all().unwrap().wait().unwrap();
        let stats = archive.tables[table].stats();
        let id = stats.segments().next().unwrap().id;
        archive.db.close().unwrap();
        assert_eq!(place.run(&["check"]).unwrap(), Exit::Done);
        let path = place.store.join(format!("index/{id:06}.seg"));
        let mut bytes = fs::read(&path).unwrap();
        bytes[200] ^= 0x10;
        fs::write(&path, bytes).unwrap();
        let checked = place.run(&["check"]);
        let exit = checked.unwrap_or_else(|failure| failure.exit);
        assert_eq!(exit, Exit::Damaged, "{table:?}");
    }
}

#[test]
fn a_store_of_another_format_is_refused_and_left_as_it_is() {
    let place = Place::new();
    let index = place.store.join("index");
    let open = || criba::Db::open(&index).unwrap();
    fs::create_dir_all(&place.store).unwrap();
    let db = open();
    db.put(META, [1, 0]).unwrap();
    db.close().unwrap();
    let tree = place.tree.to_str().unwrap();
    for command in [&["ingest", tree][..], &["list"], &["gc"]] {
        let refused = place.run(command).unwrap_err();
        assert_eq!(refused.exit, Exit::Usage, "{refused}");
        assert_eq!(open().keyspaces(), ["default"]);
    }
}

/// Bug: tables were made in it, and it was taken for a new store.
#[test]
fn a_store_of_another_program_is_refused_and_left_as_it_is() {
    for is_named in [false, true] {
        let place = Place::new();
        let index = place.store.join("index");
        let open = || criba::Db::open(&index).unwrap();
        fs::create_dir_all(&place.store).unwrap();
        let db = open();
        match is_named {
            true => drop(db.keyspace("theirs").unwrap()),
            false => db.put("theirs", "value").unwrap(),
        }
        let before = (db.keyspaces(), db.len().unwrap());
        db.close().unwrap();
        let tree = place.tree.to_str().unwrap();
        for command in [&["ingest", tree][..], &["list"], &["gc"], &["check"]] {
            let refused = place.run(command).unwrap_err();
            assert_eq!(refused.exit, Exit::Usage, "{refused}");
            let db = open();
            assert_eq!((db.keyspaces(), db.len().unwrap()), before);
        }
        assert!(!place.store.join("packs").exists());
    }
}

#[test]
fn what_is_no_store_is_refused() {
    let place = Place::new();
    for command in [
        &["list"][..],
        &["check"],
        &["stats"],
        &["extract", "--to", "x"],
    ] {
        let refused = place.run(command).unwrap_err();
        assert_eq!(refused.exit, Exit::Usage, "{refused}");
    }
    assert!(!place.store.exists());
}
