//! A site to crawl, served by the program itself: pages as they are, and what goes wrong with them.
//!
//! The site knows where each of its links leads because it wrote them; nothing here reads HTML,
//! joins addresses or judges traps. So the site says in its own way what a crawler should do.

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

/// The product token that the rules of the site, and wishes on its pages, are for.
pub(crate) const AGENT: &str = "criba";

/// The largest body that a crawl of this site should take; one page is larger.
pub(crate) const BODY_BYTES_MAX: usize = 9 << 20;

/// The longest address that a crawl of this site should ask for.
pub(crate) const URL_BYTES_MAX: usize = 2048;

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
    /// Parts without end. None of their paths is in the sets above.
    pub(crate) endless: Vec<Endless>,
}

/// A part of the site without end. A crawler gives it up at some point; which, is its own affair.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Endless {
    /// All paths that begin so belong to it, other than those that are expected by name.
    pub(crate) beginning: String,
    /// Those that are requested at least.
    pub(crate) first: BTreeSet<String>,
    /// Most requests for all its paths together.
    pub(crate) requests_max: u64,
}

impl Expected {
    /// The part without end that a path belongs to.
    pub(crate) fn endless_of(&self, path: &str) -> Option<&Endless> {
        if self.requested.contains(path) {
            return None;
        }
        let mut parts = self.endless.iter();
        parts.find(|part| path.starts_with(&part.beginning))
    }
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

    /// What a correct crawler requests: all of it, nothing else, and of the parts without end
    /// neither too little nor too much. Sitemaps are read, `nofollow` holds.
    pub(crate) fn expected(&self) -> Expected {
        let mut expected = Expected {
            endless: endless::parts(),
            ..Expected::default()
        };
        let mut waiting = vec!["/", "/robots.txt"];
        let long = endless::long();
        waiting.extend(long.iter().map(String::as_str));
        while let Some(path) = waiting.pop() {
            let resource = self.resources.get(path);
            let is_endless = |part: &Endless| path.starts_with(&part.beginning);
            if resource.is_none() && expected.endless.iter().any(is_endless)
                || !expected.requested.insert(path.to_owned())
            {
                continue;
            }
            if resource.map_or_else(|| long.iter().any(|known| known == path), Resource::is_page) {
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
