//! Opens a store and reads it in every way.

use std::collections::BTreeMap;
use std::sync::Arc;

use criba::operator::Append;
use criba::sim::Memory;
use criba::storage::Storage;
use criba::{Access, Compaction, Db, FilterPolicy, Keyspace, Slice};

use super::frame::Files;

/// Keys and values.
pub(crate) type Content = BTreeMap<Vec<u8>, Vec<u8>>;

/// Entries that are read at most, and keys that are looked up.
const ENTRIES_MAX: usize = 4096;
const LOOKUPS_MAX: usize = 32;

/// Keys that no golden store has, or that all have.
const ASKED: [&[u8]; 6] = [b"", b"\0", b"fruit/03", b"n/320", b"wide", b"\xff\xff"];

/// The files of a golden store. They are part of the program: a fuzzer runs anywhere.
pub(super) fn golden(name: &str) -> Files {
    macro_rules! files {
        ($store:literal: $($file:literal)*) => {
            [$(($file, &include_bytes!(concat!("../../golden/", $store, "/", $file))[..])),*]
        };
    }
    let files: &[(&str, &[u8])] = match name {
        "closed" => &files!("closed":
            "000005.seg" "000009.seg" "000013.seg" "000017.seg" "000020.journal" "000021.seg"
            "CURRENT" "LOCK" "MANIFEST-000014" "MANIFEST-000018"),
        "packed" => &files!("packed":
            "000004.journal" "000005.seg" "CURRENT" "LOCK" "MANIFEST-000001" "MANIFEST-000002"),
        "keyspaces" => &files!("keyspaces":
            "000004.journal" "000005.seg" "CURRENT" "LOCK" "MANIFEST-000001" "MANIFEST-000002"),
        "operands" => &files!("operands":
            "000005.seg" "000006.journal" "000007.seg"
            "CURRENT" "LOCK" "MANIFEST-000001" "MANIFEST-000002"),
        "ranges" => &files!("ranges":
            "000005.seg" "000006.filter" "000011.seg" "000015.seg" "000019.seg" "000022.journal"
            "000023.seg" "CURRENT" "LOCK" "MANIFEST-000016" "MANIFEST-000020"),
        _ => &files!("killed":
            "000003.journal" "000004.journal" "CURRENT" "LOCK" "MANIFEST-000001" "MANIFEST-000002"),
    };
    let owned = |(name, bytes): &(&str, &[u8])| ((*name).to_owned(), bytes.to_vec());
    files.iter().map(owned).collect()
}

fn open(memory: &Memory, access: Access) -> criba::Result<Db> {
    Db::builder("decoders")
        .storage(Arc::new(memory.clone()))
        .compaction(Compaction::Manual)
        .filter(FilterPolicy::Bloom { bits_per_key: 8.0 })
        .memtable_bytes(64 << 10)
        .cache_bytes(1 << 20)
        .operator(Append::new())
        .access(access)
        .open()
}

/// Returns what the store holds, if it can be opened and nothing is wrong with it.
pub(super) fn exercise(files: Files, is_written: bool) -> Option<Content> {
    let memory = Memory::new();
    memory.create_dir().unwrap();
    for (name, bytes) in files {
        memory.replace(&name, bytes);
    }
    let content = match open(&memory, Access::ReadOnly) {
        Ok(db) => read(&db),
        Err(error) => {
            assert!(!error.to_string().is_empty());
            None
        }
    };
    if is_written {
        write(&memory, content.as_ref());
    }
    content
}

/// Reads every keyspace; returns the default one's content if `verify` finds nothing wrong, and
/// then all ways agree.
fn read(db: &Db) -> Option<Content> {
    let is_sound = is_sound(db);
    for name in db.keyspaces() {
        match db.keyspace(&name) {
            Ok(keyspace) => assert_eq!(read_keyspace(&keyspace, is_sound).is_some(), is_sound),
            Err(error) => assert!(!error.to_string().is_empty(), "of another operator"),
        }
    }
    read_keyspace(db, is_sound)
}

fn read_keyspace(db: &Keyspace, is_sound: bool) -> Option<Content> {
    let forward: Vec<_> = db.iter().take(ENTRIES_MAX).collect();
    let backward: Vec<_> = db.iter().rev().take(ENTRIES_MAX).collect();
    assert!(db.stats().segments().count() < 1000);
    std::hint::black_box(db.approximate_len());
    std::hint::black_box(db.approximate_len_in("c".."q"));
    for (lower, upper) in ASKED.iter().zip(&ASKED[1..]) {
        for entry in db.range(*lower..=*upper).take(ENTRIES_MAX) {
            assert!(entry.is_ok() || !is_sound);
        }
    }
    for key in ASKED {
        let found = db.get(key);
        let explained = db.explain(key);
        if is_sound {
            assert!(explained.is_ok() && found.is_ok());
        }
    }
    if !is_sound {
        return None;
    }
    let forward: Vec<(Slice, Slice)> = forward.into_iter().map(Result::unwrap).collect();
    let backward: Vec<(Slice, Slice)> = backward.into_iter().map(Result::unwrap).collect();
    assert!(forward.is_sorted_by(|(left, _), (right, _)| **left < **right));
    if forward.len() < ENTRIES_MAX {
        assert!(forward.iter().eq(backward.iter().rev()));
    }
    let stride = forward.len().div_ceil(LOOKUPS_MAX).max(1);
    for (key, value) in forward.iter().step_by(stride) {
        assert_eq!(db.get(key).unwrap().as_ref(), Some(value), "{key:?}");
        let from_here = db.range(&**key..).next();
        assert_eq!(from_here.unwrap().unwrap().0, *key);
        assert_eq!(db.range(&**key..=&**key).rev().count(), 1);
    }
    if forward.len() < ENTRIES_MAX {
        for key in ASKED {
            let is_there = forward.iter().any(|(found, _)| **found == *key);
            assert_eq!(db.contains_key(key).unwrap(), is_there);
        }
    }
    Some(owned(forward))
}

fn owned(entries: Vec<(Slice, Slice)>) -> Content {
    let pair = |(key, value): (Slice, Slice)| (key.to_vec(), value.to_vec());
    entries.into_iter().map(pair).collect()
}

fn is_sound(db: &Db) -> bool {
    let report = db.verify(&mut |_, _| {}).unwrap();
    for finding in &report.findings {
        assert!(!finding.to_string().is_empty());
    }
    let ids: Vec<u64> = db.stats().segments().map(|segment| segment.id).collect();
    let inspected = ids.into_iter().filter(|id| db.inspect(*id).is_ok()).count();
    report.findings.is_empty() && inspected == db.stats().segments().count()
}

/// Writes, flushes, compacts and opens again. What was sound stays; an error is no panic.
fn write(memory: &Memory, expected: Option<&Content>) {
    let Ok(db) = open(memory, Access::ReadWrite) else {
        assert_eq!(expected, None, "what can be read can be written");
        return;
    };
    let written = db
        .keyspaces()
        .iter()
        .filter_map(|name| db.keyspace(name).ok())
        .try_for_each(|keyspace| keyspace.put("written", "later"))
        .and_then(|()| db.flush())
        .and_then(|()| db.rebuild_filters(.., |_, _| {}).map(drop))
        .and_then(|()| db.compact_all()?.wait());
    drop(db);
    let Some(expected) = expected.filter(|content| content.len() < ENTRIES_MAX - 1) else {
        return;
    };
    written.unwrap();
    let db = open(memory, Access::ReadWrite).unwrap();
    let mut expected = expected.clone();
    expected.insert("written".into(), "later".into());
    let found = db.iter().map(Result::unwrap).collect();
    assert_eq!(owned(found), expected);
}
