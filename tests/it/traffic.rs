//! Counters of lookups survive a reopen, and filters follow them.

use std::sync::Arc;

use criba::sim::{Memory, Survivors};
use criba::{Access, Compaction, Db, FilterPolicy, FilterStats, SegmentStats};

fn open(memory: &Memory) -> Db {
    open_as(memory, Access::ReadWrite)
}

fn open_as(memory: &Memory, access: Access) -> Db {
    Db::builder("traffic")
        .compaction(Compaction::Manual)
        .filter(FilterPolicy::Budget { bits_per_key: 6.0 })
        .cache_bytes(0)
        .access(access)
        .storage(Arc::new(memory.clone()))
        .open()
        .unwrap()
}

fn segments(db: &Db) -> Vec<SegmentStats> {
    db.stats().segments().cloned().collect()
}

/// What was counted, of each segment.
fn counts(db: &Db) -> Vec<[u64; 7]> {
    let of = |segment: SegmentStats| {
        let filter = segment.filter.unwrap();
        let outcomes = [
            filter.negatives,
            filter.true_positives,
            filter.false_positives,
        ];
        assert_eq!(outcomes.iter().sum::<u64>(), filter.probes);
        let [negatives, hits, wasted] = outcomes;
        [
            segment.id,
            filter.probes,
            negatives,
            hits,
            wasted,
            segment.block_reads,
            segment.block_bytes,
        ]
    };
    let mut all: Vec<_> = segments(db).into_iter().map(of).collect();
    all.sort_unstable();
    all
}

fn key(n: u64) -> String {
    format!("{n:06}")
}

/// Two runs over the same range: even keys in the older one, odd ones in the newer.
fn fill(db: &Db) {
    for odd in 0..2 {
        for n in (0..4000).filter(|n| n % 2 == odd) {
            db.put(key(n), [1; 30]).unwrap();
        }
        db.flush().unwrap();
    }
}

fn look_up(db: &Db) {
    for n in 0..1000 {
        assert!(db.contains_key(key(n)).unwrap());
        assert!(!db.contains_key(format!("{n:06}x")).unwrap());
    }
}

#[test]
fn counters_go_on_after_a_reopen() {
    let memory = Memory::new();
    let db = open(&memory);
    fill(&db);
    look_up(&db);
    let first = counts(&db);
    // The older run is asked for all but the odd keys, which the newer one has.
    let [older, newer] = first.as_slice() else {
        panic!("{first:?}")
    };
    assert_eq!((older[1], older[3]), (1500, 500));
    // Two lookups lie before its first key.
    assert_eq!((newer[1], newer[3]), (1998, 500));
    assert_eq!(older[5], 500 + older[4]);
    assert_eq!(older[6], older[5] * 4096);
    db.close().unwrap();

    // A session that writes nothing keeps what it counted as well, and the clean close.
    let db = open(&memory);
    assert!(db.stats().recovery.clean);
    assert_eq!(counts(&db), first);
    look_up(&db);
    let second = counts(&db);
    assert_eq!(second[0][1], 2 * first[0][1]);
    db.close().unwrap();

    // One that only reads keeps nothing.
    let db = open_as(&memory, Access::ReadOnly);
    assert!(db.stats().recovery.clean);
    assert_eq!(counts(&db), second);
    look_up(&db);
    db.close().unwrap();

    let db = open(&memory);
    assert_eq!(counts(&db), second);
    let rate = |filter: &FilterStats| filter.measured_rate().unwrap();
    let measured: Vec<f64> = segments(&db)
        .iter()
        .filter_map(|segment| segment.filter.as_ref().map(rate))
        .collect();
    assert!(measured.iter().all(|rate| *rate < 0.2), "{measured:?}");
    // What comes of a merge begins at zero.
    db.compact_all().unwrap().wait().unwrap();
    assert!(counts(&db).iter().all(|counts| counts[1..] == [0; 6]));
    db.close().unwrap();
}

#[test]
fn a_session_without_lookups_changes_no_file() {
    let memory = Memory::new();
    let db = open(&memory);
    fill(&db);
    look_up(&db);
    db.close().unwrap();
    let files = |memory: &Memory| {
        let names = criba::storage::Storage::list(memory).unwrap();
        let bytes = names.iter().map(|name| memory.bytes_of(name).unwrap());
        names.iter().cloned().zip(bytes).collect::<Vec<_>>()
    };
    let before = files(&memory);
    open(&memory).close().unwrap();
    assert_eq!(files(&memory), before);
}

/// After a kill there is what the last edit had.
#[test]
fn a_kill_loses_what_was_counted_since_the_last_edit() {
    let memory = Memory::new();
    let db = open(&memory);
    fill(&db);
    look_up(&db);
    let counted = counts(&db);
    db.put("zzz", "so that there is something to flush")
        .unwrap();
    db.flush().unwrap();
    look_up(&db);
    let crashed = memory.crash(Survivors::Everything);
    let db = open(&crashed);
    assert_eq!(counts(&db)[..2], counted);
    assert!(!db.stats().recovery.clean);
    look_up(&db);
    let counted = counts(&db);
    db.close().unwrap();
    assert_eq!(counts(&open(&crashed)), counted);
}

/// Keys of two parts of the key space: `a` is looked up in vain all the time, `b` never. When
/// both are merged anew, `a` has earned bits and `b` has given some back.
#[test]
fn a_run_that_is_asked_in_vain_earns_bits() {
    let memory = Memory::new();
    let fill = |db: &Db, part: &str| {
        for n in 0..3000 {
            db.put(format!("{part}{n:06}"), [1; 30]).unwrap();
        }
        db.flush().unwrap();
    };
    let db = open(&memory);
    for part in ["a", "b", "a", "b"] {
        fill(&db, part);
    }
    let merge = |db: &Db, part: &str| {
        let end = format!("{part}~");
        db.compact(part..&*end).unwrap().wait().unwrap();
    };
    merge(&db, "a");
    merge(&db, "b");
    for n in 0..50_000 {
        let key = format!("a{:06}x", n % 3000);
        assert!(!db.contains_key(key).unwrap());
    }
    // Over a reopen, so that it is the kept counters that count.
    db.close().unwrap();
    let db = open(&memory);
    for part in ["a", "b"] {
        db.put(format!("{part}000000"), "new").unwrap();
        db.flush().unwrap();
        merge(&db, part);
    }
    let mut after: Vec<(String, f64)> = segments(&db)
        .iter()
        .map(|one| {
            let bits = one.filter.as_ref().map_or(0.0, |filter| filter.r_bits);
            (String::from_utf8_lossy(&one.first_key)[..1].into(), bits)
        })
        .collect();
    after.sort_by(|left, right| left.0.cmp(&right.0));
    assert_eq!(after.len(), 2, "{after:?}");
    assert!(after[0].1 >= after[1].1 + 2.0, "{after:?}");
}

/// What lookups cost in blocks, since `open` for hits and absent keys, and in all sessions.
#[test]
fn reads_for_each_lookup_are_counted() {
    let memory = Memory::new();
    let db = open(&memory);
    assert_eq!(db.stats().read_amplification(), None);
    assert_eq!(db.stats().space_amplification(), None);
    fill(&db);
    for n in 0..2000 {
        assert!(db.get(key(n)).unwrap().is_some());
        assert!(db.get(format!("{n:06}x")).unwrap().is_none());
    }
    let stats = db.stats();
    let lookups = stats.lookups;
    let reads = stats.segments().map(|one| one.block_reads).sum::<u64>();
    assert!(lookups.hit_block_reads >= 2000, "{lookups:?}");
    assert_eq!(lookups.hit_block_reads + lookups.absent_block_reads, reads);
    let bytes = stats.segments().map(|one| one.block_bytes).sum::<u64>();
    assert_eq!(lookups.hit_block_bytes + lookups.absent_block_bytes, bytes);
    assert_eq!(
        lookups.reads_per_hit(),
        Some(lookups.hit_block_reads as f64 / 2000.0)
    );
    assert_eq!(
        lookups.reads_per_absent(),
        Some(lookups.absent_block_reads as f64 / 2000.0)
    );
    let of_all = stats.read_amplification().unwrap();
    assert!((of_all - reads as f64 / 4000.0).abs() < 1e-9, "{of_all}");
    db.close().unwrap();
    let stats = open(&memory).stats();
    assert_eq!(stats.lookups.reads_per_hit(), None);
    assert!((stats.read_amplification().unwrap() - of_all).abs() < 1e-9);
}

#[test]
fn space_is_what_files_take_for_what_is_live() {
    let memory = Memory::new();
    let db = open(&memory);
    let value = [7; 94];
    let put = |db: &Db| (0..4000).for_each(|n| db.put(key(n), value).unwrap());
    put(&db);
    db.flush().unwrap();
    let once = db.stats();
    let bytes = once.runs[0].file_bytes();
    assert_eq!(
        (once.runs[0].live_keys, once.runs[0].live_bytes),
        (4000, bytes)
    );
    assert_eq!(once.space_amplification(), Some(1.0));
    put(&db);
    db.flush().unwrap();
    let twice = db.stats();
    assert_eq!(twice.runs[0].live_keys, 4000);
    assert!(
        twice.runs[1].live_keys < 10,
        "{:?}",
        twice.runs[1].live_keys
    );
    let now = twice.space_amplification().unwrap();
    assert!((now - 2.0).abs() < 0.01, "{now}");
    (0..4000)
        .step_by(2)
        .for_each(|n| db.delete(key(n)).unwrap());
    db.flush().unwrap();
    let live: u64 = db.stats().runs.iter().map(|run| run.live_bytes).sum();
    assert!(live.abs_diff(bytes / 2) < bytes / 60, "{live} of {bytes}");
    db.compact_all().unwrap().wait().unwrap();
    let merged = db.stats();
    assert_eq!(merged.runs[0].live_keys, 2000);
    assert_eq!(merged.space_amplification(), Some(1.0));
}
