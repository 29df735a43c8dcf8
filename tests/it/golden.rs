//! Stores whose every byte is kept in `tests/golden`, and a second decoder that reads them.
//!
//! The files are made through the public interface and compared byte for byte. Beside each store
//! lies what the decoder of this test, written from `docs/format.md` alone, finds in it; so the
//! document is proven with the files. `BLESS=1 cargo test golden` writes both anew: a change of
//! them is a change of the format, unless it comes from another version of a compressor.

mod decode;
mod document;
mod filter;
mod filters;
mod ranges;
mod reader;
mod segment;
mod stores;

use std::path::{Path, PathBuf};
use std::sync::{Arc, OnceLock};

use criba::operator::Append;
use criba::sim::Memory;
use criba::storage::Storage as _;
use criba::{Access, Db, Io};

use decode::{Contents, Decoded, Files};
use stores::{CLOSED, KEYSPACES, KILLED, OPERANDS, PACKED, RANGES, STORES, Store};

/// Where the files of a store are kept.
fn directory(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("tests/golden")
        .join(name)
}

fn is_blessed() -> bool {
    std::env::var_os("BLESS").is_some()
}

/// The golden files of a store, written anew first if that was asked for.
fn golden(store: &Store) -> Files {
    static BLESSED: OnceLock<()> = OnceLock::new();
    if is_blessed() {
        BLESSED.get_or_init(|| STORES.into_iter().for_each(bless));
    }
    read_all(&directory(store.name))
}

fn bless(store: &Store) {
    let directory = directory(store.name);
    if directory.exists() {
        std::fs::remove_dir_all(&directory).unwrap();
    }
    std::fs::create_dir_all(&directory).unwrap();
    let files = (store.make)();
    for (name, bytes) in &files {
        std::fs::write(directory.join(name), bytes).unwrap();
    }
    let dump = decode::store(&files).dump;
    std::fs::write(directory.with_extension("txt"), dump).unwrap();
}

fn read_all(directory: &Path) -> Files {
    let entries = std::fs::read_dir(directory).unwrap();
    let read = |entry: std::io::Result<std::fs::DirEntry>| {
        let entry = entry.unwrap();
        let name = entry.file_name().into_string().unwrap();
        (name, std::fs::read(entry.path()).unwrap())
    };
    entries.map(read).collect()
}

/// Fails with the first byte that differs.
fn assert_same(expected: &Files, found: &Files) {
    let names = |files: &Files| files.keys().cloned().collect::<Vec<_>>();
    assert_eq!(names(expected), names(found));
    for (name, expected) in expected {
        let found = &found[name];
        let differs = expected.iter().zip(found).position(|(a, b)| a != b);
        assert_eq!(differs, None, "{name} differs from its golden file here");
        assert_eq!(expected.len(), found.len(), "length of {name}");
    }
}

#[test]
fn stores_are_written_as_ever() {
    for store in STORES {
        assert_same(&golden(store), &(store.make)());
    }
}

#[test]
fn the_document_tells_how_to_read_them() {
    for store in STORES {
        let files = golden(store);
        let Decoded {
            dump,
            contents,
            clean_at,
            last,
            ranges: _,
        } = decode::store(&files);
        assert_eq!(contents, (store.contents)(), "{}", store.name);
        assert_eq!(clean_at, store.is_clean.then_some(last));
        let kept = directory(store.name).with_extension("txt");
        let kept = std::fs::read_to_string(kept).unwrap();
        for (number, (kept, found)) in kept.lines().zip(dump.lines()).enumerate() {
            assert_eq!(kept, found, "line {} of {}.txt", number + 1, store.name);
        }
        assert_eq!(kept.len(), dump.len());
    }
}

/// A segment with so many keys that its sketch is dense would make a long dump.
#[test]
fn the_document_tells_how_to_read_a_dense_sketch() {
    let memory = Memory::new();
    let db = Db::builder("dense")
        .compaction(criba::Compaction::Manual)
        .storage(Arc::new(memory.clone()))
        .open()
        .unwrap();
    for n in 0..5000 {
        db.put(format!("{n:05}"), "x").unwrap();
        db.delete(format!("d{n:05}")).unwrap();
    }
    db.put("kept", "x").unwrap();
    db.snapshot();
    db.flush().unwrap();
    // Tombstones stay only where there is something to hide.
    for n in 0..5000 {
        db.delete(format!("{n:05}")).unwrap();
    }
    db.put("0", "x").unwrap();
    db.put("1", "x").unwrap();
    db.flush().unwrap();
    db.close().unwrap();
    let decoded = decode::store(&stores::files_of(&memory));
    assert_eq!(decoded.contents["default"].len(), 3);
    let dense = [
        "sketch of values (3074 bytes)",
        "sketch of deleted keys (3074 bytes)",
    ];
    for line in dense {
        assert!(decoded.dump.contains(line), "{line}");
    }
}

/// A new store has random numbers in it, so it is not kept in a file.
#[test]
fn a_new_store_is_as_the_document_says() {
    let memory = Memory::new();
    let db = Db::builder("new")
        .compaction(criba::Compaction::Manual)
        .storage(Arc::new(memory.clone()))
        .open()
        .unwrap();
    let files = stores::files_of(&memory);
    db.close().unwrap();
    assert_same(&files, &stores::files_of(&memory));
    let store_id = u128::from_le_bytes(files["CURRENT"][16..32].try_into().unwrap());
    let hash_seed = &files["MANIFEST-000001"][40..48];
    let hash_seed = u64::from_le_bytes(hash_seed.try_into().unwrap());
    let mut expected = stores::new_store(store_id, hash_seed);
    expected.insert("LOCK".into(), Vec::new());
    assert_same(&expected, &files);
}

#[test]
fn golden_stores_are_read_from_disk() {
    for (store, io) in [
        (&CLOSED, Io::Pread),
        (&CLOSED, Io::Mmap),
        (&KILLED, Io::Pread),
        (&PACKED, Io::Pread),
        (&PACKED, Io::Mmap),
        (&KEYSPACES, Io::Pread),
        (&KEYSPACES, Io::Mmap),
        (&OPERANDS, Io::Pread),
        (&OPERANDS, Io::Mmap),
        (&RANGES, Io::Pread),
        (&RANGES, Io::Mmap),
    ] {
        let files = golden(store);
        let dir = tempfile::tempdir().unwrap();
        for (name, bytes) in &files {
            std::fs::write(dir.path().join(name), bytes).unwrap();
        }
        let open = |access| {
            Db::builder(dir.path())
                .compaction(criba::Compaction::Manual)
                .io(io)
                .operator(Append::with_delimiter(","))
                .access(access)
                .open()
                .unwrap()
        };
        let db = open(Access::ReadOnly);
        assert_content(&db, store);
        db.close().unwrap();
        assert_same(&files, &read_all(dir.path()));

        let db = open(Access::ReadWrite);
        assert_content(&db, store);
        db.put("later", "x").unwrap();
        db.flush().unwrap();
        db.close().unwrap();
        let db = open(Access::ReadWrite);
        assert!(db.stats().recovery.clean);
        assert_eq!(db.get("later").unwrap().unwrap(), "x");
        db.delete("later").unwrap();
        assert_eq!(all(&db), (store.contents)());
    }
}

/// Ranges of one key, ranges between keys and wide ones: each segment denies those that its filter
/// denies by the document, and no others.
#[test]
fn range_filters_answer_as_the_document_says() {
    let files = golden(&RANGES);
    let filters = decode::store(&files).ranges;
    assert_eq!(filters.len(), 4);
    let memory = Memory::new();
    memory.create_dir().unwrap();
    files
        .iter()
        .for_each(|(name, bytes)| memory.replace(name, bytes.clone()));
    let db = Db::builder("ranges")
        .compaction(criba::Compaction::Manual)
        .storage(Arc::new(memory))
        .access(Access::ReadOnly)
        .open()
        .unwrap();
    let content = &all(&db)["default"];
    let mut questions = ranges::absent(content.keys());
    assert_eq!(questions.len(), 1000);
    questions.extend(content.keys().map(|key| (key.clone(), key.clone())));
    let pairs = content.keys().zip(content.keys().skip(1));
    questions.extend(pairs.map(|(one, next)| (one.clone(), next.clone())));
    let stats = db.stats();
    let ids = |run: &criba::RunStats| run.segments.iter().map(|one| one.id).collect::<Vec<_>>();
    let runs: Vec<Vec<u64>> = stats.runs.iter().map(ids).collect();
    let mut denied = 0;
    for (lower, upper) in &questions {
        let found = db.range(&lower[..]..=&upper[..]).map(Result::unwrap);
        let found: Vec<_> = found.map(|(key, _)| key.to_vec()).collect();
        let expected = content.range(lower.clone()..=upper.clone());
        let expected: Vec<_> = expected.map(|(key, _)| key.clone()).collect();
        assert_eq!(found, expected);
        let account = db.explain_range(&lower[..]..=&upper[..]).unwrap();
        for (step, ids) in account.runs.iter().zip(&runs) {
            let [id] = ids[..] else {
                panic!("a run of one segment was made");
            };
            let Some(filter) = filters.get(&id) else {
                continue;
            };
            let is_denied = filter.covers(lower, upper) && !filter.may_hold(lower, upper);
            let what = (lower.escape_ascii(), upper.escape_ascii());
            let shown = step.outcome == criba::RangeOutcome::Refuted;
            assert_eq!(shown, is_denied, "{id}: {what:?}");
            denied += u64::from(is_denied);
        }
    }
    assert!(denied > 1000, "{denied}");
}

fn all(db: &Db) -> Contents {
    let content = |name: String| {
        let keyspace = db.keyspace(&name).unwrap();
        let pairs = keyspace.iter().map(|entry| entry.unwrap());
        let content = pairs.map(|(key, value)| (key.to_vec(), value.to_vec()));
        (name, content.collect())
    };
    db.keyspaces().into_iter().map(content).collect()
}

fn assert_content(db: &Db, store: &Store) {
    let recovery = db.stats().recovery;
    assert_eq!(recovery.clean, store.is_clean);
    assert!(recovery.torn.is_empty() && recovery.unknown_files.is_empty());
    assert_eq!(all(db), (store.contents)());
    for (name, content) in (store.contents)() {
        let keyspace = db.keyspace(&name).unwrap();
        for segment in keyspace.stats().segments() {
            assert_eq!(segment.damage, None);
            let filter = segment.filter.as_ref();
            assert_eq!(filter.and_then(|filter| filter.damage.clone()), None);
            keyspace.inspect(segment.id).unwrap();
        }
        for (key, value) in content {
            let found = keyspace.get(&key).unwrap().unwrap();
            assert_eq!(found, value, "{}", key.escape_ascii());
        }
        for n in 0..100 {
            assert!(!keyspace.contains_key(format!("absent {n}")).unwrap());
        }
    }
}
