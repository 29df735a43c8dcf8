//! Crashes and failures at every call while the tree is being compacted.

use std::io::ErrorKind;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, UNIX_EPOCH};

use criba::sim::{Memory, Survivors};
use criba::{Builder, Db, Durability, Error, EventKind, FilterPolicy, Strategy};

use super::{
    LIMIT, Model, Rng, check_contents, check_files, check_runs, collect, fill, is_compaction, key,
    put, rig, settle, small, wait_until,
};
use crate::faults::{Call, Rig, within};

const SURVIVORS: [Survivors; 3] = [Survivors::Everything, Survivors::Synced, Survivors::Ordered];

/// Batch `n` from 1 on sets one of 50 keys and its own number, and deletes a key now and then.
fn write(db: &Db, n: u64, durability: Durability) -> criba::Result<()> {
    let mut batch = db.batch();
    for (key, value) in operations(n) {
        match value {
            Some(value) => batch.put(key, value),
            None => batch.delete(key),
        };
    }
    batch.commit_with(durability)
}

fn operations(n: u64) -> Vec<(Vec<u8>, Option<Vec<u8>>)> {
    let mut all = vec![
        (b"last".to_vec(), Some(n.to_le_bytes().to_vec())),
        (key(n * 7 % 50), Some(vec![n as u8; 2000])),
    ];
    if n.is_multiple_of(3) {
        all.push((key(n * 11 % 50), None));
    }
    all
}

fn state(count: u64) -> Model {
    let mut model = Model::new();
    for n in 1..=count {
        for (key, value) in operations(n) {
            match value {
                Some(value) => model.insert(key, value),
                None => model.remove(&key),
            };
        }
    }
    model
}

fn build(storage: &Rig, strategy: Strategy) -> Builder {
    small(storage)
        .strategy(strategy)
        .filter(FilterPolicy::Budget { bits_per_key: 10.0 })
}

/// Opens what a crash left: one of the allowed states, and a store that works.
fn check_image(image: Memory, strategy: Strategy, (least, most): (u64, u64), what: &str) {
    let rig = Rig::new(image);
    let db = build(&rig, strategy)
        .open()
        .unwrap_or_else(|error| panic!("{what}: {error}"));
    let found = collect(db.iter());
    let last = found.get(&b"last"[..]);
    let n = last.map_or(0, |last| u64::from_le_bytes(last[..].try_into().unwrap()));
    assert!(
        (least..=most).contains(&n),
        "{what}: {n} of {least} to {most}"
    );
    let expected = state(n);
    assert!(found == expected, "{what}: not the state after {n}");
    check_contents(&db, &expected, what);
    assert_eq!(db.stats().recovery.unknown_files, [""; 0], "{what}");
    settle(&db);
    check_runs(&db, what);
    check_contents(&db, &expected, what);
    db.put("after", "wards").unwrap();
    db.flush().unwrap();
    check_files(&rig.memory, &db, what);
    db.close().unwrap();
}

/// What a crash leaves, the batches that it may hold at least and at most, and its story.
type Image = (Memory, (u64, u64), String);

/// An image of each call of a compaction, and of some others.
fn crash_everywhere(strategy: Strategy) {
    let rig = rig();
    let promise = Arc::new((AtomicU64::new(0), AtomicU64::new(0)));
    let images: Arc<Mutex<Vec<Image>>> = Arc::default();
    {
        let (images, promise) = (Arc::clone(&images), Arc::clone(&promise));
        let (memory, calls) = (rig.memory.clone(), AtomicU64::new(0));
        rig.set(move |call, name| {
            let n = calls.fetch_add(1, Ordering::SeqCst);
            let survivors = SURVIVORS[n as usize % 3];
            if !is_compaction() && call != Call::Remove {
                return Ok(());
            }
            let (attempted, synced) = &*promise;
            let synced = synced.load(Ordering::SeqCst);
            let image = memory.crash(survivors);
            let bounds = (synced, attempted.load(Ordering::SeqCst));
            let what = format!("{strategy:?}, {survivors:?} before {call:?} {name}, call {n}");
            images.lock().unwrap().push((image, bounds, what));
            Ok(())
        });
    }
    let mut checked = 0;
    let mut check = || {
        for (image, bounds, what) in std::mem::take(&mut *images.lock().unwrap()) {
            check_image(image, strategy, bounds, &what);
            checked += 1;
        }
    };
    let db = build(&rig, strategy).open().unwrap();
    for n in 1..=500 {
        promise.0.store(n, Ordering::SeqCst);
        let durability = [Durability::Process, Durability::Sync][(n % 2) as usize];
        write(&db, n, durability).unwrap();
        if durability == Durability::Sync {
            promise.1.store(n, Ordering::SeqCst);
        }
        if n.is_multiple_of(50) {
            settle(&db);
            check();
        }
    }
    db.compact_all().unwrap().wait().unwrap();
    db.close().unwrap();
    rig.heal();
    check();
    assert!(checked > 60, "{strategy:?}: {checked} images");
}

#[test]
fn a_crash_at_every_call_of_a_compaction_loses_nothing() {
    for strategy in [Strategy::Leveled, Strategy::Tiered, Strategy::LazyLeveled] {
        within(LIMIT, format!("crashes, {strategy:?}"), move || {
            crash_everywhere(strategy);
        });
    }
}

/// Calls of compacting threads fail from the n-th on, or only the n-th.
fn fail_everywhere(kind: ErrorKind, once: bool) {
    for n in 1.. {
        let rig = rig();
        let calls = Arc::new(AtomicU64::new(0));
        {
            let calls = Arc::clone(&calls);
            rig.set(move |_, _| {
                if !is_compaction() {
                    return Ok(());
                }
                let call = calls.fetch_add(1, Ordering::SeqCst) + 1;
                if call == n || (call > n && !once) {
                    return Err(kind.into());
                }
                Ok(())
            });
        }
        let what = format!("{kind:?} at call {n} of compactions, once: {once}");
        let db = build(&rig, Strategy::Leveled).open().unwrap();
        let (mut done, mut failure) = (0, None);
        let was_hit = || calls.load(Ordering::SeqCst) >= n;
        for batch in 1..=150 {
            // However busy the machine is: all that comes at once is merged at once, in few calls.
            if batch % 30 == 0 {
                wait_until("compactions rest or fail", || {
                    was_hit() || db.stats().compactions.is_settled
                });
            }
            match write(&db, batch, Durability::Process) {
                Ok(()) => done = batch,
                Err(error) => {
                    failure = Some(error);
                    break;
                }
            }
        }
        let refused = matches!(
            failure,
            None | Some(Error::Poisoned { .. } | Error::Stalled { .. })
        );
        assert!(refused, "{what}: {failure:?}");
        let asked = db.compact_all().and_then(|job| job.wait());
        let attempted = done + u64::from(failure.is_some());
        check_contents(&db, &state(done), &what);
        if was_hit() && asked.is_err() {
            let failed = |event: &criba::Event| matches!(event.what, EventKind::Failed { .. });
            // Who is refused because of it may know before it is told.
            wait_until(&what, || db.stats().events.iter().any(failed));
        }
        drop(db);
        rig.heal();
        for survivors in [Survivors::Everything, Survivors::Ordered] {
            let least = if survivors == Survivors::Everything {
                done
            } else {
                0
            };
            let image = rig.memory.crash(survivors);
            check_image(image, Strategy::Leveled, (least, attempted), &what);
        }
        if !was_hit() {
            assert!(
                n > 15 && failure.is_none() && asked.is_ok(),
                "{what}: {asked:?}"
            );
            break;
        }
    }
}

#[test]
fn a_failure_at_every_call_of_a_compaction_loses_nothing() {
    within(LIMIT, "failing once", || {
        fail_everywhere(ErrorKind::Other, true)
    });
    within(LIMIT, "failing for good", || {
        fail_everywhere(ErrorKind::StorageFull, false);
    });
}

#[test]
fn a_full_disk_stops_compactions_until_there_is_room() {
    within(LIMIT, "a full disk", || {
        let rig = rig();
        let db = small(&rig).open().unwrap();
        rig.set(|call, name| {
            if call == Call::Append && name.ends_with(".seg") && is_compaction() {
                return Err(ErrorKind::StorageFull.into());
            }
            Ok(())
        });
        // Writers go on until the debt is too large, and are then told.
        let mut written = 0;
        let error = loop {
            match db.put(key(written % 9000), [1; 100]) {
                Ok(()) => written += 1,
                Err(error) => break error,
            }
        };
        assert!(matches!(error, Error::Stalled { .. }), "{error}");
        assert!(error.is_disk_full(), "{error}");
        assert!(written > 9000);
        let asked = db.compact_all().unwrap().wait().unwrap_err();
        assert!(asked.is_disk_full(), "{asked}");
        assert_eq!(db.iter().count(), 9000, "reads go on");
        check_files(&rig.memory, &db, "while the disk is full");
        assert_eq!(db.stats().compactions.merges, 0);
        rig.heal();
        settle(&db);
        fill(&db, 0..9000, 2);
        settle(&db);
        let model: Model = (0..9000).map(|n| (key(n), vec![2; 100])).collect();
        check_contents(&db, &model, "after a full disk");
        check_files(&rig.memory, &db, "after a full disk");
    });
}

/// Bug: the thread that met the damage waited for its own lock, and whoever closed the store
/// waited for the thread.
#[test]
fn a_damaged_input_refuses_writes_and_loses_nothing() {
    within(LIMIT, "a damaged input", || {
        let rig = rig();
        let db = small(&rig).level0_runs(3).cache_bytes(0).open().unwrap();
        let model: Model = (0..200).map(|n| (key(n), vec![1; 100])).collect();
        fill(&db, 0..200, 1);
        db.flush().unwrap();
        let id = db.stats().segments().next().unwrap().id;
        let name = format!("{id:06}.seg");
        let whole = rig.memory.bytes_of(&name).unwrap();
        let mut damaged = whole.clone();
        damaged[5] ^= 1;
        rig.memory.replace(&name, damaged);
        let job = db.compact_all().unwrap();
        let error = job.wait().unwrap_err();
        assert!(matches!(error, Error::Corrupt(_)), "{error}");
        let error = db.put("k", "v").unwrap_err();
        assert!(matches!(error, Error::Poisoned { .. }), "{error}");
        let cause = error.to_string();
        assert!(cause.contains(&name), "{cause}");
        assert!(matches!(db.compact_all(), Err(Error::Poisoned { .. })));
        // Other blocks can be read.
        assert!(matches!(db.get(key(0)), Err(Error::Corrupt(_))));
        assert_eq!(db.get(key(199)).unwrap().unwrap(), [1; 100]);
        assert!(matches!(db.close(), Err(Error::Poisoned { .. })));
        rig.memory.replace(&name, whole);
        let db = small(&rig).open().unwrap();
        check_contents(&db, &model, "after damage");
        settle(&db);
        check_files(&rig.memory, &db, "after damage");
    });
}

/// A merge of whole levels needs room for a copy of them. Where that is not there it goes segment by
/// segment, and a store that nobody writes to does not try in vain all the time.
#[test]
fn on_a_full_disk_levels_are_not_merged_whole() {
    // Segments that there is room for beside those that are there.
    const ROOM: u64 = 9;
    within(LIMIT, "little room", || {
        let rig = rig();
        let start = UNIX_EPOCH + Duration::from_secs(1_000_000);
        rig.memory.set_clock(Some(start));
        let db = small(&rig).level_base_bytes(256 << 10).open().unwrap();
        let (taken, failed) = (AtomicU64::new(0), Arc::new(AtomicU64::new(0)));
        let told = Arc::clone(&failed);
        rig.set(move |call, name| {
            if call == Call::Remove && name.ends_with(".seg") {
                taken.store(0, Ordering::Relaxed);
            } else if call == Call::Create
                && name.ends_with(".seg")
                && is_compaction()
                && taken.fetch_add(1, Ordering::Relaxed) >= ROOM
            {
                told.fetch_add(1, Ordering::Relaxed);
                return Err(ErrorKind::StorageFull.into());
            }
            Ok(())
        });
        let failures = || failed.load(Ordering::Relaxed);
        let (mut model, mut random) = (Model::new(), Rng(12));
        // When a merge first meets the end of the room depends on what was flushed meanwhile.
        let mut rounds = 0;
        while failures() == 0 || rounds < 40 {
            put(&db, &mut model, &mut random, 300);
            settle(&db);
            rounds += 1;
            assert!(rounds < 200, "{}", db.stats());
        }
        let tried = failures();
        assert!(tried <= 3, "{}", db.stats());
        check_contents(&db, &model, "little room");
        // What is merged in a pause waits for a minute, too.
        let set_clock = |seconds| {
            let now = start + Duration::from_secs(seconds);
            rig.memory.set_clock(Some(now));
        };
        let mut pause = |from| {
            set_clock(from);
            put(&db, &mut model, &mut random, 1);
            settle(&db);
        };
        pause(40);
        set_clock(50);
        std::thread::sleep(Duration::from_millis(700));
        assert_eq!(failures(), tried, "{}", db.stats());
        pause(70);
        let clock = AtomicU64::new(70);
        let tick = || set_clock(clock.fetch_add(1, Ordering::Relaxed));
        wait_until("it is tried again", || {
            tick();
            failures() > tried
        });
        rig.heal();
        // Past the second after which a thread that failed looks again: it would see the new time
        // before the put, and what is flushed behind its merge would be a run of its own.
        std::thread::sleep(Duration::from_millis(1500));
        pause(100_000);
        clock.store(100_000, Ordering::Relaxed);
        wait_until("there is one run", || {
            tick();
            db.stats().runs.len() == 1
        });
        check_contents(&db, &model, "much room");
        check_files(&rig.memory, &db, "much room");
    });
}
