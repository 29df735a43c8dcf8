//! Fills, overwrites, point lookups and scans.

use crate::engine::Result;
use crate::keys::{ABSENT, FIRST, Key, Order, Rng, Zipf};
use crate::measure::{Io, Latencies, Limit, Memory, disk_bytes};

use super::{Bench, must_get, must_miss, must_scan};

const SCAN: usize = 100;
/// Prefixes are as short as it takes for so many entries each, at least.
const PREFIX_ENTRIES: u64 = 10;
const CHECKED: u64 = 10_000;
const SYNC_PART: u32 = 10;

pub fn run(bench: &mut Bench) -> Result<()> {
    bench.open()?;
    bench.fill("fill_random", Order::Random)?;
    bench.set("fill_memory", Memory::now()?.peak_bytes as f64);
    bench.rest("fill_random")?;
    let disk = disk_bytes(&bench.job.dir)? as f64;
    bench.set("disk", disk);
    bench.set("space_amplification", disk / bench.user_bytes() as f64);
    bench.close()?;
    let opened = bench.open()?;
    bench.set("open_ms", opened.as_secs_f64() * 1e3);
    Memory::forget_peak()?;
    lookups(bench)?;
    scans(bench)?;
    bench.set("read_memory", Memory::now()?.peak_bytes as f64);
    bench.set("read_memory_own", Memory::now()?.own_bytes as f64);
    overwrite(bench)
}

fn lookups(bench: &mut Bench) -> Result<()> {
    let (filled, reads, len) = (bench.filled, bench.job.reads, bench.values.len());
    let present = move |reader: &dyn crate::engine::Read, rng: &mut Rng| {
        must_get(reader, Order::Random, rng.below(filled), len).map(drop)
    };
    let inside = |reader: &dyn crate::engine::Read, rng: &mut Rng| {
        must_miss(reader, &Key::of(Order::Random, ABSENT + rng.below(ABSENT)))
    };
    let outside = |reader: &dyn crate::engine::Read, rng: &mut Rng| {
        must_miss(reader, &Key::outside(rng.next() >> 16))
    };
    // Once unmeasured, so that caches hold what they will.
    bench.reads("warm_up", 1, reads, &present)?;
    bench.metrics.retain(|name, _| !name.starts_with("warm_up"));
    bench.reads("read_present", 1, reads, &present)?;
    let zipf = Zipf::new(filled);
    bench.reads("read_zipf", 1, reads, &|reader, rng| {
        must_get(reader, Order::Random, zipf.scattered(rng), len).map(drop)
    })?;
    bench.reads("read_absent", 1, reads, &inside)?;
    bench.reads("read_absent_outside", 1, reads, &outside)?;
    bench.reads("read_present_2", 2, reads, &present)?;
    bench.reads("read_absent_2", 2, reads, &inside)?;
    for name in ["read_present", "read_absent"] {
        let ratio = bench.metrics[&format!("{name}_2")] / bench.metrics[name];
        bench.set(format!("{name}_scaling"), ratio);
    }
    Ok(())
}

fn scans(bench: &mut Bench) -> Result<()> {
    let (filled, reads) = (bench.filled, bench.job.reads);
    let greatest = Key::greatest(Order::Random, filled);
    bench.reads("scan_100", 1, reads / 50, &|reader, rng| {
        let from = Key::of(Order::Random, rng.below(filled));
        must_scan(reader, &from, SCAN, &greatest)
    })?;
    let digits = (filled / PREFIX_ENTRIES).max(1).ilog2() as usize / 4;
    let expected = entries_by_prefix(filled, digits);
    bench.reads("scan_prefix", 1, reads / 20, &|reader, rng| {
        let key = Key::of(Order::Random, rng.below(filled));
        let prefix = key.prefix(digits);
        let count = reader.prefix(prefix, &mut |_, value| {
            std::hint::black_box(value);
        })?;
        let expected = expected[prefix_number(prefix)?] as usize;
        match count == expected {
            true => Ok(()),
            false => Err(format!("{count} entries of a prefix that has {expected}").into()),
        }
    })?;
    count_all(bench, "scan_all", filled)
}

fn prefix_number(prefix: &[u8]) -> Result<usize> {
    let digits = std::str::from_utf8(&prefix[4..])?;
    match digits {
        "" => Ok(0),
        digits => Ok(usize::from_str_radix(digits, 16)?),
    }
}

fn entries_by_prefix(filled: u64, digits: usize) -> Vec<u32> {
    let mut counts = vec![0; 1 << (4 * digits)];
    for number in 0..filled {
        let key = Key::of(Order::Random, number);
        counts[prefix_number(key.prefix(digits)).unwrap_or(0)] += 1;
    }
    counts
}

/// Scans everything; sets `name` to entries in a second.
pub fn count_all(bench: &mut Bench, name: &str, expected: u64) -> Result<()> {
    let io = Io::now()?;
    let begun = std::time::Instant::now();
    let mut bytes = 0;
    let count = bench
        .engine()?
        .reader()?
        .scan(FIRST, usize::MAX, &mut |key, value| {
            bytes += key.len() + value.len();
        })?;
    std::hint::black_box(bytes);
    bench.set(name, count as f64 / begun.elapsed().as_secs_f64());
    bench.set_processor(name, Io::now()?.since(io), count as u64);
    match count as u64 == expected {
        true => Ok(()),
        false => Err(format!("{count} entries, not {expected}").into()),
    }
}

fn overwrite(bench: &mut Bench) -> Result<()> {
    let (filled, len) = (bench.filled, bench.values.len());
    let mut versions = vec![0; filled as usize];
    let mut rng = bench.rng(3);
    bench.puts("overwrite", filled, &mut |_| {
        let number = rng.below(filled);
        let version = &mut versions[number as usize];
        *version += 1;
        (number, Key::of(Order::Random, number), *version)
    })?;
    bench.set("overwrite_disk", disk_bytes(&bench.job.dir)? as f64);
    let mut rng = bench.rng(4);
    let reader = bench.engine()?.reader()?;
    for _ in 0..CHECKED {
        let number = rng.below(filled);
        let version = must_get(&*reader, Order::Random, number, len)?;
        let expected = versions[number as usize];
        if version != expected {
            return Err(format!("key {number}: version {version}, not {expected}").into());
        }
    }
    Ok(())
}

pub fn run_sequential(bench: &mut Bench) -> Result<()> {
    bench.open()?;
    bench.fill("fill_sequential", Order::Sequential)?;
    bench.set("sequential_disk", disk_bytes(&bench.job.dir)? as f64);
    let filled = bench.filled;
    count_all(bench, "scan_sequential", filled)
}

/// One thread, then four, each of whose puts survives power loss.
pub fn run_synced(bench: &mut Bench) -> Result<()> {
    bench.job.settings.sync = true;
    bench.job.limit /= SYNC_PART;
    bench.open()?;
    for threads in [1, 4] {
        synced(bench, threads)?;
    }
    Ok(())
}

fn synced(bench: &mut Bench, threads: u64) -> Result<()> {
    let engine = bench.engine()?;
    let limit = Limit::new(bench.job.limit);
    let len = bench.values.len();
    let io = Io::now()?;
    let write = |thread: u64| -> Result<(u64, Latencies)> {
        let mut values = crate::keys::Values::new(len);
        let mut latencies = Latencies::new();
        let mut done = 0;
        // The clock is asked each time: what waits for a device is slow.
        while !limit.is_over(0) {
            let number = done * threads + thread;
            let begun = std::time::Instant::now();
            engine.put(Key::of(Order::Random, number).bytes(), values.of(number, 0))?;
            // Whether the host held it up is not asked, which would cost each of them more.
            latencies.add(begun.elapsed(), false);
            done += 1;
        }
        Ok((done, latencies))
    };
    let ends: Vec<_> = std::thread::scope(|scope| {
        let write = &write;
        let workers: Vec<_> = (0..threads)
            .map(|nth| scope.spawn(move || write(nth)))
            .collect();
        let joined = workers.into_iter().map(|worker| worker.join());
        joined
            .map(|end| end.unwrap_or_else(|_| Err("a writer panicked".into())))
            .collect()
    });
    let elapsed = limit.elapsed().as_secs_f64();
    let ends = ends.into_iter().collect::<Result<Vec<_>>>()?;
    let done: u64 = ends.iter().map(|(done, _)| done).sum();
    let written = Io::now()?.since(io).device_written;
    let name = format!("sync_{threads}");
    bench.set(name.clone(), done as f64 / elapsed);
    bench.set(
        format!("{name}_bytes_per_put"),
        written as f64 / done as f64,
    );
    if let [(_, latencies)] = &ends[..] {
        bench.set_latencies(&name, latencies);
    }
    Ok(())
}
