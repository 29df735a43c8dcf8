//! Counters: blind merges, beside reads and puts of the same.

use std::time::Instant;

use crate::engine::{Counters, Result};
use crate::keys::{Key, Order};
use crate::measure::Limit;

use super::{Bench, stream};

const COUNTERS: u64 = 100_000;

/// One way to add one to a counter.
type Add = fn(&dyn Counters, &[u8]) -> Result<()>;

/// Nothing for a store that merges nothing.
pub fn run(bench: &mut Bench) -> Result<()> {
    let Some(open) = bench.kind.open_counters else {
        return Ok(());
    };
    let ways: [(&str, Add); 2] = [
        ("counters_merge", |counters, key| counters.add(key)),
        ("counters_read_put", |counters, key| {
            counters.add_by_reading(key)
        }),
    ];
    for (name, add) in ways {
        let dir = bench.job.dir.join(name);
        std::fs::create_dir_all(&bench.job.dir)?;
        let counters = open(&dir, &bench.job.settings)?;
        let done = count(bench, &*counters, name, add)?;
        let begun = Instant::now();
        let all = (0..COUNTERS).map(|number| counters.get(key(number).bytes()));
        let sum = all.sum::<Result<u64>>()?;
        let took = begun.elapsed().as_secs_f64();
        bench.set(format!("{name}_get"), COUNTERS as f64 / took);
        if sum != done {
            return Err(format!("{name}: counters have {sum}, not {done}").into());
        }
    }
    Ok(())
}

fn key(number: u64) -> Key {
    Key::of(Order::Random, number)
}

/// Adds to counters at random; how often.
fn count(bench: &mut Bench, counters: &dyn Counters, name: &str, add: Add) -> Result<u64> {
    let mut rng = bench.rng(stream(name, 0));
    let limit = Limit::new(bench.job.limit);
    let (wanted, mut done, begun) = (bench.job.keys, 0, Instant::now());
    while done < wanted && !limit.is_over(done) {
        add(counters, key(rng.below(COUNTERS)).bytes())?;
        done += 1;
    }
    bench.set(name, done as f64 / begun.elapsed().as_secs_f64());
    bench.set_cut(name, done, wanted);
    Ok(done)
}
