//! Recorded histories of many threads, and the search for an order that explains them.
//!
//! Puts, gets, deletes, batches, snapshots, iterators and queues, while memtables are flushed and
//! segments merged. `CRIBA_LINEAR_SECONDS=300 cargo test --test it -- linear::` takes longer.

mod check;
mod subject;
mod workload;

use std::io::Write as _;
use std::sync::Arc;
use std::time::{Duration, Instant};

use criba::sim::Memory;
use criba::{BloomierBits, Db, FilterPolicy, Strategy};

use subject::{Plant, Subject};

const THREADS: u64 = 4;

fn open(strategy: Strategy, filter: FilterPolicy) -> Db {
    Db::builder("linear")
        .storage(Arc::new(Memory::new()))
        .strategy(strategy)
        .filter(filter)
        .memtable_bytes(64 << 10)
        .segment_bytes(64 << 10)
        .block_bytes(512)
        .level0_runs(2)
        .level_base_bytes(128 << 10)
        .open()
        .unwrap()
}

/// Seconds to go on for, 0 in the suite.
fn seconds() -> u64 {
    let asked = std::env::var("CRIBA_LINEAR_SECONDS").ok();
    asked.map_or(0, |asked| {
        asked.parse().expect("CRIBA_LINEAR_SECONDS is a number")
    })
}

#[test]
fn histories_have_an_order() {
    let settings = [
        (
            Strategy::Leveled,
            FilterPolicy::Bloomier(BloomierBits::Slot),
        ),
        (Strategy::Tiered, FilterPolicy::Bloom { bits_per_key: 8.0 }),
        (Strategy::LazyLeveled, FilterPolicy::None),
    ];
    let started = Instant::now();
    let end = Duration::from_secs(seconds());
    let mut histories = 0;
    for seed in 1.. {
        for (strategy, filter) in settings {
            let subject = Subject::new(open(strategy, filter), None);
            let checked = workload::run(&subject, THREADS, STEPS, seed);
            assert_eq!(checked, Ok(()), "seed {seed}, {strategy:?}, {filter:?}");
            assert!(subject.db.stats().memtable.flushes > 1);
            histories += 1;
        }
        if started.elapsed() >= end {
            break;
        }
    }
    let calls = histories * THREADS * STEPS;
    writeln!(
        std::io::stderr(),
        "histories: {histories}, {calls} calls, {:?}",
        started.elapsed()
    )
    .unwrap();
}

/// Calls of each thread.
const STEPS: u64 = 1000;

#[test]
fn planted_bugs_are_found() {
    let plants = [
        (Plant::StaleGet, "key/"),
        (Plant::StaleFirst, ""),
        (Plant::OldSnapshot, "together"),
        (Plant::TornBatch, "together"),
    ];
    for (plant, place) in plants {
        let db = open(Strategy::Leveled, FilterPolicy::None);
        let subject = Subject::new(db, Some(plant));
        let found = workload::run(&subject, THREADS, STEPS, 1).unwrap_err();
        assert!(
            found.contains(place) && found.contains("not linearizable"),
            "{plant:?}: {found}"
        );
    }
}
