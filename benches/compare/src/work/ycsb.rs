//! The core workloads of YCSB (Cooper et al., 2010), one client thread, Zipf 0.99 where it says so.
//! What a workload leaves to be compacted is compacted before the next one, unmeasured.

use crate::engine::{Engine, Result};
use crate::keys::{Key, Order, Rng, Values, Zipf};

use super::{Bench, must_get, must_scan};

const SCAN_MAX: u64 = 100;
/// Of a hundred operations.
const FEW: u64 = 5;
const HALF: u64 = 50;

pub fn run(bench: &mut Bench) -> Result<()> {
    bench.open()?;
    bench.fill("load", Order::Random)?;
    let (count, loaded) = (bench.job.reads, bench.filled);
    let zipf = Zipf::new(loaded);
    for (name, writes) in [("ycsb_a", HALF), ("ycsb_b", FEW), ("ycsb_c", 0)] {
        bench.mixed(name, count, &mut |engine, rng, values| {
            let number = zipf.scattered(rng);
            match rng.below(100) < writes {
                true => update(engine, values, number),
                false => must_get(engine, Order::Random, number, values.len()).map(drop),
            }
        })?;
        bench.engine()?.settle()?;
    }
    bench.mixed("ycsb_f", count, &mut |engine, rng, values| {
        let number = zipf.scattered(rng);
        must_get(engine, Order::Random, number, values.len())?;
        match rng.below(100) < HALF {
            true => update(engine, values, number),
            false => Ok(()),
        }
    })?;
    bench.engine()?.settle()?;
    growing(bench, loaded, &zipf)
}

/// D and E insert: what is there grows.
fn growing(bench: &mut Bench, loaded: u64, zipf: &Zipf) -> Result<()> {
    let count = bench.job.reads;
    let mut there = loaded;
    bench.mixed("ycsb_d", count, &mut |engine, rng, values| {
        if insert_instead(engine, rng, values, &mut there)? {
            return Ok(());
        }
        let number = there - 1 - zipf.rank(rng).min(there - 1);
        must_get(engine, Order::Random, number, values.len()).map(drop)
    })?;
    bench.engine()?.settle()?;
    let mut greatest = Key::greatest(Order::Random, there);
    bench.mixed("ycsb_e", count / 10, &mut |engine, rng, values| {
        if insert_instead(engine, rng, values, &mut there)? {
            greatest = greatest.max(Key::of(Order::Random, there - 1));
            return Ok(());
        }
        let from = Key::of(Order::Random, zipf.scattered(rng));
        let limit = 1 + rng.below(SCAN_MAX) as usize;
        must_scan(engine, &from, limit, &greatest)
    })
}

fn insert_instead(
    engine: &dyn Engine,
    rng: &mut Rng,
    values: &mut Values,
    there: &mut u64,
) -> Result<bool> {
    let is_due = rng.below(100) < FEW;
    if is_due {
        update(engine, values, *there)?;
        *there += 1;
    }
    Ok(is_due)
}

fn update(engine: &dyn Engine, values: &mut Values, number: u64) -> Result<()> {
    let key = Key::of(Order::Random, number);
    engine.put(key.bytes(), values.of(number, 1))
}
