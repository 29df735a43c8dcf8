//! What the user adds to requests: headers, cookies, a proxy; for all hosts or for some.

use std::sync::Arc;

use url::Url;

use super::{Cookies, Header, Proxy};
use crate::by_host::ByHost;
use crate::scope::Scope;

/// What is added to requests to one host.
#[derive(Debug, Clone, Default)]
pub(crate) struct Extra {
    pub(crate) headers: Vec<Header>,
    pub(crate) cookies: Option<Arc<Cookies>>,
    pub(crate) proxy: Option<Arc<Proxy>>,
}

impl Extra {
    /// This, and from `general` what it does not say itself.
    fn over(&self, general: &Extra) -> Extra {
        let own = &self.headers;
        let others = general.headers.iter();
        let others = others.filter(|header| !own.iter().any(|own| own.is(header.name())));
        Extra {
            headers: others.chain(own).cloned().collect(),
            cookies: self.cookies.clone().or_else(|| general.cookies.clone()),
            proxy: self.proxy.clone().or_else(|| general.proxy.clone()),
        }
    }
}

/// What is added to requests.
///
/// Headers may be secrets, so general ones go to the hosts of the crawl only. Cookies know their
/// hosts themselves.
#[derive(Debug)]
pub(crate) struct Extras {
    sections: ByHost<Sides>,
    others: Sides,
    /// [`Scope::Host`] or [`Scope::Domain`].
    scope: Scope,
    seeds: Vec<Url>,
}

#[derive(Debug)]
struct Sides {
    /// For hosts of the crawl.
    inside: Extra,
    /// For others, where robots.txt or a sitemap may lead.
    outside: Extra,
}

impl Default for Extras {
    fn default() -> Extras {
        Extras::new(&Extra::default(), ByHost::default(), (Scope::Host, &[]))
    }
}

impl Extras {
    /// `general` is for all hosts, its headers only for those of the seeds, or for those below them
    /// with [`Scope::Domain`]. `sections` are for hosts by name, and stand above it.
    pub(crate) fn new(
        general: &Extra,
        sections: ByHost<Extra>,
        (scope, seeds): (Scope, &[Url]),
    ) -> Extras {
        let bare = Extra {
            headers: Vec::new(),
            ..general.clone()
        };
        let sides = |own: Extra| Sides {
            inside: own.over(general),
            outside: own.over(&bare),
        };
        Extras {
            sections: sections.map(sides),
            others: sides(Extra::default()),
            scope: match scope {
                Scope::Domain => Scope::Domain,
                Scope::Host | Scope::Prefix | Scope::Any => Scope::Host,
            },
            seeds: seeds.to_vec(),
        }
    }

    /// What is added to requests for this URL.
    pub(crate) fn of(&self, url: &Url) -> &Extra {
        let sides = self.sections.get(url.host_str().unwrap_or_default());
        let sides = sides.unwrap_or(&self.others);
        // Most crawls have no headers, and then the two are alike.
        let is_inside = sides.inside.headers.is_empty() || self.scope.contains(&self.seeds, url);
        match is_inside {
            true => &sides.inside,
            false => &sides.outside,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn extra(headers: &[&str], proxy: Option<&str>) -> Extra {
        let header = |line: &&str| Header::parse(line).unwrap();
        Extra {
            headers: headers.iter().map(header).collect(),
            cookies: None,
            proxy: proxy.map(|proxy| Arc::new(Proxy::parse(proxy).unwrap())),
        }
    }

    fn shown(extras: &Extras, url: &str) -> String {
        let extra = extras.of(&Url::parse(url).unwrap());
        let header = |header: &Header| format!("{}={} ", header.name(), header.value());
        let headers: String = extra.headers.iter().map(header).collect();
        let proxy = extra.proxy.as_ref().map(|proxy| format!("via {proxy}"));
        headers + &proxy.unwrap_or_default()
    }

    #[test]
    fn general_headers_stay_with_the_hosts_of_the_seeds() {
        let seeds = [Url::parse("https://www.example.org/docs/").unwrap()];
        let new = |scope| {
            let general = extra(&["a: 1"], Some("http://p:1"));
            Extras::new(&general, ByHost::default(), (scope, &seeds))
        };
        for scope in [Scope::Host, Scope::Prefix, Scope::Any] {
            let extras = new(scope);
            let all = "a=1 via p:1";
            assert_eq!(shown(&extras, "http://www.example.org/robots.txt"), all);
            assert_eq!(shown(&extras, "http://example.org/"), "via p:1");
            assert_eq!(shown(&extras, "http://other.example/"), "via p:1");
        }
        let extras = new(Scope::Domain);
        assert_eq!(shown(&extras, "http://a.example.org/"), "a=1 via p:1");
        assert_eq!(shown(&extras, "http://other.example/"), "via p:1");
    }

    #[test]
    fn sections_stand_above_what_is_general() {
        let mut sections = ByHost::default();
        let own = extra(&["A: 2", "b: 3"], Some("http://q:1"));
        sections.insert("in.example", own).unwrap();
        sections
            .insert("out.example", extra(&["b: 4"], None))
            .unwrap();
        let seeds = [Url::parse("http://in.example/").unwrap()];
        let general = extra(&["a: 1", "c: 5"], Some("http://p:1"));
        let extras = Extras::new(&general, sections, (Scope::Host, &seeds));
        assert_eq!(shown(&extras, "http://in.example/"), "c=5 A=2 b=3 via q:1");
        assert_eq!(shown(&extras, "http://out.example/"), "b=4 via p:1");
        assert_eq!(shown(&Extras::default(), "http://in.example/"), "");
    }
}
