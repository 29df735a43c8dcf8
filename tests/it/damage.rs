//! Every byte of every file damaged: the right answer, or an error that names the file.
//!
//! `CRIBA_DAMAGE_ALL=1` flips every bit and tries every length; without it every byte of segments
//! has one bit flipped, and their lengths are sampled.

mod blocks;
mod ranges;

use std::collections::BTreeMap;
use std::sync::Arc;

use criba::operator::Append;
use criba::sim::{Memory, Survivors};
use criba::storage::Storage;
use criba::{
    Batch, BloomierBits, Builder, Compression, Db, Durability, Error, FilterPolicy,
    FilterResidency, Keyspace,
};

use crate::allocations::take_largest;
use crate::faults::{Call, Gate, Rig};

/// What both keyspaces hold: keys that begin with `@` lie in the one called [`SIDE`].
type Model = BTreeMap<Vec<u8>, Vec<u8>>;

const SIDE: &str = "side";

fn builder(storage: Arc<dyn Storage>) -> Builder {
    Db::builder("damage")
        .compaction(criba::Compaction::Manual)
        .storage(storage)
        .block_bytes(512)
        .memtable_bytes(64 << 10)
        .operator(Append::new())
        .cache_bytes(0)
}

/// A store and what it holds.
struct Store {
    memory: Memory,
    /// What the store may hold: one state if it was closed, else what the last writes left, from
    /// the one that was synced last.
    states: Vec<Model>,
    /// Also what no crash of the system can leave: only a file that was cut can.
    earlier: Vec<Model>,
    /// A journal that was in use when the process was killed.
    last_journal: Option<String>,
}

/// Puts, overwrites, operands and deletes in both keyspaces; `round` makes runs that overlap.
fn write_run(db: &Db, round: usize, model: &mut Model) {
    let mut batch = db.batch();
    for n in (round..36).step_by(round + 1) {
        let key = format!("key{n:02}").into_bytes();
        if n % 7 == round {
            batch.delete(&key);
            model.remove(&key);
        } else {
            let value = format!("value {n} of run {round} ")
                .repeat(n % 4 + 1)
                .into_bytes();
            batch.put(&key, &value);
            model.insert(key, value);
        }
    }
    write_side(db, &mut batch, round, model);
    batch.commit().unwrap();
}

/// An operand for one key of each keyspace, and values of the smaller one.
fn write_side(db: &Db, batch: &mut Batch, n: usize, model: &mut Model) {
    let side = db.keyspace(SIDE).unwrap();
    let mut append = |key: &str| {
        let operand = format!("operand {n} ").into_bytes();
        model.entry(key.into()).or_default().extend(&operand);
        operand
    };
    batch.merge("key40", append("key40"));
    let mut batch = batch.keyspace(&side);
    batch.merge("@key0", append("@key0"));
    let (key, value) = (format!("@key{}", n % 3 + 1), format!("value {n}"));
    batch.put(&key, &value);
    model.insert(key.into_bytes(), value.into_bytes());
    let key = format!("@key{}", n % 4 + 2);
    batch.delete(&key);
    model.remove(key.as_bytes());
}

fn settings(round: usize, builder: Builder) -> Builder {
    match round {
        0 => builder
            .filter(FilterPolicy::Bloomier(BloomierBits::Slot))
            .range_filter(ranges::POLICY),
        1 => builder.filter(FilterPolicy::Bloom { bits_per_key: 12.0 }),
        2 => builder
            .filter(FilterPolicy::None)
            .range_filter(ranges::POLICY),
        _ => builder
            .filter(FilterPolicy::Bloomier(BloomierBits::Block))
            .compression(Compression::Zstd { level: 3 }),
    }
}

const ROUNDS: usize = 4;

fn build(is_killed: bool) -> Store {
    let memory = Memory::new();
    let mut model = Model::new();
    for round in 0..ROUNDS {
        let db = settings(round, builder(Arc::new(memory.clone())))
            .open()
            .unwrap();
        write_run(&db, round, &mut model);
        db.flush().unwrap();
        db.close().unwrap();
    }
    // Two journals: one whose flush waits, and one in use.
    let rig = Rig::new(memory.clone());
    let db = builder(Arc::new(rig.clone())).open().unwrap();
    let gate = Gate::closed();
    if is_killed {
        let gate = gate.clone();
        rig.set(move |call, name| {
            if call == Call::Create && name.ends_with(".seg") {
                gate.pass();
            }
            Ok(())
        });
    }
    if is_killed {
        // The last edit of the manifest is one without which journals would be missed.
        write_run(&db, ROUNDS, &mut model);
        gate.open();
        db.flush().unwrap();
        gate.close();
    }
    let (mut states, synced) = write_journal(&db, &gate, is_killed, &mut model);
    let mut earlier = Vec::new();
    let mut last_journal = None;
    let image = if is_killed {
        let image = memory.crash(Survivors::Everything);
        earlier = states.drain(..synced).collect();
        last_journal = names(&image, ".journal").pop();
        image
    } else {
        states = vec![model];
        db.clone().close().unwrap();
        memory.crash(Survivors::Everything)
    };
    gate.open();
    Store {
        memory: image,
        states,
        earlier,
        last_journal,
    }
}

/// Batches that stay in the journal. Returns the states after each, and which one is synced.
fn write_journal(
    db: &Db,
    gate: &Gate,
    two_journals: bool,
    model: &mut Model,
) -> (Vec<Model>, usize) {
    let mut states = vec![model.clone()];
    let mut synced = 0;
    for n in 0..6_usize {
        let durability = if n == 3 {
            Durability::Sync
        } else {
            Durability::Process
        };
        let mut batch = db.batch();
        for key in [format!("key{:02}", n * 3), format!("new{n}")] {
            batch.put(&key, format!("journal {n}"));
            model.insert(key.into_bytes(), format!("journal {n}").into_bytes());
        }
        batch.delete(format!("key{:02}", n * 3 + 1));
        model.remove(format!("key{:02}", n * 3 + 1).as_bytes());
        write_side(db, &mut batch, n, model);
        batch.commit_with(durability).unwrap();
        states.push(model.clone());
        if durability == Durability::Sync {
            synced = states.len() - 1;
        }
        if n == 1 && two_journals {
            let db = db.clone();
            std::thread::spawn(move || drop(db.flush()));
            gate.wait_for_visitor();
        }
    }
    (states, synced)
}

fn names(memory: &Memory, suffix: &str) -> Vec<String> {
    let mut names = memory.list().unwrap();
    names.retain(|name| name.ends_with(suffix));
    names
}

fn files(memory: &Memory) -> BTreeMap<String, Vec<u8>> {
    let names = memory.list().unwrap();
    names
        .into_iter()
        .map(|name| (name.clone(), memory.bytes_of(&name).unwrap()))
        .collect()
}

/// The file that an error names.
fn named(error: &Error) -> String {
    let path = match error {
        Error::Corrupt(corruption) => &corruption.path,
        Error::Missing { path } | Error::Io { path, .. } | Error::NotAStore { path, .. } => path,
        other => panic!("an error that names no file: {other}"),
    };
    path.file_name()
        .unwrap_or_default()
        .to_string_lossy()
        .into_owned()
}

/// What came of a damage.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Outcome {
    /// `open` named the file.
    Refused,
    /// Some reads named the file, the others were right.
    Partial,
    /// Every answer was right.
    Right,
}

#[derive(Default, Debug)]
struct Tally {
    refused: u64,
    partial: u64,
    right: u64,
}

impl Tally {
    fn add(&mut self, outcome: Outcome) {
        match outcome {
            Outcome::Refused => self.refused += 1,
            Outcome::Partial => self.partial += 1,
            Outcome::Right => self.right += 1,
        }
    }
}

/// Opens a damaged store and reads everything in every way.
fn check(
    image: &Memory,
    states: &[&Model],
    residency: FilterResidency,
    culprits: &[&str],
    what: &dyn Fn() -> String,
) -> Outcome {
    let before = files(image);
    let bytes: usize = before.values().map(Vec::len).sum();
    take_largest();
    let outcome = check_reads(image, (&before, states), residency, culprits, what);
    let largest = take_largest();
    assert!(
        largest < ALLOCATION + 2 * bytes,
        "{}: {largest} bytes at once for files of {bytes}",
        what()
    );
    outcome
}

/// What a store with these options takes at once, whatever is in it; a memtable is the largest.
const ALLOCATION: usize = 128 << 10;

fn check_reads(
    image: &Memory,
    (before, states): (&BTreeMap<String, Vec<u8>>, &[&Model]),
    residency: FilterResidency,
    culprits: &[&str],
    what: &dyn Fn() -> String,
) -> Outcome {
    let opened = builder(Arc::new(image.clone()))
        .filter_residency(residency)
        .open();
    let blames = |error: &Error| {
        let name = named(error);
        assert!(
            culprits.contains(&name.as_str()),
            "{}: blames {name}: {error}",
            what()
        );
    };
    let db = match opened {
        Ok(db) => db,
        Err(error) => {
            blames(&error);
            let mut after = files(image);
            if !before.contains_key("LOCK") {
                after.remove("LOCK");
            }
            assert_eq!(&after, before, "{}: changed by an open that failed", what());
            return Outcome::Refused;
        }
    };
    let side = match db.keyspace(SIDE) {
        Ok(side) => side,
        Err(error) => {
            blames(&error);
            return Outcome::Refused;
        }
    };
    let mut reading = Reading {
        db,
        side,
        candidates: states.to_vec(),
        is_partial: false,
        blames: &blames,
        what,
    };
    reading.get_all();
    reading.scan(true);
    reading.scan(false);
    reading.scan_ranges();
    if reading.is_partial {
        Outcome::Partial
    } else {
        Outcome::Right
    }
}

/// Everything in a store is read; what is found narrows down the states that it can be in.
struct Reading<'a> {
    db: Db,
    side: Keyspace,
    candidates: Vec<&'a Model>,
    /// Some reads failed.
    is_partial: bool,
    blames: &'a dyn Fn(&Error),
    what: &'a dyn Fn() -> String,
}

impl Reading<'_> {
    fn get_all(&mut self) {
        for n in 0..66_usize {
            let (keyspace, key): (&Keyspace, _) = match n {
                0..50 => (&self.db, format!("key{n:02}")),
                50..60 => (&self.db, format!("new{}", n - 50)),
                _ => (&self.side, format!("@key{}", n - 60)),
            };
            let bytes = key.as_bytes();
            match keyspace.get(bytes) {
                Ok(found) => {
                    let found = found.as_deref();
                    let fits = |state: &&Model| state.get(bytes).map(Vec::as_slice) == found;
                    self.candidates.retain(fits);
                    assert_eq!(keyspace.contains_key(bytes).unwrap(), found.is_some());
                }
                Err(error) => {
                    (self.blames)(&error);
                    self.is_partial = true;
                }
            }
            assert!(
                !self.candidates.is_empty(),
                "{}: a wrong answer for {key}",
                (self.what)()
            );
        }
    }

    fn scan(&mut self, is_forward: bool) {
        for is_side in [false, true] {
            let keyspace = if is_side { &self.side } else { &self.db };
            let mut found = Vec::new();
            let mut is_whole = true;
            let mut iter = keyspace.iter();
            while let Some(entry) = if is_forward {
                iter.next()
            } else {
                iter.next_back()
            } {
                match entry {
                    Ok((key, value)) => found.push((key.to_vec(), value.to_vec())),
                    Err(error) => {
                        (self.blames)(&error);
                        is_whole = false;
                    }
                }
            }
            self.is_partial |= !is_whole;
            self.candidates.retain(|state| {
                let of_keyspace = |(key, _): &(&Vec<u8>, _)| key.starts_with(b"@") == is_side;
                let mut expected: Vec<_> = state.iter().filter(of_keyspace).collect();
                if !is_forward {
                    expected.reverse();
                }
                let is_right = expected
                    .iter()
                    .zip(&found)
                    .all(|(one, other)| *one == (&other.0, &other.1));
                let is_complete = found.len() == expected.len() || !is_whole;
                is_right && is_complete && found.len() <= expected.len()
            });
            assert!(
                !self.candidates.is_empty(),
                "{}: a scan is wrong, forward: {is_forward}, side: {is_side}",
                (self.what)()
            );
        }
    }
}

const PINNED: FilterResidency = FilterResidency::Pinned;
const CACHED: FilterResidency = FilterResidency::Cached { bytes: 1 << 20 };

fn is_thorough() -> bool {
    std::env::var_os("CRIBA_DAMAGE_ALL").is_some()
}

/// Files that may be blamed for damage of this one: journals of a chain blame each other.
fn culprits<'a>(store: &Store, name: &'a str, journals: &'a [String]) -> Vec<&'a str> {
    let mut culprits = vec![name];
    if store.last_journal.is_some() && name.ends_with(".journal") {
        culprits.extend(journals.iter().map(String::as_str));
    }
    culprits
}

/// Journals that there are, or may have been: the end of the manifest may take an edit with it that
/// made journals superfluous, and without it they are missed.
fn all_journals(store: &Store) -> Vec<String> {
    let mut journals = names(&store.memory, ".journal");
    journals.extend((1..40).map(|id| format!("{id:06}.journal")));
    journals
}

/// Files that may be blamed when a part of this one is gone, and what the store may hold then.
fn without_a_part<'a>(
    store: &'a Store,
    name: &'a str,
    journals: &'a [String],
) -> (Vec<&'a str>, Vec<&'a Model>) {
    let mut culprits = culprits(store, name, journals);
    if name.starts_with("MANIFEST") {
        culprits.extend(journals.iter().map(String::as_str));
    }
    let mut states: Vec<&Model> = store.states.iter().collect();
    // Where the journal in use ends, nobody else knows.
    if store.last_journal.as_deref() == Some(name) {
        states.extend(&store.earlier);
    }
    (culprits, states)
}

fn flip_everywhere(store: &Store) -> Tally {
    let mut tally = Tally::default();
    let states: Vec<&Model> = store.states.iter().collect();
    let journals = names(&store.memory, ".journal");
    for (name, bytes) in files(&store.memory) {
        let culprits = culprits(store, &name, &journals);
        let is_segment = name.ends_with(".seg");
        for at in 0..bytes.len() {
            // The space before filter pages belongs to nothing.
            let is_gap = is_segment && bytes[at.saturating_sub(8)..=at].iter().all(|b| *b == 0);
            let bits = match (is_segment, is_gap) {
                _ if is_thorough() => 0..8,
                (false, _) => 0..8,
                (true, true) if at % 16 > 0 => 0..0,
                (true, _) => at * 5 % 8..at * 5 % 8 + 1,
            };
            for bit in bits {
                let image = store.memory.crash(Survivors::Everything);
                let mut damaged = bytes.clone();
                damaged[at] ^= 1 << bit;
                image.replace(&name, damaged);
                let residency = if (at + bit) % 2 == 0 { PINNED } else { CACHED };
                let what = || format!("bit {bit} of byte {at} of {name}");
                tally.add(check(&image, &states, residency, &culprits, &what));
            }
        }
    }
    tally
}

#[test]
fn every_flipped_byte_of_a_closed_store_is_harmless_or_named() {
    let tally = flip_everywhere(&build(false));
    tally.print("closed store, bits flipped");
    assert!(
        tally.refused > 500 && tally.partial > 1000 && tally.right > 1000,
        "{tally:?}"
    );
}

#[test]
fn every_flipped_byte_of_a_killed_store_is_harmless_or_named() {
    let tally = flip_everywhere(&build(true));
    tally.print("killed store, bits flipped");
    assert!(
        tally.refused > 500 && tally.partial > 1000 && tally.right > 1000,
        "{tally:?}"
    );
}

fn cut_everywhere(store: &Store) -> Tally {
    let mut tally = Tally::default();
    let journals = all_journals(store);
    for (name, bytes) in files(&store.memory) {
        let (culprits, states) = without_a_part(store, &name, &journals);
        let is_segment = name.ends_with(".seg");
        for len in 0..bytes.len() {
            if is_segment && !is_thorough() && len % 61 > 0 && len + 1 < bytes.len() {
                continue;
            }
            let image = store.memory.crash(Survivors::Everything);
            image.replace(&name, &bytes[..len]);
            let what = || format!("{name} cut to {len} bytes");
            tally.add(check(&image, &states, PINNED, &culprits, &what));
        }
        for more in [1, 40, 512, 4096] {
            for byte in [0, 0x5a] {
                let image = store.memory.crash(Survivors::Everything);
                image.replace(&name, [&bytes[..], &vec![byte; more]].concat());
                let what = || format!("{name} with {more} bytes of {byte} more");
                tally.add(check(&image, &states, PINNED, &culprits, &what));
            }
        }
    }
    tally
}

#[test]
fn every_cut_of_a_closed_store_is_harmless_or_named() {
    let tally = cut_everywhere(&build(false));
    tally.print("closed store, files cut");
    assert!(tally.refused > 500 && tally.partial > 100, "{tally:?}");
}

#[test]
fn every_cut_of_a_killed_store_is_harmless_or_named() {
    let tally = cut_everywhere(&build(true));
    tally.print("killed store, files cut");
    assert!(tally.refused > 500 && tally.partial > 100, "{tally:?}");
}

/// Zeros where a sector or page was not written, or was lost later.
#[test]
fn zeroed_sectors_and_pages_are_harmless_or_named() {
    for is_killed in [false, true] {
        let store = build(is_killed);
        let states: Vec<&Model> = store.states.iter().collect();
        let journals = names(&store.memory, ".journal");
        for (name, bytes) in files(&store.memory) {
            let culprits = culprits(&store, &name, &journals);
            for sector in [512, 4096] {
                for start in (0..bytes.len()).step_by(sector) {
                    for residency in [PINNED, CACHED] {
                        let image = store.memory.crash(Survivors::Everything);
                        let mut damaged = bytes.clone();
                        let end = bytes.len().min(start + sector);
                        damaged[start..end].fill(0);
                        image.replace(&name, damaged);
                        let what = || format!("{name}, zeros from {start} to {end}");
                        check(&image, &states, residency, &culprits, &what);
                    }
                }
            }
        }
    }
}

#[test]
fn every_missing_file_is_named() {
    for is_killed in [false, true] {
        let store = build(is_killed);
        let states: Vec<&Model> = store.states.iter().collect();
        let current = files(&store.memory);
        let mut needed = 0;
        for name in current.keys() {
            let image = store.memory.crash(Survivors::Everything);
            image.remove(name).unwrap();
            let what = || format!("{name} removed");
            let outcome = check(&image, &states, PINNED, &[name], &what);
            assert_ne!(outcome, Outcome::Partial, "{name}");
            needed += usize::from(outcome == Outcome::Refused);
        }
        // All but LOCK and the manifest before the live one.
        assert_eq!(needed, current.len() - 2);
    }
}

#[test]
fn every_file_in_the_place_of_another_is_named() {
    for is_killed in [false, true] {
        let store = build(is_killed);
        let twin = build(is_killed);
        let states: Vec<&Model> = store.states.iter().collect();
        let journals = names(&store.memory, ".journal");
        let kind = |name: &str| name.trim_matches(|c: char| c.is_ascii_digit()).to_owned();
        let (own, foreign) = (files(&store.memory), files(&twin.memory));
        for (name, bytes) in &own {
            for (other, content) in own.iter().chain(&foreign) {
                if kind(name) != kind(other) || content == bytes {
                    continue;
                }
                let image = store.memory.crash(Survivors::Everything);
                image.replace(name, &content[..]);
                let mut culprits = culprits(&store, name, &journals);
                // A foreign `CURRENT` names a manifest that belongs to another store.
                if name == "CURRENT" {
                    culprits.extend(own.keys().map(String::as_str));
                }
                let what = || format!("{other} in the place of {name}");
                check(&image, &states, PINNED, &culprits, &what);
            }
        }
    }
}

/// Every byte of every filter: no read fails, and the damage shows.
#[test]
fn a_damaged_filter_never_fails_a_read_and_shows() {
    let store = build(false);
    let model = &store.states[0];
    let regions = {
        let image = store.memory.crash(Survivors::Everything);
        let db = builder(Arc::new(image)).open().unwrap();
        let ids: Vec<u64> = db.stats().segments().map(|segment| segment.id).collect();
        let regions = |id: &u64| (*id, db.inspect(*id).unwrap().regions);
        ids.iter().map(regions).collect::<Vec<_>>()
    };
    let (mut damages, mut of_ranges) = (0, 0);
    for (id, regions) in regions {
        let name = format!("{id:06}.seg");
        let bytes = store.memory.bytes_of(&name).unwrap();
        for region in regions {
            let is_range = region.name.starts_with("range filter");
            if !is_range && !region.name.starts_with("filter") {
                continue;
            }
            of_ranges += u32::from(is_range && region.bytes > 0);
            for at in region.offset..region.offset + region.bytes {
                for residency in [PINNED, CACHED] {
                    damages += 1;
                    let image = store.memory.crash(Survivors::Everything);
                    let mut damaged = bytes.clone();
                    damaged[at as usize] ^= 1 << (at % 8);
                    image.replace(&name, damaged);
                    let what = format!("byte {at} ({}) of {name}, {residency:?}", region.name);
                    let opener = builder(Arc::new(image)).filter_residency(residency);
                    let db = opener.open().unwrap();
                    for n in 0..50 {
                        let key = format!("key{n:02}");
                        let found = db.get(&key).unwrap();
                        let expected = model.get(key.as_bytes()).map(Vec::as_slice);
                        assert_eq!(found.as_deref(), expected, "{what}");
                    }
                    ranges::assert_ranges(&db, model, &what);
                    let stats = db.stats();
                    let segment = stats.segments().find(|segment| segment.id == id).unwrap();
                    assert!(segment.damage.is_none(), "{what}");
                    let damage = match is_range {
                        true => &segment.range_filter.as_ref().unwrap().damage,
                        false => &segment.filter.as_ref().unwrap().damage,
                    };
                    assert!(damage.is_some(), "{what}");
                    assert!(stats.to_string().contains("DAMAGED"), "{what}");
                }
            }
        }
    }
    assert!(damages > 300, "{damages}");
    // Pages and header of two segments.
    assert_eq!(of_ranges, 4);
}

/// Damage is an error for the keys behind it, and for no others.
#[test]
fn a_damaged_block_hides_only_its_own_keys() {
    let memory = Memory::new();
    let db = builder(Arc::new(memory.clone())).open().unwrap();
    for n in 0..300 {
        db.put(format!("key{n:03}"), "value").unwrap();
    }
    db.flush().unwrap();
    let id = db.stats().segments().next().unwrap().id;
    let block = db.inspect(id).unwrap().blocks[3].clone();
    db.close().unwrap();
    let name = format!("{id:06}.seg");
    let mut bytes = memory.bytes_of(&name).unwrap();
    bytes[block.offset as usize + 100] ^= 1;
    memory.replace(&name, bytes);
    let db = builder(Arc::new(memory)).open().unwrap();
    let failed = (0..300)
        .filter(|n| db.get(format!("key{n:03}")).is_err())
        .count();
    assert_eq!(failed, block.entries as usize);
    assert!(db.inspect(id).is_err());
    let mut iter = db.iter();
    assert!(iter.by_ref().any(|entry| entry.is_err()));
    assert!(
        iter.next().is_none() && iter.next_back().is_none(),
        "after an error it ends"
    );
}

/// The last writes before a power cut were synced: the watermark behind them says so, and damage
/// of them does not pass for a torn tail.
#[test]
fn damage_of_the_last_sync_is_not_taken_for_a_torn_tail() {
    let memory = Memory::new();
    let db = builder(Arc::new(memory.clone())).open().unwrap();
    db.put("a", "1").unwrap();
    db.put_with("b", "2", Durability::Sync).unwrap();
    let name = names(&memory, ".journal").pop().unwrap();
    let image = memory.crash(Survivors::Synced);
    let bytes = memory.bytes_of(&name).unwrap();
    image.replace(&name, bytes.clone());
    // The last 32 bytes are the watermark itself.
    for at in 0..bytes.len() - 32 {
        let image = image.crash(Survivors::Synced);
        let mut damaged = bytes.clone();
        damaged[at] ^= 1 << (at % 8);
        image.replace(&name, damaged);
        let error = builder(Arc::new(image)).open().unwrap_err();
        assert_eq!(named(&error), name, "byte {at}: {error}");
    }
    let db = builder(Arc::new(image)).open().unwrap();
    assert_eq!(db.iter().count(), 2);
}
