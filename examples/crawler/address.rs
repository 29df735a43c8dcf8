//! URLs in one form each.
//!
//! What the WHATWG URL standard makes of an address, restricted to what a crawler fetches: `http` and
//! `https`, no fragment, no user name or password. The standard already lower-cases scheme and host,
//! drops default ports and resolves dot segments. It keeps the case of paths, and so do we: two
//! addresses that differ in it are two pages. Tracking and session parameters go if asked.

use url::Url;

/// How addresses are normalised.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Normal {
    /// Drops parameters that say where a visitor came from or who he is, not what he wants to see.
    pub(crate) strip_tracking: bool,
}

/// Parameters that do not choose the page, in lower case; those of a family are in [`PREFIXES`].
const TRACKING: [&str; 22] = [
    "_ga",
    "_gl",
    "_hsenc",
    "_hsmi",
    "cfid",
    "cftoken",
    "dclid",
    "fbclid",
    "gbraid",
    "gclid",
    "gclsrc",
    "igshid",
    "jsessionid",
    "mc_cid",
    "mc_eid",
    "mkt_tok",
    "msclkid",
    "phpsessid",
    "sessionid",
    "twclid",
    "wbraid",
    "yclid",
];
const PREFIXES: [&str; 3] = ["utm_", "mtm_", "aspsessionid"];

impl Normal {
    /// The address that `href` names on a page at `base`; `None` if nothing can be fetched from it.
    pub(crate) fn join(&self, base: &Url, href: &str) -> Option<Url> {
        self.finish(base.join(href).ok()?).ok()
    }

    /// An absolute address, as a person or a file gives it.
    ///
    /// # Errors
    ///
    /// A sentence that says what an address must look like.
    pub(crate) fn parse(&self, text: &str) -> Result<Url, String> {
        let url = Url::parse(text).map_err(|error| {
            format!("not a URL ({error}); write it in full, like https://example.org/")
        })?;
        self.finish(url)
    }

    fn finish(&self, mut url: Url) -> Result<Url, String> {
        if !matches!(url.scheme(), "http" | "https") {
            return Err("the URL must begin with http:// or https://".into());
        }
        if url.fragment().is_some() {
            url.set_fragment(None);
        }
        if url.has_authority() && (!url.username().is_empty() || url.password().is_some()) {
            let cleared = url.set_username("").and_then(|()| url.set_password(None));
            cleared.map_err(|()| "a user name that cannot be removed".to_owned())?;
        }
        if self.strip_tracking {
            strip(&mut url);
        }
        Ok(url)
    }
}

/// Removes tracking parameters; what stays keeps its order and its spelling.
fn strip(url: &mut Url) {
    if url.path().contains(';') {
        strip_session(url);
    }
    let Some(query) = url.query() else {
        return;
    };
    if !query.split('&').any(is_tracking) {
        return;
    }
    let kept: Vec<&str> = query.split('&').filter(|pair| !is_tracking(pair)).collect();
    let kept = kept.join("&");
    url.set_query((!kept.is_empty()).then_some(&kept));
}

/// Servlets write the session behind the path: `/page;jsessionid=1A2B`.
fn strip_session(url: &mut Url) {
    let (before, last) = url.path().rsplit_once(';').unwrap_or_default();
    if is_tracking(last) && !last.contains('/') {
        let path = before.to_owned();
        url.set_path(&path);
    }
}

fn is_tracking(pair: &str) -> bool {
    let name = pair.split_once('=').map_or(pair, |(name, _)| name);
    let name = name.to_ascii_lowercase();
    TRACKING.binary_search(&name.as_str()).is_ok()
        || PREFIXES.iter().any(|prefix| name.starts_with(prefix))
}
