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
        for record in records(&open(&self.store())).into_values() {
            if !matches!(record.state, State::Failed | State::Disallowed) {
                let found = bodies.get(&record.url).into_iter().flatten();
                let is_there = found.clone().any(|hash| *hash == record.content_hash);
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
            traps: Site::limits(),
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
