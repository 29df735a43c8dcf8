//! Checkpoints: complete stores of one moment.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use criba::sim::{Bounds, CrashState, Memory};
use criba::storage::Storage;
use criba::{Builder, Compaction, Db, Error};

fn builder(memory: &Memory) -> Builder {
    Db::builder("checkpoint")
        .storage(Arc::new(memory.clone()))
        .compaction(Compaction::Manual)
        .memtable_bytes(64 << 10)
}

/// A store with segments, a filter file, keyspaces that share a file, and writes in memory.
fn filled(memory: &Memory) -> Db {
    let none = criba::FilterPolicy::None;
    let db = builder(memory).filter(none).open().unwrap();
    for round in 0..3 {
        for name in ["default", "a", "b"] {
            let keyspace = db.keyspace(name).unwrap();
            for n in 0..50 {
                keyspace.put(format!("{round}/{n:02}"), name).unwrap();
            }
        }
        db.flush().unwrap();
    }
    db.close().unwrap();
    let db = builder(memory).open().unwrap();
    db.rebuild_filters(.., |_, _| ()).unwrap();
    db.keyspace("b").unwrap().put("last", "x").unwrap();
    db
}

fn check(db: &Db, has_last: bool) {
    assert_eq!(db.keyspaces(), ["a", "b", "default"]);
    for name in db.keyspaces() {
        let keyspace = db.keyspace(&name).unwrap();
        let is_last = name == "b" && has_last;
        assert_eq!(keyspace.len().unwrap(), 150 + u64::from(is_last));
        assert_eq!(keyspace.get("2/49").unwrap().unwrap(), name.as_str());
    }
    assert!(db.verify(|_, _| ()).unwrap().findings.is_empty());
}

#[test]
fn a_checkpoint_is_a_store_of_its_own() {
    let (source, target) = (Memory::new(), Memory::new());
    let db = filled(&source);
    let storage: Arc<dyn Storage> = Arc::new(target.clone());
    let made = db.checkpoint_to(&storage).unwrap();
    assert_eq!((made.sequence, made.linked_files), (db.stats().sequence, 0));
    db.put("later", "x").unwrap();
    db.drop_keyspace("a").unwrap();
    db.compact_all().unwrap().wait().unwrap();
    let copy = builder(&target).open().unwrap();
    let recovery = copy.stats().recovery;
    assert!(recovery.clean && recovery.torn.is_empty() && recovery.unknown_files.is_empty());
    check(&copy, true);
    assert!(!copy.contains_key("later").unwrap());
    copy.put("its own", "x").unwrap();
    copy.close().unwrap();
    let copy = builder(&target).open().unwrap();
    assert_eq!(copy.len().unwrap(), 151);
    assert_eq!(copy.stats().sequence, made.sequence + 1);
}

#[test]
fn an_empty_store_has_a_checkpoint() {
    let (source, target) = (Memory::new(), Memory::new());
    let db = builder(&source).open().unwrap();
    let storage: Arc<dyn Storage> = Arc::new(target.clone());
    assert_eq!(db.checkpoint_to(&storage).unwrap().sequence, 0);
    let copy = builder(&target).open().unwrap();
    assert!(copy.is_empty().unwrap());
    copy.put("a", "1").unwrap();
    copy.close().unwrap();
    assert_eq!(builder(&target).open().unwrap().len().unwrap(), 1);
}

/// A thousand times the data, and not a byte copied.
#[test]
fn files_are_shared_by_links_and_stay_when_the_store_lets_go() {
    let dir = tempfile::tempdir().unwrap();
    let db = Db::builder(dir.path().join("data"))
        .compaction(Compaction::Manual)
        .open()
        .unwrap();
    for n in 0..1000 {
        db.put(format!("{n:04}"), [b'x'; 1000]).unwrap();
    }
    db.flush().unwrap();
    let before = db.stats().written_bytes;
    let target = dir.path().join("copies");
    let made = db.checkpoint(&target).unwrap();
    assert_eq!((made.linked_files, made.copied_files), (1, 0));
    assert_eq!(db.stats().written_bytes, before);
    // All of it is rewritten, and the old file goes.
    for n in 0..1000 {
        db.put(format!("{n:04}"), "y").unwrap();
    }
    db.compact_all().unwrap().wait().unwrap();
    db.close().unwrap();
    let copy = Db::open(&target).unwrap();
    assert_eq!(copy.get("0500").unwrap().unwrap(), [b'x'; 1000]);
    assert_eq!(copy.len().unwrap(), 1000);
    let refused = Db::open(dir.path().join("data"))
        .unwrap()
        .checkpoint(&target);
    assert!(matches!(refused, Err(Error::Invalid(_))));
    let left = dir.path().join("next.checkpointing");
    std::fs::create_dir(&left).unwrap();
    let refused = copy.checkpoint(dir.path().join("next")).unwrap_err();
    assert!(refused.to_string().contains("interrupted"), "{refused}");
    let refused = copy.checkpoint(target.join("inside")).unwrap_err();
    assert!(refused.to_string().contains("inside"), "{refused}");
}

/// Each batch writes its number to all keyspaces: a checkpoint has the same in all.
#[test]
fn a_checkpoint_is_of_one_moment_while_writes_go_on() {
    let source = Memory::new();
    let db = builder(&source)
        .compaction(Compaction::Background)
        .open()
        .unwrap();
    let all = ["a", "b", "c"].map(|name| db.keyspace(name).unwrap());
    let is_over = AtomicBool::new(false);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            for n in 0_u64.. {
                if is_over.load(Ordering::Relaxed) {
                    break;
                }
                let mut batch = db.batch();
                for keyspace in &all {
                    let value = [&n.to_le_bytes()[..], &[b'x'; 200]].concat();
                    batch.keyspace(keyspace).put("newest", value);
                    batch
                        .keyspace(keyspace)
                        .put((n % 500).to_le_bytes(), [b'y'; 100]);
                }
                batch.commit().unwrap();
            }
        });
        for _ in 0..20 {
            let before = db.keyspace("a").unwrap().get("newest").unwrap();
            let target = Memory::new();
            let storage: Arc<dyn Storage> = Arc::new(target.clone());
            db.checkpoint_to(&storage).unwrap();
            let copy = builder(&target).open().unwrap();
            let newest = all.each_ref().map(|one| {
                let keyspace = copy.keyspace(one.name()).unwrap();
                keyspace.get("newest").unwrap()
            });
            assert!(newest[0] == newest[1] && newest[1] == newest[2]);
            let number = |value: &[u8]| u64::from_le_bytes(value[..8].try_into().unwrap());
            let number_of = |value: &Option<criba::Slice>| value.as_deref().map(number);
            assert!(
                number_of(&newest[0]) >= number_of(&before),
                "what was there before"
            );
        }
        is_over.store(true, Ordering::Relaxed);
    });
}

/// At every call, a crash leaves a whole store or none, and the source as it was.
#[test]
fn a_crash_leaves_a_whole_checkpoint_or_none() {
    let (source, target) = (Memory::new(), Memory::new());
    let db = filled(&source);
    target.record();
    let storage: Arc<dyn Storage> = Arc::new(target.clone());
    db.checkpoint_to(&storage).unwrap();
    let history = target.history().unwrap();
    let (mut whole, mut none) = (0, 0);
    for calls in 0..=history.len() {
        let mut seen = std::collections::BTreeSet::new();
        let mut check_state = |state: &CrashState| {
            let image = state.image();
            match builder(&image).create(criba::Create::Never).open() {
                Ok(copy) => {
                    check(&copy, true);
                    whole += 1;
                }
                Err(Error::NotAStore { .. } | Error::Missing { .. }) => none += 1,
                Err(error) => panic!("after {calls} calls: {error}; {}", state.describe()),
            }
        };
        let bounds = Bounds {
            of_file: 4,
            names_in_any_combination: 2,
            of_names: 12,
        };
        for state in history.states(calls, &bounds) {
            if seen.insert(state.fingerprint()) {
                check_state(&state);
            }
        }
    }
    assert!(whole > 0 && none > 0, "{whole} whole, {none} none");
    check(&db, true);
}
