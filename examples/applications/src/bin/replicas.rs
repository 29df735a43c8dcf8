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
//! program compares both stores entry by entry with what they must have. The formulas for rounds and bytes
//! are those of [`replicas_theory`](applications::replicas_theory).

use std::process::ExitCode;

use applications::divergence::{CASE_KEYS, CASES, Sites, check_newest, diverge, newest, part};
use applications::reconcile::{Cost, Meeting, Method, by_hashes, by_sketch};
use applications::replica::{Element, Replica, digest};
use applications::replicas_report::{self, Agreed, CaseEnd, Partition, Trials};
use applications::wire::{Reader, flags, malformed, put_bytes, put_flags, word};
use applications::{Error, Options, Random, Report, Result, program};
use clap::Parser;
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
    check_newest(replicas, &expected)?;
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
        let end = pieces.get(at + 1).map_or(&[][..], |next| &next[0].key);
        put_bytes(&mut message, end);
    }
    let message = meeting.cost.sends(message);

    // The right side cuts its keys at the same places. It sends which pieces differ, and a filter of these.
    let (differs, in_doubt) = differing(&message, theirs)?;
    let mut message = Vec::new();
    put_flags(&mut message, &differs);
    message.extend(filter_of(&in_doubt, bits)?.to_bytes());
    let message = meeting.cost.sends(message);

    // The left side sends what does not pass, and a filter too.
    let mut reader = Reader(&message);
    let differs = flags(&mut reader, pieces.len().max(1))?;
    let named = pieces.iter().zip(differs).filter(|&(_, differs)| differs);
    let mine: Vec<&Element> = named.flat_map(|(piece, _)| piece.iter()).collect();
    let lacking = denied(&mine, &Classic::from_bytes(reader.0)?);
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

/// The experiment. In each part the replicas are equal, then diverge, then agree.
fn run(args: &Args) -> Result<Report> {
    let mut report = Report::new(
        "replicas",
        "Replicas that agree",
        "How many bytes does it take to find what two copies of a store do not share?",
    );
    let mut trial = Trial {
        sites: Sites::new()?,
        random: Random::new(args.options.seed, 0),
        piece: args.piece,
    };
    let size = |full, small| args.options.size(full, small);

    let keys = size(100_000, 5_000);
    let agreed = by_differences(&mut trial, keys)?;
    replicas_report::by_differences(&mut report, keys, &agreed);

    let changes_and_keys = (size(200, 100), size(2_000, 1_000));
    let sizes = by_rate(&mut trial, changes_and_keys, size(30, 12))?;
    replicas_report::by_rate(&mut report, changes_and_keys, &sizes);

    let writes_and_keys = (size(1_000, 200), size(20_000, 2_000));
    let agreed = partitions(&mut trial, writes_and_keys)?;
    replicas_report::partitions(&mut report, writes_and_keys, &agreed);

    replicas_report::cases(&mut report, &cases(&mut trial)?);
    Ok(report)
}

/// The stores of two sites, chance, and the elements of a piece.
struct Trial {
    sites: Sites,
    random: Random,
    piece: u64,
}

impl Trial {
    fn filters(&self, bits: u64) -> Method {
        let piece = self.piece;
        Method::Filters { bits, piece }
    }
}

/// Each method, for few differences and for many.
fn by_differences(trial: &mut Trial, keys: u64) -> Result<Vec<Agreed>> {
    let [few, some, many] = [4, 8, 16].map(|bits| trial.filters(bits));
    let mut agreed = Vec::new();
    // At most one key of five is changed.
    let differences = [1, 10, 100, 1_000, 10_000].into_iter();
    for changes in differences.filter(|changes| changes * 5 <= keys) {
        let mut replicas = trial.sites.equal_replicas(keys, &mut trial.random)?;
        replicas.iter().try_for_each(Replica::flush)?;
        for method in [Method::Hashes, few, some, many, Method::Sketch] {
            agreed.push(Agreed {
                changes,
                divergence: diverge(&mut replicas, (changes, keys), &mut trial.random)?,
                elements: replicas[0].len()?,
                method,
                cost: agree(&mut replicas, method, &mut trial.random)?,
            });
        }
    }
    Ok(agreed)
}

/// Filters of each rate, in many trials.
fn by_rate(trial: &mut Trial, (changes, keys): (u64, u64), trials: u64) -> Result<Vec<Trials>> {
    let mut sizes = Vec::new();
    for bits in [1, 2, 3, 4, 6, 8, 12, 16] {
        let method = trial.filters(bits);
        let mut replicas = trial.sites.equal_replicas(keys, &mut trial.random)?;
        let mut costs = Vec::new();
        for _ in 0..trials {
            diverge(&mut replicas, (changes, keys), &mut trial.random)?;
            costs.push(agree(&mut replicas, method, &mut trial.random)?);
        }
        sizes.push(Trials {
            bits,
            method,
            costs,
        });
    }
    Ok(sizes)
}

/// The line between the replicas breaks again and again. Both go on with writes and deletions.
fn partitions(trial: &mut Trial, (writes, keys): (u64, u64)) -> Result<Vec<Partition>> {
    let method = trial.filters(8);
    let mut replicas = trial.sites.equal_replicas(keys / 2, &mut trial.random)?;
    let mut partition = || {
        Ok(Partition {
            divergence: part(&mut replicas, (writes, keys), &mut trial.random)?,
            cost: agree(&mut replicas, method, &mut trial.random)?,
            values: replicas[1].values()?,
        })
    };
    (0..6).map(|_| partition()).collect()
}

/// Special cases, by each method.
fn cases(trial: &mut Trial) -> Result<Vec<CaseEnd>> {
    let mut ends = Vec::new();
    for (case, write) in CASES {
        for method in [Method::Hashes, trial.filters(8), Method::Sketch] {
            let mut replicas = trial.sites.equal_replicas(CASE_KEYS, &mut trial.random)?;
            write(&mut replicas)?;
            ends.push(CaseEnd {
                case,
                method,
                cost: agree(&mut replicas, method, &mut trial.random)?,
                values: replicas[1].values()?,
            });
        }
    }
    Ok(ends)
}
