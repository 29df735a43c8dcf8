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
        let file = |name: &str| certificates().join(name);
        let chain = rustls::pki_types::CertificateDer::pem_file_iter(file("server.pem")).unwrap();
        let key = PrivateKeyDer::from_pem_file(file("server.key")).unwrap();
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let config = ServerConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()
            .unwrap()
            .with_no_client_auth()
            .with_single_cert(chain.map(Result::unwrap).collect(), key)
            .unwrap();
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
        };
        let mut request = Vec::new();
        ask.write(&url, &Conditional::default(), &mut request);
        Client::new(tls.clone(), LIMITS).exchange(&url, &request, Body::default(), kept)
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

#[test]
fn a_file_of_authorities_that_is_none() {
    let new = |name: &str| Tls::new(Some(&certificates().join(name))).err().unwrap();
    assert!(new("server.key").contains("holds no certificate"));
    assert!(new("missing.pem").contains("missing.pem"));
}
