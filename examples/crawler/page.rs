//! What a page says: where it links to, what it wishes, what it is about.

use url::Url;

use crate::address::Normal;

/// What is taken from a page.
#[derive(Debug, Clone, Default)]
pub(crate) struct Page {
    /// Each address once for each kind, in the order of the page.
    pub(crate) links: Vec<Link>,
    /// The address that the page wants to be known by.
    pub(crate) canonical: Option<Url>,
    /// The page wishes not to be kept.
    pub(crate) noindex: bool,
    /// The page wishes that none of its links is followed.
    pub(crate) nofollow: bool,
    /// Of the visible text; see `simhash.rs`. Zero if there is none.
    pub(crate) simhash: u64,
    /// As it is written, white space collapsed.
    pub(crate) title: String,
}

/// One link.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Link {
    /// Normalised.
    pub(crate) url: Url,
    /// Every occurrence on the page says `rel=nofollow`.
    pub(crate) nofollow: bool,
    pub(crate) kind: LinkKind,
}

/// What made it a link.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
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

/// Reads a page that was fetched from `url`; `robots_tag` is the header `X-Robots-Tag`, its lines
/// joined by commas.
pub(crate) fn read(
    _body: &[u8],
    _content_type: Option<&str>,
    _url: &Url,
    _robots_tag: Option<&str>,
    _normal: &Normal,
) -> Page {
    Page::default()
}
