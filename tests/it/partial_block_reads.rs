//! Groups of a block that are read by themselves, in counts of bytes.

use std::fs::{self, OpenOptions};
use std::os::unix::fs::FileExt as _;
use std::path::PathBuf;

use criba::storage::{ReadCause, ReadCount};
use criba::{Builder, Compression, Db, Error, FilterPolicy};

const KEYS: u64 = 40_000;
/// Of 5 MB of data.
const CACHE_BYTES: u64 = 1 << 20;
const BLOCK_BYTES: u64 = 4096;
/// Four entries, and what reads are rounded up to.
const GROUP_BYTES_MAX: u64 = 768;

fn key(n: u64) -> String {
    format!("key{n:09}")
}

fn value(n: u64) -> Vec<u8> {
    let mut value = vec![3; 100];
    value[..8].copy_from_slice(&n.to_le_bytes());
    value
}

fn filled(builder: Builder) -> Db {
    let db = builder
        .compaction(criba::Compaction::Manual)
        .memtable_bytes(64 << 20)
        .open()
        .unwrap();
    let mut batch = db.batch();
    for n in 0..KEYS {
        batch.put(key(n), value(n));
    }
    batch.commit().unwrap();
    db.flush().unwrap();
    db
}

/// Each key once, neighbours far apart.
fn all() -> impl Iterator<Item = u64> {
    (0..KEYS).map(|n| n * 12_347 % KEYS)
}

/// What these lookups read of the data.
fn read_by(db: &Db, numbers: impl Iterator<Item = u64>) -> ReadCount {
    let before = db.stats().reads;
    for n in numbers {
        assert_eq!(db.get(key(n)).unwrap().unwrap(), value(n), "{n}");
    }
    db.stats().reads.since(&before).get(ReadCause::Data)
}

fn index_bytes(db: &Db) -> u64 {
    let segments = db.stats();
    segments.segments().map(|segment| segment.index_bytes).sum()
}

#[test]
fn a_block_is_read_whole_once_and_then_by_groups() {
    let directory = tempfile::tempdir().unwrap();
    let db = filled(Db::builder(directory.path()).cache_bytes(CACHE_BYTES));
    let resident = index_bytes(&db);
    // Each block is read until it is not kept, so that its groups are known.
    read_by(&db, all());
    let marks = index_bytes(&db) - resident;
    assert!((1..=CACHE_BYTES / 4).contains(&marks), "{marks}");
    let second = read_by(&db, all());
    // Three of four are not in the cache. Now and then a block is read that will be kept.
    assert!(second.calls > KEYS / 2, "{second:?}");
    let each = second.bytes / second.calls;
    assert!(each <= GROUP_BYTES_MAX, "{second:?}");
}

#[test]
fn what_has_no_groups_to_read_reads_blocks() {
    type Change = fn(Builder) -> Builder;
    let changes: [(&str, Change); 5] = [
        ("no cache", |builder| builder.cache_bytes(0)),
        ("no slots", |builder| {
            builder.filter(FilterPolicy::Bloom { bits_per_key: 10.0 })
        }),
        ("mapped", |builder| builder.io(criba::Io::Mmap)),
        ("compressed", |builder| {
            builder.compression(Compression::Lz4)
        }),
        ("short groups", |builder| builder.entries_per_group(1)),
    ];
    for (what, change) in changes {
        let directory = tempfile::tempdir().unwrap();
        let db = filled(change(
            Db::builder(directory.path()).cache_bytes(CACHE_BYTES),
        ));
        let resident = index_bytes(&db);
        read_by(&db, all());
        let second = read_by(&db, all());
        assert_eq!(index_bytes(&db), resident, "{what}");
        if what != "compressed" && second.calls > 0 {
            // The last one may be shorter.
            let each = second.bytes / second.calls;
            assert!(each >= BLOCK_BYTES - 64, "{what}: {second:?}");
        }
    }
}

/// Who may not see all of a segment cannot tell from a group what it may.
#[test]
fn a_snapshot_from_before_the_newest_write_finds_what_it_may() {
    let directory = tempfile::tempdir().unwrap();
    let db = filled(Db::builder(directory.path()).cache_bytes(CACHE_BYTES));
    let before = db.snapshot();
    for n in (0..KEYS).step_by(3) {
        db.put(key(n), b"new").unwrap();
    }
    db.flush().unwrap();
    db.compact_all().unwrap().wait().unwrap();
    for _ in 0..3 {
        for n in all() {
            assert_eq!(before.get(key(n)).unwrap().unwrap(), value(n), "{n}");
            let now = db.get(key(n)).unwrap().unwrap();
            match n % 3 {
                0 => assert_eq!(now, b"new", "{n}"),
                _ => assert_eq!(now, value(n), "{n}"),
            }
        }
    }
}

fn segment_file(directory: &tempfile::TempDir) -> PathBuf {
    let files = fs::read_dir(directory.path()).unwrap();
    let mut names = files.map(|entry| entry.unwrap().path());
    names
        .find(|path| path.extension().is_some_and(|ending| ending == "seg"))
        .unwrap()
}

/// A group that is not what it was is damage of its block, as before.
#[test]
fn damage_that_comes_later_is_an_error_and_no_value() {
    let directory = tempfile::tempdir().unwrap();
    let db = filled(Db::builder(directory.path()).cache_bytes(CACHE_BYTES));
    read_by(&db, all());
    let by_groups = read_by(&db, all());
    assert!(by_groups.bytes / by_groups.calls <= GROUP_BYTES_MAX);

    let path = segment_file(&directory);
    let whole = fs::read(&path).unwrap();
    let file = OpenOptions::new().write(true).open(&path).unwrap();
    let blocks = db.stats().segments().map(|one| one.blocks).sum::<u64>();
    for block in 0..blocks {
        // Somewhere among the entries.
        let at = block * BLOCK_BYTES + 64 + block * 37 % 2048;
        let byte = whole[at as usize];
        file.write_all_at(&[byte ^ 4], at).unwrap();
    }
    let mut damaged = 0;
    for n in all() {
        match db.get(key(n)) {
            // The cache has it, or its group is whole.
            Ok(found) => assert_eq!(found.unwrap(), value(n), "{n}"),
            Err(Error::Corrupt { .. }) => damaged += 1,
            Err(other) => panic!("{other}"),
        }
    }
    // One group of eight or nine, but for what is in the cache.
    assert!((KEYS / 20..KEYS / 4).contains(&damaged), "{damaged}");
    file.write_all_at(&whole, 0).unwrap();
    let again = read_by(&db, all());
    assert!(again.bytes / again.calls <= GROUP_BYTES_MAX);
}

/// Of keys that are looked up together as well, unless two of them are in one block.
#[test]
fn many_keys_together_read_groups() {
    let directory = tempfile::tempdir().unwrap();
    let db = filled(Db::builder(directory.path()).cache_bytes(CACHE_BYTES));
    read_by(&db, all());
    let read = |numbers: &[u64]| {
        let before = db.stats().reads;
        let found = db.get_many(numbers.iter().map(|n| key(*n))).unwrap();
        for (n, found) in numbers.iter().zip(found) {
            assert_eq!(found.unwrap(), value(*n), "{n}");
        }
        db.stats().reads.since(&before).get(ReadCause::Data)
    };
    // A block has half as many entries.
    let far: Vec<u64> = (0..KEYS).step_by(64).collect();
    let by_groups = read(&far);
    assert!(by_groups.calls as usize > far.len() / 2, "{by_groups:?}");
    let each = by_groups.bytes / by_groups.calls;
    assert!(each <= GROUP_BYTES_MAX, "{by_groups:?}");
    // Neighbours are in one block, but for a few.
    let near: Vec<u64> = far.iter().flat_map(|n| [n + 32, n + 33]).collect();
    let by_blocks = read(&near);
    let each = by_blocks.bytes / by_blocks.calls;
    assert!(each > GROUP_BYTES_MAX, "{by_blocks:?}");
    let most = far.len() + far.len() / 20;
    assert!(
        (1..=most).contains(&(by_blocks.calls as usize)),
        "{by_blocks:?}"
    );
}
