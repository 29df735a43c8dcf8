//! `Db::verify` finds what is damaged, and nothing in what is sound.

use std::sync::Arc;

use criba::sim::Memory;
use criba::{BloomierBits, Builder, Compaction, Compression, Db, FilterPolicy, Verification};

const POLICIES: [FilterPolicy; 5] = [
    FilterPolicy::None,
    FilterPolicy::Bloom { bits_per_key: 9.0 },
    FilterPolicy::Bloomier(BloomierBits::Block),
    FilterPolicy::Bloomier(BloomierBits::Slot),
    FilterPolicy::Bloomier(BloomierBits::BitsPerKey(4.5)),
];

fn builder(memory: &Memory) -> Builder {
    Db::builder("verify")
        .storage(Arc::new(memory.clone()))
        .compaction(Compaction::Manual)
        .compression(Compression::Zstd { level: 1 })
        .block_bytes(512)
}

/// Overwrites, deletes, several runs, versions kept by a snapshot.
fn fill(db: &Db, runs: u32) {
    let mut held = Vec::new();
    for run in 0..runs {
        for n in (0..600_u32).filter(|n| (n + run) % 3 != 0) {
            let key = format!("key{n:05}");
            if (n + run) % 7 == 0 {
                db.delete(key).unwrap();
            } else {
                db.put(key, format!("{n} in {run}").repeat(1 + n as usize % 3))
                    .unwrap();
            }
            if n % 100 == 0 {
                held.push(db.snapshot());
            }
        }
        db.flush().unwrap();
    }
}

fn verify(db: &Db) -> Verification {
    db.verify(&mut |_, _| {}).unwrap()
}

#[test]
fn a_sound_store_is_sound_under_every_policy() {
    for policy in POLICIES {
        let memory = Memory::new();
        let db = builder(&memory).filter(policy).open().unwrap();
        fill(&db, 3);
        let report = verify(&db);
        assert_eq!(report.segments, 3);
        let entries: u64 = db.stats().segments().map(|one| one.entries).sum();
        assert_eq!(report.entries, entries, "{policy:?}");
        assert!(report.findings.is_empty(), "{policy:?}: {report:?}");
        db.compact_all().unwrap().wait().unwrap();
        fill(&db, 1);
        let report = verify(&db);
        assert!(report.findings.is_empty(), "{policy:?}: {report:?}");
        db.close().unwrap();
    }
}

/// Every region of every segment, and its filter file: the finding names the file.
#[test]
fn every_damaged_region_is_found() {
    let memory = Memory::new();
    let db = builder(&memory).filter(POLICIES[0]).open().unwrap();
    fill(&db, 2);
    db.close().unwrap();
    // One of them gets its filter in a file of its own.
    let db = builder(&memory).filter(POLICIES[3]).open().unwrap();
    db.rebuild_filters(.."key00001", |_, _| {}).unwrap();
    fill(&db, 1);
    db.close().unwrap();
    let names = criba::storage::Storage::list(&memory).unwrap();
    let files = names
        .iter()
        .filter(|name| name.ends_with(".seg") || name.ends_with(".filter"));
    let mut tried = 0;
    for name in files {
        let intact = memory.bytes_of(name).unwrap();
        for at in (0..intact.len()).step_by(97) {
            let mut bytes = intact.clone();
            bytes[at] ^= 0x10;
            memory.replace(name, bytes);
            let db = builder(&memory).open().unwrap();
            let report = verify(&db);
            let names_it = |finding: &criba::Error| finding.to_string().contains(&**name);
            // Padding behind a block is not covered by a checksum, because nobody reads it.
            let is_padding = intact[at] == 0 && report.findings.is_empty();
            assert!(
                is_padding || report.findings.iter().any(names_it),
                "{name} byte {at}: {report:?}"
            );
            tried += usize::from(!is_padding);
            drop(db);
        }
        memory.replace(name, intact);
    }
    assert!(tried > 100, "{tried}");
    assert!(
        verify(&builder(&memory).open().unwrap())
            .findings
            .is_empty()
    );
}

#[test]
fn a_closed_store_is_not_verified() {
    let memory = Memory::new();
    let db = builder(&memory).open().unwrap();
    let other = db.clone();
    db.close().unwrap();
    assert!(other.verify(&mut |_, _| {}).is_err());
}
