//! A server that answers as a test says, and remembers what it was asked.

use std::io::{BufReader, Write as _};
use std::net::{Ipv4Addr, Shutdown, SocketAddr, TcpListener};
use std::sync::{Arc, Mutex};
use std::thread;

use url::Url;

/// The server. It ends with the process: nobody waits for it.
pub(crate) struct Server {
    pub(crate) address: SocketAddr,
    connections: Arc<Mutex<Vec<Vec<String>>>>,
}

/// What follows an answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Then {
    /// The next request.
    Stay,
    /// The end of the connection.
    Close,
}

/// An answer with a body, and its length.
pub(crate) fn answer(status: &str, headers: &[&str], body: &[u8]) -> (Vec<u8>, Then) {
    let headers: String = headers.iter().map(|line| format!("{line}\r\n")).collect();
    let head = format!(
        "HTTP/1.1 {status}\r\n{headers}Content-Length: {}\r\n\r\n",
        body.len()
    );
    ([head.as_bytes(), body].concat(), Then::Stay)
}

impl Server {
    /// Answers the head of each request, which ends with an empty line.
    pub(crate) fn start(
        answer: impl Fn(&str) -> (Vec<u8>, Then) + Send + Sync + 'static,
    ) -> Server {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
        let address = listener.local_addr().unwrap();
        let connections = Arc::new(Mutex::new(Vec::new()));
        let (log, answer) = (Arc::clone(&connections), Arc::new(answer));
        thread::spawn(move || {
            for (number, stream) in listener.incoming().enumerate() {
                log.lock().unwrap().push(Vec::new());
                let (log, answer) = (Arc::clone(&log), Arc::clone(&answer));
                let mut stream = BufReader::new(stream.unwrap());
                thread::spawn(move || {
                    while let Some(head) = read_head(&mut stream) {
                        let (bytes, then) = answer(&head);
                        log.lock().unwrap()[number].push(head);
                        let mut out = stream.get_ref();
                        // A client that goes away has seen enough.
                        if out.write_all(&bytes).is_err() || then == Then::Close {
                            drop(out.shutdown(Shutdown::Both));
                            return;
                        }
                    }
                });
            }
        });
        Server {
            address,
            connections,
        }
    }

    pub(crate) fn url(&self, path: &str) -> Url {
        Url::parse(&format!("http://{}{path}", self.address)).unwrap()
    }

    /// Heads of the requests, for each connection.
    pub(crate) fn connections(&self) -> Vec<Vec<String>> {
        self.connections.lock().unwrap().clone()
    }

    /// Heads of all requests.
    pub(crate) fn asked(&self) -> Vec<String> {
        self.connections().concat()
    }
}

/// A head up to its empty line, `None` at the end.
pub(crate) fn read_head(stream: &mut impl std::io::BufRead) -> Option<String> {
    let mut head = String::new();
    while !head.ends_with("\r\n\r\n") {
        if stream.read_line(&mut head).unwrap_or(0) == 0 {
            return None;
        }
    }
    Some(head)
}
