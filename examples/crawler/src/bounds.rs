//! How far a crawl goes, and how fast.

use std::time::Duration;

use crawl::Found;
use url::Url;

use crate::budget;
use crate::hosts::{HostSection, HostSettings};
use crate::patterns::Patterns;
use crate::reason::Reason;
use crate::record::Kind;
use crate::scope::Scope;

/// Redirects in a row, and sitemaps within sitemaps.
pub(crate) const HOPS_MAX: u32 = 10;

/// How fast we may be.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Pace {
    /// Requests under way at one origin.
    pub(crate) connections: usize,
    /// From the beginning of one request to that of the next, at one origin.
    pub(crate) delay: Duration,
}

/// How far a crawl goes.
#[derive(Debug)]
pub(crate) struct Bounds {
    pub(crate) seeds: Vec<Url>,
    pub(crate) scope: Scope,
    pub(crate) patterns: Patterns,
    /// The longest address.
    pub(crate) url_bytes: usize,
    pub(crate) budgets: budget::Limits,
    pub(crate) depth: Option<u32>,
    /// Pages to fetch in this run.
    pub(crate) pages: Option<u64>,
    pub(crate) sitemaps: bool,
    /// Fetches of a URL before it is given up.
    pub(crate) attempts: u32,
    /// Pause after the first failed fetch; doubled with each.
    pub(crate) backoff: Duration,
    /// The product token that robots.txt knows us by.
    pub(crate) product: String,
    pub(crate) pace: Pace,
    /// Settings of the user for single hosts.
    pub(crate) hosts: HostSettings,
}

impl Bounds {
    /// The pace of an origin: that of its host, if the user has set one.
    pub(crate) fn pace_of(&self, origin: &str) -> Pace {
        let url = Url::parse(origin).ok();
        let host = url.as_ref().and_then(Url::host_str).unwrap_or_default();
        let set = self.hosts.of(host);
        Pace {
            connections: set
                .and_then(HostSection::connections)
                .unwrap_or(self.pace.connections),
            delay: set.and_then(HostSection::delay).unwrap_or(self.pace.delay),
        }
    }

    /// Why a URL is not for this crawl.
    pub(crate) fn unwanted(&self, url: &Url, found: Found) -> Option<Reason> {
        if !self.scope.contains(&self.seeds, url) {
            return Some(Reason::OutOfScope);
        }
        if self.depth.is_some_and(|most| found.depth > most) {
            return Some(Reason::TooDeep);
        }
        if found.hops > HOPS_MAX {
            return Some(Reason::TooManyRedirects);
        }
        if url.as_str().len() > self.url_bytes {
            return Some(Reason::TooLong);
        }
        // Patterns choose pages, and a sitemap is none.
        let is_page = found.kind == Kind::Page as u8;
        let of_host = self.hosts.of(url.host_str().unwrap_or_default());
        let patterns = of_host.and_then(HostSection::patterns);
        let patterns = patterns.unwrap_or(&self.patterns);
        is_page.then(|| patterns.unwanted(url)).flatten()
    }
}
