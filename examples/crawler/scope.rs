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
