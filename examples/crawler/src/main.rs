//! A web crawler that fetches nothing twice and misses nothing, on top of criba.
//!
//! `cargo run --release -p criba-crawler` crawls a site that the program serves itself;
//! `cargo run --release -p criba-crawler -- URL...` crawls for real. `docs/crawler.md` says more.
//!
//! Results go to standard output, progress and errors to standard error.

mod address;
mod addresses;
mod archive;
mod args;
mod bounds;
mod broken;
mod budget;
mod by_host;
mod core;
mod crawl;
mod demo;
mod embedded;
mod failure;
mod filter_choice;
mod hosts;
mod http;
mod keys;
mod left_out;
mod list;
mod log;
mod near;
mod novelty;
mod outcome;
mod output;
mod page;
mod patterns;
mod pool;
mod print;
mod progress;
mod reason;
mod record;
mod report;
mod request_options;
mod robots;
mod rules;
mod scope;
mod seeds;
mod seen;
mod setup;
mod signals;
mod simhash;
mod site;
mod sitemap;
mod sketch;
mod summary;
mod survey;
#[cfg(test)]
mod tests;
mod warc;

use std::fmt;
use std::io::{self, Write as _};
use std::process::ExitCode;

use clap::Parser as _;

use crate::args::Args;
use crate::failure::{Exit, Failure};
use crate::output::Output;
use crate::seen::Mode;
use crate::setup::{Ended, Plan};

fn main() -> ExitCode {
    common::memory::give_back();
    match run(&Args::parse()) {
        Ok(exit) => exit.into(),
        Err(failure) => {
            say(format_args!("error: {failure}"));
            failure.exit().into()
        }
    }
}

fn run(args: &Args) -> Result<Exit, Failure> {
    if args.urls.is_empty() {
        return demonstrate(args);
    }
    let plan = Plan::of(args.clone())?;
    signals::listen().map_err(Failure::io("cannot listen to signals"))?;
    crawl_to_the_end(&plan)
}

/// Crawls, and says how it went in all ways that were asked for.
fn crawl_to_the_end(plan: &Plan) -> Result<Exit, Failure> {
    let report = open_report(&plan.args)?;
    let Ended {
        mut summary,
        series,
        mut written,
    } = plan.crawl()?;
    written = written.and(write_report(report, || report::html(&summary, &series)));
    summary.peak_rss_bytes = common::memory::peak_bytes();
    for warning in print::warnings(&summary, plan.args.max_bytes) {
        say(format_args!("{warning}"));
    }
    print(&match plan.args.json {
        true => format!("{}\n", print::json(&summary)),
        false => print::text(&summary),
    })?;
    written?;
    let is_incomplete = summary.is_stopped || summary.hosts_held > 0 || !summary.no_seed.is_empty();
    Ok(match is_incomplete {
        true => Exit::Incomplete,
        false => Exit::Done,
    })
}

fn open_report(args: &Args) -> Result<Option<Output>, Failure> {
    args.html.as_deref().map(Output::create).transpose()
}

fn write_report(report: Option<Output>, page: impl FnOnce() -> String) -> Result<(), Failure> {
    let Some(mut report) = report else {
        return Ok(());
    };
    report.write(page());
    report.finish()
}

/// Runs the demo.
fn demonstrate(args: &Args) -> Result<Exit, Failure> {
    let report = open_report(args)?;
    if args.curves {
        let curves = demo::curves::run(args)?;
        write_report(report, || report::curves(&curves))?;
        print(&if args.json {
            format!("{}\n", demo::curves::json(&curves))
        } else {
            demo::curves::text(&curves)
        })?;
        return Ok(Exit::Done);
    }
    let shown = demo::run(args)?;
    write_report(report, || report::demo(&shown))?;
    print(&if args.json {
        format!("{}\n", demo::json(&shown))
    } else {
        demo::text(&shown)
    })?;
    // A filter alone is expected to lose pages.
    let is_exact = !args.leaves_out() && args.seen != Mode::FilterOnly;
    let mut exit = Exit::Done;
    if is_exact && !shown.compared.is_right() {
        let compared = &shown.compared;
        say(format_args!(
            "error: the crawl is not what the site calls for: {compared:?}"
        ));
        exit = Exit::Wrong;
    }
    for row in shown.larger.wrong() {
        let (name, missed, twice) = (row.name, row.missed, row.twice);
        say(format_args!(
            "error: {name}: {missed} pages missed, {twice} fetched twice"
        ));
        exit = Exit::Wrong;
    }
    Ok(exit)
}

fn print(text: &str) -> Result<(), Failure> {
    let mut out = io::stdout();
    match out.write_all(text.as_bytes()).and_then(|()| out.flush()) {
        // Whoever reads has seen enough.
        Err(error) if error.kind() == io::ErrorKind::BrokenPipe => Ok(()),
        result => result.map_err(Failure::io("cannot write the summary")),
    }
}

/// A line on standard error. If that cannot be written, there is nowhere else to say it.
fn say(line: fmt::Arguments<'_>) {
    writeln!(io::stderr(), "{line}").unwrap_or_default();
}
