//! Values for hosts by name: one host, all hosts below a domain, or all.

use std::collections::BTreeMap;

use common::escape::Plain;
use url::Host;

/// Values by `example.org`, `*.example.org` or `*`.
#[derive(Debug, Clone)]
pub(crate) struct ByHost<T> {
    hosts: BTreeMap<String, T>,
    /// By the domain; by nothing for all hosts.
    below: BTreeMap<String, T>,
}

impl<T> Default for ByHost<T> {
    fn default() -> Self {
        ByHost {
            hosts: BTreeMap::new(),
            below: BTreeMap::new(),
        }
    }
}

impl<T> ByHost<T> {
    /// Adds a value for the hosts that `pattern` names: a host as it stands in a URL, without port;
    /// `*.` and a domain for all hosts below it, but not itself; or `*` for all.
    ///
    /// # Errors
    ///
    /// A sentence that says how to write it, or that it was added before.
    pub(crate) fn insert(&mut self, pattern: &str, value: T) -> Result<(), String> {
        const HOW: &str = "write example.org, *.example.org for all hosts below it, or *";
        let domain = match pattern {
            "*" => Some(""),
            _ => pattern.strip_prefix("*."),
        };
        let map = match domain {
            Some(_) => &mut self.below,
            None => &mut self.hosts,
        };
        let name = domain.unwrap_or(pattern);
        let name = match Host::parse(name) {
            _ if pattern == "*" => String::new(),
            Ok(Host::Domain(name)) if !name.contains('*') => name,
            Ok(Host::Domain(_)) => {
                return Err(format!("{} is not a host; {HOW}", Plain(pattern)));
            }
            Ok(address) if domain.is_none() => address.to_string(),
            Ok(_) => {
                return Err(format!(
                    "{}: addresses have no hosts below them",
                    Plain(pattern)
                ));
            }
            Err(error) => {
                return Err(format!("{} is not a host ({error}); {HOW}", Plain(pattern)));
            }
        };
        match map.insert(name, value) {
            None => Ok(()),
            Some(_) => Err(format!("{} is there twice", Plain(pattern))),
        }
    }

    /// The value of the most specific pattern for a host, which is written as in a [`url::Url`].
    pub(crate) fn get(&self, host: &str) -> Option<&T> {
        if self.below.is_empty() {
            return self.hosts.get(host);
        }
        let parents = host.match_indices('.').map(|(at, _)| &host[at + 1..]);
        let mut below = parents.chain([""]).filter_map(|name| self.below.get(name));
        self.hosts.get(host).or_else(|| below.next())
    }

    /// Whether any value is such.
    pub(crate) fn any(&self, is_such: impl Fn(&T) -> bool) -> bool {
        self.hosts.values().chain(self.below.values()).any(is_such)
    }

    /// Other values for the same hosts.
    pub(crate) fn map<U>(self, mut change: impl FnMut(T) -> U) -> ByHost<U> {
        let mut all = |map: BTreeMap<String, T>| {
            let changed = map.into_iter().map(|(name, value)| (name, change(value)));
            changed.collect()
        };
        ByHost {
            hosts: all(self.hosts),
            below: all(self.below),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(patterns: &[&'static str]) -> ByHost<&'static str> {
        let mut all = ByHost::default();
        for pattern in patterns {
            all.insert(pattern, *pattern).unwrap();
        }
        all
    }

    #[test]
    fn the_most_specific_pattern_counts() {
        let all = of(&[
            "*",
            "*.org",
            "*.example.org",
            "example.org",
            "a.b.example.org",
        ]);
        let check = |host: &str, expected: &str| assert_eq!(all.get(host), Some(&expected));
        check("example.org", "example.org");
        check("a.b.example.org", "a.b.example.org");
        check("b.example.org", "*.example.org");
        check("x.b.example.org", "*.example.org");
        check("notexample.org", "*.org");
        check("org", "*");
        check("127.0.0.1", "*");
        assert_eq!(of(&["*.example.org"]).get("example.org"), None);
        assert_eq!(of(&["example.org"]).get("www.example.org"), None);
    }

    #[test]
    fn hosts_are_written_as_in_urls() {
        let all = of(&["Bücher.example", "127.1", "[0::1]"]).map(str::len);
        assert_eq!(all.get("xn--bcher-kva.example"), Some(&15));
        assert_eq!(all.get("127.0.0.1"), Some(&5));
        assert_eq!(all.get("[::1]"), Some(&6));
    }

    #[test]
    fn what_is_no_host_is_refused() {
        fn check(patterns: &[&str], expected: &str) {
            let mut all = ByHost::default();
            let mut inserted = patterns.iter().map(|pattern| all.insert(pattern, ()));
            let what = inserted.find_map(Result::err).unwrap();
            assert!(what.contains(expected), "{patterns:?}: {what}");
        }
        check(&["http://example.org/"], "is not a host");
        check(&["example.org:80"], "is not a host");
        check(&["example.*"], "write example.org, *.example.org");
        check(&["*.*.org"], "is not a host");
        check(&[""], "is not a host");
        check(&["*.0.0.1"], "no hosts below them");
        check(&["h", "H"], "twice");
        check(&["*.h", "*.H"], "twice");
    }
}
