//! robots.txt, as RFC 9309 has it.
//!
//! Where the standard leaves room: a crawler is meant by a line that begins with its product token
//! (`criba` by `criba/1.0`), not by a part of it; the length of a rule is counted after
//! normalisation, with its `*` and `$`; `Crawl-delay` is no part of the standard and, like any
//! unknown line, does not end the user agents of a group.

mod rule;
#[cfg(test)]
mod tests;

use std::borrow::Cow;
use std::time::Duration;

use url::Url;

use self::rule::Pairs;
pub(crate) use self::rule::Rule;

/// What lies beyond is not read (RFC 9309, section 2.5).
const LIMIT_BYTES: usize = 500 * 1024;

/// What one site allows one crawler.
#[derive(Debug, Clone, Default)]
pub(crate) struct Robots {
    /// Sorted; the first that matches decides.
    rules: Vec<Rule>,
    has_wildcards: bool,
    crawl_delay: Option<Duration>,
    sitemaps: Vec<String>,
}

/// What is collected for the crawler, or for everyone.
#[derive(Debug, Default)]
struct Group {
    is_there: bool,
    rules: Vec<Rule>,
    crawl_delay: Option<Duration>,
}

/// Whom the lines that follow are for.
#[derive(Debug, Default)]
struct Meant {
    us: bool,
    everyone: bool,
    /// A rule was seen, so the next user agent begins a group.
    is_complete: bool,
}

impl crawl::Rules for Robots {
    /// Whether an address of this site may be fetched; robots.txt itself always may.
    fn allows(&self, url: &Url) -> bool {
        if self.rules.is_empty() || url.path() == "/robots.txt" {
            return true;
        }
        let path = &url[url::Position::BeforePath..url::Position::AfterQuery];
        let path = normal_path(path.as_bytes());
        let rule = self.candidates(&path).find(|rule| rule.matches(&path));
        rule.is_none_or(Rule::allows)
    }
}

impl Robots {
    /// Reads the file for the crawler with this product token (`criba`, or `criba/0.1`).
    ///
    /// Never fails: what is not understood is passed over, and what lies beyond the limit is not
    /// read.
    pub(crate) fn parse(body: &[u8], agent: &str) -> Self {
        let agent = token(agent.as_bytes());
        let (mut ours, mut everyones) = (Group::default(), Group::default());
        let mut sitemaps = Vec::new();
        let mut meant = Meant::default();
        for line in lines(body) {
            let Some((key, value)) = key_and_value(line) else {
                continue;
            };
            if key.eq_ignore_ascii_case(b"user-agent") {
                meant.begin(value, agent);
                ours.is_there |= meant.us;
                everyones.is_there |= meant.everyone;
            } else if key.eq_ignore_ascii_case(b"sitemap") {
                sitemaps.push(String::from_utf8_lossy(value).into_owned());
            } else {
                if meant.us {
                    ours.line(key, value);
                }
                if meant.everyone {
                    everyones.line(key, value);
                }
                meant.is_complete |= is_rule(key);
            }
        }
        let mut group = if ours.is_there { ours } else { everyones };
        group.rules.sort_unstable();
        group.rules.dedup();
        Self {
            has_wildcards: group.rules.iter().any(Rule::has_wildcard),
            rules: group.rules,
            crawl_delay: group.crawl_delay,
            sitemaps,
        }
    }

    /// There is no robots.txt (the server says 4xx).
    pub(crate) fn allow_all() -> Self {
        Self::default()
    }

    /// The rules that a path is compared with: of a file full of wildcards, few.
    fn candidates<'a>(&'a self, path: &'a [u8]) -> impl Iterator<Item = &'a Rule> {
        // Not worth it where the comparison is a prefix.
        let pairs = self.has_wildcards.then(|| Pairs::of(path));
        let is_possible =
            move |rule: &&Rule| pairs.as_ref().is_none_or(|pairs| rule.is_possible(pairs));
        self.rules.iter().filter(is_possible)
    }

    /// The pause between two requests that the site asks for: the longest, if it asks more than
    /// once.
    pub(crate) fn crawl_delay(&self) -> Option<Duration> {
        self.crawl_delay
    }

    /// Addresses of sitemaps, as they are written.
    pub(crate) fn sitemaps(&self) -> &[String] {
        &self.sitemaps
    }
}

impl Meant {
    fn begin(&mut self, value: &[u8], agent: &[u8]) {
        if self.is_complete {
            *self = Self::default();
        }
        if value == b"*" {
            self.everyone = true;
        } else {
            self.us |= !agent.is_empty() && token(value).eq_ignore_ascii_case(agent);
        }
    }
}

impl Group {
    fn line(&mut self, key: &[u8], value: &[u8]) {
        if is_rule(key) {
            // A rule without a path says nothing: `Disallow:` forbids nothing.
            if !value.is_empty() {
                self.rules
                    .push(Rule::new(key.eq_ignore_ascii_case(b"allow"), value));
            }
        } else if key.eq_ignore_ascii_case(b"crawl-delay") {
            let seconds = std::str::from_utf8(value)
                .ok()
                .and_then(|value| value.parse().ok());
            let delay = seconds.and_then(|seconds| Duration::try_from_secs_f64(seconds).ok());
            self.crawl_delay = self.crawl_delay.max(delay);
        }
    }
}

fn is_rule(key: &[u8]) -> bool {
    key.eq_ignore_ascii_case(b"allow") || key.eq_ignore_ascii_case(b"disallow")
}

/// Lines that end with CR, LF or both, as far as the file is read; one cut by the limit is left
/// out.
fn lines(body: &[u8]) -> impl Iterator<Item = &[u8]> {
    let body = body.strip_prefix(b"\xef\xbb\xbf").unwrap_or(body);
    let is_end = |byte: &u8| matches!(byte, b'\r' | b'\n');
    let body = match body.get(..LIMIT_BYTES) {
        Some(head) if body.len() > LIMIT_BYTES && !is_end(&body[LIMIT_BYTES]) => {
            let whole = head.iter().rposition(is_end);
            &head[..whole.unwrap_or(0)]
        }
        Some(head) => head,
        None => body,
    };
    body.split(is_end)
}

fn key_and_value(line: &[u8]) -> Option<(&[u8], &[u8])> {
    let line = line.split(|&byte| byte == b'#').next()?;
    let colon = line.iter().position(|&byte| byte == b':')?;
    Some((line[..colon].trim_ascii(), line[colon + 1..].trim_ascii()))
}

/// The product token at the beginning: letters, `_` and `-` (section 2.2.1).
fn token(text: &[u8]) -> &[u8] {
    let is_part = |byte: &&u8| byte.is_ascii_alphabetic() || matches!(byte, b'_' | b'-');
    &text[..text.iter().take_while(is_part).count()]
}

/// A path in the form in which octets are compared (section 2.2.2): unreserved characters as they
/// are, reserved ones as they were, everything else percent-encoded. The two characters with a
/// meaning in rules are encoded, as section 2.2.3 has them written where they mean themselves.
pub(crate) fn normal_path(path: &[u8]) -> Cow<'_, [u8]> {
    if path.iter().all(|&byte| byte != b'%' && is_kept(byte)) {
        return Cow::Borrowed(path);
    }
    let mut normal = Vec::with_capacity(path.len() + 8);
    let mut rest = path;
    while let Some((&byte, after)) = rest.split_first() {
        rest = after;
        match (byte, encoded(after)) {
            (b'%', Some(octet)) => {
                rest = &after[2..];
                if is_unreserved(octet) {
                    normal.push(octet);
                } else {
                    push_encoded(&mut normal, octet);
                }
            }
            _ if byte == b'%' || is_kept(byte) => normal.push(byte),
            _ => push_encoded(&mut normal, byte),
        }
    }
    Cow::Owned(normal)
}

/// The octet that two hexadecimal digits stand for.
fn encoded(digits: &[u8]) -> Option<u8> {
    let digit = |at: usize| char::from(*digits.get(at)?).to_digit(16);
    u8::try_from(digit(0)? << 4 | digit(1)?).ok()
}

fn push_encoded(text: &mut Vec<u8>, octet: u8) {
    const DIGITS: &[u8; 16] = b"0123456789ABCDEF";
    let digit = |value: u8| DIGITS[usize::from(value)];
    text.extend_from_slice(&[b'%', digit(octet >> 4), digit(octet & 15)]);
}

fn is_unreserved(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'.' | b'_' | b'~')
}

fn is_kept(byte: u8) -> bool {
    is_unreserved(byte) || b":/?#[]@!&'()+,;=".contains(&byte)
}
