//! Keyspaces: maps of their own in one store.

use std::sync::Arc;

use criba::sim::Memory;
use criba::storage::{ReadCause, Storage};
use criba::{
    Access, BloomierBits, Builder, Compaction, Db, Error, FilterPolicy, Keyspace, Strategy,
};

fn builder(memory: &Memory) -> Builder {
    Db::builder("keyspaces")
        .storage(Arc::new(memory.clone()))
        .compaction(Compaction::Manual)
        .memtable_bytes(256 << 10)
}

fn open(memory: &Memory) -> Db {
    builder(memory).open().unwrap()
}

fn pairs(keyspace: &Keyspace) -> Vec<(String, String)> {
    let text = |slice: &[u8]| String::from_utf8_lossy(slice).into_owned();
    let entries = keyspace.iter().map(|entry| entry.unwrap());
    entries.map(|(k, v)| (text(&k), text(&v))).collect()
}

fn files(memory: &Memory, end: &str) -> usize {
    let names = memory.list().unwrap();
    names.iter().filter(|name| name.ends_with(end)).count()
}

fn is_dropped<T>(result: Result<T, Error>) -> bool {
    matches!(result, Err(Error::KeyspaceDropped { name }) if name == "users")
}

#[test]
fn each_has_its_own_keys_before_and_after_flush_merge_and_reopen() {
    let memory = Memory::new();
    let mut db = open(&memory);
    for round in 0..4 {
        let (users, events) = (
            db.keyspace("users").unwrap(),
            db.keyspace("events").unwrap(),
        );
        let mut batch = db.batch();
        batch.put("key", format!("default {round}"));
        batch.keyspace(&users).put("key", format!("user {round}"));
        batch
            .keyspace(&events)
            .delete("key")
            .put(format!("{round}"), "event");
        batch.commit().unwrap();
        for _ in 0..2 {
            assert_eq!(
                db.get("key").unwrap().unwrap(),
                format!("default {round}").as_str()
            );
            assert_eq!(pairs(&users), [("key".into(), format!("user {round}"))]);
            assert_eq!(pairs(&events).len(), round + 1);
            assert_eq!(db.len().unwrap(), 1);
            db.flush().unwrap();
        }
        if round == 2 {
            events.compact_all().unwrap().wait().unwrap();
            assert_eq!(events.stats().runs.len(), 1);
            assert_eq!(db.stats().runs.len(), 3, "no other keyspace is merged");
        }
        db.close().unwrap();
        db = open(&memory);
        assert_eq!(db.keyspaces(), ["default", "events", "users"]);
    }
    assert!(db.verify(|_, _| ()).unwrap().findings.is_empty());
}

#[test]
fn a_snapshot_sees_all_keyspaces_at_one_moment() {
    let memory = Memory::new();
    let db = open(&memory);
    let users = db.keyspace("users").unwrap();
    users.put("1", "old").unwrap();
    let before = db.snapshot();
    let late = db.keyspace("late").unwrap();
    let mut batch = late.batch();
    batch.put("1", "new");
    batch.keyspace(&users).put("1", "new");
    batch.commit().unwrap();
    for _ in 0..2 {
        assert_eq!(before.keyspace(&users).get("1").unwrap().unwrap(), "old");
        assert!(before.keyspace(&late).is_empty().unwrap());
        assert_eq!(users.snapshot().get("1").unwrap().unwrap(), "new");
        db.flush().unwrap();
        users.compact_all().unwrap().wait().unwrap();
    }
}

#[test]
fn a_dropped_keyspace_says_so_and_leaves_the_others() {
    let memory = Memory::new();
    let db = open(&memory);
    let users = db.keyspace("users").unwrap();
    for n in 0..100 {
        users.put(format!("{n:03}"), [b'x'; 100]).unwrap();
        db.put(format!("{n:03}"), "kept").unwrap();
    }
    db.flush().unwrap();
    users.put("in memory", "x").unwrap();
    let snapshot = users.snapshot();
    let mut iter = users.iter();
    iter.next().unwrap().unwrap();
    let mut batch = db.batch();
    batch.put("not", "written");
    batch.keyspace(&users).put("1", "x");

    assert!(db.drop_keyspace("users").unwrap());
    assert!(!db.drop_keyspace("users").unwrap(), "it is gone");
    assert!(is_dropped(users.get("000")));
    assert!(is_dropped(users.get_many(["000"])));
    assert!(is_dropped(users.put("000", "")));
    assert!(is_dropped(users.delete("000")));
    assert!(is_dropped(users.take("000")));
    assert!(is_dropped(users.explain("000")));
    assert!(is_dropped(users.iter().next().unwrap()));
    assert!(is_dropped(users.compact_all().and_then(|job| job.wait())));
    assert!(is_dropped(users.rebuild_filters(.., |_, _| ())));
    assert!(is_dropped(snapshot.get("000")));
    assert!(is_dropped(batch.commit()));
    assert!(
        !db.contains_key("not").unwrap(),
        "no part of the batch is there"
    );
    assert_eq!(iter.count(), 100, "an iterator reads on");
    assert_eq!(db.len().unwrap(), 100);
    assert_eq!(db.keyspaces(), ["default"]);

    let again = db.keyspace("users").unwrap();
    assert!(again.is_empty().unwrap());
    again.put("new", "x").unwrap();
    db.close().unwrap();
    let db = open(&memory);
    assert_eq!(
        pairs(&db.keyspace("users").unwrap()),
        [("new".into(), "x".into())]
    );
    assert_eq!(db.len().unwrap(), 100);
}

#[test]
fn files_of_a_dropped_keyspace_go_when_nobody_reads_them() {
    let memory = Memory::new();
    let db = open(&memory);
    let users = db.keyspace("users").unwrap();
    users.put("1", "x").unwrap();
    db.flush().unwrap();
    assert_eq!(files(&memory, ".seg"), 1);
    let reader = users.iter();
    assert!(db.drop_keyspace("users").unwrap());
    assert_eq!(files(&memory, ".seg"), 1);
    assert_eq!(reader.count(), 1);
    // Another thread may drop what the reader held last.
    db.close().unwrap();
    assert_eq!(files(&memory, ".seg"), 0);
}

#[test]
fn small_keyspaces_share_a_file_that_goes_with_the_last_of_them() {
    let memory = Memory::new();
    let db = open(&memory);
    let all: Vec<Keyspace> = (0..50)
        .map(|n| db.keyspace(&format!("tenant {n}")).unwrap())
        .collect();
    let write = |value: &str| {
        let mut batch = db.batch();
        for keyspace in &all {
            batch.keyspace(keyspace).put("key", value);
        }
        batch.commit().unwrap();
    };
    write("1");
    let before = db.stats().syncs;
    db.flush().unwrap();
    assert_eq!(files(&memory, ".seg"), 1, "one file for 50 keyspaces");
    let syncs = db.stats().syncs - before;
    assert!(syncs <= 8, "{syncs} syncs, however many keyspaces");
    for keyspace in &all {
        let reads = db.stats().reads;
        assert_eq!(keyspace.get("key").unwrap().unwrap(), "1");
        let reads = db.stats().reads.since(&reads);
        assert_eq!(reads.get(ReadCause::Data).calls, 1);
    }
    write("2");
    db.flush().unwrap();
    for keyspace in &all {
        assert_eq!(files(&memory, ".seg").min(2), 2, "some of it is still live");
        keyspace.compact_all().unwrap().wait().unwrap();
    }
    db.close().unwrap();
    // Both shared files are gone: each keyspace has a merged one.
    assert_eq!(files(&memory, ".seg"), 50);
    let db = open(&memory);
    assert!(db.stats().recovery.unknown_files.is_empty());
    let last = db.keyspace("tenant 49").unwrap();
    assert_eq!(last.get("key").unwrap().unwrap(), "2");
}

/// One keyspace that is never written again must not keep a file with what the others have left.
#[test]
fn a_file_of_which_little_is_live_is_written_anew() {
    let memory = Memory::new();
    let db = builder(&memory)
        .compaction(Compaction::Background)
        .memtable_bytes(8 << 20)
        .open()
        .unwrap();
    let cold = db.keyspace("cold").unwrap();
    let hot: Vec<Keyspace> = (0..20)
        .map(|n| db.keyspace(&format!("hot {n}")).unwrap())
        .collect();
    cold.put("key", "value").unwrap();
    let used = || -> u64 {
        let names = memory.list().unwrap().into_iter();
        let segments = names.filter(|name| name.ends_with(".seg"));
        segments
            .map(|name| memory.bytes_of(&name).unwrap().len() as u64)
            .sum()
    };
    for round in 0..12 {
        for keyspace in &hot {
            for n in 0..100 {
                let value = vec![b'a' + round; 1000];
                keyspace.put(format!("{n:03}"), value).unwrap();
            }
        }
        db.flush().unwrap();
    }
    for keyspace in &hot {
        keyspace.compact_all().unwrap().wait().unwrap();
    }
    // Live are 2 MB and a few bytes; the file with those had 2 MB more.
    for attempt in 0.. {
        let bytes = used();
        if bytes < 3_500_000 {
            break;
        }
        assert!(attempt < 2000, "{bytes} bytes are in use");
        std::thread::sleep(std::time::Duration::from_millis(5));
    }
    assert_eq!(cold.get("key").unwrap().unwrap(), "value");
    db.close().unwrap();
    let db = open(&memory);
    assert_eq!(db.keyspace("cold").unwrap().len().unwrap(), 1);
    assert!(db.verify(|_, _| ()).unwrap().findings.is_empty());
}

#[test]
fn options_are_those_of_the_keyspace() {
    let memory = Memory::new();
    let db = open(&memory);
    let kind = |keyspace: &Keyspace| {
        let stats = keyspace.stats();
        let filter = stats.segments().next().unwrap().filter.as_ref();
        filter.map(|filter| filter.kind)
    };
    let bloom = |options: criba::KeyspaceOptions| {
        options.filter(FilterPolicy::Bloom { bits_per_key: 10.0 })
    };
    let a = db.keyspace_with("a", bloom).unwrap();
    let b = db
        .keyspace_with("b", |o| o.filter(FilterPolicy::None))
        .unwrap();
    let c = db.keyspace("c").unwrap();
    for keyspace in [&a, &b, &c] {
        keyspace.put("key", "x").unwrap();
    }
    db.flush().unwrap();
    let kinds = [&a, &b, &c].map(kind);
    assert_eq!(kinds, [Some("bloom"), None, Some("bloomier")]);
    // The same options, or none, are fine; others are not.
    db.keyspace_with("a", bloom).unwrap();
    db.keyspace("a").unwrap();
    let slot = FilterPolicy::Bloomier(BloomierBits::Slot);
    let refused = db.keyspace_with("a", |o| o.filter(slot)).unwrap_err();
    assert!(refused.to_string().contains("other options"), "{refused}");
    let refused = db.keyspace_with("d", |o| o.block_bytes(5000)).unwrap_err();
    assert!(refused.to_string().contains("block_bytes"), "{refused}");
    assert!(
        !db.keyspaces().contains(&"d".to_owned()),
        "nothing was made"
    );
}

/// What is to be done with a keyspace is known only once a program has opened it.
#[test]
fn a_keyspace_that_is_not_open_is_neither_merged_nor_dropped_from() {
    let memory = Memory::new();
    let db = open(&memory);
    let users = db.keyspace("users").unwrap();
    for n in 0..20 {
        users.put(format!("{n}"), [b'x'; 10_000]).unwrap();
        db.flush().unwrap();
    }
    db.close().unwrap();
    let fifo = Strategy::Fifo {
        bytes: 64 << 10,
        age: None,
    };
    let db = builder(&memory)
        .compaction(Compaction::Background)
        .strategy(fifo)
        .open()
        .unwrap();
    db.put("1", "x").unwrap();
    db.flush().unwrap();
    assert!(db.stats().compactions.is_settled);
    let leveled = Strategy::Leveled;
    let users = db.keyspace_with("users", |o| o.strategy(leveled)).unwrap();
    assert_eq!(users.len().unwrap(), 20);
    users.compact_all().unwrap().wait().unwrap();
    assert_eq!(users.len().unwrap(), 20);
}

#[test]
fn bad_names_and_foreign_handles_are_refused() {
    let memory = Memory::new();
    let db = open(&memory);
    let long = "n".repeat(256);
    for name in ["", &long] {
        for refused in [
            db.keyspace(name).map(drop),
            db.drop_keyspace(name).map(drop),
        ] {
            let refused = refused.unwrap_err().to_string();
            assert!(refused.contains("choose 1 to 255"), "{refused}");
        }
    }
    db.keyspace(&long[..255]).unwrap();
    db.keyspace("a name\u{0}\n\u{1b}[31m/../..").unwrap();
    let refused = db.drop_keyspace("default").unwrap_err();
    assert!(matches!(refused, Error::Invalid(_)));

    let other = Db::builder("other")
        .storage(Arc::new(Memory::new()))
        .open()
        .unwrap();
    let foreign = other.keyspace("users").unwrap();
    let mut batch = db.batch();
    batch.put("key", "x");
    batch.keyspace(&foreign).put("key", "x");
    assert!(matches!(batch.commit(), Err(Error::Invalid(_))));
    assert!(db.is_empty().unwrap());
    let read = db.snapshot().keyspace(&foreign).get("key");
    assert!(matches!(read, Err(Error::Invalid(_))));
    db.close().unwrap();

    let db = builder(&memory).access(Access::ReadOnly).open().unwrap();
    assert!(matches!(db.keyspace("new"), Err(Error::ReadOnly)));
    assert!(matches!(
        db.drop_keyspace(&long[..255]),
        Err(Error::ReadOnly)
    ));
    assert!(db.keyspace(&long[..255]).unwrap().is_empty().unwrap());
}

#[test]
fn writers_flushes_and_drops_at_the_same_time() {
    let memory = Memory::new();
    let db = builder(&memory)
        .compaction(Compaction::Background)
        .memtable_bytes(64 << 10)
        .open()
        .unwrap();
    let kept = db.keyspace("kept").unwrap();
    std::thread::scope(|scope| {
        scope.spawn(|| {
            for n in 0..3000_u32 {
                kept.put(n.to_le_bytes(), [b'x'; 100]).unwrap();
            }
        });
        scope.spawn(|| {
            for round in 0..20 {
                let users = db.keyspace("users").unwrap();
                for n in 0..100 {
                    let mut batch = db.batch();
                    batch.put(format!("{round} {n}"), "x");
                    batch.keyspace(&users).put(format!("{n}"), [b'x'; 300]);
                    batch.commit().unwrap();
                }
                if round % 3 == 0 {
                    db.flush().unwrap();
                    drop(users.compact_all().unwrap());
                }
                assert!(db.drop_keyspace("users").unwrap());
            }
        });
    });
    db.close().unwrap();
    let db = open(&memory);
    assert_eq!(db.keyspaces(), ["default", "kept"]);
    assert_eq!(db.keyspace("kept").unwrap().len().unwrap(), 3000);
    assert_eq!(db.len().unwrap(), 2000);
    assert!(db.verify(|_, _| ()).unwrap().findings.is_empty());
}

/// With a manifest and without one.
#[test]
fn repair_keeps_keyspaces_apart() {
    let memory = Memory::new();
    let db = open(&memory);
    for name in ["a", "b"] {
        let keyspace = db.keyspace(name).unwrap();
        for n in 0..200 {
            keyspace
                .put(format!("{n:03}"), format!("{name} {n}"))
                .unwrap();
        }
    }
    db.put("in default", "x").unwrap();
    db.flush().unwrap();
    db.keyspace("a").unwrap().put("in journal", "x").unwrap();
    db.keyspace("empty").unwrap();
    db.close().unwrap();
    for has_manifest in [true, false] {
        let image = memory.crash(criba::sim::Survivors::Everything);
        if !has_manifest {
            for name in image.list().unwrap() {
                if name.starts_with("MANIFEST") || name == "CURRENT" {
                    image.remove(&name).unwrap();
                }
            }
        }
        let repaired = Memory::new();
        let source: Arc<dyn Storage> = Arc::new(image);
        let done = builder(&repaired).repair_from(&source, |_| ()).unwrap();
        assert_eq!(done.keys, 402);
        let db = open(&repaired);
        let names = db.keyspaces();
        let expected: &[&str] = match has_manifest {
            true => &["a", "b", "default", "empty"],
            false => &["default", "keyspace-1", "keyspace-2"],
        };
        assert_eq!(names, expected);
        let a = db.keyspace(expected[usize::from(!has_manifest)]).unwrap();
        assert_eq!(a.len().unwrap(), 201);
        assert_eq!(a.get("007").unwrap().unwrap(), "a 7");
        assert_eq!(pairs(&db), [("in default".into(), "x".into())]);
    }
}
