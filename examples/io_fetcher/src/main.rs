//! `io_fetcher`: fetch documents into a content store without reading or writing what is already
//! there.
//!
//! Every decision follows one rule: the expensive operation is done only on a miss of the filter,
//! and a "maybe" triggers the next deeper comparison (`docs/io-fetcher.md`). Only the public API of
//! the store is used. Results go to standard output, progress and errors to standard error; names
//! come from outside and are escaped.
#![expect(clippy::disallowed_methods, reason = "these are not the store's files")]
#![cfg_attr(
    test,
    expect(
        clippy::print_stdout,
        clippy::print_stderr,
        reason = "tests say what they skip"
    )
)]

mod account;
mod archive;
mod args;
mod changes;
mod check;
mod content;
mod diff;
mod exit;
mod extract;
mod forget;
mod gc;
mod holes;
mod index;
mod ingest;
mod keys;
mod ledger;
mod lines;
mod list;
mod pack;
mod parallel;
mod pieces;
mod progress;
mod read;
mod record;
mod report;
mod sources;
mod split;
mod stats;
mod summary;
mod tell;
#[cfg(test)]
mod tests;
mod tree;
mod tune;
mod walk;
mod web;

use std::process::ExitCode;

use clap::Parser as _;

use crate::args::{Cli, Command};
use crate::exit::{Exit, Failure};

fn main() -> ExitCode {
    common::memory::give_back();
    let cli = match Cli::try_parse() {
        Ok(cli) => cli,
        Err(message) => {
            let code = if message.use_stderr() {
                Exit::Usage
            } else {
                Exit::Done
            };
            return match message.print() {
                Err(_) => Exit::Io.into(),
                Ok(()) => code.into(),
            };
        }
    };
    finish(&cli.command).into()
}

/// Runs a command to its end, and says why when it has failed.
fn finish(command: &Command) -> Exit {
    match run(command) {
        Ok(exit) => exit,
        Err(failure) if failure.is_broken_pipe => Exit::Done,
        Err(failure) => {
            if command.store().json {
                lines::end_early(&failure);
            }
            exit::complain(format_args!("error: {failure}"));
            failure.exit
        }
    }
}

fn run(command: &Command) -> Result<Exit, Failure> {
    match command {
        Command::Ingest(args) => ingest::run(args),
        Command::Extract(args) => extract::run(args),
        Command::List(args) => list::run(args),
        Command::Stats(args) => stats::run(args),
        Command::Check(args) => check::run(args),
        Command::Forget(args) => forget::run(args),
        Command::Gc(args) => gc::run(args),
    }
}
