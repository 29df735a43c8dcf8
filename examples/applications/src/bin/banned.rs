//! Banned addresses: a firewall that asks a filter first and never lets a banned address pass.
//!
//! The list of banned addresses and networks is in a store. A filter in memory stands in front: "no" is
//! certain, so the packet passes at once; "maybe" is looked up in the store. An address has one probe for
//! each prefix length in use, as any of its prefixes may be banned: Dharmapurikar, Krishnamurthy, Taylor,
//! "Longest prefix matching using Bloom filters" (2003), section 3. Fewer lengths make fewer probes and
//! more entries: controlled prefix expansion (Srinivasan, Varghese 1998; section 4 of the paper of 2003).
//!
//! A ban can end. A counting filter (Fan and others, "Summary cache", 2000, section V.C) takes the entry
//! out. A plain filter cannot, so it is built anew in the background: bans since the rebuild began are
//! kept in a log, and both filters get them. A thread looks up banned addresses all the while.

#[path = "banned/firewall.rs"]
mod firewall;

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::PoisonError;

use applications::ban_list::{self, Exact};
use applications::networks::Network;
use applications::numbers::grouped;
use applications::watch::{Watch, banned_after, banned_before, watch};
use applications::{Cell, Line, Options, Plot, Random, Report, Result, Scale, Table, program};
use clap::Parser;
use criba::FilterPolicy;
use criba_filters::{Blocked, CountingBloom, Membership as _};
use firewall::{BITS, Front, Keeper, Live, check_banned, pass_all, store, store_bytes};

/// Bans addresses and networks with a store and a filter in memory in front of it.
#[derive(Parser, Debug)]
#[command(name = "banned", version)]
struct Args {
    #[command(flatten)]
    options: Options,
    /// The list: an address or a network on each line, comments after `#`; made up if not given
    #[arg(long, value_name = "FILE")]
    list: Option<PathBuf>,
}

fn main() -> ExitCode {
    program(|args: &Args| &args.options, run)
}

fn run(args: &Args) -> Result<Report> {
    let options = &args.options;
    let mut random = Random::new(options.seed, 0);
    let (list, from) = match &args.list {
        Some(path) => (ban_list::read(path)?, path.display().to_string()),
        None => {
            let list = ban_list::mixed(options.size(200_000, 4_000), &mut random);
            (list, "made up, with the networks of RFC 6890".into())
        }
    };
    let mut report = Report::new(
        "banned",
        "Banned addresses",
        "How many addresses a second does a filter let pass, when no banned one ever may?",
    );
    by_bits(options, &mut report)?;
    by_lengths(options, (&list, &from), &mut report)?;
    with_changes(options, &list, &mut report)?;
    Ok(report)
}

/// Single addresses: one probe each, more and more bits.
fn by_bits(options: &Options, report: &mut Report) -> Result<()> {
    let mut random = Random::new(options.seed, 1);
    let networks = ban_list::singles(options.size(1_000_000, 20_000), &mut random);
    let outside = Exact::new(&networks);
    let outside = outside.outside(options.size(500_000, 40_000), false, &mut random)?;
    let folder = tempfile::tempdir()?;
    let path = |name| folder.path().join(name);
    let db = store(&path("default"), &networks, FilterPolicy::default())?;
    let bare = store(&path("bare"), &networks, FilterPolicy::None)?;
    let (banned, others) = (networks.len() as u64, outside.len() as u64);
    let (banned, others) = (grouped(banned), grouped(others));
    let mut table = Table::new(
        format!("{banned} single addresses, and {others} others looked up"),
        &[
            "bits per address",
            "filter",
            "on disk",
            "store memory",
            "false positives",
            "expected",
            "store lookups",
            "block reads",
            "without filters",
            "million per s",
            "spread",
        ],
    );
    let (mut measured, mut expected, mut speeds) = (Vec::new(), Vec::new(), Vec::new());
    let mut sum = [0; 3];
    for bits in [6.0, 8.0, 10.0, 12.0, 16.0, 20.0] {
        let filter = Blocked::new(networks.len() as u64, bits)?;
        let front = Front::new(filter, options.seed, &networks)?;
        check_banned(&front, &db, (&networks, 100), &mut random)?;
        let tally = pass_all(&front, &db, &outside)?;
        let without = pass_all(&front, &bare, &outside)?.reads;
        let (share, rate) = (front.measured_rate(&outside), front.expected_rate(&outside));
        let speed = front.speed(&outside);
        let [disk, memory] = store_bytes(&db)?;
        table.row([
            Cell::Number(bits, 0),
            Cell::Bytes(front.filter.bits() / 8),
            disk,
            memory,
            Cell::Share(share),
            Cell::Share(rate),
            tally.maybe.into(),
            tally.reads.into(),
            without.into(),
            Cell::Number(speed.median / 1e6, 1),
            speed.spread().into(),
        ]);
        measured.push((bits, 100.0 * share));
        expected.push((bits, 100.0 * rate));
        speeds.push(speed.median / 1e6);
        for (sum, more) in sum.iter_mut().zip([tally.maybe, tally.reads, without]) {
            *sum += more;
        }
    }
    report.table(table);
    report.plot(rate_plot(measured, expected));
    let least = speeds.iter().copied().fold(f64::INFINITY, f64::min);
    let most = speeds.iter().copied().fold(0.0, f64::max);
    report.conclude(format!(
        "One thread asks the filter about {least:.1} to {most:.1} million single addresses a second, by its \
         size. Each false positive is a lookup in the store. The {} of all sizes read {} blocks in a store \
         with filters of its own, and {} in one without.",
        grouped(sum[0]),
        grouped(sum[1]),
        grouped(sum[2]),
    ));
    Ok(())
}

fn rate_plot(measured: Vec<(f64, f64)>, expected: Vec<(f64, f64)>) -> Plot {
    Plot {
        title: "Addresses looked up in vain, percent".into(),
        across: "bits per banned address".into(),
        scales: (Scale::Linear, Scale::Logarithmic),
        lines: vec![
            Line::new("second", "calculated", expected),
            Line::dots("first", "measured", measured),
        ],
    }
}

/// The list as it is, and expanded to fewer prefix lengths.
fn by_lengths(
    options: &Options,
    (list, from): (&[Network], &str),
    report: &mut Report,
) -> Result<()> {
    let mut random = Random::new(options.seed, 2);
    let outside = Exact::new(list);
    let outside = outside.outside(options.size(300_000, 20_000), true, &mut random)?;
    let mut table = Table::new(
        format!("The list: {from}, {} entries", grouped(list.len() as u64)),
        &[
            "prefix lengths",
            "IPv4",
            "IPv6",
            "entries",
            "filter",
            "on disk",
            "store memory",
            "probes",
            "probes expected",
            "false positives",
            "expected",
            "million per s",
            "spread",
        ],
    );
    let mut points = Vec::new();
    for step in [1, 2, 4, 8] {
        let networks = expanded(list, step);
        let folder = tempfile::tempdir()?;
        let db = store(folder.path(), &networks, FilterPolicy::default())?;
        let filter = Blocked::new(networks.len() as u64, BITS)?;
        let front = Front::new(filter, options.seed, &networks)?;
        check_banned(&front, &db, (list, 1), &mut random)?;
        let tally = pass_all(&front, &db, &outside)?;
        let speed = front.speed(&outside);
        let in_use = |family: IpAddr| front.lengths.of(family).len() as u64;
        let ipv4 = in_use(Ipv4Addr::UNSPECIFIED.into());
        let ipv6 = in_use(Ipv6Addr::UNSPECIFIED.into());
        let rate = front.expected_rate(&outside);
        let bytes = front.filter.bits() / 8;
        // One address in ten that is looked up is of IPv6.
        let probes = 0.9 * ipv4 as f64 + 0.1 * ipv6 as f64;
        let [disk, memory] = store_bytes(&db)?;
        table.row([
            if step == 1 {
                "as listed".into()
            } else {
                format!("multiples of {step}").into()
            },
            ipv4.into(),
            ipv6.into(),
            (networks.len() as u64).into(),
            Cell::Bytes(bytes),
            disk,
            memory,
            Cell::Number(tally.probes as f64 / outside.len() as f64, 2),
            Cell::Number(probes, 2),
            Cell::Share(mean_rate(&networks, &outside, &mut random)?),
            Cell::Share(rate),
            Cell::Number(speed.median / 1e6, 1),
            speed.spread().into(),
        ]);
        points.push((probes, speed.median / 1e6, bytes));
    }
    report.table(table);
    lengths_matter(&points, report);
    Ok(())
}

/// The share of addresses for which the filter says "maybe", in the mean of several hash functions.
///
/// Only a few short prefixes exist, and a false positive of one of them is one for all its addresses. So
/// the share differs from one hash function to another by more than the number of addresses suggests.
fn mean_rate(networks: &[Network], outside: &[IpAddr], random: &mut Random) -> Result<f64> {
    const FUNCTIONS: u64 = 8;
    let mut sum = 0.0;
    for _ in 0..FUNCTIONS {
        let filter = Blocked::new(networks.len() as u64, BITS)?;
        let front = Front::new(filter, random.next(), networks)?;
        sum += front.measured_rate(&outside[..outside.len() / 8]);
    }
    Ok(sum / FUNCTIONS as f64)
}

/// `points` are probes, millions of addresses a second, and bytes of the filter.
fn lengths_matter(points: &[(f64, f64, u64)], report: &mut Report) {
    report.plot(Plot {
        title: "Addresses a second, millions".into(),
        across: "probes per address: prefix lengths in use".into(),
        scales: (Scale::Linear, Scale::Linear),
        lines: vec![Line::dots(
            "first",
            "measured",
            points
                .iter()
                .map(|&(probes, speed, _)| (probes, speed))
                .collect(),
        )],
    });
    if let (Some(listed), Some(least)) = (points.first(), points.last()) {
        report.conclude(format!(
            "Networks cost a probe for each prefix length in use: {:.1} million addresses a second as \
             listed. Expanded to multiples of 8 it is {:.1} million, in a filter {:.1} times as large.",
            listed.1,
            least.1,
            least.2 as f64 / listed.2 as f64,
        ));
    }
}

/// The same addresses in networks whose prefix lengths are multiples of `step`.
fn expanded(list: &[Network], step: u8) -> Vec<Network> {
    let parts = list
        .iter()
        .flat_map(|network| network.split(network.length().next_multiple_of(step)));
    let mut networks: Vec<Network> = parts.collect();
    networks.sort_unstable();
    networks.dedup();
    networks
}

/// A list of which most entries change, behind filters that keep up with it or do not.
fn with_changes(options: &Options, list: &[Network], report: &mut Report) -> Result<()> {
    let mut random = Random::new(options.seed, 3);
    let outside = Exact::new(list).outside(options.size(200_000, 20_000), true, &mut random)?;
    let half = grouped(list.len() as u64 / 2);
    let mut table = Table::new(
        format!("{half} entries at a time, and as many come while others go"),
        &[
            "filter",
            "memory",
            "bits per entry",
            "rebuilds",
            "checks",
            "in a rebuild",
            "false positives",
            "expected",
        ],
    );
    let mut networks = list.to_vec();
    random.shuffle(&mut networks);
    let given = (networks.as_slice(), outside.as_slice(), options.seed);
    let never = one_way::<Blocked>("plain, never rebuilt", false, given, &mut table)?;
    let anew = one_way::<Blocked>("plain, rebuilt", true, given, &mut table)?;
    let counting = one_way::<CountingBloom>("counting", false, given, &mut table)?;
    report.table(table);
    report.conclude(format!(
        "{} lookups of banned addresses by another thread while the list changed, {} of them during {} \
         rebuilds: none passed.",
        grouped(never.0.checks + anew.0.checks + counting.0.checks),
        grouped(anew.0.checks_in_rebuild),
        anew.0.rebuilds,
    ));
    report.conclude(format!(
        "At the end the filter that is never rebuilt sends {:.1} % of the other addresses to the store, the \
         rebuilt one {:.1} %, and the counting one, in {:.1} times the memory, {:.1} %.",
        100.0 * never.1,
        100.0 * anew.1,
        counting.2 as f64 / anew.2 as f64,
        100.0 * counting.1,
    ));
    Ok(())
}

/// One filter while the list changes: what happened, its rate at the end, and its bytes.
fn one_way<F: Keeper>(
    name: &str,
    rebuilds: bool,
    (networks, outside, seed): (&[Network], &[IpAddr], u64),
    table: &mut Table,
) -> Result<(Watch, f64, u64)> {
    let folder = tempfile::tempdir()?;
    let live = Live::<F>::open(folder.path(), banned_before(networks), seed)?;
    let watch = watch(&live, networks, rebuilds, seed)?;
    let front = live
        .front
        .into_inner()
        .unwrap_or_else(PoisonError::into_inner);
    let banned = banned_after(networks);
    check_banned(&front, &live.db, (&banned, 1), &mut Random::new(seed, 4))?;
    pass_all(&front, &live.db, outside)?;
    let (bits, rate) = (front.filter.bits(), front.measured_rate(outside));
    table.row([
        name.into(),
        Cell::Bytes(bits / 8),
        Cell::Number(bits as f64 / banned.len().max(1) as f64, 1),
        watch.rebuilds.into(),
        watch.checks.into(),
        watch.checks_in_rebuild.into(),
        Cell::Share(rate),
        Cell::Share(front.expected_rate(outside)),
    ]);
    live.db.close()?;
    Ok((watch, rate, bits / 8))
}
