//! A web crawler that fetches nothing twice and misses nothing, on top of criba.
//!
//! `cargo run --release -p criba-crawler` crawls a site that the program serves itself;
//! `cargo run --release -p criba-crawler -- URL...` crawls for real. `docs/crawler.md` says more.
//!
//! Results go to standard output, progress and errors to standard error.
#![expect(clippy::print_stderr, reason = "a program says what went wrong")]

mod address;
mod addresses;
mod archive;
mod args;
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
mod list;
mod near;
mod numbers;
mod outcome;
mod page;
mod pool;
mod print;
mod progress;
mod record;
mod report;
mod request_options;
mod robots;
mod rules;
mod scope;
mod seen;
mod setup;
mod simhash;
mod site;
mod sitemap;
mod summary;
#[cfg(test)]
mod tests;
mod trap;
mod warc;

use std::io::{self, Write as _};
use std::process::ExitCode;

use clap::Parser as _;

use crate::args::Args;
use crate::failure::{Exit, Failure};
use crate::seen::Mode;
use crate::setup::Plan;
use crate::summary::{Series, Summary};

fn main() -> ExitCode {
    common::memory::give_back();
    match run(&Args::parse()) {
        Ok(exit) => exit.into(),
        Err(failure) => {
            eprintln!("error: {failure}");
            failure.exit().into()
        }
    }
}

fn run(args: &Args) -> Result<Exit, Failure> {
    if args.urls.is_empty() {
        return demonstrate(args);
    }
    let (summary, series) = Plan::of(args.clone())?.run()?;
    show(args, &summary, &series)?;
    let nothing = summary.pages == 0 && summary.failed > 0;
    Ok(if nothing || summary.hosts_held > 0 {
        Exit::Incomplete
    } else {
        Exit::Done
    })
}

/// Runs the demo.
fn demonstrate(args: &Args) -> Result<Exit, Failure> {
    if args.curves {
        let curves = demo::curves::run(args)?;
        if let Some(path) = &args.html {
            setup::write_file(path, report::curves(&curves).as_bytes())?;
        }
        print(&if args.json {
            format!("{}\n", demo::curves::json(&curves))
        } else {
            demo::curves::text(&curves)
        })?;
        return Ok(Exit::Done);
    }
    let shown = demo::run(args)?;
    if let Some(path) = &args.html {
        let page = report::demo(&shown);
        setup::write_file(path, page.as_bytes())?;
    }
    print(&if args.json {
        format!("{}\n", demo::json(&shown))
    } else {
        demo::text(&shown)
    })?;
    // A filter alone is expected to lose pages.
    let is_exact = args.pages.is_none() && args.seen != Mode::FilterOnly;
    let mut exit = Exit::Done;
    if is_exact && !shown.compared.is_right() {
        eprintln!(
            "error: the crawl is not what the site calls for: {:?}",
            shown.compared
        );
        exit = Exit::Wrong;
    }
    for row in shown.larger.wrong() {
        let (name, missed, twice) = (row.name, row.missed, row.twice);
        eprintln!("error: {name}: {missed} pages missed, {twice} fetched twice");
        exit = Exit::Wrong;
    }
    Ok(exit)
}

fn show(args: &Args, summary: &Summary, series: &Series) -> Result<(), Failure> {
    if let Some(path) = &args.html {
        setup::write_file(path, report::html(summary, series).as_bytes())?;
    }
    print(&if args.json {
        format!("{}\n", print::json(summary))
    } else {
        print::text(summary)
    })
}

fn print(text: &str) -> Result<(), Failure> {
    match io::stdout().write_all(text.as_bytes()) {
        // Whoever reads has seen enough.
        Err(error) if error.kind() == io::ErrorKind::BrokenPipe => Ok(()),
        result => result.map_err(Failure::io("cannot write the summary")),
    }
}
