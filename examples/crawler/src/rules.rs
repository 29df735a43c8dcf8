//! robots.txt of an origin: fetched as RFC 9309 says, and kept in the store for a day.

use std::sync::Arc;

use common::codec::{Reader, put_number};
use criba::Keyspace;
use url::Url;

use crate::failure::Failure;
use crate::http::{Ask, Body, Client, Conditional, Connection, Response};
use crate::robots::Robots;
use crawl::keys;

/// How long it is believed, in milliseconds (RFC 9309, 2.4).
const FRESH_MS: u64 = 24 * 3600 * 1000;
/// Most bytes that are read (RFC 9309, 2.5).
const BODY_BYTES_MAX: usize = 500 << 10;
/// Redirects that are followed (RFC 9309, 2.3.1.2).
const REDIRECTS_MAX: usize = 5;

/// What robots.txt said.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum RobotsFile {
    Body(Vec<u8>),
    /// There is none (4xx): everything is allowed.
    Unavailable,
}

/// How asking for it ended.
#[derive(Debug)]
pub(crate) enum Answer {
    File(RobotsFile),
    /// 5xx, 429 or no answer: until that changes, nothing is allowed.
    Unreachable(String),
}

impl RobotsFile {
    pub(crate) fn rules(&self, product: &str) -> Robots {
        match self {
            RobotsFile::Body(body) => Robots::parse(body, product),
            RobotsFile::Unavailable => Robots::allow_all(),
        }
    }

    pub(crate) fn encode(&self, now: u64) -> Vec<u8> {
        let mut out = Vec::new();
        put_number(&mut out, now);
        match self {
            RobotsFile::Unavailable => out.push(0),
            RobotsFile::Body(body) => {
                out.push(1);
                out.extend_from_slice(body);
            }
        }
        out
    }

    /// What the store knows of it, if that is not too old.
    pub(crate) fn load(
        origins: &Keyspace,
        origin: &str,
        now: u64,
    ) -> Result<Option<RobotsFile>, Failure> {
        let Some(value) = origins.get(origin)? else {
            return Ok(None);
        };
        let mut reader = Reader(&value);
        let at = reader.number()?;
        if now.saturating_sub(at) > FRESH_MS {
            return Ok(None);
        }
        let has_body = reader.byte()? == 1;
        let body = reader.0.to_vec();
        Ok(Some(if has_body {
            RobotsFile::Body(body)
        } else {
            RobotsFile::Unavailable
        }))
    }
}

/// Takes an exchange, as it went over the wire.
pub(crate) type Keep<'a> = &'a mut dyn FnMut(&Url, &[u8], &Response) -> Result<(), Failure>;

/// Asks for it. Redirects are followed, to other hosts too. Each exchange goes to `keep`.
///
/// # Errors
///
/// Those of `keep`.
pub(crate) fn fetch(
    client: &Client,
    ask: &Ask,
    origin: &Arc<str>,
    kept: &mut Option<Connection>,
    keep: Keep<'_>,
) -> Result<Answer, Failure> {
    let client = client.with_bodies_of(BODY_BYTES_MAX);
    let Ok(mut url) = Url::parse(&format!("{origin}/robots.txt")) else {
        return Ok(Answer::Unreachable("its address is not a URL".into()));
    };
    let mut request = Vec::new();
    // A connection to a host that a redirect leads to is of no further use.
    let mut elsewhere = None;
    for _ in 0..=REDIRECTS_MAX {
        ask.write(&url, &Conditional::default(), &mut request);
        let here = keys::origin(&url) == &**origin;
        let connection = if here { &mut *kept } else { &mut elsewhere };
        let response = match client.exchange(&url, &request, Body::default(), connection) {
            Ok(response) => response,
            Err(trouble) => return Ok(Answer::Unreachable(trouble.to_string())),
        };
        keep(&url, &request, &response)?;
        elsewhere = None;
        match read(&response) {
            Ok(answer) => return Ok(answer),
            Err(location) => match url.join(&location) {
                Ok(next) if matches!(next.scheme(), "http" | "https") => url = next,
                _ => break,
            },
        }
    }
    Ok(Answer::File(RobotsFile::Unavailable))
}

/// What an answer says, or where it leads to.
fn read(response: &Response) -> Result<Answer, String> {
    match response.head.status {
        200..=299 => Ok(match response.trouble() {
            Some(trouble) => Answer::Unreachable(trouble.to_string()),
            None => Answer::File(RobotsFile::Body(response.body().to_vec())),
        }),
        status @ (429 | 500..=599) => Ok(Answer::Unreachable(format!("status {status}"))),
        300..=399 => match &response.head.location {
            Some(location) => Err(location.clone()),
            None => Ok(Answer::File(RobotsFile::Unavailable)),
        },
        _ => Ok(Answer::File(RobotsFile::Unavailable)),
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::http::tests::server::{Server, Then, answer};
    use crate::http::{Limits, Tls};

    fn fetch_from(server: &Server, keep: Keep<'_>) -> Result<Answer, Failure> {
        let limits = Limits {
            silence: Duration::from_secs(5),
            whole: Duration::from_secs(20),
            body_bytes: 1,
        };
        let client = Client::new(Tls::new(None).unwrap(), limits, Arc::default());
        let ask = Ask {
            agent: "test".into(),
            gzip: true,
            extras: Arc::default(),
        };
        let origin = keys::origin(&server.url("/")).into();
        fetch(&client, &ask, &origin, &mut None, keep)
    }

    /// What came of it, and the paths that were asked for with the status of each.
    fn fetched(server: &Server) -> (Answer, Vec<(String, u16)>) {
        let mut kept = Vec::new();
        let mut keep = |url: &Url, request: &[u8], response: &Response| {
            let request = String::from_utf8_lossy(request);
            assert!(request.starts_with(&format!("GET {} ", url.path())));
            kept.push((url.path().to_owned(), response.head.status));
            Ok(())
        };
        let answer = fetch_from(server, &mut keep).unwrap();
        (answer, kept)
    }

    #[test]
    fn every_exchange_is_handed_out() {
        let server = Server::start(|request| match request.split(' ').nth(1) {
            Some("/robots.txt") => answer("301 Moved", &["Location: /a"], b"moved"),
            Some("/a") => answer("302 Found", &["Location: b"], b""),
            _ => answer("200 OK", &[], b"rules"),
        });
        let (answer, kept) = fetched(&server);
        assert!(matches!(answer, Answer::File(RobotsFile::Body(body)) if body == b"rules"));
        let expected = [("/robots.txt", 301), ("/a", 302), ("/b", 200)];
        assert_eq!(
            kept,
            expected.map(|(path, status)| (path.to_owned(), status))
        );
        assert_eq!(server.connections().len(), 1);
    }

    #[test]
    fn redirects_end_somewhere() {
        let ring = Server::start(|_| answer("301 Moved", &["Location: /robots.txt"], b""));
        let (answer, kept) = fetched(&ring);
        assert!(matches!(answer, Answer::File(RobotsFile::Unavailable)));
        assert_eq!(kept.len(), 1 + REDIRECTS_MAX);
    }

    #[test]
    fn what_cannot_be_read_allows_nothing() {
        let check = |bytes: Vec<u8>, then: Then, expected: &str| {
            let server = Server::start(move |_| (bytes.clone(), then));
            let (answer, kept) = fetched(&server);
            match answer {
                Answer::Unreachable(why) => assert!(why.contains(expected), "{why}"),
                Answer::File(file) => panic!("{file:?}"),
            }
            assert_eq!(kept.len(), 1, "{expected}");
        };
        let (coded, then) = answer("200 OK", &["Content-Encoding: br"], b"x");
        check(coded, then, "the content coding \"br\"");
        let cut = b"HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\nhalf".to_vec();
        check(cut, Then::Close, "the connection ended");
        let (busy, then) = answer("503 Busy", &[], b"");
        check(busy, then, "status 503");
    }

    #[test]
    fn a_failure_to_keep_ends_it() {
        let server = Server::start(|_| answer("200 OK", &[], b""));
        let mut keep = |_: &Url, _: &[u8], _: &Response| Err(Failure::Usage("full".into()));
        let failure = fetch_from(&server, &mut keep).unwrap_err();
        assert_eq!(failure.to_string(), "full");
    }
}
