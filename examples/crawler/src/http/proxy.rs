//! Requests through an HTTP proxy: whole URLs for http, a tunnel for https.

use std::borrow::Cow;
use std::fmt;
use std::time::{Duration, Instant};

use data_encoding::BASE64;
use url::{Host, Position, Url};

use super::words::Named;
use super::{Connection, Head, Trouble, head};

/// A proxy.
#[derive(Clone, PartialEq, Eq)]
pub(crate) struct Proxy {
    host: Host,
    port: u16,
    /// The line `Proxy-Authorization` with its end, or nothing.
    authorization: String,
}

/// How to write one.
const HOW: &str = "write http://HOST:PORT or http://USER:PASSWORD@HOST:PORT";

impl Proxy {
    /// Reads `http://[user:password@]host:port`. Without a port it is 80.
    ///
    /// # Errors
    ///
    /// A sentence that says how to write it. The password does not stand in it.
    pub(crate) fn parse(text: &str) -> Result<Proxy, String> {
        // Without a scheme, the host would be taken for one.
        if !text.contains("://") {
            return Err(format!("the address has no http://; {HOW}"));
        }
        let url = Url::parse(text).map_err(|error| format!("not a URL ({error}); {HOW}"))?;
        if url.scheme() != "http" {
            let scheme = Named(url.scheme());
            return Err(format!(
                "the proxy speaks {scheme}, but only http works; {HOW}"
            ));
        }
        if url.path() != "/" || url.query().is_some() || url.fragment().is_some() {
            return Err(format!("a proxy has no path; {HOW}"));
        }
        let Some(host) = url.host() else {
            return Err(format!("the address names no host; {HOW}"));
        };
        let mut authorization = String::new();
        if !url.username().is_empty() || url.password().is_some() {
            let mut credentials = unescaped(url.username());
            credentials.push(b':');
            credentials.extend(unescaped(url.password().unwrap_or_default()));
            let credentials = BASE64.encode(&credentials);
            authorization = format!("Proxy-Authorization: Basic {credentials}\r\n");
        }
        Ok(Proxy {
            host: host.to_owned(),
            port: url.port_or_known_default().unwrap_or(80),
            authorization,
        })
    }

    /// A connection to the server of a URL: for https one that leads there, for http one to the
    /// proxy.
    pub(super) fn connect(
        &self,
        url: &Url,
        silence: Duration,
        deadline: Instant,
    ) -> Result<Connection, Trouble> {
        let host = match &self.host {
            Host::Domain(name) => Host::Domain(name.as_str()),
            Host::Ipv4(ip) => Host::Ipv4(*ip),
            Host::Ipv6(ip) => Host::Ipv6(*ip),
        };
        let in_words =
            |error| Trouble::protocol(format!("the proxy {self}: {}", Trouble::Io(error)));
        let mut connection = Connection::open(Some(host), self.port, silence).map_err(in_words)?;
        if url.scheme() != "https" {
            return Ok(connection);
        }
        let target = target(url);
        let request = format!(
            "CONNECT {target} HTTP/1.1\r\nHost: {target}\r\n{}\r\n",
            self.authorization
        );
        connection.send(request.as_bytes()).map_err(in_words)?;
        let head = head::read(&mut connection, deadline)
            .map_err(|trouble| Trouble::protocol(format!("the proxy {self}: {trouble}")))?;
        if !matches!(head.status, 200..=299) {
            return Err(self.refused(&target, &head));
        }
        // The server speaks after the client.
        if !connection.is_fresh() {
            let what = format!("the proxy {self} sent more than its answer to CONNECT {target}");
            return Err(Trouble::protocol(what));
        }
        Ok(connection)
    }

    fn refused(&self, target: &str, head: &Head) -> Trouble {
        let mut what = format!(
            "the proxy {self} refused CONNECT {target}: status {}",
            head.status
        );
        let reason = head.reason();
        if !reason.is_empty() {
            what.push_str(&format!(" {}", Named(&reason)));
        }
        if head.status == 407 {
            what.push_str(&format!("; {HOW}"));
        }
        Trouble::protocol(what)
    }

    /// A request as the proxy must see it. In a tunnel, the server sees it as it is.
    pub(super) fn request<'a>(&self, url: &Url, request: &'a [u8]) -> Cow<'a, [u8]> {
        let line_end = request.windows(2).position(|bytes| bytes == b"\r\n");
        let (Some(path), Some(end), "http") = (
            request.iter().position(|&byte| byte == b' '),
            line_end,
            url.scheme(),
        ) else {
            return Cow::Borrowed(request);
        };
        let (method, rest) = request.split_at(path + 1);
        let (line, rest) = rest.split_at(end + 2 - method.len());
        let server = format!("http://{}", host_and_port(url));
        let parts = [
            method,
            server.as_bytes(),
            line,
            self.authorization.as_bytes(),
            rest,
        ];
        Cow::Owned(parts.concat())
    }

    /// Whether an answer is one of the proxy that says nothing about the server.
    pub(super) fn check(&self, url: &Url, head: &Head) -> Result<(), Trouble> {
        if url.scheme() == "http" && head.status == 407 {
            let what = format!("the proxy {self} asks for a user name and a password; {HOW}");
            return Err(Trouble::protocol(what));
        }
        Ok(())
    }
}

/// Without the password.
impl fmt::Display for Proxy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}", self.host, self.port)
    }
}

impl fmt::Debug for Proxy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Proxy({self})")
    }
}

fn host_and_port(url: &Url) -> &str {
    &url[Position::BeforeHost..Position::AfterPort]
}

/// Host and port, also where that is the usual one.
fn target(url: &Url) -> String {
    let port = url.port_or_known_default().unwrap_or(443);
    format!("{}:{port}", url.host_str().unwrap_or_default())
}

/// `%41` as `A`.
fn unescaped(text: &str) -> Vec<u8> {
    let mut out = Vec::new();
    let mut rest = text.as_bytes();
    while let Some((&first, tail)) = rest.split_first() {
        let digits = tail
            .get(..2)
            .filter(|two| two.iter().all(u8::is_ascii_hexdigit));
        let digits = digits.and_then(|two| std::str::from_utf8(two).ok());
        let byte = digits.and_then(|two| u8::from_str_radix(two, 16).ok());
        match byte.filter(|_| first == b'%') {
            Some(byte) => {
                out.push(byte);
                rest = &tail[2..];
            }
            None => {
                out.push(first);
                rest = tail;
            }
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    fn wrong(text: &str) -> String {
        let what = Proxy::parse(text).unwrap_err();
        assert!(what.ends_with(HOW), "{what}");
        assert!(!what.contains("secret"), "{what}");
        what
    }

    #[test]
    fn addresses() {
        let proxy = Proxy::parse("http://proxy.example:3128").unwrap();
        assert_eq!(proxy.to_string(), "proxy.example:3128");
        assert_eq!(proxy.authorization, "");
        assert_eq!(
            Proxy::parse("http://[::1]/").unwrap().to_string(),
            "[::1]:80"
        );
        let proxy = Proxy::parse("http://me%40home:s%3Acret%25@h:1/").unwrap();
        let expected = "Proxy-Authorization: Basic bWVAaG9tZTpzOmNyZXQl\r\n";
        assert_eq!(proxy.authorization, expected);
        assert_eq!(format!("{proxy:?}"), "Proxy(h:1)");
    }

    #[test]
    fn what_is_no_address_is_refused() {
        assert!(wrong("proxy.example:3128").contains("has no http://"));
        assert!(wrong("me:secret@proxy:3128").contains("has no http://"));
        assert!(wrong("https://me:secret@h:1").contains("only http works"));
        assert!(wrong("socks5://h:1").contains("\"socks5\""));
        assert!(wrong("http://h:99999").contains("not a URL"));
        assert!(wrong("http://h:1/path").contains("no path"));
    }

    #[test]
    fn requests_in_both_forms() {
        let proxy = Proxy::parse("http://a:b@h:1").unwrap();
        let request = b"GET /x?y HTTP/1.1\r\nHost: h:81\r\n\r\n";
        let url = Url::parse("http://h:81/x?y").unwrap();
        let sent = String::from_utf8(proxy.request(&url, request).into_owned()).unwrap();
        assert_eq!(
            sent,
            "GET http://h:81/x?y HTTP/1.1\r\nProxy-Authorization: Basic YTpi\r\nHost: h:81\r\n\r\n"
        );
        let url = Url::parse("https://h:81/x?y").unwrap();
        assert_eq!(*proxy.request(&url, request), *request);
    }
}
