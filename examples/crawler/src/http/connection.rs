//! A connection to one server, plain or encrypted, with the bytes that came and were not used yet.

use std::io::{self, Read, Write};
use std::net::{SocketAddr, TcpStream, ToSocketAddrs};
use std::time::Duration;

use rustls::{ClientConnection, StreamOwned};
use url::{Host, Url};

use super::trust::Tls;
use super::words;

enum Stream {
    Plain(TcpStream),
    Encrypted(Box<StreamOwned<ClientConnection, TcpStream>>),
}

impl Stream {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        match self {
            Stream::Plain(stream) => stream.read(into),
            Stream::Encrypted(stream) => stream.read(into),
        }
    }

    fn read_retrying(&mut self, into: &mut [u8], silence: Duration) -> io::Result<usize> {
        loop {
            match self.read(into) {
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                result => return result.map_err(|error| in_words(error, silence)),
            }
        }
    }
}

/// Room for a head, and with it the beginning of most bodies.
const READ_BYTES: usize = 16 << 10;

/// A connection.
pub(crate) struct Connection {
    stream: Stream,
    buffer: Vec<u8>,
    /// What was read stands in `buffer[start..end]`.
    start: usize,
    end: usize,
    /// How long the server may be silent.
    silence: Duration,
}

impl std::fmt::Debug for Connection {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Connection").finish_non_exhaustive()
    }
}

impl Connection {
    /// Connects to a host; all its addresses are tried.
    pub(super) fn open(
        host: Option<Host<&str>>,
        port: u16,
        silence: Duration,
    ) -> io::Result<Connection> {
        let stream = connect(host, port, silence)?;
        stream.set_nodelay(true)?;
        stream.set_read_timeout(Some(silence))?;
        stream.set_write_timeout(Some(silence))?;
        Ok(Connection {
            stream: Stream::Plain(stream),
            buffer: vec![0; READ_BYTES],
            start: 0,
            end: 0,
            silence,
        })
    }

    /// Speaks TLS with the server of a URL from here on.
    pub(super) fn encrypted(mut self, tls: &Tls, url: &Url) -> io::Result<Connection> {
        if let Stream::Plain(stream) = self.stream {
            let client = tls.client(url)?;
            self.stream = Stream::Encrypted(Box::new(StreamOwned::new(client, stream)));
        }
        Ok(self)
    }

    pub(super) fn send(&mut self, request: &[u8]) -> io::Result<()> {
        // Bytes that nobody asked for cannot be the answer to what is asked now.
        if self.start < self.end {
            return Err(io::ErrorKind::ConnectionReset.into());
        }
        let sent = match &mut self.stream {
            Stream::Plain(stream) => stream.write_all(request),
            Stream::Encrypted(stream) => stream.write_all(request).and_then(|()| stream.flush()),
        };
        sent.map_err(|error| in_words(error, self.silence))
    }

    /// Whether nothing has come since the last exchange.
    pub(super) fn is_fresh(&self) -> bool {
        self.start == self.end
    }

    /// What has come and was not used.
    pub(super) fn pending(&self) -> &[u8] {
        &self.buffer[self.start..self.end]
    }

    /// Marks bytes of [`Connection::pending`] as used.
    pub(super) fn consume(&mut self, len: usize) {
        self.start += len;
        if self.start >= self.end {
            (self.start, self.end) = (0, 0);
        }
    }

    /// Waits for more bytes behind those that are pending; whether there were any before the end.
    pub(super) fn fill(&mut self) -> io::Result<bool> {
        if self.end == self.buffer.len() && self.start > 0 {
            self.buffer.copy_within(self.start..self.end, 0);
            (self.start, self.end) = (0, self.end - self.start);
        }
        if self.end == self.buffer.len() {
            // Callers bound what they leave pending by `HEAD_BYTES_MAX`.
            self.buffer.resize(2 * self.buffer.len(), 0);
        }
        let count = self.read_retrying(self.end)?;
        self.end += count;
        Ok(count > 0)
    }

    /// Reads straight into `into`, past the buffer, which must be empty.
    pub(super) fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        debug_assert!(self.is_fresh());
        self.stream.read_retrying(into, self.silence)
    }

    fn read_retrying(&mut self, from: usize) -> io::Result<usize> {
        let into = &mut self.buffer[from..];
        self.stream.read_retrying(into, self.silence)
    }
}

/// A timeout says how long that was.
fn in_words(error: io::Error, silence: Duration) -> io::Error {
    if words::is_timeout(&error) {
        return words::silent(silence);
    }
    error
}

fn connect(host: Option<Host<&str>>, port: u16, silence: Duration) -> io::Result<TcpStream> {
    let Some(host) = host else {
        return Err(io::Error::other("the address names no host"));
    };
    let mut refused = io::ErrorKind::NotFound.into();
    let mut attempt = |address: &SocketAddr| {
        TcpStream::connect_timeout(address, silence)
            .map_err(|error| refused = in_words(error, silence))
            .ok()
    };
    let stream = match host {
        Host::Ipv4(ip) => attempt(&(ip, port).into()),
        Host::Ipv6(ip) => attempt(&(ip, port).into()),
        Host::Domain(name) => {
            let addresses = (name, port).to_socket_addrs();
            let mut addresses = addresses.map_err(|error| unknown(name, &error))?;
            addresses.find_map(|address| attempt(&address))
        }
    };
    stream.ok_or_else(|| {
        let what = words::plain(&refused);
        io::Error::new(
            refused.kind(),
            format!("no connection to {host}:{port}: {what}"),
        )
    })
}

/// The error for a name that has no address.
fn unknown(name: &str, error: &io::Error) -> io::Error {
    let what = words::plain(error);
    let what = what
        .strip_prefix("failed to lookup address information: ")
        .unwrap_or(&what);
    io::Error::new(error.kind(), format!("no address for {name}: {what}"))
}
