//! What `criba study` can be asked.

use std::path::PathBuf;

use clap::Args;
use criba::{FilterResidency, Strategy};

use super::scans::keys::Shape;
use crate::choice::{self, FilterChoice, StudyFilter};

/// The options of a study. What it does is told where the command is defined.
#[derive(Args, Debug)]
pub(crate) struct StudyArgs {
    /// Study trees after compaction: how many reads the same filter memory saves, shared out
    /// uniformly or by a budget, under each strategy.
    #[arg(long, conflicts_with_all = ["input", "runs", "residency", "cache_bytes"])]
    pub(crate) tree: bool,
    /// Study scans: how many data blocks they read, by tree, number of runs and range filter.
    #[arg(long, conflicts_with_all = ["tree", "runs", "residency", "cache_bytes", "filter", "bits"])]
    pub(crate) scans: bool,
    /// Bits for each key of the range filters to compare.
    #[arg(long, value_name = "LIST", value_delimiter = ',', value_parser = range_bits,
          default_value = "8,10,12,14", requires = "scans")]
    pub(crate) range_bits: Vec<f64>,
    /// What generated keys look like.
    #[arg(
        long,
        value_enum,
        default_value = "hex",
        requires = "scans",
        conflicts_with = "input"
    )]
    pub(crate) shape: Shape,
    /// Strategies to compare: leveled, tiered, lazy-leveled.
    #[arg(long, value_name = "LIST", value_delimiter = ',', value_parser = choice::strategy,
          default_value = "leveled,tiered,lazy-leveled", requires = "tree")]
    pub(crate) strategy: Vec<Strategy>,
    /// Bits per key for the filters bloom, bloomier-uniform and budget.
    #[arg(long, value_name = "B", default_value_t = 10.0, value_parser = choice::bits_per_key)]
    pub(crate) bits: f64,
    /// How many times larger a level is than the one above, or how many runs it collects.
    #[arg(long, value_name = "T", default_value_t = 10, requires = "tree",
          value_parser = clap::value_parser!(u32).range(2..=100))]
    pub(crate) ratio: u32,
    /// Measure also when so many keys are loaded: trees waste more or less as levels fill up.
    #[arg(long, value_name = "LIST", value_delimiter = ',', requires = "tree",
          value_parser = clap::value_parser!(u64).range(2..=1 << 30))]
    pub(crate) also_at: Vec<u64>,
    /// Memory for entries before they become a run; the first level is four times as large.
    #[arg(long, value_name = "BYTES", default_value = "128KiB", requires = "tree",
          value_parser = choice::bytes)]
    pub(crate) memtable_bytes: u64,
    /// Take the lines of this file as keys; - is standard input. Lines may repeat (each time they
    /// are written again), empty lines and lines over 65,535 bytes are skipped, the latter counted.
    /// A quarter of the distinct lines, chosen by hash, is not loaded: these are the absent keys.
    #[arg(long, value_name = "FILE")]
    pub(crate) input: Option<PathBuf>,
    /// Take so many lines of the input, chosen at random.
    #[arg(long, value_name = "N", requires = "input",
          value_parser = clap::value_parser!(u64).range(2..=1 << 32))]
    pub(crate) sample: Option<u64>,
    /// Load so many generated keys; 200,000 with --scans.
    #[arg(long, value_name = "N", default_value = "400000", conflicts_with = "input",
          default_value_if("scans", "true", "200000"),
          value_parser = clap::value_parser!(u64).range(2..=1 << 30))]
    pub(crate) keys: u64,
    /// Deal the keys into so many runs.
    #[arg(long, value_name = "N", default_value_t = 4,
          value_parser = clap::value_parser!(u64).range(1..=64))]
    pub(crate) runs: u64,
    /// Look up so many present and so many absent keys. With --tree 200,000 at least, and more
    /// absent ones where few reads are expected, so that they can be counted. With --scans 2,000 scans
    /// of each kind, and five times as many of ranges without entries.
    #[arg(long, value_name = "N", default_value = "100000",
          default_value_ifs([("tree", "true", "200000"), ("scans", "true", "2000")]),
          value_parser = clap::value_parser!(u64).range(1..=1 << 30))]
    pub(crate) lookups: u64,
    /// Filters to compare: none, bloom:BITS, bloomier:block, bloomier:slot, bloomier:BITS,
    /// rejecting:BITS, budget:BITS, :BITS behind classic, partitioned, peeled, fuse, ensemble,
    /// hierarchical, compressed, hybrid, cuckoo or quotient, and
    /// bloom, bloomier-uniform and budget with as many bits as --bits says: the default with --tree.
    #[arg(long, value_name = "LIST", value_delimiter = ',', value_parser = choice::study_filter,
          default_value = "none,bloom:10,bloom:15,bloomier:block,bloomier:slot",
          default_value_if("tree", "true", "bloom,bloomier-uniform,budget"))]
    pub(crate) filter: Vec<StudyFilter>,
    /// Where filters are: pinned in memory, in a cache of pages, cached:BYTES, or shared, within the
    /// bytes of --cache-bytes.
    #[arg(long, default_value = "pinned", value_parser = choice::residency)]
    pub(crate) residency: FilterResidency,
    /// Cache for data blocks; with anything but 0, reads are no longer those of a cold lookup.
    #[arg(long, value_name = "BYTES", default_value = "0", value_parser = choice::bytes)]
    pub(crate) cache_bytes: u64,
    /// Bytes of each value; 20 with --tree.
    #[arg(long, value_name = "BYTES", default_value = "100",
          default_value_if("tree", "true", "20"), value_parser = value_bytes)]
    pub(crate) value_bytes: u64,
    /// Target size of a data block.
    #[arg(long, value_name = "BYTES", default_value_t = 4096)]
    pub(crate) block_bytes: u32,
    /// Entries in each group of a block: what a slot names.
    #[arg(long, value_name = "N", default_value_t = 4)]
    pub(crate) entries_per_group: u32,
    /// Seed of everything that is random.
    #[arg(long, value_name = "N", default_value_t = 1)]
    pub(crate) seed: u64,
    /// Make the stores in this directory instead of the system's temporary one.
    #[arg(long, value_name = "DIR")]
    pub(crate) dir: Option<PathBuf>,
    /// Print one JSON object for each filter instead of the table.
    #[arg(long)]
    pub(crate) json: bool,
    /// Write a page with table and plots.
    #[arg(long, value_name = "FILE")]
    pub(crate) html: Option<PathBuf>,
}

impl StudyArgs {
    /// The policies to compare.
    pub(crate) fn choices(&self) -> impl ExactSizeIterator<Item = FilterChoice> {
        self.filter.iter().map(|filter| filter.choice(self.bits))
    }
}

/// Largest value that a study makes, in bytes.
const VALUE_BYTES_MAX: u64 = 1 << 20;

fn range_bits(text: &str) -> Result<f64, String> {
    use criba_filters::range::{BITS_MAX, BITS_MIN};
    let bits: f64 = text
        .parse()
        .map_err(|error| format!("{text:?} is not a number of bits: {error}"))?;
    if !(BITS_MIN..=BITS_MAX).contains(&bits) {
        return Err(format!("{bits} is not from {BITS_MIN} to {BITS_MAX} bits"));
    }
    Ok(bits)
}

fn value_bytes(text: &str) -> Result<u64, String> {
    let bytes = choice::bytes(text)?;
    if bytes > VALUE_BYTES_MAX {
        return Err(format!(
            "{bytes} bytes are too many for a study; at most {VALUE_BYTES_MAX}"
        ));
    }
    Ok(bytes)
}
