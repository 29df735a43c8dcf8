//! Index only: duplicates exactly, with the least reading.

use std::collections::BTreeMap;
use std::fs;

use super::{Place, noise, plant};
use crate::exit::Exit;
use crate::ingest::Ended;
use crate::list;
use crate::record::What;

/// Groups of the same content by the index, as sorted names.
fn groups(ended: &Ended) -> Vec<Vec<Vec<u8>>> {
    let mut by_document: BTreeMap<u64, Vec<Vec<u8>>> = BTreeMap::new();
    list::each(&ended.archive, &[], |named| {
        if let What::File { document: 1.. } = named.what
            && let What::File { document } = named.what
        {
            by_document.entry(document).or_default().push(named.name);
        }
        Ok(())
    })
    .unwrap();
    let mut groups: Vec<_> = by_document.into_values().collect();
    groups.iter_mut().for_each(|group| group.sort());
    groups.sort();
    groups
}

/// The same by comparing everything.
fn expected(place: &Place) -> Vec<Vec<Vec<u8>>> {
    use std::os::unix::ffi::OsStrExt as _;
    let mut by_content: BTreeMap<Vec<u8>, Vec<Vec<u8>>> = BTreeMap::new();
    for (name, content) in place.files() {
        if !content.is_empty() {
            let name = place.tree.join(name).as_os_str().as_bytes().to_vec();
            by_content.entry(content).or_default().push(name);
        }
    }
    let mut groups: Vec<_> = by_content.into_values().collect();
    groups.iter_mut().for_each(|group| group.sort());
    groups.sort();
    groups
}

#[test]
fn groups_are_those_of_a_full_comparison() {
    let place = Place::new();
    plant(&place, 500);
    let base = noise(5, 50_000);
    for n in 0..6 {
        let mut other = base.clone();
        other[40_000] ^= n / 2;
        place.write(&format!("late/{n}"), other);
    }
    let ended = place.ingest(&["--index-only"]);
    assert_eq!(groups(&ended), expected(&place));
    drop(ended);
    // Added later, compared with files that were read no further than was needed then.
    plant(&place, 600);
    place.write("late/again", &base);
    let ended = place.ingest(&["--index-only"]);
    assert_eq!(groups(&ended), expected(&place));
    drop(ended);
    let again = place.ingest(&["--index-only"]);
    assert_eq!(again.counts.opened, 0);
    drop(again);
    assert_eq!(place.run(&["check", "--json"]).unwrap(), Exit::Done);
    assert_eq!(place.run(&["list", "--duplicates"]).unwrap(), Exit::Done);
}

#[test]
fn a_file_is_read_no_further_than_needed() {
    let place = Place::new();
    for n in 0..100 {
        place.write(&format!("{n}"), noise(n, 10_000 + n as usize));
    }
    let ended = place.ingest(&["--index-only"]);
    assert_eq!(
        (ended.counts.opened, ended.counts.stored),
        (0, 100),
        "every size is there once"
    );
    drop(ended);
    // The same size as one of them, another first block: both are opened, for one block each.
    place.write("other", noise(200, 10_007));
    let ended = place.ingest(&["--index-only"]);
    assert_eq!((ended.counts.opened, ended.counts.hashed), (2, 0));
    drop(ended);
    // And the same first block as both are hashed.
    place.write("same", noise(200, 10_007));
    let ended = place.ingest(&["--index-only"]);
    assert_eq!((ended.counts.opened, ended.counts.hashed), (3, 2));
    assert_eq!(ended.counts.duplicates, 1);
}

#[test]
fn a_candidate_that_has_changed_is_not_compared() {
    let place = Place::new();
    let path = place.write("a", noise(1, 10_000));
    drop(place.ingest(&["--index-only"]));
    // Its content is gone; what has the same size must not be taken for it, nor fail.
    fs::remove_file(&path).unwrap();
    place.write("b", noise(1, 10_000));
    let ended = place.ingest(&["--index-only"]);
    assert_eq!((ended.counts.stored, ended.counts.gone), (1, 1));
    assert_eq!((ended.counts.refuted, ended.counts.troubles), (1, 0));
    drop(ended);
    place.write("c", noise(1, 10_000));
    assert_eq!(place.ingest(&["--index-only"]).counts.duplicates, 1);
}

#[test]
fn an_index_is_no_content_store() {
    let place = Place::new();
    place.write("a", b"a");
    drop(place.ingest(&["--index-only"]));
    let tree = place.tree.to_str().unwrap();
    let refused = place.run(&["ingest", tree]).unwrap_err();
    assert_eq!(refused.exit, Exit::Usage);
    let refused = place.run(&["extract", "--to", "nowhere"]).unwrap_err();
    assert!(refused.to_string().contains("--index-only"), "{refused}");
}
