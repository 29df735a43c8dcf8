//! Storing content: every granularity gives back what went in, and reads no more than it must.

use std::fs;
use std::os::unix::fs::MetadataExt as _;

use super::{Place, noise, pause, plant};
use crate::exit::Exit;
use crate::keys::Table;
use crate::read::Sources;
use crate::record::What;
use crate::{list, read};

const GRANULARITIES: [&str; 5] = ["document", "block", "cdc", "line", "auto"];

#[test]
fn what_went_in_comes_out() {
    for granularity in GRANULARITIES {
        let place = Place::new();
        plant(&place, 300);
        place.write("large", noise(1, 3 << 20));
        place.write(
            "large and changed",
            [&b"!"[..], &noise(1, 3 << 20)].concat(),
        );
        let options = ["--granularity", granularity, "--block-bytes", "2048"];
        let ended = place.ingest(&options);
        assert_eq!(ended.counts.troubles, 0);
        drop(ended);
        assert!(place.extract() == place.files(), "{granularity}");
        assert_eq!(place.run(&["check"]).unwrap(), Exit::Done);
        assert_eq!(place.run(&["stats", "--json"]).unwrap(), Exit::Done);
        assert_eq!(place.run(&["list", "--json"]).unwrap(), Exit::Done);
    }
}

#[test]
fn a_second_run_opens_and_writes_nothing() {
    let place = Place::new();
    plant(&place, 200);
    let first = place.ingest(&[]);
    assert_eq!(first.counts.new, 200);
    drop(first);
    let second = place.ingest(&[]);
    assert_eq!(
        (second.counts.unchanged, second.counts.documents),
        (200, 200)
    );
    assert_eq!(second.counts.opened, 0);
    assert_eq!(second.archive.committed_bytes(), 0);
    assert_eq!(second.archive.db.stats().written_bytes, 0);
}

#[test]
fn only_what_changed_is_opened() {
    let place = Place::new();
    plant(&place, 200);
    drop(place.ingest(&[]));
    place.write("d1/e1/f1", b"changed");
    // The same content, another time.
    let same = fs::read(place.tree.join("d2/e2/f2")).unwrap();
    place.write("d2/e2/f2", same);
    let ended = place.ingest(&[]);
    assert_eq!((ended.counts.changed, ended.counts.unchanged), (2, 198));
    assert_eq!((ended.counts.stored, ended.counts.duplicates), (1, 1));
    // The first block of each, and the rest of the one that may be the same.
    assert_eq!(ended.counts.opened, 3);
    drop(ended);
    assert!(place.extract() == place.files());
}

#[test]
fn content_is_stored_once_and_not_mixed() {
    let place = Place::new();
    let base = noise(9, 100_000);
    let (mut early, mut late) = (base.clone(), base.clone());
    early[10] ^= 1;
    late[90_000] ^= 1;
    place.write("a", &base);
    place.write("b", &base);
    drop(place.ingest(&[]));
    place.write("c", &base);
    place.write("early", &early);
    place.write("late", &late);
    place.write("late too", &late);
    let ended = place.ingest(&[]);
    let counts = ended.counts;
    assert_eq!((counts.stored, counts.duplicates), (2, 2));
    // All but `early` have the first block of a stored candidate, which is read.
    assert_eq!((counts.verified, counts.refuted, counts.hashed), (3, 0, 3));
    let asked = ended
        .archive
        .packs
        .read_bytes
        .load(std::sync::atomic::Ordering::Relaxed);
    assert!(asked <= 3 * 4096, "{asked}");
    assert!(
        ended.archive.packs.end() < 310_000,
        "{}",
        ended.archive.packs.end()
    );
    drop(ended);
    assert!(place.extract() == place.files());
}

#[test]
fn pieces_are_shared_where_they_can_be() {
    let text: String = (0..4000)
        .map(|n| format!("this is line {n} of them\n"))
        .collect();
    let mut found = Vec::new();
    for granularity in GRANULARITIES {
        let place = Place::new();
        place.write("a", &text);
        place.write("b", text.replacen("line", "LINE and more", 1));
        let options = ["--granularity", granularity, "--block-bytes", "1024"];
        let ended = place.ingest(&options);
        found.push(ended.counts.pieces_found_bytes);
        assert_eq!(ended.counts.stored, 2);
        drop(ended);
        assert!(place.extract() == place.files(), "{granularity}");
    }
    let len = text.len() as u64;
    // An insertion at the beginning moves every block, but no line and few cuts by content.
    assert_eq!(found[..2], [0, 0]);
    assert!(found[2] > len * 8 / 10 && found[4] == found[2], "{found:?}");
    assert!(found[3] > len - 100, "{found:?}");
}

#[test]
fn blocks_are_found_in_other_documents() {
    let place = Place::new();
    place.write("a", noise(3, 200_000));
    let options = ["--granularity", "block", "--block-bytes", "512"];
    drop(place.ingest(&options));
    // Another document of the same blocks, behind one that moves nothing.
    place.write("b", [noise(4, 512), noise(3, 200_000)].concat());
    let ended = place.ingest(&options);
    assert_eq!(ended.counts.pieces, 392);
    assert_eq!(ended.counts.pieces_found, 391, "all but the new one");
}

#[test]
fn paranoia_opens_everything_and_finds_hidden_changes() {
    let place = Place::new();
    plant(&place, 50);
    drop(place.ingest(&[]));
    let ended = place.ingest(&["--paranoid"]);
    assert_eq!((ended.counts.unchanged, ended.counts.changed), (50, 0));
    assert_eq!(ended.counts.opened, 45, "all but those of no bytes");
    drop(ended);

    // Same size and mtime, which is all that `mtime` looks at.
    let path = place.tree.join("d1/e1/f1");
    let before = path.metadata().unwrap().modified().unwrap();
    let mut content = fs::read(&path).unwrap();
    content[0] ^= 1;
    fs::write(&path, content).unwrap();
    fs::File::options()
        .write(true)
        .open(&path)
        .unwrap()
        .set_modified(before)
        .unwrap();
    assert_eq!(place.ingest(&["--quick-check", "mtime"]).counts.changed, 0);
    assert_eq!(
        place
            .ingest(&["--quick-check", "mtime", "--paranoid"])
            .counts
            .changed,
        1
    );
    assert!(place.extract() == place.files());
}

#[test]
fn a_copy_with_its_times_is_known_by_them() {
    let place = Place::new();
    let path = place.write("a", b"content");
    drop(place.ingest(&[]));
    let modified = path.metadata().unwrap().modified().unwrap();
    let other = place.write("b", b"content");
    fs::rename(&other, &path).unwrap();
    fs::File::options()
        .write(true)
        .open(&path)
        .unwrap()
        .set_modified(modified)
        .unwrap();
    assert_eq!(
        place.ingest(&["--quick-check", "mtime"]).counts.unchanged,
        1
    );
    assert_eq!(place.ingest(&["--quick-check", "off"]).counts.duplicates, 1);
}

#[test]
fn what_has_just_changed_is_looked_at_again() {
    let place = Place::new();
    let path = place.write("a", b"one");
    let meta = path.metadata().unwrap();
    let args = [
        "ingest",
        "--store",
        place.store.to_str().unwrap(),
        place.tree.to_str().unwrap(),
    ];
    let args = ["io_fetcher"].iter().chain(&args);
    // Without a pause: the stamp may be that of a later change in the same tick.
    let cli = <crate::args::Cli as clap::Parser>::try_parse_from(args).unwrap();
    let crate::args::Command::Ingest(args) = cli.command else {
        panic!("ingest")
    };
    let mut racy = false;
    for _ in 0..50 {
        fs::write(&path, b"two").unwrap();
        let ended = crate::ingest::ingest(&args).unwrap();
        list::each(&ended.archive, &[], |_| Ok(())).unwrap();
        let key = crate::keys::directory(&place.tree);
        let record = ended.archive.tables[Table::Directory]
            .get(key)
            .unwrap()
            .unwrap();
        let entries = crate::record::decode_directory(&record).unwrap();
        racy |= entries[0].is_racy;
        drop(ended);
        if racy {
            break;
        }
    }
    assert!(racy, "ctime {}", meta.ctime());
    let again = place.ingest(&[]);
    assert_eq!((again.counts.opened, again.counts.duplicates), (1, 1));
    drop(again);
    assert_eq!(place.ingest(&[]).counts.opened, 0);
}

#[test]
fn a_file_that_changes_while_it_is_read_is_not_taken() {
    let place = Place::new();
    let path = place.write("a", noise(1, 600_000));
    let stamp = read::stamp(&path.metadata().unwrap());
    pause();
    let sources = Sources::default();
    let mut chunks = 0;
    let read = sources.chunks((&path, &stamp), &[], |_| {
        chunks += 1;
        if chunks == 1 {
            fs::write(&path, noise(2, 600_000)).unwrap();
        }
        Ok::<(), String>(())
    });
    assert_eq!((read.unwrap_err().as_str(), chunks), (read::CHANGED, 3));
    assert!(sources.first_block(&path, &stamp).is_err());
    let stamp = read::stamp(&path.metadata().unwrap());
    let shorter = sources.chunks((&path, &stamp), &[], |_| {
        fs::write(&path, b"short").unwrap();
        Ok::<(), String>(())
    });
    assert!(shorter.is_err());
}

#[test]
fn the_filter_says_what_is_new() {
    let place = Place::new();
    plant(&place, 400);
    let ended = place.ingest(&[]);
    let stored = ended.counts.stored;
    let stats = ended.archive.tables[Table::FirstBlock].stats();
    assert!(stats.lookups.lookups > 0);
    ended.archive.db.flush().unwrap();
    let has_filter = |table| {
        let stats = ended.archive.tables[table].stats();
        stats.segments().next().unwrap().filter.is_some()
    };
    let of_tables = [Table::Directory, Table::FirstBlock, Table::Document].map(has_filter);
    assert_eq!(of_tables, [false, true, false]);
    drop(ended);
    for n in 0..500 {
        place.write(&format!("new/{n}"), noise(n + 1000, 5000));
    }
    let ended = place.ingest(&[]);
    let data = ended
        .archive
        .db
        .stats()
        .reads
        .get(criba::storage::ReadCause::Data);
    assert_eq!(ended.counts.stored, 500);
    assert!(stored > 100);
    let mut files = 0;
    list::each(&ended.archive, &[place.tree.join("new")], |named| {
        files += u64::from(matches!(named.what, What::File { .. }));
        Ok(())
    })
    .unwrap();
    assert_eq!(files, 500);
    // 500 fingerprints were asked for and found new; the index was read for directories only.
    assert!(data.calls < 50, "{data:?}");
}
