//! URLs in one form each.
//!
//! What the WHATWG URL standard makes of an address, restricted to what a crawler fetches: `http`
//! and `https`, no fragment, no user name or password. The standard already lower-cases scheme and
//! host, drops default ports and resolves dot segments. It keeps the case of paths, and so do we:
//! two addresses that differ in it are two pages. Tracking and session parameters go if asked.

use encoding_rs::{Encoding, UTF_8};
use url::{Position, Url};

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

    pub(crate) fn finish(&self, mut url: Url) -> Result<Url, String> {
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

/// Joins the links of one page, all to the same base.
#[derive(Debug)]
pub(crate) struct Joiner<'a> {
    normal: Normal,
    base: &'a Url,
    encoding: &'static Encoding,
    /// The base up to the last slash of its path, where plain references may be joined to that.
    folder: Option<&'a str>,
    /// Bytes of `scheme://host:port` in it.
    origin_len: usize,
}

impl<'a> Joiner<'a> {
    /// `encoding` is that of the page: its links write their queries in it.
    pub(crate) fn new(normal: Normal, base: &'a Url, encoding: &'static Encoding) -> Self {
        let origin = &base[..Position::BeforePath];
        let (path, _) = base.path().rsplit_once('/').unwrap_or_default();
        let folder = &base.as_str()[..origin.len() + path.len() + 1];
        let is_plain = matches!(base.scheme(), "http" | "https")
            && base.username().is_empty()
            && base.password().is_none()
            && base.path().starts_with('/')
            // Empty segments, and parameters that may be a session.
            && !path.contains("//")
            && !path.contains(';');
        Self {
            normal,
            base,
            encoding,
            folder: is_plain.then_some(folder),
            origin_len: origin.len(),
        }
    }

    /// Appends the address that `href` names; whether there is one that can be fetched. If not,
    /// what was appended means nothing.
    pub(crate) fn join_to(&self, href: &[u8], out: &mut String) -> bool {
        if self.join_plain(href, out).is_some() {
            return true;
        }
        let url = self.join(&String::from_utf8_lossy(href));
        out.push_str(url.as_ref().map_or("", Url::as_str));
        url.is_some()
    }

    /// The same for a path of characters that stand for themselves, with dot segments at its
    /// beginning only: most links are such, and the whole parser takes ten times as long. `None` if
    /// it is not one, and then nothing is appended.
    fn join_plain(&self, href: &[u8], out: &mut String) -> Option<()> {
        let mut folder = self.folder?;
        let origin = &folder[..self.origin_len];
        let own = href.strip_prefix(origin.as_bytes());
        let mut rest = own
            .filter(|rest| rest.first() == Some(&b'/'))
            .unwrap_or(href);
        if !rest.iter().all(|&byte| ITSELF[usize::from(byte)]) {
            return None;
        }
        if let Some(path) = rest.strip_prefix(b"/") {
            (folder, rest) = (&folder[..self.origin_len + 1], path);
        }
        loop {
            rest = match rest {
                [b'.', b'.', b'/', rest @ ..] => {
                    let above = folder[..folder.len() - 1].rfind('/')?;
                    folder = &folder[..above.max(self.origin_len) + 1];
                    rest
                }
                [b'.', b'/', rest @ ..] => rest,
                // Nothing, another host behind the path that was, or dots that are no whole
                // segment.
                [] if href.is_empty() => return None,
                [b'/' | b'.', ..] => return None,
                _ => break,
            };
        }
        let rest = std::str::from_utf8(rest).ok()?;
        if rest.contains("/.") {
            return None;
        }
        out.push_str(folder);
        out.push_str(rest);
        Some(())
    }

    /// The address that `href` names; `None` if nothing can be fetched from it.
    pub(crate) fn join(&self, href: &str) -> Option<Url> {
        if self.encoding == UTF_8 || href.is_ascii() {
            return self.normal.join(self.base, href);
        }
        let url = Url::options()
            .base_url(Some(self.base))
            .encoding_override(Some(&|text| self.encoding.encode(text).0))
            .parse(href);
        self.normal.finish(url.ok()?).ok()
    }
}

/// Bytes that stand in a path as they are, and for nothing else.
const ITSELF: [bool; 256] = {
    let mut plain = [false; 256];
    let all = b"-._~!$&()*+,=@/0123456789\
        abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ";
    let mut at = 0;
    while at < all.len() {
        plain[all[at] as usize] = true;
        at += 1;
    }
    plain
};

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

#[cfg(test)]
mod tests {
    use super::*;

    const PLAIN: Normal = Normal {
        strip_tracking: false,
    };
    const STRIP: Normal = Normal {
        strip_tracking: true,
    };

    #[test]
    fn joins_as_browsers_do() {
        fn check(href: &str, expected: &str) {
            let base = Url::parse("http://example.org/a/b/c?q=1#f").unwrap();
            let url = PLAIN.join(&base, href);
            assert_eq!(url.as_ref().map_or("", Url::as_str), expected, "{href:?}");
        }
        check("", "http://example.org/a/b/c?q=1");
        check("#top", "http://example.org/a/b/c?q=1");
        check("?r=2", "http://example.org/a/b/c?r=2");
        check("d", "http://example.org/a/b/d");
        check("./d/./e/../f", "http://example.org/a/b/d/f");
        check("../../../../x", "http://example.org/x");
        check("%2e%2E/x", "http://example.org/a/x");
        check("/X/x#y?z", "http://example.org/X/x");
        check("//other.example:80/x", "http://other.example/x");
        check("HTTPS://EXAMPLE.org:443/Case", "https://example.org/Case");
        check("http://example.org:8080", "http://example.org:8080/");
        check("  d\n/\te ", "http://example.org/a/b/d/e");
        check("\\x\\y", "http://example.org/x/y");
        check("d e?ü=\"'", "http://example.org/a/b/d%20e?%C3%BC=%22%27");
        check("http://user:word@example.org/", "http://example.org/");
        check("http://user@example.org/", "http://example.org/");
        check("//b\u{fc}cher.example/", "http://xn--bcher-kva.example/");
        check("http://0x7f.1/", "http://127.0.0.1/");
        check("http:d", "http://example.org/a/b/d");
        check("a:b", "");
        check("mailto:someone@example.org", "");
        check("javascript:void(0)", "");
        check("data:text/html,<a href=/x>", "");
        check("ftp://example.org/", "");
        check("http://", "");
        check("http://a b/", "");
        check("http://example.org:99999/", "");
    }

    #[test]
    fn tracking_goes_if_asked() {
        fn check(text: &str, expected: &str) {
            assert_eq!(STRIP.parse(text).unwrap().as_str(), expected);
            assert_eq!(PLAIN.parse(text).unwrap().as_str(), text);
        }
        check("http://h/?utm_source=x&id=1&UTM_Medium=y", "http://h/?id=1");
        check("http://h/?gclid=x", "http://h/");
        check("http://h/?fbclid&a=%26&b", "http://h/?a=%26&b");
        check("http://h/?", "http://h/?");
        check("http://h/?a=gclid&utm=1&&", "http://h/?a=gclid&utm=1&&");
        check("http://h/p;jsessionid=1A2B?x=1", "http://h/p?x=1");
        check("http://h/p;jsessionid=1/q", "http://h/p;jsessionid=1/q");
        check("http://h/p;v=1", "http://h/p;v=1");
    }

    #[test]
    fn the_list_is_sorted_and_in_lower_case() {
        assert!(TRACKING.is_sorted());
        let all = TRACKING.iter().chain(&PREFIXES);
        assert!(all.clone().all(|name| *name == name.to_ascii_lowercase()));
    }

    #[test]
    fn a_wrong_address_is_told_what_to_be() {
        for text in [
            "",
            "example.org",
            "/path",
            "localhost:80",
            "ftp://h/",
            "mailto:x",
        ] {
            let message = PLAIN.parse(text).unwrap_err();
            assert!(message.contains("http"), "{text}: {message}");
        }
    }

    #[test]
    fn queries_are_written_in_the_charset_of_the_page() {
        let base = Url::parse("http://h/p").unwrap();
        let join = |encoding, href| Joiner::new(PLAIN, &base, encoding).join(href).unwrap();
        let latin = encoding_rs::WINDOWS_1252;
        assert_eq!(join(latin, "/ü?ü").as_str(), "http://h/%C3%BC?%FC");
        assert_eq!(join(UTF_8, "/ü?ü").as_str(), "http://h/%C3%BC?%C3%BC");
        assert_eq!(join(latin, "/u?u#ü").as_str(), "http://h/u?u");
    }

    /// Made of what is difficult: where the plain way answers, it is the answer of the whole
    /// parser.
    #[test]
    fn the_plain_way_agrees_with_the_parser() {
        const PARTS: [&str; 24] = [
            "/",
            "/",
            "/",
            "..",
            "../",
            ".",
            "./",
            "a",
            "b.html",
            "C",
            "",
            "~x",
            "%2e",
            "?q",
            ";jsessionid=1",
            ":",
            "//",
            "\\",
            " ",
            "\u{fc}",
            "http://h:81",
            "http://h",
            "@",
            "x=1&utm_source=y",
        ];
        const BASES: [&str; 8] = [
            "http://h:81/",
            "http://h:81/a",
            "http://h:81/a/b/c?q/r",
            "http://h/a//b/",
            "https://u:p@h/a/b",
            "http://h:81/a;jsessionid=1/b",
            "http://[::1]:81/x/%2Fy/",
            "file:///a/b/c",
        ];
        let mut random = 88_172_645_463_325_252_u64;
        let mut plain = 0;
        for round in 0..200_000 {
            let mut href = String::new();
            for _ in 0..round % 7 {
                random ^= random << 13;
                random ^= random >> 7;
                random ^= random << 17;
                href.push_str(PARTS[(random >> 20) as usize % PARTS.len()]);
            }
            let base = Url::parse(BASES[(random >> 40) as usize % BASES.len()]).unwrap();
            for normal in [PLAIN, STRIP] {
                let joiner = Joiner::new(normal, &base, UTF_8);
                let mut joined = String::new();
                if joiner.join_plain(href.as_bytes(), &mut joined).is_some() {
                    let expected = joiner.join(&href).map(String::from);
                    assert_eq!(Some(joined), expected, "{href:?} on {base}");
                    plain += 1;
                } else {
                    assert_eq!(joined, "");
                }
            }
        }
        assert!(plain > 25_000, "{plain}");
    }

    #[test]
    fn normal_form_is_a_fixed_point() {
        let base = Url::parse("http://example.org/a/b/c?q=1").unwrap();
        for href in [
            "x y",
            "ü",
            "?a=b c",
            "//H/%7e/~",
            "/a/%2E./b;c",
            "/?utm_x=1&a",
        ] {
            for normal in [PLAIN, STRIP] {
                let once = normal.join(&base, href).unwrap();
                assert_eq!(normal.parse(once.as_str()).unwrap(), once);
            }
        }
    }
}
