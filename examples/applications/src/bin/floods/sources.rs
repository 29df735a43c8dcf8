//! When each source was found, and how a distributed attack is.

use std::net::IpAddr;

use applications::sliding::{crossings, delay};
use applications::{Cell, Report, Result, Table};

use crate::score::{Score, score};
use crate::{Input, PANES, detectors};

/// Bytes of each pane.
const SIZE: u64 = 64 << 10;
/// Most sources that are listed.
const LISTED: usize = 16;

/// When each source above the rate was found; and the distributed attack, by source and by destination.
pub(crate) fn by_source(input: &Input, report: &mut Report) -> Result<()> {
    let (window, traffic) = (input.window(PANES), &input.traffic);
    let packets = traffic.packets.as_slice();
    let mut both = detectors(input, window, SIZE)?;
    let scores = score((packets, window), |packet| packet.source, &mut both)?;
    let mut crossed: Vec<(IpAddr, Vec<u64>)> = crossings(
        packets,
        |packet| packet.source,
        (window.limit, window.nanos()),
    )
    .into_iter()
    .collect();
    crossed
        .sort_unstable_by_key(|(source, at)| (!traffic.attackers.contains(source), at[0], *source));
    let mut table = Table::new(
        format!(
            "Sources above the rate: {}, of which at most {LISTED} are here",
            crossed.len()
        ),
        &[
            "source",
            "kind",
            "first above at s",
            "count-min at s",
            "space-saving at s",
            "delay in panes",
        ],
    );
    let seconds = |nanos: u64| Cell::Number(nanos as f64 / 1e9, 2);
    for (source, at) in crossed.iter().take(LISTED) {
        let reported = |score: &Score| score.reported.get(source).copied();
        let [counts, top] = [&scores[0][0], &scores[1][0]].map(reported);
        let kind = if traffic.attackers.contains(source) {
            "attacker"
        } else {
            "other"
        };
        table.row([
            source.to_string().into(),
            kind.into(),
            seconds(at[0]),
            counts.map_or(Cell::None, seconds),
            top.map_or(Cell::None, seconds),
            counts.map_or(Cell::None, |end| {
                Cell::Number(delay(at, end) / window.pane_nanos as f64, 2)
            }),
        ]);
    }
    report.table(table);
    if !traffic.distributed.is_empty() {
        distributed(input, &scores[0][0], report)?;
    }
    Ok(())
}

/// Many sources below the rate with one victim.
fn distributed(input: &Input, by_source: &Score, report: &mut Report) -> Result<()> {
    let (window, traffic) = (input.window(PANES), &input.traffic);
    let packets = traffic.packets.as_slice();
    let mut both = detectors(input, window, SIZE)?;
    let scores = score((packets, window), |packet| packet.destination, &mut both)?;
    let mut table = Table::new(
        format!(
            "An attack of {} sources below the rate",
            traffic.distributed.len()
        ),
        &["counted by", "addresses", "reported", "first at s"],
    );
    let mut row = |name: &str, addresses: &[IpAddr], score: &Score| {
        let reported = addresses
            .iter()
            .filter_map(|address| score.reported.get(address));
        let times: Vec<u64> = reported.copied().collect();
        let first = times
            .iter()
            .min()
            .map_or(Cell::None, |at| Cell::Number(*at as f64 / 1e9, 2));
        table.row([
            name.into(),
            (addresses.len() as u64).into(),
            (times.len() as u64).into(),
            first,
        ]);
        times.len()
    };
    let sources = row("source", &traffic.distributed, by_source);
    let victims = row("destination", &[traffic.victim], &scores[0][0]);
    report.table(table);
    report.conclude(format!(
        "Counted by source, {sources} of the {} sources of the distributed attack are reported. Counted by \
         destination, its victim is {}.",
        traffic.distributed.len(),
        if victims > 0 { "reported" } else { "not reported" },
    ));
    Ok(())
}
