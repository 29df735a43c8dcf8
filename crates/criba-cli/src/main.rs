//! `criba`: a store at the command line.
//!
//! Results go to standard output, progress and errors to standard error. Keys and values come from
//! outside and are escaped before they reach a terminal. Exit codes are in `exit.rs`. Only the
//! public API of the library is used.

#![cfg_attr(
    not(all(feature = "study", feature = "lab")),
    expect(
        dead_code,
        reason = "some words and plots are those of study and lab alone"
    )
)]

mod args;
mod base64;
mod checkpoint;
mod choice;
#[cfg(any(feature = "study", feature = "lab"))]
mod clock;
mod describe;
mod escape;
mod exit;
mod files;
mod grid;
mod json;
mod keyspaces;
#[cfg(feature = "lab")]
mod lab;
mod levels;
mod lines;
mod output;
mod page;
mod plot;
mod point;
mod progress;
#[cfg(any(feature = "study", feature = "lab"))]
mod random;
mod repair;
mod report;
mod scan;
mod stats;
mod store;
#[cfg(feature = "study")]
mod study;
mod theory;
mod transfer;
mod verify;
mod what_if;

use std::io::{self, Write as _};
use std::process::ExitCode;

use clap::Parser as _;

use crate::args::{Cli, Command};
use crate::exit::{Exit, Failure, Said};

fn main() -> ExitCode {
    let cli = match Cli::try_parse() {
        Ok(cli) => cli,
        Err(message) => return say_usage(&message),
    };
    match run(&cli.command) {
        Ok(exit) => exit.into(),
        Err(Failure::BrokenPipe) => Exit::Done.into(),
        Err(Failure::Said(said)) => {
            say(&said);
            said.exit.into()
        }
    }
}

fn run(command: &Command) -> Result<Exit, Failure> {
    match command {
        #[cfg(feature = "study")]
        Command::Study(args) => study::run(args),
        #[cfg(feature = "lab")]
        Command::Lab(args) => lab::run(args),
        Command::Put(args) => point::put(args),
        Command::Get(args) => point::get(args),
        Command::Delete(args) => point::delete(args),
        Command::Scan(args) => scan::scan(args),
        Command::Import(args) => transfer::import(args),
        Command::Export(args) => transfer::export(args),
        Command::Stats(args) => stats::stats(args),
        Command::Keyspaces(args) => keyspaces::list(args),
        Command::DropKeyspace(args) => keyspaces::drop_one(args),
        Command::Checkpoint(args) => checkpoint::checkpoint(args),
        Command::Inspect(args) => report::inspect(args),
        Command::Explain(args) => report::explain(args),
        Command::Verify(args) => verify::verify(args),
        Command::Repair(args) => repair::repair(args),
    }
}

/// Help and version are results; anything else that clap says is a wrong command line.
fn say_usage(message: &clap::Error) -> ExitCode {
    let printed = message.print();
    if message.use_stderr() {
        return Exit::Usage.into();
    }
    match printed {
        Err(error) if error.kind() != io::ErrorKind::BrokenPipe => Exit::Io.into(),
        _ => Exit::Done.into(),
    }
}

/// Tells a failure. Standard error may be gone; then nobody is there to be told.
fn say(said: &Said) {
    let mut stderr = io::stderr().lock();
    writeln!(stderr, "error: {}", said.sentence).ok();
    for cause in &said.causes {
        writeln!(stderr, "  cause: {cause}").ok();
    }
}
