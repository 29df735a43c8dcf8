use std::collections::{BTreeMap, HashMap, HashSet, VecDeque};
use std::io::{Read as _, Write as _};
use std::net::TcpStream;

use common::codec::Malformed;
use crawl::Rules as _;
use url::Url;

use super::{AGENT, BODY_BYTES_MAX, Served, Site, URL_BYTES_MAX};
use crate::budget::{Budgets, Limits, TRAP_BUDGET};
use crate::embedded::Comparison;
use crate::page;
use crate::robots::Robots;
use crate::sitemap;

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
    for beginning in [
        "/hidden/",
        "/private/x",
        "/calendar/2026",
        "/loop/",
        "/cal?",
    ] {
        assert!(
            !expected
                .requested
                .iter()
                .any(|path| path.starts_with(beginning)),
            "{beginning}"
        );
    }
    assert!(Site::generate(1, 0).expected().requested.len() > 200);
    let parts: Vec<_> = expected
        .endless
        .iter()
        .map(|part| part.first.len())
        .collect();
    assert!(
        parts.len() > 5 && parts.iter().all(|&first| first >= 30),
        "{parts:?}"
    );
    let of = |path| expected.endless_of(path).map(|part| &*part.beginning);
    assert_eq!(of("/calendar/2023/12"), Some("/calendar/"));
    assert_eq!(of("/calendar/2023/12/"), None);
}

/// Months differ from all others, and so do the sessions of a page.
#[test]
fn parts_without_end_are_what_they_should_be() {
    let body = |path: &str| String::from_utf8(small().at(path).unwrap().body.to_vec()).unwrap();
    let all = ["/cal?y=2026&m=1", "/cal?y=2026&m=2", "/cal?y=2027&m=1"].map(body);
    assert!(all[0] != all[1] && all[0] != all[2] && all[1] != all[2]);
    assert!(
        all[0].contains("href=\"cal?y=2025&amp;m=12\""),
        "{}",
        all[0]
    );
    let (one, other) = (body("/sessions/3?sid=a"), body("/sessions/3?sid=b"));
    let sids = |body: &str| {
        let parts = body.split("?sid=").skip(1);
        let sids = parts.map(|part| part.split('"').next().unwrap().to_owned());
        sids.collect::<std::collections::BTreeSet<_>>()
    };
    assert_eq!((sids(&one).len(), sids(&other).len()), (30, 30));
    assert!(sids(&one).is_disjoint(&sids(&other)));
    assert!(small().at("/sessions/30").is_none());
}

/// A crawl by the simplest means there are: no store, no queue by host, one request at a time.
#[test]
fn the_modules_together_find_what_is_expected() {
    let site = small();
    let served = site.serve().unwrap();
    let root = served.root().unwrap();
    let robots = Robots::parse(&get(&served, "/robots.txt", "").1, AGENT);
    let mut waiting = VecDeque::from([root.clone()]);
    let mut maps = Vec::from_iter(robots.sitemaps().iter().map(|map| Url::parse(map).unwrap()));
    while let Some(map) = maps.pop() {
        let (_, body) = get(&served, path(&map), "");
        let read = sitemap::read(&body, false).0;
        waiting.extend(
            read.pages
                .iter()
                .map(|page| Site::normal().parse(page).unwrap()),
        );
        maps.extend(read.maps.iter().map(|map| Url::parse(map).unwrap()));
    }
    let mut seen = HashSet::new();
    let mut budgets = Budgets::new(Limits {
        trap_budget: TRAP_BUDGET,
        host_pages: None,
        directory_pages: None,
    });
    let mut kept = HashMap::new();
    while let Some(url) = waiting.pop_front() {
        let wanted = url.origin() == root.origin()
            && robots.allows(&url)
            && url.as_str().len() <= URL_BYTES_MAX;
        let mut load = |key: &[u8]| Ok::<_, Malformed>(kept.get(key).cloned());
        if !wanted || !seen.insert(url.clone()) || budgets.admit(&url, &mut load).unwrap().is_some()
        {
            continue;
        }
        let Some(page) = fetch(&served, &url, &mut waiting) else {
            continue;
        };
        let read = budgets.read(&url, &page.sketch, &mut load).unwrap();
        let links = page.addresses.iter().zip(&page.links);
        let followed = links.filter(|(_, link)| !page.nofollow && !link.nofollow);
        let mut leads_on = false;
        for (address, _) in followed.filter(|_| read.left_out.is_none()) {
            let target = Url::parse(address).unwrap();
            leads_on |= !seen.contains(&target);
            waiting.push_back(target);
        }
        let writes = budgets.finish(&read, leads_on, &mut load).unwrap();
        kept.extend(writes.into_iter().map(|write| (write.key, write.value)));
    }
    let compared = Comparison::of(&site.expected(), &served.requests());
    assert_eq!(compared, Comparison::default());
}

fn path(url: &Url) -> &str {
    &url[url::Position::BeforePath..]
}

/// Fetches an address. The target of a redirect waits then; a page is returned.
fn fetch(served: &Served, url: &Url, waiting: &mut VecDeque<Url>) -> Option<page::Page> {
    let (mut head, mut body) = get(served, path(url), "");
    while head.starts_with("HTTP/1.1 503") {
        (head, body) = get(served, path(url), "");
    }
    if head.starts_with("HTTP/1.1 3") {
        let location = header(&head, "Location");
        waiting.extend(location.and_then(|location| Site::normal().join(url, location)));
    }
    let is_html = header(&head, "Content-Type").is_some_and(|kind| kind.starts_with("text/html"));
    if !head.starts_with("HTTP/1.1 200") || !is_html {
        return None;
    }
    for coding in header(&head, "Content-Encoding")
        .into_iter()
        .flat_map(|all| all.rsplit(", "))
    {
        body = unpacked(&body, coding);
    }
    body.truncate(BODY_BYTES_MAX);
    let said = page::Said {
        content_type: header(&head, "Content-Type"),
        robots_tag: header(&head, "X-Robots-Tag"),
    };
    let mut room = page::Room::default();
    Some(page::read(&body, said, url, Site::normal(), &mut room))
}

fn unpacked(body: &[u8], coding: &str) -> Vec<u8> {
    let mut out = Vec::new();
    let is_zlib = body.first() == Some(&0x78);
    match coding {
        "gzip" => flate2::read::GzDecoder::new(body).read_to_end(&mut out),
        _ if is_zlib => flate2::read::ZlibDecoder::new(body).read_to_end(&mut out),
        _ => flate2::read::DeflateDecoder::new(body).read_to_end(&mut out),
    }
    .unwrap();
    out
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
    assert_eq!(unpacked(&packed, "gzip"), plain);
    let (head, packed) = get(&served, "/packed/two", "");
    assert_eq!(header(&head, "Content-Encoding"), Some("deflate, gzip"));
    let page = unpacked(&unpacked(&packed, "gzip"), "deflate");
    assert!(page.starts_with(b"<!DOCTYPE html>"));
    let (_, packed) = get(&served, "/packed/deflate", "");
    assert!(unpacked(&packed, "deflate").starts_with(b"<!DOCTYPE html>"));
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
