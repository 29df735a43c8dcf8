//! A site to crawl, served by the program itself: pages as they are, and what goes wrong with them.
//!
//! The site knows where each of its links leads because it wrote them; nothing here reads HTML,
//! joins addresses or judges traps. So what a crawler should do is told by another way than that by
//! which the crawler does it.

mod endless;
mod oddities;
mod pages;
mod resource;
mod serve;
#[cfg(test)]
mod tests;
mod words;

use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::sync::Arc;

use self::resource::Resource;
pub(crate) use self::serve::Served;
use crate::address::Normal;
use crate::trap::TrapLimits;

/// The product token that the rules of the site, and wishes on its pages, are for.
pub(crate) const AGENT: &str = "criba";

/// The largest body that a crawl of this site should take; one page is larger.
pub(crate) const BODY_BYTES_MAX: usize = 1 << 20;

/// The year in which the calendar of the site is visited.
const YEAR: u32 = 2026;

/// A site made from a seed: the same seed and size give the same site, byte by byte.
#[derive(Debug, Clone)]
pub(crate) struct Site {
    resources: Arc<BTreeMap<String, Resource>>,
}

/// What a crawl that starts at `/` does on this site if it makes no mistake. Paths begin with `/`.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Expected {
    /// Every path that is requested, other than `/robots.txt`, whatever the answer.
    pub(crate) requested: BTreeSet<String>,
    /// Those of them that answer 200 with HTML.
    pub(crate) pages: BTreeSet<String>,
}

impl Site {
    /// A site with so many ordinary pages, and some hundred odd ones.
    pub(crate) fn generate(seed: u64, pages: usize) -> Self {
        let mut resources = BTreeMap::new();
        let odd = oddities::add(&mut resources);
        pages::add(&mut resources, seed, pages, &odd);
        Self {
            resources: Arc::new(resources),
        }
    }

    /// How [`Self::expected`] counts on addresses to be normalised.
    pub(crate) fn normal() -> Normal {
        Normal {
            strip_tracking: true,
        }
    }

    /// Which traps [`Self::expected`] counts on.
    pub(crate) fn limits() -> TrapLimits {
        TrapLimits::new(YEAR)
    }

    /// What a correct crawler requests, all of it and nothing else; sitemaps are read, `nofollow`
    /// holds.
    pub(crate) fn expected(&self) -> Expected {
        let mut expected = Expected::default();
        let mut waiting = vec!["/", "/robots.txt"];
        let endless = endless::within_limits();
        waiting.extend(endless.iter().map(String::as_str));
        while let Some(path) = waiting.pop() {
            if !expected.requested.insert(path.to_owned()) {
                continue;
            }
            let resource = self.resources.get(path);
            if resource.map_or_else(|| endless.contains(path), Resource::is_page) {
                expected.pages.insert(path.to_owned());
            }
            let leads_to = resource.into_iter().flat_map(|resource| &resource.leads_to);
            waiting.extend(leads_to.map(String::as_str));
        }
        expected.requested.remove("/robots.txt");
        expected
    }

    /// Serves the site on a free port of the loopback interface.
    ///
    /// # Errors
    ///
    /// When there is no port to be had.
    pub(crate) fn serve(&self) -> io::Result<Served> {
        Served::start(self.clone())
    }

    /// What stands at a path; some of it is made up when asked for.
    fn at(&self, path: &str) -> Option<Resource> {
        let kept = self.resources.get(path).cloned();
        kept.or_else(|| endless::page(path).or_else(|| pages::action(path)))
    }
}
