//! What lookups cost when data is not in memory, by the counters of the system: a small cache, and
//! the page cache emptied again and again.

use std::time::{Duration, Instant};

use crate::engine::Result;
use crate::keys::{ABSENT, Key, Order, Rng};
use crate::measure::{Io, drop_page_cache};

use super::{Bench, must_get, must_miss};

/// Filters are in memory beside it.
const COLD_CACHE: u64 = 8 << 20;
/// For each key, all that data and filters have together: less than the filters need.
const STARVED_CACHE_PER_KEY: u64 = 1;
const STARVED_CACHE_MIN: u64 = 256 << 10;

const WARM_UP: u64 = 2000;
const PRESENT: u64 = 4000;
/// Many, because few of them read anything.
const ABSENT_LOOKUPS: u64 = 100_000;
const ABSENT_STARVED: u64 = 4000;
/// How often the page cache is emptied.
const BATCHES: u64 = 20;

pub fn run(bench: &mut Bench) -> Result<()> {
    bench.job.settings.cache_bytes = COLD_CACHE;
    prepare(bench)?;
    measure(bench, "cold", ABSENT_LOOKUPS)
}

pub fn run_starved(bench: &mut Bench) -> Result<()> {
    let cache_bytes = (bench.job.keys * STARVED_CACHE_PER_KEY).max(STARVED_CACHE_MIN);
    bench.job.settings.cache_bytes = cache_bytes;
    bench.job.settings.starved = true;
    prepare(bench)?;
    bench.set("starved_cache", cache_bytes as f64);
    measure(bench, "starved", ABSENT_STARVED)?;
    // Each run that is asked has a filter of its own.
    if let Some(runs) = bench.metrics.get("starved_absent_runs") {
        let bytes = bench.metrics["starved_absent_bytes"] / runs;
        bench.set("starved_absent_bytes_per_run", bytes);
    }
    Ok(())
}

fn prepare(bench: &mut Bench) -> Result<()> {
    bench.open()?;
    bench.fill("cold_fill", Order::Random)?;
    bench.rest("cold_fill")?;
    bench.close()?;
    drop_page_cache(&bench.job.dir)?;
    bench.open()?;
    Ok(())
}

fn measure(bench: &mut Bench, name: &str, absent: u64) -> Result<()> {
    let (filled, len) = (bench.filled, bench.values.len());
    let mut present = |bench: &Bench, rng: &mut Rng| {
        let number = rng.below(filled);
        must_get(bench.engine()?, Order::Random, number, len).map(drop)
    };
    let mut inside = |bench: &Bench, rng: &mut Rng| {
        let key = Key::of(Order::Random, ABSENT + rng.below(ABSENT));
        must_miss(bench.engine()?, &key)
    };
    let mut rng = bench.rng(5);
    for _ in 0..WARM_UP {
        present(bench, &mut rng)?;
    }
    batches(bench, &format!("{name}_present"), PRESENT, &mut present)?;
    batches(bench, &format!("{name}_absent"), absent, &mut inside)
}

fn batches(
    bench: &mut Bench,
    name: &str,
    count: u64,
    lookup: &mut dyn FnMut(&Bench, &mut Rng) -> Result<()>,
) -> Result<()> {
    let (mut rng, mut sample) = (bench.rng(6), bench.rng(7));
    let (mut bytes, mut reads, mut took) = (0, 0, Duration::ZERO);
    let (mut runs, mut sampled) = (0, 0);
    for _ in 0..BATCHES {
        // Runs may be merged meanwhile.
        let absent = Key::of(Order::Random, ABSENT + sample.below(ABSENT));
        if let Some(asked) = bench.engine()?.runs_asked(absent.bytes())? {
            (runs, sampled) = (runs + asked, sampled + 1);
        }
        drop_page_cache(&bench.job.dir)?;
        let io = Io::now()?;
        let begun = Instant::now();
        for _ in 0..count / BATCHES {
            lookup(bench, &mut rng)?;
        }
        took += begun.elapsed();
        let io = Io::now()?.since(io);
        bytes += io.device_read;
        // The counters themselves are read by one call.
        reads += (io.read_calls + io.faults).saturating_sub(1);
    }
    let done = (count / BATCHES * BATCHES) as f64;
    bench.set(format!("{name}_bytes"), bytes as f64 / done);
    bench.set(format!("{name}_reads"), reads as f64 / done);
    bench.set(format!("{name}_us"), took.as_secs_f64() * 1e6 / done);
    if sampled > 0 {
        bench.set(format!("{name}_runs"), runs as f64 / f64::from(sampled));
    }
    Ok(())
}
