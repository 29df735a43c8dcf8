//! What a crawl has done, in numbers: for the summary, `--json` and the report.

use std::time::Duration;

use crawl::SeenCounts;

/// The whole crawl. Counts are of this run of the program unless they say otherwise.
#[derive(Debug, Clone, Default, PartialEq)]
pub(crate) struct Summary {
    /// Where it began, as text from the command line.
    pub(crate) seeds: Vec<String>,
    /// How a URL was known to be seen: `store`, `filter-only`, `exact-memory` or `sled`.
    pub(crate) seen_mode: String,
    /// How keys were shared out: `host` or `none`.
    pub(crate) partition: String,
    pub(crate) took: Duration,

    /// Responses with status 200, or 304 on a re-crawl.
    pub(crate) pages: u64,
    /// All requests that got an answer, redirects and errors among them; robots.txt is not counted.
    pub(crate) fetches: u64,
    pub(crate) redirects: u64,
    /// URLs given up: no answer, or 5xx, after all attempts.
    pub(crate) failed: u64,
    /// Answers 4xx.
    pub(crate) client_errors: u64,
    /// Answers 304.
    pub(crate) not_modified: u64,
    pub(crate) retries: u64,
    /// URLs that robots.txt forbids.
    pub(crate) disallowed: u64,
    /// Pages whose body was cut at `--max-bytes`.
    pub(crate) cut: u64,
    /// URLs still waiting in the frontier: a limit was reached, a host is held, or the crawl was
    /// stopped.
    pub(crate) waiting: u64,
    /// A signal has stopped the crawl before its end.
    pub(crate) is_stopped: bool,
    /// Why nothing came of the seeds, some of them; empty if one of them was fetched.
    pub(crate) no_seed: Vec<String>,
    /// Hosts whose robots.txt could not be reached; their URLs wait.
    pub(crate) hosts_held: u64,
    /// Some of them, each with the reason. Text from the network.
    pub(crate) held: Vec<String>,
    pub(crate) hosts: u64,
    /// Bytes of bodies as they came over the wire.
    pub(crate) body_bytes: u64,

    /// Distinct URLs in the store, from all runs.
    pub(crate) urls_discovered: u64,
    /// Links on pages that lead somewhere one may go, one for each URL and page.
    pub(crate) links: u64,
    /// Links left out, by reason; see [`Reason::text`](crate::reason::Reason::text). What robots.txt
    /// forbids counts once for each URL.
    pub(crate) left_out: Vec<(String, u64)>,

    pub(crate) seen: SeenCounts,

    /// Pages fetched again although their fetch was committed, without having been asked to. Must
    /// be 0.
    pub(crate) fetched_twice: u64,
    /// Pages of the ground truth that were not fetched; known for the embedded site only.
    pub(crate) missed: Option<u64>,
    /// `filter-only`: distinct new URLs that the filter took for seen, by exact count beside it.
    pub(crate) lost_to_filter: u64,

    /// Pages whose body is byte by byte that of another page.
    pub(crate) exact_duplicates: u64,
    /// Pages whose text nearly is that of another page: simhash within 3 of 64 bits.
    pub(crate) near_duplicates: u64,
    /// Pages that name another URL as their canonical one.
    pub(crate) not_canonical: u64,
    pub(crate) noindex: u64,

    /// Counts over the pages of all runs.
    pub(crate) found: Findings,

    /// Bytes of all segments of the store.
    pub(crate) store_bytes: u64,
    /// Bytes that filters hold in memory.
    pub(crate) filter_bytes: u64,
    /// Bytes written to files of the store.
    pub(crate) written_bytes: u64,
    /// The largest resident set of the process, where the system tells.
    pub(crate) peak_rss_bytes: Option<u64>,
}

impl Summary {
    pub(crate) fn pages_per_s(&self) -> f64 {
        let seconds = self.took.as_secs_f64();
        if seconds > 0.0 {
            self.pages as f64 / seconds
        } else {
            0.0
        }
    }
}

/// Counts over the records of all pages. Text is from the network.
#[derive(Debug, Clone, Default, PartialEq)]
pub(crate) struct Findings {
    /// Statuses with the number of addresses that answered with them; 0 is for no answer.
    pub(crate) statuses: Vec<(u16, u64)>,
    /// Addresses that answered 4xx or 5xx, or not at all.
    pub(crate) broken: u64,
    /// Some that were cut at `--max-bytes`.
    pub(crate) cut: Vec<String>,

    // The following are collected for the report only.
    /// Hosts with the most pages.
    pub(crate) hosts: Vec<Host>,
    /// Reasons why addresses were not fetched, the most frequent ones.
    pub(crate) reasons: Vec<Reason>,
    /// The first broken addresses.
    pub(crate) first_broken: Vec<Broken>,
}

/// Pages of a host.
#[derive(Debug, Clone, Default, PartialEq)]
pub(crate) struct Host {
    /// `scheme://host:port`.
    pub(crate) origin: String,
    pub(crate) pages: u64,
    pub(crate) failed: u64,
    /// Bytes of bodies as they came over the wire.
    pub(crate) bytes: u64,
}

/// Why addresses were not fetched.
#[derive(Debug, Clone, Default, PartialEq)]
pub(crate) struct Reason {
    pub(crate) why: String,
    pub(crate) count: u64,
    /// One of them.
    pub(crate) example: String,
}

/// An address that links lead to in vain.
#[derive(Debug, Clone, Default, PartialEq)]
pub(crate) struct Broken {
    pub(crate) url: String,
    /// 0 for no answer.
    pub(crate) status: u16,
    pub(crate) why: String,
    /// Pages that link to it.
    pub(crate) links: u64,
    /// Addresses of some of them.
    pub(crate) linked_from: Vec<String>,
}

/// How the crawl went, in at most some thousand points.
#[derive(Debug, Clone, Default)]
pub(crate) struct Series {
    pub(crate) points: Vec<Point>,
}

/// Totals since the start, at one moment.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Point {
    pub(crate) at: Duration,
    pub(crate) pages: u64,
    /// URLs that wait.
    pub(crate) queue: u64,
    pub(crate) seen: SeenCounts,
}
