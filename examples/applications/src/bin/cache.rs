//! A cache that ignores one-hit wonders.
//!
//! Three quarters of the objects that a content delivery network serves are requested once and never again.
//! Keeping them fills the disk for nothing. So a Bloom filter notes the objects that were asked for, and the
//! cache keeps an object only at its second request.
//!
//! Maggs, Sitaraman, "Algorithmic nuggets in content delivery" (2015), section on Bloom filters.
//!
//! The filter must forget, or it would fill up. It has generations: when the current one holds the keys that
//! it was made for, a new one begins, and only the one before it is asked as well. A wrong "maybe" keeps an
//! object at its first request. That costs a write, and never gives a wrong answer.

use std::path::PathBuf;
use std::process::ExitCode;

use applications::cache::{Cache, Lfu, Lru, Quick};
use applications::cache_report::{self, Comparison, Rate, Resize};
use applications::che::lru_hit_rate;
use applications::generations::{Check, Fill};
use applications::replay::{Outcome, replay};
use applications::trace::{Catalogue, Request, Trace};
use applications::{Options, Report, Result, program};
use clap::Parser;
use criba_filters::{Classic, Design, Insert, KeyHash, Membership};

/// The capacity of the cache, as a share of the bytes of all objects.
const CAPACITY: f64 = CAPACITIES[SHOWN];
const CAPACITIES: [f64; 5] = [0.01, 0.02, 0.05, 0.1, 0.2];
const SHOWN: usize = 2;
/// The false-positive rate of a generation that is full.
const RATE: f64 = 0.01;
/// A generation has room for this share of the distinct objects.
const GENERATION: f64 = 0.125;
/// The frequency of the n-th object is `1 / n^EXPONENT`.
const EXPONENT: f64 = 0.9;

/// Says whether an object was asked for before, and forgets what was long ago.
struct Seen {
    design: Design,
    current: Generation,
    /// Asked as well, until the current one is full. The oldest is first.
    previous: Vec<Generation>,
    /// The same without a filter. A program that serves objects has no need of it.
    check: Check,
}

struct Generation {
    number: u64,
    filter: Classic,
    fill: Fill,
}

impl Generation {
    fn new(number: u64, design: Design) -> Result<Generation> {
        let (filter, fill) = (Classic::new(design)?, Fill::default());
        Ok(Generation {
            number,
            filter,
            fill,
        })
    }

    fn insert(&mut self, key: KeyHash) -> Result<()> {
        self.fill.insert(self.filter.design());
        Ok(self.filter.insert(key)?)
    }

    /// Its false-positive rate as calculated. It grows with each key.
    fn rate(&self) -> f64 {
        self.fill.rate(self.filter.design())
    }
}

impl Seen {
    /// With room for so many objects in a generation.
    fn new(objects: f64, rate: f64) -> Result<Seen> {
        let design = Design::for_rate((objects as u64).max(1), rate)?;
        Ok(Seen {
            design,
            current: Generation::new(0, design)?,
            previous: Vec::new(),
            check: Check::default(),
        })
    }

    /// Whether the object was asked for before. From now on it was.
    fn again(&mut self, object: u64) -> Result<bool> {
        let key = KeyHash::from(&object.to_le_bytes());
        let is_in_current = self.current.filter.may_contain(key);
        let is_in = |generation: &Generation| generation.filter.may_contain(key);
        let answer = is_in_current || self.previous.iter().any(is_in);
        self.check.answer(object, answer, self.oldest_and_rate())?;
        if !is_in_current {
            if self.current.filter.len() >= self.design.keys {
                self.previous = vec![self.begin()?];
            }
            self.current.insert(key)?;
        }
        self.check.note(object, self.current.number);
        Ok(answer)
    }

    /// Begins a generation, and returns the one before.
    fn begin(&mut self) -> Result<Generation> {
        let next = Generation::new(self.current.number + 1, self.design)?;
        Ok(std::mem::replace(&mut self.current, next))
    }

    /// From now on, generations have room for more or fewer objects. Nothing is forgotten: the old ones
    /// stay until the new one is full.
    fn resize(&mut self, factor: f64) -> Result<()> {
        let objects = (self.design.keys as f64 * factor) as u64;
        self.design = Design::for_rate(objects.max(1), RATE)?;
        let before = self.begin()?;
        self.previous.push(before);
        Ok(())
    }

    fn generations(&self) -> impl Iterator<Item = &Generation> {
        self.previous.iter().chain([&self.current])
    }

    /// The number of the oldest generation, and the rate at which any of them says "maybe" wrongly.
    fn oldest_and_rate(&self) -> (u64, f64) {
        let oldest = self.previous.first().unwrap_or(&self.current).number;
        let denied: f64 = self.generations().map(|each| 1.0 - each.rate()).product();
        (oldest, 1.0 - denied)
    }

    fn bytes(&self) -> u64 {
        let bits = self.generations().map(|each| each.filter.bits());
        bits.sum::<u64>() / 8
    }
}

fn filter(trace: &Trace, rate: f64) -> Result<Seen> {
    Seen::new(trace.objects as f64 * GENERATION, rate)
}

/// A cache that keeps each object.
fn always(requests: &[Request], cache: &mut dyn Cache) -> Result<Outcome> {
    replay(requests, cache, &mut |_| Ok(true))
}

/// A cache that keeps an object at its second request.
fn second_time(requests: &[Request], cache: &mut dyn Cache, seen: &mut Seen) -> Result<Outcome> {
    replay(requests, cache, &mut |object| seen.again(object))
}

/// All policies on a trace, at each capacity.
fn compare<'a>(trace: &'a Trace, catalogue: Option<&Catalogue>) -> Result<Comparison<'a>> {
    let requests = &trace.requests;
    let mean_size = trace.bytes / trace.objects;
    let capacities = CAPACITIES.map(|share| trace.capacity(share));
    let at_each = |outcome: &dyn Fn(u64) -> Result<Outcome>| {
        let outcomes = capacities.iter().map(|bytes| outcome(*bytes));
        outcomes.collect::<Result<Vec<Outcome>>>()
    };
    let lru = at_each(&|bytes| always(requests, &mut Lru::new(bytes)))?;
    let lfu = at_each(&|bytes| always(requests, &mut Lfu::new(bytes)))?;
    let quick = at_each(&|bytes| always(requests, &mut Quick::new(bytes, mean_size)))?;
    let behind_filter = at_each(&|bytes| {
        let mut seen = filter(trace, RATE)?;
        second_time(requests, &mut Lru::new(bytes), &mut seen)
    })?;
    let che = |catalogue: &Catalogue| {
        let (objects, requests) = (catalogue.objects(), requests.len() as f64);
        let rate = |bytes: &u64| lru_hit_rate(&objects, *bytes as f64, requests);
        capacities.iter().map(rate).collect()
    };
    Ok(Comparison {
        trace: &trace.name,
        capacities: &CAPACITIES,
        shown: SHOWN,
        policies: [
            ("LRU", lru),
            ("LFU", lfu),
            ("quick_cache", quick),
            ("filter, then LRU", behind_filter),
        ],
        expected: catalogue.map(che),
    })
}

/// False-positive rates of the filter.
fn rates(trace: &Trace) -> Result<[Rate; 4]> {
    let with = |rate: f64| -> Result<Rate> {
        let mut seen = filter(trace, rate)?;
        let mut cache = Lru::new(trace.capacity(CAPACITY));
        let outcome = second_time(&trace.requests, &mut cache, &mut seen)?;
        // Bloom (1970), at its best number of probes: log2(1/p) / ln 2 bits for each key.
        let bits = 2.0 * seen.design.keys as f64 * (1.0 / rate).log2() / std::f64::consts::LN_2;
        Ok(Rate {
            rate,
            bytes: (seen.bytes(), (bits / 8.0) as u64),
            absent: seen.check.absent,
            wrong: (seen.check.wrong, seen.check.wrong_expected),
            outcome,
        })
    };
    Ok([with(0.001)?, with(0.01)?, with(0.05)?, with(0.2)?])
}

/// The parts of a trace for which the hit rate is shown.
const PARTS: usize = 48;

/// In the middle of the trace the filter gets another size.
fn resizes(trace: &Trace) -> Result<[Resize; 4]> {
    let with = |name, change: fn(&mut Seen) -> Result<()>| -> Result<Resize> {
        let mut seen = filter(trace, RATE)?;
        let mut cache = Lru::new(trace.capacity(CAPACITY));
        let mut parts = Vec::new();
        for requests in trace.requests.chunks_exact(trace.requests.len() / PARTS) {
            if parts.len() == PARTS / 2 {
                change(&mut seen)?;
            }
            parts.push(second_time(requests, &mut cache, &mut seen)?);
        }
        let keys = seen.design.keys;
        Ok(Resize { name, keys, parts })
    };
    Ok([
        with("as before", |_| Ok(()))?,
        with("twice as large", |seen| seen.resize(2.0))?,
        with("half as large", |seen| seen.resize(0.5))?,
        with("empty, twice as large", |seen| {
            *seen = Seen::new(seen.design.keys as f64 * 2.0, RATE)?;
            Ok(())
        })?,
    ])
}

/// Compares caches that keep every object with one that keeps it at its second request.
#[derive(Parser, Debug)]
#[command(name = "cache", version)]
struct Args {
    #[command(flatten)]
    options: Options,
    /// Recorded requests [default: the files that a build opened]
    ///
    /// Each line is an object, and after a tab its size in bytes, if you like. To record a build on Linux:
    ///
    /// strace -f -y -qq -e trace=openat -o raw cargo build
    ///
    /// grep O_RDONLY raw | grep -v O_DIRECTORY | sed -n 's/.* = [0-9]*<\(\/.*\)>$/\1/p'
    /// | grep -Ev '^/(proc|dev|sys)/' | xargs -d '\n' stat -L --printf '%n\t%s\n' >trace
    #[arg(long, value_name = "FILE")]
    trace: Option<PathBuf>,
}

fn run(args: &Args) -> Result<Report> {
    let mut report = Report::new(
        "cache",
        "A cache that ignores one-hit wonders",
        "How much less does a cache write that keeps an object only at its second request, and what do \
         the wrong answers of the filter cost?",
    );
    let seed = args.options.seed;
    let requests = args.options.size(600_000, 40_000);
    // With 9 objects for 4 requests, three quarters of those that come at all come once.
    let catalogue = Catalogue::new(requests * 9 / 4, EXPONENT, seed);
    let made = catalogue.trace(requests, seed);
    let recorded = match &args.trace {
        Some(path) => Trace::read(path)?,
        None => Trace::of_a_build()?,
    };
    let traces = [(&made, Some(&catalogue)), (&recorded, None)];
    cache_report::describe(&mut report, &traces);
    for (trace, catalogue) in traces {
        cache_report::compare(&mut report, &compare(trace, catalogue)?);
    }
    cache_report::rates(&mut report, &made, &rates(&made)?);
    cache_report::resizes(&mut report, &resizes(&made)?);
    Ok(report)
}

fn main() -> ExitCode {
    program(|args: &Args| &args.options, run)
}
