//! Compactions through the public interface: nothing lost, nothing leaked, and the tree in shape.
//!
//! Bugs that were found here are named tests in `bugs.rs` and in `src/compaction/plan/tests.rs`.

mod age;
mod asked;
mod bugs;
mod crash;
mod filters;
mod idle;
mod long;
mod parts;
mod space;
mod stalls;

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

use criba::sim::Memory;
use criba::storage::Storage;
use criba::{Builder, Db, Strategy};

use crate::faults::{Call, Gate, Rig};

const LIMIT: Duration = Duration::from_secs(60);

type Model = BTreeMap<Vec<u8>, Vec<u8>>;

/// A tree so small that a few thousand entries fill several levels.
fn small(storage: &(impl Storage + Clone)) -> Builder {
    Db::builder("compaction")
        .storage(Arc::new(storage.clone()))
        .memtable_bytes(64 << 10)
        .segment_bytes(64 << 10)
        // What shape a tree takes shall not depend on which thread comes first.
        .compaction_threads(1)
        .level_base_bytes(64 << 10)
        .level0_runs(2)
        .level_ratio(3)
        .block_bytes(1024)
        .cache_bytes(64 << 10)
}

/// A generator of numbers that are always the same (splitmix64).
struct Rng(u64);

impl Rng {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let z = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    fn below(&mut self, bound: u64) -> u64 {
        self.next() % bound
    }
}

fn wait_until(what: &str, is_so: impl Fn() -> bool) {
    let started = Instant::now();
    while !is_so() {
        assert!(started.elapsed() < LIMIT, "{what}: not within a minute");
        std::thread::sleep(Duration::from_millis(1));
    }
}

/// Puts so many new entries, in no order, and flushes them.
fn put(db: &Db, model: &mut Model, random: &mut Rng, count: usize) {
    for _ in 0..count {
        let key = random.below(1 << 40).to_le_bytes();
        db.put(key, [7; 90]).unwrap();
        model.insert(key.to_vec(), vec![7; 90]);
    }
    db.flush().unwrap();
}

/// Flushes, and returns when the tree is in shape and nothing is being merged.
fn settle(db: &Db) {
    db.flush().unwrap();
    wait_until("compactions come to rest", || {
        let compactions = db.stats().compactions;
        compactions.is_settled && compactions.debt_bytes == 0
    });
}

fn collect(iter: impl Iterator<Item = criba::Result<(criba::Slice, criba::Slice)>>) -> Model {
    iter.map(|entry| entry.unwrap())
        .map(|(key, value)| (key.to_vec(), value.to_vec()))
        .collect()
}

/// By scan in both directions, and key by key.
fn check_contents(db: &Db, model: &Model, what: &str) {
    let forward = db.iter().map(|entry| entry.unwrap());
    let same = forward.eq_by_pair(model.iter());
    assert!(same, "{what}: forward scan");
    let backward = db.iter().rev().map(|entry| entry.unwrap());
    assert!(backward.eq_by_pair(model.iter().rev()), "{what}: backward");
    for (key, value) in model {
        let found = db.get(key).unwrap();
        assert!(found.is_some_and(|found| found == value), "{what}: {key:?}");
    }
}

trait EqByPair {
    fn eq_by_pair<'a>(self, other: impl Iterator<Item = (&'a Vec<u8>, &'a Vec<u8>)>) -> bool;
}

impl<I: Iterator<Item = (criba::Slice, criba::Slice)>> EqByPair for I {
    fn eq_by_pair<'a>(
        mut self,
        mut other: impl Iterator<Item = (&'a Vec<u8>, &'a Vec<u8>)>,
    ) -> bool {
        loop {
            match (self.next(), other.next()) {
                (None, None) => return true,
                (Some((key, value)), Some((k, v))) if key == k && value == v => {}
                _ => return false,
            }
        }
    }
}

/// What holds of a tree at any moment.
fn check_runs(db: &Db, what: &str) {
    let stats = db.stats();
    let levels: Vec<u32> = stats.runs.iter().map(|run| run.level).collect();
    assert!(levels.is_sorted(), "{what}: {levels:?}");
    for run in &stats.runs {
        for pair in run.segments.windows(2) {
            assert!(
                pair[0].last_key < pair[1].first_key,
                "{what}: {} and {} overlap in level {}",
                pair[0].id,
                pair[1].id,
                run.level
            );
        }
        assert!(run.segments.iter().all(|one| one.damage.is_none()));
    }
}

/// What holds of a tree that has come to rest.
fn check_shape(db: &Db, strategy: Strategy, what: &str) {
    check_runs(db, what);
    let stats = db.stats();
    let last = stats.runs.last().map_or(0, |run| run.level);
    for level in 0..=last {
        let runs = stats.runs.iter().filter(|run| run.level == level).count();
        let most = match strategy {
            // Twice as many as were asked for are merged down, whatever lies below.
            Strategy::Leveled if level == 0 => 3,
            Strategy::Leveled => 1,
            Strategy::LazyLeveled if level > 0 && level == last => 1,
            Strategy::Tiered | Strategy::LazyLeveled => 2,
            _ => usize::MAX,
        };
        assert!(runs <= most, "{what}: {runs} runs in level {level}");
    }
}

/// Live segments, one journal, two manifests, `CURRENT` and `LOCK`: nothing else, once all
/// threads have let go.
fn check_files(storage: &impl Storage, db: &Db, what: &str) {
    let live = |names: &[String]| {
        let stats = db.stats();
        let mut segments: Vec<String> = stats
            .segments()
            .map(|segment| format!("{:06}.seg", segment.id))
            .collect();
        segments.sort();
        let is = |prefix: &'static str, suffix: &'static str| {
            let fits = move |name: &&String| name.starts_with(prefix) && name.ends_with(suffix);
            names.iter().filter(fits).count()
        };
        let kept: Vec<String> = names
            .iter()
            .filter(|name| name.ends_with(".seg"))
            .cloned()
            .collect();
        let others = is("CURRENT", "CURRENT") + is("LOCK", "LOCK");
        let (journals, manifests) = (is("", ".journal"), is("MANIFEST-", ""));
        kept == segments
            // One that is written, and one that is ready.
            && journals <= 2
            && manifests <= 2
            && kept.len() + journals + manifests + others == names.len()
    };
    let started = Instant::now();
    loop {
        let names = storage.list().unwrap();
        if live(&names) {
            return;
        }
        let segments: Vec<u64> = db.stats().segments().map(|one| one.id).collect();
        assert!(
            started.elapsed() < Duration::from_secs(5),
            "{what}: {names:?}, live are {segments:?}"
        );
        std::thread::sleep(Duration::from_millis(2));
    }
}

/// Whether the calling thread is one that compacts.
fn is_compaction() -> bool {
    let thread = std::thread::current();
    thread
        .name()
        .is_some_and(|name| name.starts_with("criba-compact"))
}

/// Compactions wait at the gate when they create a segment.
fn hold_compactions(rig: &Rig) -> Gate {
    let gate = Gate::closed();
    let door = gate.clone();
    rig.set(move |call, name| {
        if call == Call::Create && name.ends_with(".seg") && is_compaction() {
            door.pass();
        }
        Ok(())
    });
    gate
}

fn rig() -> Rig {
    Rig::new(Memory::new())
}

fn key(n: u64) -> Vec<u8> {
    format!("key{n:06}").into_bytes()
}

/// Puts keys in this order, with values of 100 bytes that tell the round.
fn fill(db: &Db, keys: impl Iterator<Item = u64>, round: u8) {
    for n in keys {
        db.put(key(n), [round; 100]).unwrap();
    }
}

fn entries(db: &Db) -> u64 {
    db.stats().segments().map(|one| one.entries).sum()
}
