//! Addresses without end: what a server makes up as long as one asks.
//!
//! Every rule can be wrong about a page, so each has a limit that the user sets, and each has a name
//! under which the summary counts what it left out.

use std::ops::RangeInclusive;

use url::Url;

/// Where an address stops looking like a page.
#[derive(Debug, Clone)]
pub(crate) struct TrapLimits {
    /// The longest address.
    pub(crate) url_bytes: usize,
    /// The deepest path.
    pub(crate) path_segments: usize,
    /// How often a row of segments may stand behind itself: `/a/b/a/b` is 2.
    pub(crate) repeats: usize,
    /// The most parameters in the query.
    pub(crate) query_params: usize,
    /// The years that a calendar may show; `None` for all.
    pub(crate) calendar_years: Option<RangeInclusive<u32>>,
}

impl TrapLimits {
    /// What suits nearly all sites, in this year.
    pub(crate) fn new(year: u32) -> Self {
        Self {
            url_bytes: 2048,
            path_segments: 24,
            repeats: 2,
            query_params: 12,
            calendar_years: Some(year.saturating_sub(1)..=year.saturating_add(1)),
        }
    }
}

/// The rule by which an address looks like a trap.
pub(crate) fn is_trap(url: &Url, limits: &TrapLimits) -> Option<&'static str> {
    if url.as_str().len() > limits.url_bytes {
        return Some("too long");
    }
    None
}
