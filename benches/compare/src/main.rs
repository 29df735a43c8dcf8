//! criba beside other embedded stores, on the same work: `compare run` measures, `compare report`
//! makes tables and plots of it. See `docs/benchmarks.md` of criba.

#![expect(clippy::print_stdout, reason = "a program prints")]
#![expect(clippy::print_stderr, reason = "a program says how far it is")]

use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;

use clap::{Args, Parser, Subcommand};

use engine::{KINDS, Result, Settings};
use record::Record;
use work::{GROUPS, Job};

mod engine;
mod engines;
#[cfg(feature = "filters")]
mod filters;
mod keys;
mod measure;
mod metric;
mod plot;
mod record;
mod report;
mod run;
mod work;

/// Runs criba beside other embedded key-value stores and reports what came of it.
#[derive(Parser)]
#[command(version)]
struct Arguments {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    /// Measures: each store and group in a process of its own, stores interleaved in each round.
    Run(RunArguments),
    /// Writes tables into a page, and plots beside it, from the files of runs.
    Report {
        /// Files that `run --json` wrote.
        #[arg(required = true)]
        files: Vec<PathBuf>,
        /// The page: what is between its markers is replaced.
        #[arg(long)]
        page: PathBuf,
    },
    /// Measures filters, without stores, beside those of other crates.
    #[cfg(feature = "filters")]
    Filters {
        /// Keys of each filter.
        #[arg(long, default_value_t = 100_000, value_parser = clap::value_parser!(u64).range(1..1 << 32))]
        keys: u64,
        /// How often everything is measured.
        #[arg(long, default_value_t = 9, value_parser = clap::value_parser!(u64).range(1..))]
        rounds: u64,
        /// Copies of each filter, lookups being spread over them, to exceed the caches.
        #[arg(long, default_value_t = 1, value_parser = clap::value_parser!(u64).range(1..1 << 16))]
        copies: u64,
        /// File to which each measurement is appended as a line of JSON.
        #[arg(long)]
        json: Option<PathBuf>,
    },
    /// Prints the names of stores and groups.
    List,
    /// One store, one group: what `run` starts.
    #[command(hide = true)]
    Child {
        #[arg(long)]
        engine: String,
        #[arg(long)]
        group: String,
        #[arg(long)]
        round: u64,
        #[command(flatten)]
        work: WorkArguments,
    },
    /// Writes and kills itself: what the group `recovery` starts.
    #[command(hide = true)]
    Die {
        #[arg(long)]
        engine: String,
        #[command(flatten)]
        work: WorkArguments,
    },
}

#[derive(Args)]
pub struct RunArguments {
    /// Stores, separated by commas [default: all built in]
    #[arg(long, value_delimiter = ',')]
    engines: Vec<String>,
    /// Groups of work, separated by commas [default: all]
    #[arg(long, value_delimiter = ',')]
    groups: Vec<String>,
    /// How often everything is measured.
    #[arg(long, default_value_t = 5)]
    rounds: u64,
    /// File to which each result is appended as a line of JSON.
    #[arg(long)]
    json: Option<PathBuf>,
    #[command(flatten)]
    work: WorkArguments,
}

#[derive(Args, Clone)]
pub struct WorkArguments {
    /// Where stores are made and removed [default: the system's directory for such]
    #[arg(long)]
    dir: Option<PathBuf>,
    /// Entries of each store.
    #[arg(long, default_value_t = 5_000_000)]
    keys: u64,
    /// Lookups of each kind [default: half the entries]
    #[arg(long)]
    reads: Option<u64>,
    #[arg(long, default_value_t = 100)]
    value_bytes: usize,
    /// Compress, each store with what it has.
    #[arg(long)]
    compression: bool,
    /// Seconds after which a single piece of work is cut short.
    #[arg(long, default_value_t = 300)]
    limit: u64,
}

impl WorkArguments {
    fn job(&self, round: u64) -> Job {
        let settings = Settings {
            cache_bytes: 64 << 20,
            memtable_bytes: 32 << 20,
            filter_bits: 10.0,
            block_bytes: 4096,
            compression: self.compression,
            sync: false,
            starved: false,
        };
        Job {
            settings,
            dir: self.dir.clone().unwrap_or_else(std::env::temp_dir),
            keys: self.keys,
            reads: self.reads.unwrap_or(self.keys / 2),
            value_bytes: self.value_bytes,
            limit: Duration::from_secs(self.limit),
            seed: round,
        }
    }
}

fn main() -> ExitCode {
    let result = match Arguments::parse().command {
        Command::Run(arguments) => run::run(&arguments),
        Command::Report { files, page } => report::write(&files, &page),
        #[cfg(feature = "filters")]
        Command::Filters {
            keys,
            rounds,
            copies,
            json,
        } => filters::run(&filters::Question {
            keys,
            rounds,
            copies,
            json: json.as_deref(),
        }),
        Command::List => {
            list();
            Ok(())
        }
        Command::Child {
            engine,
            group,
            round,
            work,
        } => child(&engine, &group, round, &work),
        Command::Die { engine, work } => {
            engine::find(&engine).and_then(|kind| work::write_and_die(kind, work.job(0)))
        }
    };
    match result {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("error: {error}");
            ExitCode::FAILURE
        }
    }
}

fn list() {
    for kind in KINDS {
        println!("store {}", kind.name);
    }
    for (name, ..) in GROUPS {
        println!("group {name}");
    }
}

fn child(engine: &str, group: &str, round: u64, work: &WorkArguments) -> Result<()> {
    let kind = engine::find(engine)?;
    let job = work.job(round);
    let dir = job.dir.clone();
    let metrics = work::run(kind, group, job.clone())?;
    let record = Record {
        engine: engine.to_owned(),
        group: group.to_owned(),
        round,
        keys: job.keys,
        reads: job.reads,
        value_bytes: job.value_bytes as u64,
        compression: job.settings.compression,
        environment: record::environment(&dir)?,
        metrics,
    };
    println!("{}", serde_json::to_string(&record)?);
    Ok(())
}
