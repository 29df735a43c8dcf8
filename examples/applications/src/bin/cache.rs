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

use std::collections::HashMap;
use std::path::PathBuf;
use std::process::ExitCode;

use applications::cache::{Cache, Lfu, Lru, Quick};
use applications::che::lru_hit_rate;
use applications::numbers::grouped;
use applications::replay::{Outcome, replay, share};
use applications::trace::{Catalogue, Trace};
use applications::{Cell, Error, Line, Options, Plot, Report, Result, Scale, Table, program};
use clap::Parser;
use criba_filters::{Classic, Design, Insert, KeyHash, Membership};

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

fn main() -> ExitCode {
    program(|args: &Args| &args.options, run)
}

/// The capacity of the cache, as a share of the bytes of all objects.
const CAPACITY: f64 = 0.05;
const CAPACITIES: [f64; 5] = [0.01, 0.02, CAPACITY, 0.1, 0.2];
/// The false-positive rate of a generation that is full.
const RATE: f64 = 0.01;
/// A generation has room for this share of the distinct objects.
const GENERATION: f64 = 0.125;
/// The frequency of the n-th object is `1 / n^EXPONENT`.
const EXPONENT: f64 = 0.9;

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
    describe(&mut report, [(&made, Some(&catalogue)), (&recorded, None)]);
    compare(&mut report, &made, Some(&catalogue))?;
    compare(&mut report, &recorded, None)?;
    wrong_answers(&mut report, &made)?;
    resize(&mut report, &made)?;
    Ok(report)
}

/// Says whether an object was asked for before, and forgets what was long ago.
struct Seen {
    design: Design,
    current: Generation,
    /// Asked as well, until the current one is full.
    previous: Vec<Generation>,
    /// The same without a filter: the number of the generation in which each object was last asked for.
    exactly: HashMap<u64, u64>,
    generations: u64,
    oldest: u64,
    /// How often an object was asked for that is not in it, and how often the answer was "maybe".
    absent: u64,
    wrong: u64,
    wrong_expected: f64,
}

struct Generation {
    filter: Classic,
    /// The share of its bits that is set, calculated.
    fill: f64,
}

impl Generation {
    fn new(design: Design) -> Result<Generation> {
        let filter = Classic::new(design)?;
        Ok(Generation { filter, fill: 0.0 })
    }

    fn rate(&self) -> f64 {
        self.fill.powf(self.filter.design().probes.into())
    }

    /// The key is one that the filter has denied. So at least one of its bits is new, and it sets more bits
    /// than the textbook says, which lets all keys in: `k (1 - fill)` of them, over `1 - fill^k`.
    fn insert(&mut self, key: KeyHash) -> Result<()> {
        let design = self.filter.design();
        let new_bits = f64::from(design.probes) * (1.0 - self.fill) / (1.0 - self.rate());
        self.fill += new_bits / design.bits as f64;
        Ok(self.filter.insert(key)?)
    }
}

impl Seen {
    /// With room for so many objects in a generation.
    fn new(objects: f64, rate: f64) -> Result<Seen> {
        let design = Design::for_rate((objects as u64).max(1), rate)?;
        Ok(Seen {
            design,
            current: Generation::new(design)?,
            previous: Vec::new(),
            exactly: HashMap::new(),
            generations: 0,
            oldest: 0,
            absent: 0,
            wrong: 0,
            wrong_expected: 0.0,
        })
    }

    /// Whether the object was asked for before. From now on it was.
    fn again(&mut self, object: u64) -> Result<bool> {
        let key = KeyHash::from(&object.to_le_bytes());
        let is_in_current = self.current.filter.may_contain(key);
        let is_in = |generation: &Generation| generation.filter.may_contain(key);
        let answer = is_in_current || self.previous.iter().any(is_in);
        self.check(object, answer)?;
        if !is_in_current {
            if self.current.filter.len() >= self.design.keys {
                self.previous = vec![self.begin()?];
                self.oldest = self.generations - 1;
            }
            self.current.insert(key)?;
        }
        self.exactly.insert(object, self.generations);
        Ok(answer)
    }

    /// Begins a generation, and returns the one before.
    fn begin(&mut self) -> Result<Generation> {
        self.generations += 1;
        let next = Generation::new(self.design)?;
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

    /// "No" must be certain. "Maybe" may be wrong, which is counted.
    fn check(&mut self, object: u64, answer: bool) -> Result<()> {
        let last = self.exactly.get(&object);
        if last.is_none_or(|generation| *generation < self.oldest) {
            let denied: f64 = self.generations().map(|each| 1.0 - each.rate()).product();
            self.wrong_expected += 1.0 - denied;
            self.absent += 1;
            self.wrong += u64::from(answer);
        } else if !answer {
            let what = format!("object {object} was asked for before");
            return Err(Error::Wrong(what));
        }
        Ok(())
    }

    fn bytes(&self) -> u64 {
        let bits = self.generations().map(|each| each.filter.bits());
        bits.sum::<u64>() / 8
    }
}

/// Names of the policies, and their colours in the plots. The first and the last are compared.
const POLICIES: [(&str, &str); 4] = [
    ("LRU", "second"),
    ("LFU", "third"),
    ("quick_cache", "fourth"),
    ("filter, then LRU", "first"),
];

fn capacity(trace: &Trace, share: f64) -> u64 {
    (trace.bytes as f64 * share).ceil() as u64
}

fn filter(trace: &Trace, rate: f64) -> Result<Seen> {
    Seen::new(trace.objects as f64 * GENERATION, rate)
}

/// Replays a trace with one of the policies.
fn outcome_of(policy: &str, trace: &Trace, share: f64) -> Result<Outcome> {
    let capacity = capacity(trace, share);
    let mut cache: Box<dyn Cache> = match policy {
        "LFU" => Box::new(Lfu::new(capacity)),
        "quick_cache" => Box::new(Quick::new(capacity, trace.bytes / trace.objects)),
        _ => Box::new(Lru::new(capacity)),
    };
    let mut filter = filter(trace, RATE)?;
    let mut is_kept = |object| Ok(policy != POLICIES[3].0 || filter.again(object)?);
    let outcome = replay(&trace.requests, &mut *cache, &mut is_kept)?;
    if cache.bytes() > capacity {
        let what = format!("{policy} holds more than its {capacity} bytes");
        return Err(Error::Wrong(what));
    }
    Ok(outcome)
}

fn describe(report: &mut Report, traces: [(&Trace, Option<&Catalogue>); 2]) {
    let heads = [
        "trace",
        "requests",
        "objects",
        "one-hit wonders",
        "share",
        "expected",
        "bytes",
    ];
    let mut table = Table::new("The traces", &heads);
    for (trace, catalogue) in traces {
        let requests = trace.requests.len() as u64;
        let expected = catalogue.map(|catalogue| catalogue.one_hit_wonders(requests));
        table.row([
            trace.name.as_str().into(),
            requests.into(),
            trace.objects.into(),
            trace.one_hit_wonders.into(),
            share(trace.one_hit_wonders, trace.objects),
            expected.map_or(Cell::None, Cell::Share),
            Cell::Bytes(trace.bytes),
        ]);
    }
    report.table(table);
}

/// All policies on a trace.
fn compare(report: &mut Report, trace: &Trace, catalogue: Option<&Catalogue>) -> Result<()> {
    let percent = 100.0 * CAPACITY;
    let title = format!("{}: a cache of {percent} % of all bytes", trace.name);
    let heads = [
        "policy",
        "hit rate",
        "expected",
        "byte hit rate",
        "writes",
        "bytes written",
        "of LRU",
        "for nothing",
    ];
    let mut table = Table::new(title, &heads);
    // Che's approximation is one of LRU.
    let calculated = catalogue.map(|catalogue| expected(catalogue, trace));
    let lru = outcome_of("LRU", trace, CAPACITY)?;
    let (mut hits, mut written, mut last) = (Vec::new(), Vec::new(), lru);
    for (policy, colour) in POLICIES {
        let mut points = (Vec::new(), Vec::new());
        for share in CAPACITIES {
            let outcome = outcome_of(policy, trace, share)?;
            points.0.push((100.0 * share, 100.0 * outcome.hit_rate()));
            points.1.push((100.0 * share, outcome.written as f64 / 1e6));
            if share == CAPACITY {
                last = outcome;
            }
        }
        hits.push(Line::dots(colour, policy, points.0));
        written.push(Line::dots(colour, policy, points.1));
        let of_lru = calculated.as_ref().filter(|_| policy == "LRU");
        table.row([
            policy.into(),
            share(last.hits, last.requests),
            of_lru.map_or(Cell::None, |points| Cell::Share(points[2].1 / 100.0)),
            share(last.hit_bytes, last.bytes),
            last.writes.into(),
            Cell::Bytes(last.written),
            share(last.written, lru.written),
            share(last.for_nothing, last.writes),
        ]);
    }
    report.table(table);
    hits.extend(calculated.map(|points| Line::new("second", "LRU, calculated", points)));
    for (title, lines) in [("hit rate, percent", hits), ("megabytes written", written)] {
        report.plot(Plot {
            title: format!("{}: {title}", trace.name),
            across: "capacity of the cache, percent of all bytes".into(),
            scales: (Scale::Logarithmic, Scale::Linear),
            lines,
        });
    }
    if lru.written == 0 {
        return Ok(());
    }
    report.conclude(format!(
        "{}: behind the filter, LRU writes {:.1} % of the bytes that it writes alone. Its hit rate is {:.1} % \
         instead of {:.1} %.",
        trace.name,
        100.0 * last.written as f64 / lru.written as f64,
        100.0 * last.hit_rate(),
        100.0 * lru.hit_rate(),
    ));
    Ok(())
}

/// The hit rate of LRU at each capacity, in percent.
fn expected(catalogue: &Catalogue, trace: &Trace) -> Vec<(f64, f64)> {
    let (objects, requests) = (catalogue.objects(), trace.requests.len() as f64);
    let rate = |share| lru_hit_rate(&objects, capacity(trace, share) as f64, requests);
    let at = |share: f64| (100.0 * share, 100.0 * rate(share));
    CAPACITIES.into_iter().map(at).collect()
}

/// The cost of the filter's false positives.
fn wrong_answers(report: &mut Report, trace: &Trace) -> Result<()> {
    let heads = [
        "rate",
        "filter",
        "filter expected",
        "asked first",
        "wrong",
        "wrong expected",
        "one-hit kept",
        "kept expected",
        "bytes written",
        "hit rate",
    ];
    let mut table = Table::new("Rates of a full generation, made-up trace", &heads);
    let mut rows = Vec::new();
    for rate in [0.001, 0.01, 0.05, 0.2] {
        let mut seen = filter(trace, rate)?;
        let mut cache = Lru::new(capacity(trace, CAPACITY));
        let outcome = replay(&trace.requests, &mut cache, &mut |object| {
            seen.again(object)
        })?;
        // Bloom (1970), at its best number of probes: log2(1/p) / ln 2 bits for each key.
        let bits = 2.0 * seen.design.keys as f64 * (1.0 / rate).log2() / std::f64::consts::LN_2;
        let wrong = seen.wrong_expected / seen.absent as f64;
        table.row([
            Cell::Share(rate),
            Cell::Bytes(seen.bytes()),
            Cell::Bytes((bits / 8.0) as u64),
            seen.absent.into(),
            seen.wrong.into(),
            Cell::Number(seen.wrong_expected, 0),
            outcome.for_nothing.into(),
            Cell::Number(wrong * trace.one_hit_wonders as f64, 0),
            Cell::Bytes(outcome.written),
            Cell::Share(outcome.hit_rate()),
        ]);
        rows.push((seen.bytes() as f64 / 1e3, outcome));
    }
    report.table(table);
    let [_, (large, few), (small, many), _] = rows[..] else {
        return Ok(());
    };
    report.conclude(format!(
        "A rate of 5 % instead of 1 % makes the filter {small:.1} KB instead of {large:.1} KB. The cache keeps {} \
         one-hit wonders instead of {}, and writes {:.0} % more bytes.",
        grouped(many.for_nothing),
        grouped(few.for_nothing),
        100.0 * (many.written as f64 / few.written as f64 - 1.0),
    ));
    Ok(())
}

/// The parts of a trace for which the hit rate is shown.
const PARTS: usize = 48;
const MIDDLE: usize = PARTS / 2;

/// In the middle of the trace the filter gets another size.
fn resize(report: &mut Report, trace: &Trace) -> Result<()> {
    let heads = [
        "filter",
        "keys",
        "hit rate before",
        "hit rate after",
        "hit rate at last",
        "writes before",
        "writes after",
    ];
    let mut table = Table::new("Another size in the middle, made-up trace", &heads);
    let (mut hits, mut writes, mut after) = (Vec::new(), Vec::new(), Vec::new());
    for (name, factor, colour) in [
        ("as before", 1.0, "none"),
        ("twice as large", 2.0, "first"),
        ("half as large", 0.5, "second"),
        ("empty, twice as large", 2.0, "third"),
    ] {
        let mut seen = filter(trace, RATE)?;
        let mut cache = Lru::new(capacity(trace, CAPACITY));
        let mut parts = Vec::new();
        for requests in trace.requests.chunks(trace.requests.len() / PARTS) {
            if parts.len() == MIDDLE && colour == "third" {
                seen = Seen::new(seen.design.keys as f64 * factor, RATE)?;
            } else if parts.len() == MIDDLE && colour != "none" {
                seen.resize(factor)?;
            }
            parts.push(replay(requests, &mut cache, &mut |object| {
                seen.again(object)
            })?);
        }
        let [before, later, last] = [MIDDLE - 1, MIDDLE, PARTS - 1].map(|part| parts[part]);
        table.row([
            name.into(),
            seen.design.keys.into(),
            Cell::Share(before.hit_rate()),
            Cell::Share(later.hit_rate()),
            Cell::Share(last.hit_rate()),
            before.writes.into(),
            later.writes.into(),
        ]);
        after.push(later);
        let shown = || (MIDDLE - 12..MIDDLE + 12).map(|part| (part as f64 + 0.5, &parts[part]));
        let place = |part: f64| 100.0 * part / PARTS as f64;
        let points = shown().map(|(part, of_it)| (place(part), 100.0 * of_it.hit_rate()));
        hits.push(Line::dots(colour, name, points.collect()));
        let points = shown().map(|(part, of_it)| (place(part), of_it.writes as f64));
        writes.push(Line::dots(colour, name, points.collect()));
    }
    report.table(table);
    for (title, lines) in [("hit rate, percent", hits), ("objects written", writes)] {
        report.plot(Plot {
            title: format!("The filter gets another size at 50: {title}"),
            across: "requests, percent of the trace".into(),
            scales: (Scale::Linear, Scale::Linear),
            lines,
        });
    }
    report.conclude(format!(
        "In the first part after the change, the cache writes {} objects if the filter keeps its old generations, \
         and {} if it begins empty. The hit rate is {:.1} % and {:.1} %: what is in the cache stays there.",
        after[1].writes,
        after[3].writes,
        100.0 * after[1].hit_rate(),
        100.0 * after[3].hit_rate(),
    ));
    Ok(())
}
