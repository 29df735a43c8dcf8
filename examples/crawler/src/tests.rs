//! Whole crawls of a small embedded site, by what its server saw and what the store holds.

mod archive;
mod exits;
mod findings;
mod left_out;
mod program;
mod requests;
mod stops;

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Duration;

use clap::Parser as _;
use url::{Position, Url};

use crawl::{Entry, Partition, Settings, Store, keys};

use crate::args::{Args, PartitionArg};
use crate::embedded::Comparison;
use crate::record::{Record, State};
use crate::setup::Plan;
use crate::site::{Served, Site};
use crate::summary::Summary;

const WORKERS: u64 = 4;

fn small_site() -> (Site, Served) {
    let site = Site::generate(7, 150);
    let served = site.serve().unwrap();
    (site, served)
}

fn crawl(root: &Url, store: &Path, options: &[&str]) -> Summary {
    let fixed = program::fixed();
    let fixed = ["crawler"]
        .into_iter()
        .chain(fixed.iter().map(String::as_str));
    let args = Args::parse_from(fixed.chain(options.iter().copied()));
    let plan = Plan {
        args,
        store: store.to_owned(),
        seeds: vec![root.clone()],
    };
    plan.run().unwrap().0
}

/// Which pages of a part without end are fetched depends on which of them comes first.
const WITHOUT_TRAPS: [&str; 4] = ["--exclude", "/sessions/", "--exclude", "/*cal"];

/// How the store of a crawl with these options is opened.
fn settings(options: &[&str]) -> Settings {
    let by_hash = options
        .windows(2)
        .any(|pair| pair == ["--partition", "none"]);
    let partition = match by_hash {
        true => Partition::None,
        false => Partition::Host,
    };
    Settings {
        partition,
        ..Settings::default()
    }
}

/// The store of a crawl.
fn open(path: &Path) -> Store {
    Store::open(path, Settings::default()).unwrap()
}

/// Crawls it all in one go, and expects it to be right.
fn check(options: &[&str]) -> Summary {
    let (site, served) = small_site();
    let dir = tempfile::tempdir().unwrap();
    let summary = crawl(&served.root().unwrap(), &dir.path().join("store"), options);
    let compared = Comparison::of(&site.expected(), &served.requests());
    assert_eq!(compared, Comparison::default(), "{options:?}");
    let pages = fetched_paths(&Store::open(&dir.path().join("store"), settings(options)).unwrap());
    assert_eq!(summary.pages, pages.len() as u64, "{options:?}");
    assert!(site.expected().pages.is_subset(&pages), "{options:?}");
    assert_eq!(
        (summary.fetched_twice, summary.waiting),
        (0, 0),
        "{options:?}"
    );
    let seen = summary.seen;
    assert_eq!(seen.checks, seen.new + seen.repeated);
    let answers = seen.answered_by_front + seen.answered_by_memtable + seen.answered_by_ranges;
    assert_eq!(
        seen.checks,
        answers + seen.answered_by_filter + seen.verified_on_disk
    );
    assert_eq!(seen.new, summary.urls_discovered);
    summary
}

#[test]
fn every_exact_mode_fetches_what_there_is_and_nothing_twice() {
    check(&[]);
    check(&["--seen", "exact-memory"]);
    check(&["--seen", "sled", "--front", "0", "--cache", "0"]);
    check(&["--partition", "none", "--front", "100"]);
    check(&["--connections", "1", "--filter", "bloom:10"]);
}

#[test]
fn false_positives_cost_reads_and_no_page() {
    let summary = check(&["--false-positives", "0.5", "--front", "0"]);
    let seen = summary.seen;
    assert!(
        seen.forced > seen.new / 4 && seen.forced < seen.new,
        "{seen:?}"
    );
    assert!(seen.verified_on_disk >= seen.forced);
    assert_eq!(
        check(&["--false-positives", "1"]).seen.answered_by_filter,
        0
    );
}

/// Everything a store says must fit together, whenever the crawl was stopped.
fn check_store(store: &Store) -> BTreeMap<u64, String> {
    let totals = store.totals();
    let mut urls = BTreeMap::new();
    for entry in store.seen().iter() {
        let (key, value) = entry.unwrap();
        let url = Partition::Host.address(&key).unwrap();
        let id = common::codec::Reader(&value).number().unwrap();
        let before = urls.insert(id, String::from_utf8(url.to_vec()).unwrap());
        assert_eq!(before, None);
    }
    assert!(urls.keys().copied().eq(0..totals.urls));
    let mut waiting = BTreeSet::new();
    for entry in store.frontier().iter() {
        let (key, value) = entry.unwrap();
        let place = keys::read_waiting(&key).unwrap().1;
        assert_eq!(Entry::decode(&value).unwrap().url, urls[&place.id]);
        assert!(waiting.insert(place.id), "{} waits twice", urls[&place.id]);
    }
    assert_eq!(waiting.len() as u64, totals.waiting);
    for (id, record) in records(store) {
        assert_eq!(record.url, urls[&id]);
        assert!(!waiting.contains(&id), "{} is done and waits", record.url);
        assert!(record.links.iter().all(|link| *link < totals.urls));
        waiting.insert(id);
    }
    assert_eq!(
        waiting.len() as u64,
        totals.urls,
        "a URL neither waits nor is done"
    );
    urls
}

fn records(store: &Store) -> BTreeMap<u64, Record> {
    let record = |entry: criba::Result<(criba::Slice, criba::Slice)>| {
        let (key, value) = entry.unwrap();
        (
            keys::read_number(&key).unwrap(),
            Record::decode(&value).unwrap(),
        )
    };
    let pages = store.db().keyspace("pages").unwrap();
    pages.iter().map(record).collect()
}

/// Paths that answered 200, with their queries.
fn fetched_paths(store: &Store) -> BTreeSet<String> {
    let records = records(store).into_values();
    let fetched = records.filter(|record| record.state == State::Fetched);
    let path = |record: Record| Url::parse(&record.url).unwrap()[Position::BeforePath..].to_owned();
    fetched.map(path).collect()
}

#[test]
fn stopped_and_resumed_it_fetches_the_same() {
    let (site, served) = small_site();
    let (dir, root) = (tempfile::tempdir().unwrap(), served.root().unwrap());
    let store = dir.path().join("store");
    let mut pages = 0;
    for run in 0.. {
        let summary = crawl(&root, &store, &["--pages", "37"]);
        assert!(summary.pages <= 37);
        check_store(&open(&store));
        pages += summary.pages;
        if summary.waiting == 0 {
            assert!(run > 3, "it was stopped {run} times");
            break;
        }
    }
    let compared = Comparison::of(&site.expected(), &served.requests());
    assert_eq!(compared, Comparison::default());
    assert_eq!(pages, fetched_paths(&open(&store)).len() as u64);
}

/// Not a test: what the process does that `a_kill_loses_nothing` kills.
#[test]
#[ignore = "run by another test, as a process of its own"]
fn crawls_until_it_is_killed() {
    let (Ok(root), Ok(store)) = (
        std::env::var("CRAWLER_ROOT"),
        std::env::var("CRAWLER_STORE"),
    ) else {
        return;
    };
    crawl(&Url::parse(&root).unwrap(), Path::new(&store), &[]);
}

#[test]
fn a_kill_loses_nothing() {
    let (site, served) = small_site();
    let (dir, root) = (tempfile::tempdir().unwrap(), served.root().unwrap());
    let store = dir.path().join("store");
    let mut kills = 0;
    for requests in [1, 20, 60, 110, 160] {
        let mut child = Command::new(std::env::current_exe().unwrap())
            .args(["--exact", "tests::crawls_until_it_is_killed", "--ignored"])
            .env("CRAWLER_ROOT", root.as_str())
            .env("CRAWLER_STORE", &store)
            .stdout(Stdio::null())
            .spawn()
            .unwrap();
        while served.requests().len() < requests && child.try_wait().unwrap().is_none() {
            std::thread::park_timeout(Duration::from_micros(200));
        }
        child.kill().unwrap();
        kills += u64::from(!child.wait().unwrap().success());
        check_store(&open(&store));
    }
    assert!(kills > 0, "each crawl had ended before it was killed");
    crawl(&root, &store, &[]);
    check_store(&open(&store));
    let compared = Comparison::of(&site.expected(), &served.requests());
    assert_eq!((compared.missed.len(), compared.unwanted.len()), (0, 0));
    // Only what was under way when it was killed is fetched again.
    let again: u64 = served.requests().values().map(|count| count - 1).sum();
    assert!(
        again <= kills * WORKERS,
        "{again} again after {kills} kills"
    );
}

#[test]
fn a_filter_alone_loses_pages_and_counts_them() {
    let (_, served) = small_site();
    let (dir, root) = (tempfile::tempdir().unwrap(), served.root().unwrap());
    let exact = dir.path().join("exact");
    crawl(&root, &exact, &WITHOUT_TRAPS);
    let exact = open(&exact);
    let all = check_store(&exact);
    let lossy = dir.path().join("lossy");
    let lossy_options = [
        "--seen",
        "filter-only",
        "--filter-bits",
        "1",
        "--front",
        "0",
    ];
    let options = [&lossy_options[..], &WITHOUT_TRAPS].concat();
    let summary = crawl(&root, &lossy, &options);
    let found = records(&open(&lossy));
    // What the pages that it did fetch link to, by the records of the exact crawl.
    let fetched: BTreeSet<&str> = found.values().map(|record| record.url.as_str()).collect();
    let mut linked = BTreeSet::new();
    for record in records(&exact)
        .values()
        .filter(|record| fetched.contains(record.url.as_str()))
    {
        linked.extend(record.links.iter().map(|link| all[link].as_str()));
    }
    let lost = linked.difference(&fetched).count() as u64;
    assert!(lost > 0);
    assert_eq!(summary.lost_to_filter, lost);
    assert!(found.len() < records(&exact).len());
}

#[test]
fn a_second_crawl_asks_only_whether_something_changed() {
    let (_, served) = small_site();
    let (dir, root) = (tempfile::tempdir().unwrap(), served.root().unwrap());
    let store = dir.path().join("store");
    let first = crawl(&root, &store, &[]);
    let before = records(&open(&store));
    let second = crawl(&root, &store, &["--recrawl"]);
    assert_eq!(second.urls_discovered, first.urls_discovered);
    assert_eq!(second.pages, first.pages, "{first:?} {second:?}");
    assert_eq!(
        (second.fetched_twice, second.waiting, second.seen.new),
        (0, 0, 0)
    );
    let after = records(&open(&store));
    assert!(after.keys().eq(before.keys()));
    for (id, record) in &after {
        assert_eq!(record.state, before[id].state, "{}", record.url);
        assert_eq!(
            record.content_hash, before[id].content_hash,
            "{}",
            record.url
        );
    }
}

#[test]
fn depth_is_the_least_number_of_links_whatever_comes_first() {
    let (_, served) = small_site();
    let (dir, root) = (tempfile::tempdir().unwrap(), served.root().unwrap());
    let mut found = Vec::new();
    for workers in ["1", "8"] {
        let store = dir.path().join(workers);
        let options = ["--depth", "3", "--connections", workers, "--no-sitemaps"];
        crawl(&root, &store, &[&options[..], &WITHOUT_TRAPS].concat());
        let records = records(&open(&store));
        let pages = records
            .into_values()
            .filter(|record| record.state == State::Fetched);
        found.push(
            pages
                .map(|page| (page.url, page.depth))
                .collect::<BTreeMap<_, _>>(),
        );
    }
    assert!(found[0].len() > 10, "{}", found[0].len());
    assert_eq!(found[0].values().max(), Some(&3));
    assert_eq!(found[0], found[1]);
}

#[test]
fn a_store_of_something_else_is_left_alone() {
    let dir = tempfile::tempdir().unwrap();
    let other = dir.path().join("other");
    criba::Db::open(&other)
        .unwrap()
        .put("key", "value")
        .unwrap();
    let args = Args::parse_from(["crawler", "http://localhost:1/", "--quiet"]);
    let plan = |store: &Path, partition| Plan {
        args: Args {
            partition,
            ..args.clone()
        },
        store: store.to_owned(),
        seeds: Vec::new(),
    };
    let refused = plan(&other, PartitionArg::Host)
        .run()
        .unwrap_err()
        .to_string();
    assert!(
        refused.contains("something else") && refused.contains("--store"),
        "{refused}"
    );
    let ours = dir.path().join("ours");
    plan(&ours, PartitionArg::Host).run().unwrap();
    let refused = plan(&ours, PartitionArg::None)
        .run()
        .unwrap_err()
        .to_string();
    assert!(refused.contains("--partition host"), "{refused}");
}

#[test]
fn a_host_that_cannot_be_reached_is_held_and_its_urls_wait() {
    // A port that was free a moment ago.
    let port = std::net::TcpListener::bind("127.0.0.1:0")
        .unwrap()
        .local_addr()
        .unwrap()
        .port();
    let root = Url::parse(&format!("http://127.0.0.1:{port}/")).unwrap();
    let dir = tempfile::tempdir().unwrap();
    let store = dir.path().join("store");
    for _ in 0..2 {
        let summary = crawl(&root, &store, &["--attempts", "2"]);
        assert_eq!(
            (summary.pages, summary.waiting, summary.hosts_held),
            (0, 1, 1)
        );
        assert!(
            summary.held[0].starts_with(&format!("http://127.0.0.1:{port}: ")),
            "{summary:?}"
        );
        check_store(&open(&store));
    }
}
