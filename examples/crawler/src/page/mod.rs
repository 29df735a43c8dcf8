//! What a page says: where it links to, what it wishes, what it is about.
//!
//! One pass over the tokens collects the targets as they are written, each once; only then are they
//! joined to the base, because that may be told behind the first link, and because most of the work
//! of a page full of links is saved so.

mod charset;
mod plain;
mod tags;
#[cfg(test)]
mod tests;
mod wishes;

use std::ops::Range;

use encoding_rs::Encoding;
use memchr::memchr;
use url::Url;

use self::tags::{Attribute, Attributes, Sink, Tag};
use crate::address::{Joiner, Normal};
use crate::addresses::{Addresses, Places};
use crate::simhash::Simhash;
use crate::sketch::Sketch;

/// What is taken from a page.
#[derive(Debug, Clone, Default)]
pub(crate) struct Page {
    /// Normalised, each once, in the order of the page; the page itself is not among them.
    pub(crate) addresses: Addresses,
    /// What makes each of them a link.
    pub(crate) links: Vec<Link>,
    /// The address that the page wants to be known by; it may be its own.
    pub(crate) canonical: Option<Url>,
    /// The page wishes not to be kept.
    pub(crate) noindex: bool,
    /// The page wishes that none of its links is followed.
    pub(crate) nofollow: bool,
    /// Of the visible text; see `simhash.rs`. Zero if there is none.
    pub(crate) simhash: u64,
    /// Of the same text, for `novelty.rs`.
    pub(crate) sketch: Sketch,
    /// The page refreshes to another one and names no other: a redirect by other means. Its few
    /// words are no content, so its sketch is empty.
    pub(crate) forwards: bool,
    /// As it is written, white space collapsed, cut where it is very long.
    pub(crate) title: String,
}

/// One link.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Link {
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

/// What the head of an answer says of the page.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Said<'a> {
    pub(crate) content_type: Option<&'a str>,
    /// `X-Robots-Tag`, one line for each time that it was sent.
    pub(crate) robots_tag: Option<&'a str>,
}

/// Room to read pages in, one after the other; what one page needed, the next one finds.
#[derive(Debug, Default)]
pub(crate) struct Room {
    simhash: Simhash,
    targets: Targets,
    places: Places,
}

/// A page with more targets, or more bytes of them, leaves no room behind.
const TARGETS_KEPT_MAX: usize = 4096;
const TARGET_BYTES_KEPT_MAX: usize = 128 << 10;

/// Reads a page that was fetched from `url`.
pub(crate) fn read(
    body: &[u8],
    said: Said<'_>,
    url: &Url,
    normal: Normal,
    room: &mut Room,
) -> Page {
    let (html, encoding) = charset::decode(body, said.content_type);
    room.clear();
    let mut reading = Reading {
        page: Page::default(),
        title: Vec::new(),
        base: None,
        canonical: None,
        refreshes: false,
        room,
    };
    if let Some(lines) = said.robots_tag {
        wishes::header(lines, &mut reading.page);
    }
    tags::read(&html, &mut reading);
    reading.finish(url, encoding, normal)
}

impl Room {
    fn clear(&mut self) {
        let targets = &mut self.targets;
        if targets.list.capacity() > TARGETS_KEPT_MAX
            || targets.texts.capacity() > TARGET_BYTES_KEPT_MAX
            || self.places.capacity() > 4 * TARGETS_KEPT_MAX
        {
            *targets = Targets::default();
            self.places = Places::default();
        }
        targets.texts.clear();
        targets.list.clear();
        targets.places.clear();
        self.places.clear();
    }
}

/// What was found so far.
struct Reading<'r> {
    page: Page,
    title: Vec<u8>,
    base: Option<Vec<u8>>,
    canonical: Option<Vec<u8>>,
    /// There is a refresh to somewhere.
    refreshes: bool,
    room: &'r mut Room,
}

/// Link targets as they are written, without fragments, each once.
#[derive(Debug, Default)]
struct Targets {
    /// One text behind the other.
    texts: Vec<u8>,
    list: Vec<Target>,
    places: Places,
}

#[derive(Debug)]
struct Target {
    text: Range<usize>,
    link: Link,
}

impl Targets {
    fn add(&mut self, text: &[u8], nofollow: bool, kind: LinkKind) {
        let text = without_fragment(text);
        let (texts, list) = (&self.texts, &self.list);
        let is_same = |place: usize| texts[list[place].text.clone()] == *text;
        match self.places.find(text, list.len(), is_same) {
            Some(place) => self.list[place].link.is_also(Link { nofollow, kind }),
            None => {
                let start = self.texts.len();
                self.texts.extend_from_slice(text);
                let text = start..self.texts.len();
                let link = Link { nofollow, kind };
                self.list.push(Target { text, link });
            }
        }
    }
}

impl Link {
    fn is_also(&mut self, other: Link) {
        self.nofollow &= other.nofollow;
        self.kind = self.kind.min(other.kind);
    }
}

/// White space around an address, and all from `#` on, never chooses the page.
fn without_fragment(text: &[u8]) -> &[u8] {
    text[..memchr(b'#', text).unwrap_or(text.len())].trim_ascii()
}

impl Sink for Reading<'_> {
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
        self.room.simhash.text(text);
    }

    fn title(&mut self, text: &[u8]) {
        let room = TITLE_BYTES_MAX - self.title.len();
        self.title.extend_from_slice(&text[..text.len().min(room)]);
    }

    fn boundary(&mut self) {
        self.room.simhash.boundary();
    }
}

impl Reading<'_> {
    fn add(&mut self, target: Option<&[u8]>, attributes: &Attributes, kind: LinkKind) {
        if let Some(target) = target {
            let nofollow = has_rel(attributes, b"nofollow");
            self.room.targets.add(target, nofollow, kind);
        }
    }

    fn link(&mut self, href: Option<&[u8]>, attributes: &Attributes) {
        let Some(target) = href else {
            return;
        };
        if has_rel(attributes, b"canonical") {
            self.room.targets.add(target, false, LinkKind::Canonical);
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
            self.room.targets.add(target, false, LinkKind::Refresh);
            self.refreshes = true;
        }
    }

    fn finish(mut self, url: &Url, encoding: &'static Encoding, normal: Normal) -> Page {
        let base = self
            .base
            .take()
            .and_then(|base| url.join(&String::from_utf8_lossy(&base)).ok());
        let joiner = Joiner::new(normal, base.as_ref().unwrap_or(url), encoding);
        let canonical = self.canonical.take();
        let canonical = canonical.and_then(|target| joiner.join(&String::from_utf8_lossy(&target)));
        let mut page = std::mem::take(&mut self.page);
        page.canonical = canonical;
        let Room {
            simhash,
            targets,
            places,
        } = self.room;
        add_links(&mut page, targets, (url.as_str(), &joiner), places);
        (page.simhash, page.sketch) = simhash.finish();
        page.forwards = self.refreshes && page.links.len() == 1;
        if page.forwards {
            page.sketch = Sketch::default();
        }
        page.title = collapsed(&String::from_utf8_lossy(&self.title));
        page
    }
}

/// Targets as addresses: different ones may have become the same.
fn add_links(
    page: &mut Page,
    targets: &Targets,
    (own, joiner): (&str, &Joiner<'_>),
    places: &mut Places,
) {
    let Page {
        addresses, links, ..
    } = page;
    links.reserve(targets.list.len());
    for target in &targets.list {
        let text = &targets.texts[target.text.clone()];
        if !addresses.write(|out| joiner.join_to(text, out)) || addresses.written() == own {
            continue;
        }
        let address = addresses.written();
        let is_same = |place| addresses.get(place) == address;
        match places.find(address.as_bytes(), addresses.len(), is_same) {
            Some(place) => links[place].is_also(target.link),
            None => {
                addresses.keep();
                links.push(target.link);
            }
        }
    }
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
