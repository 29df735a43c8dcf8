//! A web that is made up while it is crawled: pages of many hosts, in the order in which links lead
//! to them.
//!
//! Its proportions are those of large crawls. A page has 62 links, and a tenth of all links is the
//! first one to its page: IRLbot found 394 billion links on 6.3 billion pages, to 41 billion
//! addresses (Lee, Leonard, Wang, Loguinov: "IRLbot: scaling to 6 billion pages and beyond", WWW
//! 2008). Of the others, eight of nine lead to the navigation of the page's own host or to its recent
//! pages, and the rest anywhere. So a cache of recent addresses has the answer for four of five
//! links: with 50,000 of them it was nearly 80 % (Broder, Najork, Wiener: "Efficient URL caching for
//! World Wide Web crawling", WWW 2003).

use std::fmt::Write as _;

use url::Url;

/// Links on a page.
pub(crate) const PAGE_LINKS: u64 = 62;
/// Of the new links, one in so many leads to another host.
const AWAY: u64 = 5;
/// Of the repeated links, one in so many leads to any address.
const FAR: u64 = 9;
/// Addresses at the top of a host that all its pages link to.
const NAVIGATION: u64 = 8;
/// How far back the recent addresses of a host go.
const RECENT: u64 = 16;

/// The web, as far as it was linked to.
#[derive(Debug)]
pub(super) struct Web {
    random: u64,
    /// How many addresses of each host were linked to.
    hosts: Vec<u64>,
    /// Probability that a link is new, as a part of 2^32.
    new: u64,
}

impl Web {
    /// A web of so many hosts, of each of which one address is known.
    pub(super) fn new(hosts: usize, new_part: f64) -> Web {
        Web {
            random: 0x2545_f491_4f6c_dd1d,
            hosts: vec![1; hosts],
            new: (new_part * (1_u64 << 32) as f64) as u64,
        }
    }

    /// The addresses where the crawl begins: one of each host.
    pub(super) fn seeds(&self) -> impl Iterator<Item = Url> {
        (0..self.hosts.len()).filter_map(|host| url(host, 0))
    }

    /// Addresses that were linked to.
    pub(super) fn linked(&self) -> u64 {
        self.hosts.iter().sum()
    }

    /// The links of a page of this host.
    pub(super) fn links(&mut self, page: &Url) -> Vec<Url> {
        let host = host_of(page);
        (0..PAGE_LINKS).filter_map(|_| self.link(host)).collect()
    }

    fn link(&mut self, own: usize) -> Option<Url> {
        let others = self.hosts.len() as u64;
        if self.below(1 << 32) < self.new {
            let host = match self.below(AWAY) {
                0 => self.below(others) as usize,
                _ => own,
            };
            let known = self.hosts.get_mut(host)?;
            *known += 1;
            return url(host, *known - 1);
        }
        let (host, number) = match self.below(FAR) {
            0 => {
                let host = self.below(others) as usize;
                let known = *self.hosts.get(host)?;
                (host, self.below(known))
            }
            near => {
                let known = *self.hosts.get(own)?;
                let number = match near % 2 {
                    0 => self.below(known.min(NAVIGATION)),
                    _ => known - 1 - self.below(known.min(RECENT)),
                };
                (own, number)
            }
        };
        url(host, number)
    }

    /// A number below `bound` (xorshift, Marsaglia 2003).
    fn below(&mut self, bound: u64) -> u64 {
        self.random ^= self.random << 13;
        self.random ^= self.random >> 7;
        self.random ^= self.random << 17;
        (self.random >> 8) % bound.max(1)
    }
}

/// The address of a page: hosts have sections, and a name says nothing of its number.
fn url(host: usize, number: u64) -> Option<Url> {
    let mixed = (number + 1).wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 40;
    let mut text = String::with_capacity(64);
    // Writing to memory cannot fail.
    write!(
        text,
        "http://host{host}.example/section-{}/{mixed:06x}-{number}.html",
        mixed % 10
    )
    .unwrap_or_default();
    Url::parse(&text).ok()
}

fn host_of(page: &Url) -> usize {
    let name = page.host_str().unwrap_or_default();
    let digits = name.trim_start_matches("host").split('.').next();
    digits
        .and_then(|digits| digits.parse().ok())
        .unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn a_fixed_part_of_the_links_is_new() {
        let mut web = Web::new(10, 0.1);
        let mut known: BTreeSet<Url> = web.seeds().collect();
        let (mut links, mut new) = (0, 0);
        for page in 0..200 {
            let page = known.iter().nth(page % 10).unwrap().clone();
            for link in web.links(&page) {
                links += 1;
                new += u64::from(known.insert(link));
            }
        }
        assert_eq!(
            (links, known.len() as u64),
            (200 * PAGE_LINKS, web.linked())
        );
        assert!(new > links / 12 && new < links / 8, "{new} of {links}");
    }
}
