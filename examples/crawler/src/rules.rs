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

/// Asks for it. Redirects are followed, to other hosts too.
pub(crate) fn fetch(
    client: &Client,
    ask: &Ask,
    origin: &Arc<str>,
    kept: &mut Option<Connection>,
) -> Answer {
    let client = client.with_bodies_of(BODY_BYTES_MAX);
    let Ok(mut url) = Url::parse(&format!("{origin}/robots.txt")) else {
        return Answer::Unreachable("its address is not a URL".into());
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
            Err(trouble) => return Answer::Unreachable(trouble.to_string()),
        };
        elsewhere = None;
        match read(&response) {
            Ok(answer) => return answer,
            Err(location) => match url.join(&location) {
                Ok(next) if matches!(next.scheme(), "http" | "https") => url = next,
                _ => return Answer::File(RobotsFile::Unavailable),
            },
        }
    }
    Answer::File(RobotsFile::Unavailable)
}

/// What an answer says, or where it leads to.
fn read(response: &Response) -> Result<Answer, String> {
    match response.head.status {
        200..=299 => Ok(Answer::File(RobotsFile::Body(response.body().to_vec()))),
        status @ (429 | 500..=599) => Ok(Answer::Unreachable(format!("status {status}"))),
        300..=399 => match &response.head.location {
            Some(location) => Err(location.clone()),
            None => Ok(Answer::File(RobotsFile::Unavailable)),
        },
        _ => Ok(Answer::File(RobotsFile::Unavailable)),
    }
}
