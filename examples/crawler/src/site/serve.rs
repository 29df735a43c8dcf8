//! A small HTTP/1.1 server on the loopback interface: as much as a crawler of this site needs.

use std::collections::BTreeMap;
use std::io::{self, BufRead, BufReader, Read as _, Write as _};
use std::net::{Ipv4Addr, Shutdown, SocketAddr, TcpListener, TcpStream};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::Duration;

use url::Url;

use super::Site;
use super::resource::{Packing, Resource};

/// A site that is being served; it ends when this is dropped.
#[derive(Debug)]
pub(crate) struct Served {
    address: SocketAddr,
    shared: Arc<Shared>,
}

#[derive(Debug)]
struct Shared {
    site: Site,
    address: SocketAddr,
    state: Mutex<State>,
    /// Told when the server ends, so that slow answers do not keep it.
    ended: Condvar,
}

#[derive(Debug, Default)]
struct State {
    has_ended: bool,
    log: BTreeMap<String, Count>,
    /// To end those that wait for another request.
    connections: BTreeMap<u64, TcpStream>,
}

/// Requests for one path.
#[derive(Debug, Clone, Copy, Default)]
struct Count {
    requests: u64,
    /// Of these, answered by a server error.
    failures: u64,
}

impl Served {
    pub(super) fn start(site: Site) -> io::Result<Self> {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?;
        let address = listener.local_addr()?;
        let shared = Arc::new(Shared {
            site,
            address,
            state: Mutex::default(),
            ended: Condvar::new(),
        });
        let for_all = Arc::clone(&shared);
        thread::Builder::new()
            .name("site".into())
            .spawn(move || accept(&listener, &for_all))?;
        Ok(Self { address, shared })
    }

    /// Where to begin.
    pub(crate) fn root(&self) -> Option<Url> {
        Url::parse(&format!("http://{}/", self.address)).ok()
    }

    /// How often each path (with its query) was requested so far. Requests that a server error made
    /// necessary to repeat count once, all of them together.
    pub(crate) fn requests(&self) -> BTreeMap<String, u64> {
        let state = self.shared.state();
        let answered = |count: &Count| (count.requests - count.failures).max(1);
        state
            .log
            .iter()
            .map(|(path, count)| (path.clone(), answered(count)))
            .collect()
    }
}

impl Drop for Served {
    fn drop(&mut self) {
        let mut state = self.shared.state();
        state.has_ended = true;
        for connection in state.connections.values() {
            // One that is closed already needs no more.
            drop(connection.shutdown(Shutdown::Both));
        }
        drop(state);
        self.shared.ended.notify_all();
        // Wakes the thread that accepts; if it cannot be reached, it has ended.
        drop(TcpStream::connect(self.address));
    }
}

impl Shared {
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Counts a request; `true` if the server fails this time.
    fn log(&self, path: &str, resource: &Resource) -> bool {
        let mut state = self.state();
        let count = state.log.entry(path.to_owned()).or_default();
        let fails_now = count.requests < resource.failures;
        count.requests += 1;
        count.failures += u64::from(fails_now || resource.status >= 500);
        fails_now
    }
}

fn accept(listener: &TcpListener, shared: &Arc<Shared>) {
    for (number, connection) in (0..).zip(listener.incoming()) {
        if shared.state().has_ended {
            return;
        }
        // A connection that failed before it began is the client's to open again.
        let Ok(connection) = connection else {
            continue;
        };
        let shared = Arc::clone(shared);
        let serve = move || {
            let Ok(other) = connection.try_clone() else {
                return;
            };
            let mut state = shared.state();
            if state.has_ended {
                return;
            }
            state.connections.insert(number, other);
            drop(state);
            // A client that goes away ends its connection, nothing else.
            drop(converse(&connection, &shared));
            shared.state().connections.remove(&number);
        };
        drop(
            thread::Builder::new()
                .name("site-connection".into())
                .spawn(serve),
        );
    }
}

/// What is taken from a request.
#[derive(Debug, Default)]
struct Request {
    path: String,
    is_head: bool,
    takes_gzip: bool,
    known_tag: Option<String>,
    known_date: Option<String>,
    closes: bool,
}

/// Answers one request after another.
fn converse(connection: &TcpStream, shared: &Shared) -> io::Result<()> {
    connection.set_nodelay(true)?;
    let mut reader = BufReader::new(connection);
    let mut answer = Vec::new();
    while let Some(request) = read_request(&mut reader)? {
        let resource = shared.site.at(&request.path).unwrap_or_else(|| {
            Resource::new(
                404,
                "text/html",
                "<a href=/hidden/in-not-found>Not there</a>",
            )
        });
        let fails_now = shared.log(&request.path, &resource);
        if resource.delay_ms > 0 {
            wait(shared, Duration::from_millis(resource.delay_ms));
        }
        answer.clear();
        let resource = if fails_now {
            Resource::new(503, "text/plain", "Again, please.")
        } else {
            resource
        };
        let body = write_answer(&mut answer, resource, &request, shared.address)?;
        (&mut &*connection).write_all(&answer)?;
        (&mut &*connection).write_all(&body)?;
        if request.closes {
            break;
        }
    }
    Ok(())
}

/// Waits, unless the server ends.
fn wait(shared: &Shared, time: Duration) {
    let state = shared.state();
    let waited = shared
        .ended
        .wait_timeout_while(state, time, |state| !state.has_ended);
    drop(waited.unwrap_or_else(PoisonError::into_inner));
}

/// The next request, `None` at the end. One that is longer than any of a crawler is an error.
fn read_request(reader: &mut impl BufRead) -> io::Result<Option<Request>> {
    const REQUEST_BYTES_MAX: u64 = 64 << 10;
    let mut request = Request::default();
    let mut head = reader.take(REQUEST_BYTES_MAX);
    let mut line = String::new();
    if head.read_line(&mut line)? == 0 {
        return Ok(None);
    }
    let mut words = line.split_whitespace();
    request.is_head = words.next() == Some("HEAD");
    request.path = words.next().unwrap_or_default().to_owned();
    request.closes = words.next() != Some("HTTP/1.1");
    loop {
        line.clear();
        if head.read_line(&mut line)? == 0 {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        let Some((name, value)) = line.split_once(':') else {
            return Ok(Some(request));
        };
        let value = value.trim();
        match name.to_ascii_lowercase().as_str() {
            "accept-encoding" => request.takes_gzip = value.contains("gzip"),
            "if-none-match" => request.known_tag = Some(value.to_owned()),
            "if-modified-since" => request.known_date = Some(value.to_owned()),
            "connection" => request.closes |= value.eq_ignore_ascii_case("close"),
            _ => {}
        }
    }
}

/// A longer body is not copied behind its head.
const COPIED_BYTES_MAX: usize = 64 << 10;

/// Writes the head, and the body if it is short. Returns what is to be sent behind that.
fn write_answer(
    answer: &mut Vec<u8>,
    mut resource: Resource,
    request: &Request,
    address: SocketAddr,
) -> io::Result<Arc<[u8]>> {
    let is_known = match (&request.known_tag, &request.known_date) {
        (Some(tag), _) => resource.find("ETag") == Some(tag),
        (None, Some(date)) => resource.find("Last-Modified") == Some(date),
        (None, None) => false,
    };
    if is_known {
        resource.status = 304;
        resource.body = Vec::new().into();
    }
    if resource.is_template {
        let text = String::from_utf8_lossy(&resource.body);
        let text = text.replace("{origin}", &format!("http://{address}"));
        resource.body = text.into_bytes().into();
    }
    let mut packings = resource.packings;
    if packings.is_empty() && resource.find("Content-Encoding").is_some() {
        if request.takes_gzip {
            packings = &[Packing::Gzip];
        } else {
            resource
                .headers
                .retain(|(name, _)| *name != "Content-Encoding");
        }
    }
    for packing in packings {
        resource.body = packing.pack(&resource.body)?.into();
    }
    write!(
        answer,
        "HTTP/1.1 {} {}\r\n",
        resource.status,
        reason(resource.status)
    )?;
    for (name, value) in &resource.headers {
        write!(answer, "{name}: {value}\r\n")?;
    }
    if resource.status != 304 {
        write!(answer, "Content-Length: {}\r\n", resource.body.len())?;
    }
    let connection = if request.closes {
        "close"
    } else {
        "keep-alive"
    };
    write!(answer, "Connection: {connection}\r\n\r\n")?;
    if request.is_head {
        return Ok(Arc::default());
    }
    if resource.body.len() > COPIED_BYTES_MAX {
        return Ok(resource.body);
    }
    answer.extend_from_slice(&resource.body);
    Ok(Arc::default())
}

fn reason(status: u16) -> &'static str {
    match status {
        200 => "OK",
        301..=308 if status != 304 => "Moved",
        304 => "Not Modified",
        403 => "Forbidden",
        404 => "Not Found",
        410 => "Gone",
        503 => "Service Unavailable",
        _ => "Error",
    }
}
