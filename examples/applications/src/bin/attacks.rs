//! Attacks on filters: how much does a Bloom filter lose to somebody who chooses the keys?
//!
//! The formulas of Bloom filters hold for keys that were chosen without regard to the hash. The attackers
//! of this study choose keys by the hash, or know which keys are probable. They attack filters that
//! this program makes, from data that is made up; only the names can come from a file.
//!
//! - Pollution: an insider inserts only keys that set k new bits each, so the rate rises. Gerbet, Kumar,
//!   Lauradoux, "The power of evil choices in Bloom filters" (2015), the chosen-insertion adversary.
//! - Forgery: an attacker with a copy of the filter searches for keys that the filter falsely accepts. The
//!   same paper, the query-only adversary; Naor, Yogev, "Bloom filters in adversarial environments" (2015),
//!   for attackers who only see answers.
//! - Dictionary: an attacker asks a published filter of e-mail addresses about every possible address.
//! - Frequency: an attacker recognises names in published filters of bigrams by how often each filter
//!   comes. Niedermeyer, Steinmetzer, Kroll, Schnell, "Cryptanalysis of basic Bloom filters used for
//!   privacy preserving record linkage" (2014).
//!
//! After each attack the filter gets a secret key, and the same attack is measured again.

use std::path::PathBuf;
use std::process::ExitCode;

use applications::adversary::{
    Forged, PUBLIC, Polluted, Tenth, accepted, chosen_fill, filter_of, keys, random_fill,
};
use applications::linkage::{Attacker, Guesses, Protection, blind_share, publish, share_by_size};
use applications::names::Names;
use applications::numbers::grouped;
use applications::{Cell, Line, Options, Plot, Random, Report, Result, Scale, Table, program};
use clap::Parser;
use criba_filters::formulas::rate_for;
use criba_filters::{Design, Membership};

/// Attacks Bloom filters of its own, and shows what a secret key helps.
#[derive(Parser, Debug)]
#[command(name = "attacks", version)]
struct Args {
    #[command(flatten)]
    options: Options,
    /// Names, one on each line, each with a frequency or all without [default: made up]
    #[arg(long, value_name = "FILE")]
    names: Option<PathBuf>,
}

fn main() -> ExitCode {
    program(|args: &Args| &args.options, run)
}

fn run(args: &Args) -> Result<Report> {
    let options = &args.options;
    let names = Names::load(args.names.as_deref(), options)?;
    let mut report = Report::new(
        "attacks",
        "Attacks on filters",
        "How much does a Bloom filter lose to somebody who chooses the keys, and what does a secret key help?",
    );
    pollution(options, &mut report)?;
    forgery(options, &mut report)?;
    dictionary(options, &names, &mut report)?;
    frequency(options, &names, &mut report)?;
    Ok(report)
}

/// An insider fills a filter with chosen keys.
fn pollution(options: &Options, report: &mut Report) -> Result<()> {
    let count = options.size(4_000, 1_000);
    let usual = Design::for_rate(count, 0.01)?;
    // With k = m / (e n), the rate that an insider can reach is least (the same paper).
    let probes = usual.bits as f64 / (std::f64::consts::E * count as f64);
    let careful = Design {
        probes: probes.round() as u32,
        ..usual
    };
    let secret = Random::new(options.seed, 1).next();
    let polluted = Polluted::choose(usual, options)?;
    let polluted_careful = Polluted::choose(careful, options)?;
    let random: Vec<String> = keys("random", options).take(count as usize).collect();
    let absent = keys("absent", options).take(options.size(200_000, 40_000) as usize);
    let absent: Vec<String> = absent.collect();
    let mut table = Table::new(
        format!(
            "Pollution: {} keys in a filter of {} bits that is made for them",
            grouped(count),
            grouped(usual.bits)
        ),
        &[
            "keys",
            "probes",
            "fill",
            "fill calculated",
            "rate",
            "rate calculated",
            "tries per key",
            "tries calculated",
        ],
    );
    let mut rates = Vec::new();
    for (name, design, seed, work) in [
        ("random", usual, PUBLIC, None),
        ("chosen", usual, PUBLIC, Some(&polluted)),
        ("chosen, secret key", usual, secret, Some(&polluted)),
        ("random", careful, PUBLIC, None),
        ("chosen", careful, PUBLIC, Some(&polluted_careful)),
    ] {
        let filter = filter_of(design, seed, work.map_or(&random, |work| &work.keys))?;
        let rate = accepted(&filter, seed, &absent) as f64 / absent.len() as f64;
        let fill = match work {
            Some(_) if seed == PUBLIC => chosen_fill(design, count as f64),
            _ => random_fill(design, count as f64),
        };
        let work = work.map(Polluted::work);
        let per_key = |tried: f64| Cell::Number(tried / count as f64, 1);
        table.row([
            name.into(),
            Cell::Count(design.probes.into()),
            Cell::Share(filter.fill()),
            Cell::Share(fill),
            Cell::Share(rate),
            Cell::Share(fill.powf(f64::from(design.probes))),
            work.map_or(Cell::None, |(tried, _)| per_key(tried as f64)),
            work.map_or(Cell::None, |(_, expected)| per_key(expected)),
        ]);
        rates.push(rate);
    }
    report.table(table);
    report.conclude(format!(
        "With the public hash, {} chosen keys raise the rate from {:.2} % to {:.1} %, at {:.0} candidates a key. \
         Under a secret key the same keys give {:.2} %.",
        grouped(count),
        100.0 * rates[0],
        100.0 * rates[1],
        polluted.work().0 as f64 / count as f64,
        100.0 * rates[2],
    ));
    plot_pollution(usual, &polluted, report);
    Ok(())
}

fn plot_pollution(design: Design, polluted: &Polluted, report: &mut Report) {
    let curve = |fill: fn(Design, f64) -> f64| {
        let at = |tenth| design.keys as f64 * f64::from(tenth) / 10.0;
        let points = (0..=10).map(at);
        points
            .map(|keys| (keys, 100.0 * fill(design, keys)))
            .collect()
    };
    let dots = |value: fn(&Tenth) -> f64| {
        let points = polluted.tenths.iter();
        points
            .map(|tenth| (tenth.keys as f64, value(tenth)))
            .collect()
    };
    report.plot(Plot {
        title: "Bits set, percent".into(),
        across: "keys in the filter".into(),
        scales: (Scale::Linear, Scale::Linear),
        lines: vec![
            Line::new("second", "chosen keys, calculated", curve(chosen_fill)),
            Line::new("none", "random keys, calculated", curve(random_fill)),
            Line::dots(
                "first",
                "chosen keys, measured",
                dots(|tenth| 100.0 * tenth.fill),
            ),
        ],
    });
    let per_key = design.keys as f64 / 10.0;
    let scaled = |points: Vec<(f64, f64)>| {
        let points = points.into_iter();
        points
            .map(|(keys, tried)| (keys, tried / per_key))
            .collect()
    };
    report.plot(Plot {
        title: "Candidates tried for a chosen key".into(),
        across: "keys in the filter".into(),
        scales: (Scale::Linear, Scale::Logarithmic),
        lines: vec![
            Line::new("second", "calculated", scaled(dots(|tenth| tenth.expected))),
            Line::dots(
                "first",
                "measured",
                scaled(dots(|tenth| tenth.tried as f64)),
            ),
        ],
    });
}

/// One attacker has a copy of the filter and the public hash; the other can only ask.
fn forgery(options: &Options, report: &mut Report) -> Result<()> {
    let members = keys("member", options).take(options.size(10_000, 1_000) as usize);
    let members: Vec<String> = members.collect();
    let wanted = options.size(1_000, 100) as usize;
    let secret = Random::new(options.seed, 2).next();
    let mut table = Table::new(
        format!(
            "Forgery: {} keys that a filter of {} members accepts",
            grouped(wanted as u64),
            grouped(members.len() as u64)
        ),
        &[
            "rate",
            "tries per key",
            "calculated",
            "accepted",
            "under a secret key",
            "expected there",
            "questions per key",
            "accepted again",
        ],
    );
    let (mut measured, mut calculated) = (Vec::new(), Vec::new());
    let (mut passed, mut random) = (0, 0.0);
    for rate in [0.1, 0.01, 0.001, 0.000_1] {
        let design = Design::for_rate(members.len() as u64, rate)?;
        let public = filter_of(design, PUBLIC, &members)?;
        let keyed = filter_of(design, secret, &members)?;
        let forged = Forged::search(&public, PUBLIC, keys("forged", options), wanted);
        let tries = forged.tried as f64 / wanted as f64;
        let under_secret = accepted(&keyed, secret, &forged.keys);
        let expected = wanted as f64 * keyed.current_rate();
        let asked = Forged::search(&keyed, secret, keys("asked", options), wanted);
        table.row([
            Cell::Share(rate),
            Cell::Number(tries, 1),
            Cell::Number(1.0 / public.current_rate(), 1),
            accepted(&public, PUBLIC, &forged.keys).into(),
            under_secret.into(),
            Cell::Number(expected, 1),
            Cell::Number(asked.tried as f64 / wanted as f64, 1),
            accepted(&keyed, secret, &asked.keys).into(),
        ]);
        measured.push((100.0 * rate, tries));
        calculated.push((100.0 * rate, 1.0 / design.rate()));
        passed += under_secret;
        random += expected;
    }
    report.table(table);
    report.plot(Plot {
        title: "Candidates tried for a forged key".into(),
        across: "rate that the filter is made for, percent".into(),
        scales: (Scale::Logarithmic, Scale::Logarithmic),
        lines: vec![
            Line::new("second", "calculated", calculated),
            Line::dots("first", "measured", measured),
        ],
    });
    report.conclude(format!(
        "A forged key costs 1/p tries. A filter with a secret key accepts {passed} of {} forged keys; {random:.0} are \
         expected of random ones. An attacker who may ask it finds a key by 1/p questions, and can use that key \
         again.",
        grouped(4 * wanted as u64),
    ));
    Ok(())
}

/// A published filter is asked about every address that there could be.
fn dictionary(options: &Options, names: &Names, report: &mut Report) -> Result<()> {
    let all = options.size(200_000, 20_000);
    let mut addresses = names.addresses(all);
    Random::new(options.seed, 3).shuffle(&mut addresses);
    let secret = Random::new(options.seed, 4).next();
    let mut table = Table::new(
        format!(
            "Dictionary: a filter of members is asked about {} addresses",
            grouped(all)
        ),
        &[
            "hash",
            "rate",
            "members",
            "accepted",
            "members among them",
            "precision",
            "by Bayes",
        ],
    );
    let mut precisions = Vec::new();
    for (hash, rate, share) in [
        ("public", 0.1, 100),
        ("public", 0.01, 100),
        ("public", 0.001, 100),
        ("public", 0.01, 10),
        ("secret", 0.01, 100),
    ] {
        let (members, others) = addresses.split_at((all / share) as usize);
        let prior = members.len() as f64 / all as f64;
        let design = Design::for_rate(members.len() as u64, rate)?;
        let seed = if hash == "secret" { secret } else { PUBLIC };
        let filter = filter_of(design, seed, members)?;
        // The attacker has no secret: nothing is better to ask with than the public hash.
        let right = accepted(&filter, PUBLIC, members);
        let all_accepted = right + accepted(&filter, PUBLIC, others);
        let precision = right as f64 / all_accepted as f64;
        let p = rate_for(design.bits, design.probes, members.len() as u64);
        let for_members = if hash == "secret" { p } else { 1.0 };
        let positive = prior * for_members;
        precisions.push(100.0 * precision);
        table.row([
            hash.into(),
            Cell::Share(rate),
            (members.len() as u64).into(),
            all_accepted.into(),
            right.into(),
            Cell::Share(precision),
            Cell::Share(positive / (positive + (1.0 - prior) * p)),
        ]);
    }
    report.table(table);
    report.conclude(format!(
        "Where one address in 100 is a member, {:.0}, {:.0} or {:.0} % of the addresses that the public filter accepts \
         are members, at a rate of 10, 1 or 0.1 %. A lower rate gives away more; with a secret key it is {:.1} %.",
        precisions[0], precisions[1], precisions[2], precisions[4],
    ));
    Ok(())
}

/// Names published for record linkage, with five protections, and four attackers.
fn frequency(options: &Options, names: &Names, report: &mut Report) -> Result<()> {
    let people = options.size(10_000, 2_000);
    let mut table = Table::new(
        format!(
            "Frequency: names of {} people, published as filters of bigrams; {} names, {}",
            grouped(people),
            grouped(names.names.len() as u64),
            names.source
        ),
        &[
            "protection",
            "patterns",
            "by dictionary",
            "by frequency",
            "and size",
            "and shared bigrams",
            "size calculated",
            "blind calculated",
        ],
    );
    let mut best = Vec::new();
    for (name, protection) in [
        ("none", Protection::None),
        ("secret key", Protection::Key),
        ("key, 2 bigrams of noise", Protection::Noise(2)),
        ("key, salt of 80 years", Protection::Salt(80)),
        ("key, salt of 29,220 days", Protection::Salt(29_220)),
    ] {
        // The same people under each protection.
        let mut random = Random::new(options.seed, 5);
        let published = publish(names, people, protection, &mut random)?;
        let attacker = Attacker::new(names, &published)?;
        let right = |guesses: &Guesses| {
            let pairs = guesses.iter().zip(&published.truth);
            let right = pairs.filter(|(guess, truth)| **guess == Some(**truth));
            right.count() as f64 / people as f64
        };
        let mut shares = vec![
            right(&attacker.by_dictionary()?),
            right(&attacker.by_frequency()),
            right(&attacker.by_size()),
        ];
        shares.extend(attacker.by_shared_bigrams()?.as_ref().map(right));
        let share = |attack| {
            shares
                .get(attack)
                .map_or(Cell::None, |share| Cell::Share(*share))
        };
        table.row([
            name.into(),
            attacker.patterns().into(),
            share(0),
            share(1),
            share(2),
            share(3),
            Cell::Share(share_by_size(names)),
            Cell::Share(blind_share(names)),
        ]);
        best.push(100.0 * shares.into_iter().fold(0.0, f64::max));
    }
    report.table(table);
    report.conclude(format!(
        "A secret key alone does not hide names: frequencies, sizes and shared bigrams name {:.1} % of the people. \
         With a salt of the day of birth it is {:.0} %; a guess that sees only how many bigrams each name has \
         reaches {:.0} %, and a blind one {:.0} %.",
        best[1],
        best[4],
        100.0 * share_by_size(names),
        100.0 * blind_share(names),
    ));
    Ok(())
}
