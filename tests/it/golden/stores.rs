//! The golden stores: small, and with something of everything that a store writes.

use std::collections::BTreeMap;
use std::io;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, UNIX_EPOCH};

use criba::operator::Append;
use criba::sim::{Memory, Survivors};
use criba::storage::{AppendFile, LockGuard, ReadFile, Storage};
use criba::{BloomierBits, Compression, Db, Durability, Error, FilterPolicy, RangeFilterPolicy};

use super::decode::{Contents, Files};
use super::reader::checksum;

/// Keys and their values.
pub(super) type Content = BTreeMap<Vec<u8>, Vec<u8>>;

/// How a store is made and what it holds.
pub(super) struct Store {
    pub(super) name: &'static str,
    pub(super) make: fn() -> Files,
    pub(super) contents: fn() -> Contents,
    pub(super) is_clean: bool,
}

/// Closed in order; a segment for each kind of filter and of block, and a journal.
pub(super) const CLOSED: Store = Store {
    name: "closed",
    make: make_closed,
    contents: || only_default(content_of_closed()),
    is_clean: true,
};

/// What a kill leaves while a flush is still to be made: two journals, the first one sealed.
pub(super) const KILLED: Store = Store {
    name: "killed",
    make: make_killed,
    contents: || only_default(content_of_killed()),
    is_clean: false,
};

/// Closed in order; a segment whose blocks are compressed as LZ4, some of them.
pub(super) const PACKED: Store = Store {
    name: "packed",
    make: make_packed,
    contents: || only_default(content_of_packed()),
    is_clean: true,
};

/// Closed in order; keyspaces whose segments share a file, one of them dropped, and a journal that
/// names all of them.
pub(super) const KEYSPACES: Store = Store {
    name: "keyspaces",
    make: make_keyspaces,
    contents: contents_of_keyspaces,
    is_clean: true,
};

/// Closed in order; operands in a segment, on values in another, and in a journal.
pub(super) const OPERANDS: Store = Store {
    name: "operands",
    make: make_operands,
    contents: || only_default(content_of_operands()),
    is_clean: true,
};

/// Closed in order; segments with range filters, in them and in a filter file.
pub(super) const RANGES: Store = Store {
    name: "ranges",
    make: make_ranges,
    contents: || only_default(content_of_ranges()),
    is_clean: true,
};

/// All of them.
pub(super) const STORES: [&Store; 6] = [&CLOSED, &KILLED, &PACKED, &KEYSPACES, &OPERANDS, &RANGES];

// The random numbers of all stores.
const STORE_ID: u128 = 0x0f0e_0d0c_0b0a_0908_0706_0504_0302_0100;
const HASH_SEED: u64 = 0x1716_1514_1312_1110;

/// What their clock says, in milliseconds since 1970.
pub(super) const WRITTEN_MS: u64 = 1_700_000_000_000;

/// The two files of a new store with these random numbers, as the document has them.
pub(super) fn new_store(store_id: u128, hash_seed: u64) -> Files {
    let mut manifest = [&b"cribaman"[..], &[2, 0, 0, 0, 0, 0, 0, 0]].concat();
    manifest.extend(1_u64.to_le_bytes());
    manifest.extend(store_id.to_le_bytes());
    manifest.extend(hash_seed.to_le_bytes());
    manifest.extend(checksum(1, 0, &[&manifest]).to_le_bytes());
    // Next file, reserved end, no floor; next keyspace 1, none dropped, one: 0, "default", without
    // an operator; no segments, and nothing written.
    let payload = [
        &2_u64.to_le_bytes()[..],
        &66_u64.to_le_bytes(),
        &[0, 1, 0, 0, 0, 0, 1, 0, 0, 0, 0],
        b"\x07default",
        &[0; 7],
    ];
    let payload = payload.concat();
    let len = u32::try_from(payload.len()).unwrap();
    let covered = [&len.to_le_bytes()[..], &[0; 8], &payload].concat();
    manifest.extend(checksum(1, 52, &[&covered]).to_le_bytes());
    manifest.extend(covered);

    let mut current = [&b"cribacur"[..], &[1, 0, 1, 0, 0, 0, 0, 0]].concat();
    current.extend(store_id.to_le_bytes());
    current.extend(1_u64.to_le_bytes());
    current.extend([0; 20]);
    current.extend(checksum(0, 0, &[&current]).to_le_bytes());
    Files::from([
        ("CURRENT".to_owned(), current),
        ("MANIFEST-000001".to_owned(), manifest),
    ])
}

/// A new store whose random numbers are known.
fn known_store() -> Memory {
    let memory = Memory::new();
    memory.set_clock(Some(UNIX_EPOCH + Duration::from_millis(WRITTEN_MS)));
    memory.create_dir().unwrap();
    for (name, bytes) in new_store(STORE_ID, HASH_SEED) {
        memory.replace(&name, bytes);
    }
    memory
}

pub(super) fn files_of(memory: &Memory) -> Files {
    let names = memory.list().unwrap().into_iter();
    names
        .map(|name| {
            let bytes = memory.bytes_of(&name).unwrap();
            (name, bytes)
        })
        .collect()
}

/// Opens the store with small blocks, lets `write` write and closes it in order.
fn session(memory: &Memory, filter: FilterPolicy, compression: Compression, write: fn(&Db)) {
    let db = Db::builder("golden")
        .compaction(criba::Compaction::Manual)
        .storage(Arc::new(memory.clone()))
        .block_bytes(512)
        .filter(filter)
        .compression(compression)
        .open()
        .unwrap();
    write(&db);
    db.close().unwrap();
}

fn make_closed() -> Files {
    let memory = known_store();
    let (plain, zstd) = (Compression::None, Compression::Zstd { level: 3 });
    let slot = FilterPolicy::Bloomier(BloomierBits::Slot);
    session(&memory, slot, plain, write_versions);
    let bloom = FilterPolicy::Bloom { bits_per_key: 10.0 };
    session(&memory, bloom, plain, write_colours);
    session(&memory, FilterPolicy::None, plain, write_few);
    let fraction = FilterPolicy::Bloomier(BloomierBits::BitsPerKey(53.5));
    session(&memory, fraction, zstd, write_many);
    let block = FilterPolicy::Bloomier(BloomierBits::Block);
    session(&memory, block, plain, write_last);
    files_of(&memory)
}

/// Several blocks; tombstones; versions that snapshots hold, so many of one key that they go on
/// in the next block.
fn write_versions(db: &Db) {
    db.put("", "the empty key").unwrap();
    for n in 0..20 {
        db.put(format!("fruit/{n:02}"), format!("value {n}"))
            .unwrap();
    }
    let mut snapshots = vec![db.snapshot()];
    db.put("fruit/10", "a newer value").unwrap();
    db.delete("fruit/03").unwrap();
    db.delete("never there").unwrap();
    for n in 0..9 {
        db.put("history", [b'0' + n; 80]).unwrap();
        snapshots.push(db.snapshot());
    }
    db.put("last", "of its run").unwrap();
    db.flush().unwrap();
}

fn write_colours(db: &Db) {
    let mut batch = db.batch();
    for n in 0..20 {
        batch.put(format!("colour/{n:02}"), format!("shade {n}"));
    }
    batch.delete("fruit/04");
    batch.commit().unwrap();
    // Lookups that the next edit counts: two that find their key, one that does not.
    assert!(db.contains_key("fruit/07").unwrap());
    assert!(db.contains_key("history").unwrap());
    assert!(!db.contains_key("fruit/7").unwrap());
    db.flush().unwrap();
}

fn write_few(db: &Db) {
    db.put("colour/05", "none").unwrap();
    db.put("empty", "").unwrap();
    db.flush().unwrap();
}

/// Enough keys for a filter of several layers and pages; a block that does not shrink and one
/// whose offsets are wide.
fn write_many(db: &Db) {
    flush_all(db, many());
}

/// Writes all in one batch, and a segment of it.
fn flush_all(db: &Db, entries: impl IntoIterator<Item = (impl AsRef<[u8]>, Vec<u8>)>) {
    let mut batch = db.batch();
    for (key, value) in entries {
        batch.put(key, value);
    }
    batch.commit().unwrap();
    db.flush().unwrap();
}

fn many() -> Vec<(String, Vec<u8>)> {
    let mut all: Vec<_> = (0..640)
        .map(|n| (format!("n/{n:03}"), Vec::from(format!("{}", n * n))))
        .collect();
    let mut state = 1_u64;
    let noise = (0..600).map(|_| {
        state = state.wrapping_mul(0x5851_f42d_4c95_7f2d).wrapping_add(1);
        (state >> 56) as u8
    });
    all.push(("noise".to_owned(), noise.collect()));
    all.push(("wide".to_owned(), vec![b'w'; 66_000]));
    all
}

/// A segment with a filter so small that it has no pages, then a journal of every kind of record
/// but a seal.
fn write_last(db: &Db) {
    for key in ["tiny/1", "tiny/2", "tiny/3"] {
        db.put(key, "t").unwrap();
    }
    db.flush().unwrap();
    db.put("apple", "red").unwrap();
    let mut batch = db.batch();
    batch
        .put("banana", "yellow")
        .delete("tiny/2")
        .put("", "still empty");
    batch.commit_with(Durability::Sync).unwrap();
    db.put("cherry", vec![b'c'; 130]).unwrap();
}

fn content_of_closed() -> Content {
    let mut content = BTreeMap::new();
    let mut put = |key: &str, value: &[u8]| {
        content.insert(Vec::from(key), Vec::from(value));
    };
    for n in (0..20).filter(|n| ![3, 4].contains(n)) {
        put(&format!("fruit/{n:02}"), format!("value {n}").as_bytes());
    }
    put("fruit/10", b"a newer value");
    put("history", &[b'8'; 80]);
    put("last", b"of its run");
    for n in 0..20 {
        put(&format!("colour/{n:02}"), format!("shade {n}").as_bytes());
    }
    put("colour/05", b"none");
    put("empty", b"");
    for (key, value) in many() {
        put(&key, &value);
    }
    put("tiny/1", b"t");
    put("tiny/3", b"t");
    put("apple", b"red");
    put("banana", b"yellow");
    put("", b"still empty");
    put("cherry", &[b'c'; 130]);
    content
}

/// Of a store without other keyspaces.
fn only_default(content: Content) -> Contents {
    Contents::from([("default".to_owned(), content)])
}

fn make_keyspaces() -> Files {
    let memory = known_store();
    session(&memory, FilterPolicy::default(), Compression::None, |db| {
        let (users, gone) = (db.keyspace("users").unwrap(), db.keyspace("gone").unwrap());
        let mut batch = db.batch();
        batch.put("first", "in all");
        for n in 0..40 {
            batch.keyspace(&users).put(format!("user/{n:02}"), "a name");
        }
        batch.keyspace(&gone).put("lost", "x");
        batch.keyspace(&users).delete("user/07");
        batch.commit().unwrap();
        db.flush().unwrap();
        let late = db.keyspace("late").unwrap();
        let mut batch = late.batch();
        batch.put("only", "in a journal").delete("never there");
        batch.keyspace(&users).delete("user/11");
        batch.keyspace(&gone).put("lost", "again");
        batch.commit().unwrap();
        assert!(db.drop_keyspace("gone").unwrap());
        db.put("second", "of the default keyspace").unwrap();
    });
    files_of(&memory)
}

fn contents_of_keyspaces() -> Contents {
    let content = |pairs: &[(&str, &str)]| -> Content {
        let pairs = pairs.iter();
        pairs.map(|(k, v)| (Vec::from(*k), Vec::from(*v))).collect()
    };
    let users = (0..40).filter(|n| ![7, 11].contains(n));
    let users = users.map(|n| (Vec::from(format!("user/{n:02}")), Vec::from("a name")));
    let first = [("first", "in all"), ("second", "of the default keyspace")];
    Contents::from([
        ("default".to_owned(), content(&first)),
        ("late".to_owned(), content(&[("only", "in a journal")])),
        ("users".to_owned(), users.collect()),
    ])
}

fn make_packed() -> Files {
    let memory = known_store();
    let bloom = FilterPolicy::Bloom { bits_per_key: 10.0 };
    session(&memory, bloom, Compression::Lz4, |db| {
        flush_all(db, content_of_packed());
    });
    files_of(&memory)
}

/// Blocks that shrink by the keys they share, one that does not, and one that is a long copy.
fn content_of_packed() -> Content {
    let all = many().into_iter().skip(560);
    all.map(|(key, value)| (key.into(), value)).collect()
}

fn make_operands() -> Files {
    let memory = known_store();
    let db = Db::builder("golden")
        .compaction(criba::Compaction::Manual)
        .storage(Arc::new(memory.clone()))
        .block_bytes(512)
        .operator(Append::with_delimiter(","))
        .open()
        .unwrap();
    db.put("animals", "cat").unwrap();
    db.put("plants", "fern").unwrap();
    db.flush().unwrap();
    db.merge("animals", "dog").unwrap();
    db.merge("animals", "eel").unwrap();
    let snapshot = db.snapshot();
    db.merge("animals", "fox").unwrap();
    db.merge("birds", "tit").unwrap();
    db.merge("animals", "").unwrap();
    // Nothing is below it: it becomes a value.
    db.merge("stones", "onyx").unwrap();
    db.flush().unwrap();
    drop(snapshot);
    db.batch()
        .merge("birds", "owl")
        .put("gone", "x")
        .merge("gone", "y")
        .commit()
        .unwrap();
    db.delete("gone").unwrap();
    db.close().unwrap();
    files_of(&memory)
}

fn content_of_operands() -> Content {
    let all = [
        ("animals", "cat,dog,eel,fox,"),
        ("birds", "tit,owl"),
        ("plants", "fern"),
        ("stones", "onyx"),
    ];
    BTreeMap::from(all.map(|(key, value)| (key.into(), value.into())))
}

/// A session that asks for range filters of so many bits for each key.
fn session_with_ranges(memory: &Memory, (bits, block): (f64, u32), write: impl FnOnce(&Db)) {
    let range = match bits {
        0.0 => RangeFilterPolicy::None,
        bits_per_key => RangeFilterPolicy::Bits { bits_per_key },
    };
    let db = Db::builder("golden")
        .compaction(criba::Compaction::Manual)
        .storage(Arc::new(memory.clone()))
        .block_bytes(block)
        .filter(FilterPolicy::Bloom { bits_per_key: 10.0 })
        .range_filter(range)
        .open()
        .unwrap();
    write(&db);
    db.close().unwrap();
}

fn make_ranges() -> Files {
    let memory = known_store();
    session_with_ranges(&memory, (0.0, 512), |db| flush_all(db, rivers()));
    // The filters of the segment that has no range filter, in a file.
    session_with_ranges(&memory, (16.0, 512), |db| {
        assert_eq!(db.rebuild_filters(.., |_, _| {}).unwrap().rebuilt, 1);
    });
    session_with_ranges(&memory, (24.0, 2048), |db| flush_all(db, shapes()));
    session_with_ranges(&memory, (8.0, 4096), |db| flush_all(db, letters()));
    session_with_ranges(&memory, (4.0, 512), |db| flush_all(db, row()));
    session_with_ranges(&memory, (20.0, 512), write_history);
    files_of(&memory)
}

/// Keys of one length, in blocks of a few.
fn rivers() -> Vec<(Vec<u8>, Vec<u8>)> {
    let mut random = random(1);
    let key = |_| format!("river/{:06x}", random() >> 40).into_bytes();
    (0..60)
        .map(key)
        .map(|key| (key, b"flows".to_vec()))
        .collect()
}

/// Keys of every shape: the empty one, prefixes of each other, the least and the greatest bytes, a
/// long one, and clusters of words; more than 64 in a block.
fn shapes() -> Vec<(Vec<u8>, Vec<u8>)> {
    let mut random = random(2);
    let mut keys = vec![
        Vec::new(),
        vec![b'k'; 300],
        [&[b'k'; 300][..], b"z"].concat(),
    ];
    keys.extend((1..6).map(|len| vec![0; len]));
    keys.extend((1..6).map(|len| vec![0xff; len]));
    keys.extend((1..9).map(|len| vec![b'k'; len]));
    for cluster in ["apple ", "river/", "stone", "stones ", "\u{fc}ber"] {
        keys.extend((0..40).map(|_| format!("{cluster}{}", random() % 90_000).into_bytes()));
    }
    keys.into_iter().map(|key| (key, b"s".to_vec())).collect()
}

/// Keys of two letters, which pay for tables of what follows each of them.
fn letters() -> Vec<(Vec<u8>, Vec<u8>)> {
    let mut random = random(3);
    let mut key = |_| {
        let mut bits = random();
        let letters = (0..14).map(|_| {
            bits >>= 2;
            // An `n` is followed by another one three times of four.
            if bits.is_multiple_of(4) { b'o' } else { b'n' }
        });
        letters.collect()
    };
    (0..1200)
        .map(&mut key)
        .map(|key| (key, Vec::new()))
        .collect()
}

/// Keys with a block each: the lengths of their pieces alone would take more bits than were asked
/// for.
fn row() -> Vec<(Vec<u8>, Vec<u8>)> {
    let key = |n| format!("row/{n:03}").into_bytes();
    (0..10).map(|n| (key(n), vec![b'r'; 300])).collect()
}

/// Versions of one key that go on in the next blocks.
fn write_history(db: &Db) {
    let mut snapshots = Vec::new();
    for n in 0..16 {
        db.put("stone", [b'0' + n; 90]).unwrap();
        snapshots.push(db.snapshot());
    }
    for n in 0..20 {
        db.put(format!("stone{n:03}"), "later").unwrap();
        db.put(format!("quarry{}", n * n), "earlier").unwrap();
    }
    db.delete("row/007").unwrap();
    db.flush().unwrap();
}

fn random(seed: u64) -> impl FnMut() -> u64 {
    let mut state = seed;
    move || {
        state = state.wrapping_mul(0x5851_f42d_4c95_7f2d).wrapping_add(1);
        state ^ (state >> 29)
    }
}

fn content_of_ranges() -> Content {
    let mut content: Content = [rivers(), shapes(), letters(), row()]
        .concat()
        .into_iter()
        .collect();
    content.remove(&b"row/007"[..]);
    for n in 0..20 {
        content.insert(format!("stone{n:03}").into(), b"later".into());
        content.insert(format!("quarry{}", n * n).into(), b"earlier".into());
    }
    content.insert(b"stone".into(), vec![b'0' + 15; 90]);
    content
}

fn make_killed() -> Files {
    let memory = known_store();
    let db = Db::builder("golden")
        .compaction(criba::Compaction::Manual)
        .storage(Arc::new(NoSegments(memory.clone())))
        .open()
        .unwrap();
    db.put("a", "1").unwrap();
    db.put("b", "2").unwrap();
    db.sync().unwrap();
    db.delete("a").unwrap();
    let refused = db.flush().unwrap_err();
    assert!(matches!(refused, Error::Io { .. }), "{refused}");
    db.put("c", "3").unwrap();
    files_of(&memory.crash(Survivors::Everything))
}

fn content_of_killed() -> Content {
    BTreeMap::from([("b", "2"), ("c", "3")].map(|(key, value)| (key.into(), value.into())))
}

/// Memory in which no segment can be made, so that sealed memtables stay.
#[derive(Debug)]
struct NoSegments(Memory);

impl Storage for NoSegments {
    fn path_of(&self, name: &str) -> PathBuf {
        self.0.path_of(name)
    }

    fn create_dir(&self) -> io::Result<()> {
        self.0.create_dir()
    }

    fn list(&self) -> io::Result<Vec<String>> {
        self.0.list()
    }

    fn open(&self, name: &str) -> io::Result<Arc<dyn ReadFile>> {
        self.0.open(name)
    }

    fn create(&self, name: &str) -> io::Result<Box<dyn AppendFile>> {
        if name.ends_with(".seg") {
            return Err(io::ErrorKind::StorageFull.into());
        }
        self.0.create(name)
    }

    fn rename(&self, from: &str, to: &str) -> io::Result<()> {
        self.0.rename(from, to)
    }

    fn remove(&self, name: &str) -> io::Result<()> {
        self.0.remove(name)
    }

    fn sync_dir(&self) -> io::Result<()> {
        self.0.sync_dir()
    }

    fn lock(&self, name: &str) -> io::Result<Box<dyn LockGuard>> {
        self.0.lock(name)
    }

    fn boot_id(&self) -> Option<u128> {
        self.0.boot_id()
    }
}
