//! Headers that the user adds to requests.

use super::words::Named;

/// A header that may stand in a request.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Header {
    name: String,
    value: String,
}

/// Headers that are not the user's to send, in lower case, and why.
const OURS: [(&str, &str); 16] = [
    ("user-agent", "write --agent TEXT instead"),
    (
        "proxy-authorization",
        "write --proxy http://USER:PASSWORD@HOST:PORT instead",
    ),
    ("host", FROM_URL),
    ("connection", FRAMING),
    ("content-length", FRAMING),
    ("expect", FRAMING),
    ("keep-alive", FRAMING),
    ("proxy-connection", FRAMING),
    ("te", FRAMING),
    ("trailer", FRAMING),
    ("transfer-encoding", FRAMING),
    ("upgrade", FRAMING),
    (
        "accept-encoding",
        "the crawler asks for what it can unpack; leave it out",
    ),
    ("if-modified-since", CONDITION),
    ("if-none-match", CONDITION),
    (
        "range",
        "the crawler reads whole pages; write --max-bytes N to read less",
    ),
];
const FROM_URL: &str = "it follows from the URL; leave it out";
const FRAMING: &str = "it says how requests are sent, which the crawler does; leave it out";
const CONDITION: &str = "the crawler sends it with --recrawl; leave it out";

impl Header {
    /// Reads `Name: value`.
    ///
    /// # Errors
    ///
    /// A sentence that says what is wrong, and how to write it.
    pub(crate) fn parse(line: &str) -> Result<Header, String> {
        match line.split_once(':') {
            Some((name, value)) => Header::new(name, value),
            None => Err(format!("{} has no colon; write 'Name: value'", Named(line))),
        }
    }

    /// A header of this name.
    ///
    /// # Errors
    ///
    /// A sentence that says what is wrong, and how to write it.
    pub(crate) fn new(name: &str, value: &str) -> Result<Header, String> {
        let shown = Named(name);
        let is_name = |byte: u8| byte.is_ascii_alphanumeric() || b"!#$%&'*+-.^_`|~".contains(&byte);
        if name.is_empty() || !name.bytes().all(is_name) {
            return Err(format!(
                "{shown} is not the name of a header; write letters, digits and hyphens, as in \
                 'Accept-Language: de'"
            ));
        }
        if value.contains(['\r', '\n']) {
            return Err(format!(
                "the value of {shown} has a line break; write one line, and an option for each \
                 header"
            ));
        }
        let is_plain = |byte: u8| byte == b'\t' || (b' '..=b'~').contains(&byte);
        if !value.bytes().all(is_plain) {
            return Err(format!(
                "the value of {shown} is not plain; write printable ASCII"
            ));
        }
        let ours = OURS
            .iter()
            .find(|(ours, _)| name.eq_ignore_ascii_case(ours));
        if let Some((_, why)) = ours {
            return Err(format!("{shown} cannot be set: {why}"));
        }
        Ok(Header {
            name: name.to_owned(),
            value: value.trim().to_owned(),
        })
    }

    /// Its name, as it was written.
    pub(crate) fn name(&self) -> &str {
        &self.name
    }

    /// Its value, without space around it.
    pub(crate) fn value(&self) -> &str {
        &self.value
    }

    /// Whether it has this name, in whatever case.
    pub(crate) fn is(&self, name: &str) -> bool {
        self.name.eq_ignore_ascii_case(name)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn headers() {
        let header = Header::parse("Accept-Language:  de, en;q=0.5 ").unwrap();
        assert_eq!(
            (header.name(), header.value()),
            ("Accept-Language", "de, en;q=0.5")
        );
        assert!(header.is("accept-language"));
        assert_eq!(Header::parse("X-Time: 12:30").unwrap().value(), "12:30");
        assert_eq!(Header::parse("Accept:").unwrap().value(), "");
    }

    #[test]
    fn what_is_no_header_is_refused() {
        fn check(line: &str, expected: &str) {
            let what = Header::parse(line).unwrap_err();
            assert!(what.contains(expected), "{line}: {what}");
        }
        check("Accept-Language de", "write 'Name: value'");
        check("", "has no colon");
        check(": x", "not the name of a header");
        check("X Y: z", "not the name of a header");
        check("X\r\nY: z", "not the name of a header");
        check("X: a\r\nHost: b", "has a line break");
        check("X: a\nb", "has a line break");
        check("X: \u{1b}[0m", "printable ASCII");
        check("X: ä", "printable ASCII");
        check("User-Agent: me", "--agent");
        check("proxy-authorization: x", "--proxy");
        check("HOST: x", "follows from the URL");
        for name in [
            "Connection",
            "Content-Length",
            "Transfer-Encoding",
            "TE",
            "Upgrade",
        ] {
            check(&format!("{name}: x"), "how requests are sent");
        }
        check("Accept-Encoding: br", "can unpack");
        check("If-None-Match: x", "--recrawl");
        check("Range: bytes=0-9", "--max-bytes");
    }
}
