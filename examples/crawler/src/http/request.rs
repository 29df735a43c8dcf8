//! What is sent.

use std::io::Write as _;
use std::sync::Arc;
use std::time::{SystemTime, UNIX_EPOCH};

use url::{Position, Url};

use super::Extras;

/// What makes a request a question whether something has changed.
#[derive(Debug, Clone, Default)]
pub(crate) struct Conditional {
    pub(crate) etag: Option<String>,
    pub(crate) last_modified: Option<String>,
}

/// How requests are made in this crawl.
#[derive(Debug, Clone)]
pub(crate) struct Ask {
    /// Who we say we are.
    pub(crate) agent: String,
    /// Whether bodies may come compressed.
    pub(crate) gzip: bool,
    /// Headers and cookies of the user.
    pub(crate) extras: Arc<Extras>,
}

impl Ask {
    /// Writes a request. Nothing in it can break a line: URLs are normalised, and header values
    /// come from parsers that allow no line breaks.
    pub(crate) fn write(&self, url: &Url, conditional: &Conditional, out: &mut Vec<u8>) {
        out.clear();
        let target = &url[Position::BeforePath..Position::AfterQuery];
        let host = &url[Position::BeforeHost..Position::AfterPort];
        let agent = &self.agent;
        let extra = self.extras.of(url);
        let has = |name: &str| extra.headers.iter().any(|header| header.is(name));
        let mut line = |text: std::fmt::Arguments<'_>| {
            // Writing to memory cannot fail.
            out.write_fmt(text).unwrap_or_default();
        };
        line(format_args!(
            "GET {target} HTTP/1.1\r\nHost: {host}\r\nUser-Agent: {agent}\r\n"
        ));
        if !has("accept") {
            line(format_args!(
                "Accept: text/html,application/xhtml+xml,*/*;q=0.5\r\n"
            ));
        }
        if self.gzip {
            line(format_args!("Accept-Encoding: gzip\r\n"));
        } else {
            line(format_args!("Accept-Encoding: identity\r\n"));
        }
        for header in &extra.headers {
            line(format_args!("{}: {}\r\n", header.name(), header.value()));
        }
        if let Some(cookies) = extra.cookies.as_deref().filter(|_| !has("cookie")) {
            let now = SystemTime::now().duration_since(UNIX_EPOCH);
            let now = now.unwrap_or_default().as_secs();
            if let Some(cookies) = cookies.for_request(url, now) {
                line(format_args!("Cookie: {cookies}\r\n"));
            }
        }
        if let Some(etag) = &conditional.etag {
            line(format_args!("If-None-Match: {etag}\r\n"));
        }
        if let Some(date) = &conditional.last_modified {
            line(format_args!("If-Modified-Since: {date}\r\n"));
        }
        line(format_args!("\r\n"));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::by_host::ByHost;
    use crate::http::{Cookies, Extra, Header};
    use crate::scope::Scope;

    fn written(extras: Extras, url: &str, conditional: &Conditional) -> String {
        let ask = Ask {
            agent: "criba/0".into(),
            gzip: true,
            extras: Arc::new(extras),
        };
        let mut out = Vec::new();
        ask.write(&Url::parse(url).unwrap(), conditional, &mut out);
        String::from_utf8(out).unwrap()
    }

    #[test]
    fn a_request_as_it_goes_over_the_wire() {
        let conditional = Conditional {
            etag: Some("\"x\"".into()),
            last_modified: None,
        };
        let sent = written(Extras::default(), "http://h:81/a%20b?c=d", &conditional);
        let expected = "GET /a%20b?c=d HTTP/1.1\r\nHost: h:81\r\nUser-Agent: criba/0\r\n\
            Accept: text/html,application/xhtml+xml,*/*;q=0.5\r\nAccept-Encoding: gzip\r\n\
            If-None-Match: \"x\"\r\n\r\n";
        assert_eq!(sent, expected);
    }

    #[test]
    fn headers_and_cookies_of_the_user() {
        let check = |headers: &[&str], url: &str, expected: &str| {
            let cookies = "h\tFALSE\t/\tFALSE\t0\tn\tv\no\tFALSE\t/\tFALSE\t0\tm\tw\n";
            let header = |line: &&str| Header::parse(line).unwrap();
            let general = Extra {
                headers: headers.iter().map(header).collect(),
                cookies: Some(Arc::new(Cookies::parse(cookies).unwrap())),
                proxy: None,
            };
            let seeds = [Url::parse("http://h/").unwrap()];
            let extras = Extras::new(&general, ByHost::default(), (Scope::Host, &seeds));
            let sent = written(extras, url, &Conditional::default());
            let (_, rest) = sent.split_once("User-Agent: criba/0\r\n").unwrap();
            assert_eq!(rest, expected.replace('|', "\r\n"), "{url}");
        };
        // One of the user stands for our own of the same name.
        let headers = ["accept: text/plain", "X-Twice: 1", "X-Twice: 2"];
        check(
            &headers,
            "http://h/",
            "Accept-Encoding: gzip|accept: text/plain|X-Twice: 1|X-Twice: 2|Cookie: n=v||",
        );
        let ours = "Accept: text/html,application/xhtml+xml,*/*;q=0.5|Accept-Encoding: gzip|";
        check(&headers, "http://o/", &format!("{ours}Cookie: m=w||"));
        check(&headers, "http://p/", &format!("{ours}|"));
        check(
            &["Cookie: mine"],
            "http://h/",
            &format!("{ours}Cookie: mine||"),
        );
    }
}
