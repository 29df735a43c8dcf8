//! Replicas that agree: how many bytes does it take to find what two copies of a store do not share?
//!
//! Each of two replicas takes writes and deletions by itself. Then they meet, and each must get what it
//! lacks. An element is the hash of a key and its version; a deletion is a version too. Three methods find
//! the elements that only one side has:
//!
//! - *hashes*: one side sends the hashes of all its elements.
//! - *filters*: one side sends the digest of each piece of its keys. For the pieces that differ, each side
//!   sends a Bloom filter of its elements, and gets those that do not pass the filter (Byers, Considine,
//!   Mitzenmacher, Rost, "Informed content delivery across adaptive overlay networks", 2002).
//!   A false positive hides a difference; the next round has other hashes, and finds it.
//! - *sketch*: one side sends an invertible Bloom lookup table, which gives the differences themselves
//!   (Eppstein, Goodrich, Uyeda, Varghese, "What's the difference?", 2011).
//!
//! The replicas agree when the sums of the hashes of all elements are equal, with a new seed. In the end the
//! program compares both stores entry by entry with what they must have.

use std::process::ExitCode;

use applications::divergence::{CASE_KEYS, CASES, Divergence, Sites, diverge, key, newest, part};
use applications::iblt::{CELL_BYTES, Iblt, STRATA_BYTES};
use applications::reconcile::{Cost, Meeting, by_hashes, by_sketch};
use applications::replica::{Element, Replica, digest};
use applications::wire::{Malformed, Reader, malformed, put_bytes, word};
use applications::{
    Cell, Error, Line, Options, Plot, Random, Report, Result, Scale, Table, numbers, program,
};
use clap::Parser;
use criba_filters::formulas::{probes_for, rate_for};
use criba_filters::{Classic, Design, Insert, KeyHash, Membership};

/// Brings two replicas of a store to agreement, and counts the bytes that find their differences.
#[derive(Parser, Debug)]
#[command(name = "replicas", version)]
struct Args {
    #[command(flatten)]
    options: Options,
    /// Elements of a piece of the keys, which has a digest of its own
    #[arg(long, value_name = "N", default_value_t = 250, value_parser = piece_size())]
    piece: u64,
}

fn piece_size() -> clap::builder::RangedU64ValueParser {
    clap::value_parser!(u64).range(1..=1_000_000)
}

fn main() -> ExitCode {
    program(|args: &Args| &args.options, run)
}

/// The stores of two sites, and chance.
struct Trial<'a> {
    args: &'a Args,
    sites: Sites,
    random: Random,
}

fn run(args: &Args) -> Result<Report> {
    let mut report = Report::new(
        "replicas",
        "Replicas that agree",
        "How many bytes does it take to find what two copies of a store do not share?",
    );
    let mut trial = Trial {
        args,
        sites: Sites::new()?,
        random: Random::new(args.options.seed, 0),
    };
    by_differences(&mut trial, &mut report)?;
    by_rate(&mut trial, &mut report)?;
    partitions(&mut trial, &mut report)?;
    cases(&mut trial, &mut report)?;
    Ok(report)
}

/// How differences are found.
#[derive(Debug, Clone, Copy, PartialEq)]
enum Method {
    Hashes,
    /// Digests of pieces of `piece` elements, then filters with `bits` bits for each element.
    Filters {
        bits: u64,
        piece: u64,
    },
    Sketch,
}

impl Method {
    fn name(self) -> String {
        match self {
            Method::Hashes => "all hashes".into(),
            Method::Filters { bits, .. } => format!("filters, {bits} bits"),
            Method::Sketch => "sketch".into(),
        }
    }
}

/// More rounds than any method needs.
const ROUNDS_MAX: u64 = 1_000;

/// Rounds until both have the same content, which is then compared entry by entry.
fn agree(replicas: &mut [Replica; 2], method: Method, random: &mut Random) -> Result<Cost> {
    let expected = newest(replicas)?;
    let mut cost = Cost::default();
    loop {
        // The left side chooses a seed, with which both hash. A false positive of one seed is none of the
        // next. Equal sums of all hashes are the end.
        let seed = random.next();
        let mine = replicas[0].elements(seed)?;
        let message = cost.sends([seed, digest(&mine)].map(u64::to_le_bytes).concat());
        let mut reader = Reader(&message);
        let (seed, sum) = (word(&mut reader)?, word(&mut reader)?);
        let theirs = replicas[1].elements(seed)?;
        if digest(&theirs) == sum {
            break;
        }
        let mut meeting = Meeting {
            seed,
            replicas,
            mine: &mine,
            theirs: &theirs,
            cost: &mut cost,
        };
        match method {
            Method::Hashes => by_hashes(&mut meeting)?,
            Method::Filters { bits, piece } => by_filters(&mut meeting, bits, piece)?,
            Method::Sketch => by_sketch(&mut meeting)?,
        }
        cost.rounds += 1;
        if cost.rounds == ROUNDS_MAX {
            return Err(Error::Wrong("the replicas do not agree".into()));
        }
    }
    let [left, right] = replicas;
    for (side, replica) in [("left", left), ("right", right)] {
        if replica.entries()? != expected {
            let what = format!("the {side} replica does not have the newest of each key");
            return Err(Error::Wrong(what));
        }
    }
    Ok(cost)
}

/// Digests of pieces, and filters of the pieces that differ.
fn by_filters(meeting: &mut Meeting<'_>, bits: u64, piece: u64) -> Result<()> {
    let Meeting { mine, theirs, .. } = *meeting;
    // The left side cuts its keys into pieces, and sends the digest of each, and where it ends.
    let pieces: Vec<&[Element]> = mine.chunks(piece as usize).collect();
    let mut message = Vec::new();
    for (at, piece) in pieces.iter().enumerate() {
        message.extend(digest(piece).to_le_bytes());
        // The last piece has no end.
        put_bytes(
            &mut message,
            pieces.get(at + 1).map_or(&[], |next| &next[0].key),
        );
    }
    let message = meeting.cost.sends(message);

    // The right side cuts its keys at the same places. It sends which pieces differ, and a filter of these.
    let (differs, in_doubt) = differing(&message, theirs)?;
    let flags = differs.chunks(8).map(|flags| {
        let bit = |byte, &flag| byte << 1 | u8::from(flag);
        flags.iter().rev().fold(0, bit)
    });
    let mut message: Vec<u8> = flags.collect();
    message.extend(filter_of(&in_doubt, bits)?.to_bytes());
    let message = meeting.cost.sends(message);

    // The left side sends what does not pass, and a filter too.
    let flag_bytes = pieces.len().max(1).div_ceil(8);
    let cut = message.split_at_checked(flag_bytes);
    let (flags, filter) = cut.ok_or_else(|| malformed(Malformed))?;
    let is_named = |&(at, _): &(usize, _)| flags[at / 8] >> (at % 8) & 1 == 1;
    let named = pieces.iter().enumerate().filter(is_named);
    let mine: Vec<&Element> = named.flat_map(|(_, piece)| piece.iter()).collect();
    let lacking = denied(&mine, &Classic::from_bytes(filter)?);
    let message = meeting.cost.sends(filter_of(&mine, bits)?.to_bytes());
    meeting.left_repairs(&lacking)?;

    // The right side sends what does not pass, if it is still the newest.
    let lacking = denied(&in_doubt, &Classic::from_bytes(&message)?);
    meeting.right_repairs(&lacking)
}

/// Which pieces of the other side differ from one's own, and one's own elements there.
fn differing<'a>(message: &[u8], own: &'a [Element]) -> Result<(Vec<bool>, Vec<&'a Element>)> {
    let mut reader = Reader(message);
    let (mut differs, mut in_doubt, mut rest) = (Vec::new(), Vec::new(), own);
    while !reader.0.is_empty() || differs.is_empty() {
        // A store without entries has one piece, of nothing.
        let (sum, end) = match reader.0.is_empty() {
            true => (0, &[][..]),
            false => (word(&mut reader)?, reader.bytes().map_err(malformed)?),
        };
        let count = match end {
            [] => rest.len(),
            end => rest.partition_point(|element| *element.key < *end),
        };
        let (piece, after) = rest.split_at(count);
        rest = after;
        differs.push(digest(piece) != sum);
        if differs.last() == Some(&true) {
            in_doubt.extend(piece);
        }
    }
    Ok((differs, in_doubt))
}

fn filter_of(elements: &[&Element], bits: u64) -> Result<Classic> {
    let keys = elements.len() as u64;
    let mut filter = Classic::new(Design::for_bits(keys, (bits * keys).max(1))?)?;
    for element in elements {
        filter.insert(KeyHash(element.hash))?;
    }
    Ok(filter)
}

/// The elements that the other side certainly lacks.
fn denied<'a>(elements: &[&'a Element], filter: &Classic) -> Vec<&'a Element> {
    let lacks = |element: &&&Element| !filter.may_contain(KeyHash(element.hash));
    elements.iter().filter(lacks).copied().collect()
}

/// The formulas.
mod theory {
    use super::{CELL_BYTES, Divergence, Iblt, Method, STRATA_BYTES, key, probes_for, rate_for};

    /// Rounds until all differences are found. In each round a filter hides a difference with the
    /// probability `rate`. One is left after `r` rounds with `1 - (1 - rate^r)^differences`. The sum over
    /// all `r` from 0 is the mean number of rounds: that of the greatest of independent geometric numbers.
    pub(crate) fn rounds(method: Method, differences: u64) -> f64 {
        let Method::Filters { bits, .. } = method else {
            return 1.0;
        };
        let terms = (0..).map(|round| is_left(rate(bits).powi(round), differences as f64));
        terms.take_while(|&term| term > 1e-9).sum()
    }

    /// The probability that at least one difference is left, when each of them is with `share`.
    fn is_left(share: f64, differences: f64) -> f64 {
        1.0 - (1.0 - share).powf(differences)
    }

    /// The rate of a filter with `bits` bits for each of many elements.
    pub(crate) fn rate(bits: u64) -> f64 {
        let elements = 100_000;
        let all = bits * elements;
        rate_for(all, probes_for(all, elements), elements)
    }

    /// Bytes of all messages but those with entries.
    pub(crate) fn finding_bytes(method: Method, elements: u64, divergence: &Divergence) -> f64 {
        let differences = divergence.left_only + divergence.right_only;
        let asked = 8.0 * divergence.left_only as f64;
        // A seed and a sum for each round, and once more at the end.
        let opening = 16.0;
        match method {
            Method::Hashes => 2.0 * opening + 8.0 * elements as f64 + asked,
            Method::Sketch => {
                let cells = Iblt::cells_for(differences) as f64;
                2.0 * opening + STRATA_BYTES as f64 + 8.0 + cells * CELL_BYTES as f64 + asked
            }
            Method::Filters { bits, piece } => {
                let pieces = (elements as f64 / piece as f64).ceil();
                let end_bytes = key(0).len() as f64 + 1.0;
                let digests = opening + pieces * (8.0 + end_bytes + 1.0 / 8.0);
                let (rate, keys) = (rate(bits), divergence.keys as f64);
                let round = |share: f64| {
                    let in_doubt = elements as f64 * is_left(1.0 / pieces, keys * share);
                    is_left(share, keys) * digests + 2.0 * in_doubt * bits as f64 / 8.0
                };
                let shares = (0..).map(|round| rate.powi(round));
                shares
                    .take_while(|&share| share * keys > 1e-6)
                    .map(round)
                    .sum()
            }
        }
    }
}

/// Points of a plot: what was measured of each method, and what was calculated.
type Points = [(Vec<(f64, f64)>, Vec<(f64, f64)>); 5];

fn by_differences(trial: &mut Trial<'_>, report: &mut Report) -> Result<()> {
    let Trial {
        args,
        sites,
        random,
    } = trial;
    let (keys, piece) = (args.options.size(100_000, 5_000), args.piece);
    let heads = [
        "differences",
        "method",
        "rounds",
        "expected",
        "sketches",
        "bytes to find",
        "calculated",
        "entries sent",
        "in vain",
        "bytes of entries",
    ];
    let mut table = Table::new(format!("Two replicas of {keys} entries"), &heads);
    let filters = |bits| Method::Filters { bits, piece };
    let methods = [
        Method::Hashes,
        filters(4),
        filters(8),
        filters(16),
        Method::Sketch,
    ];
    let (mut points, mut best) = (Points::default(), Vec::new());
    // At most one key of five is changed.
    let differences = [1, 10, 100, 1_000, 10_000].into_iter();
    for changes in differences.filter(|changes| changes * 5 <= keys) {
        let mut replicas = sites.equal_replicas(keys, random)?;
        replicas.iter().try_for_each(Replica::flush)?;
        let mut least = (u64::MAX, String::new());
        for (method, points) in methods.into_iter().zip(&mut points) {
            let divergence = diverge(&mut replicas, (changes, keys), random)?;
            let calculated = theory::finding_bytes(method, replicas[0].len()?, &divergence);
            let cost = agree(&mut replicas, method, random)?;
            table.row([
                changes.into(),
                Cell::Text(method.name()),
                cost.rounds.into(),
                Cell::Number(theory::rounds(method, changes), 1),
                cost.sketches.into(),
                cost.finding_bytes.into(),
                (calculated.round() as u64).into(),
                cost.entries.into(),
                cost.in_vain.into(),
                cost.entry_bytes.into(),
            ]);
            points
                .0
                .push((changes as f64, cost.finding_bytes as f64 / 1_000.0));
            points.1.push((changes as f64, calculated / 1_000.0));
            least = least.min((cost.finding_bytes, method.name()));
        }
        best.push(format!("{}: {}", numbers::grouped(changes), least.1));
    }
    report.table(table);
    report.conclude(format!(
        "These methods find the differences with the fewest bytes, by their number: {}.",
        best.join("; ")
    ));
    report.plot(Plot {
        title: "Kilobytes to find the differences".into(),
        across: format!("differences, of {} entries", numbers::grouped(keys)),
        scales: (Scale::Logarithmic, Scale::Logarithmic),
        lines: lines_of(&methods, points),
    });
    Ok(())
}

/// The lines of one method of each kind.
fn lines_of(methods: &[Method; 5], mut points: Points) -> Vec<Line> {
    let mut lines = Vec::new();
    for (at, class) in [(0, "none"), (2, "first"), (4, "second")] {
        let (name, (measured, calculated)) = (methods[at].name(), std::mem::take(&mut points[at]));
        lines.push(Line::new(class, format!("{name}, calculated"), calculated));
        lines.push(Line::dots(class, format!("{name}, measured"), measured));
    }
    lines
}

/// Rounds by the rate of the filters, in the mean of trials.
fn by_rate(trial: &mut Trial<'_>, report: &mut Report) -> Result<()> {
    let Trial {
        args,
        sites,
        random,
    } = trial;
    let (keys, changes) = (args.options.size(2_000, 1_000), args.options.size(200, 100));
    let trials = args.options.size(30, 12);
    let title =
        format!("Rounds for {changes} differences of {keys} entries, mean of {trials} trials");
    let heads = [
        "bits per element",
        "rate",
        "rounds",
        "expected",
        "bytes to find",
    ];
    let mut table = Table::new(title, &heads);
    let (mut measured, mut calculated) = (Vec::new(), Vec::new());
    for bits in [1, 2, 3, 4, 6, 8, 12, 16] {
        let method = Method::Filters {
            bits,
            piece: args.piece,
        };
        let mut replicas = sites.equal_replicas(keys, random)?;
        let (mut rounds, mut bytes) = (0, 0);
        for _ in 0..trials {
            diverge(&mut replicas, (changes, keys), random)?;
            let cost = agree(&mut replicas, method, random)?;
            rounds += cost.rounds;
            bytes += cost.finding_bytes;
        }
        let mean = rounds as f64 / trials as f64;
        let expected = theory::rounds(method, changes);
        table.row([
            bits.into(),
            Cell::Share(theory::rate(bits)),
            Cell::Number(mean, 2),
            Cell::Number(expected, 2),
            (bytes / trials).into(),
        ]);
        measured.push((bits as f64, mean));
        calculated.push((bits as f64, expected));
    }
    report.table(table);
    let off = |(found, expected): (&(f64, f64), &(f64, f64))| (found.1 / expected.1 - 1.0).abs();
    let most_off = measured
        .iter()
        .zip(&calculated)
        .map(off)
        .fold(0.0, f64::max);
    report.conclude(format!(
        "Filters of 1 bit per element need {:.1} rounds to find {changes} differences, filters of 16 bits \
         {:.1}. The formula is off by at most {:.0} %.",
        measured[0].1,
        measured.last().map_or(0.0, |last| last.1),
        100.0 * most_off,
    ));
    report.plot(Plot {
        title: format!("Rounds until all {changes} differences are found"),
        across: "bits per element of a filter".into(),
        scales: (Scale::Linear, Scale::Linear),
        lines: vec![
            Line::new("second", "calculated", calculated),
            Line::dots("first", "measured", measured),
        ],
    });
    Ok(())
}

/// The line between the replicas breaks again and again. Both go on with writes and deletions.
fn partitions(trial: &mut Trial<'_>, report: &mut Report) -> Result<()> {
    let Trial {
        args,
        sites,
        random,
    } = trial;
    let (keys, writes) = (
        args.options.size(20_000, 2_000),
        args.options.size(1_000, 200),
    );
    let title = format!("Partitions: {writes} writes and deletions on each side, of {keys} keys");
    let heads = [
        "partition",
        "keys",
        "on both sides",
        "rounds",
        "bytes to find",
        "entries sent",
        "in vain",
        "values after it",
    ];
    let mut table = Table::new(title, &heads);
    let mut replicas = sites.equal_replicas(keys / 2, random)?;
    let (mut sent, mut in_vain, mut conflicts) = (0, 0, 0);
    for partition in 1..=6_u64 {
        let divergence = part(&mut replicas, (writes, keys), random)?;
        let method = Method::Filters {
            bits: 8,
            piece: args.piece,
        };
        let cost = agree(&mut replicas, method, random)?;
        table.row([
            partition.into(),
            divergence.keys.into(),
            divergence.conflicts.into(),
            cost.rounds.into(),
            cost.finding_bytes.into(),
            cost.entries.into(),
            cost.in_vain.into(),
            replicas[1].values()?.into(),
        ]);
        (sent, in_vain) = (sent + cost.entries, in_vain + cost.in_vain);
        conflicts += divergence.conflicts;
    }
    report.table(table);
    report.conclude(format!(
        "After each partition both replicas had the newest version of each key, with {conflicts} keys that \
         both had written. Of {} entries that were sent, {} were older than what the receiver had.",
        numbers::grouped(sent),
        numbers::grouped(in_vain),
    ));
    Ok(())
}

/// Special cases, by each method.
fn cases(trial: &mut Trial<'_>, report: &mut Report) -> Result<()> {
    let Trial {
        args,
        sites,
        random,
    } = trial;
    let heads = [
        "case",
        "method",
        "rounds",
        "bytes to find",
        "entries sent",
        "in vain",
        "values after it",
    ];
    let mut table = Table::new(format!("Special cases: {CASE_KEYS} entries"), &heads);
    for (case, write) in CASES {
        for method in [
            Method::Hashes,
            Method::Filters {
                bits: 8,
                piece: args.piece,
            },
            Method::Sketch,
        ] {
            let mut replicas = sites.equal_replicas(CASE_KEYS, random)?;
            write(&mut replicas)?;
            let cost = agree(&mut replicas, method, random)?;
            table.row([
                case.into(),
                Cell::Text(method.name()),
                cost.rounds.into(),
                cost.finding_bytes.into(),
                cost.entries.into(),
                cost.in_vain.into(),
                replicas[1].values()?.into(),
            ]);
        }
    }
    report.table(table);
    Ok(())
}
