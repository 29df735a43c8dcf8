//! Join of two sites: which rows have to travel?
//!
//! Site A has the members of a club, site B the invoices of many customers, and A wants the invoices of its
//! members. A sends a Bloom filter of its keys, B sends the rows that pass it, and A drops the few that
//! have no partner: the Bloom join (Mackert and Lohman, "R* optimizer validation and performance
//! evaluation for distributed queries", 1986; Mullin, "Optimal semijoins for distributed database
//! systems", 1990; Broder and Mitzenmacher, "Network applications of Bloom filters: a survey", 2004).
//! The result is always exact. A false positive costs the bytes of a row, and bits of the filter cost too:
//! the first table looks for the size that costs least. [`Costs`] has the formula for it.
//!
//! A Bloomier filter (Chazelle and others, 2004) is a map: it brings a number of A for each key along. B can
//! then check a condition on both rows, or sum up its rows, without a second message.
//!
//! The sites are two processes that talk over TCP. Each has its rows in a store of its own.

use std::net::SocketAddr;
use std::process::ExitCode;

use applications::answers::{
    Answer, ask, check_bytes, send_numbers, send_rows, send_rows_of, send_sum,
};
use applications::exact_join::{Exact, Wanted};
use applications::join_costs::Costs;
use applications::join_report::{self, ByMap, Ways};
use applications::relation::{number_of, store_of};
use applications::sites::{OtherSite, connect};
use applications::wire::{Reader, put_bytes, word};
use applications::{Error, JoinInput, Options, Random, Report, Result, numbers, program};
use clap::Parser;
use criba::Db;
use criba_filters::{Classic, Design, Insert, KeyHash, Lookup, Map, Membership, hash_key};

/// Joins the rows of two sites, and counts the bytes that travel for each size of a filter.
#[derive(Parser, Debug)]
#[command(name = "join", version)]
struct Args {
    #[command(flatten)]
    options: Options,
    #[command(flatten)]
    input: JoinInput,
    /// Be site B, and connect to site A there
    #[arg(long, hide = true, value_name = "ADDRESS")]
    site_b: Option<SocketAddr>,
}

fn main() -> ExitCode {
    let work = |args: &Args| match args.site_b {
        Some(address) => site_b(args, address),
        None => site_a(args),
    };
    program(|args: &Args| &args.options, work)
}

// Kinds of questions.
const ALL: u8 = 1;
const KEYS: u8 = 2;
const BLOOM: u8 = 3;
const MAP: u8 = 4;
const MAP_SUM: u8 = 5;
const BYTES: u8 = 6;

/// Site B: answers until A asks how many bytes B has counted.
fn site_b(args: &Args, address: SocketAddr) -> Result<Report> {
    let (_folder, db) = store_of(&args.input.right(&args.options)?)?;
    let mut link = connect(address)?;
    loop {
        let (kind, message) = link.receive()?;
        match kind {
            ALL => send_rows(&mut link, &db, |_, _| true)?,
            KEYS => send_rows_of(&mut link, &db, &message)?,
            BLOOM => {
                let (seed, bytes) = with_seed(&message)?;
                let filter = Classic::from_bytes(bytes)?;
                let passes = |key: &[u8], _: &[u8]| filter.may_contain(hash_key(seed, key));
                send_rows(&mut link, &db, passes)?;
            }
            MAP | MAP_SUM => {
                let (seed, bytes) = with_seed(&message)?;
                let limits = Map::from_bytes(bytes)?;
                let is_above = |key: &[u8], value: &[u8]| {
                    let limit = limits.get(hash_key(seed, key));
                    limit.is_some_and(|limit| number_of(value) > limit)
                };
                match kind {
                    MAP => send_rows(&mut link, &db, is_above)?,
                    _ => send_sum(&mut link, &db, is_above)?,
                }
            }
            BYTES => {
                let (sent, received) = link.bytes();
                send_numbers(&mut link, sent, received)?;
                return Ok(Report::new("join", "Site B", "All questions are answered."));
            }
            other => {
                let error = format!("site A asks question {other}, which does not exist");
                return Err(Error::Other(error.into()));
            }
        }
    }
}

/// The seed of the hashes, and the filter that was built with it.
fn with_seed(message: &[u8]) -> Result<(u64, &[u8])> {
    let mut reader = Reader(message);
    let seed = word(&mut reader)?;
    Ok((seed, reader.0))
}

/// Site A: its store, and its line to site B.
struct SiteA {
    db: Db,
    exact: Exact,
    site_b: OtherSite,
    random: Random,
}

impl SiteA {
    /// Asks B, and joins the rows that come with A's. A key that A does not have was a false positive.
    fn ask(&mut self, kind: u8, message: &[u8], wanted: Wanted) -> Result<Answer> {
        ask(&mut self.site_b.link, (kind, message), |key, theirs| {
            let ours = self.db.get(key)?.map(|ours| ours.to_vec());
            Ok(ours.filter(|ours| wanted.has(ours, theirs)))
        })
    }

    /// Asks for rows. Their join with A's must be the exact one.
    fn ask_rows(&mut self, kind: u8, message: &[u8], wanted: Wanted) -> Result<Answer> {
        let answer = self.ask(kind, message, wanted)?;
        self.exact.check(&answer, wanted)?;
        Ok(answer)
    }

    /// By a filter of A's keys, with a seed of its own. Without bits there is no filter, and B sends all.
    fn ask_bloom(&mut self, bits_per_key: f64, wanted: Wanted) -> Result<Answer> {
        let keys = self.db.len()?;
        let bits = (bits_per_key * keys as f64).round() as u64;
        if bits == 0 {
            return self.ask_rows(ALL, &[], wanted);
        }
        let seed = self.random.next();
        let mut filter = Classic::new(Design::for_bits(keys, bits)?)?;
        for key in self.db.iter().keys() {
            filter.insert(hash_key(seed, &key?))?;
        }
        let message = [&seed.to_le_bytes()[..], &filter.to_bytes()].concat();
        self.ask_rows(BLOOM, &message, wanted)
    }

    /// By A's keys themselves.
    fn ask_keys(&mut self) -> Result<Answer> {
        let mut message = Vec::new();
        for key in self.db.iter().keys() {
            put_bytes(&mut message, &key?);
        }
        self.ask_rows(KEYS, &message, Wanted::All)
    }

    /// A map from A's keys to their numbers, with a seed of its own.
    fn map(&mut self, check_bits: f64) -> Result<Vec<u8>> {
        let value_bits = self.exact.value_bits();
        let (seed, mut entries) = (self.random.next(), Vec::<(KeyHash, u64)>::new());
        let mut rows = self.db.iter();
        while let Some(row) = rows.next_ref() {
            let (key, value) = row?;
            // A number that is cut lets more rows pass, which A drops.
            let number = number_of(value).min((1 << value_bits) - 1);
            entries.push((hash_key(seed, key), number));
        }
        let map = Map::build(entries, value_bits, check_bits)?;
        Ok([&seed.to_le_bytes()[..], &map.to_bytes()].concat())
    }

    /// By a map: the rows above A's numbers.
    fn ask_map(&mut self, check_bits: f64) -> Result<Answer> {
        let message = self.map(check_bits)?;
        self.ask_rows(MAP, &message, Wanted::Above)
    }

    /// By a map: how many rows are above A's numbers. B counts those too that come in vain, and none too few.
    fn ask_map_sum(&mut self, check_bits: f64) -> Result<Answer> {
        let message = self.map(check_bits)?;
        let answer = self.ask(MAP_SUM, &message, Wanted::Above)?;
        self.exact.check_count(&answer)?;
        Ok(answer)
    }
}

/// The experiment: the same join by filters of many sizes, by other ways, and by maps.
fn site_a(args: &Args) -> Result<Report> {
    let mut report = Report::new(
        "join",
        "Join of two sites",
        "How many bits of a filter are worth sending, so that few rows travel in vain?",
    );
    let exact = Exact::of(
        args.input.left(&args.options)?,
        args.input.right(&args.options)?,
    );
    let (_folder, db) = store_of(&exact.left)?;
    let mut site = SiteA {
        db,
        exact,
        site_b: OtherSite::start("--site-b", &args.options, args.input.arguments())?,
        random: Random::new(args.options.seed, 0),
    };
    let answers = by_size(&mut site)?;
    join_report::by_size(&mut report, &site.exact, &answers);
    join_report::by_way(&mut report, &by_way(&mut site)?);
    let (bloom, answers) = by_map(&mut site)?;
    join_report::by_map(&mut report, &site.exact, &bloom, &answers);

    let counted = site.ask(BYTES, &[], Wanted::All)?;
    let bytes = check_bytes(&site.site_b.link, &counted)?;
    site.site_b.wait()?;
    report.conclude(format!(
        "Input: {}. Both sites counted the same {} bytes, and each join was the exact one.",
        args.input.origin(),
        numbers::grouped(bytes),
    ));
    Ok(report)
}

/// Bits per key of the filters.
const BITS: [u64; 17] = [0, 1, 2, 4, 6, 8, 10, 12, 13, 14, 15, 16, 17, 18, 20, 22, 24];

/// More bits of a Bloom filter, and fewer rows in vain.
fn by_size(site: &mut SiteA) -> Result<Vec<(u64, Answer)>> {
    let answer = |bits| Ok((bits, site.ask_bloom(bits as f64, Wanted::All)?));
    BITS.into_iter().map(answer).collect()
}

/// The filter of the calculated size, beside other ways to join.
fn by_way(site: &mut SiteA) -> Result<Ways> {
    let best = Costs::of_bloom(&site.exact).best_bits();
    let planned = Costs::planned(&site.exact).best_bits();
    Ok(Ways {
        all: site.ask_bloom(0.0, Wanted::All)?,
        keys: site.ask_keys()?,
        bloom: (best, site.ask_bloom(best, Wanted::All)?),
        planned: (planned, site.ask_bloom(planned, Wanted::All)?),
    })
}

/// Check bits of the maps.
const CHECK_BITS: [u64; 9] = [0, 2, 4, 6, 8, 10, 12, 16, 20];

/// Only rows whose number is above that of A: by the best Bloom filter, which cannot check that, and by maps
/// with A's numbers. With a map, B can also count and sum such rows by itself.
fn by_map(site: &mut SiteA) -> Result<(Answer, Vec<ByMap>)> {
    let best = Costs::of_bloom(&site.exact).best_bits();
    let bloom = site.ask_bloom(best, Wanted::Above)?;
    let answers = CHECK_BITS.into_iter().map(|check_bits| {
        Ok(ByMap {
            check_bits,
            rows: site.ask_map(check_bits as f64)?,
            sum: site.ask_map_sum(check_bits as f64)?,
        })
    });
    Ok((bloom, answers.collect::<Result<_>>()?))
}
