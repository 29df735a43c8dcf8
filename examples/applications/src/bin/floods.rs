//! Packets and floods: which source addresses send more than a rate, in little memory?
//!
//! Two sketches count the packets of a sliding window, in a ring of panes. Count-min (Cormode, Muthukrishnan
//! 2005, section 3) with conservative update (Estan, Varghese 2002, section 4.2.2) knows no names, so names
//! are kept when their estimate gets far enough, as in a multistage filter of the second paper. Space-saving
//! (Metwally, Agrawal, El Abbadi 2005, section 3) keeps names with its counters. Neither misses a source
//! above the rate as long as its memory suffices; a false alarm is at most the error bound below the rate.
//!
//! The input is a minute of made-up packets: sources that follow Zipf's law, five attackers that ramp up, and
//! a distributed attack whose sources stay below the rate. Or it is a capture file.

#[path = "floods/detect.rs"]
mod detect;
#[path = "floods/score.rs"]
mod score;
#[path = "floods/sources.rs"]
mod sources;

use std::net::IpAddr;
use std::path::PathBuf;
use std::process::ExitCode;

use applications::capture;
use applications::numbers::{bytes, grouped};
use applications::sliding::{Window, crossings, delay};
use applications::traffic::{self, Traffic};
use applications::{
    Cell, Error, Line, Options, Plot, Random, Report, Result, Scale, Table, program,
};
use clap::Parser;
use criba_filters::Update;
use detect::{CountPanes, ROWS, TopPanes};
use score::{Score, Scored, Side, score};
use sources::by_source;

/// Finds the sources of floods of packets with sketches over a sliding window.
#[derive(Parser, Debug)]
#[command(name = "floods", version)]
struct Args {
    #[command(flatten)]
    options: Options,
    /// A capture of libpcap or pcapng; made up if not given
    #[arg(long, value_name = "FILE")]
    pcap: Option<PathBuf>,
    /// Packets per second above which a source is a flood, in the mean of a window; 1 in 200 of all by
    /// default
    #[arg(long, value_name = "PACKETS")]
    rate: Option<f64>,
    /// Seconds of the sliding window
    #[arg(long, value_name = "SECONDS", default_value_t = 10.0)]
    window: f64,
}

/// Panes of a window, where their number is not what is studied.
const PANES: usize = 10;

fn main() -> ExitCode {
    program(|args: &Args| &args.options, run)
}

/// The packets, and what they are to be searched for.
struct Input {
    traffic: Traffic,
    name: String,
    seed: u64,
    /// Nanoseconds of the window.
    nanos: u64,
    limit: u64,
}

impl Input {
    fn window(&self, panes: usize) -> Window {
        let pane_nanos = (self.nanos / panes as u64).max(1);
        Window {
            pane_nanos,
            panes,
            limit: self.limit,
        }
    }
}

fn run(args: &Args) -> Result<Report> {
    let input = input(args)?;
    let mut report = Report::new(
        "floods",
        "Packets and floods",
        "Which sources send more than a rate, and how soon and how surely do sketches find them?",
    );
    by_memory(&input, &mut report)?;
    by_source(&input, &mut report)?;
    by_panes(&input, &mut report)?;
    Ok(report)
}

fn input(args: &Args) -> Result<Input> {
    if !(0.001..=1e6).contains(&args.window) {
        return Err(Error::Usage(format!(
            "a window of {} seconds cannot be had: choose from 0.001 to 1000000",
            args.window
        )));
    }
    let per_s = args.options.size(20_000, 2_000);
    let (traffic, name, rate) = match &args.pcap {
        None => {
            let rate = args.rate.unwrap_or(per_s as f64 / 200.0);
            let mut random = Random::new(args.options.seed, 0);
            let traffic = traffic::attacked(per_s, rate.clamp(0.0, per_s as f64), &mut random);
            (traffic, "made up".to_string(), rate)
        }
        Some(path) => {
            let capture = capture::read(path)?;
            let others = grouped(capture.others);
            let name = format!("{}, with {others} more that are not IP", path.display());
            let seconds = capture
                .packets
                .iter()
                .map(|packet| packet.nanos)
                .max()
                .unwrap_or(0) as f64
                / 1e9;
            let all = capture.packets.len() as f64;
            let rate = args.rate.unwrap_or(all / seconds.max(args.window) / 200.0);
            (Traffic::of(capture.packets), name, rate)
        }
    };
    if !(rate > 0.0 && rate <= 1e12) {
        return Err(Error::Usage(format!(
            "a rate of {rate} packets per second cannot be had: choose one above 0"
        )));
    }
    Ok(Input {
        traffic,
        name,
        seed: args.options.seed,
        nanos: (args.window * 1e9) as u64,
        limit: ((rate * args.window).ceil() as u64).max(2),
    })
}

/// Count-min with both updates, and space-saving with both of its answers, in more and more memory.
fn by_memory(input: &Input, report: &mut Report) -> Result<()> {
    let window = input.window(PANES);
    let mut table = Table::new(
        format!(
            "{} packets, {}; a flood has {} in {} s",
            grouped(input.traffic.packets.len() as u64),
            input.name,
            grouped(input.limit),
            input.nanos as f64 / 1e9
        ),
        &[
            "sketch",
            "memory",
            "above",
            "missed",
            "false alarms",
            "error bound",
            "largest error",
            "beyond the bound",
            "at most",
        ],
    );
    // Size, largest error and its bound of the two that are recommended.
    let mut points = [Vec::new(), Vec::new()];
    let (mut exact, mut missed) = ([None, None], [0, 0]);
    for size in [4 << 10, 16 << 10, 64 << 10, 256 << 10] {
        let mut detectors = detectors(input, window, size)?;
        let plain = CountPanes::new(size, Update::Plain, window, input.seed)?;
        detectors.insert(0, (Box::new(plain), vec![Side::AtMost]));
        let packets = input.traffic.packets.as_slice();
        let scores = score((packets, window), |packet| packet.source, &mut detectors)?;
        for ((detector, sides), scores) in detectors.iter().zip(&scores) {
            for (side, score) in sides.iter().zip(scores) {
                table.row(memory_row(detector.name(), *side, score));
            }
        }
        for (at, score) in [&scores[1][0], &scores[2][0]].into_iter().enumerate() {
            points[at].push((
                size as f64 / 1024.0,
                score.largest_error as f64,
                score.bound,
            ));
            missed[at] += score.missed;
            if exact[at].is_none() && score.missed + score.false_alarms == 0 {
                exact[at] = Some(score.memory);
            }
        }
    }
    report.table(table);
    report.plot(error_plot(&points));
    report.conclude(conclusion(exact, missed, input.limit));
    Ok(())
}

/// `exact` is the memory from which there are no errors, `missed` how many were missed at all sizes; of
/// count-min and of space-saving.
fn conclusion(exact: [Option<u64>; 2], missed: [u64; 2], limit: u64) -> String {
    let first = |memory: Option<u64>| match memory {
        Some(memory) => format!("in {}", bytes(memory)),
        None => "at none of these sizes".into(),
    };
    format!(
        "Conservative count-min misses {} sources above the rate, and has no false alarms {}. Space-saving \
         misses {}, as it can where its error bound exceeds the {} packets of a flood, and has no errors {}.",
        missed[0],
        first(exact[0]),
        missed[1],
        grouped(limit),
        first(exact[1]),
    )
}

/// Conservative count-min and space-saving.
fn detectors(input: &Input, window: Window, bytes: u64) -> Result<Vec<Scored>> {
    let counts = CountPanes::new(bytes, Update::Conservative, window, input.seed)?;
    let top = TopPanes::new(bytes, window)?;
    Ok(vec![
        (Box::new(counts), vec![Side::AtMost]),
        (Box::new(top), vec![Side::AtMost, Side::AtLeast]),
    ])
}

fn memory_row(name: &str, side: Side, score: &Score) -> [Cell; 9] {
    let is_count_min = name.starts_with("count-min");
    let expected = if is_count_min {
        (-f64::from(ROWS)).exp()
    } else {
        0.0
    };
    let beyond = score.beyond as f64 / score.estimates.max(1) as f64;
    let errors = match side {
        Side::AtMost => [
            Cell::Number(score.bound, 0),
            score.largest_error.into(),
            Cell::Share(beyond),
            Cell::Share(expected),
        ],
        Side::AtLeast => [Cell::None, Cell::None, Cell::None, Cell::None],
    };
    let [bound, largest, beyond, expected] = errors;
    let name = match (is_count_min, side) {
        (true, _) => name.to_string(),
        (false, Side::AtMost) => format!("{name}, at most"),
        (false, Side::AtLeast) => format!("{name}, at least"),
    };
    [
        name.into(),
        Cell::Bytes(score.memory),
        score.above.into(),
        score.missed.into(),
        score.false_alarms.into(),
        bound,
        largest,
        beyond,
        expected,
    ]
}

fn error_plot(points: &[Vec<(f64, f64, f64)>; 2]) -> Plot {
    let measured = |at: usize| {
        points[at]
            .iter()
            .map(|&(size, error, _)| (size, error))
            .collect()
    };
    let bound = |at: usize| {
        points[at]
            .iter()
            .map(|&(size, _, bound)| (size, bound))
            .collect()
    };
    Plot {
        title: "Packets by which an estimate is too high".into(),
        across: "KB of sketch in each pane".into(),
        scales: (Scale::Logarithmic, Scale::Logarithmic),
        lines: vec![
            Line::new("second", "count-min, bound", bound(0)),
            Line::dots("second", "largest", measured(0)),
            Line::new("first", "space-saving, bound", bound(1)),
            Line::dots("first", "largest", measured(1)),
        ],
    }
}

/// The same memory for all panes together, in more and more panes.
fn by_panes(input: &Input, report: &mut Report) -> Result<()> {
    const MEMORY: u64 = 640 << 10;
    let packets = input.traffic.packets.as_slice();
    let mut table = Table::new(
        format!(
            "Count-min in {} altogether, by panes of a window",
            bytes(MEMORY)
        ),
        &[
            "panes",
            "seconds each",
            "crossed",
            "reported",
            "mean delay s",
            "expected",
            "longest",
            "false alarms",
            "error bound",
            "largest error",
        ],
    );
    let (mut measured, mut expected, mut bounds) = (Vec::new(), Vec::new(), Vec::new());
    for panes in [1, 2, 5, 10, 20, 50] {
        let window = input.window(panes);
        let counts = CountPanes::new(
            MEMORY / panes as u64,
            Update::Conservative,
            window,
            input.seed,
        )?;
        let mut detectors: Vec<Scored> = vec![(Box::new(counts), vec![Side::AtMost])];
        let scores = score((packets, window), |packet| packet.source, &mut detectors)?;
        let score = &scores[0][0];
        let crossed = crossings(
            packets,
            |packet| packet.source,
            (window.limit, window.nanos()),
        );
        let pane = window.pane_nanos as f64 / 1e9;
        let reported = |(source, at): (&IpAddr, &Vec<u64>)| {
            score.reported.get(source).map(|end| delay(at, *end) / 1e9)
        };
        let delays: Vec<f64> = crossed.iter().filter_map(reported).collect();
        let mean = delays.iter().sum::<f64>() / delays.len().max(1) as f64;
        table.row([
            (panes as u64).into(),
            Cell::Number(pane, 2),
            (crossed.len() as u64).into(),
            (delays.len() as u64).into(),
            Cell::Number(mean, 3),
            Cell::Number(pane / 2.0, 3),
            Cell::Number(delays.iter().copied().fold(0.0, f64::max), 3),
            score.false_alarms.into(),
            Cell::Number(score.bound, 0),
            score.largest_error.into(),
        ]);
        bounds.push(score.bound);
        measured.push((panes as f64, mean.max(0.0)));
        expected.push((panes as f64, pane / 2.0));
    }
    report.table(table);
    panes_matter(measured, expected, &bounds, report);
    Ok(())
}

/// The points are numbers of panes and seconds.
fn panes_matter(
    measured: Vec<(f64, f64)>,
    expected: Vec<(f64, f64)>,
    bounds: &[f64],
    report: &mut Report,
) {
    if let ([one, .., most], [bound, .., last]) = (measured.as_slice(), bounds) {
        report.conclude(format!(
            "A source is reported {:.2} s after it gets above the rate in the mean if the window is one \
             pane, and {:.2} s with {} panes. In the same memory the error bound goes from {bound:.0} \
             packets to {last:.0}.",
            one.1, most.1, most.0,
        ));
    }
    report.plot(Plot {
        title: "Mean delay of a report, seconds".into(),
        across: "panes of a window".into(),
        scales: (Scale::Logarithmic, Scale::Linear),
        lines: vec![
            Line::new("second", "half a pane", expected),
            Line::dots("first", "measured", measured),
        ],
    });
}
