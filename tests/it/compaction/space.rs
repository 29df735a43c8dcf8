//! What is overwritten or deleted goes, a queue stays fast, and a FIFO stays small.

use criba::storage::Storage as _;
use criba::{Compaction, Db, Strategy};

use super::{
    LIMIT, Model, check_contents, check_files, check_shape, entries, fill, key, rig, settle, small,
};
use crate::faults::within;

const MERGING: [Strategy; 3] = [Strategy::Leveled, Strategy::Tiered, Strategy::LazyLeveled];

fn tombstones(db: &Db) -> u64 {
    db.stats().segments().map(|one| one.tombstones).sum()
}

fn file_bytes(db: &Db) -> u64 {
    db.stats().segments().map(|one| one.file_bytes).sum()
}

fn compact_all(db: &Db) {
    db.compact_all().unwrap().wait().unwrap();
}

#[test]
fn overwritten_and_deleted_entries_go() {
    for strategy in MERGING {
        let rig = rig();
        let db = small(&rig).strategy(strategy).open().unwrap();
        for round in 0..5 {
            fill(&db, 0..3000, round);
        }
        for n in (0..3000).step_by(3) {
            db.delete(key(n)).unwrap();
        }
        compact_all(&db);
        settle(&db);
        assert_eq!((entries(&db), tombstones(&db)), (2000, 0), "{strategy:?}");

        let snapshot = db.snapshot();
        fill(&db, 0..3000, 9);
        for n in (0..3000).step_by(2) {
            db.delete(key(n)).unwrap();
        }
        compact_all(&db);
        // 2000 versions that the snapshot sees, 1500 values and 1500 tombstones: one may hide
        // something from readers newer than the snapshot, for all that is known when it is met.
        assert_eq!(
            (entries(&db), tombstones(&db)),
            (5000, 1500),
            "{strategy:?}"
        );
        assert_eq!(snapshot.iter().count(), 2000);
        drop(snapshot);
        compact_all(&db);
        assert_eq!((entries(&db), tombstones(&db)), (1500, 0), "{strategy:?}");
        settle(&db);
        check_files(&rig.memory, &db, "after versions went");
        for n in 0..3000 {
            db.delete(key(n)).unwrap();
        }
        compact_all(&db);
        assert_eq!(
            (entries(&db), db.stats().runs.len()),
            (0, 0),
            "{strategy:?}"
        );
        check_files(&rig.memory, &db, "an empty tree");
    }
}

/// Without being asked, compactions keep the space of obsolete entries bounded.
#[test]
fn overwriting_for_ever_takes_bounded_space() {
    for (strategy, most) in [
        (Strategy::Leveled, 2.2),
        (Strategy::LazyLeveled, 4.0),
        (Strategy::Tiered, 6.0),
    ] {
        let rig = rig();
        let db = small(&rig).strategy(strategy).open().unwrap();
        let load = |round: u8| fill(&db, (0..8000).map(|n| n * 7919 % 8000), round);
        load(0);
        compact_all(&db);
        let live = file_bytes(&db) as f64;
        for round in 1..8 {
            load(round);
            settle(&db);
            check_shape(&db, strategy, "overwriting");
            let amplification = file_bytes(&db) as f64 / live;
            assert!(amplification < most, "{strategy:?}: {amplification}");
        }
    }
}

/// Put at one end, delete at the other: what a pop reads does not grow.
#[test]
fn a_queue_does_not_slow_down() {
    within(LIMIT, "a queue", || {
        const OPERATIONS: u64 = 200_000;
        const LENGTH: u64 = 500;
        let rig = rig();
        let db = small(&rig).open().unwrap();
        let blocks = || {
            let cache = db.stats().block_cache;
            cache.hits + cache.misses
        };
        let mut costs = Vec::new();
        let mut most_bytes = 0;
        let (mut head, mut before) = (0, blocks());
        for tail in 0..OPERATIONS / 2 {
            db.put(key(tail), [1; 100]).unwrap();
            if tail - head >= LENGTH {
                let first = db.iter().next().unwrap().unwrap().0;
                assert_eq!(first, key(head));
                db.delete(key(head)).unwrap();
                head += 1;
            }
            if (tail + 1).is_multiple_of(OPERATIONS / 20) {
                let now = blocks();
                costs.push((now - before) as f64 / (OPERATIONS / 20) as f64);
                before = now;
                most_bytes = most_bytes.max(file_bytes(&db));
            }
        }
        // The first tenth fills the queue; noise of the background is allowed for.
        let (early, late) = (costs[1].max(costs[2]), costs[8].min(costs[9]));
        assert!(
            late <= early * 2.0 + 2.0,
            "data blocks for each pop: {costs:?}"
        );
        assert!(costs.iter().all(|blocks| *blocks < 60.0), "{costs:?}");
        assert!(
            most_bytes < 3 << 20,
            "{most_bytes} bytes for {LENGTH} entries"
        );
        settle(&db);
        assert_eq!(db.iter().count() as u64, LENGTH);
        compact_all(&db);
        assert_eq!(entries(&db), LENGTH);
    });
}

#[test]
fn a_fifo_keeps_the_newest_and_stays_small() {
    within(LIMIT, "a fifo", || {
        const BYTES: u64 = 1 << 20;
        let rig = rig();
        let db = small(&rig)
            .strategy(Strategy::Fifo {
                bytes: BYTES,
                age: None,
            })
            .open()
            .unwrap();
        let early = db.snapshot();
        let reader = {
            let db = db.clone();
            std::thread::spawn(move || {
                let mut rounds = 0;
                while db.stats().sequence < 60_000 {
                    assert!(db.iter().all(|entry| entry.is_ok()));
                    assert!(db.get(key(rounds % 60_000)).is_ok());
                    rounds += 97;
                }
            })
        };
        fill(&db, 0..20_000, 1);
        let iter = db.iter();
        let held = db.iter().count();
        fill(&db, 20_000..60_000, 1);
        reader.join().unwrap();
        settle(&db);
        let bytes = file_bytes(&db);
        assert!((BYTES / 2..=BYTES).contains(&bytes), "{bytes}");
        assert_eq!(db.stats().compactions.merges, 0);
        // What is left is the newest, without a gap.
        let left: Vec<_> = db.iter().map(|entry| entry.unwrap().0.to_vec()).collect();
        let first = 60_000 - left.len() as u64;
        assert!(left.into_iter().eq((first..60_000).map(key)));
        // An iterator reads on in files that are gone.
        assert_eq!(super::collect(iter).len(), held);
        assert_eq!(early.iter().count(), 0);
        check_files(&rig.memory, &db, "a fifo");
        drop(early);
        db.close().unwrap();
        let db = small(&rig).compaction(Compaction::Manual).open().unwrap();
        assert_eq!(db.iter().count() as u64, 60_000 - first);
    });
}

/// On real files: what iterators and snapshots hold is read to the end after it was compacted.
#[test]
fn readers_outlive_compactions_on_disk() {
    for io in [criba::Io::Pread, criba::Io::Mmap] {
        let dir = tempfile::tempdir().unwrap();
        let disk = criba::storage::Disk::new(dir.path().join("store"), io);
        let db = Db::builder(dir.path().join("store"))
            .io(io)
            .memtable_bytes(64 << 10)
            .segment_bytes(64 << 10)
            .level_base_bytes(64 << 10)
            .level0_runs(2)
            .level_ratio(3)
            .compaction_threads(2)
            .cache_bytes(0)
            .open()
            .unwrap();
        fill(&db, 0..3000, 1);
        let model: Model = (0..3000).map(|n| (key(n), vec![1; 100])).collect();
        let (mut iter, snapshot) = (db.iter(), db.snapshot());
        assert!(iter.next().unwrap().is_ok());
        for round in 2..5 {
            fill(&db, 0..3000, round);
        }
        settle(&db);
        compact_all(&db);
        assert_eq!(super::collect(iter).len(), 2999);
        assert_eq!(super::collect(snapshot.iter()), model);
        drop(snapshot);
        compact_all(&db);
        settle(&db);
        assert_eq!(entries(&db), 3000);
        check_contents(
            &db,
            &(0..3000).map(|n| (key(n), vec![4; 100])).collect(),
            "on disk",
        );
        check_files(&disk, &db, "on disk");

        // What nobody holds any more is gone when the store is closed.
        compact_all(&db);
        let segments = || -> Vec<String> {
            let mut names = disk.list().unwrap();
            names.retain(|name| name.ends_with(".seg"));
            names
        };
        let before = segments();
        let iter = db.iter();
        fill(&db, 0..3000, 5);
        compact_all(&db);
        assert!(before.iter().all(|name| segments().contains(name)));
        drop(iter);
        db.close().unwrap();
        assert!(before.iter().all(|name| !segments().contains(name)));
    }
}
