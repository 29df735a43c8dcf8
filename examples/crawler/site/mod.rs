//! A site to crawl, served by the program itself: pages as they are, and what goes wrong with them.

use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::net::SocketAddr;
use std::sync::Arc;

use url::Url;

use crate::address::Normal;
use crate::trap::TrapLimits;

/// The years and the product token that [`Site::expected`] counts on.
pub(crate) const AGENT: &str = "criba";

/// The largest body that a crawl of this site should take; one page is larger.
pub(crate) const BODY_BYTES_MAX: usize = 1 << 20;

/// A site made from a seed: the same seed and size give the same site, byte by byte.
#[derive(Debug, Clone)]
pub(crate) struct Site {
    pages: BTreeSet<String>,
}

/// What a crawl that starts at `/` does on this site if it makes no mistake. Paths begin with `/`.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Expected {
    /// Every path that is requested, other than `/robots.txt` and retries, whatever the answer.
    pub(crate) requested: BTreeSet<String>,
    /// Those of them that answer 200 with HTML.
    pub(crate) pages: BTreeSet<String>,
}

/// A site that is being served; it ends when this is dropped.
#[derive(Debug)]
pub(crate) struct Served {
    address: SocketAddr,
    log: Arc<std::sync::Mutex<BTreeMap<String, u64>>>,
}

impl Site {
    /// A site with about so many ordinary pages, and a few hundred odd ones.
    pub(crate) fn generate(_seed: u64, _pages: usize) -> Self {
        Self {
            pages: BTreeSet::new(),
        }
    }

    /// How [`Self::expected`] counts on addresses to be normalised.
    pub(crate) fn normal() -> Normal {
        Normal {
            strip_tracking: true,
        }
    }

    /// Which traps [`Self::expected`] counts on.
    pub(crate) fn limits() -> TrapLimits {
        TrapLimits::new(2026)
    }

    /// What a correct crawler requests, all of it and nothing else.
    pub(crate) fn expected(&self) -> Expected {
        Expected {
            pages: self.pages.clone(),
            ..Expected::default()
        }
    }

    /// Serves the site on a free port of the loopback interface.
    ///
    /// # Errors
    ///
    /// When there is no port to be had.
    pub(crate) fn serve(&self) -> io::Result<Served> {
        let listener = std::net::TcpListener::bind("127.0.0.1:0")?;
        Ok(Served {
            address: listener.local_addr()?,
            log: Arc::default(),
        })
    }
}

impl Served {
    /// Where to begin.
    pub(crate) fn root(&self) -> Option<Url> {
        Url::parse(&format!("http://{}/", self.address)).ok()
    }

    /// How often each path (with its query) was requested so far.
    pub(crate) fn requests(&self) -> BTreeMap<String, u64> {
        let log = self.log.lock();
        log.map(|log| log.clone()).unwrap_or_default()
    }
}
