//! The groups that an address belongs to.
//!
//! An address without a query belongs to its directory, to the directories above that down from the
//! eighth level, and to its host. A trap may lie at any level; the directory in which it begins
//! holds little else, so there it is found first, however large the tree around it is.
//!
//! An address with a query belongs to its path, whatever the values; to all addresses of its host
//! with the same names of parameters, whatever the path, because a session may stand behind every
//! path; and to its host. It does not belong to directories: a path that answers queries without
//! end says nothing about its neighbours.
//!
//! Groups are named by what their addresses have in common. That name ends with `/` for a directory, holds
//! `?` for queries, and neither for a host. So no two groups share one.

use url::{Position, Url};

use crate::addresses::Addresses;

/// Levels of directories that are groups, beside the directory of the address itself.
const LEVELS_MAX: usize = 8;

/// The names of the groups of one address, the narrowest first and the host last.
#[derive(Debug)]
pub(crate) struct Groups {
    names: Addresses,
    /// The address has a query.
    pub(crate) is_query: bool,
}

impl Groups {
    pub(crate) fn of(url: &Url) -> Groups {
        let mut groups = Groups {
            names: Addresses::default(),
            is_query: url.query().is_some(),
        };
        match url.query() {
            Some(query) => groups.add_query(url, query),
            None => groups.add_directories(url),
        }
        groups.names.push(&url[..Position::BeforePath]);
        groups
    }

    fn add_query(&mut self, url: &Url, query: &str) {
        let mut names: Vec<&str> = query
            .split('&')
            .map(|pair| pair.split('=').next().unwrap_or_default())
            .collect();
        names.sort_unstable();
        names.dedup();
        self.names
            .push(&format!("{}?", &url[..Position::AfterPath]));
        let origin = &url[..Position::BeforePath];
        self.names.push(&format!("{origin}?{}", names.join("&")));
    }

    fn add_directories(&mut self, url: &Url) {
        let text = &url[..Position::AfterPath];
        let origin = url[..Position::BeforePath].len();
        let slashes = text[origin..].match_indices('/').skip(1);
        let ends: Vec<usize> = slashes.map(|(at, _)| origin + at + 1).collect();
        for (above, &end) in ends.iter().enumerate().rev() {
            if above + 1 == ends.len() || above < LEVELS_MAX {
                self.names.push(&text[..end]);
            }
        }
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = &str> {
        self.names.iter()
    }

    /// The narrowest group.
    pub(crate) fn own(&self) -> &str {
        self.names.get(0)
    }

    /// The widest group.
    pub(crate) fn host(&self) -> &str {
        self.names.get(self.names.len() - 1)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(address: &str, expected: &[&str]) {
        let groups = Groups::of(&Url::parse(address).unwrap());
        assert_eq!(groups.iter().collect::<Vec<_>>(), expected, "{address}");
        assert_eq!(groups.own(), expected[0]);
        assert_eq!(groups.host(), expected[expected.len() - 1]);
        assert_eq!(groups.is_query, address.contains('?'));
    }

    #[test]
    fn directories() {
        check("http://h/", &["http://h"]);
        check("http://h/x", &["http://h"]);
        check("https://h:81/a/", &["https://h:81/a/", "https://h:81"]);
        check(
            "http://h/a/b/x;y",
            &["http://h/a/b/", "http://h/a/", "http://h"],
        );
        check("http://h//a", &["http://h//", "http://h"]);
    }

    #[test]
    fn deep_ones_have_eight_levels_and_their_own() {
        let path: String = (1..=12).map(|level| format!("{level}/")).collect();
        let groups = Groups::of(&Url::parse(&format!("http://h/{path}x")).unwrap());
        let all: Vec<&str> = groups.iter().collect();
        assert_eq!(all.len(), 10);
        assert_eq!(all[0], format!("http://h/{path}"));
        assert_eq!(all[1], "http://h/1/2/3/4/5/6/7/8/");
        assert_eq!(all[8..], ["http://h/1/", "http://h"]);
    }

    #[test]
    fn queries() {
        check("http://h/?", &["http://h/?", "http://h?", "http://h"]);
        check(
            "http://h/a/c.php?y=1&x=a/b?&y&z=",
            &["http://h/a/c.php?", "http://h?x&y&z", "http://h"],
        );
    }
}
