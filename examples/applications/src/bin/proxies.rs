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

use std::process::ExitCode;

use applications::announced::Announced;
use applications::bits::{bits_of, send_changes};
use applications::cache::{Cache, Lru};
use applications::clients::Clients;
use applications::proxies_report::{self, Run, Size};
use applications::proxy_counts::{Counts, Reading};
use applications::sharing::{Expected, Theory};
use applications::{Options, Random, Report, Result, program};
use clap::Parser;
use criba_filters::{CountingBloom, Delete, Insert, KeyHash, Membership};

const PROXIES: usize = 8;
/// The false-positive rate of the digests, if not another one is measured.
const RATE: f64 = 0.01;

struct Proxy {
    cache: Lru,
    /// The content of the cache. It must forget, so it counts.
    filter: CountingBloom,
    /// The filter as it was when the others got it. They see only which counters are not zero.
    digest: CountingBloom,
    /// These bits, as the others have them: the first digest, with all changes applied.
    bits: Vec<u8>,
    /// The same without a filter. A proxy that serves objects has no need of it.
    announced: Announced,
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
            announced: Announced::default(),
        }
    }

    /// Puts an object into the cache, in place of the one that was not used for the longest time.
    fn keep(&mut self, object: u64) -> Result<()> {
        for gone in self.cache.make_room(1) {
            self.filter.remove(key(gone));
            self.announced.left(gone);
        }
        self.cache.insert(object, 1);
        self.filter.insert(key(object))?;
        self.announced.came(object);
        Ok(())
    }

    /// Sends the others the bits that have changed. Returns their number.
    fn announce(&mut self) -> Result<u64> {
        self.digest = self.filter.clone();
        self.announced.send(self.cache.iter());
        send_changes(&bits_of(&self.filter), &mut self.bits)
    }
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

fn filter(world: &World, rate: f64) -> Result<CountingBloom> {
    Ok(CountingBloom::with_rate(world.capacity, rate)?)
}

/// Sends requests to all proxies in turn, and counts.
fn simulate(world: &World, sharing: Sharing) -> Result<Counts> {
    let mut random = Random::new(world.seed, 0);
    let filter = match sharing {
        Sharing::Digests { rate, .. } => filter(world, rate)?,
        Sharing::Never | Sharing::Always => filter(world, RATE)?,
    };
    let new = |_| Proxy::new(world.capacity, filter.clone());
    let mut proxies: Vec<Proxy> = (0..PROXIES).map(new).collect();
    let none = || Counts {
        proxies: PROXIES as u64,
        digest: filter.shape().0,
        ..Counts::default()
    };
    let mut counts = none();
    for now in 0..world.before + world.measured {
        if now == world.before {
            counts = none();
        }
        if let Sharing::Digests { interval, .. } = sharing {
            // They do not send all at the same time.
            let is_due = |at: u64| (now + at * interval / PROXIES as u64).is_multiple_of(interval);
            for (proxy, _) in proxies.iter_mut().zip(0..).filter(|(_, at)| is_due(*at)) {
                counts.exchanges += 1;
                counts.new_at_last += proxy.announced.new;
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
            let reading = Reading {
                is_asked,
                has_it,
                is_announced: other.announced.has(object),
                new: other.announced.new,
            };
            counts.read(object, reading)?;
        }
    }
    counts.remote += u64::from(is_found);
    counts.false_misses += u64::from(is_somewhere && !is_found);
    Ok(())
}

/// Nobody is asked, and everybody.
fn without_digests(world: &World, theory: &Theory) -> Result<[Run; 2]> {
    // Digests that are always up to date and never wrong find as much as a question to everybody.
    let all = theory.expected(0.0, 0.0);
    let nothing = Expected {
        remote: 0.0,
        false_misses: all.remote,
        ..all
    };
    let run = |asked, sharing, expected| -> Result<Run> {
        Ok(Run {
            asked,
            interval: None,
            counts: simulate(world, sharing)?,
            expected,
        })
    };
    Ok([
        run("nobody", Sharing::Never, nothing)?,
        run("everybody", Sharing::Always, all)?,
    ])
}

/// Proxies that exchange digests at each of these intervals.
fn with_digests(world: &World, theory: &Theory, intervals: &[u64]) -> Result<Vec<Run>> {
    let rate_expected = filter(world, RATE)?.rate_with(world.capacity);
    let run = |&interval: &u64| {
        let rate = RATE;
        Ok(Run {
            asked: "by digests",
            interval: Some(interval),
            counts: simulate(world, Sharing::Digests { interval, rate })?,
            expected: theory.expected(interval as f64, rate_expected),
        })
    };
    intervals.iter().map(run).collect()
}

/// Digests of other sizes.
fn sizes(world: &World, interval: u64) -> Result<Vec<Size>> {
    let size = |rate| {
        let expected = filter(world, rate)?.rate_with(world.capacity);
        let counts = simulate(world, Sharing::Digests { interval, rate })?;
        Ok((rate, expected, counts))
    };
    [0.1, 0.03, 0.01, 0.001].into_iter().map(size).collect()
}

/// Shares caches among proxies by digests of their contents.
#[derive(Parser, Debug)]
#[command(name = "proxies", version)]
struct Args {
    #[command(flatten)]
    options: Options,
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
    let filter = filter(&world, RATE)?;
    let rate = filter.rate_with(world.capacity);
    let others = without_digests(&world, &theory)?;
    let intervals = [10, 30, 100, 300, 1_000, 3_000].map(|interval| interval * size);
    let runs = with_digests(&world, &theory, &intervals)?;
    proxies_report::compare(&mut report, &others, &runs);
    proxies_report::in_vain(&mut report, &runs, rate);
    proxies_report::exchanges(&mut report, &runs, filter.shape(), world.capacity);
    let interval = 100 * size;
    proxies_report::sizes(&mut report, interval, &sizes(&world, interval)?);
    Ok(report)
}

fn main() -> ExitCode {
    program(|args: &Args| &args.options, |args| run(&args.options))
}
