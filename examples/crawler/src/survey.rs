//! Counts over the records of all pages, in one pass when the crawl has ended.
//!
//! Memory grows with the pages by 24 bytes of each, for near duplicates, and by 8 bytes of each broken
//! address.

use std::collections::BTreeMap;

use crawl::keys;
use criba::Keyspace;

use crate::failure::Failure;
use crate::list;
use crate::near::Near;
use crate::output::Output;
use crate::record::{Record, State};
use crate::summary::{Findings, Host, Reason};

/// Hosts and reasons that are shown.
const SHOWN_MAX: usize = 100;
/// Hosts that are counted one by one. Pages of further ones are counted together.
const HOSTS_MAX: usize = 100_000;
/// Reasons that are counted one by one. The words are those of servers and of the system.
const REASONS_MAX: usize = 1_000;
/// The name under which those beyond a limit are counted.
const OTHERS: &str = "(others)";

/// The counts of a pass.
#[derive(Default)]
pub(crate) struct Survey {
    statuses: BTreeMap<u16, u64>,
    near: Near,
    cut: Vec<String>,
    /// Numbers of the broken addresses, ascending.
    pub(crate) broken: Vec<u64>,
    /// For the report; `None` if nobody asks for one.
    tables: Option<Tables>,
}

#[derive(Default)]
struct Tables {
    hosts: BTreeMap<String, Host>,
    reasons: BTreeMap<String, Reason>,
}

impl Survey {
    /// Looks at each record once, and writes the list on the way.
    pub(crate) fn of(
        pages: &Keyspace,
        with_tables: bool,
        mut list: Option<&mut Output>,
    ) -> Result<Survey, Failure> {
        let mut survey = Survey {
            tables: with_tables.then(Tables::default),
            ..Survey::default()
        };
        for entry in pages.iter() {
            let (key, value) = entry?;
            let id = keys::read_number(&key);
            let id = id.ok_or_else(|| Failure::Damaged("a key of the pages is none".into()))?;
            let record = Record::decode(&value)?;
            if record.state == State::LeftOut {
                continue;
            }
            survey.add(id, &record);
            if let Some(list) = &mut list {
                list.write(list::line(&record));
            }
        }
        Ok(survey)
    }

    fn add(&mut self, id: u64, record: &Record) {
        self.near.add(record);
        // Nobody was asked for what robots.txt forbids.
        if record.state != State::Disallowed {
            *self.statuses.entry(record.status).or_default() += 1;
        }
        if record.truncated && self.cut.len() < SHOWN_MAX {
            self.cut.push(record.url.clone());
        }
        let is_broken = matches!(record.state, State::Refused | State::Failed);
        if is_broken {
            self.broken.push(id);
        }
        if let Some(tables) = &mut self.tables {
            tables.add(record, is_broken);
        }
    }

    /// Pages that nearly are another one.
    pub(crate) fn near_duplicates(&mut self) -> u64 {
        std::mem::take(&mut self.near).count()
    }

    pub(crate) fn findings(self) -> Findings {
        let tables = self.tables.unwrap_or_default();
        Findings {
            statuses: self.statuses.into_iter().collect(),
            broken: self.broken.len() as u64,
            cut: self.cut,
            hosts: most(tables.hosts, |host| host.pages),
            reasons: most(tables.reasons, |reason| reason.count),
            first_broken: Vec::new(),
        }
    }
}

impl Tables {
    fn add(&mut self, record: &Record, is_broken: bool) {
        let name = place(&mut self.hosts, origin(&record.url), HOSTS_MAX);
        let host = self.hosts.entry(name).or_default();
        host.pages += u64::from(record.state == State::Fetched);
        host.failed += u64::from(is_broken);
        host.bytes += record.wire_bytes;
        if is_broken {
            let name = place(&mut self.reasons, &why(record), REASONS_MAX);
            let reason = self.reasons.entry(name).or_default();
            if reason.count == 0 {
                reason.example.clone_from(&record.url);
            }
            reason.count += 1;
        }
    }
}

/// The name under which something is counted.
fn place<T>(counted: &mut BTreeMap<String, T>, name: &str, most: usize) -> String {
    let has_room = counted.len() < most || counted.contains_key(name);
    let name = if has_room { name } else { OTHERS };
    name.to_owned()
}

/// `scheme://host:port` of a normalised address.
fn origin(url: &str) -> &str {
    let host = url.find("://").map_or(0, |at| at + 3);
    let end = url[host..].find(['/', '?', '#']);
    end.map_or(url, |end| &url[..host + end])
}

/// Why an address was not fetched.
pub(crate) fn why(record: &Record) -> String {
    match (record.state, record.status) {
        // The words of the last attempt.
        (State::Failed, _) => record.title.clone(),
        (_, 300..=399) => format!("status {}, which leads nowhere", record.status),
        _ => format!("status {}", record.status),
    }
}

/// Those with the highest counts.
fn most<T: Named>(all: BTreeMap<String, T>, count: impl Fn(&T) -> u64) -> Vec<T> {
    let mut all: Vec<T> = all.into_iter().map(|(name, one)| one.named(name)).collect();
    // Equal ones stay in the order of their names.
    all.sort_by_key(|one| std::cmp::Reverse(count(one)));
    all.truncate(SHOWN_MAX);
    all
}

trait Named {
    fn named(self, name: String) -> Self;
}

impl Named for Host {
    fn named(self, origin: String) -> Host {
        Host { origin, ..self }
    }
}

impl Named for Reason {
    fn named(self, why: String) -> Reason {
        Reason { why, ..self }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn record(state: State, url: &str, status: u16) -> Record {
        Record {
            status,
            wire_bytes: 10,
            ..Record::bare(state, url, 0, 0)
        }
    }

    #[test]
    fn records_are_counted_by_status_host_and_reason() {
        let mut survey = Survey {
            tables: Some(Tables::default()),
            ..Survey::default()
        };
        let failed = Record {
            title: "connection reset".into(),
            ..record(State::Failed, "http://b/x", 0)
        };
        let cut = Record {
            truncated: true,
            ..record(State::Fetched, "http://a/2", 200)
        };
        let records = [
            record(State::Fetched, "http://a/1", 200),
            cut,
            record(State::Refused, "http://a/3", 404),
            failed,
            record(State::Refused, "http://b/y", 404),
            record(State::Disallowed, "http://b/z", 0),
            record(State::Redirect, "http://b/r", 301),
        ];
        for (id, record) in (0..).zip(&records) {
            survey.add(id, record);
        }
        assert_eq!(survey.broken, [2, 3, 4]);
        let found = survey.findings();
        assert_eq!(found.statuses, [(0, 1), (200, 2), (301, 1), (404, 2)]);
        assert_eq!(
            (found.broken, &found.cut[..]),
            (3, &["http://a/2".to_owned()][..])
        );
        let hosts: Vec<_> = found
            .hosts
            .iter()
            .map(|host| (&*host.origin, host.pages, host.failed, host.bytes))
            .collect();
        assert_eq!(hosts, [("http://a", 2, 1, 30), ("http://b", 0, 2, 40)]);
        let reasons: Vec<_> = found
            .reasons
            .iter()
            .map(|one| (&*one.why, one.count, &*one.example))
            .collect();
        let expected = [
            ("status 404", 2, "http://a/3"),
            ("connection reset", 1, "http://b/x"),
        ];
        assert_eq!(reasons, expected);
    }

    #[test]
    fn beyond_a_limit_all_are_counted_together() {
        let mut counted = BTreeMap::new();
        for name in ["a", "b", "c", "a", "d"] {
            let name = place(&mut counted, name, 2);
            *counted.entry(name).or_insert(0) += 1;
        }
        let expected = [(OTHERS, 2), ("a", 2), ("b", 1)];
        assert!(
            counted
                .iter()
                .map(|(name, count)| (&**name, *count))
                .eq(expected)
        );
    }

    #[test]
    fn origins_end_where_a_path_begins() {
        for (url, expected) in [
            ("http://a/", "http://a"),
            ("https://a:8/b://c", "https://a:8"),
            ("http://[::1]:80/", "http://[::1]:80"),
            ("http://a?q=/", "http://a"),
            ("nothing", "nothing"),
        ] {
            assert_eq!(origin(url), expected);
        }
    }
}
