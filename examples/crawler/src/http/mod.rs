//! HTTP/1.1, as much of it as a crawler needs: requests, responses, kept connections, TLS.
//!
//! Its own, over `httparse` and `rustls`, because a crawler wants the bytes as they came (for WARC
//! files), limits on everything that a server decides, and no work that it does not need.

mod body;
mod bytes;
mod codings;
mod connection;
mod cookies;
mod extras;
mod head;
mod header;
mod proxy;
mod request;
#[cfg(test)]
pub(crate) mod tests;
mod trust;
mod words;

pub(crate) use bytes::Body;
pub(crate) use connection::Connection;
pub(crate) use cookies::Cookies;
pub(crate) use extras::{Extra, Extras};
pub(crate) use head::Head;
pub(crate) use header::Header;
pub(crate) use proxy::Proxy;
pub(crate) use request::{Ask, Conditional};
pub(crate) use trust::Tls;

use std::borrow::Cow;
use std::fmt;
use std::io;
use std::sync::Arc;
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

/// Why there is no answer, or not the whole of it.
#[derive(Debug)]
pub(crate) enum Trouble {
    /// The connection could not be made, or ended.
    Io(io::Error),
    /// What came is not HTTP, beyond a limit, or cannot be read.
    Protocol(Cow<'static, str>),
    /// The exchange took longer than [`Limits::whole`].
    TooSlow,
}

impl Trouble {
    fn protocol(what: impl Into<Cow<'static, str>>) -> Trouble {
        Trouble::Protocol(what.into())
    }

    /// What it does to a body that had begun.
    fn cut(&self) -> Cut {
        match self {
            Trouble::TooSlow => Cut::Time,
            Trouble::Io(error) if words::is_timeout(error) => Cut::Time,
            Trouble::Io(_) => Cut::Disconnect,
            Trouble::Protocol(_) => Cut::Nonsense,
        }
    }
}

impl From<io::Error> for Trouble {
    fn from(error: io::Error) -> Trouble {
        Trouble::Io(error)
    }
}

impl fmt::Display for Trouble {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Trouble::Io(error) => f.write_str(&words::plain(error)),
            Trouble::Protocol(what) => f.write_str(what),
            Trouble::TooSlow => f.write_str("it took too long"),
        }
    }
}

/// Why a body ends before its end.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Cut {
    /// A limit of the crawl.
    Length,
    /// The server was too slow.
    Time,
    /// The connection ended.
    Disconnect,
    /// The rest could not be told from something else.
    Nonsense,
}

/// An answer.
#[derive(Debug)]
pub(crate) struct Response {
    pub(crate) head: Head,
    /// Without transfer coding, but with the content coding of the head.
    pub(crate) wire: Body,
    /// Decompressed, where the head names a coding.
    decoded: Option<Body>,
    /// A limit cut it, or damage did, on the wire or when it was decompressed.
    pub(crate) truncated: bool,
    /// Why `wire` is not the whole body.
    pub(crate) cut: Option<Cut>,
    /// Why the body is not what the server meant.
    trouble: Option<Trouble>,
}

impl Response {
    /// The room that its body took, for the next one.
    pub(crate) fn into_room(self) -> Body {
        self.wire.into_room()
    }

    /// The page, unless there is [`Response::trouble`] with it.
    pub(crate) fn body(&self) -> &[u8] {
        self.decoded.as_deref().unwrap_or(&self.wire)
    }

    /// Why [`Response::body`] is not the page: the rest did not come, or its coding cannot be
    /// undone.
    pub(crate) fn trouble(&self) -> Option<&Trouble> {
        self.trouble.as_ref()
    }

    fn of(head: Head, raw: body::Raw, most: usize) -> Response {
        let cut = match &raw.trouble {
            Some(trouble) => Some(trouble.cut()),
            None => raw.limited.then_some(Cut::Length),
        };
        let mut response = Response {
            head,
            wire: raw.bytes,
            decoded: None,
            truncated: raw.limited,
            cut,
            trouble: raw.trouble,
        };
        if response.trouble.is_none() {
            match codings::undo(&response.wire, &response.head, most) {
                Ok((decoded, is_whole)) => {
                    response.decoded = decoded;
                    response.truncated |= !is_whole;
                }
                Err(trouble) => response.trouble = Some(trouble),
            }
        }
        response
    }
}

/// Whoever asks.
#[derive(Clone)]
pub(crate) struct Client {
    tls: Tls,
    limits: Limits,
    extras: Arc<Extras>,
}

impl Client {
    /// `extras` name the proxies.
    pub(crate) fn new(tls: Tls, limits: Limits, extras: Arc<Extras>) -> Client {
        Client {
            tls,
            limits,
            extras,
        }
    }

    /// The same with another limit for bodies.
    pub(crate) fn with_bodies_of(&self, body_bytes: usize) -> Client {
        let mut client = self.clone();
        client.limits.body_bytes = body_bytes;
        client
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
        let proxy = self.extras.of(url).proxy.as_deref();
        let request = match proxy {
            Some(proxy) => proxy.request(url, request),
            None => Cow::Borrowed(request),
        };
        let kept_one = kept.take();
        let begun = match kept_one.map(|connection| begin(connection, &request, deadline)) {
            Some(Ok(begun)) => Ok(begun),
            // The server closed it while it was idle: that says nothing about the page.
            None
            | Some(Err(Lost {
                before_answer: true,
                ..
            })) => {
                let connection = self.connect(url, proxy, deadline)?;
                begin(connection, &request, deadline)
            }
            Some(Err(lost)) => Err(lost),
        };
        let (mut connection, head) = begun.map_err(|lost| lost.trouble)?;
        if let Some(proxy) = proxy {
            proxy.check(url, &head)?;
        }
        room.clear();
        let raw = body::read(&mut connection, &head, room, (limits.body_bytes, deadline));
        if raw.complete && head.keeps_alive {
            *kept = Some(connection);
        }
        Ok(Response::of(head, raw, limits.body_bytes))
    }

    fn connect(
        &self,
        url: &Url,
        proxy: Option<&Proxy>,
        deadline: Instant,
    ) -> Result<Connection, Trouble> {
        let silence = self.limits.silence;
        let connection = match proxy {
            Some(proxy) => proxy.connect(url, silence, deadline)?,
            None => {
                let port = url.port_or_known_default().unwrap_or(80);
                Connection::open(url.host(), port, silence)?
            }
        };
        match url.scheme() {
            "https" => Ok(connection.encrypted(&self.tls, url)?),
            _ => Ok(connection),
        }
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
