//! What `criba lab` can be asked.

use std::path::PathBuf;

use clap::Args;

/// The options of the laboratory. What it does is told where the command is defined.
#[derive(Args, Debug)]
pub(crate) struct LabArgs {
    /// Experiments to run; all of them when none is named.
    #[arg(value_name = "EXPERIMENT")]
    pub(crate) experiments: Vec<String>,
    /// Name the experiments and the questions they answer, and run none.
    #[arg(long, conflicts_with_all = ["experiments", "html"])]
    pub(crate) list: bool,
    /// Size of the experiments: so many keys in a set, so many draws in a stream.
    #[arg(long, value_name = "N", default_value_t = 100_000,
          value_parser = clap::value_parser!(u64).range(1000..=100_000_000))]
    pub(crate) keys: u64,
    /// Seed of everything that is random. Rates and errors repeat with it, times do not.
    #[arg(long, value_name = "N", default_value_t = 1)]
    pub(crate) seed: u64,
    /// Print one JSON object for each measurement instead of the tables.
    #[arg(long)]
    pub(crate) json: bool,
    /// Write a page with tables and plots.
    #[arg(long, value_name = "FILE")]
    pub(crate) html: Option<PathBuf>,
}
