//! What a page says: where it links to, what it wishes, what it is about.
//!
//! One pass over the tokens collects the targets as they are written, each once; only then are they
//! joined to the base, because that may be told behind the first link, and because most of the work of a
//! page full of links is saved so.

mod charset;
mod plain;
mod tags;
#[cfg(test)]
mod tests;
mod wishes;

use std::collections::HashMap;
use std::ops::Range;

use encoding_rs::Encoding;
use url::Url;
use xxhash_rust::xxh3::xxh3_64;

use self::tags::{Attribute, Attributes, Sink, Tag};
use crate::address::{Joiner, Normal};
use crate::simhash::Simhash;

/// What is taken from a page.
#[derive(Debug, Clone, Default)]
pub(crate) struct Page {
    /// Each address once, in the order of the page; the page itself is not among them.
    pub(crate) links: Vec<Link>,
    /// The address that the page wants to be known by; it may be its own.
    pub(crate) canonical: Option<Url>,
    /// The page wishes not to be kept.
    pub(crate) noindex: bool,
    /// The page wishes that none of its links is followed.
    pub(crate) nofollow: bool,
    /// Of the visible text; see `simhash.rs`. Zero if there is none.
    pub(crate) simhash: u64,
    /// As it is written, white space collapsed, cut where it is very long.
    pub(crate) title: String,
}

/// One link.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Link {
    /// Normalised.
    pub(crate) url: Url,
    /// Every occurrence on the page says `rel=nofollow`.
    pub(crate) nofollow: bool,
    /// Of several, the first of the list below.
    pub(crate) kind: LinkKind,
}

/// What made it a link.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) enum LinkKind {
    /// `<a href>`
    Anchor,
    /// `<area href>`
    Area,
    /// `<frame src>`, `<iframe src>`
    Frame,
    /// `<meta http-equiv=refresh>`
    Refresh,
    /// `<link rel=canonical>`
    Canonical,
    /// `<link rel=next>`, `prev`, `alternate` and the like: other pages, not style sheets or icons.
    Related,
}

/// Longer titles are cut: they are for people.
const TITLE_BYTES_MAX: usize = 512;

/// Reads a page that was fetched from `url`; `robots_tag` is the header `X-Robots-Tag`, one line for each
/// time that it was sent.
pub(crate) fn read(
    body: &[u8],
    content_type: Option<&str>,
    url: &Url,
    robots_tag: Option<&str>,
    normal: &Normal,
) -> Page {
    let (html, encoding) = charset::decode(body, content_type);
    let mut reading = Reading {
        simhash: Simhash::for_text(html.len()),
        ..Reading::default()
    };
    if let Some(lines) = robots_tag {
        wishes::header(lines, &mut reading.page);
    }
    tags::read(&html, &mut reading);
    reading.finish(url, encoding, *normal)
}

/// What was found so far.
#[derive(Default)]
struct Reading {
    page: Page,
    simhash: Simhash,
    title: Vec<u8>,
    base: Option<Vec<u8>>,
    canonical: Option<Vec<u8>>,
    targets: Targets,
}

/// Link targets as they are written, without fragments, each once.
#[derive(Default)]
struct Targets {
    /// One text behind the other.
    texts: Vec<u8>,
    list: Vec<Target>,
    /// By hash. Of two texts with one hash the second is not found again: then it is there more than once,
    /// until [`links`] makes one of all that lead to the same page.
    places: HashMap<u64, usize>,
}

struct Target {
    text: Range<usize>,
    nofollow: bool,
    kind: LinkKind,
}

impl Targets {
    fn add(&mut self, text: &[u8], nofollow: bool, kind: LinkKind) {
        let text = without_fragment(text);
        let place = *self.places.entry(xxh3_64(text)).or_insert(self.list.len());
        if let Some(target) = self.list.get_mut(place)
            && self.texts[target.text.clone()] == *text
        {
            target.nofollow &= nofollow;
            target.kind = target.kind.min(kind);
            return;
        }
        let start = self.texts.len();
        self.texts.extend_from_slice(text);
        self.list.push(Target {
            text: start..self.texts.len(),
            nofollow,
            kind,
        });
    }
}

/// White space around an address, and all from `#` on, never chooses the page.
fn without_fragment(text: &[u8]) -> &[u8] {
    let end = text.iter().position(|&byte| byte == b'#');
    text[..end.unwrap_or(text.len())].trim_ascii()
}

impl Sink for Reading {
    fn tag(&mut self, tag: Tag, attributes: &Attributes) -> bool {
        let href = attributes.get(Attribute::Href);
        match tag {
            Tag::A => self.add(href, attributes, LinkKind::Anchor),
            Tag::Area => self.add(href, attributes, LinkKind::Area),
            Tag::Frame => self.add(attributes.get(Attribute::Src), attributes, LinkKind::Frame),
            Tag::Base => {
                if self.base.is_none() {
                    self.base = href.map(<[u8]>::to_vec);
                }
            }
            Tag::Link => self.link(href, attributes),
            Tag::Meta => self.meta(attributes),
        }
        true
    }

    fn text(&mut self, text: &[u8]) {
        self.simhash.text(text);
    }

    fn title(&mut self, text: &[u8]) {
        let room = TITLE_BYTES_MAX - self.title.len();
        self.title.extend_from_slice(&text[..text.len().min(room)]);
    }

    fn boundary(&mut self) {
        self.simhash.boundary();
    }
}

impl Reading {
    fn add(&mut self, target: Option<&[u8]>, attributes: &Attributes, kind: LinkKind) {
        if let Some(target) = target {
            self.targets
                .add(target, has_rel(attributes, b"nofollow"), kind);
        }
    }

    fn link(&mut self, href: Option<&[u8]>, attributes: &Attributes) {
        let Some(target) = href else {
            return;
        };
        if has_rel(attributes, b"canonical") {
            self.targets.add(target, false, LinkKind::Canonical);
            self.canonical.get_or_insert_with(|| target.to_vec());
        } else if !has_rel(attributes, b"stylesheet")
            && RELATED.iter().any(|rel| has_rel(attributes, rel))
        {
            self.add(href, attributes, LinkKind::Related);
        }
    }

    fn meta(&mut self, attributes: &Attributes) {
        let Some(content) = attributes.get(Attribute::Content) else {
            return;
        };
        if let Some(name) = attributes.get(Attribute::Name) {
            wishes::meta(name, content, &mut self.page);
        }
        let what = attributes.get(Attribute::HttpEquiv);
        if what.is_some_and(|what| what.eq_ignore_ascii_case(b"refresh"))
            && let Some(target) = wishes::refresh(content)
        {
            self.targets.add(target, false, LinkKind::Refresh);
        }
    }

    fn finish(mut self, url: &Url, encoding: &'static Encoding, normal: Normal) -> Page {
        let base = self
            .base
            .and_then(|base| url.join(&String::from_utf8_lossy(&base)).ok());
        let joiner = Joiner::new(normal, base.as_ref().unwrap_or(url), encoding);
        let join = |target: &[u8]| joiner.join(&String::from_utf8_lossy(target));
        self.page.canonical = self.canonical.and_then(|target| join(&target));
        self.page.links = links(&self.targets, url, join);
        self.page.simhash = self.simhash.finish();
        self.page.title = collapsed(&String::from_utf8_lossy(&self.title));
        self.page
    }
}

/// Targets as addresses: different ones may have become the same.
fn links(targets: &Targets, own: &Url, join: impl Fn(&[u8]) -> Option<Url>) -> Vec<Link> {
    let joined = targets.list.iter().filter_map(|target| {
        let url = join(&targets.texts[target.text.clone()]).filter(|url| url != own)?;
        Some(Link {
            url,
            nofollow: target.nofollow,
            kind: target.kind,
        })
    });
    let mut links: Vec<Link> = joined.collect();
    let mut places = HashMap::with_capacity(links.len());
    let mut again = Vec::new();
    for (at, link) in links.iter().enumerate() {
        let first = *places.entry(link.url.as_str()).or_insert(at);
        if first < at {
            again.push((first, at));
        }
    }
    for &(first, at) in &again {
        links[first].nofollow &= links[at].nofollow;
        links[first].kind = links[first].kind.min(links[at].kind);
    }
    for &(_, at) in again.iter().rev() {
        links.remove(at);
    }
    links
}

/// Relations that name other pages (HTML 4 and 5).
const RELATED: [&[u8]; 22] = [
    b"alternate",
    b"author",
    b"appendix",
    b"bookmark",
    b"chapter",
    b"contents",
    b"copyright",
    b"first",
    b"glossary",
    b"help",
    b"index",
    b"last",
    b"license",
    b"next",
    b"prev",
    b"previous",
    b"section",
    b"start",
    b"subsection",
    b"toc",
    b"top",
    b"up",
];

fn has_rel(attributes: &Attributes, word: &[u8]) -> bool {
    attributes.get(Attribute::Rel).is_some_and(|rel| {
        rel.split(u8::is_ascii_whitespace)
            .any(|part| part.eq_ignore_ascii_case(word))
    })
}

fn collapsed(text: &str) -> String {
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}
