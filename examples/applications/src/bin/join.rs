//! Join of two sites: which rows have to travel?
//!
//! Site A has the members of a club, site B the invoices of many customers, and A wants the invoices of its
//! members. A sends a Bloom filter of its keys, B sends the rows that pass it, and A drops the few that
//! have no partner: the Bloom join (Mackert and Lohman, "R* optimizer validation and performance
//! evaluation for distributed queries", 1986; Mullin, "Optimal semijoins for distributed database
//! systems", 1990; Broder and Mitzenmacher, "Network applications of Bloom filters: a survey", 2004).
//! The result is always exact. A false positive costs the bytes of a row, and bits of the filter cost too:
//! the first table looks for the size that costs least.
//!
//! A Bloomier filter (Chazelle and others, 2004) is a map: it brings a number of A for each key along. B can
//! then check a condition on both rows, or sum up its rows, without a second message.
//!
//! The sites are two processes that talk over TCP. Each has its rows in a store of its own.

use std::f64::consts::LN_2;
use std::net::SocketAddr;
use std::process::ExitCode;

use applications::answers::{Answer, ask, send_numbers, send_rows, send_rows_of, send_sum};
use applications::relation::{Joined, Relation, bytes_of_rows, join, number_of, store_of};
use applications::sites::{OtherSite, connect};
use applications::wire::{Reader, put_bytes, word};
use applications::{
    Cell, Error, JoinInput, Line, Options, Plot, Random, Report, Result, Scale, Table, numbers,
    program,
};
use clap::Parser;
use criba::Db;
use criba_filters::formulas::{probes_for, rate_for};
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

/// Which pairs A wants.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Wanted {
    All,
    /// Those in which B's number is above A's.
    Above,
}

impl Wanted {
    fn has(self, ours: &[u8], theirs: &[u8]) -> bool {
        self == Wanted::All || number_of(theirs) > number_of(ours)
    }
}

/// Site A: its store, and its line to site B.
struct SiteA {
    db: Db,
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

    /// By a filter of A's keys, with a seed of its own. Without bits there is no filter, and B sends all.
    fn ask_bloom(&mut self, bits_per_key: f64, wanted: Wanted) -> Result<Answer> {
        let keys = self.db.len()?;
        let bits = (bits_per_key * keys as f64).round() as u64;
        if bits == 0 {
            return self.ask(ALL, &[], wanted);
        }
        let seed = self.random.next();
        let mut filter = Classic::new(Design::for_bits(keys, bits)?)?;
        for key in self.db.iter().keys() {
            filter.insert(hash_key(seed, &key?))?;
        }
        let message = [&seed.to_le_bytes()[..], &filter.to_bytes()].concat();
        self.ask(BLOOM, &message, wanted)
    }

    /// By a map from A's keys to their numbers.
    fn ask_map(&mut self, kind: u8, value_bits: u32, check_bits: f64) -> Result<Answer> {
        let (seed, mut entries) = (self.random.next(), Vec::<(KeyHash, u64)>::new());
        let mut rows = self.db.iter();
        while let Some(row) = rows.next_ref() {
            let (key, value) = row?;
            // A number that is cut lets more rows pass, which A drops.
            let number = number_of(value).min((1 << value_bits) - 1);
            entries.push((hash_key(seed, key), number));
        }
        let map = Map::build(entries, value_bits, check_bits)?;
        let message = [&seed.to_le_bytes()[..], &map.to_bytes()].concat();
        self.ask(kind, &message, Wanted::Above)
    }

    /// By A's keys themselves.
    fn ask_keys(&mut self) -> Result<Answer> {
        let mut message = Vec::new();
        for key in self.db.iter().keys() {
            put_bytes(&mut message, &key?);
        }
        self.ask(KEYS, &message, Wanted::All)
    }
}

/// The costs of a join, from the relations themselves; a planner has estimates of them.
#[derive(Clone, Copy)]
struct Costs {
    /// Keys of A.
    keys: f64,
    /// Rows of B that are not wanted and that no filter holds back.
    others: f64,
    /// Bytes of such a row in a message, in the mean.
    row_bytes: f64,
    /// Bytes that travel in any case: rows that are wanted, and numbers in the map.
    fixed_bytes: f64,
    /// Each bit per key multiplies the rows that come in vain by `e^-decay`.
    decay: f64,
}

/// Each bit of a Bloom filter with the best number of probes, by which the rate is `0.6185^bits`.
const BLOOM_DECAY: f64 = LN_2 * LN_2;
/// Each check bit of a map.
const MAP_DECAY: f64 = LN_2;

impl Costs {
    /// Rows in vain with `b` bits per key: `others e^(-decay b)`.
    fn in_vain(&self, bits: f64) -> f64 {
        self.others * (-self.decay * bits).exp()
    }

    /// Bytes with `b` bits per key: `n b / 8`, those of the rows in vain, and the fixed ones.
    fn bytes(&self, bits: f64) -> f64 {
        self.keys * bits / 8.0 + self.in_vain(bits) * self.row_bytes + self.fixed_bytes
    }

    /// Where one more bit costs as much as it saves: the derivative of `bytes` is zero if
    /// `n / 8 = decay others w e^(-decay b)`. No bits are best if that `b` is below zero.
    fn best_bits(&self) -> f64 {
        let ratio = 8.0 * self.decay * self.others * self.row_bytes / self.keys;
        (ratio.ln() / self.decay).max(0.0)
    }
}

/// The two relations, and their join without any filter.
struct Exact {
    left: Relation,
    right: Relation,
    all: Joined,
    above: Joined,
}

impl Exact {
    fn of(left: Relation, right: Relation) -> Exact {
        let all = join(&left, &right);
        let above = |pair: &&(_, Vec<u8>, Vec<u8>)| Wanted::Above.has(&pair.1, &pair.2);
        Exact {
            above: all.iter().filter(above).cloned().collect(),
            all,
            left,
            right,
        }
    }

    /// The costs of a join by a filter of A's keys.
    fn bloom_costs(&self) -> Costs {
        let others = (self.right.len() - self.all.len()) as f64;
        let fixed_bytes = bytes_of_rows(self.all.iter().map(|(key, _, value)| (key, value)));
        let other_bytes = bytes_of_rows(self.right.iter()) - fixed_bytes;
        Costs {
            keys: self.left.len() as f64,
            others,
            row_bytes: other_bytes as f64 / others.max(1.0),
            fixed_bytes: fixed_bytes as f64,
            decay: BLOOM_DECAY,
        }
    }

    /// The costs of a join by a map from A's keys to numbers of `value_bits` bits.
    fn map_costs(&self, value_bits: u32) -> Costs {
        let costs = self.bloom_costs();
        // The map has any number for an absent key. The row passes if its own number is above that.
        let numbers = (1_u64 << value_bits) as f64;
        let passes = |(_, value): (_, &Vec<u8>)| (number_of(value) as f64 / numbers).min(1.0);
        let absent = self
            .right
            .iter()
            .filter(|(key, _)| !self.left.contains_key(*key));
        let wanted = bytes_of_rows(self.above.iter().map(|(key, _, value)| (key, value)));
        Costs {
            others: absent.map(passes).sum(),
            fixed_bytes: costs.keys * f64::from(value_bits) / 8.0 + wanted as f64,
            decay: MAP_DECAY,
            ..costs
        }
    }

    /// Refuses an answer that is not the exact one.
    fn check(&self, answer: &Answer, wanted: Wanted) -> Result<()> {
        let exact = match wanted {
            Wanted::All => &self.all,
            Wanted::Above => &self.above,
        };
        if answer.joined == *exact {
            return Ok(());
        }
        Err(Error::Wrong(format!(
            "a join has {} rows, or others than the {} of the exact one",
            answer.joined.len(),
            exact.len()
        )))
    }
}

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
        site_b: OtherSite::start("--site-b", &args.options, args.input.arguments())?,
        random: Random::new(args.options.seed, 0),
    };
    by_size(&mut site, &exact, &mut report)?;
    by_way(&mut site, &exact, &mut report)?;
    by_map(&mut site, &exact, &mut report)?;
    let counted = site.ask(BYTES, &[], Wanted::All)?;
    let (sent, received) = site.site_b.link.bytes();
    let expected = (sent, received - counted.answered_bytes);
    if counted.numbers != Some((expected.1, expected.0)) {
        return Err(Error::Wrong(format!(
            "A has sent and received {expected:?} bytes; B has sent and received {:?}",
            counted.numbers
        )));
    }
    site.site_b.wait()?;
    report.conclude(format!(
        "Input: {}. Both sites counted the same {} bytes, and each join was the exact one.",
        args.input.origin(),
        numbers::grouped(sent + received),
    ));
    Ok(report)
}

/// Bits per key of the first table.
const BITS: [u64; 17] = [0, 1, 2, 4, 6, 8, 10, 12, 13, 14, 15, 16, 17, 18, 20, 22, 24];

fn by_size(site: &mut SiteA, exact: &Exact, report: &mut Report) -> Result<()> {
    let (costs, keys) = (exact.bloom_costs(), exact.left.len() as u64);
    let (all, rows) = (exact.all.len(), exact.right.len());
    let title = format!("A Bloom filter of {keys} keys; {all} of {rows} rows have a partner");
    let heads = [
        "bits per key",
        "asked",
        "rows sent",
        "in vain",
        "expected",
        "bytes",
        "calculated",
    ];
    let mut table = Table::new(title, &heads);
    let (mut measured, mut calculated) = (Vec::new(), Vec::new());
    for bits in BITS {
        let answer = site.ask_bloom(bits as f64, Wanted::All)?;
        exact.check(&answer, Wanted::All)?;
        let rate = match bits * keys {
            0 => 1.0,
            all => rate_for(all, probes_for(all, keys), keys),
        };
        let theory = costs.bytes(bits as f64);
        table.row([
            bits.into(),
            Cell::Bytes(answer.asked_bytes),
            answer.rows.into(),
            answer.in_vain().into(),
            Cell::Number(costs.others * rate, 1),
            answer.bytes().into(),
            (theory.round() as u64).into(),
        ]);
        measured.push((bits as f64, answer.bytes() as f64));
        calculated.push((bits as f64, theory));
    }
    report.table(table);
    let best = measured.iter().min_by(|a, b| a.1.total_cmp(&b.1));
    let (best_bits, best_bytes) = best.copied().unwrap_or_default();
    report.conclude(format!(
        "The least was measured with {best_bits} bits per key: {:.2} % of the bytes of all rows. \
         The formula says {:.1} bits.",
        100.0 * best_bytes / measured[0].1,
        costs.best_bits(),
    ));
    // Without the wanted rows, the least can be seen.
    let extra = |points: Vec<(f64, f64)>| {
        let kilobytes = |(bits, bytes)| (bits, (bytes - costs.fixed_bytes) / 1_000.0);
        points.into_iter().map(kilobytes).collect()
    };
    report.plot(Plot {
        title: "Kilobytes of the filter and of rows in vain".into(),
        across: "bits per key of A's filter".into(),
        scales: (Scale::Linear, Scale::Logarithmic),
        lines: vec![
            Line::new("second", "calculated", extra(calculated)),
            Line::dots("first", "measured", extra(measured)),
        ],
    });
    Ok(())
}

fn by_way(site: &mut SiteA, exact: &Exact, report: &mut Report) -> Result<()> {
    let costs = exact.bloom_costs();
    let best = costs.best_bits();
    // A planner that does not know how large the join will be takes all rows of B for unwanted.
    let others = exact.right.len() as f64;
    let planned = Costs { others, ..costs }.best_bits();
    let all = site.ask_bloom(0.0, Wanted::All)?;
    let keys = site.ask_keys()?;
    let bloom = site.ask_bloom(best, Wanted::All)?;
    report.conclude(format!(
        "With the calculated {best:.1} bits per key the join needs {:.1} % of the bytes of the \
         semijoin, in which A sends its keys.",
        100.0 * bloom.bytes() as f64 / keys.bytes() as f64,
    ));
    let all_bytes = all.bytes() as f64;
    let heads = [
        "way",
        "asked",
        "answered",
        "in vain",
        "bytes",
        "of all rows",
    ];
    let mut table = Table::new("Ways to join", &heads);
    for (way, answer) in [
        ("B sends all rows".into(), all),
        ("A sends its keys (semijoin)".into(), keys),
        (format!("filter, {best:.2} bits: calculated"), bloom),
        (
            format!("filter, {planned:.2} bits: planned"),
            site.ask_bloom(planned, Wanted::All)?,
        ),
    ] {
        exact.check(&answer, Wanted::All)?;
        table.row([
            Cell::Text(way),
            Cell::Bytes(answer.asked_bytes),
            Cell::Bytes(answer.answered_bytes),
            answer.in_vain().into(),
            answer.bytes().into(),
            Cell::Share(answer.bytes() as f64 / all_bytes),
        ]);
    }
    report.table(table);
    Ok(())
}

/// Check bits of the maps.
const CHECK_BITS: [u64; 9] = [0, 2, 4, 6, 8, 10, 12, 16, 20];

/// A map with A's numbers: B sends only rows whose number is above that of A, or counts and sums them.
fn by_map(site: &mut SiteA, exact: &Exact, report: &mut Report) -> Result<()> {
    let largest = exact.left.values().map(|value| number_of(value)).max();
    let value_bits = (u64::BITS - largest.unwrap_or(0).leading_zeros()).clamp(1, 32);
    let (costs, above) = (exact.map_costs(value_bits), exact.above.len() as u64);
    let bloom = site.ask_bloom(exact.bloom_costs().best_bits(), Wanted::Above)?;
    exact.check(&bloom, Wanted::Above)?;
    let title = format!(
        "A map with numbers of {value_bits} bits; {above} rows of B are above the number of A; \
         {} bytes by the filter",
        numbers::grouped(bloom.bytes())
    );
    let heads = [
        "check bits",
        "asked",
        "rows sent",
        "in vain",
        "expected",
        "bytes",
        "calculated",
        "counted by B",
        "bytes of count",
    ];
    let mut table = Table::new(title, &heads);
    let mut least = (u64::MAX, 0);
    for check_bits in CHECK_BITS {
        let answer = site.ask_map(MAP, value_bits, check_bits as f64)?;
        exact.check(&answer, Wanted::Above)?;
        let sum = site.ask_map(MAP_SUM, value_bits, check_bits as f64)?;
        let counted = sum.numbers.map_or(0, |(count, _)| count);
        if counted < above {
            return Err(Error::Wrong(format!("B counts {counted} rows of {above}")));
        }
        table.row([
            check_bits.into(),
            Cell::Bytes(answer.asked_bytes),
            answer.rows.into(),
            answer.in_vain().into(),
            Cell::Number(costs.in_vain(check_bits as f64), 1),
            answer.bytes().into(),
            (costs.bytes(check_bits as f64).round() as u64).into(),
            counted.into(),
            Cell::Bytes(sum.bytes()),
        ]);
        least = least.min((answer.bytes(), check_bits));
    }
    report.table(table);
    report.conclude(format!(
        "With a condition on both rows, a map with {} check bits needs {:.1} % of the bytes of the \
         filter. The formula says {:.1} bits.",
        least.1,
        100.0 * least.0 as f64 / bloom.bytes() as f64,
        costs.best_bits(),
    ));
    Ok(())
}
