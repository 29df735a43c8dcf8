//! A connection to one server, plain or encrypted, with the bytes that came and were not used yet.

use std::io::{self, Read, Write};
use std::net::{TcpStream, ToSocketAddrs};
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, ServerName};
use rustls::{ClientConfig, ClientConnection, RootCertStore, StreamOwned};
use url::{Host, Url};

/// What all encrypted connections share: whom to trust.
#[derive(Clone)]
pub(crate) struct Tls {
    config: Arc<ClientConfig>,
}

impl Tls {
    /// Trusts the authorities that browsers trust, and those whose certificates stand in a PEM
    /// file.
    ///
    /// # Errors
    ///
    /// What is wrong with that file.
    pub(crate) fn new(ca: Option<&Path>) -> Result<Tls, String> {
        let mut roots = RootCertStore {
            roots: webpki_roots::TLS_SERVER_ROOTS.to_vec(),
        };
        if let Some(path) = ca {
            add_authorities(&mut roots, path)
                .map_err(|what| format!("{}: {what}", path.display()))?;
        }
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let config = ClientConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()
            .map_err(|error| error.to_string())?
            .with_root_certificates(roots)
            .with_no_client_auth();
        Ok(Tls {
            config: Arc::new(config),
        })
    }
}

fn add_authorities(roots: &mut RootCertStore, path: &Path) -> Result<(), String> {
    let certificates = CertificateDer::pem_file_iter(path).map_err(|error| error.to_string())?;
    let before = roots.len();
    for certificate in certificates {
        let certificate = certificate.map_err(|error| error.to_string())?;
        roots.add(certificate).map_err(|error| error.to_string())?;
    }
    if roots.len() == before {
        return Err("it holds no certificate; name a file in PEM, as openssl writes it".into());
    }
    Ok(())
}

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
}

impl std::fmt::Debug for Connection {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Connection").finish_non_exhaustive()
    }
}

impl Connection {
    /// Connects to the server of a URL; all its addresses are tried.
    pub(crate) fn open(tls: &Tls, url: &Url, silence: Duration) -> io::Result<Connection> {
        let stream = connect(url, silence)?;
        stream.set_nodelay(true)?;
        stream.set_read_timeout(Some(silence))?;
        stream.set_write_timeout(Some(silence))?;
        let stream = if url.scheme() == "https" {
            let name = url
                .host_str()
                .unwrap_or_default()
                .trim_matches(['[', ']'])
                .to_owned();
            let name = ServerName::try_from(name).map_err(io::Error::other)?;
            let client = ClientConnection::new(Arc::clone(&tls.config), name);
            Stream::Encrypted(Box::new(StreamOwned::new(
                client.map_err(io::Error::other)?,
                stream,
            )))
        } else {
            Stream::Plain(stream)
        };
        Ok(Connection {
            stream,
            buffer: vec![0; READ_BYTES],
            start: 0,
            end: 0,
        })
    }

    pub(crate) fn send(&mut self, request: &[u8]) -> io::Result<()> {
        // Bytes that nobody asked for cannot be the answer to what is asked now.
        if self.start < self.end {
            return Err(io::ErrorKind::ConnectionReset.into());
        }
        match &mut self.stream {
            Stream::Plain(stream) => stream.write_all(request),
            Stream::Encrypted(stream) => {
                stream.write_all(request)?;
                stream.flush()
            }
        }
    }

    /// Whether nothing has come since the last exchange.
    pub(crate) fn is_fresh(&self) -> bool {
        self.start == self.end
    }

    /// What has come and was not used.
    pub(crate) fn pending(&self) -> &[u8] {
        &self.buffer[self.start..self.end]
    }

    /// Marks bytes of [`Connection::pending`] as used.
    pub(crate) fn consume(&mut self, len: usize) {
        self.start += len;
        if self.start >= self.end {
            (self.start, self.end) = (0, 0);
        }
    }

    /// Waits for more bytes behind those that are pending; whether there were any before the end.
    pub(crate) fn fill(&mut self) -> io::Result<bool> {
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
    pub(crate) fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        debug_assert!(self.is_fresh());
        loop {
            match self.stream.read(into) {
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                result => return result,
            }
        }
    }

    fn read_retrying(&mut self, from: usize) -> io::Result<usize> {
        loop {
            match self.stream.read(&mut self.buffer[from..]) {
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                result => return result,
            }
        }
    }
}

fn connect(url: &Url, silence: Duration) -> io::Result<TcpStream> {
    let port = url.port_or_known_default().unwrap_or(80);
    let mut refused = None;
    let mut attempt = |address: &std::net::SocketAddr| {
        TcpStream::connect_timeout(address, silence)
            .map_err(|error| refused = Some(error))
            .ok()
    };
    let stream = match url.host() {
        Some(Host::Ipv4(ip)) => attempt(&(ip, port).into()),
        Some(Host::Ipv6(ip)) => attempt(&(ip, port).into()),
        Some(Host::Domain(name)) => (name, port)
            .to_socket_addrs()?
            .find_map(|address| attempt(&address)),
        None => None,
    };
    stream.ok_or_else(|| refused.unwrap_or_else(|| io::ErrorKind::NotFound.into()))
}
