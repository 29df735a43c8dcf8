//! Proxies that know of each other.
//!
//! Each proxy has a cache and clients of its own. At a miss, another proxy may have the object. To ask all of
//! them costs many messages. So each sends the others a digest of its content: the bits of a Bloom filter. A
//! proxy asks only those whose digest says "maybe".
//!
//! Fan, Cao, Almeida, Broder, "Summary cache: a scalable wide-area web cache sharing protocol" (2000),
//! sections IV and V. Squid calls it cache digests.
//!
//! A digest is wrong in three ways. The filter takes an object for another (a false positive). An object has
//! left the cache since the digest was sent (a stale entry). An object has come since (a false miss). The
//! first costs bits; the other two depend on how often digests are sent.
//!
//! The expectations are derived in `applications::sharing`.

use std::collections::HashSet;
use std::process::ExitCode;

use applications::bits::{apply, bits_of, changes, changes_for};
use applications::cache::{Cache, Lru};
use applications::clients::Clients;
use applications::numbers::grouped;
use applications::sharing::{Expected, Theory};
use applications::{
    Cell, Error, Line, Options, Plot, Random, Report, Result, Scale, Table, program,
};
use clap::Parser;
use criba_filters::{CountingBloom, Delete, Insert, KeyHash, Membership};

/// Shares caches among proxies by digests of their contents.
#[derive(Parser, Debug)]
#[command(name = "proxies", version)]
struct Args {
    #[command(flatten)]
    options: Options,
}

fn main() -> ExitCode {
    program(|args: &Args| &args.options, |args| run(&args.options))
}

const PROXIES: usize = 8;
/// The false-positive rate of the digests, if not another one is measured.
const RATE: f64 = 0.01;
// The sizes of messages in sections V.D and VI.A of the paper, in bytes.
/// A head and an address.
const QUESTION: u64 = 70;
/// The head of an update.
const HEAD: u64 = 32;
/// The place of a bit and its new value.
const CHANGE: u64 = 4;

/// How large everything is. Times are requests of one proxy.
struct World {
    clients: Clients,
    /// Objects that fit into a cache.
    capacity: u64,
    /// Requests before the measurement, and during it.
    before: u64,
    measured: u64,
    seed: u64,
}

fn run(options: &Options) -> Result<Report> {
    let size = options.size(10, 1);
    let world = World {
        clients: Clients::new(PROXIES as u64, 5_000 * size, 0.8, options.seed),
        capacity: 400 * size,
        before: 4_000 * size,
        measured: 3_000 * size,
        seed: options.seed,
    };
    let mut report = Report::new(
        "proxies",
        "Proxies that know of each other",
        "How often must proxies exchange digests of their caches, and what do the wrong answers cost?",
    );
    let theory = Theory::new(&world.clients, world.capacity);
    // Digests that are always up to date and never wrong find as much as a question to everybody.
    let all = theory.expected(0.0, 0.0);
    let nothing = Expected {
        remote: 0.0,
        false_misses: all.remote,
        ..all
    };
    let mut runs = vec![
        Run::new(&world, Sharing::Never, nothing)?,
        Run::new(&world, Sharing::Always, all)?,
    ];
    let rate = filter(&world, RATE)?.rate_with(world.capacity);
    for interval in [10, 30, 100, 300, 1_000, 3_000].map(|interval| interval * size) {
        let sharing = Sharing::Digests {
            interval,
            rate: RATE,
        };
        runs.push(Run::new(
            &world,
            sharing,
            theory.expected(interval as f64, rate),
        )?);
    }
    compare(&mut report, &runs);
    let by_digests = &runs[2..];
    in_vain(&mut report, by_digests, rate);
    exchanges(&mut report, &world, by_digests)?;
    rates(&mut report, &world, 100 * size)?;
    Ok(report)
}

fn filter(world: &World, rate: f64) -> Result<CountingBloom> {
    Ok(CountingBloom::with_rate(world.capacity, rate)?)
}

/// When a proxy asks others.
#[derive(Clone, Copy)]
enum Sharing {
    Never,
    /// All others, as with the Internet Cache Protocol (ICP).
    Always,
    /// Those whose digest says "maybe".
    Digests {
        interval: u64,
        rate: f64,
    },
}

struct Run {
    sharing: Sharing,
    counts: Counts,
    expected: Expected,
}

impl Run {
    fn new(world: &World, sharing: Sharing, expected: Expected) -> Result<Run> {
        let counts = simulate(world, sharing)?;
        Ok(Run {
            sharing,
            counts,
            expected,
        })
    }

    /// Requests of a proxy from one exchange to the next.
    fn interval(&self) -> u64 {
        match self.sharing {
            Sharing::Digests { interval, .. } => interval,
            Sharing::Never | Sharing::Always => 0,
        }
    }

    /// A measured number and a calculated one, as shares of the requests in percent.
    fn percent(&self, measured: u64, calculated: f64) -> (f64, f64) {
        (100.0 * self.counts.share(measured), 100.0 * calculated)
    }
}

struct Proxy {
    cache: Lru,
    /// The content of the cache. It must forget, so it counts.
    filter: CountingBloom,
    /// The filter as it was when the others got it. They see only which counters are not zero.
    digest: CountingBloom,
    /// These bits, as the others have them: the first digest, with all changes applied.
    bits: Vec<u8>,
    /// The content at that time, exactly.
    announced: HashSet<u64>,
    /// How many objects are in the cache that were not announced.
    new: u64,
}

fn key(object: u64) -> KeyHash {
    KeyHash::from(&object.to_le_bytes())
}

impl Proxy {
    fn new(capacity: u64, filter: CountingBloom) -> Proxy {
        Proxy {
            cache: Lru::new(capacity),
            digest: filter.clone(),
            bits: bits_of(&filter),
            filter,
            announced: HashSet::new(),
            new: 0,
        }
    }

    /// Puts an object into the cache, in place of the one that was not used for the longest time.
    fn keep(&mut self, object: u64) -> Result<()> {
        for gone in self.cache.make_room(1) {
            self.filter.remove(key(gone));
            self.new -= u64::from(!self.announced.contains(&gone));
        }
        self.cache.insert(object, 1);
        self.filter.insert(key(object))?;
        self.new += u64::from(!self.announced.contains(&object));
        Ok(())
    }

    /// Sends the others the bits that have changed. Returns their number.
    fn announce(&mut self) -> Result<u64> {
        let bits = bits_of(&self.filter);
        let changes = changes(&self.bits, &bits);
        apply(&changes, &mut self.bits);
        if self.bits != bits {
            return Err(Error::Wrong(
                "the changes do not give the new digest".into(),
            ));
        }
        self.digest = self.filter.clone();
        self.announced = self.cache.iter().collect();
        self.new = 0;
        Ok(changes.len() as u64)
    }
}

/// The events at all proxies together.
#[derive(Default)]
struct Counts {
    requests: u64,
    local: u64,
    remote: u64,
    /// A proxy had the object, and nobody who had it was asked.
    false_misses: u64,
    questions: u64,
    /// Questions in vain: the object was never announced, or it has left.
    false_positives: u64,
    stale: u64,
    /// Digests that were read for an object that was not announced, and those that said "maybe".
    unannounced: u64,
    maybe: u64,
    /// Digests that were read, and the objects in these caches that were not announced, summed up.
    reads: u64,
    new: u64,
    exchanges: u64,
    /// The same at the exchanges, and the bits that the exchange changed.
    new_at_last: u64,
    changed_bits: u64,
    /// Bits of a digest.
    digest: u64,
}

fn simulate(world: &World, sharing: Sharing) -> Result<Counts> {
    let mut random = Random::new(world.seed, 0);
    let filter = match sharing {
        Sharing::Digests { rate, .. } => filter(world, rate)?,
        Sharing::Never | Sharing::Always => filter(world, RATE)?,
    };
    let new = |_| Proxy::new(world.capacity, filter.clone());
    let mut proxies: Vec<Proxy> = (0..PROXIES).map(new).collect();
    let mut counts = Counts::default();
    for now in 0..world.before + world.measured {
        if now == world.before {
            counts = Counts::default();
        }
        if let Sharing::Digests { interval, .. } = sharing {
            // They do not send all at the same time.
            let is_due = |at: u64| (now + at * interval / PROXIES as u64).is_multiple_of(interval);
            for (proxy, _) in proxies.iter_mut().zip(0..).filter(|(_, at)| is_due(*at)) {
                counts.exchanges += 1;
                counts.new_at_last += proxy.new;
                counts.changed_bits += proxy.announce()?;
            }
        }
        for at in 0..PROXIES {
            let object = world.clients.draw(at, &mut random);
            counts.requests += 1;
            if proxies[at].cache.get(object) {
                counts.local += 1;
                continue;
            }
            let others = proxies.iter().enumerate().filter(|other| other.0 != at);
            ask(others.map(|other| other.1), object, (sharing, &mut counts))?;
            // It comes from another proxy or from its origin, and the cache keeps it.
            proxies[at].keep(object)?;
        }
    }
    counts.digest = filter.shape().0;
    Ok(counts)
}

/// Asks the others for an object. It is no use of it in their caches.
fn ask<'a>(
    others: impl Iterator<Item = &'a Proxy>,
    object: u64,
    (sharing, counts): (Sharing, &mut Counts),
) -> Result<()> {
    let (mut is_found, mut is_somewhere) = (false, false);
    for other in others {
        let has_it = other.cache.contains(object);
        is_somewhere |= has_it;
        let is_asked = match sharing {
            Sharing::Never => false,
            Sharing::Always => true,
            Sharing::Digests { .. } => other.digest.may_contain(key(object)),
        };
        counts.questions += u64::from(is_asked);
        is_found |= is_asked && has_it;
        if let Sharing::Digests { .. } = sharing {
            let is_announced = other.announced.contains(&object);
            if is_announced && !is_asked {
                let what = format!("object {object} is not in the digest that announced it");
                return Err(Error::Wrong(what));
            }
            counts.reads += 1;
            counts.new += other.new;
            counts.unannounced += u64::from(!is_announced);
            counts.maybe += u64::from(is_asked && !is_announced);
            counts.false_positives += u64::from(is_asked && !has_it && !is_announced);
            counts.stale += u64::from(!has_it && is_announced);
        }
    }
    counts.remote += u64::from(is_found);
    counts.false_misses += u64::from(is_somewhere && !is_found);
    Ok(())
}

impl Counts {
    fn share(&self, count: u64) -> f64 {
        count as f64 / self.requests as f64
    }

    fn at_exchange(&self, count: u64) -> f64 {
        count as f64 / self.exchanges as f64
    }

    /// Bytes of all updates to one of the others: of changes, and of whole digests.
    fn updates(&self) -> (u64, u64) {
        let heads = self.exchanges * HEAD;
        let digests = self.exchanges * self.digest.div_ceil(8);
        (heads + self.changed_bits * CHANGE, heads + digests)
    }

    /// Bytes between proxies for each request, without the objects.
    fn traffic(&self) -> f64 {
        let (changes, digests) = self.updates();
        let updates = changes.min(digests) * (PROXIES as u64 - 1);
        self.share(self.questions * QUESTION + updates)
    }
}

/// A name, a colour, and for each run a measured value and a calculated one.
type Series<'a> = (&'a str, &'static str, &'a dyn Fn(&Run) -> (f64, f64));

/// Adds dots for what was measured, and lines for what was calculated, by interval.
fn plot(report: &mut Report, runs: &[Run], (title, up): (&str, Scale), series: &[Series<'_>]) {
    let mut lines = Vec::new();
    for (name, colour, values) in series {
        let points = runs.iter().map(|run| (run.interval() as f64, values(run)));
        let (measured, calculated) = points.map(|(x, (y, line))| ((x, y), (x, line))).unzip();
        lines.push(Line::new(colour, format!("{name}, calculated"), calculated));
        lines.push(Line::dots(colour, *name, measured));
    }
    report.plot(Plot {
        title: title.into(),
        across: "requests of a proxy from one exchange to the next".into(),
        scales: (Scale::Logarithmic, up),
        lines,
    });
}

/// Digests beside asking nobody and asking everybody.
fn compare(report: &mut Report, runs: &[Run]) {
    let heads = [
        "asked",
        "interval",
        "local",
        "local expected",
        "remote",
        "remote expected",
        "false misses",
        "expected",
        "questions",
        "traffic",
    ];
    let mut table = Table::new(
        "Hits, false misses, questions and bytes, for each request",
        &heads,
    );
    for Run {
        sharing,
        counts,
        expected,
    } in runs
    {
        let (asked, interval) = match sharing {
            Sharing::Never => ("nobody", Cell::None),
            Sharing::Always => ("everybody", Cell::None),
            Sharing::Digests { interval, .. } => ("by digests", Cell::Count(*interval)),
        };
        table.row([
            asked.into(),
            interval,
            Cell::Share(counts.share(counts.local)),
            Cell::Share(expected.local),
            Cell::Share(counts.share(counts.remote)),
            Cell::Share(expected.remote),
            Cell::Share(counts.share(counts.false_misses)),
            Cell::Share(expected.false_misses),
            Cell::Number(counts.share(counts.questions), 3),
            Cell::Number(counts.traffic(), 1),
        ]);
    }
    report.table(table);
    let title = ("False misses, percent of the requests", Scale::Linear);
    let values = |run: &Run| run.percent(run.counts.false_misses, run.expected.false_misses);
    plot(
        report,
        &runs[2..],
        title,
        &[("false misses", "first", &values)],
    );
    let (always, middle) = (&runs[1].counts, &runs[runs.len() / 2]);
    report.conclude(format!(
        "With digests after every {} requests, the proxies find {:.1} % of the objects that they find by asking \
         everybody, with {:.1} % of the questions and {:.0} % of the bytes.",
        grouped(middle.interval()),
        100.0 * middle.counts.remote as f64 / always.remote as f64,
        100.0 * middle.counts.questions as f64 / always.questions as f64,
        100.0 * middle.counts.traffic() / always.traffic(),
    ));
}

/// Questions for objects that are not there.
fn in_vain(report: &mut Report, runs: &[Run], rate: f64) {
    let heads = [
        "interval",
        "questions",
        "false positives",
        "expected",
        "stale",
        "stale expected",
        "filter rate",
        "rate expected",
    ];
    let mut table = Table::new("Questions in vain, as shares of the requests", &heads);
    for run in runs {
        let (counts, expected) = (&run.counts, &run.expected);
        table.row([
            run.interval().into(),
            counts.questions.into(),
            Cell::Share(counts.share(counts.false_positives)),
            Cell::Share(expected.false_positives),
            Cell::Share(counts.share(counts.stale)),
            Cell::Share(expected.stale),
            Cell::Share(counts.maybe as f64 / counts.unannounced as f64),
            Cell::Share(rate),
        ]);
    }
    report.table(table);
    let wrong = |run: &Run| run.percent(run.counts.false_positives, run.expected.false_positives);
    let stale = |run: &Run| run.percent(run.counts.stale, run.expected.stale);
    let series: [Series<'_>; 2] = [
        ("false positives", "second", &wrong),
        ("stale entries", "first", &stale),
    ];
    let title = ("Questions in vain, percent of the requests", Scale::Linear);
    plot(report, runs, title, &series);
}

/// The changes from one exchange to the next, and the cost of sending them.
fn exchanges(report: &mut Report, world: &World, runs: &[Run]) -> Result<()> {
    let heads = [
        "interval",
        "new at last",
        "at last expected",
        "new in the mean",
        "mean expected",
        "bits changed",
        "bits expected",
        "changes",
        "digest",
    ];
    let objects = world.capacity as f64;
    let title = format!(
        "Each exchange of a proxy with {} objects",
        grouped(world.capacity)
    );
    let mut table = Table::new(title, &heads);
    let shape = filter(world, RATE)?.shape();
    let expected = |run: &Run| changes_for(shape, objects, run.expected.new_at_last);
    for run in runs {
        let counts = &run.counts;
        let (changes, digests) = counts.updates();
        table.row([
            run.interval().into(),
            Cell::Number(counts.at_exchange(counts.new_at_last), 1),
            Cell::Number(run.expected.new_at_last, 1),
            Cell::Share(counts.new as f64 / counts.reads as f64 / objects),
            Cell::Share(run.expected.new / objects),
            Cell::Number(counts.at_exchange(counts.changed_bits), 1),
            Cell::Number(expected(run), 1),
            Cell::Bytes(counts.at_exchange(changes) as u64),
            Cell::Bytes(counts.at_exchange(digests) as u64),
        ]);
    }
    report.table(table);
    let updates = |run: &Run| {
        let (changes, digests) = run.counts.updates();
        (run.counts.share(changes), run.counts.share(digests))
    };
    let calculated = |run: &Run, bytes: f64| (HEAD as f64 + bytes) / run.interval() as f64;
    let changes = |run: &Run| {
        (
            updates(run).0,
            calculated(run, CHANGE as f64 * expected(run)),
        )
    };
    let digests = |run: &Run| (updates(run).1, calculated(run, shape.0.div_ceil(8) as f64));
    let series: [Series<'_>; 2] = [
        ("changes", "first", &changes),
        ("whole digests", "second", &digests),
    ];
    let title = (
        "Bytes of updates to one proxy, for each request",
        Scale::Logarithmic,
    );
    plot(report, runs, title, &series);
    let is_less = |run: &&Run| run.counts.updates().0 < run.counts.updates().1;
    if let Some(run) = runs.iter().rfind(is_less) {
        report.conclude(format!(
            "The changes are smaller than the whole digest up to an interval of {} requests, among those that were \
             tried. {:.1} % of the objects are then new at an exchange.",
            grouped(run.interval()),
            100.0 * run.counts.at_exchange(run.counts.new_at_last) / objects,
        ));
    }
    Ok(())
}

/// The false positives of smaller and larger digests.
fn rates(report: &mut Report, world: &World, interval: u64) -> Result<()> {
    let title = format!(
        "Digests of other sizes, after every {} requests",
        grouped(interval)
    );
    let heads = [
        "rate expected",
        "counters",
        "digest",
        "filter rate",
        "false positives",
        "stale",
        "false misses",
        "traffic",
    ];
    let mut table = Table::new(title, &heads);
    let mut least: (f64, f64) = (f64::INFINITY, 0.0);
    for rate in [0.1, 0.03, 0.01, 0.001] {
        let counts = simulate(world, Sharing::Digests { interval, rate })?;
        table.row([
            Cell::Share(filter(world, rate)?.rate_with(world.capacity)),
            Cell::Bytes(counts.digest / 2),
            Cell::Bytes(counts.digest / 8),
            Cell::Share(counts.maybe as f64 / counts.unannounced as f64),
            counts.false_positives.into(),
            counts.stale.into(),
            counts.false_misses.into(),
            Cell::Number(counts.traffic(), 1),
        ]);
        if counts.traffic() < least.0 {
            least = (counts.traffic(), rate);
        }
    }
    report.table(table);
    report.conclude(format!(
        "Among these rates, {} % needs the fewest bytes between proxies: {:.1} for each request. At a lower one the \
         digests are larger, at a higher one more questions are in vain.",
        100.0 * least.1,
        least.0,
    ));
    Ok(())
}
