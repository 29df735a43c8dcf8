use crawl::Rules as _;
use std::collections::BTreeMap;
use std::io::{Read as _, Write as _};
use std::net::TcpStream;

use url::Url;

use super::{AGENT, BODY_BYTES_MAX, Served, Site};
use crate::page;
use crate::robots::Robots;
use crate::sitemap;
use crate::trap::is_trap;

fn small() -> Site {
    Site::generate(1, 150)
}

/// One request on a connection of its own: head and body.
fn get(served: &Served, path: &str, headers: &str) -> (String, Vec<u8>) {
    let root = served.root().unwrap();
    let mut connection = TcpStream::connect(root.socket_addrs(|| None).unwrap()[0]).unwrap();
    let request = format!("GET {path} HTTP/1.1\r\nHost: h\r\nConnection: close\r\n{headers}\r\n");
    connection.write_all(request.as_bytes()).unwrap();
    let mut answer = Vec::new();
    connection.read_to_end(&mut answer).unwrap();
    let end = answer
        .windows(4)
        .position(|part| part == b"\r\n\r\n")
        .unwrap();
    let body = answer.split_off(end + 4);
    (String::from_utf8(answer).unwrap(), body)
}

fn header<'a>(head: &'a str, name: &str) -> Option<&'a str> {
    let mut lines = head.lines().filter_map(|line| line.split_once(": "));
    lines
        .find(|(known, _)| *known == name)
        .map(|(_, value)| value)
}

#[test]
fn the_same_seed_gives_the_same_site() {
    let bodies = |seed| {
        let site = Site::generate(seed, 150);
        let body = |path: &str| site.at(path).unwrap().body;
        site.resources
            .keys()
            .map(|path| (path.clone(), body(path)))
            .collect::<BTreeMap<_, _>>()
    };
    assert_eq!(bodies(1), bodies(1));
    assert_ne!(bodies(1), bodies(2));
}

#[test]
fn all_ordinary_pages_are_expected_and_nothing_hidden() {
    let expected = small().expected();
    let ordinary = expected
        .pages
        .iter()
        .filter(|path| path.starts_with("/docs/"));
    assert_eq!(ordinary.count(), 150);
    assert!(expected.pages.is_subset(&expected.requested));
    for beginning in ["/hidden/", "/private/x", "/calendar/2028/", "/loop/x/x/x/"] {
        assert!(
            !expected
                .requested
                .iter()
                .any(|path| path.starts_with(beginning)),
            "{beginning}"
        );
    }
    assert!(Site::generate(1, 0).expected().requested.len() > 200);
}

/// A crawl by the simplest means there are: no store, no queue by host, one request at a time.
#[test]
fn the_modules_together_find_what_is_expected() {
    let site = small();
    let served = site.serve().unwrap();
    let root = served.root().unwrap();
    let robots = Robots::parse(&get(&served, "/robots.txt", "").1, AGENT);
    let mut waiting = vec![root.clone()];
    let mut maps = Vec::from_iter(robots.sitemaps().iter().map(|map| Url::parse(map).unwrap()));
    let mut seen = std::collections::HashSet::new();
    let path = |url: &Url| url[url::Position::BeforePath..].to_owned();
    while let Some(map) = maps.pop() {
        let (_, body) = get(&served, &path(&map), "");
        let read = sitemap::read(&body, false).0;
        waiting.extend(
            read.pages
                .iter()
                .map(|page| Site::normal().parse(page).unwrap()),
        );
        maps.extend(read.maps.iter().map(|map| Url::parse(map).unwrap()));
    }
    while let Some(url) = waiting.pop() {
        let wanted = url.origin() == root.origin()
            && robots.allows(&url)
            && is_trap(&url, &Site::limits()).is_none();
        if !wanted || !seen.insert(url.clone()) {
            continue;
        }
        let (mut head, mut body) = get(&served, &path(&url), "");
        while head.starts_with("HTTP/1.1 503") {
            (head, body) = get(&served, &path(&url), "");
        }
        let is_html =
            header(&head, "Content-Type").is_some_and(|kind| kind.starts_with("text/html"));
        if head.starts_with("HTTP/1.1 3") {
            let location = header(&head, "Location");
            waiting.extend(location.and_then(|location| Site::normal().join(&url, location)));
        } else if head.starts_with("HTTP/1.1 200") && is_html {
            body.truncate(BODY_BYTES_MAX);
            let tag = header(&head, "X-Robots-Tag");
            let said = page::Said {
                content_type: header(&head, "Content-Type"),
                robots_tag: tag,
            };
            let page = page::read(
                &body,
                said,
                &url,
                Site::normal(),
                &mut page::Room::default(),
            );
            let links = page.addresses.iter().zip(&page.links);
            let followed = links.filter(|(_, link)| !page.nofollow && !link.nofollow);
            waiting.extend(followed.map(|(address, _)| Url::parse(address).unwrap()));
        }
    }
    let mut requests = served.requests();
    requests.remove("/robots.txt");
    let expected = site.expected().requested;
    let missed: Vec<_> = expected
        .iter()
        .filter(|path| !requests.contains_key(*path))
        .collect();
    let unwanted: Vec<_> = requests
        .keys()
        .filter(|path| !expected.contains(*path))
        .collect();
    assert!(
        missed.is_empty() && unwanted.is_empty(),
        "missed {missed:?}, unwanted {unwanted:?}"
    );
    assert!(requests.values().all(|&count| count == 1));
}

#[test]
fn what_is_known_is_not_sent_again() {
    let served = small().serve().unwrap();
    let (head, body) = get(&served, "/docs/0/7.html", "");
    assert!(head.starts_with("HTTP/1.1 200 ") && !body.is_empty());
    for (ask, tell) in [
        ("If-None-Match", "ETag"),
        ("If-Modified-Since", "Last-Modified"),
    ] {
        let known = format!("{ask}: {}\r\n", header(&head, tell).unwrap());
        let (head, body) = get(&served, "/docs/0/7.html", &known);
        assert!(
            head.starts_with("HTTP/1.1 304 ") && body.is_empty(),
            "{head}"
        );
    }
    let (head, _) = get(&served, "/docs/0/7.html", "If-None-Match: \"other\"\r\n");
    assert!(head.starts_with("HTTP/1.1 200 "));
    assert_eq!(served.requests()["/docs/0/7.html"], 4);
}

#[test]
fn packed_for_those_who_take_it() {
    let served = small().serve().unwrap();
    let (head, plain) = get(&served, "/packed/1", "");
    assert_eq!(header(&head, "Content-Encoding"), None);
    let (head, packed) = get(&served, "/packed/1", "Accept-Encoding: br, gzip\r\n");
    assert_eq!(header(&head, "Content-Encoding"), Some("gzip"));
    let mut unpacked = Vec::new();
    flate2::read::GzDecoder::new(&*packed)
        .read_to_end(&mut unpacked)
        .unwrap();
    assert_eq!(unpacked, plain);
}

#[test]
fn server_errors_count_once() {
    let served = small().serve().unwrap();
    let statuses = [(); 4].map(|()| get(&served, "/flaky/2", "").0[9..12].to_owned());
    assert_eq!(statuses, ["503", "503", "200", "200"]);
    assert_eq!(served.requests()["/flaky/2"], 2);
    get(&served, "/status/500", "");
    get(&served, "/status/500", "");
    assert_eq!(served.requests()["/status/500"], 1);
}

/// Several requests on one connection, and a connection that the server ends.
#[test]
fn connections_are_kept_until_the_end() {
    let served = small().serve().unwrap();
    let root = served.root().unwrap();
    let mut connection = TcpStream::connect(root.socket_addrs(|| None).unwrap()[0]).unwrap();
    for _ in 0..3 {
        connection
            .write_all(b"HEAD /docs/0/1.html HTTP/1.1\r\nHost: h\r\n\r\n")
            .unwrap();
        let mut head = Vec::new();
        while !head.ends_with(b"\r\n\r\n") {
            let mut byte = [0];
            connection.read_exact(&mut byte).unwrap();
            head.push(byte[0]);
        }
        assert!(head.starts_with(b"HTTP/1.1 200 OK\r\n"));
    }
    drop(served);
    let mut rest = Vec::new();
    // An end, or a reset: the server has gone, and this did not hang.
    assert!(!matches!(connection.read_to_end(&mut rest), Ok(1..)));
}
