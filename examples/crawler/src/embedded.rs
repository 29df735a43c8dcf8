//! Without URLs: a site of our own, crawled, and compared with what there is.

use std::collections::{BTreeMap, BTreeSet};

use crate::args::Args;
use crate::budget::TRAP_BUDGET;
use crate::failure::Failure;
use crate::setup::Plan;
use crate::site::{self, Expected, Site};
use crate::summary::{Series, Summary};

/// What the server saw, beside what it should have seen.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Comparison {
    /// Should have been requested and were not.
    pub(crate) missed: BTreeSet<String>,
    /// Should not have been requested: forbidden, or no page.
    pub(crate) unwanted: BTreeSet<String>,
    /// Parts without end that were not left in time, and how many requests they took.
    pub(crate) not_left: BTreeMap<String, u64>,
    /// Pages that were requested more than once.
    pub(crate) twice: BTreeSet<String>,
}

impl Comparison {
    /// From what was requested of the server, and how often.
    pub(crate) fn of(expected: &Expected, requests: &BTreeMap<String, u64>) -> Comparison {
        let first = expected.endless.iter().flat_map(|part| &part.first);
        let missed = expected.requested.iter().chain(first);
        let missed = missed.filter(|&path| !requests.contains_key(path));
        let (mut unwanted, mut in_parts) = (BTreeSet::new(), BTreeMap::new());
        for path in requests.keys() {
            if let Some(part) = expected.endless_of(path) {
                *in_parts.entry(&part.beginning).or_insert(0) += 1;
            } else if !expected.requested.contains(path) && path != "/robots.txt" {
                unwanted.insert(path.clone());
            }
        }
        let parts = expected.endless.iter();
        let not_left = parts.filter_map(|part| {
            let count = in_parts.get(&part.beginning).copied()?;
            (count > part.requests_max).then(|| (part.beginning.clone(), count))
        });
        let twice = requests.iter().filter(|&(_, &count)| count > 1);
        Comparison {
            missed: missed.cloned().collect(),
            unwanted,
            not_left: not_left.collect(),
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
    args.max_bytes = site::BODY_BYTES_MAX;
    args.url_bytes = site::URL_BYTES_MAX;
    // Some parts of the site have no end.
    args.trap_budget = args.trap_budget.clamp(1, TRAP_BUDGET);
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
        args,
    };
    let (mut summary, series) = plan.run()?;
    let compared = Comparison::of(&site.expected(), &served.requests());
    summary.missed = Some(compared.missed.len() as u64);
    summary.fetched_twice = summary.fetched_twice.max(compared.twice.len() as u64);
    Ok((summary, series, compared))
}
