//! A web crawler that fetches nothing twice and misses nothing, on top of criba.
//!
//! `cargo run --release -p criba-crawler` crawls a site that the program serves itself;
//! `cargo run --release -p criba-crawler -- URL...` crawls for real. `docs/crawler.md` says more.
//!
//! Results go to standard output, progress and errors to standard error.
#![expect(
    clippy::print_stdout,
    clippy::print_stderr,
    reason = "a program prints"
)]

mod address;
mod addresses;
mod archive;
mod args;
mod core;
mod crawl;
mod embedded;
mod failure;
mod frontier;
mod http;
mod keys;
mod list;
mod near;
mod numbers;
mod outcome;
mod page;
mod print;
mod progress;
mod record;
mod report;
mod robots;
mod rules;
mod scope;
mod seen;
mod setup;
mod simhash;
mod site;
mod sitemap;
mod store;
mod stream;
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
    match run(Args::parse()) {
        Ok(exit) => exit.into(),
        Err(failure) => {
            eprintln!("error: {failure}");
            failure.exit().into()
        }
    }
}

fn run(args: Args) -> Result<Exit, Failure> {
    if let Some(links) = args.stream {
        let report = Plan::of(args)?.stream(links)?;
        println!("{}", report.json());
        return Ok(if report.wrong == 0 {
            Exit::Done
        } else {
            Exit::Wrong
        });
    }
    if args.urls.is_empty() {
        let (summary, series, compared) = embedded::run(args.clone())?;
        show(&args, &summary, &series)?;
        // A filter alone is expected to lose pages.
        let wrong = args.pages.is_none() && args.seen != Mode::FilterOnly && !compared.is_right();
        if wrong {
            eprintln!("error: the crawl is not what the site calls for: {compared:?}");
        }
        return Ok(if wrong { Exit::Wrong } else { Exit::Done });
    }
    let (summary, series) = Plan::of(args.clone())?.run()?;
    show(&args, &summary, &series)?;
    let nothing = summary.pages == 0 && summary.failed > 0;
    Ok(if nothing || summary.hosts_held > 0 {
        Exit::Incomplete
    } else {
        Exit::Done
    })
}

fn show(args: &Args, summary: &Summary, series: &Series) -> Result<(), Failure> {
    if let Some(path) = &args.html {
        setup::write_file(path, report::html(summary, series).as_bytes())?;
    }
    let text = if args.json {
        format!("{}\n", print::json(summary))
    } else {
        print::text(summary)
    };
    match io::stdout().write_all(text.as_bytes()) {
        // Whoever reads has seen enough.
        Err(error) if error.kind() == io::ErrorKind::BrokenPipe => Ok(()),
        result => result.map_err(Failure::io("cannot write the summary")),
    }
}
