//! The work: what every store is made to do, checked, and measured.
//!
//! A group is what one process does, with a store of its own that begins empty.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Barrier;
use std::time::{Duration, Instant};

use crate::engine::{Engine, Kind, Read, Result, Settings};
use crate::keys::{Key, Order, Rng, Values, stamp_of};
use crate::measure::{Io, Latencies, Limit, Stolen};

mod cold;
mod counters;
mod deletes;
mod points;
mod recovery;
mod tenants;
mod transactions;
mod ycsb;

pub use recovery::write_and_die;

/// What one process is asked to do.
#[derive(Clone, Debug)]
pub struct Job {
    pub settings: Settings,
    pub dir: PathBuf,
    /// Entries of the store.
    pub keys: u64,
    /// Lookups of each kind.
    pub reads: u64,
    pub value_bytes: usize,
    /// The longest that any one piece of work may take.
    pub limit: Duration,
    pub seed: u64,
}

/// A rest lasts until the process has hardly computed for so long, which is longer than any of the stores waits
/// before it does what it has put off. Not for ever: some have threads that are never idle.
const REST_IDLE: Duration = Duration::from_secs(3);
const REST_MAX: Duration = Duration::from_secs(20);
/// How often a rest looks, and the part of a processor below which it calls a process idle.
const REST_STEP: Duration = Duration::from_millis(100);
const REST_IDLE_PART: u32 = 20;

/// Lookups go on for so long at least, however many were asked for: what takes a tenth of a second is
/// at the mercy of what else the machine does in it.
const READS_MIN: Duration = Duration::from_secs(1);

type Group = fn(&mut Bench) -> Result<()>;

/// Name, whether stores that differ only in their filter take part, and the work.
pub const GROUPS: &[(&str, bool, Group)] = &[
    ("points", false, points::run),
    ("sequential", false, points::run_sequential),
    ("ycsb", false, ycsb::run),
    ("deletes", false, deletes::run),
    ("queue", false, deletes::run_queue),
    ("cold", true, cold::run),
    ("starved", true, cold::run_starved),
    ("recovery", false, recovery::run),
    ("sync", false, points::run_synced),
    ("transactions", false, transactions::run),
    ("counters", false, counters::run),
    ("tenants", false, tenants::run),
];

/// One store at work, and what was measured.
pub struct Bench {
    kind: Kind,
    job: Job,
    engine: Option<Box<dyn Engine>>,
    /// How many entries there are: fewer than asked for if filling took too long.
    filled: u64,
    values: Values,
    metrics: BTreeMap<String, f64>,
}

/// # Errors
///
/// What the store says, or that it gave a wrong answer.
pub fn run(kind: Kind, group: &str, job: Job) -> Result<BTreeMap<String, f64>> {
    let names = || GROUPS.iter().map(|(name, ..)| *name).collect::<Vec<_>>();
    let found = GROUPS.iter().find(|(name, ..)| *name == group);
    let (.., work) =
        found.ok_or_else(|| format!("no group {group}; there are {}", names().join(", ")))?;
    let mut bench = Bench {
        kind,
        engine: None,
        filled: 0,
        values: Values::new(job.value_bytes),
        metrics: BTreeMap::new(),
        job,
    };
    work(&mut bench)?;
    bench.close()?;
    Ok(bench.metrics)
}

impl Bench {
    /// Opens the store; how long that took.
    fn open(&mut self) -> Result<Duration> {
        let begun = Instant::now();
        self.engine = Some((self.kind.open)(&self.job.dir, &self.job.settings)?);
        Ok(begun.elapsed())
    }

    fn close(&mut self) -> Result<()> {
        self.engine.take().map_or(Ok(()), |engine| engine.close())
    }

    fn engine(&self) -> Result<&dyn Engine> {
        Ok(&**self.engine.as_ref().ok_or("the store is closed")?)
    }

    fn set(&mut self, name: impl Into<String>, value: f64) {
        self.metrics.insert(name.into(), value);
    }

    fn rng(&self, salt: u64) -> Rng {
        Rng::new(self.job.seed ^ (salt << 32))
    }

    /// Puts all keys once, in the given order.
    fn fill(&mut self, name: &str, order: Order) -> Result<()> {
        let keys = self.job.keys;
        self.puts(name, keys, &mut |step| (step, Key::of(order, step), 0))?;
        self.filled = keys.min(self.done(name));
        Ok(())
    }

    fn done(&self, name: &str) -> u64 {
        let cut = self.metrics.get(&format!("{name}_cut_at"));
        cut.map_or(u64::MAX, |count| *count as u64)
    }

    /// Puts, and settles: `NAME` is the rate with all that followed, `NAME_no_debt` without.
    fn puts(
        &mut self,
        name: &str,
        count: u64,
        choose: &mut dyn FnMut(u64) -> (u64, Key, u32),
    ) -> Result<()> {
        let io = Io::now()?;
        let limit = Limit::new(self.job.limit);
        let mut latencies = Latencies::new();
        let mut user_bytes = 0;
        let mut done = 0;
        let engine = self.engine.as_ref().ok_or("the store is closed")?;
        let mut stolen = Stolen::new(Instant::now())?;
        while done < count && !limit.is_over(done) {
            let (number, key, version) = choose(done);
            let value = self.values.of(number, version);
            let begun = Instant::now();
            engine.put(key.bytes(), value)?;
            let ended = Instant::now();
            let took = ended - begun;
            latencies.add(took, stolen.has_held_up(took, ended)?);
            user_bytes += (key.bytes().len() + value.len()) as u64;
            done += 1;
        }
        let before = limit.elapsed();
        let begun = Instant::now();
        let debt = engine.settle()?.saturating_duration_since(begun);
        let io = Io::now()?.since(io);
        self.set_cut(name, done, count);
        self.set(name, done as f64 / (before + debt).as_secs_f64());
        self.set(
            format!("{name}_no_debt"),
            done as f64 / before.as_secs_f64(),
        );
        self.set(format!("{name}_debt_s"), debt.as_secs_f64());
        let amplification = io.device_written as f64 / user_bytes as f64;
        self.set(format!("{name}_write_amplification"), amplification);
        self.set_processor(name, io, done);
        self.set_latencies(name, &latencies);
        let unstolen = latencies.worst_unstolen();
        self.set(format!("{name}_worst_unstolen_us"), unstolen);
        Ok(())
    }

    /// Keys and values of all entries that were filled in, about.
    fn user_bytes(&self) -> u64 {
        self.filled * (Key::MEAN_BYTES + self.values.len() as u64)
    }

    /// Nothing until the store is idle, in which it may do what it had put off. What it writes and computes is
    /// added up as `NAME_rest_write_amplification` and `NAME_rest_cpu_us`; `NAME_rest_ms` is how long it was
    /// busy, or at most [`REST_MAX`].
    fn rest(&mut self, name: &str) -> Result<()> {
        let before = Io::now()?;
        let begun = Instant::now();
        let mut busy = Duration::ZERO;
        let mut last = before;
        while begun.elapsed() < (busy + REST_IDLE).min(REST_MAX) {
            std::thread::sleep(REST_STEP);
            let now = Io::now()?;
            if now.since(last).processor > REST_STEP / REST_IDLE_PART {
                busy = begun.elapsed();
            }
            last = now;
        }
        self.set(format!("{name}_rest_ms"), busy.as_secs_f64() * 1e3);
        let meanwhile = last.since(before);
        let written = meanwhile.device_written as f64 / self.user_bytes() as f64;
        let computed = meanwhile.processor.as_secs_f64() * 1e6 / self.filled as f64;
        for (what, more) in [("write_amplification", written), ("cpu_us", computed)] {
            let so_far = self.metrics[&format!("{name}_{what}")];
            self.set(format!("{name}_rest_{what}"), so_far + more);
        }
        Ok(())
    }

    /// Time of processors for each operation, threads in the background included: on a machine that
    /// does other things too, it tells more than the clock does.
    fn set_processor(&mut self, name: &str, io: Io, done: u64) {
        let micros = io.processor.as_secs_f64() * 1e6 / done as f64;
        self.set(format!("{name}_cpu_us"), micros);
    }

    fn set_latencies(&mut self, name: &str, latencies: &Latencies) {
        for (label, part) in [("p50", 0.5), ("p99", 0.99), ("p999", 0.999)] {
            self.set(format!("{name}_{label}_us"), latencies.quantile(part));
        }
        self.set(format!("{name}_worst_us"), latencies.worst());
    }

    /// Runs `step` so often in each of so many threads and for [`READS_MIN`] at least, each with a reader of
    /// its own; sets `name` to the rate of all together.
    fn reads(&mut self, name: &str, threads: usize, count: u64, step: &Step<'_>) -> Result<()> {
        let engine = self.engine()?;
        let barrier = Barrier::new(threads);
        let io = Io::now()?;
        let runs: Vec<Result<(u64, Instant, Instant)>> = std::thread::scope(|scope| {
            let workers: Vec<_> = (0..threads)
                .map(|thread| {
                    let rng = self.rng(stream(name, thread as u64));
                    let barrier = &barrier;
                    let limit = self.job.limit;
                    scope.spawn(move || read_all(engine, rng, barrier, (count, limit), step))
                })
                .collect();
            let joined = workers.into_iter().map(|worker| worker.join());
            joined
                .map(|end| end.unwrap_or_else(|_| Err("a reader panicked".into())))
                .collect()
        });
        let runs = runs.into_iter().collect::<Result<Vec<_>>>()?;
        let begun = runs.iter().map(|run| run.1).min().ok_or("no threads")?;
        let ended = runs.iter().map(|run| run.2).max().ok_or("no threads")?;
        let done: u64 = runs.iter().map(|run| run.0).sum();
        self.set_processor(name, Io::now()?.since(io), done);
        self.set(name, done as f64 / (ended - begun).as_secs_f64());
        self.set_cut(name, done, count * threads as u64);
        Ok(())
    }

    /// Runs `step` so often in this thread, against the newest state; sets `name` to the rate.
    fn mixed(
        &mut self,
        name: &str,
        count: u64,
        step: &mut dyn FnMut(&dyn Engine, &mut Rng, &mut Values) -> Result<()>,
    ) -> Result<()> {
        let mut rng = self.rng(stream(name, 0));
        let limit = Limit::new(self.job.limit);
        let io = Io::now()?;
        let engine = self.engine.as_ref().ok_or("the store is closed")?;
        let mut done = 0;
        while done < count && !limit.is_over(done) {
            step(&**engine, &mut rng, &mut self.values)?;
            done += 1;
        }
        self.set(name, done as f64 / limit.elapsed().as_secs_f64());
        self.set_processor(name, Io::now()?.since(io), done);
        self.set_cut(name, done, count);
        Ok(())
    }

    /// Says if less was done than was asked for.
    fn set_cut(&mut self, name: &str, done: u64, wanted: u64) {
        if done < wanted {
            self.set(format!("{name}_cut_at"), done as f64);
        }
    }
}

/// Of the numbers that a thread draws for a piece of work: those of another would ask for what was just
/// asked for, and caches would have it.
fn stream(name: &str, thread: u64) -> u64 {
    let bytes = name.bytes().map(u64::from);
    bytes.fold(100 + thread, |sum, byte| {
        sum.wrapping_mul(31).wrapping_add(byte)
    })
}

/// One lookup or scan, the wrong answer of which is an error.
type Step<'a> = dyn Fn(&dyn Read, &mut Rng) -> Result<()> + Sync + 'a;

fn read_all(
    engine: &dyn Engine,
    mut rng: Rng,
    barrier: &Barrier,
    (count, limit): (u64, Duration),
    step: &Step<'_>,
) -> Result<(u64, Instant, Instant)> {
    let reader = engine.reader();
    barrier.wait();
    let reader = reader?;
    let begun = Instant::now();
    let (limit, least) = (Limit::new(limit), Limit::new(READS_MIN));
    let mut done = 0;
    while (done < count || !least.is_over(done)) && !limit.is_over(done) {
        step(&*reader, &mut rng)?;
        done += 1;
    }
    Ok((done, begun, Instant::now()))
}

/// Looks up a key that is there; its version.
///
/// # Errors
///
/// When it is not found, or with a foreign value.
fn must_get<R: Read + ?Sized>(
    reader: &R,
    order: Order,
    number: u64,
    value_len: usize,
) -> Result<u32> {
    let key = Key::of(order, number);
    let mut stamp = None;
    let is_there = reader.get(key.bytes(), &mut |value| {
        stamp = Some(stamp_of(value, value_len));
    })?;
    let name = key.bytes().escape_ascii();
    match (is_there, stamp) {
        (true, Some(stamp)) => match stamp? {
            (found, version) if found == number => Ok(version),
            (found, _) => Err(format!("{name} has the value of key {found}, not {number}").into()),
        },
        _ => Err(format!("{name} (number {number}) is missing").into()),
    }
}

/// Looks up a key that is not there.
///
/// # Errors
///
/// When it is found.
fn must_miss<R: Read + ?Sized>(reader: &R, key: &Key) -> Result<()> {
    if reader.get(key.bytes(), &mut |_| ())? {
        let name = key.bytes().escape_ascii();
        return Err(format!("{name} was found and was never written, or was deleted").into());
    }
    Ok(())
}

/// Scans so many entries from a key that is there, or those up to the last of all.
///
/// # Errors
///
/// When the key is not the first, entries are out of order, or too few.
fn must_scan<R: Read + ?Sized>(reader: &R, from: &Key, limit: usize, greatest: &Key) -> Result<()> {
    let mut last = Vec::with_capacity(32);
    let mut is_first_right = false;
    let mut is_ordered = true;
    let mut bytes = 0;
    let count = reader.scan(from.bytes(), limit, &mut |key, value| {
        if last.is_empty() {
            is_first_right = key == from.bytes();
        } else {
            is_ordered &= last.as_slice() < key;
        }
        last.clear();
        last.extend_from_slice(key);
        bytes += value.len();
    })?;
    std::hint::black_box(bytes);
    let name = from.bytes().escape_ascii();
    let is_whole = count == limit || last == greatest.bytes();
    match (is_first_right, is_ordered, is_whole) {
        (true, true, true) => Ok(()),
        (false, ..) => Err(format!("a scan from {name} does not begin with it").into()),
        (_, false, _) => Err(format!("a scan from {name} is out of order").into()),
        (.., false) => Err(format!("a scan from {name} ends after {count} entries").into()),
    }
}
