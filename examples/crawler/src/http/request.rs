//! What is sent.

use std::io::Write as _;

use url::{Position, Url};

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
}

impl Ask {
    /// Writes a request. Nothing in it can break a line: URLs are normalised, and header values
    /// come from a parser that allows no line breaks.
    pub(crate) fn write(&self, url: &Url, conditional: &Conditional, out: &mut Vec<u8>) {
        out.clear();
        let target = &url[Position::BeforePath..Position::AfterQuery];
        let host = &url[Position::BeforeHost..Position::AfterPort];
        let agent = &self.agent;
        let mut line = |text: std::fmt::Arguments<'_>| {
            // Writing to memory cannot fail.
            out.write_fmt(text).unwrap_or_default();
        };
        line(format_args!(
            "GET {target} HTTP/1.1\r\nHost: {host}\r\nUser-Agent: {agent}\r\n"
        ));
        line(format_args!(
            "Accept: text/html,application/xhtml+xml,*/*;q=0.5\r\n"
        ));
        if self.gzip {
            line(format_args!("Accept-Encoding: gzip\r\n"));
        } else {
            line(format_args!("Accept-Encoding: identity\r\n"));
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

    #[test]
    fn a_request_as_it_goes_over_the_wire() {
        let ask = Ask {
            agent: "criba/0".into(),
            gzip: true,
        };
        let url = Url::parse("http://h:81/a%20b?c=d").unwrap();
        let conditional = Conditional {
            etag: Some("\"x\"".into()),
            last_modified: None,
        };
        let mut out = Vec::new();
        ask.write(&url, &conditional, &mut out);
        let expected = "GET /a%20b?c=d HTTP/1.1\r\nHost: h:81\r\nUser-Agent: criba/0\r\n\
            Accept: text/html,application/xhtml+xml,*/*;q=0.5\r\nAccept-Encoding: gzip\r\n\
            If-None-Match: \"x\"\r\n\r\n";
        assert_eq!(String::from_utf8(out).unwrap(), expected);
    }
}
