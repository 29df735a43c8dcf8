//! Filters that a program brings: what they save, and that none of them loses a key.

use std::sync::Arc;

use criba::sim::Memory;
use criba::storage::ReadCause;
use criba::{Builder, Compaction, Db, Error, EventKind, FilterPolicy, FilterResidency};
use criba_filters::Shape;
use criba_filters::segment::{CustomFilter, OpenFilter};
use criba_filters::{KeyHash, Result};

const KEYS: u32 = 2000;

/// A sorted list of the hashes, which denies everything or panics where it is told to.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Listed {
    Right,
    Denies,
    PanicsWhenBuilt,
    PanicsWhenAsked,
}

struct Open(Listed, Vec<u64>);

impl CustomFilter for Listed {
    fn name(&self) -> &str {
        "listed"
    }

    fn build(&self, hashes: &[KeyHash]) -> Result<Vec<u8>> {
        assert!(*self != Listed::PanicsWhenBuilt, "planned");
        let mut all: Vec<u64> = hashes.iter().map(|hash| hash.0).collect();
        all.sort_unstable();
        Ok(all.into_iter().flat_map(u64::to_le_bytes).collect())
    }

    fn open(&self, _: &str, bytes: &[u8]) -> Result<Box<dyn OpenFilter>> {
        let hashes = bytes
            .as_chunks()
            .0
            .iter()
            .map(|eight| u64::from_le_bytes(*eight));
        Ok(Box::new(Open(*self, hashes.collect())))
    }
}

impl OpenFilter for Open {
    fn may_contain(&self, hash: KeyHash) -> bool {
        let is_there = self.1.binary_search(&hash.0).is_ok();
        assert!(is_there || self.0 != Listed::PanicsWhenAsked, "planned");
        is_there && self.0 != Listed::Denies
    }

    fn memory_bytes(&self) -> usize {
        self.1.len() * 8
    }
}

fn builder(memory: &Memory) -> Builder {
    Db::builder("custom")
        .storage(Arc::new(memory.clone()))
        .compaction(Compaction::Manual)
        .cache_bytes(0)
}

fn key(n: u32) -> Vec<u8> {
    format!("key{n:06}").into_bytes()
}

/// Two runs; of the numbers below `KEYS` those that are even are there.
fn fill(db: &Db) {
    for run in 0..2 {
        for n in (0..KEYS).filter(|n| n % 4 == 2 * run) {
            db.put(key(n), n.to_le_bytes()).unwrap();
        }
        db.flush().unwrap();
    }
}

/// Looks all up; returns the reads of data for the keys that are not there.
fn check(db: &Db) -> u64 {
    let reads = |db: &Db| db.stats().reads.get(ReadCause::Data).calls;
    for n in (0..KEYS).step_by(2) {
        assert_eq!(db.get(key(n)).unwrap().unwrap(), n.to_le_bytes());
    }
    let before = reads(db);
    for n in (1..KEYS).step_by(2) {
        assert_eq!(db.get(key(n)).unwrap(), None);
    }
    reads(db) - before
}

fn written_by(memory: &Memory, filter: Listed) -> Db {
    let builder = builder(memory).filter(FilterPolicy::Custom);
    let db = builder.custom_filter(filter).open().unwrap();
    fill(&db);
    db
}

fn not_built(db: &Db) -> usize {
    let events = db.stats().events;
    let is_it = |kind: &EventKind| matches!(kind, EventKind::FilterNotBuilt { .. });
    events.iter().filter(|event| is_it(&event.what)).count()
}

#[test]
fn a_filter_of_the_program_saves_its_reads() {
    for residency in [
        FilterResidency::Pinned,
        FilterResidency::Cached { bytes: 1 << 16 },
    ] {
        let memory = Memory::new();
        let open = || {
            let builder = builder(&memory).filter(FilterPolicy::Custom);
            let builder = builder.filter_residency(residency);
            builder.custom_filter(Listed::Right).open().unwrap()
        };
        let db = open();
        fill(&db);
        assert_eq!((check(&db), not_built(&db)), (0, 0));
        db.close().unwrap();
        let db = open();
        assert_eq!(check(&db), 0);
        for segment in db.stats().segments() {
            let filter = segment.filter.as_ref().unwrap();
            assert_eq!(filter.kind, "custom");
            assert_eq!(filter.custom.as_deref(), Some("listed"));
            assert_eq!(filter.r_bits, 64.0);
            assert!(filter.resident_bytes >= segment.keys * 8);
        }
        let found = db.verify(&mut |_, _| {}).unwrap().findings;
        assert!(found.is_empty(), "{found:?}");
        db.compact_all().unwrap().wait().unwrap();
        assert_eq!(check(&db), 0);
    }
}

#[test]
fn without_the_filter_lookups_are_right_and_read() {
    let memory = Memory::new();
    written_by(&memory, Listed::Right).close().unwrap();
    let db = builder(&memory).open().unwrap();
    assert!(check(&db) >= u64::from(KEYS / 2));
    let stats = db.stats();
    let filter = stats.segments().next().unwrap().filter.clone().unwrap();
    assert!(filter.custom.unwrap().contains("does not have"));
    assert!(filter.damage.is_none());
    // A filter of the store takes its place when asked.
    let rebuilt = db.rebuild_filters(.., |_, _| {}).unwrap();
    assert_eq!(rebuilt.rebuilt, 2);
    assert!(check(&db) < u64::from(KEYS / 10));
}

#[test]
fn a_filter_that_breaks_its_promise_is_left_out() {
    for filter in [Listed::Denies, Listed::PanicsWhenBuilt] {
        let memory = Memory::new();
        let db = written_by(&memory, filter);
        assert!(check(&db) >= u64::from(KEYS / 2));
        assert_eq!(not_built(&db), 2, "{filter:?}");
        assert!(db.stats().segments().all(|one| one.filter.is_none()));
        // Nor is it built anew.
        let refused = db.rebuild_filters(.., |_, _| {}).unwrap_err();
        assert!(matches!(refused, Error::Invalid(_)), "{refused}");
    }
}

#[test]
fn a_panic_in_a_lookup_is_a_maybe() {
    let memory = Memory::new();
    let db = written_by(&memory, Listed::PanicsWhenAsked);
    assert!(check(&db) >= u64::from(KEYS / 2));
    let stats = db.stats();
    let damage = stats.segments().find_map(|one| one.filter.clone()?.damage);
    assert!(damage.unwrap().contains("panicked"));
}

/// `Denies` opens what `Right` has written, and hides its keys: only `verify` can tell.
#[test]
fn verify_asks_a_filter_for_every_key() {
    let memory = Memory::new();
    written_by(&memory, Listed::Right).close().unwrap();
    let db = builder(&memory)
        .custom_filter(Listed::Denies)
        .open()
        .unwrap();
    let found = db.verify(&mut |_, _| {}).unwrap().findings;
    assert!(found.len() >= 2, "one finding at least for each segment");
    assert!(
        found[0].to_string().contains("filter does not lead"),
        "{}",
        found[0]
    );
}

#[test]
fn every_structure_of_the_literature_saves_reads() {
    for shape in Shape::ALL {
        let memory = Memory::new();
        let builder = builder(&memory).filter(FilterPolicy::Custom);
        let db = builder.custom_filter(shape.filter(12.0)).open().unwrap();
        fill(&db);
        let stats = db.stats();
        let rates = stats
            .segments()
            .map(|one| one.filter.as_ref().unwrap().designed_rate);
        let expected = rates.sum::<f64>() * f64::from(KEYS / 2);
        // Five deviations of as many reads, at least.
        let reads = check(&db) as f64;
        assert!(
            expected < 300.0 && reads < expected + 5.0 * expected.max(1.0).sqrt(),
            "{shape:?}: {reads} reads, {expected} expected"
        );
        assert_eq!(not_built(&db), 0);
    }
}

#[test]
fn nonsense_is_refused_at_open() {
    let refused = |builder: Builder| builder.open().unwrap_err().to_string();
    let memory = Memory::new();
    let text = refused(builder(&memory).filter(FilterPolicy::Custom));
    assert!(text.contains("custom_filter"), "{text}");
    let twice = builder(&memory)
        .custom_filter(Listed::Right)
        .custom_filter(Listed::Denies);
    let text = refused(twice);
    assert!(text.contains("\"listed\""), "{text}");
}
