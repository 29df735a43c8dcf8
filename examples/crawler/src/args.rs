//! The command line.

use std::path::PathBuf;

use clap::Parser;

use crate::budget::TRAP_BUDGET;
use crate::failure;
use crate::filter_choice::FilterChoice;
use crate::request_options::RequestOptions;
use crate::scope::Scope;
use crate::seen::Mode;

/// Crawls the web from these URLs; fetches nothing twice and misses nothing.
///
/// Without URLs it shows what filters are for: it crawls a site that it serves itself and compares
/// what it fetched with what there is, and then a made-up web whose seen set is larger than memory.
///
/// Everything it knows is in the store. Killed at any moment and started again with the same
/// command, it goes on where it was.
#[derive(Debug, Clone, Parser)]
#[command(name = "crawler", version, after_help = failure::HELP)]
pub(crate) struct Args {
    /// Where to begin: http or https
    pub(crate) urls: Vec<String>,

    /// The store: a directory, made if missing [default for URLs: crawl-data; without: a temporary
    /// one]
    #[arg(long, value_name = "DIR")]
    pub(crate) store: Option<PathBuf>,

    /// Which links are followed
    #[arg(long, value_enum, default_value = "host", help_heading = "How far")]
    pub(crate) scope: ScopeArg,
    /// Links from a seed at most
    #[arg(long, value_name = "N", help_heading = "How far")]
    pub(crate) depth: Option<u32>,
    /// Pages at most, in this run
    #[arg(long, value_name = "N", help_heading = "How far")]
    pub(crate) pages: Option<u64>,
    /// Only pages that a pattern matches, and the seeds; may be given several times
    ///
    /// A pattern is what robots.txt has: `*` stands for any characters, `$` at the end for the end
    /// of the address, and without it any end is as good. One that begins with `/` is compared with
    /// path and query (`/docs/`, `/*.html$`), any other with the whole address
    /// (`https://example.org/a/`, `*?print=`). Sitemaps are read whatever the patterns say.
    #[arg(long, value_name = "PATTERN", help_heading = "How far")]
    pub(crate) include: Vec<String>,
    /// No pages that a pattern matches, even if --include does; may be given several times
    #[arg(long, value_name = "PATTERN", help_heading = "How far")]
    pub(crate) exclude: Vec<String>,
    /// Pages of one host at most, from all runs
    #[arg(long, value_name = "N", help_heading = "How far")]
    pub(crate) host_pages: Option<u64>,
    /// Pages of one directory at most, from all runs; all queries of a path are one directory
    #[arg(long, value_name = "N", help_heading = "How far")]
    pub(crate) directory_pages: Option<u64>,
    /// Pages that say nothing new and lead on, in a directory before it is left, beside 4 for each
    /// page that says something new; a host may have 8 times as many; 0 for no limit
    #[arg(long, value_name = "N", default_value_t = TRAP_BUDGET, help_heading = "How far")]
    pub(crate) trap_budget: u64,
    /// Bytes of an address at most
    #[arg(
        long,
        value_name = "BYTES",
        default_value = "2048",
        help_heading = "How far"
    )]
    pub(crate) url_bytes: usize,
    /// Keep parameters that only track visitors (utm_source and the like) in URLs
    #[arg(long, help_heading = "How far")]
    pub(crate) keep_tracking: bool,
    /// Follow links that say nofollow
    #[arg(long, help_heading = "How far")]
    pub(crate) follow_nofollow: bool,
    /// Do not read the sitemaps that robots.txt names
    #[arg(long, help_heading = "How far")]
    pub(crate) no_sitemaps: bool,
    /// Ask again for all pages that were fetched, and fetch what has changed
    #[arg(long, help_heading = "How far")]
    pub(crate) recrawl: bool,

    /// Requests under way at one host
    #[arg(long, value_name = "N", help_heading = "How fast", value_parser = clap::value_parser!(u16).range(1..=1024))]
    pub(crate) connections: Option<u16>,
    /// Milliseconds from request to request at one host; a larger crawl-delay is honoured
    #[arg(long, value_name = "MS", help_heading = "How fast")]
    pub(crate) delay: Option<u64>,
    /// Only for servers of your own: 4 connections, no delay
    #[arg(long, help_heading = "How fast")]
    pub(crate) fast: bool,
    /// Requests under way at all hosts together, each a thread [default: 32, with --fast 4]
    #[arg(long, value_name = "N", help_heading = "How fast", value_parser = clap::value_parser!(u16).range(1..=1024))]
    pub(crate) workers: Option<u16>,
    /// Seconds a server may be silent; the whole page may take six times as long
    #[arg(long, value_name = "S", default_value = "20", help_heading = "How fast", value_parser = clap::value_parser!(u64).range(1..=3600))]
    pub(crate) timeout: u64,
    /// Bytes of a page at most, before and after decompression
    #[arg(
        long,
        value_name = "BYTES",
        default_value = "67108864",
        help_heading = "How fast"
    )]
    pub(crate) max_bytes: usize,
    /// Times a page is asked for when the server fails
    #[arg(long, value_name = "N", default_value = "4", help_heading = "How fast", value_parser = clap::value_parser!(u32).range(1..=20))]
    pub(crate) attempts: u32,
    /// Milliseconds before the second attempt; doubled with each
    #[arg(
        long,
        value_name = "MS",
        default_value = "1000",
        help_heading = "How fast"
    )]
    pub(crate) backoff: u64,
    /// Name sent with each request; robots.txt is read for what stands before the first slash
    #[arg(long, value_name = "TEXT", default_value = concat!("criba/", env!("CARGO_PKG_VERSION")), help_heading = "How fast")]
    pub(crate) agent: String,
    /// Trust the certificates in this PEM file too, of authorities or of servers, for https
    #[arg(long, value_name = "FILE", help_heading = "How fast")]
    pub(crate) ca: Option<PathBuf>,

    #[command(flatten)]
    pub(crate) requests: RequestOptions,

    /// What says whether a URL was seen
    #[arg(
        long,
        value_enum,
        default_value = "store",
        help_heading = "The seen set"
    )]
    pub(crate) seen: Mode,
    /// Order of its keys: by host, so that filters cover few hosts, or by hash
    #[arg(
        long,
        value_enum,
        default_value = "host",
        help_heading = "The seen set"
    )]
    pub(crate) partition: PartitionArg,
    /// Filter of the segments: bloomier, bloom:BITS or none
    #[arg(
        long,
        value_name = "FILTER",
        default_value = "bloomier",
        help_heading = "The seen set"
    )]
    pub(crate) filter: FilterChoice,
    /// Megabytes for filters, read by the page as they are needed; otherwise they are in memory
    /// whole, 2 bytes for each key
    #[arg(long, value_name = "MB", help_heading = "The seen set")]
    pub(crate) filter_cache: Option<u64>,
    /// Bits for each URL in the filter of --seen filter-only
    #[arg(
        long,
        value_name = "BITS",
        default_value = "10",
        help_heading = "The seen set"
    )]
    pub(crate) filter_bits: f64,
    /// Recent URLs held in front of all that, 0 for none [default: 65536, site 256, web 8192]
    #[arg(long, value_name = "N", help_heading = "The seen set")]
    pub(crate) front: Option<usize>,
    /// Part of the answers "certainly new" that is not believed, 0 to 1: more disk reads, and the
    /// same pages
    #[arg(
        long,
        value_name = "P",
        default_value = "0",
        help_heading = "The seen set"
    )]
    pub(crate) false_positives: f64,
    /// Megabytes for the cache of data blocks, and for that of sled [default: 4, site 1, web 0.25]
    #[arg(long, value_name = "MB", help_heading = "The seen set")]
    pub(crate) cache: Option<u64>,
    /// Megabytes of writes in memory before they become a segment [default: 4, site and web 1]
    #[arg(long, value_name = "MB", help_heading = "The seen set", value_parser = clap::value_parser!(u64).range(1..=16384))]
    pub(crate) memtable: Option<u64>,

    /// Print one JSON object instead of the summary
    #[arg(long, help_heading = "Output")]
    pub(crate) json: bool,
    /// Write a report with plots and tables
    #[arg(long, value_name = "FILE", help_heading = "Output")]
    pub(crate) html: Option<PathBuf>,
    /// Write what happened to each URL, one JSON object a line; a later run goes on behind what is
    /// there
    ///
    /// Keys, event "page": time url status state depth from type title bytes wire_bytes ms links cut
    /// noindex duplicate_of. Event "trouble", for each retry and each failure: time url status why
    /// attempt given_up.
    #[arg(long, value_name = "FILE", help_heading = "Output")]
    pub(crate) log: Option<PathBuf>,
    /// Write every exchange to a web archive (name it .warc.gz): a new file, or that of the last
    /// run
    #[arg(long, value_name = "FILE", help_heading = "Output")]
    pub(crate) warc: Option<PathBuf>,
    /// Write the URL of each page in the store, a line each, with its status
    #[arg(long, value_name = "FILE", help_heading = "Output")]
    pub(crate) list: Option<PathBuf>,
    /// Write each URL that answered 4xx or 5xx or not at all, one JSON object a line, with pages
    /// that link to it
    #[arg(long, value_name = "FILE", help_heading = "Output")]
    pub(crate) broken: Option<PathBuf>,
    /// Write each address that was found and left out, a line each, with the reason
    #[arg(long, value_name = "FILE", help_heading = "Output")]
    pub(crate) left_out: Option<PathBuf>,
    /// No progress line
    #[arg(long, help_heading = "Output")]
    pub(crate) quiet: bool,

    /// Ordinary pages of the site that is served
    #[arg(long, value_name = "N", default_value = "3000", help_heading = DEMO)]
    pub(crate) site_pages: usize,
    /// Seed of that site
    #[arg(long, value_name = "N", default_value = "1", help_heading = DEMO)]
    pub(crate) site_seed: u64,
    /// Pages to fetch of the made-up web, each with 62 links; 0 to leave it out
    #[arg(long, value_name = "N", default_value = "16000", help_heading = DEMO)]
    pub(crate) web_pages: u64,
    /// Hosts of the made-up web
    #[arg(long, value_name = "N", default_value = "250", help_heading = DEMO)]
    pub(crate) web_hosts: usize,
    /// Instead of the demo: reads for each link, by the share of new links and by memory
    #[arg(long, help_heading = DEMO)]
    pub(crate) curves: bool,
    /// Part of its links that is new, 0 to 1
    #[arg(long, value_name = "P", default_value = "0.1", help_heading = DEMO)]
    pub(crate) new: f64,
}

/// Options of the run without URLs.
const DEMO: &str = "Without URLs";

impl Args {
    /// Pages are left out because the user wishes so.
    pub(crate) fn leaves_out(&self) -> bool {
        let most = [self.pages, self.host_pages, self.directory_pages];
        let has_patterns = !self.include.is_empty() || !self.exclude.is_empty();
        most.iter().any(Option::is_some) || self.depth.is_some() || has_patterns
    }
}

/// [`Scope`] by name.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
pub(crate) enum ScopeArg {
    /// Hosts and ports of the seeds
    Host,
    /// Also all hosts below them
    Domain,
    /// What stands below the folders of the seeds
    Prefix,
    /// Everything
    Any,
}

impl From<ScopeArg> for Scope {
    fn from(arg: ScopeArg) -> Scope {
        match arg {
            ScopeArg::Host => Scope::Host,
            ScopeArg::Domain => Scope::Domain,
            ScopeArg::Prefix => Scope::Prefix,
            ScopeArg::Any => Scope::Any,
        }
    }
}

/// [`Partition`](crawl::Partition) by name.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
pub(crate) enum PartitionArg {
    /// By URL: those of a host lie together, and filters cover few hosts each.
    Host,
    /// By hash: every filter covers all hosts.
    None,
}

impl From<PartitionArg> for crawl::Partition {
    fn from(arg: PartitionArg) -> crawl::Partition {
        match arg {
            PartitionArg::Host => crawl::Partition::Host,
            PartitionArg::None => crawl::Partition::None,
        }
    }
}
