//! Without URLs: a site of our own, crawled, and compared with what there is.

use std::collections::{BTreeMap, BTreeSet};

use crate::args::Args;
use crate::failure::Failure;
use crate::setup::Plan;
use crate::site::{self, Expected, Site};
use crate::summary::{Series, Summary};

/// What the server saw, beside what it should have seen.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Comparison {
    /// Should have been requested and were not.
    pub(crate) missed: BTreeSet<String>,
    /// Should not have been requested: forbidden, or traps.
    pub(crate) unwanted: BTreeSet<String>,
    /// Pages that were requested more than once.
    pub(crate) twice: BTreeSet<String>,
}

impl Comparison {
    /// From what was requested of the server, and how often.
    pub(crate) fn of(expected: &Expected, requests: &BTreeMap<String, u64>) -> Comparison {
        let missed = expected
            .requested
            .iter()
            .filter(|&path| !requests.contains_key(path));
        let known = |path: &String| expected.requested.contains(path) || path == "/robots.txt";
        let unwanted = requests.keys().filter(|&path| !known(path));
        let twice = requests.iter().filter(|&(_, &count)| count > 1);
        Comparison {
            missed: missed.cloned().collect(),
            unwanted: unwanted.cloned().collect(),
            twice: twice.map(|(path, _)| path.clone()).collect(),
        }
    }

    /// Whether the crawl was as it should be.
    pub(crate) fn is_right(&self) -> bool {
        *self == Comparison::default()
    }
}

/// Crawls the embedded site.
pub(crate) fn run(mut args: Args) -> Result<(Summary, Series, Comparison), Failure> {
    let site = Site::generate(args.site_seed, args.site_pages);
    let served = site
        .serve()
        .map_err(Failure::io("cannot serve the embedded site"))?;
    let root = served
        .root()
        .ok_or_else(|| Failure::Usage("the site has no address".into()))?;
    args.fast = true;
    args.keep_tracking = !Site::normal().strip_tracking;
    args.max_bytes = args.max_bytes.min(site::BODY_BYTES_MAX);
    args.backoff = args.backoff.min(20);
    // So small that a small crawl has to do with segments, filters and blocks too.
    args.front.get_or_insert(256);
    args.memtable.get_or_insert(1);
    args.cache.get_or_insert(1);
    let temporary = match &args.store {
        Some(_) => None,
        None => Some(tempfile::tempdir().map_err(Failure::io("cannot make a temporary store"))?),
    };
    let store = args
        .store
        .clone()
        .or(temporary.as_ref().map(|dir| dir.path().join("store")));
    let plan = Plan {
        store: store.unwrap_or_default(),
        seeds: vec![root],
        traps: Site::limits(),
        args,
    };
    let (mut summary, series) = plan.run()?;
    let compared = Comparison::of(&site.expected(), &served.requests());
    summary.missed = Some(compared.missed.len() as u64);
    summary.fetched_twice = summary.fetched_twice.max(compared.twice.len() as u64);
    Ok((summary, series, compared))
}
