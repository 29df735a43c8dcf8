//! Requests through a proxy.

use std::io::{BufReader, Write as _};
use std::net::{Shutdown, TcpListener, TcpStream};
use std::sync::{Arc, Mutex};
use std::thread;

use super::super::*;
use super::server::{Server, Then, answer, read_head};
use super::{LIMITS, certificates};
use crate::by_host::ByHost;
use crate::scope::Scope;

fn client(tls: Tls, proxy: &str) -> Client {
    let general = Extra {
        proxy: Some(Arc::new(Proxy::parse(proxy).unwrap())),
        ..Extra::default()
    };
    let extras = Extras::new(&general, ByHost::default(), (Scope::Host, &[]));
    Client::new(tls, LIMITS, Arc::new(extras))
}

fn ask(client: &Client, url: &str, kept: &mut Option<Connection>) -> Result<Response, Trouble> {
    let url = Url::parse(url).unwrap();
    let mut request = Vec::new();
    let ask = Ask {
        agent: "test".into(),
        gzip: false,
        extras: Arc::default(),
    };
    ask.write(&url, &Conditional::default(), &mut request);
    client.exchange(&url, &request, Body::default(), kept)
}

fn browsers() -> Tls {
    Tls::new(None).unwrap()
}

#[test]
fn http_asks_the_proxy_for_the_whole_url() {
    let proxy = Server::start(|_| answer("200 OK", &[], b"page"));
    let address = proxy.address;
    let client = client(browsers(), &format!("http://me:pass@{address}"));
    let mut kept = None;
    for path in ["/1?q", "/2"] {
        let response = ask(&client, &format!("http://site.invalid{path}"), &mut kept).unwrap();
        assert_eq!(response.body(), b"page");
        assert!(kept.is_some());
    }
    let connections = proxy.connections();
    assert_eq!(connections.len(), 1);
    let expected = "GET http://site.invalid/1?q HTTP/1.1\r\n\
        Proxy-Authorization: Basic bWU6cGFzcw==\r\nHost: site.invalid\r\n";
    assert!(
        connections[0][0].starts_with(expected),
        "{}",
        connections[0][0]
    );
    assert!(connections[0][1].starts_with("GET http://site.invalid/2 HTTP/1.1\r\n"));
}

#[test]
fn a_proxy_that_wants_to_know_who_asks() {
    let proxy = Server::start(|_| answer("407 Proxy Authentication Required", &[], b""));
    let address = proxy.address;
    let client = client(browsers(), &format!("http://{address}"));
    let what = ask(&client, "http://site.invalid/", &mut None)
        .unwrap_err()
        .to_string();
    let expected =
        format!("the proxy {address} asks for a user name and a password; write http://");
    assert!(what.starts_with(&expected), "{what}");
    let what = ask(&client, "https://site.invalid/", &mut None)
        .unwrap_err()
        .to_string();
    let expected = format!(
        "the proxy {address} refused CONNECT site.invalid:443: status 407 \
         \"Proxy Authentication Required\"; write http://"
    );
    assert!(what.starts_with(&expected), "{what}");
}

#[test]
fn a_proxy_that_does_not_help() {
    let check = |bytes: &'static [u8], then, expected: &str| {
        let proxy = Server::start(move |_| (bytes.to_vec(), then));
        let client = client(browsers(), &format!("http://{}", proxy.address));
        let what = ask(&client, "https://site.invalid:8443/", &mut None).unwrap_err();
        let expected = format!("the proxy {}{expected}", proxy.address);
        assert_eq!(what.to_string(), expected);
        let asked = proxy.asked();
        assert!(
            asked[0]
                .starts_with("CONNECT site.invalid:8443 HTTP/1.1\r\nHost: site.invalid:8443\r\n")
        );
    };
    let refused = " refused CONNECT site.invalid:8443: status";
    check(
        b"HTTP/1.1 403 Forbidden\r\n\r\n",
        Then::Stay,
        &format!("{refused} 403 \"Forbidden\""),
    );
    check(
        b"HTTP/1.0 502\r\n\r\n",
        Then::Close,
        &format!("{refused} 502"),
    );
    check(
        b"",
        Then::Close,
        ": the connection ended before the answer did",
    );
    check(b"no\r\n\r\n", Then::Stay, ": the answer is not HTTP/1");
    let early = " sent more than its answer to CONNECT site.invalid:8443";
    check(b"HTTP/1.1 200 OK\r\n\r\nearly", Then::Stay, early);
    let gone = TcpListener::bind("127.0.0.1:0")
        .unwrap()
        .local_addr()
        .unwrap();
    for url in ["http://site.invalid/", "https://site.invalid/"] {
        let client = client(browsers(), &format!("http://{gone}"));
        let what = ask(&client, url, &mut None).unwrap_err().to_string();
        let expected =
            format!("the proxy {gone}: no connection to {gone}: the connection was refused");
        assert_eq!(what, expected);
    }
}

/// Tunnels to where CONNECT says; the heads that it saw.
fn tunnels() -> (std::net::SocketAddr, Arc<Mutex<Vec<String>>>) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    let heads = Arc::new(Mutex::new(Vec::new()));
    let log = Arc::clone(&heads);
    thread::spawn(move || {
        for client in listener.incoming() {
            let client = client.unwrap();
            let head = read_head(&mut BufReader::with_capacity(1, &client)).unwrap();
            let target = head.split(' ').nth(1).unwrap().to_owned();
            log.lock().unwrap().push(head);
            let server = TcpStream::connect(target).unwrap();
            let ready = b"HTTP/1.1 200 Connection established\r\n\r\n";
            (&mut &client).write_all(ready).unwrap();
            for (from, to) in [(&client, &server), (&server, &client)] {
                let (mut from, mut to) = (from.try_clone().unwrap(), to.try_clone().unwrap());
                thread::spawn(move || {
                    drop(io::copy(&mut from, &mut to));
                    drop(to.shutdown(Shutdown::Both));
                });
            }
        }
    });
    (address, heads)
}

#[test]
fn https_goes_through_a_tunnel() {
    let server = super::Server::start(100_000);
    let (address, heads) = tunnels();
    let tls = Tls::new(Some(&certificates().join("ca.pem"))).unwrap();
    let client = client(tls, &format!("http://me:pass@{address}"));
    let mut kept = None;
    for _ in 0..3 {
        let response = ask(&client, &format!("https://{}/x", server.address), &mut kept).unwrap();
        assert_eq!(response.body(), vec![b'b'; 100_000]);
        assert!(kept.is_some());
    }
    let target = server.address;
    let expected = format!(
        "CONNECT {target} HTTP/1.1\r\nHost: {target}\r\n\
         Proxy-Authorization: Basic bWU6cGFzcw==\r\n\r\n"
    );
    assert_eq!(*heads.lock().unwrap(), [expected]);
}
