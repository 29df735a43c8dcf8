//! What recovery does with damage, and what background threads do when they fail.

mod interrupted;

use std::collections::BTreeMap;
use std::io::ErrorKind;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use criba::sim::{Bounds, Memory, Survivors};
use criba::storage::Storage;
use criba::{Access, Builder, Compaction, Db, Durability, Error, Recovery};

use crate::faults::{Call, Rig, within};

/// Far longer than it takes.
const LIMIT: Duration = Duration::from_secs(60);

/// Bug: a panic of the thread that flushes left whoever waited for a flush waiting for ever.
#[test]
fn a_panic_of_the_flush_is_told_to_who_waits() {
    let rig = Rig::new(Memory::new());
    let db = Db::builder("panic")
        .storage(Arc::new(rig.clone()))
        .open()
        .unwrap();
    db.put("key", "value").unwrap();
    rig.set(|call, name| {
        assert!(
            call != Call::Create || !name.ends_with(".seg"),
            "planted in {name}"
        );
        Ok(())
    });
    let error = db.flush().unwrap_err();
    let Error::Poisoned { cause } = &error else {
        panic!("{error}");
    };
    assert!(cause.to_string().contains("planted in 0"), "{cause}");
    assert!(matches!(
        db.put("key", "other"),
        Err(Error::Poisoned { .. })
    ));
    assert_eq!(db.get("key").unwrap().as_deref(), Some(&b"value"[..]));
    assert!(matches!(db.close(), Err(Error::Poisoned { .. })));
    rig.heal();
    let db = Db::builder("panic").storage(Arc::new(rig)).open().unwrap();
    assert_eq!(db.get("key").unwrap().as_deref(), Some(&b"value"[..]));
}

/// Four runs of a few segments each.
fn load(db: &Db) -> Model {
    let mut model = Model::new();
    for round in 0..4_u8 {
        for n in 0..400_u32 {
            let (key, value) = (format!("key{:03}", n * 7 % 400), vec![round; 300]);
            db.put(&key, &value).unwrap();
            model.insert(key.into_bytes(), value);
        }
        db.flush().unwrap();
    }
    model
}

fn compactor(rig: &Rig, threads: usize) -> Builder {
    Db::builder("panic")
        .storage(Arc::new(rig.clone()))
        .compaction(Compaction::Manual)
        .compaction_threads(threads)
        .segment_bytes(64 << 10)
}

/// Bug: a panic of a thread that compacts left whoever waited for the compaction, or for room to
/// write, waiting for ever. One thread, and threads that help each other.
#[test]
fn a_panic_of_a_compaction_is_told_to_who_waits() {
    for (threads, victim) in [(1, "criba-compact-0"), (2, ""), (3, "")] {
        let rig = Rig::new(Memory::new());
        let db = compactor(&rig, threads).open().unwrap();
        let model = load(&db);
        let segments = AtomicUsize::new(0);
        rig.set(move |call, name| {
            if call == Call::Create && name.ends_with(".seg") {
                let thread = std::thread::current();
                let is_victim = thread.name().unwrap_or_default().contains(victim);
                // Of several threads the one that comes second: another is at work then.
                let nth = segments.fetch_add(1, Ordering::Relaxed);
                assert!(!is_victim || nth + 1 != threads, "planted in {name}");
            }
            Ok(())
        });
        let job = db.compact_all().unwrap();
        let other = db.clone();
        let error = within(LIMIT, "a compaction that panics", move || job.wait()).unwrap_err();
        let Error::Poisoned { cause } = &error else {
            panic!("{threads} threads: {error}");
        };
        let Error::Bug { what } = &**cause else {
            panic!("{threads} threads: {cause}");
        };
        assert!(
            what.contains("panicked") && what.contains("planted in 0"),
            "{what}"
        );
        let put = within(LIMIT, "a put after a panic", move || other.put("key", "v"));
        assert!(matches!(put, Err(Error::Poisoned { .. })));
        let refused = db.compact_all().map(drop);
        assert!(matches!(refused, Err(Error::Poisoned { .. })));
        assert!(content(&db) == model);
        let closed = within(LIMIT, "a close after a panic", move || db.close());
        assert!(matches!(closed, Err(Error::Poisoned { .. })));
        rig.heal();
        let db = compactor(&rig, threads).open().unwrap();
        assert!(content(&db) == model);
        db.compact_all().unwrap().wait().unwrap();
        assert!(content(&db) == model);
        let live = db.stats().segments().count();
        db.close().unwrap();
        // Until then a thread may hold the view before, and the files with it.
        let segments = rig.memory.list().unwrap();
        let segments = segments.iter().filter(|name| name.ends_with(".seg"));
        assert_eq!(segments.count(), live);
    }
}

/// Writers that wait for the tree to be in shape learn of a panic as well.
#[test]
fn a_panic_of_a_background_compaction_refuses_writes() {
    let rig = Rig::new(Memory::new());
    let db = compactor(&rig, 1)
        .compaction(Compaction::Background)
        .open()
        .unwrap();
    rig.set(|call, name| {
        let thread = std::thread::current();
        let is_compacting = thread.name().unwrap_or_default().contains("compact");
        let is_planted = is_compacting && call == Call::Create && name.ends_with(".seg");
        assert!(!is_planted, "planted in {name}");
        Ok(())
    });
    let writer = db.clone();
    let error = within(LIMIT, "writes while a compaction panics", move || {
        (0..).find_map(|n| {
            let put = writer.put(format!("key{n}"), "value");
            put.and_then(|()| writer.flush())
                .err()
                .map(|error| (n, error))
        })
    });
    let (count, error) = error.unwrap();
    assert!(matches!(error, Error::Poisoned { .. }), "{error}");
    assert!(content(&db).len() >= count);
    drop(db);
    rig.heal();
    let db = compactor(&rig, 1).open().unwrap();
    assert!(content(&db).len() >= count);
}

/// Bug: files with numbers that the store had not reserved yet were in the way when it came to
/// them: their names were taken, or they were taken for its own and removed.
#[test]
fn files_with_numbers_that_were_never_given_are_kept() {
    let memory = Memory::new();
    let db = builder(&memory).open().unwrap();
    db.put("key", "0").unwrap();
    db.close().unwrap();
    let strays = [
        "000070.seg",
        "000070.journal",
        "000075.filter",
        "MANIFEST-000090",
    ];
    for name in strays.into_iter().chain(["999999.seg"]) {
        memory.replace(name, format!("not of this store: {name}"));
    }
    // Kept under a name that is taken.
    memory.replace("000070.seg.damaged", "older");
    let before = files(&memory);
    let reader = builder(&memory).access(Access::ReadOnly).open().unwrap();
    drop(reader);
    assert!(files(&memory) == before);
    for n in 0..60 {
        let db = builder(&memory).open().unwrap();
        assert_eq!(db.get("key").unwrap().unwrap(), format!("{n}").as_bytes());
        db.put("key", format!("{}", n + 1)).unwrap();
        db.flush().unwrap();
        db.close().unwrap();
    }
    let kept = |name: &str| {
        memory
            .bytes_of(name)
            .map(|bytes| String::from_utf8(bytes).unwrap())
    };
    for name in strays {
        let moved = match name {
            "000070.seg" => "000070.seg.damaged.damaged".to_owned(),
            _ => format!("{name}.damaged"),
        };
        assert_eq!(kept(&moved).unwrap(), format!("not of this store: {name}"));
    }
    assert_eq!(kept("000070.seg.damaged").unwrap(), "older");
    assert_eq!(kept("999999.seg").unwrap(), "not of this store: 999999.seg");
    let journals = memory.list().unwrap();
    let numbers = journals
        .iter()
        .filter_map(|name| name.strip_suffix(".journal"));
    assert!(numbers.max().unwrap() > "000100");
}

type Model = BTreeMap<Vec<u8>, Vec<u8>>;

fn builder(memory: &Memory) -> Builder {
    Db::builder("recovery")
        .compaction(Compaction::Manual)
        .storage(Arc::new(memory.clone()))
}

/// A store of four journals, and where in them each batch is.
struct Store {
    memory: Memory,
    /// Journal, and where its records of the batch begin and end.
    places: Vec<(String, usize, usize)>,
    /// Before the first of these batches, in a segment.
    base: Model,
}

const SESSIONS: usize = 4;
const BATCHES: usize = 4;

/// What batch `n` does: a pair that is always equal, an overwrite, a delete and a key of its own.
fn changes(n: usize) -> Vec<(String, Option<String>)> {
    let value = Some(format!("value of batch {n} ").repeat(1 + n % 3));
    vec![
        ("pair-a".into(), value.clone()),
        ("pair-b".into(), value.clone()),
        (format!("own{n:02}"), value.clone()),
        (format!("shared{}", n % 3), value),
        (format!("own{:02}", n.wrapping_sub(2) % 100), None),
    ]
}

fn apply(model: &mut Model, n: usize) {
    for (key, value) in changes(n) {
        match value {
            Some(value) => drop(model.insert(key.into_bytes(), value.into_bytes())),
            None => drop(model.remove(key.as_bytes())),
        }
    }
}

impl Store {
    fn new() -> Store {
        let memory = Memory::new();
        let db = builder(&memory).open().unwrap();
        db.put("base", "in a segment").unwrap();
        db.flush().unwrap();
        db.close().unwrap();
        let mut places = Vec::new();
        for session in 0..SESSIONS {
            let db = builder(&memory).open().unwrap();
            // The first batch of a session begins its journal, the others go on in it.
            for n in session * BATCHES..(session + 1) * BATCHES {
                let mut batch = db.batch();
                for (key, value) in changes(n) {
                    match value {
                        Some(value) => batch.put(key, value),
                        None => batch.delete(key),
                    };
                }
                let before = last_journal(&memory);
                batch.commit_with(Durability::Process).unwrap();
                let (name, end) = last_journal(&memory);
                let start = if before.0 == name { before.1 } else { HEADER };
                places.push((name, start, end));
            }
            db.close().unwrap();
        }
        let base = Model::from([(b"base".to_vec(), b"in a segment".to_vec())]);
        Store {
            memory,
            places,
            base,
        }
    }

    /// The state with these batches.
    fn state(&self, batches: impl Iterator<Item = usize>) -> Model {
        let mut model = self.base.clone();
        batches.for_each(|n| apply(&mut model, n));
        model
    }

    fn all(&self) -> Model {
        self.state(0..self.places.len())
    }

    fn journals(&self) -> Vec<String> {
        let mut names: Vec<String> = self.places.iter().map(|place| place.0.clone()).collect();
        names.dedup();
        names
    }

    /// The store with one of its journals changed; `None` removes it.
    fn with(&self, name: &str, bytes: Option<Vec<u8>>) -> Memory {
        let image = self.memory.crash(Survivors::Everything);
        match bytes {
            Some(bytes) => image.replace(name, bytes),
            None => {
                image.remove(name).unwrap();
                image.sync_dir().unwrap();
            }
        }
        image
    }
}

/// Bytes of a journal's header.
const HEADER: usize = 80;

fn last_journal(memory: &Memory) -> (String, usize) {
    let mut names = memory.list().unwrap();
    names.retain(|name| name.ends_with(".journal"));
    let name = names.pop().unwrap_or_default();
    let len = memory.bytes_of(&name).map_or(0, |bytes| bytes.len());
    (name, len)
}

fn files(memory: &Memory) -> Model {
    let names = memory.list().unwrap();
    let file = |name: &String| (name.clone().into_bytes(), memory.bytes_of(name).unwrap());
    names.iter().map(file).collect()
}

fn content(db: &Db) -> Model {
    let entries = db.iter().map(|entry| entry.unwrap());
    entries
        .map(|(key, value)| (key.to_vec(), value.to_vec()))
        .collect()
}

/// Opens a damaged store in each mode and compares with what each should find.
fn check(image: &Memory, (prefix, rest): (&Model, &Model), what: &str) {
    let before = files(image);
    let error = builder(image).open().expect_err(what);
    assert!(
        matches!(error, Error::Corrupt(_) | Error::Missing { .. }),
        "{what}: {error}"
    );
    let text = error.to_string();
    assert!(text.contains("criba repair"), "{what}: {text}");
    for (mode, expected) in [(Recovery::TolerateTail, prefix), (Recovery::Salvage, rest)] {
        let what = format!("{what}, {mode:?}");
        let image = image.crash(Survivors::Everything);
        let reader = builder(&image)
            .recovery(mode)
            .access(Access::ReadOnly)
            .open()
            .unwrap();
        assert!(
            content(&reader) == *expected,
            "{what}: {:?}",
            content(&reader)
        );
        drop(reader);
        let mut unchanged = files(&image);
        unchanged.retain(|name, _| before.contains_key(name));
        assert!(unchanged == before, "{what}: changed by a reader");
        let db = builder(&image).recovery(mode).open().unwrap();
        check_opened(db, (&image, &before), expected, &what);
    }
}

/// A store that was opened in spite of damage: right, reported, kept, and sound from now on.
fn check_opened(db: Db, (image, before): (&Memory, &Model), expected: &Model, what: &str) {
    assert!(content(&db) == *expected, "{what}");
    let report = db.stats().recovery;
    assert!(!report.lost.is_empty(), "{what}");
    for loss in &report.lost {
        let name = loss.path.file_name().unwrap().to_str().unwrap();
        assert!(name.ends_with(".journal"), "{what}: {loss}");
        let is_there = before.contains_key(name.as_bytes());
        let kept = format!("{name}.damaged");
        assert_eq!(
            report.quarantined.contains(&kept),
            is_there,
            "{what}: {loss}"
        );
        let kept = image.bytes_of(&kept);
        assert_eq!(kept.as_ref(), before.get(name.as_bytes()), "{what}: {loss}");
    }
    db.put("after", "it goes on").unwrap();
    db.close().unwrap();
    let mut expected = expected.clone();
    expected.insert(b"after".to_vec(), b"it goes on".to_vec());
    let db = builder(image).open().unwrap();
    assert!(content(&db) == expected, "{what}: opened again");
    assert!(db.stats().recovery.lost.is_empty());
    assert_eq!(db.stats().recovery.quarantined.len(), 0);
    let findings = db.verify(&mut |_, _| {}).unwrap().findings;
    assert!(findings.is_empty(), "{what}: {findings:?}");
}

/// The states that the modes should find when batches were lost.
fn expectations(store: &Store, is_lost: impl Fn(usize) -> bool) -> (Model, Model) {
    let count = store.places.len();
    let first = (0..count).find(|n| is_lost(*n)).unwrap_or(count);
    (
        store.state(0..first),
        store.state((0..count).filter(|n| !is_lost(*n))),
    )
}

#[test]
fn a_flipped_byte_costs_what_the_mode_says() {
    let store = Store::new();
    for (damaged, (name, start, end)) in store.places.iter().enumerate() {
        let (prefix, rest) = expectations(&store, |n| n == damaged);
        let bytes = store.memory.bytes_of(name).unwrap();
        for at in (*start..*end).step_by(37) {
            let mut bytes = bytes.clone();
            bytes[at] ^= 0x10;
            let image = store.with(name, Some(bytes));
            check(&image, (&prefix, &rest), &format!("byte {at} of {name}"));
        }
    }
}

#[test]
fn a_damaged_header_costs_the_prefix_but_no_record() {
    let store = Store::new();
    for name in store.journals() {
        let first = store.places.iter().position(|place| place.0 == name);
        let prefix = store.state(0..first.unwrap());
        for at in (0..HEADER).step_by(11) {
            let mut bytes = store.memory.bytes_of(&name).unwrap();
            bytes[at] ^= 0x10;
            let image = store.with(&name, Some(bytes));
            check(
                &image,
                (&prefix, &store.all()),
                &format!("byte {at} of {name}"),
            );
        }
    }
}

#[test]
fn a_cut_or_lost_journal_costs_what_the_mode_says() {
    let store = Store::new();
    for name in store.journals() {
        let bytes = store.memory.bytes_of(&name).unwrap();
        for len in (0..bytes.len()).step_by(53) {
            let is_cut = |n: usize| store.places[n].0 == name && store.places[n].2 > len;
            let (prefix, rest) = expectations(&store, is_cut);
            let image = store.with(&name, Some(bytes[..len].to_vec()));
            check(&image, (&prefix, &rest), &format!("{name} cut to {len}"));
        }
        let (prefix, rest) = expectations(&store, |n| store.places[n].0 == name);
        let image = store.with(&name, None);
        check(&image, (&prefix, &rest), &format!("{name} removed"));
    }
}

#[test]
fn zeroed_and_foreign_parts_cost_what_the_mode_says() {
    let store = Store::new();
    let other = Store::new();
    for name in store.journals() {
        let bytes = store.memory.bytes_of(&name).unwrap();
        let (from, to) = (200, 700);
        let mut zeroed = bytes.clone();
        zeroed[from..to].fill(0);
        let is_hit = |n: usize| {
            let (file, start, end) = &store.places[n];
            *file == name && *start < to && *end > from
        };
        let (prefix, rest) = expectations(&store, is_hit);
        let image = store.with(&name, Some(zeroed));
        check(&image, (&prefix, &rest), &format!("{name} zeroed"));
        // The journal of another store under the same name.
        let foreign = other.memory.bytes_of(&name).unwrap();
        let (prefix, rest) = expectations(&store, |n| store.places[n].0 == name);
        let image = store.with(&name, Some(foreign));
        check(
            &image,
            (&prefix, &rest),
            &format!("{name} of another store"),
        );
    }
}

/// Bug: a creation was killed before the name `CURRENT` was durable, and so was the next session, while
/// it began a manifest of its own; the session after that wrote the first manifest anew, and power
/// loss took `CURRENT` and left what was to replace the manifest: no store, and no room for one.
#[test]
fn power_loss_after_two_unfinished_sessions_leaves_room_for_a_store() {
    let rig = Rig::new(Memory::new());
    let memory = rig.memory.clone();
    rig.set(move |call, _| match call {
        // Everything but the last sync of the directory.
        Call::SyncDir if memory.bytes_of("CURRENT").is_some() => Err(ErrorKind::Other.into()),
        _ => Ok(()),
    });
    let create = Db::builder("recovery").storage(Arc::new(rig.clone()));
    create.open().unwrap_err();
    let mut bare = 0;
    for call in 1..6 {
        let second = rig.memory.crash(Survivors::Everything);
        second.fail_after(call, ErrorKind::Other);
        // It is the same for what follows whether it came to a write.
        let written = builder(&second).open().and_then(|db| db.put("k", "v"));
        assert!(written.is_err());
        let third = second.crash(Survivors::Everything);
        third.record();
        let db = builder(&third).open().unwrap();
        db.put("k", "v").unwrap();
        db.close().unwrap();
        let history = third.history().unwrap();
        for calls in 0..=history.len() {
            for state in history.states(calls, &Bounds::default()) {
                let image = state.image();
                let names = image.list().unwrap();
                let is_left = names.contains(&"MANIFEST-000001.next".to_owned());
                bare += usize::from(is_left && !names.contains(&"CURRENT".to_owned()));
                let db = builder(&image).open();
                let db = db.unwrap_or_else(|error| panic!("{names:?}: {error}"));
                db.put_with("k", "w", Durability::Sync).unwrap();
            }
        }
    }
    assert!(bare > 0, "the state that was refused is among them");
}

/// Bug: a manifest that was cut behind a whole edit was told as a missing journal.
#[test]
fn a_cut_manifest_is_told_as_such_and_no_mode_gets_past_it() {
    let memory = Memory::new();
    let db = builder(&memory).open().unwrap();
    db.put("key", "value").unwrap();
    let manifests = |memory: &Memory| -> Vec<String> {
        let mut names = memory.list().unwrap();
        names.retain(|name| name.starts_with("MANIFEST"));
        names
    };
    let name = manifests(&memory).pop().unwrap();
    let before = memory.bytes_of(&name).unwrap().len();
    let mut names = memory.list().unwrap();
    names.retain(|name| name.ends_with(".journal"));
    db.flush().unwrap();
    // A thread in the background removes the journal a moment later.
    while memory.bytes_of(&names[0]).is_some() {
        std::thread::yield_now();
    }
    let image = memory.crash(Survivors::Everything);
    drop(db);
    let bytes = image.bytes_of(&name).unwrap();
    assert!(bytes.len() > before);
    image.replace(&name, &bytes[..before]);
    for mode in [Recovery::Strict, Recovery::TolerateTail, Recovery::Salvage] {
        let image = image.crash(Survivors::Everything);
        let error = builder(&image).recovery(mode).open().unwrap_err();
        let text = error.to_string();
        assert!(text.contains(&name) && text.contains("cut off"), "{text}");
        let segments = image.list().unwrap();
        assert!(segments.iter().any(|name| name.ends_with(".seg")));
    }
}
