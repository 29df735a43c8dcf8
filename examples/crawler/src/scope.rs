//! Which addresses belong to a crawl.

use url::Url;

/// How far a crawl goes from the addresses it starts at.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Scope {
    /// The hosts and ports of the seeds; `http` and `https` on their default ports are one.
    Host,
    /// The hosts of the seeds, without a leading `www.`, and all hosts below them, on any port.
    ///
    /// Without the public suffix list: a seed `https://co.uk/` would take in all of `co.uk`.
    Domain,
    /// What stands below the folder of a seed, on its host.
    Prefix,
    /// Everything.
    Any,
}

impl Scope {
    /// Whether `url` is within reach of one of the seeds.
    pub(crate) fn contains(self, seeds: &[Url], url: &Url) -> bool {
        match self {
            Self::Host => seeds.iter().any(|seed| same_host(seed, url)),
            Self::Domain => seeds.iter().any(|seed| same_domain(seed, url)),
            Self::Prefix => seeds
                .iter()
                .any(|seed| same_host(seed, url) && url.path().starts_with(folder(seed.path()))),
            Self::Any => true,
        }
    }
}

fn same_host(seed: &Url, url: &Url) -> bool {
    // A port that is written is never the scheme's default: `Url` drops those.
    seed.host_str() == url.host_str() && seed.port() == url.port()
}

fn same_domain(seed: &Url, url: &Url) -> bool {
    let (Some(seed), Some(host)) = (seed.host_str(), url.host_str()) else {
        return false;
    };
    let domain = seed.strip_prefix("www.").unwrap_or(seed);
    let rest = host.strip_suffix(domain);
    rest.is_some_and(|rest| rest.is_empty() || rest.ends_with('.'))
}

/// The path up to and with its last slash.
fn folder(path: &str) -> &str {
    path.rfind('/').map_or("/", |at| &path[..=at])
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(scope: Scope, seed: &str, inside: &[&str], outside: &[&str]) {
        let parse = |text: &str| Url::parse(text).unwrap();
        let seeds = [parse("http://unrelated.example/"), parse(seed)];
        for url in inside {
            assert!(
                scope.contains(&seeds, &parse(url)),
                "{scope:?} {seed} {url}"
            );
        }
        for url in outside {
            assert!(
                !scope.contains(&seeds, &parse(url)),
                "{scope:?} {seed} {url}"
            );
        }
    }

    #[test]
    fn host() {
        check(
            Scope::Host,
            "https://example.org/a/b",
            &[
                "https://example.org/",
                "http://example.org/x",
                "https://EXAMPLE.org:443/",
            ],
            &[
                "https://www.example.org/",
                "https://example.org:8443/",
                "https://example.org.evil/",
            ],
        );
        check(
            Scope::Host,
            "http://h:8080/",
            &["http://h:8080/x"],
            &["http://h/", "http://h:80/"],
        );
    }

    #[test]
    fn domain() {
        check(
            Scope::Domain,
            "https://www.example.org/a",
            &[
                "http://example.org:8080/",
                "https://a.b.example.org/",
                "https://www.example.org/",
            ],
            &[
                "https://notexample.org/",
                "https://example.org.evil/",
                "https://org/",
            ],
        );
        check(
            Scope::Domain,
            "http://127.0.0.1/",
            &["http://127.0.0.1:1/"],
            &["http://7.0.0.1/"],
        );
    }

    #[test]
    fn prefix() {
        check(
            Scope::Prefix,
            "https://example.org/docs/index.html?x",
            &["https://example.org/docs/", "http://example.org/docs/a/b?c"],
            &[
                "https://example.org/docs",
                "https://example.org/",
                "https://other.org/docs/",
            ],
        );
        check(
            Scope::Prefix,
            "https://example.org/docs",
            &["https://example.org/x"],
            &[],
        );
    }

    #[test]
    fn any() {
        check(
            Scope::Any,
            "https://example.org/",
            &["http://elsewhere/"],
            &[],
        );
    }
}
