//! Exchanges with a server that speaks TLS.
//!
//! Its certificate is for 127.0.0.1, from an authority that nobody else trusts. Both are valid
//! until 2126; the key of the authority was thrown away. They were made so:
//!
//! ```sh
//! openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes -days 36500 -keyout ca.key \
//!   -out ca.pem -subj '/CN=test authority' -addext basicConstraints=critical,CA:TRUE \
//!   -addext keyUsage=critical,keyCertSign
//! openssl req -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes -subj '/CN=test server' \
//!   -keyout server.key -out server.csr
//! printf 'subjectAltName=IP:127.0.0.1\nbasicConstraints=critical,CA:FALSE\n' > extensions
//! openssl x509 -req -in server.csr -CA ca.pem -CAkey ca.key -CAcreateserial -days 36500 \
//!   -extfile extensions -out server.pem
//! ```
//!
//! And two that sign themselves, with the same key, and the second names no host:
//!
//! ```sh
//! openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes -days 36500 \
//!   -keyout own.key -out own.pem -subj '/CN=test' -addext subjectAltName=IP:127.0.0.1
//! openssl req -x509 -key own.key -days 36500 -out nameless.pem -subj '/CN=127.0.0.1'
//! ```

mod answers;
mod proxies;
pub(crate) mod server;

use std::io::{BufRead as _, BufReader, Write as _};
use std::net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;

use rustls::pki_types::PrivateKeyDer;
use rustls::pki_types::pem::PemObject as _;
use rustls::{ServerConfig, ServerConnection, StreamOwned};

use super::*;

const LIMITS: Limits = Limits {
    silence: Duration::from_secs(20),
    whole: Duration::from_secs(60),
    body_bytes: 1 << 20,
};

fn certificates() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("src/http/certificates")
}

/// A server that answers every request with a body of `len` bytes.
struct Server {
    address: SocketAddr,
    connections: Arc<AtomicU64>,
}

impl Server {
    fn start(len: usize) -> Server {
        Server::with("server.pem", "server.key", len)
    }

    fn with(certificate: &str, key: &str, len: usize) -> Server {
        let file = |name: &str| certificates().join(name);
        let chain = rustls::pki_types::CertificateDer::pem_file_iter(file(certificate)).unwrap();
        let key = PrivateKeyDer::from_pem_file(file(key)).unwrap();
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let config = ServerConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()
            .unwrap()
            .with_no_client_auth()
            .with_single_cert(chain.map(Result::unwrap).collect(), key)
            .unwrap();
        Server::serve(config, len)
    }

    fn serve(config: ServerConfig, len: usize) -> Server {
        let config = Arc::new(config);
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
        let address = listener.local_addr().unwrap();
        let connections = Arc::new(AtomicU64::new(0));
        let count = Arc::clone(&connections);
        // It ends with the process: nobody waits for it.
        thread::spawn(move || {
            for stream in listener.incoming() {
                count.fetch_add(1, Ordering::SeqCst);
                let tls = ServerConnection::new(Arc::clone(&config)).unwrap();
                let stream = StreamOwned::new(tls, stream.unwrap());
                thread::spawn(move || answer(stream, len));
            }
        });
        Server {
            address,
            connections,
        }
    }

    fn ask(
        &self,
        tls: &Tls,
        host: &str,
        kept: &mut Option<Connection>,
    ) -> Result<Response, Trouble> {
        let url = Url::parse(&format!("https://{host}:{}/x", self.address.port())).unwrap();
        let ask = Ask {
            agent: "test".into(),
            gzip: false,
            extras: Arc::default(),
        };
        let mut request = Vec::new();
        ask.write(&url, &Conditional::default(), &mut request);
        let client = Client::new(tls.clone(), LIMITS, Arc::default());
        client.exchange(&url, &request, Body::default(), kept)
    }
}

/// Answers until the client goes, or does not like the certificate.
fn answer(stream: StreamOwned<ServerConnection, TcpStream>, len: usize) {
    let mut stream = BufReader::new(stream);
    loop {
        let mut line = String::new();
        while line != "\r\n" {
            line.clear();
            if stream.read_line(&mut line).unwrap_or(0) == 0 {
                return;
            }
        }
        let head = format!("HTTP/1.1 200 OK\r\nContent-Length: {len}\r\n\r\n");
        let body = vec![b'b'; len];
        let out = stream.get_mut();
        if out.write_all(&[head.as_bytes(), &body].concat()).is_err() || out.flush().is_err() {
            return;
        }
    }
}

#[test]
fn https_with_an_authority_of_ones_own() {
    let server = Server::start(100_000);
    let tls = Tls::new(Some(&certificates().join("ca.pem"))).unwrap();
    let mut kept = None;
    for _ in 0..3 {
        let response = server.ask(&tls, "127.0.0.1", &mut kept).unwrap();
        assert_eq!(response.head.status, 200);
        assert_eq!(response.body(), vec![b'b'; 100_000]);
        assert!(kept.is_some());
    }
    assert_eq!(server.connections.load(Ordering::SeqCst), 1);
}

#[test]
fn who_cannot_prove_who_it_is_gets_no_answer() {
    let server = Server::start(1);
    let refused = |tls: &Tls, host: &str| {
        let answer = server.ask(tls, host, &mut None);
        answer.unwrap_err().to_string()
    };
    let of_browsers = Tls::new(None).unwrap();
    let what = refused(&of_browsers, "127.0.0.1");
    assert!(what.contains("UnknownIssuer"), "{what}");
    // A certificate for an address says nothing about a name.
    let own = Tls::new(Some(&certificates().join("ca.pem"))).unwrap();
    let what = refused(&own, "localhost");
    assert!(what.contains("not valid for name"), "{what}");
}

/// What a client that trusts one file says to a server with one certificate.
fn asked_with(ca: &str, certificate: &str, key: &str, host: &str) -> Result<Response, String> {
    let server = Server::with(certificate, key, 1);
    let tls = Tls::new(Some(&certificates().join(ca))).unwrap();
    let answer = server.ask(&tls, host, &mut None);
    answer.map_err(|trouble| trouble.to_string())
}

#[test]
fn a_certificate_that_is_named_is_trusted() {
    assert!(asked_with("own.pem", "own.pem", "own.key", "127.0.0.1").is_ok());
    // One that an authority has signed, too, and then without the authority.
    assert!(asked_with("server.pem", "server.pem", "server.key", "127.0.0.1").is_ok());
    let what = asked_with("own.pem", "own.pem", "own.key", "localhost").unwrap_err();
    assert!(what.contains("not valid for name"), "{what}");
    let what = asked_with("nameless.pem", "nameless.pem", "own.key", "127.0.0.1").unwrap_err();
    assert!(
        what.contains("-addext subjectAltName=IP:127.0.0.1"),
        "{what}"
    );
    let what = asked_with("nameless.pem", "nameless.pem", "own.key", "localhost").unwrap_err();
    assert!(
        what.contains("-addext subjectAltName=DNS:localhost"),
        "{what}"
    );
}

/// Only the very same certificate: another of the same name, or of the same key, is not.
#[test]
fn a_certificate_that_is_not_named_is_not_trusted() {
    for ca in ["server.pem", "nameless.pem"] {
        let what = asked_with(ca, "own.pem", "own.key", "127.0.0.1").unwrap_err();
        assert!(
            what.contains("is not from an authority that is trusted"),
            "{what}"
        );
        assert!(
            what.ends_with("name it or its authority with --ca"),
            "{what}"
        );
    }
}

/// A certificate is public: a server that shows it must have its key.
#[test]
fn a_server_without_the_key_of_its_certificate_is_not_trusted() {
    let file = |name: &str| certificates().join(name);
    let chain = rustls::pki_types::CertificateDer::pem_file_iter(file("own.pem")).unwrap();
    let chain: Vec<_> = chain.map(Result::unwrap).collect();
    let provider = rustls::crypto::ring::default_provider();
    let key = PrivateKeyDer::from_pem_file(file("server.key")).unwrap();
    let key = provider.key_provider.load_private_key(key).unwrap();
    let stolen = Arc::new(rustls::sign::CertifiedKey::new(chain, key));
    let config = ServerConfig::builder_with_provider(Arc::new(provider))
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_no_client_auth()
        .with_cert_resolver(Arc::new(rustls::sign::SingleCertAndKey::from(stolen)));
    let server = Server::serve(config, 1);
    let tls = Tls::new(Some(&file("own.pem"))).unwrap();
    let what = server.ask(&tls, "127.0.0.1", &mut None).unwrap_err();
    assert!(what.to_string().contains("BadSignature"), "{what}");
}

#[test]
fn a_file_of_authorities_that_is_none() {
    let new = |name: &str| Tls::new(Some(&certificates().join(name))).err().unwrap();
    assert!(new("server.key").contains("holds no certificate"));
    assert!(new("missing.pem").contains("missing.pem"));
}
