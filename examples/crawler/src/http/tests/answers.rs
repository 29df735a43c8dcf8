//! Answers of all kinds, and connections that end.

use std::io::{Read as _, Write as _};
use std::net::TcpListener;
use std::sync::Arc;

use flate2::Compression;
use flate2::read::{DeflateEncoder, GzEncoder, ZlibEncoder};

use super::super::*;
use super::server::{Server, Then, answer};

const MOST: usize = 100_000;

/// Asks a server that may be silent for so many seconds.
fn ask(url: &Url, seconds: u64) -> Result<Response, Trouble> {
    let limits = Limits {
        silence: Duration::from_secs(seconds),
        whole: Duration::from_secs(60),
        body_bytes: MOST,
    };
    let client = Client::new(Tls::new(None).unwrap(), limits, Arc::default());
    let request = format!("GET {} HTTP/1.1\r\nHost: h\r\n\r\n", url.path());
    client.exchange(url, request.as_bytes(), Body::default(), &mut None)
}

/// The one answer of a server that always says this.
fn answered(bytes: &[u8], then: Then) -> Result<Response, Trouble> {
    let bytes = bytes.to_vec();
    let server = Server::start(move |_| (bytes.clone(), then));
    ask(&server.url("/"), 20)
}

/// The same from a server that says nothing more then, which is soon believed.
fn answered_and_silent(bytes: &[u8]) -> Result<Response, Trouble> {
    let bytes = bytes.to_vec();
    let server = Server::start(move |_| (bytes.clone(), Then::Stay));
    ask(&server.url("/"), 2)
}

fn whole(headers: &[&str], body: &[u8]) -> Response {
    let (bytes, then) = answer("200 OK", headers, body);
    answered(&bytes, then).unwrap()
}

#[test]
fn as_many_headers_as_a_head_has_room_for() {
    for count in [0, 127, 128, 129, 300, 5000] {
        let headers: Vec<String> = (0..count).map(|number| format!("X{number}: 1")).collect();
        let mut headers: Vec<&str> = headers.iter().map(String::as_str).collect();
        headers.push("ETag: \"last\"");
        let response = whole(&headers, b"body\n\n\n");
        assert_eq!(response.body(), b"body\n\n\n", "{count}");
        let etag = Head::find(&response.head.raw, "etag");
        assert_eq!(etag.as_deref(), Some("\"last\""), "{count}");
        let lines = response.head.raw.iter().filter(|&&byte| byte == b'\n');
        assert_eq!(lines.count(), count + 4);
    }
}

#[test]
fn a_head_ends_before_its_limit() {
    let of = |len: usize| {
        let rest = "HTTP/1.1 200 OK\r\nX: \r\nContent-Length: 0\r\n\r\n".len();
        let long = format!("X: {}", "x".repeat(len - rest));
        let (bytes, then) = answer("200 OK", &[&long], b"");
        assert_eq!(bytes.len(), len);
        answered(&bytes, then).map(|response| response.head.raw.len())
    };
    assert_eq!(of(HEAD_BYTES_MAX).unwrap(), HEAD_BYTES_MAX);
    for len in [HEAD_BYTES_MAX + 1, 3 * HEAD_BYTES_MAX] {
        assert_eq!(of(len).unwrap_err().to_string(), "the headers are too long");
    }
    let many = "a:\n".repeat(HEAD_BYTES_MAX);
    let many = answered(format!("HTTP/1.1 200 OK\n{many}\n").as_bytes(), Then::Stay);
    assert_eq!(many.unwrap_err().to_string(), "the headers are too long");
}

fn packed(coding: &str, bytes: &[u8]) -> Vec<u8> {
    let mut out = Vec::new();
    let level = Compression::fast();
    let result = match coding {
        "gzip" => GzEncoder::new(bytes, level).read_to_end(&mut out),
        "zlib" => ZlibEncoder::new(bytes, level).read_to_end(&mut out),
        _ => DeflateEncoder::new(bytes, level).read_to_end(&mut out),
    };
    result.unwrap();
    out
}

#[test]
fn content_codings_are_undone_from_the_last() {
    let page = b"<p>A page, a page, a page.".repeat(20);
    let check = |headers: &[&str], packings: &[&str]| {
        let body = packings
            .iter()
            .fold(page.clone(), |body, coding| packed(coding, &body));
        let response = whole(headers, &body);
        assert!(
            response.trouble().is_none(),
            "{headers:?}: {:?}",
            response.trouble()
        );
        assert!(response.body() == page, "{headers:?}");
        assert!(
            *response.wire == *body && !response.truncated,
            "{headers:?}"
        );
    };
    check(&[], &[]);
    check(&["Content-Encoding: identity"], &[]);
    check(&["Content-Encoding:"], &[]);
    check(&["Content-Encoding: GZIP"], &["gzip"]);
    check(&["Content-Encoding: x-gzip"], &["gzip"]);
    check(&["Content-Encoding: deflate"], &["zlib"]);
    check(&["Content-Encoding: deflate"], &["raw"]);
    check(&["Content-Encoding: gzip, gzip"], &["gzip", "gzip"]);
    check(
        &["Content-Encoding: deflate, identity ,gzip"],
        &["raw", "gzip"],
    );
    check(
        &["Content-Encoding: deflate", "content-encoding: gzip"],
        &["zlib", "gzip"],
    );
    check(
        &["Content-Encoding: gzip, gzip, deflate, gzip"],
        &["gzip", "gzip", "raw", "gzip"],
    );
}

#[test]
fn a_body_that_cannot_be_unpacked_is_no_page() {
    let check = |header: &str, body: &[u8], expected: &str| {
        let response = whole(&[header], body);
        let what = response.trouble().unwrap().to_string();
        assert!(what.contains(expected), "{header}: {what}");
        assert_eq!((&*response.wire, response.cut), (body, None), "{header}");
    };
    check(
        "Content-Encoding: br",
        b"\x0b\x02\x80page\x03",
        "the content coding \"br\"",
    );
    check(
        "Content-Encoding: br, gzip",
        &packed("gzip", b"x"),
        "\"br\"",
    );
    check("Content-Encoding: gzip, zstd", b"x", "\"zstd\"");
    check(
        "Content-Encoding: gzip",
        b"<p>plain",
        "not compressed as its head says",
    );
    check(
        "Content-Encoding: deflate",
        b"\xff\xff\xff\xff",
        "not compressed as its head says",
    );
    check(
        "Content-Encoding: gzip, gzip",
        &packed("gzip", b"<p>plain"),
        "as its head says",
    );
    let five = "Content-Encoding: gzip,gzip,gzip,gzip,gzip";
    check(five, b"x", "more than 4 content codings");
    // Nothing needs no unpacking.
    let nothing = whole(&["Content-Encoding: gzip"], b"");
    assert!(nothing.trouble().is_none() && !nothing.truncated);
}

#[test]
fn each_coding_ends_at_the_limit() {
    let many = vec![b'a'; 5 * MOST];
    let once = whole(&["Content-Encoding: gzip"], &packed("gzip", &many));
    assert!(once.body() == &many[..MOST] && once.truncated);
    // The limit cut what came out, not what came over the wire.
    assert!(once.cut.is_none() && once.trouble().is_none());
    // What is within is too long, and what is within that: the limit holds at each step.
    let random = xxhashes(2 * MOST);
    let body = packed("gzip", &packed("gzip", &[random, many].concat())[..]);
    assert!(body.len() > MOST);
    let (bytes, then) = answer("200 OK", &["Content-Encoding: gzip, gzip"], &body);
    let twice = answered(&bytes, then).unwrap();
    assert_eq!((twice.wire.len(), twice.cut), (MOST, Some(Cut::Length)));
    assert!(!twice.body().is_empty() && twice.body().len() <= MOST && twice.truncated);
}

/// Bytes that no coding makes shorter.
fn xxhashes(len: usize) -> Vec<u8> {
    let hash = |number: u64| xxhash_rust::xxh3::xxh3_64(&number.to_le_bytes()).to_le_bytes();
    (0..len as u64 / 8).flat_map(hash).collect()
}

#[test]
fn a_body_that_ends_early_is_kept_with_the_reason() {
    let check = |text: &str, cut: Cut, expected: &str| {
        let response = match cut {
            Cut::Time => answered_and_silent(text.as_bytes()).unwrap(),
            _ => answered(text.as_bytes(), Then::Close).unwrap(),
        };
        assert_eq!(&*response.wire, b"half", "{text:?}");
        assert_eq!(response.cut, Some(cut), "{text:?}");
        assert_eq!(
            response.trouble().unwrap().to_string(),
            expected,
            "{text:?}"
        );
    };
    let (ended, silent) = (
        "the connection ended before the answer did",
        "the server was silent for 2 s",
    );
    let length = "HTTP/1.1 200 OK\r\nContent-Length: 8\r\n\r\nhalf";
    let chunks = "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n4\r\nhalf\r\n";
    let until_close = "HTTP/1.1 200 OK\r\n\r\nhalf";
    check(length, Cut::Disconnect, ended);
    check(chunks, Cut::Disconnect, ended);
    // At the same time, so that they wait together.
    std::thread::scope(|scope| {
        for text in [length, chunks, until_close] {
            scope.spawn(move || check(text, Cut::Time, silent));
        }
    });
    let nonsense = format!("{chunks}nonsense\r\n");
    check(&nonsense, Cut::Nonsense, "the size of a chunk is nonsense");
    // Without a length, the end of the connection is the end of the body.
    let response = answered(until_close.as_bytes(), Then::Close).unwrap();
    assert!(response.cut.is_none() && response.trouble().is_none() && !response.truncated);
}

#[test]
fn the_limit_cuts_and_is_no_trouble() {
    let response = whole(&[], &vec![b'a'; MOST + 1]);
    assert_eq!(
        (response.wire.len(), response.cut),
        (MOST, Some(Cut::Length))
    );
    assert!(response.truncated && response.trouble().is_none());
    let response = whole(&[], &vec![b'a'; MOST]);
    assert_eq!((response.wire.len(), response.cut), (MOST, None));
    assert!(!response.truncated);
}

#[test]
fn no_answer_in_plain_words() {
    let silent = answered_and_silent(b"").unwrap_err();
    assert_eq!(silent.to_string(), "the server was silent for 2 s");
    let ended = answered(b"HTTP/1.1 20", Then::Close).unwrap_err();
    assert_eq!(
        ended.to_string(),
        "the connection ended before the answer did"
    );
    // A port that was just given back.
    let address = TcpListener::bind("127.0.0.1:0")
        .unwrap()
        .local_addr()
        .unwrap();
    let refused = ask(&Url::parse(&format!("http://{address}/")).unwrap(), 20).unwrap_err();
    let expected = format!("no connection to {address}: the connection was refused");
    assert_eq!(refused.to_string(), expected);
    // So long a label is no name: nobody is asked for it.
    let long = "x".repeat(64);
    let unknown = ask(&Url::parse(&format!("http://{long}.invalid/")).unwrap(), 20).unwrap_err();
    let unknown = unknown.to_string();
    let expected = format!("no address for {long}.invalid: ");
    assert!(
        unknown.starts_with(&expected) && !unknown.contains("os error"),
        "{unknown}"
    );
}

#[test]
fn heads_that_make_no_sense() {
    let check = |head: &str, expected: &str| {
        let answer = format!("{head}\r\n\r\n");
        let what = answered(answer.as_bytes(), Then::Stay)
            .unwrap_err()
            .to_string();
        assert!(what.contains(expected), "{head}: {what}");
    };
    check("SSH-2.0-OpenSSH", "not HTTP/1");
    check("HTTP/1.1 101 Switching", "upgrade");
    check(
        "HTTP/1.1 200 OK\r\nContent-Length: -1",
        "length of the body is nonsense",
    );
    check(
        "HTTP/1.1 200 OK\r\nTransfer-Encoding: gzip, chunked",
        "transfer coding \"gzip\"",
    );
}

#[test]
fn interim_answers_are_passed_over() {
    let (last, then) = answer("200 OK", &[], b"page");
    let answer = [
        &b"HTTP/1.1 103 Early Hints\r\nLink: </x>\r\n\r\n"[..],
        &last,
    ]
    .concat();
    assert_eq!(answered(&answer, then).unwrap().body(), b"page");
}

/// A server of plain HTTP on a port where https is expected.
#[test]
fn https_where_nobody_speaks_it() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    std::thread::spawn(move || {
        let (mut stream, _) = listener.accept().unwrap();
        let mut first = [0; 8];
        stream.read_exact(&mut first).unwrap();
        stream
            .write_all(b"HTTP/1.1 400 Bad Request\r\n\r\n")
            .unwrap();
        // Until the client has gone.
        drop(stream.read_to_end(&mut Vec::new()));
    });
    let what = ask(&Url::parse(&format!("https://{address}/")).unwrap(), 20).unwrap_err();
    assert_eq!(
        what.to_string(),
        "the server does not speak https on this port"
    );
}
