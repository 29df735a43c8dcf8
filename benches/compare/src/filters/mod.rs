//! Filters beside those of other crates: `compare filters`.
//!
//! All get the same keys, which are 64-bit hashes already, and are asked for the same keys, one right
//! after the other. What is measured is processor time: of the whole process to build, of this thread to
//! look up. Structures take turns within each round, so that whatever else the machine does meets all.

use std::hint::black_box;
use std::path::Path;

use serde::Serialize;

use crate::engine::Result;
use peers::Peer;

mod peers;
mod table;

/// Keys asked for in each round, of those that are there and of those that are not.
const PROBES: usize = 1 << 20;

/// A set of 64-bit hashes.
trait Set: Sized + Clone {
    /// For keys that are distinct and arbitrary, and a rate of 2^-`bits`.
    fn build(keys: &[u64], bits: u32) -> Result<Self>;
    /// What it takes in memory, without the few fields of fixed size.
    fn bits(&self) -> u64;
    fn has(&self, key: u64) -> bool;
}

/// One structure at one size, in one round.
#[derive(Clone, Debug, Serialize)]
struct Line {
    structure: &'static str,
    round: u64,
    keys: u64,
    copies: u64,
    bits: u32,
    bits_per_key: f64,
    rate: f64,
    build_ns: f64,
    present_ns: f64,
    absent_ns: f64,
}

/// What is asked for.
pub struct Question<'a> {
    pub keys: u64,
    pub rounds: u64,
    /// Copies of each filter, among which lookups are spread: so that it takes more than the caches.
    pub copies: u64,
    pub json: Option<&'a Path>,
}

/// Measures and prints a table for each rate.
pub fn run(question: &Question<'_>) -> Result<()> {
    for bits in [7, 8] {
        let mut lines = Vec::new();
        for round in 0..question.rounds {
            for peer in peers::PEERS.iter().filter(|peer| peer.can(bits)) {
                lines.push((peer.measure)(peer, question, (bits, round))?);
            }
        }
        if let Some(path) = question.json {
            table::append(path, &lines)?;
        }
        table::print(question, bits, &lines);
    }
    Ok(())
}

/// Key `i`: present below 2^63, absent above.
fn key(i: u64) -> u64 {
    // The finaliser of SplitMix64 (Steele, Lea, Flood, 2014): a bijection, so all are distinct.
    let mut x = i.wrapping_mul(0x9e37_79b9_7f4a_7c15);
    x = (x ^ (x >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    x = (x ^ (x >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    x ^ (x >> 31)
}

fn measure<S: Set>(
    peer: &Peer,
    question: &Question<'_>,
    (bits, round): (u32, u64),
) -> Result<Line> {
    let keys: Vec<u64> = (0..question.keys).map(key).collect();
    let begun = cpu_ns(libc::CLOCK_PROCESS_CPUTIME_ID);
    let set = S::build(black_box(&keys), bits)?;
    let build_ns = (cpu_ns(libc::CLOCK_PROCESS_CPUTIME_ID) - begun) / question.keys as f64;
    let missing = keys.iter().filter(|&&key| !set.has(key)).count();
    if missing > 0 {
        return Err(format!("{}: {missing} keys are denied", peer.name).into());
    }
    let bits_per_key = set.bits() as f64 / question.keys as f64;
    let sets = vec![set; question.copies as usize];
    let chosen = |i: u64| keys[(key(i ^ round << 32) % question.keys) as usize];
    let present: Vec<u64> = (0..PROBES as u64).map(chosen).collect();
    let absent = |i: u64| key(1 << 63 | round << 32 | i);
    let absent: Vec<u64> = (0..PROBES as u64).map(absent).collect();
    let (_, present_ns) = ask(&sets, &present);
    let (found, absent_ns) = ask(&sets, &absent);
    Ok(Line {
        structure: peer.name,
        round,
        keys: question.keys,
        copies: question.copies,
        bits,
        bits_per_key,
        rate: found as f64 / PROBES as f64,
        build_ns,
        present_ns,
        absent_ns,
    })
}

/// How many are found, and nanoseconds for each; the least of a few times, as whatever disturbs only
/// adds.
fn ask<S: Set>(sets: &[S], keys: &[u64]) -> (usize, f64) {
    let (mut found, mut least) = (0, f64::INFINITY);
    for turn in 1..=3 {
        let begun = cpu_ns(libc::CLOCK_THREAD_CPUTIME_ID);
        found = black_box(count(sets, black_box(keys), turn));
        let passed = cpu_ns(libc::CLOCK_THREAD_CPUTIME_ID) - begun;
        least = least.min(passed / keys.len() as f64);
    }
    (found, least)
}

#[inline(never)]
fn count<S: Set>(sets: &[S], keys: &[u64], turn: u64) -> usize {
    if let [set] = sets {
        return keys.iter().filter(|&&key| set.has(key)).count();
    }
    let set_of = |key: u64| {
        let spread = key.wrapping_mul(2 * turn + 1) >> 32;
        &sets[((spread * sets.len() as u64) >> 32) as usize]
    };
    keys.iter().filter(|&&key| set_of(key).has(key)).count()
}

/// A clock of processor time.
fn cpu_ns(clock: libc::clockid_t) -> f64 {
    let mut time = libc::timespec {
        tv_sec: 0,
        tv_nsec: 0,
    };
    // SAFETY: the call writes into the value it is given.
    let failed = unsafe { libc::clock_gettime(clock, &raw mut time) };
    assert_eq!(failed, 0, "both clocks exist on Linux");
    time.tv_sec as f64 * 1e9 + time.tv_nsec as f64
}
