//! What `criba lab` can be asked.

use std::path::PathBuf;

use clap::Args;

/// The options of the laboratory. What it does is told where the command is defined.
#[derive(Args, Debug)]
pub(crate) struct LabArgs {
    /// Experiments to run; all of them when none is named.
    #[arg(value_name = "EXPERIMENT")]
    pub(crate) experiments: Vec<String>,
    /// List the experiments with their questions, and all exercises with the commands that answer
    /// them, and run none.
    #[arg(long, conflicts_with_all = ["experiments", "html", "bits", "probes"])]
    pub(crate) list: bool,
    /// Size of the experiments: so many keys in a set, so many draws in a stream [default: 100000,
    /// for bloom 200]. At least 1,000, except for bloom.
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..=100_000_000))]
    pub(crate) keys: Option<u64>,
    /// Bits of the filter of bloom [default: five for each key].
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..=1 << 32))]
    pub(crate) bits: Option<u64>,
    /// Hash functions of the filter of bloom [default: 4].
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=64))]
    pub(crate) probes: Option<u32>,
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
