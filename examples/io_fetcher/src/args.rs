//! The command line: what can be asked, and the text of `--help`.

use std::path::PathBuf;

use clap::{Args, Parser, Subcommand, ValueEnum};

use crate::exit;
use crate::keys::Table;

/// Fetch documents into a content store without reading or writing what is already there.
#[derive(Parser, Debug)]
#[command(name = "io_fetcher", after_help = exit::HELP, max_term_width = 100)]
pub(crate) struct Cli {
    #[command(subcommand)]
    pub(crate) command: Command,
}

#[derive(Subcommand, Debug)]
pub(crate) enum Command {
    /// Fetch directories, files and URLs; what is there already is neither read nor written again.
    ///
    /// A file whose size, times and inode are as they were is not opened. Anything else goes from
    /// the cheapest comparison to the dearest, and each deeper one is made only where the store
    /// says "maybe there": size and first block, the first block of the stored candidate, the hash
    /// of the whole. Can be killed at any moment and started again.
    Ingest(Box<IngestArgs>),
    /// Write stored documents back, each verified by its hash.
    ///
    /// Modes, modification times and holes are kept. Owners, access lists, extended attributes and
    /// hard links are not stored; `ingest` counts what has some.
    /// Killed, it leaves one file named .io_fetcher- and 16 hexadecimal digits, which can be
    /// deleted.
    Extract(ExtractArgs),
    /// List what is stored.
    List(ListArgs),
    /// Show what the store holds, what the filters saved, and what suits this load.
    Stats(StatsArgs),
    /// Read and verify everything.
    Check(CheckArgs),
    /// Forget names: paths with all below them, and URLs. What is still there is new to the next
    /// ingest.
    Forget(ForgetArgs),
    /// Give back the space of contents that no name has any more.
    Gc(GcArgs),
}

impl Command {
    pub(crate) fn store(&self) -> &StoreArgs {
        match self {
            Command::Ingest(args) => &args.store,
            Command::Extract(args) => &args.store,
            Command::List(args) => &args.store,
            Command::Stats(args) => &args.store,
            Command::Check(args) => &args.store,
            Command::Forget(args) => &args.store,
            Command::Gc(args) => &args.store,
        }
    }
}

/// Where the store is.
#[derive(Args, Debug)]
pub(crate) struct StoreArgs {
    /// The directory of the store.
    #[arg(short, long, value_name = "DIR", default_value = "io-fetcher-store")]
    pub(crate) store: PathBuf,
    /// Write JSON: for ingest, extract and check a line for each document, and at last one for the
    /// whole run.
    #[arg(long)]
    pub(crate) json: bool,
    /// Threads that read, compare and compress.
    #[arg(long, value_name = "N", default_value_t = 2, value_parser = clap::value_parser!(u8).range(1..=64))]
    pub(crate) threads: u8,
}

/// How finely content is compared and shared.
#[derive(ValueEnum, Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Granularity {
    /// Whole documents: the smallest index.
    Document,
    /// Also blocks of a fixed size within new documents.
    Block,
    /// Also blocks that end where the content says, so that an insertion does not move the others.
    Cdc,
    /// Also the lines of text.
    Line,
    /// Documents; blocks as well for as long as the counters show that they pay for their index.
    Auto,
}

/// Which stamps must be as they were for a file not to be opened.
#[derive(ValueEnum, Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum QuickCheck {
    /// Size, mtime, ctime and inode.
    Inode,
    /// Size and mtime only, as rsync does: for trees that were copied or moved.
    Mtime,
    /// None: every file is opened.
    Off,
}

#[derive(Args, Debug)]
pub(crate) struct IngestArgs {
    #[command(flatten)]
    pub(crate) store: StoreArgs,
    /// Directories, files, and URLs that begin with http://.
    #[arg(value_name = "SOURCE", required_unless_present = "files_from")]
    pub(crate) sources: Vec<PathBuf>,
    /// More sources, one on each line of this file; - is standard input.
    #[arg(long, value_name = "FILE")]
    pub(crate) files_from: Option<PathBuf>,
    /// The sources of --files-from end with a zero byte, as find -print0 writes them.
    #[arg(short = '0', long, requires = "files_from")]
    pub(crate) null: bool,
    /// Fingerprints and metadata only, no content: finds duplicates and changes.
    #[arg(long)]
    pub(crate) index_only: bool,
    /// How finely content is compared and shared.
    #[arg(long, value_enum, default_value_t = Granularity::Document)]
    pub(crate) granularity: Granularity,
    /// Bytes of a block; for cdc the average.
    #[arg(long, value_name = "BYTES", default_value_t = 16 << 10, value_parser = clap::value_parser!(u32).range(512..=1 << 20))]
    pub(crate) block_bytes: u32,
    /// Which stamps tell that a file has not changed.
    #[arg(long, value_enum, default_value_t = QuickCheck::Inode)]
    pub(crate) quick_check: QuickCheck,
    /// Compare the content of every file with what is stored for it, and store again what is
    /// damaged.
    #[arg(long, conflicts_with = "index_only")]
    pub(crate) paranoid: bool,
    /// Forget names that are no longer there. Without it they are kept and listed as gone.
    #[arg(long)]
    pub(crate) prune: bool,
    /// Stay on the file system of each source.
    #[arg(short = 'x', long)]
    pub(crate) one_file_system: bool,
    /// Zstandard level of content.
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(i32).range(1..=19))]
    pub(crate) zstd_level: i32,
    /// Tables of the index whose new segments get a filter: directory, inode, size, first_block,
    /// whole, piece, url, document, or none.
    #[arg(long, value_name = "TABLE", value_delimiter = ',', value_parser = Table::named, default_value = "first_block,piece")]
    pub(crate) filters: Vec<Option<Table>>,
    /// Bits of these filters for each key, 4 to 24. Without it, about 15: they name the place of a
    /// key, too.
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u8).range(4..=24))]
    pub(crate) bits_per_key: Option<u8>,
    /// A URL that gives more is skipped.
    #[arg(long, value_name = "BYTES", default_value_t = 1 << 30)]
    pub(crate) download_max: u64,
    /// Seconds that fetching a URL may take.
    #[arg(long, value_name = "S", default_value_t = 60)]
    pub(crate) timeout: u64,
}

#[derive(Args, Debug)]
pub(crate) struct ExtractArgs {
    #[command(flatten)]
    pub(crate) store: StoreArgs,
    /// Paths and URLs as `list` shows them; a directory stands for all below. All, if none is
    /// given.
    #[arg(value_name = "NAME")]
    pub(crate) names: Vec<PathBuf>,
    /// Write below this directory, each document under its whole path. Nothing is overwritten or
    /// removed, and links in it are not followed.
    #[arg(long, value_name = "DIR", required_unless_present = "stdout")]
    pub(crate) to: Option<PathBuf>,
    /// Keep the setuid and setgid bits of modes. What is extracted is yours, so a program with such
    /// a bit runs as you.
    #[arg(long, requires = "to")]
    pub(crate) setuid: bool,
    /// Write one document to standard output.
    #[arg(long, conflicts_with_all = ["to", "json"], requires = "names")]
    pub(crate) stdout: bool,
}

#[derive(Args, Debug)]
pub(crate) struct ListArgs {
    #[command(flatten)]
    pub(crate) store: StoreArgs,
    /// Only what is below these paths.
    #[arg(value_name = "PREFIX")]
    pub(crate) names: Vec<PathBuf>,
    /// Only documents that are there more than once, in groups with an empty line between them.
    #[arg(long)]
    pub(crate) duplicates: bool,
    /// Names as they are, without escapes.
    #[arg(long, conflicts_with = "json")]
    pub(crate) raw: bool,
}

#[derive(Args, Debug)]
pub(crate) struct StatsArgs {
    #[command(flatten)]
    pub(crate) store: StoreArgs,
    /// Show what looking up this directory or file asks, reads and saves.
    #[arg(long, value_name = "PATH")]
    pub(crate) explain: Option<PathBuf>,
}

#[derive(Args, Debug)]
pub(crate) struct CheckArgs {
    #[command(flatten)]
    pub(crate) store: StoreArgs,
}

#[derive(Args, Debug)]
pub(crate) struct ForgetArgs {
    #[command(flatten)]
    pub(crate) store: StoreArgs,
    /// Paths and URLs as `list` shows them.
    #[arg(value_name = "NAME", required = true)]
    pub(crate) names: Vec<PathBuf>,
}

#[derive(Args, Debug)]
pub(crate) struct GcArgs {
    #[command(flatten)]
    pub(crate) store: StoreArgs,
}
