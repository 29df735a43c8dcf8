//! A thousand tenants in one store: a map of keys for each, beside one map with the tenant as prefix.

use std::path::Path;
use std::time::Instant;

use crate::engine::{Result, Tenants};
use crate::keys::{Key, Order, Rng};
use crate::measure::{Io, Limit};

use super::{Bench, stream};

const TENANTS: usize = 1000;

/// Nothing for a store that has no such maps.
pub fn run(bench: &mut Bench) -> Result<()> {
    let Some(open) = bench.kind.open_tenants else {
        return Ok(());
    };
    for (name, maps) in [("tenants", TENANTS), ("tenants_prefix", 1)] {
        let dir = bench.job.dir.join(name);
        std::fs::create_dir_all(&bench.job.dir)?;
        let tenants = open(&dir, &bench.job.settings, maps)?;
        fill(bench, &*tenants, name, maps)?;
        let files = std::fs::read_dir(&dir)?.count();
        bench.set(
            format!("{name}_files"),
            files_below(&dir)?.max(files as u64) as f64,
        );
    }
    Ok(())
}

/// Files in a directory and those in it.
fn files_below(dir: &Path) -> Result<u64> {
    let mut files = 0;
    for entry in std::fs::read_dir(dir)? {
        let entry = entry?;
        files += match entry.file_type()?.is_dir() {
            true => files_below(&entry.path())?,
            false => 1,
        };
    }
    Ok(files)
}

/// The map of a tenant, and a key in it.
fn choose(rng: &mut Rng, maps: usize) -> (usize, Vec<u8>) {
    let tenant = rng.below(TENANTS as u64) as usize;
    let key = Key::of(Order::Random, rng.below(u64::MAX));
    match maps {
        1 => (
            0,
            [&(tenant as u32).to_be_bytes()[..], key.bytes()].concat(),
        ),
        _ => (tenant, key.bytes().to_vec()),
    }
}

fn fill(bench: &mut Bench, tenants: &dyn Tenants, name: &str, maps: usize) -> Result<()> {
    let mut rng = bench.rng(stream("tenants", 0));
    let value = vec![b'v'; bench.job.value_bytes];
    let limit = Limit::new(bench.job.limit);
    let before = Io::now()?;
    let (wanted, mut done, begun) = (bench.job.keys, 0, Instant::now());
    while done < wanted && !limit.is_over(done) {
        let (map, key) = choose(&mut rng, maps);
        tenants.put(map, &key, &value)?;
        done += 1;
    }
    tenants.settle()?;
    bench.set(name, done as f64 / begun.elapsed().as_secs_f64());
    bench.set_cut(name, done, wanted);
    let written = Io::now()?.device_written - before.device_written;
    bench.set(format!("{name}_written"), written as f64);
    let mut rng = bench.rng(stream("tenants", 0));
    for _ in 0..done.min(1000) {
        let (map, key) = choose(&mut rng, maps);
        if !tenants.get(map, &key)? {
            return Err(format!("{name}: a key is lost").into());
        }
    }
    Ok(())
}
