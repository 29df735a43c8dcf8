//! HTTP/1.1, as much of it as a crawler needs: requests, responses, kept connections, TLS.
//!
//! Its own, over `httparse` and `rustls`, because a crawler wants the bytes as they came (for WARC
//! files), limits on everything that a server decides, and no work that it does not need.

mod body;
mod bytes;
mod connection;
mod head;
mod request;
#[cfg(test)]
mod tests;

pub(crate) use bytes::Body;
pub(crate) use connection::{Connection, Tls};
pub(crate) use head::Head;
pub(crate) use request::{Ask, Conditional};

use std::fmt;
use std::io;
use std::time::{Duration, Instant};

use url::Url;

/// What a server may make us wait for and take.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Limits {
    /// For the connection, and for each silence of the server.
    pub(crate) silence: Duration,
    /// For the whole exchange.
    pub(crate) whole: Duration,
    /// Of a body, before and after decompression.
    pub(crate) body_bytes: usize,
}

/// Most bytes of a head.
pub(crate) const HEAD_BYTES_MAX: usize = 64 << 10;

/// Why there is no answer.
#[derive(Debug)]
pub(crate) enum Trouble {
    /// The system's own words: refused, reset, timed out, no such host.
    Io(io::Error),
    /// What came is not HTTP, or beyond a limit.
    Protocol(&'static str),
    /// The exchange took longer than [`Limits::whole`].
    TooSlow,
}

impl From<io::Error> for Trouble {
    fn from(error: io::Error) -> Trouble {
        Trouble::Io(error)
    }
}

impl fmt::Display for Trouble {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Trouble::Io(error) => write!(f, "{error}"),
            Trouble::Protocol(what) => f.write_str(what),
            Trouble::TooSlow => f.write_str("it took too long"),
        }
    }
}

/// An answer.
#[derive(Debug)]
pub(crate) struct Response {
    pub(crate) head: Head,
    /// Without transfer coding, but with the content coding of the head.
    pub(crate) wire: Body,
    /// Decompressed, where the head names a coding that we know.
    decoded: Option<Body>,
    /// A limit cut it.
    pub(crate) truncated: bool,
}

impl Response {
    /// The room that its body took, for the next one.
    pub(crate) fn into_room(self) -> Body {
        self.wire.into_room()
    }

    /// What the page is.
    pub(crate) fn body(&self) -> &[u8] {
        self.decoded.as_deref().unwrap_or(&self.wire)
    }
}

/// Whoever asks.
#[derive(Clone)]
pub(crate) struct Client {
    tls: Tls,
    limits: Limits,
}

impl Client {
    pub(crate) fn new(tls: Tls, limits: Limits) -> Client {
        Client { tls, limits }
    }

    /// The same with another limit for bodies.
    pub(crate) fn with_bodies_of(&self, body_bytes: usize) -> Client {
        let limits = Limits {
            body_bytes,
            ..self.limits
        };
        Client::new(self.tls.clone(), limits)
    }

    /// Asks a server and reads its answer, over `kept` if that still works. The connection goes
    /// back into `kept` if it can be used again. `room` is for the body.
    ///
    /// # Errors
    ///
    /// When there is no answer; trying again later may help.
    pub(crate) fn exchange(
        &self,
        url: &Url,
        request: &[u8],
        mut room: Body,
        kept: &mut Option<Connection>,
    ) -> Result<Response, Trouble> {
        let limits = self.limits;
        let deadline = Instant::now() + limits.whole;
        let kept_one = kept.take();
        let begun = match kept_one.map(|connection| begin(connection, request, deadline)) {
            Some(Ok(begun)) => Ok(begun),
            // The server closed it while it was idle: that says nothing about the page.
            None
            | Some(Err(Lost {
                before_answer: true,
                ..
            })) => {
                let connection = Connection::open(&self.tls, url, limits.silence)?;
                begin(connection, request, deadline)
            }
            Some(Err(lost)) => Err(lost),
        };
        let (mut connection, head) = begun.map_err(|lost| lost.trouble)?;
        room.clear();
        let raw = body::read(&mut connection, &head, room, (limits.body_bytes, deadline))?;
        if raw.complete && head.keeps_alive {
            *kept = Some(connection);
        }
        let (decoded, cut) = body::decode(&raw.bytes, &head, limits.body_bytes)?;
        Ok(Response {
            head,
            wire: raw.bytes,
            decoded,
            truncated: raw.truncated || cut,
        })
    }
}

/// A failed exchange.
struct Lost {
    trouble: Trouble,
    /// Not one byte of an answer came, and the connection ended.
    before_answer: bool,
}

/// Asks, and reads the head of the answer.
fn begin(
    mut connection: Connection,
    request: &[u8],
    deadline: Instant,
) -> Result<(Connection, Head), Lost> {
    let answer = connection
        .send(request)
        .map_err(Trouble::Io)
        .and_then(|()| head::read(&mut connection, deadline));
    match answer {
        Ok(head) => Ok((connection, head)),
        Err(trouble) => Err(Lost {
            before_answer: connection.is_fresh() && is_end(&trouble),
            trouble,
        }),
    }
}

fn is_end(trouble: &Trouble) -> bool {
    use io::ErrorKind::{BrokenPipe, ConnectionAborted, ConnectionReset, UnexpectedEof};
    matches!(trouble, Trouble::Io(error) if matches!(
        error.kind(),
        BrokenPipe | ConnectionAborted | ConnectionReset | UnexpectedEof
    ))
}
