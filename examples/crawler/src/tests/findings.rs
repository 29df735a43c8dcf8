//! The log, broken links and pages that were cut, by what the store says.

use std::collections::BTreeMap;
use std::io::{BufRead as _, BufReader, Write as _};
use std::net::TcpListener;

use serde_json::Value;

use super::program::{self, text};
use super::stops::{all_files, at, lines};
use super::{open, records, small_site};
use crate::record::{Record, State};
use crate::site::BODY_BYTES_MAX;

const PAGE_KEYS: [&str; 16] = [
    "event",
    "time",
    "url",
    "status",
    "state",
    "depth",
    "from",
    "type",
    "title",
    "bytes",
    "wire_bytes",
    "ms",
    "links",
    "cut",
    "noindex",
    "duplicate_of",
];
const TROUBLE_KEYS: [&str; 7] = [
    "event", "time", "url", "status", "why", "attempt", "given_up",
];

/// Each line has these keys, in this order, and no other.
fn check_keys(line: &str, keys: &[&str]) {
    let object: Value = serde_json::from_str(line).unwrap();
    assert_eq!(object.as_object().unwrap().len(), keys.len(), "{line}");
    let places = keys.iter().map(|key| line.find(&format!("\"{key}\":")));
    assert!(
        places.clone().all(|place| place.is_some()) && places.is_sorted(),
        "{line}"
    );
}

/// Crawls the site into every file; the records of its store and the object that it printed.
fn crawl_all(dir: &std::path::Path, root: &url::Url) -> (BTreeMap<u64, Record>, Value) {
    let options = [all_files(dir), vec![root.to_string()]].concat();
    let options: Vec<&str> = options.iter().map(String::as_str).collect();
    let ended = program::run(&options);
    assert_eq!(ended.code, Some(0), "{ended:?}");
    let cut = format!("cut at {BODY_BYTES_MAX} bytes: 1 of the pages");
    assert!(ended.stderr.contains(&cut), "{ended:?}");
    assert!(
        ended.stderr.contains("--recrawl --max-bytes N"),
        "{ended:?}"
    );
    (records(&open(&dir.join("store"))), program::json(&ended))
}

#[test]
fn the_log_says_what_happened_to_each_address() {
    let (_, served) = small_site();
    let (dir, root) = (tempfile::tempdir().unwrap(), served.root().unwrap());
    let (records, summary) = crawl_all(dir.path(), &root);
    let log = dir.path().join("log");
    let (mut done, mut from, mut copies) = (BTreeMap::new(), 0, 0);
    let numbers: BTreeMap<&str, u64> = records
        .iter()
        .map(|(id, record)| (record.url.as_str(), *id))
        .collect();
    let logged = lines(&log);
    for line in logged.iter().filter(|line| line["event"] == "page") {
        let url = line["url"].as_str().unwrap();
        assert!(done.insert(url, line).is_none(), "{url} is done twice");
        let id = numbers[url];
        let record = &records[&id];
        assert_eq!(line["status"], record.status);
        assert_eq!(line["state"], record.state.name());
        assert_eq!(line["depth"], record.depth);
        assert_eq!(line["title"], record.title);
        assert_eq!(line["bytes"], record.bytes);
        assert_eq!(line["wire_bytes"], record.wire_bytes);
        assert_eq!(line["cut"], record.truncated);
        assert_eq!(line["noindex"], record.noindex);
        assert!(
            line["links"].as_u64().unwrap() >= record.links.len() as u64,
            "{line}"
        );
        if let Some(page) = line["from"].as_str() {
            let page = &records[&numbers[page]];
            assert!(page.links.binary_search(&id).is_ok(), "{line}");
            from += 1;
        } else {
            let is_entry = url == root.as_str() || url.contains("sitemap");
            assert!(is_entry, "{line}");
        }
        if let Some(first) = line["duplicate_of"].as_str() {
            let first = &records[&numbers[first]];
            assert_ne!(first.url, url);
            assert_eq!(first.content_hash, record.content_hash);
            copies += 1;
        }
    }
    assert!(from > 200, "{from}");
    assert_eq!(summary["exact_duplicates"], copies);
    assert!(copies > 0);
    let front = done[root.as_str()];
    assert_eq!(front["type"], "text/html");
    assert!(
        front["time"]
            .as_str()
            .is_some_and(|time| time.ends_with('Z'))
    );
    let cut: Vec<_> = done.values().filter(|line| line["cut"] == true).collect();
    assert_eq!((cut.len() as u64, &summary["cut"]), (1, &1.into()));
    assert_eq!(summary["cut_pages"], serde_json::json!([cut[0]["url"]]));
}

#[test]
fn the_log_names_every_attempt_that_failed() {
    let (_, served) = small_site();
    let (dir, root) = (tempfile::tempdir().unwrap(), served.root().unwrap());
    let (_, summary) = crawl_all(dir.path(), &root);
    let logged = lines(&dir.path().join("log"));
    let of = |url: &str| -> Vec<&Value> {
        let trouble = logged.iter().filter(|line| line["event"] == "trouble");
        trouble.filter(|line| line["url"] == *url).collect()
    };
    let fails = of(&at(&root, "/status/500"));
    let attempts: Vec<_> = fails
        .iter()
        .map(|line| (&line["attempt"], &line["given_up"]))
        .collect();
    let expected: Vec<(Value, Value)> = (1..=4).map(|n| (n.into(), (n == 4).into())).collect();
    assert!(
        attempts
            .into_iter()
            .eq(expected.iter().map(|(n, end)| (n, end)))
    );
    assert!(
        fails
            .iter()
            .all(|line| line["why"] == "status 500" && line["status"] == 500)
    );
    let given_up = logged
        .iter()
        .filter(|line| line["given_up"] == true)
        .count();
    let retried = logged
        .iter()
        .filter(|line| line["given_up"] == false)
        .count();
    assert_eq!(summary["failed"], given_up);
    assert_eq!(summary["retries"], retried);
    let log = std::fs::read_to_string(dir.path().join("log")).unwrap();
    for line in log.lines() {
        let is_page = line.starts_with("{\"event\":\"page\"");
        check_keys(line, if is_page { &PAGE_KEYS } else { &TROUBLE_KEYS });
    }
}

#[test]
fn broken_links_name_the_pages_that_have_them() {
    let (_, served) = small_site();
    let (dir, root) = (tempfile::tempdir().unwrap(), served.root().unwrap());
    let (records, summary) = crawl_all(dir.path(), &root);
    let broken = lines(&dir.path().join("broken"));
    let is_broken = |record: &Record| matches!(record.state, State::Refused | State::Failed);
    let expected: Vec<(&u64, &Record)> = records
        .iter()
        .filter(|(_, record)| is_broken(record))
        .collect();
    assert!(expected.len() > 4);
    assert_eq!(broken.len(), expected.len());
    assert_eq!(summary["broken"], expected.len());
    let page = std::fs::read_to_string(dir.path().join("html")).unwrap();
    for (line, (id, record)) in broken.iter().zip(expected) {
        assert_eq!(
            (&line["url"], &line["status"]),
            (&record.url.as_str().into(), &record.status.into())
        );
        let from: Vec<&str> = records
            .values()
            .filter(|page| page.links.contains(id))
            .map(|page| page.url.as_str())
            .collect();
        assert!(!from.is_empty());
        assert_eq!(line["links"], from.len());
        let named: Vec<&str> = line["linked_from"]
            .as_array()
            .unwrap()
            .iter()
            .map(|url| url.as_str().unwrap())
            .collect();
        assert_eq!(named, from[..from.len().min(10)]);
        assert!(
            page.contains(&format!("<tr><td>{}</td>", record.url)),
            "{}",
            record.url
        );
    }
    let status = |code| broken.iter().find(|line| line["status"] == code).unwrap();
    assert_eq!(status(404)["why"], "status 404");
    assert_eq!(status(500)["why"], "status 500");
}

/// Serves one page of 2,000 bytes that never changes, and says so to who asks.
fn serve_one_page(listener: &TcpListener) {
    for connection in listener.incoming() {
        let Ok(mut connection) = connection else {
            return;
        };
        let mut head = String::new();
        let mut reader = BufReader::new(connection.try_clone().unwrap());
        while !head.ends_with("\r\n\r\n") && reader.read_line(&mut head).unwrap() > 0 {}
        let (status, body) = if head.starts_with("GET /robots.txt") {
            ("404 Not Found", String::new())
        } else if head.to_ascii_lowercase().contains("if-none-match") {
            ("304 Not Modified", String::new())
        } else {
            ("200 OK", "x".repeat(2000))
        };
        let length = body.len();
        let answer = format!(
            "HTTP/1.1 {status}\r\nETag: \"one\"\r\nContent-Type: text/plain\r\n\
             Content-Length: {length}\r\nConnection: close\r\n\r\n{body}"
        );
        // A crawler that has read enough closes the connection.
        drop(connection.write_all(answer.as_bytes()));
    }
}

/// A page that was cut is asked for again without a condition: the server would say that it has not
/// changed.
#[test]
fn a_cut_page_is_whole_after_a_crawl_with_more_room() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let root = format!("http://{}/", listener.local_addr().unwrap());
    std::thread::spawn(move || serve_one_page(&listener));
    let dir = tempfile::tempdir().unwrap();
    let store = dir.path().join("store");
    let crawl = |options: &[&str]| {
        let options = [&["--store", text(&store), "--json", &root], options].concat();
        let ended = program::run(&options);
        assert_eq!(ended.code, Some(0), "{ended:?}");
        let summary = program::json(&ended);
        let records = records(&open(&store));
        (
            summary["cut"].clone(),
            summary["not_modified"].clone(),
            records[&0].bytes,
        )
    };
    let (most, more) = (["--max-bytes", "1000"], ["--max-bytes", "2000"]);
    assert_eq!(crawl(&most), (1.into(), 0.into(), 1000));
    assert_eq!(
        crawl(&[&["--recrawl"], &most[..]].concat()),
        (1.into(), 0.into(), 1000)
    );
    assert_eq!(
        crawl(&[&["--recrawl"], &more[..]].concat()),
        (0.into(), 0.into(), 2000)
    );
    assert_eq!(
        crawl(&[&["--recrawl"], &more[..]].concat()),
        (0.into(), 1.into(), 2000)
    );
}
