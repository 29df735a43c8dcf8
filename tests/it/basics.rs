//! Each promise of the interface once, with plain data.

use std::ops::Bound;
use std::sync::Arc;

use criba::sim::{Memory, Survivors};
use criba::storage::Storage;
use criba::{
    Access, Create, Db, Durability, Error, FilterPolicy, Io, MAX_KEY_BYTES, MAX_VALUE_BYTES,
};

fn memory() -> (Memory, Db) {
    let memory = Memory::new();
    let db = open(&memory);
    (memory, db)
}

fn open(memory: &Memory) -> Db {
    Db::builder("memory")
        .compaction(criba::Compaction::Manual)
        .storage(Arc::new(memory.clone()))
        .open()
        .unwrap()
}

fn keys(iter: criba::Iter) -> Vec<String> {
    iter.map(|entry| entry.unwrap().0.escape_ascii().to_string())
        .collect()
}

#[test]
fn put_get_delete_and_reopen_on_disk() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("a/new/store");
    for io in [Io::Pread, Io::Mmap] {
        let db = Db::builder(&path)
            .compaction(criba::Compaction::Manual)
            .io(io)
            .open()
            .unwrap();
        db.put("a", "1").unwrap();
        db.put("", "the empty key").unwrap();
        db.put("gone", "x").unwrap();
        db.delete("gone").unwrap();
        db.delete("never there").unwrap();
        db.flush().unwrap();
        db.put("b", "2").unwrap();
        db.close().unwrap();

        let db = Db::builder(&path)
            .compaction(criba::Compaction::Manual)
            .io(io)
            .open()
            .unwrap();
        assert_eq!(db.get("a").unwrap().unwrap(), "1");
        assert_eq!(db.get("b").unwrap().unwrap(), "2");
        assert_eq!(db.get("").unwrap().unwrap(), "the empty key");
        assert!(!db.contains_key("gone").unwrap());
        assert!(db.stats().recovery.clean);
        assert_eq!(keys(db.iter()), ["", "a", "b"]);
    }
}

#[test]
fn limits_are_errors_and_the_edges_work() {
    let (_, db) = memory();
    let longest = vec![7; MAX_KEY_BYTES];
    db.put(&longest, "v").unwrap();
    let too_long = db.put(vec![7; MAX_KEY_BYTES + 1], "v").unwrap_err();
    assert_eq!(
        too_long.to_string(),
        "a key of 65536 bytes; at most 65535 are possible"
    );
    assert!(matches!(
        db.delete(vec![7; MAX_KEY_BYTES + 1]),
        Err(Error::Invalid(_))
    ));
    assert!(matches!(
        db.put("k", vec![0; MAX_VALUE_BYTES + 1]),
        Err(Error::Invalid(_))
    ));
    let mut batch = db.batch();
    batch.put("fine", "x").put(vec![0; MAX_KEY_BYTES + 1], "x");
    assert!(matches!(batch.commit(), Err(Error::Invalid(_))));
    assert!(
        !db.contains_key("fine").unwrap(),
        "nothing of a refused batch is written"
    );
    let big = vec![3; 5 << 20];
    db.put("big", &big).unwrap();
    db.flush().unwrap();
    assert_eq!(db.get("big").unwrap().unwrap(), big);
    assert_eq!(db.get(&longest).unwrap().unwrap(), "v");
    assert_eq!(db.get(vec![7; MAX_KEY_BYTES + 9]).unwrap(), None);
}

#[test]
fn a_batch_is_whole_and_the_last_operation_on_a_key_wins() {
    let (_, db) = memory();
    let mut batch = db.batch();
    batch
        .put("a", "1")
        .delete("a")
        .put("b", "1")
        .put("b", "2")
        .delete("c");
    assert_eq!(batch.len(), 5);
    batch.commit().unwrap();
    db.batch().commit().unwrap();
    for _ in 0..2 {
        assert_eq!(db.get("a").unwrap(), None);
        assert_eq!(db.get("b").unwrap().unwrap(), "2");
        db.flush().unwrap();
    }
}

#[test]
fn ranges_and_prefixes_from_both_ends() {
    let (_, db) = memory();
    for key in ["a", "ab", "abc", "b", "ba", "c"] {
        db.put(key, key).unwrap();
        db.flush().unwrap();
    }
    db.delete("ab").unwrap();
    assert_eq!(keys(db.iter()), ["a", "abc", "b", "ba", "c"]);
    assert_eq!(keys(db.range("a".."b")), ["a", "abc"]);
    assert_eq!(keys(db.range("a"..="b")), ["a", "abc", "b"]);
    assert_eq!(keys(db.range("b"..)), ["b", "ba", "c"]);
    assert_eq!(keys(db.range(.."b")), ["a", "abc"]);
    assert_eq!(keys(db.range("c".."a")), [""; 0]);
    assert_eq!(keys(db.prefix("b")), ["b", "ba"]);
    let mut both = db.range("a".."c");
    assert_eq!(both.next().unwrap().unwrap().0, "a");
    assert_eq!(both.next_back().unwrap().unwrap().0, "ba");
    assert_eq!(both.next().unwrap().unwrap().0, "abc");
    assert_eq!(both.next_back().unwrap().unwrap().0, "b");
    assert!(both.next_back().is_none() && both.next().is_none());
    let backwards: Vec<String> = db
        .iter()
        .rev()
        .map(|entry| entry.unwrap().0.escape_ascii().to_string())
        .collect();
    assert_eq!(backwards, ["c", "ba", "b", "abc", "a"]);
}

#[test]
fn snapshots_and_iterators_never_change() {
    let (_, db) = memory();
    db.put("k", "old").unwrap();
    db.put("gone", "x").unwrap();
    let snapshot = db.snapshot();
    let iter = db.iter();
    db.put("k", "new").unwrap();
    db.delete("gone").unwrap();
    db.put("later", "y").unwrap();
    for _ in 0..2 {
        assert_eq!(snapshot.get("k").unwrap().unwrap(), "old");
        assert!(snapshot.contains_key("gone").unwrap());
        assert!(!snapshot.contains_key("later").unwrap());
        assert_eq!(keys(snapshot.iter()), ["gone", "k"]);
        assert_eq!(db.get("k").unwrap().unwrap(), "new");
        db.flush().unwrap();
    }
    drop(db);
    assert_eq!(keys(iter), ["gone", "k"]);
    assert_eq!(
        std::thread::spawn(move || keys(snapshot.iter()))
            .join()
            .unwrap(),
        ["gone", "k"]
    );
}

#[test]
fn every_level_survives_what_it_promises() {
    for (durability, killed, power_lost) in [
        (Durability::Buffered, false, false),
        (Durability::Process, true, false),
        (Durability::Sync, true, true),
    ] {
        let (memory, db) = memory();
        db.put_with("first", "synced", Durability::Sync).unwrap();
        db.put_with("k", "v", durability).unwrap();
        for (survivors, survives) in [
            (Survivors::Everything, killed),
            (Survivors::Synced, power_lost),
        ] {
            let after = open(&memory.crash(survivors));
            assert!(after.contains_key("first").unwrap());
            assert_eq!(
                after.contains_key("k").unwrap(),
                survives,
                "{durability:?} {survivors:?}"
            );
            assert!(!after.stats().recovery.clean);
        }
    }
    let (memory, db) = memory();
    db.put_with("k", "v", Durability::Buffered).unwrap();
    db.sync().unwrap();
    assert!(
        open(&memory.crash(Survivors::Synced))
            .contains_key("k")
            .unwrap()
    );
}

#[test]
fn sessions_follow_each_other_without_a_flush() {
    let memory = Memory::new();
    for session in 0..30_u32 {
        let db = open(&memory);
        assert_eq!(db.iter().count(), session as usize);
        db.put(session.to_le_bytes(), "v").unwrap();
        db.close().unwrap();
    }
    let journals = memory
        .list()
        .unwrap()
        .iter()
        .filter(|name| name.ends_with(".journal"))
        .count();
    assert!(journals <= 10, "{journals} journals are kept");
}

#[test]
fn a_second_opener_is_refused() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("store");
    let db = Db::open(&path).unwrap();
    let error = Db::open(&path).unwrap_err();
    assert!(matches!(error, Error::Locked { .. }), "{error}");
    let clone = db.clone();
    db.close().unwrap();
    assert!(matches!(clone.get("k"), Err(Error::Closed)));
    assert!(matches!(clone.put("k", "v"), Err(Error::Closed)));
    Db::open(&path).unwrap();
}

/// P12: the directory is locked too, so that nothing depends on a file that can be removed.
#[test]
fn a_removed_lock_file_lets_nobody_in() {
    let directory = tempfile::tempdir().unwrap();
    let db = Db::open(directory.path()).unwrap();
    let lock = directory.path().join("LOCK");
    std::fs::remove_file(&lock).unwrap();
    for _ in 0..2 {
        let second = Db::open(directory.path());
        assert!(matches!(second, Err(Error::Locked { .. })), "{second:?}");
        // Nor one that somebody has put in its place.
        std::fs::write(&lock, b"").unwrap();
    }
    let reader = Db::builder(directory.path())
        .access(Access::ReadOnly)
        .open();
    assert!(matches!(reader, Err(Error::Locked { .. })), "{reader:?}");
    db.put("key", "value").unwrap();
    db.close().unwrap();
    let db = Db::open(directory.path()).unwrap();
    assert_eq!(db.get("key").unwrap().as_deref(), Some(&b"value"[..]));
}

/// P12: readers need no lock file to keep writers and repairs out, and make none.
#[test]
fn a_removed_lock_file_keeps_writers_from_readers() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("store");
    let db = Db::open(&path).unwrap();
    db.put("key", "value").unwrap();
    std::fs::remove_file(path.join("LOCK")).unwrap();
    let beside = Db::builder(directory.path().join("repaired"));
    let refused = beside.repair(&path, &mut |_| {});
    assert!(matches!(refused, Err(Error::Locked { .. })), "{refused:?}");
    db.close().unwrap();

    std::fs::remove_file(path.join("LOCK")).ok();
    let read = || Db::builder(&path).access(Access::ReadOnly).open();
    let (first, second) = (read().unwrap(), read().unwrap());
    assert!(!path.join("LOCK").exists());
    drop(first);
    let writer = Db::open(&path);
    assert!(matches!(writer, Err(Error::Locked { .. })), "{writer:?}");
    assert_eq!(second.get("key").unwrap().as_deref(), Some(&b"value"[..]));
    drop(second);
    Db::open(&path).unwrap();
}

#[test]
fn readers_share_a_store_and_keep_writers_out() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("store");
    let read = || Db::builder(&path).access(Access::ReadOnly).open();
    let db = Db::open(&path).unwrap();
    db.put("k", "v").unwrap();
    assert!(matches!(read(), Err(Error::Locked { .. })));
    db.close().unwrap();
    let (first, second) = (read().unwrap(), read().unwrap());
    assert!(matches!(Db::open(&path), Err(Error::Locked { .. })));
    assert_eq!(first.get("k").unwrap(), second.get("k").unwrap());
    drop((first, second));
    Db::open(&path).unwrap();
}

#[test]
fn what_is_no_store_is_left_alone() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("store");
    let error = Db::builder(&path).create(Create::Never).open().unwrap_err();
    assert!(matches!(error, Error::NotAStore { .. }), "{error}");
    assert!(!path.exists());
    std::fs::write(dir.path().join("letter.txt"), "dear").unwrap();
    let error = Db::open(dir.path()).unwrap_err();
    assert!(
        error.to_string().contains("holds files, but no store"),
        "{error}"
    );
    assert_eq!(
        std::fs::read_dir(dir.path()).unwrap().count(),
        1,
        "nothing was made"
    );
    let error = Db::open(dir.path().join("letter.txt")).unwrap_err();
    assert!(
        error.to_string().contains("a file, not a directory"),
        "{error}"
    );
}

#[test]
fn read_only_never_writes_and_unknown_files_stay() {
    let (memory, db) = memory();
    db.put("k", "v").unwrap();
    drop(db);
    memory.replace("notes.txt", "mine");
    memory.replace("999999.seg", "not ours either");
    let before: Vec<_> = memory.list().unwrap();
    let mutations = memory.mutations();
    let db = Db::builder("memory")
        .compaction(criba::Compaction::Manual)
        .storage(Arc::new(memory.clone()))
        .access(Access::ReadOnly)
        .open()
        .unwrap();
    assert_eq!(db.get("k").unwrap().unwrap(), "v");
    assert!(matches!(db.put("k", "w"), Err(Error::ReadOnly)));
    assert!(matches!(db.sync(), Err(Error::ReadOnly)));
    assert!(matches!(db.flush(), Err(Error::ReadOnly)));
    assert_eq!(
        db.stats().recovery.unknown_files,
        ["999999.seg", "notes.txt"]
    );
    db.close().unwrap();
    assert_eq!(memory.mutations(), mutations);
    let db = open(&memory);
    db.put("k", "w").unwrap();
    db.close().unwrap();
    assert!(
        before
            .iter()
            .all(|name| memory.list().unwrap().contains(name))
    );
}

#[test]
fn nonsense_options_are_named() {
    let refuse = |builder: criba::Builder| builder.open().unwrap_err().to_string();
    let builder = || {
        Db::builder("memory")
            .compaction(criba::Compaction::Manual)
            .storage(Arc::new(Memory::new()))
    };
    assert!(refuse(builder().block_bytes(5000)).contains("4096 or 8192"));
    assert!(refuse(builder().memtable_bytes(1)).contains("memtable_bytes is 1"));
    let policy = FilterPolicy::Bloom { bits_per_key: -1.0 };
    assert!(refuse(builder().filter(policy)).contains("bits"));
}

#[test]
fn explain_tells_the_way_of_a_lookup() {
    let (_, db) = memory();
    for n in 0..1000 {
        db.put(format!("key{n:04}"), "v").unwrap();
    }
    db.flush().unwrap();
    db.put("key0500", "new").unwrap();
    let found = db.explain("key0500").unwrap();
    assert_eq!(found.steps.len(), 1);
    assert_eq!(found.value.clone().unwrap(), "new");
    let found = db.explain("key0501").unwrap();
    assert_eq!((found.steps.len(), found.data_blocks()), (2, 1));
    let text = found.to_string();
    assert!(
        text.contains("filter says block") && text.contains("found, 1 bytes"),
        "{text}"
    );
    let absent = db.explain("key05005").unwrap();
    assert_eq!(absent.value, None);
    assert_eq!(absent.blocks_without_filters, 1);
    let outside = db.explain("zzz").unwrap();
    assert!(outside.to_string().contains("no segment covers the key"));
}

#[test]
fn stats_and_inspect_agree_with_what_was_written() {
    let (_, db) = memory();
    for n in 0..5000 {
        db.put(format!("key{n:05}"), "value").unwrap();
    }
    db.delete("key00000").unwrap();
    db.flush().unwrap();
    db.delete("key00001").unwrap();
    db.flush().unwrap();
    let stats = db.stats();
    let segment = stats.segments().last().unwrap().clone();
    assert_eq!(
        (segment.entries, segment.keys, segment.tombstones),
        (4999, 4999, 0)
    );
    assert_eq!(stats.runs[0].segments[0].tombstones, 1);
    assert_eq!(segment.first_key, "key00001");
    assert_eq!(segment.filter.as_ref().unwrap().kind, "bloomier");
    let inspection = db.inspect(segment.id).unwrap();
    assert_eq!(inspection.blocks.len() as u64, segment.blocks);
    assert_eq!(
        inspection
            .blocks
            .iter()
            .map(|b| u64::from(b.entries))
            .sum::<u64>(),
        4999
    );
    // Each fills a page, but for the last one.
    let (last, others) = inspection.blocks.split_last().unwrap();
    assert!(others.iter().all(|block| block.stored_bytes == 4096));
    assert!(last.offset % 4096 == 0 && last.stored_bytes <= 4096);
    assert!(db.inspect(12345).is_err());
    assert!(stats.to_string().contains("bloomier"));
}

#[test]
fn sync_without_a_write_makes_what_was_recovered_durable() {
    let (memory, db) = memory();
    db.put("first", "session").unwrap();
    let killed = memory.crash(Survivors::Everything);
    let db = open(&killed);
    db.sync().unwrap();
    assert!(
        open(&killed.crash(Survivors::Synced))
            .contains_key("first")
            .unwrap()
    );
}

#[test]
fn the_ends_of_a_queue_are_found_past_everything_deleted() {
    let (_, db) = memory();
    for forward in [true, false] {
        let mut model: std::collections::BTreeSet<String> =
            (0..300).map(|n| format!("{n:05}")).collect();
        model.iter().for_each(|key| db.put(key, "v").unwrap());
        let check = |model: &std::collections::BTreeSet<String>| {
            let first = db.iter().next().map(|entry| entry.unwrap().0.to_vec());
            let last = db.iter().next_back().map(|entry| entry.unwrap().0.to_vec());
            assert_eq!(first.as_deref(), model.first().map(|key| key.as_bytes()));
            assert_eq!(last.as_deref(), model.last().map(|key| key.as_bytes()));
        };
        let old = db.snapshot();
        for popped in 0..300 {
            check(&model);
            let end = if forward { model.first() } else { model.last() };
            let end = end.unwrap().clone();
            db.delete(&end).unwrap();
            model.remove(&end);
            if popped == 150 {
                // Outside, behind, and among what was deleted.
                for late in ["-", "00100x", "00200x", "~"] {
                    db.put(late, "late").unwrap();
                    model.insert(late.into());
                    check(&model);
                    assert_eq!(db.range(late..).next().unwrap().unwrap().0, late);
                    assert!(db.prefix(late).next_back().is_some());
                    db.delete(late).unwrap();
                    model.remove(late);
                    check(&model);
                }
                db.flush().unwrap();
            }
        }
        check(&model);
        assert_eq!(old.iter().count(), 300, "an older moment still sees all");
        assert_eq!(old.iter().rev().count(), 300);
        assert_eq!(old.range("00100".."00110").count(), 10);
    }
}

#[test]
fn a_store_tells_its_ends_and_how_many_entries_it_has() {
    let directory = tempfile::tempdir().unwrap();
    let db = Db::open(directory.path()).unwrap();
    assert!(db.is_empty().unwrap());
    assert_eq!((db.first().unwrap(), db.last().unwrap()), (None, None));
    assert_eq!(db.len().unwrap(), 0);
    let mut batch = db.batch();
    for n in 0..1000_u32 {
        batch.put(format!("{n:04}"), n.to_le_bytes());
    }
    batch.commit().unwrap();
    // The same batch anew.
    assert!(batch.is_empty());
    batch.delete("0000").delete("0999").commit().unwrap();
    let snapshot = db.snapshot();
    db.flush().unwrap();
    db.batch().put("x", "").put("a", "").commit().unwrap();
    let key = |entry: Option<(criba::Slice, criba::Slice)>| entry.unwrap().0;
    assert_eq!(key(db.first().unwrap()), "0001");
    assert_eq!(key(db.last().unwrap()), "x");
    assert_eq!(db.len().unwrap(), 1000);
    assert_eq!(key(snapshot.last().unwrap()), "0998");
    assert_eq!(snapshot.len().unwrap(), 998);
    assert!(!snapshot.is_empty().unwrap());
    let keys: Result<Vec<_>, Error> = db.range("0500".."0503").keys().rev().collect();
    assert_eq!(keys.unwrap(), ["0502", "0501", "0500"]);
}

/// An operation beyond a limit fails the commit and stays in the batch.
#[test]
fn a_batch_that_failed_is_as_it_was() {
    let directory = tempfile::tempdir().unwrap();
    let db = Db::open(directory.path()).unwrap();
    let mut batch = db.batch();
    batch.put("a", "1").put(vec![0; MAX_KEY_BYTES + 1], "");
    for _ in 0..2 {
        assert!(matches!(batch.commit(), Err(Error::Invalid(_))));
        assert_eq!(batch.len(), 1);
    }
    assert!(db.is_empty().unwrap());
}

#[test]
fn ranges_need_no_annotation() {
    let directory = tempfile::tempdir().unwrap();
    let db = Db::open(directory.path()).unwrap();
    for key in ["a", "b", "c", "d"] {
        db.put(key, "").unwrap();
    }
    assert_eq!(db.range(..).count(), 4);
    assert_eq!(db.range("b"..).count(), 3);
    assert_eq!(db.range(.."b").count(), 1);
    assert_eq!(db.range(..="b").count(), 2);
    assert_eq!(db.range(b"a"..=b"c").count(), 3);
    assert_eq!(db.range(vec![b'b']..vec![b'd']).count(), 2);
    let between = (Bound::Excluded("a"), Bound::Included(String::from("c")));
    assert_eq!(db.range(between).count(), 2);
    assert_eq!(db.get_many(["a", "x"]).unwrap().len(), 2);
    assert_eq!(
        db.get_many(vec![String::from("a")]).unwrap()[0].as_deref(),
        Some(&b""[..])
    );
    db.compact(..).unwrap().wait().unwrap();
    assert_eq!(db.approximate_len_in(..), 4);
    db.rebuild_filters("a".., |_, _| {}).unwrap();
    let mut steps = 0;
    db.verify(|_, _| steps += 1).unwrap();
    assert!(steps > 0);
}

#[test]
fn what_is_taken_is_gone_and_one_thread_gets_it() {
    let memory = Memory::new();
    let db = Db::builder("take")
        .storage(Arc::new(memory.clone()))
        .open()
        .unwrap();
    for n in 0..1000_u32 {
        db.put(n.to_le_bytes(), (n ^ 1).to_le_bytes()).unwrap();
        if n == 500 {
            db.flush().unwrap();
        }
    }
    let taken: usize = std::thread::scope(|scope| {
        let takers = [(); 4].map(|()| {
            scope.spawn(|| {
                let take = |n: &u32| match db.take(n.to_le_bytes()).unwrap() {
                    Some(value) => value == (n ^ 1).to_le_bytes(),
                    None => false,
                };
                (0..1000).filter(take).count()
            })
        });
        takers.map(|taker| taker.join().unwrap()).iter().sum()
    });
    assert_eq!(taken, 1000);
    assert!(db.is_empty().unwrap());
    // A key that is not there costs no write.
    let sequence = db.stats().sequence;
    assert_eq!(db.take("nowhere").unwrap(), None);
    assert_eq!(db.stats().sequence, sequence);
    db.put("kept", "long").unwrap();
    db.take("kept").unwrap();
    drop(db);
    let image = memory.crash(Survivors::Everything);
    let db = Db::builder("take").storage(Arc::new(image)).open().unwrap();
    assert_eq!(db.len().unwrap(), 0);
}

#[test]
fn the_size_on_disk_is_that_of_all_files() {
    let memory = Memory::new();
    let db = Db::builder("size")
        .storage(Arc::new(memory.clone()))
        .open()
        .unwrap();
    for n in 0..1000_u32 {
        db.put(n.to_le_bytes(), [1; 100]).unwrap();
    }
    db.flush().unwrap();
    db.put("in the journal", [1; 100]).unwrap();
    let names = memory.list().unwrap();
    let bytes = |name: &String| memory.bytes_of(name).unwrap().len() as u64;
    let files: u64 = names.iter().map(bytes).sum();
    assert_eq!(db.disk_bytes().unwrap(), files);
    assert!(files > 100_000);
}
