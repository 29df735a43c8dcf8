//! Stores that are damaged and repaired: nothing that was never written, and everything that is
//! intact.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use criba::sim::{Memory, Survivors};
use criba::storage::Storage;
use criba::{Builder, Compaction, Compression, Db, Durability, Error, FilterPolicy, Repaired};

type Model = BTreeMap<Vec<u8>, Vec<u8>>;

fn builder(memory: &Memory) -> Builder {
    Db::builder("repair")
        .compaction(Compaction::Manual)
        .storage(Arc::new(memory.clone()))
        .block_bytes(512)
}

/// A store, what it holds, and everything that it ever held.
struct Store {
    memory: Memory,
    model: Model,
    history: BTreeMap<Vec<u8>, BTreeSet<Vec<u8>>>,
    /// The file that has the newest entry of each key.
    owner: BTreeMap<Vec<u8>, String>,
    /// Where the blocks of segments are, and the range of keys of each.
    blocks: Vec<Block>,
}

struct Block {
    file: String,
    range: std::ops::Range<usize>,
    first_key: Vec<u8>,
}

const ROUNDS: usize = 4;
const KEYS: usize = 90;

fn names(memory: &Memory, suffix: &str) -> Vec<String> {
    let mut names = memory.list().unwrap();
    names.retain(|name| name.ends_with(suffix));
    names
}

impl Store {
    /// Segments of four flushes, and a journal; closed or killed.
    fn new(is_closed: bool) -> Store {
        let memory = Memory::new();
        let mut store = Store {
            memory: memory.clone(),
            model: Model::new(),
            history: BTreeMap::new(),
            owner: BTreeMap::new(),
            blocks: Vec::new(),
        };
        for round in 0..ROUNDS {
            let builder = match round {
                1 => builder(&memory).compression(Compression::Zstd { level: 3 }),
                2 => builder(&memory).filter(FilterPolicy::None),
                _ => builder(&memory),
            };
            let db = builder.open().unwrap();
            let keys = store.write(&db, round);
            db.flush().unwrap();
            let file = names(&memory, ".seg").pop().unwrap();
            store.blocks_of(&db, &file);
            for key in keys {
                store.owner.insert(key, file.clone());
            }
            db.close().unwrap();
        }
        let db = builder(&memory).open().unwrap();
        let keys = store.write(&db, ROUNDS);
        let journal = names(&memory, ".journal").pop().unwrap();
        for key in keys {
            store.owner.insert(key, journal.clone());
        }
        if is_closed {
            db.close().unwrap();
        }
        store.memory = memory.crash(Survivors::Everything);
        store
    }

    /// Puts and deletes of a round; returns their keys.
    fn write(&mut self, db: &Db, round: usize) -> BTreeSet<Vec<u8>> {
        let mut keys = BTreeSet::new();
        for n in (round..KEYS).step_by(round + 1) {
            let key = format!("key{n:03}").into_bytes();
            if (n + round).is_multiple_of(7) {
                db.delete_with(&key, Durability::Process).unwrap();
                self.model.remove(&key);
            } else {
                let value = format!("value {n} of round {round} ").repeat(1 + n % 5);
                let value = value.into_bytes();
                db.put_with(&key, &value, Durability::Process).unwrap();
                self.model.insert(key.clone(), value.clone());
                self.history.entry(key.clone()).or_default().insert(value);
            }
            keys.insert(key);
        }
        keys
    }

    fn blocks_of(&mut self, db: &Db, file: &str) {
        let id = file.trim_end_matches(".seg").parse().unwrap();
        for block in db.inspect(id).unwrap().blocks {
            let start = block.offset as usize;
            self.blocks.push(Block {
                file: file.to_owned(),
                range: start..start + block.stored_bytes as usize,
                first_key: block.first_key.to_vec(),
            });
        }
    }

    fn with(&self, name: &str, bytes: Option<Vec<u8>>) -> Memory {
        let image = self.memory.crash(Survivors::Everything);
        match bytes {
            Some(bytes) => image.replace(name, bytes),
            None => image.remove(name).unwrap(),
        }
        image
    }

    /// Whether damage of these bytes of a file can hit the newest entry of a key.
    fn is_hit(&self, key: &[u8], name: &str, damaged: &std::ops::Range<usize>) -> bool {
        if self.owner.get(key).is_none_or(|owner| owner != name) {
            return false;
        }
        let mut blocks = self.blocks.iter().filter(|block| block.file == name);
        // In a journal any.
        let Some(block) = blocks.rfind(|block| *block.first_key <= *key) else {
            return true;
        };
        block.range.start < damaged.end && damaged.start < block.range.end
    }

    /// Repairs and compares: keys that the damage cannot have hit are exactly as they were.
    fn check(&self, image: &Memory, is_hit: impl Fn(&[u8]) -> bool, what: &str) -> Repaired {
        let (repaired, found) = repair(image, what);
        for (key, value) in &found {
            let known = self.history.get(key).is_some_and(|all| all.contains(value));
            assert!(known, "{what}: {key:?} never had that value");
        }
        for key in self.owner.keys().filter(|key| !is_hit(key)) {
            let name = String::from_utf8_lossy(key);
            assert!(found.get(key) == self.model.get(key), "{what}: {name}");
        }
        assert_eq!(repaired.keys, found.len() as u64, "{what}");
        repaired
    }
}

fn source(memory: &Memory) -> Arc<dyn Storage> {
    Arc::new(memory.clone())
}

fn files(memory: &Memory) -> BTreeMap<String, Vec<u8>> {
    let names = memory.list().unwrap();
    let file = |name: String| (name.clone(), memory.bytes_of(&name).unwrap());
    names.into_iter().map(file).collect()
}

/// Repairs into a new store, which is sound, and returns what it holds.
fn repair(image: &Memory, what: &str) -> (Repaired, Model) {
    let before = files(image);
    let target = Memory::new();
    let repaired = builder(&target)
        .repair_from(&source(image), &mut |_| {})
        .unwrap_or_else(|error| panic!("{what}: {error}"));
    assert!(files(image) == before, "{what}: the original was changed");
    let db = builder(&target).open().unwrap();
    let findings = db.verify(&mut |_, _| {}).unwrap().findings;
    assert!(findings.is_empty(), "{what}: {findings:?}");
    let entries = db.iter().map(|entry| entry.unwrap());
    let found = entries.map(|(key, value)| (key.to_vec(), value.to_vec()));
    (repaired, found.collect())
}

#[test]
fn a_sound_store_is_copied_whole() {
    for is_closed in [true, false] {
        let store = Store::new(is_closed);
        let repaired = store.check(&store.memory, |_| false, "sound");
        assert_eq!(repaired.lost, []);
        assert_eq!(repaired.remarks, [""; 0]);
        assert_eq!(repaired.segments, ROUNDS as u64);
        assert!(
            repaired.operations > 10 && repaired.blocks > 20,
            "{repaired:?}"
        );
    }
}

#[test]
fn any_file_can_be_lost() {
    for is_closed in [true, false] {
        let store = Store::new(is_closed);
        for (name, bytes) in files(&store.memory) {
            let mut junk = bytes.clone();
            junk.iter_mut().for_each(|byte| *byte ^= 0x5a);
            let damages = [
                None,
                Some(Vec::new()),
                Some(vec![0; bytes.len()]),
                Some(junk),
            ];
            for (n, damage) in damages.into_iter().enumerate() {
                if name == "LOCK" && n > 0 {
                    continue;
                }
                let image = store.with(&name, damage);
                let what = format!("{name} lost, way {n}, closed: {is_closed}");
                let is_owned = |key: &[u8]| store.owner[key] == name;
                let repaired = store.check(&image, is_owned, &what);
                // An older manifest is not needed, and nothing is in an empty journal.
                let is_needed = name == "CURRENT" || store.owner.values().any(|one| *one == name);
                assert!(!is_needed || !repaired.lost.is_empty(), "{what}");
            }
        }
    }
}

#[test]
fn flipped_bytes_cost_their_block() {
    let store = Store::new(true);
    let mut lost = 0;
    for (name, bytes) in files(&store.memory) {
        let step = if name.ends_with(".seg") { 211 } else { 17 };
        for at in (0..bytes.len()).step_by(step) {
            let mut damaged = bytes.clone();
            damaged[at] ^= 1 << (at % 8);
            let image = store.with(&name, Some(damaged));
            let what = format!("byte {at} of {name}");
            let is_hit = |key: &[u8]| store.is_hit(key, &name, &(at..at + 1));
            lost += store.check(&image, is_hit, &what).lost.len();
        }
    }
    assert!(lost > 100, "{lost}");
}

/// Without index and footer, blocks are found by their trailers.
#[test]
fn cut_and_zeroed_segments_keep_their_intact_blocks() {
    let store = Store::new(false);
    for name in names(&store.memory, ".seg") {
        let bytes = store.memory.bytes_of(&name).unwrap();
        for len in (0..bytes.len()).step_by(331) {
            let image = store.with(&name, Some(bytes[..len].to_vec()));
            let is_hit = |key: &[u8]| store.is_hit(key, &name, &(len..bytes.len()));
            let what = format!("{name} cut to {len}");
            let repaired = store.check(&image, is_hit, &what);
            assert!(repaired.lost.iter().all(|loss| loss.path.ends_with(&name)));
            // A page and the end of the file.
            let mut zeroed = bytes.clone();
            let page = len..bytes.len().min(len + 700);
            zeroed[page.clone()].fill(0);
            let end = bytes.len() - 50;
            zeroed[end..].fill(0);
            let image = store.with(&name, Some(zeroed));
            let is_hit = |key: &[u8]| store.is_hit(key, &name, &page);
            store.check(&image, is_hit, &format!("{name} zeroed from {len}"));
        }
    }
}

/// A sequence of numbers (splitmix64).
struct Random(u64);

impl Random {
    fn below(&mut self, bound: usize) -> usize {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        ((z ^ (z >> 31)) % bound as u64) as usize
    }
}

/// Several damages at once, of any kind: whatever is found was written once.
#[test]
fn random_damage_brings_nothing_that_was_not_written() {
    let store = Store::new(false);
    let all = files(&store.memory);
    let mut random = Random(7);
    for round in 0..150 {
        let image = store.memory.crash(Survivors::Everything);
        for _ in 0..1 + random.below(6) {
            let (name, bytes) = all.iter().nth(random.below(all.len())).unwrap();
            let mut bytes = bytes.clone();
            let at = random.below(bytes.len().max(1));
            match random.below(5) {
                0 => bytes.truncate(at),
                1 => bytes
                    .iter_mut()
                    .skip(at)
                    .take(512)
                    .for_each(|byte| *byte = 0),
                2 => bytes = bytes[at.min(bytes.len())..].to_vec(),
                3 => bytes.extend_from_within(at.min(bytes.len())..),
                _ => bytes
                    .iter_mut()
                    .skip(at)
                    .take(1)
                    .for_each(|byte| *byte ^= 4),
            }
            image.replace(name, bytes);
        }
        store.check(&image, |_| true, &format!("round {round}"));
    }
}

/// With the manifest gone, files that are not needed any more are read too: what they hold is old,
/// and what is newer wins.
#[test]
fn without_a_manifest_the_newest_entries_win() {
    let store = Store::new(true);
    let memory = store.memory.crash(Survivors::Everything);
    let db = builder(&memory).open().unwrap();
    // Held by an iterator, the inputs of the merge stay.
    let mut held = db.iter();
    held.next().unwrap().unwrap();
    db.compact_all().unwrap().wait().unwrap();
    db.put("key001", "the newest").unwrap();
    let image = memory.crash(Survivors::Everything);
    drop(held);
    assert!(names(&image, ".seg").len() > 1);
    for name in image.list().unwrap() {
        if name == "CURRENT" || name.starts_with("MANIFEST") {
            image.remove(&name).unwrap();
        }
    }
    let (repaired, found) = repair(&image, "no manifest");
    assert!(
        repaired
            .remarks
            .iter()
            .any(|remark| remark.contains("deleted")),
        "{:?}",
        repaired.remarks
    );
    for (key, value) in &store.model {
        if key != b"key001" {
            assert_eq!(found.get(key), Some(value));
        }
    }
    assert_eq!(found[&b"key001"[..]], b"the newest");
}

#[test]
fn what_cannot_be_repaired_is_refused_in_words() {
    let refusal = |image: &Memory| {
        let target = Memory::new();
        let error = builder(&target)
            .repair_from(&source(image), &mut |_| {})
            .unwrap_err();
        assert!(target.list().is_err(), "{error}: a new store was begun");
        error
    };
    let error = refusal(&Memory::new());
    assert!(matches!(error, Error::NotAStore { .. }), "{error}");
    let image = Memory::new();
    image.create_dir().unwrap();
    image.replace("notes.txt", "hello");
    let error = refusal(&image);
    assert!(error.to_string().contains("no store is here"), "{error}");
    image.replace("000007.seg", vec![7; 5000]);
    let error = refusal(&image);
    assert!(error.to_string().contains("which store"), "{error}");

    let store = Store::new(true);
    let error = builder(&store.memory)
        .repair_from(&source(&store.memory), &mut |_| {})
        .unwrap_err();
    assert!(error.to_string().contains("holds a store"), "{error}");
    let db = builder(&store.memory).open().unwrap();
    let error = builder(&Memory::new())
        .repair_from(&source(&store.memory), &mut |_| {})
        .unwrap_err();
    assert!(matches!(error, Error::Locked { .. }), "{error}");
    drop(db);
}

#[test]
fn a_store_is_repaired_in_its_place() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("store");
    let db = Db::open(&path).unwrap();
    db.put("key", "value").unwrap();
    db.close().unwrap();
    std::fs::write(path.join("CURRENT"), "nonsense").unwrap();
    assert!(Db::open(&path).is_err());
    let (repaired, kept) = Db::builder(&path).repair_in_place(&mut |_| {}).unwrap();
    assert_eq!((repaired.keys, repaired.lost.len()), (1, 1));
    assert_eq!(kept, directory.path().join("store.damaged-1"));
    assert_eq!(std::fs::read(kept.join("CURRENT")).unwrap(), b"nonsense");
    let db = Db::open(&path).unwrap();
    assert_eq!(db.get("key").unwrap().as_deref(), Some(&b"value"[..]));
    // Held by another handle.
    let error = Db::builder(&path).repair_in_place(&mut |_| {}).unwrap_err();
    assert!(matches!(error, Error::Locked { .. }), "{error}");
    db.close().unwrap();
    let (_, kept) = Db::builder(&path).repair_in_place(&mut |_| {}).unwrap();
    assert_eq!(kept, directory.path().join("store.damaged-2"));
    let other = directory.path().join("other");
    let error = Db::builder(&kept).repair(&path, &mut |_| {}).unwrap_err();
    assert!(error.to_string().contains("is there already"), "{error}");
    let inside = path.join("inside");
    let error = Db::builder(inside).repair(&path, &mut |_| {}).unwrap_err();
    assert!(error.to_string().contains("inside"), "{error}");
    Db::builder(&other).repair(&kept, &mut |_| {}).unwrap();
    let db = Db::open(&other).unwrap();
    assert_eq!(db.get("key").unwrap().as_deref(), Some(&b"value"[..]));
    let mut names: Vec<_> = std::fs::read_dir(directory.path())
        .unwrap()
        .map(|entry| entry.unwrap().file_name())
        .collect();
    names.sort();
    assert_eq!(
        names,
        ["other", "store", "store.damaged-1", "store.damaged-2"]
    );
}

/// What a kill or a cut leaves of the last write is told, as `open` does.
#[test]
fn a_torn_tail_is_remarked() {
    let memory = Memory::new();
    let db = builder(&memory).map_journal(false).open().unwrap();
    for n in 0..20 {
        db.put(format!("key{n:02}"), "value").unwrap();
    }
    let image = memory.crash(Survivors::Everything);
    let (repaired, model) = repair(&image, "whole");
    assert_eq!((repaired.remarks.len(), repaired.lost.len()), (0, 0));
    assert_eq!(model.len(), 20);
    let journal = names(&image, ".journal").pop().unwrap();
    let mut bytes = image.bytes_of(&journal).unwrap();
    bytes.truncate(bytes.len() - 10);
    image.replace(&journal, bytes);
    let (repaired, model) = repair(&image, "cut");
    assert_eq!(model.len(), 19);
    assert_eq!(repaired.remarks.len(), 1, "{:?}", repaired.remarks);
    assert!(
        repaired.remarks[0].contains(&journal),
        "{:?}",
        repaired.remarks
    );
}

/// The link still leads to the store, and the old one lies beside the new one.
#[test]
fn a_store_behind_a_symbolic_link_is_repaired_where_it_is() {
    let directory = tempfile::tempdir().unwrap();
    let real = directory.path().join("real");
    let other = directory.path().join("elsewhere");
    std::fs::create_dir(&real).unwrap();
    std::fs::create_dir(&other).unwrap();
    let (store, link) = (real.join("store"), other.join("link"));
    let db = Db::open(&store).unwrap();
    db.put("key", "value").unwrap();
    db.close().unwrap();
    std::os::unix::fs::symlink(&store, &link).unwrap();
    let (repaired, kept) = Db::builder(&link).repair_in_place(&mut |_| {}).unwrap();
    assert_eq!(repaired.keys, 1);
    assert_eq!(kept.parent(), store.canonicalize().unwrap().parent());
    assert!(link.is_symlink());
    let db = Db::open(&link).unwrap();
    assert_eq!(db.get("key").unwrap().as_deref(), Some(&b"value"[..]));
}
