//! URLs, from a server on loopback.

use std::io::{BufRead as _, BufReader, Write as _};
use std::net::TcpListener;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use super::{Place, noise};
use crate::exit::Exit;

/// Serves `content` with an ETag at every path but `/none`; counts the bodies it sent.
pub(super) fn serve(content: Vec<u8>) -> (String, Arc<AtomicU64>) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    let sent = Arc::new(AtomicU64::new(0));
    let count = Arc::clone(&sent);
    // Ends with the process: nothing waits for it.
    std::thread::spawn(move || {
        for stream in listener.incoming() {
            let mut stream = stream.unwrap();
            let mut request = String::new();
            for line in BufReader::new(&stream).lines() {
                let line = line.unwrap();
                if line.is_empty() {
                    break;
                }
                request += &(line.to_lowercase() + "\n");
            }
            let head = if request.starts_with("get /none ") {
                "404 Not Found"
            } else if request.contains("if-none-match: \"one\"") {
                "304 Not Modified"
            } else {
                count.fetch_add(1, Ordering::Relaxed);
                "200 OK"
            };
            let is_body = head.starts_with("200");
            let len = if is_body { content.len() } else { 0 };
            write!(
                stream,
                "HTTP/1.1 {head}\r\nETag: \"one\"\r\nContent-Length: {len}\r\nConnection: close\r\n\r\n"
            )
            .unwrap();
            stream.write_all(&content[..len]).unwrap();
        }
    });
    (format!("http://{address}"), sent)
}

#[test]
fn a_url_is_fetched_once() {
    let place = Place::new();
    let content = noise(1, 50_000);
    place.write("a", &content);
    drop(place.ingest(&[]));
    let (server, sent) = serve(content);
    let (url, none) = (format!("{server}/x/y?z"), format!("{server}/none"));
    let ended = place.ingest_these(&[&url, &none, "https://localhost/"]);
    assert_eq!(
        (ended.counts.duplicates, ended.counts.stored),
        (1, 0),
        "it is that of a file"
    );
    assert_eq!(ended.counts.troubles, 2, "not found, and not spoken");
    drop(ended);
    let ended = place.ingest_these(&[&url]);
    assert_eq!(
        (ended.counts.unchanged, sent.load(Ordering::Relaxed)),
        (1, 1)
    );
    drop(ended);
    assert_eq!(place.run(&["check"]).unwrap(), Exit::Done);
    let to = place.out.to_str().unwrap();
    assert_eq!(
        place.run(&["extract", "--to", to, &url]).unwrap(),
        Exit::Done
    );
    assert_eq!(super::files(&place.out).len(), 1);
}

#[test]
fn a_url_without_end_is_skipped() {
    let place = Place::new();
    let (server, _) = serve(noise(1, 50_000));
    let ended = place.ingest_these(&[&server, "--download-max", "1000"]);
    assert_eq!((ended.counts.troubles, ended.counts.stored), (1, 0));
    drop(ended);
    assert!(!place.store.join("incoming").exists());
}
