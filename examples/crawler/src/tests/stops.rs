//! Crawls that a signal ends, and crawls that go on behind them.
#![expect(clippy::disallowed_methods, reason = "tests look at files")]

use std::collections::BTreeSet;
use std::net::TcpListener;
use std::path::Path;
use std::process::{Child, Command};
use std::time::Duration;

use serde_json::Value;
use url::Url;

use super::program::{self, text};
use super::{Comparison, check_store, open, records, small_site};
use crate::record::State;

/// Signals that a process gets before it is killed: it does not listen.
const SENT_MAX: u64 = 2_000;

/// Sends a signal.
fn send(child: &Child, signal: &str) {
    let pid = child.id().to_string();
    let sent = Command::new("kill").args([signal, &pid]).status();
    assert!(sent.unwrap().success());
}

/// A moment.
fn wait() {
    std::thread::park_timeout(Duration::from_millis(1));
}

pub(super) fn lines(path: &Path) -> Vec<Value> {
    let text = std::fs::read_to_string(path).unwrap();
    assert!(text.is_empty() || text.ends_with('\n'));
    let line = |line| serde_json::from_str(line).unwrap_or_else(|_| panic!("{line}"));
    text.lines().map(line).collect()
}

/// Options that ask for every file, below `dir`.
pub(super) fn all_files(dir: &Path) -> Vec<String> {
    let names = ["store", "list", "html", "log", "broken", "warc"];
    let options = names.map(|name| [format!("--{name}"), text(&dir.join(name)).to_owned()]);
    options
        .into_iter()
        .flatten()
        .chain(["--json".into()])
        .collect()
}

/// The files are whole, and say what the store says.
fn check_files(dir: &Path) {
    let store = open(&dir.join("store"));
    check_store(&store);
    let mut records = records(&store);
    // Nobody asked for these.
    records.retain(|_, record| record.state != State::LeftOut);
    let urls: BTreeSet<String> = records.values().map(|record| record.url.clone()).collect();
    let list = std::fs::read_to_string(dir.join("list")).unwrap();
    let listed = list
        .lines()
        .map(|line| line.split_once('\t').unwrap().1.to_owned());
    assert_eq!(listed.collect::<BTreeSet<_>>(), urls);
    assert_eq!(list.lines().count(), records.len());
    let page = std::fs::read_to_string(dir.join("html")).unwrap();
    assert!(page.starts_with("<!DOCTYPE html>") && page.ends_with("</html>\n"));
    // One line for each address that is done: nothing is lost, and nothing was done twice.
    let logged = lines(&dir.join("log"));
    let done = logged
        .iter()
        .filter(|line| line["event"] == "page" || line["given_up"] == true)
        .filter(|line| line["state"] != "left_out");
    let done: Vec<String> = done
        .map(|line| line["url"].as_str().unwrap().to_owned())
        .collect();
    assert_eq!(done.len(), records.len());
    assert_eq!(done.into_iter().collect::<BTreeSet<_>>(), urls);
    let broken = lines(&dir.join("broken"));
    assert!(
        broken
            .iter()
            .all(|line| urls.contains(line["url"].as_str().unwrap()))
    );
    let archive = std::fs::read(dir.join("warc")).unwrap();
    let (_, torn) = crate::warc::tests::records_of(&archive);
    assert!(torn.is_empty());
}

#[test]
fn a_signal_ends_a_crawl_in_order_and_the_next_run_goes_on() {
    for (signal, requests) in [("-TERM", 40), ("-INT", 120)] {
        let (site, served) = small_site();
        let (dir, root) = (tempfile::tempdir().unwrap(), served.root().unwrap());
        let mut arguments = program::fixed();
        arguments.extend(all_files(dir.path()));
        arguments.push(root.to_string());
        let slow = ["--delay".to_owned(), "3".to_owned()];
        let first = [&arguments[..], &slow].concat();
        let mut child = program::command(&[], &first).spawn().unwrap();
        while served.requests().len() < requests && child.try_wait().unwrap().is_none() {
            wait();
        }
        send(&child, signal);
        let ended = program::ended(child.wait_with_output().unwrap());
        assert_eq!(ended.code, Some(4), "{ended:?}");
        assert!(ended.stderr.contains("run it again to go on"), "{ended:?}");
        let summary = program::json(&ended);
        assert_eq!(summary["stopped"], true);
        let waiting = summary["waiting"].as_u64().unwrap();
        assert!(waiting > 0, "{summary}");
        assert_eq!(open(&dir.path().join("store")).totals().waiting, waiting);
        check_files(dir.path());

        let ended = program::ended(program::command(&[], &arguments).output().unwrap());
        assert_eq!(ended.code, Some(0), "{ended:?}");
        let summary = program::json(&ended);
        assert_eq!(
            (&summary["stopped"], &summary["waiting"]),
            (&false.into(), &0.into())
        );
        check_files(dir.path());
        let compared = Comparison::of(&site.expected(), &served.requests());
        assert_eq!(compared, Comparison::default());
    }
}

/// A server that takes connections and says nothing.
#[test]
fn a_second_signal_ends_the_process_at_once() {
    for (signal, number) in [("-TERM", 15), ("-INT", 2)] {
        let silent = TcpListener::bind("127.0.0.1:0").unwrap();
        let root = format!("http://{}/", silent.local_addr().unwrap());
        let dir = tempfile::tempdir().unwrap();
        let list = dir.path().join("list");
        std::fs::write(&list, "before").unwrap();
        let mut arguments = program::fixed();
        arguments.extend(["--timeout".into(), "600".into()]);
        arguments.extend(["--store".into(), text(&dir.path().join("store")).into()]);
        arguments.extend(["--list".into(), text(&list).into(), root]);
        let mut child = program::command(&[], &arguments).spawn().unwrap();
        // Its request is under way.
        let (_connection, _) = silent.accept().unwrap();
        // Signals that come together count as one, so more are sent until the second is taken.
        let mut sent = 0;
        while child.try_wait().unwrap().is_none() {
            let signal = if sent < SENT_MAX { signal } else { "-KILL" };
            send(&child, signal);
            sent += 1;
            wait();
        }
        assert!(sent > 1, "the first signal was the end");
        let ended = program::ended(child.wait_with_output().unwrap());
        assert_eq!(
            (ended.signal, ended.code),
            (Some(number), None),
            "{ended:?}"
        );
        assert_eq!(std::fs::read(&list).unwrap(), b"before");
    }
}

/// An address with a path of the site.
pub(super) fn at(root: &Url, path: &str) -> String {
    root.join(path).unwrap().to_string()
}
