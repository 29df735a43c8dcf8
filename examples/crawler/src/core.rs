//! The state of a crawl under one lock: the store, the seen set, the frontier, the counts.
//!
//! Every page is one batch: its record, the URLs discovered on it, its place in the frontier given
//! up and theirs taken. So the store stands between two pages at every moment, and a crawl that was
//! killed goes on as if it had stopped there.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::{Duration, Instant, SystemTime};

use criba::{Batch, Db};
use url::Url;

use crate::addresses::Addresses;
use crate::failure::Failure;
use crate::frontier::{Fresh, Frontier, Job, Next, Pace, Work};
use crate::http::Connection;
use crate::keys::{self, Place};
use crate::outcome::{Links, Outcome};
use crate::record::{Entry, Kind, Record, State, Totals};
use crate::robots::Robots;
use crate::rules::{Answer, RobotsFile};
use crate::scope::Scope;
use crate::seen::{self, SeenSet};
use crate::store::Store;
use crate::summary::{Point, Summary};
use crate::trap::{self, TrapLimits};

/// Redirects in a row, and sitemaps within sitemaps.
const HOPS_MAX: u32 = 10;
/// Held hosts that are named in the summary.
const HELD_SHOWN_MAX: usize = 5;
/// The longest pause that a server is granted.
const PAUSE_MAX: Duration = Duration::from_secs(3600);

/// How far a crawl goes.
#[derive(Debug, Clone)]
pub(crate) struct Bounds {
    pub(crate) seeds: Vec<Url>,
    pub(crate) scope: Scope,
    pub(crate) traps: TrapLimits,
    pub(crate) depth: Option<u32>,
    /// Pages to fetch in this run.
    pub(crate) pages: Option<u64>,
    pub(crate) sitemaps: bool,
    /// Fetches of a URL before it is given up.
    pub(crate) attempts: u32,
    /// Pause after the first failed fetch; doubled with each.
    pub(crate) backoff: Duration,
    /// The product token that robots.txt knows us by.
    pub(crate) product: String,
}

/// How a URL was found.
#[derive(Clone, Copy)]
struct Found {
    depth: u32,
    hops: u32,
    kind: Kind,
}

pub(crate) struct Core {
    db: Db,
    bounds: Bounds,
    seen: SeenSet,
    frontier: Frontier,
    totals: Totals,
    left_out: BTreeMap<&'static str, u64>,
    counts: Summary,
    /// In the batch under way: to be told to the frontier when it is committed.
    fresh: Vec<Fresh>,
    /// Attempts to get robots.txt, of origins where it failed.
    robots_attempts: BTreeMap<Arc<str>, u32>,
}

impl Core {
    /// Takes up a crawl where its store stands, and enters the seeds that are new.
    pub(crate) fn open(
        store: Store,
        seen: seen::Choice,
        bounds: Bounds,
        pace: Pace,
    ) -> Result<Core, Failure> {
        let db = store.db;
        let mut core = Core {
            seen: SeenSet::open(&db, seen)?,
            frontier: Frontier::open(&db, pace, bounds.depth.is_some())?,
            db,
            bounds,
            totals: store.totals,
            left_out: BTreeMap::new(),
            counts: Summary::default(),
            fresh: Vec::new(),
            robots_attempts: BTreeMap::new(),
        };
        let found = Found {
            depth: 0,
            hops: 0,
            kind: Kind::Page,
        };
        let mut batch = core.db.batch();
        let seeds = core.bounds.seeds.iter().collect();
        core.enter_all(&mut batch, &seeds, found)?;
        core.commit(batch)?;
        Ok(core)
    }

    /// Milliseconds since 1970; never before what an earlier run has written.
    pub(crate) fn now(&self) -> u64 {
        now_ms().max(self.totals.latest)
    }

    /// What to do next.
    pub(crate) fn next(&mut self) -> Result<Next, Failure> {
        loop {
            let under_way = self.frontier.in_flight() as u64;
            if self
                .bounds
                .pages
                .is_some_and(|most| self.counts.pages + under_way >= most)
            {
                return Ok(if under_way > 0 {
                    Next::Busy
                } else {
                    Next::Done
                });
            }
            let next = self.frontier.next(self.now())?;
            if let Next::Work(work) = &next
                && let Work::Robots { origin, .. } = &**work
                && let Some(file) = RobotsFile::load(&self.db, origin, self.now())?
            {
                let origin = Arc::clone(origin);
                let Next::Work(work) = next else { continue };
                let Work::Robots { kept, .. } = *work else {
                    continue;
                };
                self.learn(&origin, &file, kept)?;
                continue;
            }
            return Ok(next);
        }
    }

    /// robots.txt was asked for.
    pub(crate) fn finish_robots(
        &mut self,
        origin: &Arc<str>,
        answer: Answer,
        kept: Option<Connection>,
    ) -> Result<(), Failure> {
        match answer {
            Answer::File(file) => {
                self.robots_attempts.remove(origin);
                self.db.put(keys::robots(origin), file.encode(self.now()))?;
                self.learn(origin, &file, kept)
            }
            Answer::Unreachable(why) => {
                let attempts = self.robots_attempts.entry(Arc::clone(origin)).or_default();
                *attempts += 1;
                if *attempts < self.bounds.attempts {
                    let pause = self.bounds.backoff * (1 << (*attempts - 1).min(10));
                    self.frontier.ask_again(origin, Instant::now() + pause);
                } else {
                    if self.counts.held.len() < HELD_SHOWN_MAX {
                        self.counts.held.push(format!("{origin}: {why}"));
                    }
                    self.frontier.learned(origin, None, kept);
                }
                Ok(())
            }
        }
    }

    fn learn(
        &mut self,
        origin: &Arc<str>,
        file: &RobotsFile,
        kept: Option<Connection>,
    ) -> Result<(), Failure> {
        let robots = file.rules(&self.bounds.product);
        self.counts.hosts += 1;
        if self.bounds.sitemaps {
            self.enter_sitemaps(&robots)?;
        }
        self.frontier.learned(origin, Some(robots), kept);
        Ok(())
    }

    fn enter_sitemaps(&mut self, robots: &Robots) -> Result<(), Failure> {
        let urls = robots
            .sitemaps()
            .iter()
            .filter_map(|text| Url::parse(text).ok());
        let urls: Addresses = urls
            .filter(|url| matches!(url.scheme(), "http" | "https"))
            .collect();
        let mut batch = self.db.batch();
        self.enter_all(
            &mut batch,
            &urls,
            Found {
                depth: 0,
                hops: 0,
                kind: Kind::Sitemap,
            },
        )?;
        self.commit(batch)
    }

    /// A fetch has ended: one batch. `archived` is where the archive ends, with this exchange in
    /// it.
    pub(crate) fn finish(
        &mut self,
        job: Job,
        outcome: Outcome,
        archived: Option<u64>,
    ) -> Result<(), Failure> {
        let mut batch = self.db.batch();
        if let Some(end) = archived {
            batch.put(keys::ARCHIVE_END, crate::archive::encode_end(end));
        }
        batch.delete(keys::waiting(&job.origin, job.place));
        self.totals.waiting = self.totals.waiting.saturating_sub(1);
        let mut retry = None;
        match outcome {
            Outcome::Disallowed => {
                self.counts.disallowed += 1;
                let (depth, now) = (job.entry.depth, self.now());
                let record = Record::bare(State::Disallowed, &job.entry.url, depth, now);
                batch.put(keys::page(job.place.id), record.encode());
            }
            Outcome::Unchanged => self.unchanged(&job, &mut batch)?,
            Outcome::Done { record, links } => self.done(&job, *record, &links, &mut batch)?,
            Outcome::Trouble { why, status, pause } => {
                retry = self.trouble(&job, (why, status, pause), &mut batch)?;
            }
        }
        self.commit(batch)?;
        if let Some((place, entry, at, pauses)) = retry {
            let origin_len = job.origin.len();
            let fresh = Fresh {
                place,
                entry,
                origin_len,
            };
            self.frontier.entered(fresh, at);
            if pauses {
                self.frontier.pause(&job.origin, at);
            }
        }
        self.frontier
            .finished(&job.origin, job.entry.depth, job.kept);
        Ok(())
    }

    /// Commits a batch with the totals, and tells the frontier what it brings.
    fn commit(&mut self, mut batch: Batch) -> Result<(), Failure> {
        if batch.is_empty() {
            return Ok(());
        }
        batch.put(keys::TOTALS, self.totals.encode());
        batch.commit()?;
        let now = Instant::now();
        for fresh in self.fresh.drain(..) {
            self.frontier.entered(fresh, now);
        }
        Ok(())
    }

    fn done(
        &mut self,
        job: &Job,
        mut record: Record,
        links: &Links,
        batch: &mut Batch,
    ) -> Result<(), Failure> {
        let id = job.place.id;
        self.counts.fetches += 1;
        if !job.entry.again && self.db.contains_key(keys::page(id))? {
            self.counts.fetched_twice += 1;
        }
        match record.state {
            State::Fetched => self.page(id, &record, batch)?,
            State::Redirect => self.counts.redirects += 1,
            State::Refused => self.counts.client_errors += 1,
            State::Failed | State::Disallowed | State::Sitemap => {}
        }
        if links.nofollow > 0 {
            *self.left_out.entry("nofollow").or_default() += links.nofollow;
        }
        let (depth, hops) = (job.entry.depth, job.entry.hops);
        let found = match record.state {
            State::Redirect => Found {
                depth,
                hops: hops + 1,
                kind: Kind::Page,
            },
            _ => Found {
                depth: depth + 1,
                hops: 0,
                kind: Kind::Page,
            },
        };
        record.links = self.enter_all(batch, &links.pages, found)?;
        let found = Found {
            depth,
            hops: hops + 1,
            kind: Kind::Sitemap,
        };
        record
            .links
            .extend(self.enter_all(batch, &links.sitemaps, found)?);
        record.links.sort_unstable();
        batch.put(keys::page(id), record.encode());
        Ok(())
    }

    fn page(&mut self, id: u64, record: &Record, batch: &mut Batch) -> Result<(), Failure> {
        self.counts.pages += 1;
        self.counts.noindex += u64::from(record.noindex);
        self.counts.not_canonical += u64::from(record.not_canonical);
        let key = keys::content(record.content_hash);
        match self.db.get(&key)? {
            None => {
                let mut first = Vec::new();
                common::codec::put_number(&mut first, id);
                batch.put(key, first);
            }
            Some(first) => {
                let first = common::codec::Reader(&first).number()?;
                self.counts.exact_duplicates += u64::from(first != id);
            }
        }
        Ok(())
    }

    fn unchanged(&mut self, job: &Job, batch: &mut Batch) -> Result<(), Failure> {
        self.counts.fetches += 1;
        self.counts.not_modified += 1;
        let key = keys::page(job.place.id);
        let Some(value) = self.db.get(&key)? else {
            return Err(Failure::Damaged(
                "a page that was fetched has no record".into(),
            ));
        };
        let record = Record {
            fetched_at: self.now(),
            ..Record::decode(&value)?
        };
        self.counts.pages += u64::from(record.state == State::Fetched);
        batch.put(key, record.encode());
        Ok(())
    }

    /// Plans another attempt, or gives up.
    fn trouble(
        &mut self,
        job: &Job,
        (why, status, pause): (String, u16, Option<Duration>),
        batch: &mut Batch,
    ) -> Result<Option<(Place, Entry, Instant, bool)>, Failure> {
        let now = self.now();
        let attempts = job.entry.attempts + 1;
        if attempts >= self.bounds.attempts {
            self.counts.failed += 1;
            // What was fetched before stays as it is.
            if !job.entry.again {
                let mut record = Record::bare(State::Failed, &job.entry.url, job.entry.depth, now);
                (record.status, record.title) = (status, why);
                batch.put(keys::page(job.place.id), record.encode());
            }
            return Ok(None);
        }
        self.counts.retries += 1;
        let backoff = self.bounds.backoff * (1 << (attempts - 1).min(10));
        // At least a moment: an entry that is due now could stand behind the frontier's cursor.
        let least = Duration::from_millis(1);
        let wait = pause
            .unwrap_or_default()
            .max(backoff)
            .clamp(least, PAUSE_MAX);
        let place = Place {
            due: now + wait.as_millis() as u64,
            id: job.place.id,
        };
        let entry = Entry {
            attempts,
            ..job.entry.clone()
        };
        batch.put(keys::waiting(&job.origin, place), entry.encode());
        self.totals.waiting += 1;
        Ok(Some((place, entry, Instant::now() + wait, pause.is_some())))
    }

    /// Enters URLs that are wanted and new; the numbers of all that are wanted, each once.
    fn enter_all(
        &mut self,
        batch: &mut Batch,
        urls: &Addresses,
        found: Found,
    ) -> Result<Vec<u64>, Failure> {
        let mut ids = Vec::with_capacity(urls.len());
        for url in urls.iter() {
            if let Some(id) = self.enter(batch, url, found)? {
                self.counts.links += 1;
                ids.push(id);
            }
        }
        Ok(ids)
    }

    fn enter(
        &mut self,
        batch: &mut Batch,
        address: &str,
        found: Found,
    ) -> Result<Option<u64>, Failure> {
        if let Some(id) = self.seen.find_recent(address) {
            return Ok(Some(id));
        }
        let url = parsed(address)?;
        if let Some(reason) = self.unwanted(&url, found) {
            *self.left_out.entry(reason).or_default() += 1;
            return Ok(None);
        }
        if let Some(id) = self.seen.find(address)? {
            return Ok(Some(id));
        }
        let id = self.totals.urls;
        self.seen.insert(address, id, batch)?;
        self.totals.urls += 1;
        self.totals.waiting += 1;
        self.totals.latest = self.now();
        let place = Place {
            due: self.totals.latest,
            id,
        };
        let entry = Entry {
            url: address.to_owned(),
            depth: found.depth,
            hops: found.hops,
            attempts: 0,
            kind: found.kind,
            again: false,
        };
        let origin = keys::origin(&url);
        batch.put(keys::waiting(origin, place), entry.encode());
        self.fresh.push(Fresh {
            place,
            entry,
            origin_len: origin.len(),
        });
        Ok(Some(id))
    }

    /// Why a URL is not for this crawl.
    fn unwanted(&self, url: &Url, found: Found) -> Option<&'static str> {
        if !self.bounds.scope.contains(&self.bounds.seeds, url) {
            return Some("out of scope");
        }
        if self.bounds.depth.is_some_and(|most| found.depth > most) {
            return Some("too deep");
        }
        if found.hops > HOPS_MAX {
            return Some("too many redirects");
        }
        // A sitemap may list very many parameters and long paths; it is no page.
        trap::is_trap(url, &self.bounds.traps)
    }

    /// The head that a page had when it was fetched, for a conditional request.
    pub(crate) fn head_before(&self, id: u64) -> Result<Vec<u8>, Failure> {
        match self.db.get(keys::page(id))? {
            Some(value) => Ok(Record::decode(&value)?.head),
            None => Ok(Vec::new()),
        }
    }

    pub(crate) fn add_bytes(&mut self, bytes: u64) {
        self.counts.body_bytes += bytes;
    }

    /// Fetches that have begun and not ended.
    pub(crate) fn under_way(&self) -> usize {
        self.frontier.in_flight()
    }

    pub(crate) fn origins(&self) -> usize {
        self.frontier.origins()
    }

    /// Where the crawl stands.
    pub(crate) fn point(&self, at: Duration) -> Point {
        Point {
            at,
            pages: self.counts.pages,
            queue: self.totals.waiting,
            seen: self.seen.counts(),
        }
    }

    /// All counts of this run.
    pub(crate) fn summary(&self) -> Summary {
        let left_out = self
            .left_out
            .iter()
            .map(|(&reason, &count)| (reason.to_owned(), count));
        Summary {
            waiting: self.totals.waiting,
            urls_discovered: self.totals.urls,
            hosts_held: self.frontier.held() as u64,
            left_out: left_out.collect(),
            seen: self.seen.counts(),
            lost_to_filter: self.seen.lost(),
            ..self.counts.clone()
        }
    }
}

/// A normalised address, taken apart.
fn parsed(address: &str) -> Result<Url, Failure> {
    Url::parse(address).map_err(|error| Failure::Damaged(format!("a URL: {error}")))
}

/// Milliseconds since 1970 by the clock of the system.
pub(crate) fn now_ms() -> u64 {
    let since = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH);
    since.map_or(0, |since| since.as_millis() as u64)
}
