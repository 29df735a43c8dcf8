//! The web archive of a crawl that is stopped or killed: every page that the store calls fetched is
//! in it, whole.
#![expect(clippy::print_stdout, reason = "a long test says what it did")]
#![expect(
    clippy::disallowed_methods,
    reason = "tests change archives as a kill would"
)]

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Duration;

use clap::Parser as _;
use url::Url;

use super::{crawl, open, records};
use crate::args::Args;
use crate::failure::Exit;
use crate::http::tests::server::{Server, Then, answer};
use crate::record::State;
use crate::setup::Plan;
use crate::site::{Served, Site};
use crate::warc::tests::{field, records_of};

/// Rounds of two kills each; a few, unless this variable says how many.
const ROUNDS: &str = "CRAWLER_KILL_ROUNDS";

/// A site, and a directory for the store and the archive of its crawl.
struct Place {
    served: Served,
    root: Url,
    dir: tempfile::TempDir,
}

impl Place {
    fn new() -> Place {
        let served = Site::generate(7, 150).serve().unwrap();
        Place {
            root: served.root().unwrap(),
            served,
            dir: tempfile::tempdir().unwrap(),
        }
    }

    fn store(&self) -> PathBuf {
        self.dir.path().join("store")
    }

    fn archive(&self) -> PathBuf {
        self.dir.path().join("site.warc.gz")
    }

    fn crawl(&self, options: &[&str]) {
        let archive = self.archive();
        let options = [&["--warc", archive.to_str().unwrap()], options].concat();
        crawl(&self.root, &self.store(), &options);
    }

    /// Crawls in a process of its own, and kills it this many requests and microseconds later.
    fn crawl_until_killed(&self, requests: u64, micros: u64) -> bool {
        let least = self.served.requests().len() as u64 + requests;
        let mut child = Command::new(std::env::current_exe().unwrap())
            .args([
                "--exact",
                "tests::archive::crawls_into_an_archive",
                "--ignored",
            ])
            .env("CRAWLER_ROOT", self.root.as_str())
            .env("CRAWLER_STORE", self.store())
            .env("CRAWLER_ARCHIVE", self.archive())
            .stdout(Stdio::null())
            .spawn()
            .unwrap();
        let requests = || self.served.requests().len() as u64;
        while requests() < least && child.try_wait().unwrap().is_none() {
            std::thread::park_timeout(Duration::from_micros(100));
        }
        std::thread::park_timeout(Duration::from_micros(micros));
        child.kill().unwrap();
        !child.wait().unwrap().success()
    }

    /// Checks that each page of the store is in the archive, whole; how many there are, and the
    /// bytes behind the last whole record.
    fn check(&self) -> (u64, usize) {
        let bytes = fs::read(self.archive()).unwrap_or_default();
        let (bodies, rest) = bodies(&bytes);
        let mut pages = 0;
        let store = open(&self.store());
        let robots = self.root.join("/robots.txt").unwrap();
        let origins = store.db().keyspace("origins").unwrap();
        if origins.contains_key(crawl::keys::origin(&robots)).unwrap() {
            assert!(
                bodies.contains_key(robots.as_str()),
                "robots.txt is not archived"
            );
        }
        for record in records(&store).into_values() {
            let is_answered = !matches!(
                record.state,
                State::Failed | State::Disallowed | State::LeftOut
            );
            if is_answered {
                let found = bodies.get(&record.url).into_iter().flatten();
                // Some come packed whatever was asked for. The hash is that of what is in them.
                let is_packed = record.url.contains("/packed/");
                let is_there = found
                    .clone()
                    .any(|hash| is_packed || *hash == record.content_hash);
                assert!(
                    is_there,
                    "{} is not archived: {}",
                    record.url,
                    found.count()
                );
                pages += 1;
            }
        }
        (pages, rest)
    }
}

/// Hashes of the bodies in an archive by URL, and the number of bytes behind its whole records.
fn bodies(archive: &[u8]) -> (BTreeMap<String, Vec<u128>>, usize) {
    let (mut bodies, mut first) = (BTreeMap::<_, Vec<_>>::new(), BTreeMap::new());
    let (records, rest) = records_of(archive);
    for (head, block) in records {
        let value = |name| field(&head, name).unwrap_or_default().to_owned();
        let url = value("WARC-Target-URI");
        let hash = match value("WARC-Type").as_str() {
            "response" => {
                let end = block.windows(4).position(|part| part == b"\r\n\r\n");
                let hash = xxhash_rust::xxh3::xxh3_128(&block[end.unwrap() + 4..]);
                first.insert((url.clone(), value("WARC-Date")), hash);
                hash
            }
            "revisit" => {
                let url = value("WARC-Refers-To-Target-URI");
                first[&(url, value("WARC-Refers-To-Date"))]
            }
            _ => continue,
        };
        bodies.entry(url).or_default().push(hash);
    }
    (bodies, rest.len())
}

/// Not a test: what the process does that `a_kill_takes_no_page_out_of_the_archive` kills.
#[test]
#[ignore = "run by another test, as a process of its own"]
fn crawls_into_an_archive() {
    let variable = |name| std::env::var(name).ok();
    if let (Some(root), Some(store), Some(archive)) = (
        variable("CRAWLER_ROOT"),
        variable("CRAWLER_STORE"),
        variable("CRAWLER_ARCHIVE"),
    ) {
        let root = Url::parse(&root).unwrap();
        crawl(&root, Path::new(&store), &["--warc", &archive]);
    }
}

#[test]
fn a_kill_takes_no_page_out_of_the_archive() {
    let rounds: u64 = std::env::var(ROUNDS).map_or(4, |rounds| rounds.parse().unwrap());
    let (mut kills, mut tails, mut pages) = (0, 0, 0);
    for round in 0..rounds {
        let place = Place::new();
        for life in 0..2 {
            let random = xxhash_rust::xxh3::xxh3_64_with_seed(&[life], round);
            let (requests, micros) = (1 + random % 140, random >> 32 & 0xfff);
            kills += u64::from(place.crawl_until_killed(requests, micros));
            tails += u64::from(place.check().1 > 0);
        }
        place.crawl(&[]);
        let (checked, rest) = place.check();
        assert_eq!(rest, 0, "round {round}: something is behind the records");
        assert!(checked > 200, "round {round}: {checked} pages");
        pages += checked;
    }
    println!("{rounds} rounds, {kills} kills, {tails} torn records, {pages} pages checked");
    assert!(
        kills >= rounds,
        "most crawls had ended before they were killed"
    );
}

/// Records that no commit knows are cut off, torn or whole.
#[test]
fn the_next_run_cuts_off_what_was_not_committed() {
    let place = Place::new();
    place.crawl(&["--pages", "20"]);
    assert_eq!(place.check().1, 0);
    let whole = fs::read(place.archive()).unwrap();
    for torn in [1, 9, 10, 500, whole.len() / 3, whole.len()] {
        fs::write(place.archive(), [&whole[..], &whole[..torn]].concat()).unwrap();
        place.crawl(&["--pages", "0"]);
        assert!(fs::read(place.archive()).unwrap() == whole, "{torn}");
    }
    fs::write(place.archive(), [&whole[..], &whole[..10]].concat()).unwrap();
    place.crawl(&[]);
    let (pages, rest) = place.check();
    assert!(pages > 200 && rest == 0, "{pages} pages, {rest} bytes");
}

#[test]
fn a_file_of_something_else_is_left_alone() {
    let place = Place::new();
    place.crawl(&["--pages", "20"]);
    let ours = fs::read(place.archive()).unwrap();
    let other = Place::new();
    other.crawl(&["--pages", "5"]);
    let check = |bytes: &[u8], expected: &str| {
        fs::write(place.archive(), bytes).unwrap();
        let archive = place.archive();
        let arguments = ["crawler", "--quiet", "--warc", archive.to_str().unwrap()];
        let plan = Plan {
            args: Args::parse_from(arguments),
            store: place.store(),
            seeds: vec![place.root.clone()],
        };
        let refused = plan.run().unwrap_err();
        assert_eq!(refused.exit(), Exit::Usage);
        assert!(refused.to_string().contains(expected), "{refused}");
        assert!(fs::read(&archive).unwrap() == bytes);
    };
    check(b"a letter", "did not write it");
    check(&fs::read(other.archive()).unwrap(), "did not write it");
    check(&ours[..ours.len() - 3], "has lost its last 3 bytes");
    fs::write(place.archive(), ours).unwrap();
    place.crawl(&[]);
    assert_eq!(place.check().1, 0);
}

/// A site with exchanges of each kind, among them such that no page comes of.
fn odd_answers(request: &str) -> (Vec<u8>, Then) {
    let headers: Vec<String> = (0..300).map(|number| format!("X-{number}: 1")).collect();
    let headers: Vec<&str> = headers.iter().map(String::as_str).collect();
    let half = b"HTTP/1.1 200 OK\r\nContent-Length: 2000\r\n\r\nhalf".to_vec();
    match request.split(' ').nth(1).unwrap() {
        "/robots.txt" => answer("301 Moved", &["Location: /robots"], b""),
        "/robots" => answer("200 OK", &[], b"User-agent: *\nDisallow: /no\n"),
        "/" => answer(
            "200 OK",
            &headers,
            b"<a href=cut>1</a><a href=br>2</a><a href=no>3</a>",
        ),
        "/cut" => (half, Then::Close),
        "/br" => answer("200 OK", &["Content-Encoding: br"], b"\x0b\x02\x80page\x03"),
        _ => answer("404 Not Found", &[], b""),
    }
}

/// The responses for a URL: why it was cut, and the block.
fn responses(records: &[(String, Vec<u8>)], url: &Url) -> Vec<(Option<String>, String)> {
    let of_url = |(head, _): &&(String, Vec<u8>)| {
        field(head, "WARC-Target-URI") == Some(url.as_str())
            && field(head, "WARC-Type") == Some("response")
    };
    let read = |(head, block): &(String, Vec<u8>)| {
        let truncated = field(head, "WARC-Truncated").map(str::to_owned);
        (truncated, String::from_utf8_lossy(block).into_owned())
    };
    records.iter().filter(of_url).map(read).collect()
}

#[test]
fn every_exchange_is_in_the_archive() {
    let server = Server::start(odd_answers);
    let dir = tempfile::tempdir().unwrap();
    let (store, archive) = (dir.path().join("store"), dir.path().join("site.warc.gz"));
    let options = ["--warc", archive.to_str().unwrap(), "--attempts", "2"];
    let summary = crawl(&server.url("/"), &store, &options);
    assert_eq!((summary.pages, summary.failed), (1, 2));
    let bytes = fs::read(&archive).unwrap();
    let (found, rest) = records_of(&bytes);
    assert_eq!(rest, b"");
    let check = |path: &str, count: usize, truncated: Option<&str>, parts: &[&str]| {
        let responses = responses(&found, &server.url(path));
        assert_eq!(responses.len(), count, "{path}");
        for (found, block) in responses {
            assert_eq!(found.as_deref(), truncated, "{path}");
            assert!(parts.iter().all(|part| block.contains(part)), "{block}");
        }
    };
    check("/robots.txt", 1, None, &["\r\nLocation: /robots\r\n"]);
    check(
        "/robots",
        1,
        None,
        &["\r\n\r\nUser-agent: *\nDisallow: /no\n"],
    );
    check(
        "/",
        1,
        None,
        &["\r\nX-0: 1\r\n", "\r\nX-299: 1\r\n", "\r\n\r\n<a href=cut>"],
    );
    // Both attempts.
    check("/cut", 2, Some("disconnect"), &["\r\n\r\nhalf"]);
    check("/br", 2, None, &["\r\n\r\n\u{b}\u{2}\u{fffd}page\u{3}"]);
    check("/no", 0, None, &[]);
    let records = records(&open(&store));
    let why = |path: &str| {
        let url = server.url(path);
        let mut records = records.values();
        let record = records.find(|record| record.url == url.as_str()).unwrap();
        assert_eq!(record.state, State::Failed);
        record.title.clone()
    };
    assert_eq!(why("/cut"), "the connection ended before the answer did");
    let coded = "the body has the content coding \"br\", which was not asked for";
    assert_eq!(why("/br"), coded);
}

/// robots.txt that cannot be had is no reason to lose what came instead.
#[test]
fn a_failed_robots_txt_is_in_the_archive() {
    let server = Server::start(|_| answer("503 Busy", &[], b"not now"));
    let dir = tempfile::tempdir().unwrap();
    let (store, archive) = (dir.path().join("store"), dir.path().join("site.warc.gz"));
    let options = ["--warc", archive.to_str().unwrap(), "--attempts", "2"];
    let summary = crawl(&server.url("/"), &store, &options);
    assert_eq!((summary.pages, summary.hosts_held), (0, 1));
    let bytes = fs::read(&archive).unwrap();
    let (found, rest) = records_of(&bytes);
    let url = server.url("/robots.txt");
    let asked = found.iter().filter(|(head, _)| {
        field(head, "WARC-Target-URI") == Some(url.as_str())
            && field(head, "WARC-Type") == Some("request")
    });
    assert_eq!((asked.count(), rest.len()), (2, 0));
}

fn copy(from: &Path, to: &Path) {
    fs::create_dir_all(to).unwrap();
    for entry in fs::read_dir(from).unwrap() {
        let (path, name) = entry
            .map(|entry| (entry.path(), entry.file_name()))
            .unwrap();
        match path.is_dir() {
            true => copy(&path, &to.join(name)),
            false => drop(fs::copy(&path, to.join(name)).unwrap()),
        }
    }
}

/// The store believes robots.txt for a day, so it must be in the archive from then on.
#[test]
fn a_kill_behind_robots_txt_keeps_it_in_the_archive() {
    let dir = tempfile::tempdir().unwrap();
    let (live, killed) = (dir.path().join("live"), dir.path().join("killed"));
    let (from, to) = (live.clone(), killed.clone());
    let server = Server::start(move |request| match request.split(' ').nth(1) {
        Some("/robots.txt") => answer("200 OK", &[], b"User-agent: *\n"),
        _ => {
            // What a kill at this moment would leave.
            copy(&from, &to);
            answer("200 OK", &[], b"page")
        }
    });
    let crawl_in = |folder: &Path, pages: &str| {
        let archive = folder.join("site.warc.gz");
        let options = ["--warc", archive.to_str().unwrap(), "--pages", pages];
        crawl(&server.url("/"), &folder.join("store"), &options);
        bodies(&fs::read(archive).unwrap())
    };
    let (robots, page) = (server.url("/robots.txt"), server.url("/"));
    fs::create_dir(&live).unwrap();
    let (kept, _) = crawl_in(&live, "1");
    assert!(kept.contains_key(robots.as_str()) && kept.contains_key(page.as_str()));
    let (kept, rest) = crawl_in(&killed, "0");
    assert!(kept.contains_key(robots.as_str()) && !kept.contains_key(page.as_str()));
    assert_eq!(rest, 0);
    let store = open(&killed.join("store"));
    let origins = store.db().keyspace("origins").unwrap();
    let known = origins.get(crawl::keys::origin(&robots)).unwrap();
    assert!(known.is_some(), "the store did not know robots.txt yet");
}
