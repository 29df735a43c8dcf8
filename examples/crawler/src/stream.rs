//! `--stream N`: no network, only the question. N links of a made-up web go through the seen set as
//! pages of a crawl do, to see what it costs when there are very many: time, memory, disk reads.
//!
//! A repeated link leads to a recent URL, or, one time in [`FAR`], to any URL at all: recent ones
//! are what the front is for, the others are what it cannot know.

use std::path::Path;
use std::time::{Duration, Instant};

use common::memory::resident_bytes;
use serde_json::{Value, json};

use crate::failure::Failure;
use crate::print;
use crate::record::Totals;
use crate::seen::{Choice, SeenSet};
use crate::store::Store;
use crate::summary::SeenCounts;

/// Links on a page: one batch.
const PAGE_LINKS: u64 = 64;
/// One repeat in so many leads far back.
const FAR: u64 = 50;
/// How far back recent URLs go.
const RECENT: u64 = 20_000;
/// Times the memory is looked at.
const SAMPLES: u64 = 20;

/// The stream.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Stream {
    pub(crate) links: u64,
    /// Part of the links that are repeats.
    pub(crate) repeats: f64,
}

/// What it took.
#[derive(Debug, Clone, Default)]
pub(crate) struct Report {
    pub(crate) seen: SeenCounts,
    pub(crate) urls: u64,
    /// Answers that were not what the stream knows to be true.
    pub(crate) wrong: u64,
    took: Duration,
    /// Resident bytes, at equal steps of the stream.
    memory: Vec<u64>,
    /// System calls that read, of the thread that asks: what works in the background does not
    /// count.
    read_calls: u64,
}

impl Stream {
    /// Sends the links through the seen set of a new store.
    pub(crate) fn run(self, store: Store, choice: Choice) -> Result<Report, Failure> {
        let mut seen = SeenSet::open(&store.db, choice)?;
        let mut report = Report {
            urls: store.totals.urls,
            ..Report::default()
        };
        let (mut random, mut url) = (0x2545_f491_4f6c_dd1d_u64, String::new());
        let (began, calls) = (Instant::now(), read_calls());
        let limit = (self.repeats * (1_u64 << 53) as f64) as u64;
        let mut links = 0;
        while links < self.links {
            // A page: its repeats lead to what earlier pages have brought, and it is one batch.
            let mut batch = store.db.batch();
            let known = report.urls;
            for _ in 0..PAGE_LINKS.min(self.links - links) {
                let repeats = next(&mut random) >> 11 < limit && known > 0;
                let number = if repeats {
                    repeat(&mut random, known)
                } else {
                    report.urls
                };
                name(number, &mut url);
                let found = match seen.find_recent(&url) {
                    Some(id) => Some(id),
                    None => seen.find(&url)?,
                };
                report.wrong += u64::from(found != repeats.then_some(number));
                if !repeats {
                    seen.insert(&url, number, &mut batch)?;
                    report.urls += 1;
                }
                links += 1;
                if links.is_multiple_of((self.links / SAMPLES).max(1)) {
                    report.memory.push(resident_bytes().unwrap_or_default());
                }
            }
            let totals = Totals {
                urls: report.urls,
                ..store.totals
            };
            batch.put(crate::keys::TOTALS, totals.encode());
            batch.commit()?;
        }
        report.took = began.elapsed();
        report.read_calls = read_calls() - calls;
        report.seen = seen.counts();
        store.db.close()?;
        Ok(report)
    }
}

/// The generator of Marsaglia, 2003.
fn next(random: &mut u64) -> u64 {
    *random ^= *random << 13;
    *random ^= *random >> 7;
    *random ^= *random << 17;
    *random
}

/// Where a repeated link leads.
fn repeat(random: &mut u64, urls: u64) -> u64 {
    let far = next(random).is_multiple_of(FAR);
    let back = if far { urls } else { urls.min(RECENT) };
    urls - 1 - next(random) % back
}

/// The URL with this number: a thousand pages to a section, a hundred sections to a host.
fn name(number: u64, url: &mut String) {
    use std::fmt::Write as _;
    let mixed = number.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 40;
    let (section, host) = (number / 1000 % 100, number / 100_000);
    url.clear();
    // Writing to memory cannot fail.
    write!(
        url,
        "http://host{host}.example/section-{section}/{mixed:06x}-{number}.html"
    )
    .unwrap_or_default();
}

fn read_calls() -> u64 {
    let io = std::fs::read_to_string(Path::new("/proc/thread-self/io")).unwrap_or_default();
    let calls = io.lines().find_map(|line| line.strip_prefix("syscr: "));
    calls
        .and_then(|calls| calls.parse().ok())
        .unwrap_or_default()
}

impl Report {
    /// One object.
    pub(crate) fn json(&self) -> Value {
        let seen = &self.seen;
        let seconds = self.took.as_secs_f64();
        let mut object = print::json_answers(seen);
        object["links"] = json!(seen.checks);
        object["urls"] = json!(self.urls);
        object["wrong"] = json!(self.wrong);
        object["took_s"] = json!(seconds);
        object["links_per_s"] = json!(seen.checks as f64 / seconds.max(1e-9));
        object["read_calls"] = json!(self.read_calls);
        object["read_calls_per_check"] = json!(self.read_calls as f64 / seen.checks.max(1) as f64);
        object["resident_bytes"] = json!(self.memory);
        object
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::keys::Partition;
    use crate::seen::Mode;
    use crate::store::{FilterChoice, Settings};

    #[test]
    fn every_answer_is_right_with_segments_under_way() {
        for (partition, filter_bytes) in
            [(Partition::Host, None), (Partition::None, Some(64 << 10))]
        {
            let dir = tempfile::tempdir().unwrap();
            let (filter, memtable_bytes) = (FilterChoice::Bloomier, 1 << 20);
            let settings = Settings {
                partition,
                filter,
                cache_bytes: 0,
                memtable_bytes,
                filter_bytes,
            };
            let store = Store::open(dir.path(), settings).unwrap();
            let (filter_bits, false_positives) = (10.0, 0.0);
            let choice = Choice {
                mode: Mode::Store,
                partition,
                front: 1000,
                filter_bits,
                false_positives,
                sled_bytes: 0,
            };
            let report = Stream {
                links: 60_000,
                repeats: 0.5,
            }
            .run(store, choice)
            .unwrap();
            assert_eq!(report.wrong, 0);
            assert_eq!((report.seen.checks, report.seen.new), (60_000, report.urls));
            assert!(report.urls > 25_000 && report.urls < 35_000);
            // Without a cache every verification is a read, and few are in vain.
            let seen = report.seen;
            assert!(seen.verified_on_disk > 1000, "{seen:?}");
            assert!(seen.disk_reads >= seen.verified_on_disk, "{seen:?}");
            assert!(seen.false_positives < seen.new / 20, "{seen:?}");
        }
    }
}
