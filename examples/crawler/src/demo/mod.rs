//! Without URLs: what filters are for, shown on two crawls.
//!
//! 1. A site that the program serves itself is crawled over HTTP and compared with what there is: a
//!    correct crawler misses nothing and fetches nothing twice. The site fits in memory, so filters
//!    have little to do there.
//! 2. A made-up web whose seen set is larger than the memory that the crawl may use. No network: what
//!    is measured is the question "was this address seen?", answered in several ways.

pub(crate) mod curves;
mod row;
mod text;
mod web;

use std::path::Path;

use crawl::Partition;
use criba::{BloomierBits, FilterPolicy};

pub(crate) use row::{Moment, Row, Task};
pub(crate) use text::{json, text};
pub(crate) use web::PAGE_LINKS;

use crate::args::Args;
use crate::embedded::{self, Comparison};
use crate::failure::Failure;
use crate::progress::Bar;
use crate::seen::Mode;
use crate::summary::{Series, Summary};
use row::Way;

/// Everything that the run has shown.
#[derive(Debug)]
pub(crate) struct Shown {
    pub(crate) summary: Summary,
    pub(crate) series: Series,
    pub(crate) compared: Comparison,
    /// The same site with all links that say `nofollow` followed.
    pub(crate) followed: Summary,
    pub(crate) larger: Larger,
}

/// The crawl that is larger than its memory.
#[derive(Debug)]
pub(crate) struct Larger {
    pub(crate) task: Task,
    pub(crate) rows: Vec<Row>,
    /// Whether bytes from the device are counted where the stores lay.
    pub(crate) is_counted: bool,
}

impl Larger {
    /// Rows that answer exactly and yet missed a page or fetched one twice.
    pub(crate) fn wrong(&self) -> impl Iterator<Item = &Row> {
        let exact = self.rows.iter().filter(|row| row.name != FILTER_ALONE);
        exact.filter(|row| row.missed + row.twice > 0)
    }
}

/// Addresses in the front of the made-up web: those that its hosts link to again and again, 24 of
/// each, and some more.
const FRONT: usize = 8192;
/// The cache of the made-up web: some hundredths of the seen set, as in a crawl of any size.
const CACHE_BYTES: u64 = 256 << 10;

/// The row that may lose pages.
pub(crate) const FILTER_ALONE: &str = "filter alone";

const WAYS: [Way; 5] = [
    Way {
        name: "bloomier",
        mode: Mode::Store,
        filter: FilterPolicy::Bloomier(BloomierBits::Slot),
        bits: 0.0,
    },
    Way {
        name: "bloom:10",
        mode: Mode::Store,
        filter: FilterPolicy::Bloom { bits_per_key: 10.0 },
        bits: 0.0,
    },
    Way {
        name: "none",
        mode: Mode::Store,
        filter: FilterPolicy::None,
        bits: 0.0,
    },
    Way {
        name: "sled",
        mode: Mode::Sled,
        filter: FilterPolicy::None,
        bits: 0.0,
    },
    Way {
        name: FILTER_ALONE,
        mode: Mode::FilterAlone,
        filter: FilterPolicy::None,
        bits: 10.0,
    },
];

/// Runs both crawls.
pub(crate) fn run(args: &Args) -> Result<Shown, Failure> {
    let (summary, series, compared) = embedded::run(args.clone())?;
    let again = Args {
        follow_nofollow: true,
        store: None,
        warc: None,
        list: None,
        log: None,
        broken: None,
        ..args.clone()
    };
    let (followed, _, _) = embedded::run(again)?;
    Ok(Shown {
        summary,
        series,
        compared,
        followed,
        larger: larger(args)?,
    })
}

/// What is to be done with the made-up web.
fn task(args: &Args) -> Result<Task, Failure> {
    if !(0.0..=1.0).contains(&args.new) {
        return Err(Failure::Usage("--new is a part, 0 to 1".into()));
    }
    let megabytes = |number: u64| number << 20;
    Ok(Task {
        pages: args.web_pages,
        hosts: args.web_hosts,
        new: args.new,
        memtable_bytes: megabytes(args.memtable.unwrap_or(1)),
        cache_bytes: args.cache.map_or(CACHE_BYTES, megabytes),
        front: args.front.unwrap_or(FRONT),
        partition: Partition::from(args.partition),
    })
}

/// A directory that goes when it is dropped, on the device of `--store` if that is given.
fn directory_for(args: &Args) -> Result<tempfile::TempDir, Failure> {
    let beside = args.store.as_deref().and_then(Path::parent);
    let directory = match beside.filter(|parent| parent.is_dir()) {
        Some(parent) => tempfile::tempdir_in(parent),
        None => tempfile::tempdir(),
    };
    directory.map_err(Failure::io("cannot make a directory for the demo"))
}

/// Crawls the made-up web in all ways, one after the other.
fn larger(args: &Args) -> Result<Larger, Failure> {
    let task = task(args)?;
    let directory = directory_for(args)?;
    let links = task.pages * PAGE_LINKS;
    let mut rows = Vec::new();
    for way in WAYS.iter().filter(|_| task.pages > 0) {
        let bar = Bar::new(args.quiet, links, way.name);
        let path = directory.path().join(way.name.replace([':', ' '], "-"));
        #[expect(clippy::disallowed_methods, reason = "a directory of the demo")]
        std::fs::create_dir(&path).map_err(Failure::io("cannot make a directory for the demo"))?;
        rows.push(Row::of(*way, task, &path, &mut |done| bar.show(done))?);
    }
    Ok(Larger {
        task,
        rows,
        is_counted: common::device::is_counted(directory.path()),
    })
}

#[cfg(test)]
mod tests {
    use clap::Parser as _;

    use super::*;

    #[test]
    fn only_a_filter_alone_loses_pages_and_filters_save_blocks() {
        let options = ["--quiet", "--web-pages", "600", "--web-hosts", "20"];
        let memory = ["--front", "512", "--cache", "0"];
        let args = Args::parse_from(["crawler"].iter().chain(&options).chain(&memory));
        let larger = larger(&args).unwrap();
        assert_eq!(larger.rows.len(), WAYS.len());
        assert_eq!(larger.wrong().count(), 0);
        for row in &larger.rows {
            let seen = &row.seen;
            let memory = seen.answered_by_front + seen.answered_by_memtable;
            let files = seen.answered_by_ranges + seen.answered_by_filter + seen.verified_on_disk;
            assert_eq!(seen.checks, memory + files, "{row:?}");
            assert_eq!(row.twice, 0, "{row:?}");
            let is_alone = row.name == FILTER_ALONE;
            assert_eq!(row.missed > 0, is_alone, "{row:?}");
            assert_eq!(row.series.last().unwrap().links, 600 * PAGE_LINKS);
        }
    }

    #[test]
    fn what_the_user_leaves_out_is_no_mistake() {
        for wish in [
            ["--depth", "1"],
            ["--pages", "7"],
            ["--host-pages", "7"],
            ["--directory-pages", "7"],
            ["--include", "/docs/"],
            ["--exclude", "/docs/"],
        ] {
            let options = ["--quiet", "--web-pages", "0", "--site-pages", "20"];
            let args = Args::parse_from(["crawler"].iter().chain(&options).chain(&wish));
            let exit = crate::demonstrate(&args).unwrap();
            assert_eq!(exit, crate::failure::Exit::Done, "{wish:?}");
        }
    }

    #[test]
    fn the_text_and_the_object_name_every_row() {
        let args = Args::parse_from([
            "crawler",
            "--quiet",
            "--web-pages",
            "40",
            "--site-pages",
            "5",
        ]);
        let shown = run(&args).unwrap();
        assert!(shown.compared.is_right(), "{:?}", shown.compared);
        assert!(shown.followed.fetches >= shown.summary.fetches);
        let (text, object) = (text(&shown), json(&shown));
        for (way, row) in WAYS
            .iter()
            .zip(object["larger_than_memory"]["rows"].as_array().unwrap())
        {
            assert!(text.contains(way.name) && row["name"] == way.name);
            // The seeds are looked up, too.
            assert_eq!(row["checks"], 40 * PAGE_LINKS + 250);
        }
        let page = crate::report::demo(&shown);
        assert!(page.contains("A crawl larger than its memory") && !page.contains("NaN"));
    }
}
