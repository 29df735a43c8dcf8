//! The state of a crawl under one lock: the crawl itself, what is kept of pages, the counts.
//!
//! Every page is one batch ([`crawl::Step`]): its record, the URLs discovered on it, its place in the
//! frontier given up and theirs taken. So the store stands between two pages at every moment, and a
//! crawl that was killed goes on as if it had stopped there.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

use crawl::{Crawl, Found, Job, Manners, Next, Step, Work, keys};
use url::Url;

use crate::addresses::Addresses;
use crate::bounds::Bounds;
use crate::budget::Budgets;
use crate::failure::Failure;
use crate::keys::{ARCHIVE_END, Kept};
use crate::left_out::LeftOut;
use crate::log::{Ended, Log, Trouble};
use crate::outcome::{Links, Outcome};
use crate::reason::Reason;
use crate::record::{Kind, Record, State};
use crate::robots::Robots;
use crate::rules::{Answer, RobotsFile};
use crate::summary::{Point, Summary};

/// Held hosts that are named in the summary.
const HELD_SHOWN_MAX: usize = 5;
/// The longest pause that a server is granted.
const PAUSE_MAX: Duration = Duration::from_secs(3600);

pub(crate) struct Core {
    crawl: Crawl,
    kept: Kept,
    rest: Rest,
    log: Option<Log>,
    /// Attempts to get robots.txt, of origins where it failed.
    robots_attempts: BTreeMap<Arc<str>, u32>,
}

/// The state that a step changes besides the crawl.
struct Rest {
    bounds: Bounds,
    budgets: Budgets,
    left_out: LeftOut,
    counts: Summary,
}

impl Core {
    /// Goes on with a crawl, and enters the seeds that are new.
    pub(crate) fn open(
        crawl: Crawl,
        kept: Kept,
        bounds: Bounds,
        log: Option<Log>,
    ) -> Result<Core, Failure> {
        let mut core = Core {
            crawl,
            rest: Rest {
                budgets: Budgets::new(bounds.budgets).with_host_pages(bounds.hosts.pages()),
                bounds,
                left_out: LeftOut::default(),
                counts: Summary::default(),
            },
            kept,
            log,
            robots_attempts: BTreeMap::new(),
        };
        let mut step = core.crawl.begin();
        // The user has named them, so they are wanted whatever the patterns say.
        for seed in &core.rest.bounds.seeds {
            step.discover(seed, Found::default())?;
        }
        step.commit()?;
        Ok(core)
    }

    /// Hands out the next work.
    pub(crate) fn next(&mut self) -> Result<Next, Failure> {
        loop {
            let under_way = self.crawl.under_way() as u64;
            let pages = self.rest.counts.pages + under_way;
            if self.rest.bounds.pages.is_some_and(|most| pages >= most) {
                return Ok(if under_way > 0 {
                    Next::Busy
                } else {
                    Next::Done
                });
            }
            match self.crawl.take()? {
                Next::Work(Work::Ask(origin)) => {
                    let (origins, now) = (&self.kept.origins, self.crawl.now());
                    match RobotsFile::load(origins, &origin, now)? {
                        Some(file) => self.learn(&origin, &file)?,
                        None => return Ok(Next::Work(Work::Ask(origin))),
                    }
                }
                Next::Work(Work::Fetch(job)) if is_budgeted(&job) => {
                    let budgets = &mut self.rest.budgets;
                    let refused = budgets.admit(&job.url, &mut self.kept.loader())?;
                    match refused {
                        Some(reason) => {
                            self.finish(*job, Outcome::LeftOut(reason), Duration::ZERO, None)?;
                        }
                        None => return Ok(Next::Work(Work::Fetch(job))),
                    }
                }
                next => return Ok(next),
            }
        }
    }

    /// robots.txt was asked for.
    pub(crate) fn finish_robots(
        &mut self,
        origin: &Arc<str>,
        answer: Answer,
    ) -> Result<(), Failure> {
        match answer {
            Answer::File(file) => {
                self.robots_attempts.remove(origin);
                let value = file.encode(self.crawl.now());
                self.kept.origins.put(&**origin, value)?;
                self.learn(origin, &file)
            }
            Answer::Unreachable(why) => {
                let attempts = self.robots_attempts.entry(Arc::clone(origin)).or_default();
                *attempts += 1;
                let given_up = *attempts >= self.rest.bounds.attempts;
                if let Some(log) = &mut self.log {
                    log.trouble(&Trouble {
                        url: &format!("{origin}/robots.txt"),
                        why: &why,
                        status: 0,
                        attempt: *attempts,
                        given_up,
                    })?;
                }
                if !given_up {
                    let pause = self.rest.bounds.backoff * (1 << (*attempts - 1).min(10));
                    self.crawl.ask_again(origin, Instant::now() + pause);
                } else {
                    let held = &mut self.rest.counts.held;
                    if held.len() < HELD_SHOWN_MAX {
                        held.push(format!("{origin}: {why}"));
                    }
                    self.crawl.learned(origin, None);
                }
                Ok(())
            }
        }
    }

    fn learn(&mut self, origin: &Arc<str>, file: &RobotsFile) -> Result<(), Failure> {
        let robots = file.rules(&self.rest.bounds.product);
        self.rest.counts.hosts += 1;
        if self.rest.bounds.sitemaps {
            self.enter_sitemaps(&robots)?;
        }
        let pace = self.rest.bounds.pace_of(origin);
        let manners = Manners {
            connections: pace.connections,
            delay: pace.delay.max(robots.crawl_delay().unwrap_or_default()),
            rules: Some(Arc::new(robots)),
        };
        self.crawl.learned(origin, Some(manners));
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
        let found = Found {
            kind: Kind::Sitemap as u8,
            ..Found::default()
        };
        let mut step = self.crawl.begin();
        self.rest.enter_all(&mut step, &self.kept, (&urls, found))?;
        Ok(step.commit()?)
    }

    /// A fetch has ended: one batch. `archived` is where the archive ends, with this exchange in
    /// it.
    pub(crate) fn finish(
        &mut self,
        job: Job,
        outcome: Outcome,
        took: Duration,
        archived: Option<u64>,
    ) -> Result<(), Failure> {
        let Core {
            crawl,
            kept,
            rest,
            log,
            ..
        } = self;
        let ended = log.is_some().then(|| Ended::of(&job, &outcome, took));
        let (id, now) = (job.place.id, crawl.now());
        let key = keys::number(id);
        // A page that has come is counted with its links, and one that is left out was not admitted.
        let is_released = match &outcome {
            Outcome::Done { record, .. } => record.state != State::Fetched,
            Outcome::LeftOut(_) => false,
            Outcome::Unchanged | Outcome::Trouble { .. } => true,
        };
        if is_budgeted(&job) && is_released {
            rest.budgets.release(&job.url);
        }
        let mut step = crawl.finish(job);
        if let Some(end) = archived {
            let end = crate::archive::encode_end(end);
            step.batch().put(ARCHIVE_END, end);
        }
        let record = match outcome {
            Outcome::LeftOut(reason) => {
                match reason {
                    Reason::Robots => rest.counts.disallowed += 1,
                    _ => step.not_asked(),
                }
                rest.left_out(&mut step, kept, reason, now)
            }
            Outcome::Unchanged => Some(rest.unchanged(kept, id, now)?),
            Outcome::Done { record, links } => {
                Some(rest.done(&mut step, kept, (*record, &links))?)
            }
            Outcome::Trouble { why, status, pause } => {
                rest.trouble(&mut step, (why, status, pause), now)
            }
        };
        if let Some(record) = &record {
            let mut pages = step.batch().keyspace(&kept.pages);
            pages.put(key, record.encode());
        }
        step.commit()?;
        if let (Some(log), Some(ended)) = (log, ended) {
            log.ended(&ended, record.as_ref(), kept, rest.bounds.attempts)?;
        }
        Ok(())
    }

    /// Everything in the log is on disk when this returns.
    pub(crate) fn finish_log(&mut self) -> Result<(), Failure> {
        self.log.take().map_or(Ok(()), Log::finish)
    }

    /// Writes what was held back, at the end of a run.
    pub(crate) fn flush(&mut self) -> Result<(), Failure> {
        let writes = self.rest.budgets.flush();
        let mut batch = self.crawl.store().db().batch();
        self.kept.put_budgets(&mut batch, writes);
        Ok(batch.commit()?)
    }

    /// The head that a page had when it was fetched, for a conditional request. One whose body was
    /// cut has none: it is to be sent again, and may be whole then.
    pub(crate) fn head_before(&self, id: u64) -> Result<Vec<u8>, Failure> {
        match self.kept.pages.get(keys::number(id))? {
            Some(value) => {
                let record = Record::decode(&value)?;
                Ok(if record.truncated {
                    Vec::new()
                } else {
                    record.head
                })
            }
            None => Ok(Vec::new()),
        }
    }

    pub(crate) fn add_bytes(&mut self, bytes: u64) {
        self.rest.counts.body_bytes += bytes;
    }

    /// Fetches that have begun and not ended.
    pub(crate) fn under_way(&self) -> usize {
        self.crawl.under_way()
    }

    /// Where the crawl stands.
    pub(crate) fn point(&self, at: Duration) -> Point {
        Point {
            at,
            pages: self.rest.counts.pages,
            queue: self.crawl.store().totals().waiting,
            seen: self.crawl.seen().counts(),
        }
    }

    /// All counts of this run.
    pub(crate) fn summary(&self) -> Summary {
        let totals = self.crawl.store().totals();
        Summary {
            waiting: totals.waiting,
            urls_discovered: totals.urls,
            hosts_held: self.crawl.held() as u64,
            left_out: self.rest.left_out.counts(),
            seen: self.crawl.seen().counts(),
            lost_to_filter: self.crawl.seen().lost(),
            ..self.rest.counts.clone()
        }
    }
}

impl Rest {
    /// A page was read, or a redirect. Returns what is kept of it.
    fn done(
        &mut self,
        step: &mut Step<'_>,
        kept: &Kept,
        (mut record, links): (Record, &Links),
    ) -> Result<Record, Failure> {
        let Some(entry) = step.job().map(|job| job.entry.clone()) else {
            return Ok(record);
        };
        let id = step.id();
        self.counts.fetches += 1;
        self.counts.cut += u64::from(record.truncated);
        if !entry.again && kept.pages.contains_key(keys::number(id))? {
            self.counts.fetched_twice += 1;
        }
        let mut read = None;
        match record.state {
            State::Fetched => {
                self.page(step, kept, &record)?;
                if let Some(job) = step.job() {
                    let load = &mut kept.loader();
                    read = Some(self.budgets.read(&job.url, &links.sketch, load)?);
                }
            }
            State::Redirect => self.counts.redirects += 1,
            State::Refused => self.counts.client_errors += 1,
            State::Failed | State::Disallowed | State::Sitemap | State::LeftOut => {}
        }
        for address in links.nofollow.iter() {
            self.left_out.add(step, kept, (address, Reason::Nofollow));
        }
        let (depth, hops) = (entry.depth, entry.hops + 1);
        let kind = Kind::Page as u8;
        let found = match record.state {
            State::Redirect => Found { depth, hops, kind },
            _ => Found {
                depth: depth + 1,
                hops: if links.forwards { hops } else { 0 },
                kind,
            },
        };
        record.links = match read.as_ref().and_then(|read| read.left_out) {
            None => self.enter_all(step, kept, (&links.pages, found))?,
            Some(reason) => self.known(step, kept, (&links.pages, found, reason))?,
        };
        // A page that is fetched again was counted the first time.
        if let Some(read) = read.filter(|_| !entry.again) {
            let leads_on = step.discovered() > 0;
            let writes = self.budgets.finish(&read, leads_on, &mut kept.loader())?;
            kept.put_budgets(step.batch(), writes);
        }
        let kind = Kind::Sitemap as u8;
        let found = Found { depth, hops, kind };
        let maps = self.enter_all(step, kept, (&links.sitemaps, found))?;
        record.links.extend(maps);
        record.links.sort_unstable();
        Ok(record)
    }

    /// Notes that the page of a step is left out. Returns its record.
    fn left_out(
        &mut self,
        step: &mut Step<'_>,
        kept: &Kept,
        reason: Reason,
        now: u64,
    ) -> Option<Record> {
        let state = match reason {
            Reason::Robots => State::Disallowed,
            _ => State::LeftOut,
        };
        let record = bare(step, state, now)?;
        self.left_out.add(step, kept, (&record.url, reason));
        Some(record)
    }

    fn page(&mut self, step: &mut Step<'_>, kept: &Kept, record: &Record) -> Result<(), Failure> {
        self.counts.pages += 1;
        self.counts.noindex += u64::from(record.noindex);
        self.counts.not_canonical += u64::from(record.not_canonical);
        let (key, id) = (record.content_hash.to_le_bytes(), step.id());
        match kept.contents.get(key)? {
            None => {
                let mut first = Vec::new();
                common::codec::put_number(&mut first, id);
                step.batch().keyspace(&kept.contents).put(key, first);
            }
            Some(first) => {
                let first = common::codec::Reader(&first).number()?;
                self.counts.exact_duplicates += u64::from(first != id);
            }
        }
        Ok(())
    }

    fn unchanged(&mut self, kept: &Kept, id: u64, now: u64) -> Result<Record, Failure> {
        self.counts.fetches += 1;
        self.counts.not_modified += 1;
        let Some(value) = kept.pages.get(keys::number(id))? else {
            return Err(Failure::Damaged(
                "a page that was fetched has no record".into(),
            ));
        };
        let record = Record {
            fetched_at: now,
            ..Record::decode(&value)?
        };
        self.counts.pages += u64::from(record.state == State::Fetched);
        Ok(record)
    }

    /// Plans another attempt, or gives up, with a record if there was none before.
    fn trouble(
        &mut self,
        step: &mut Step<'_>,
        (why, status, pause): (String, u16, Option<Duration>),
        now: u64,
    ) -> Option<Record> {
        let (before, again) = step
            .job()
            .map(|job| (job.entry.attempts, job.entry.again))?;
        let attempts = before + 1;
        if attempts < self.bounds.attempts {
            self.counts.retries += 1;
            let backoff = self.bounds.backoff * (1 << (attempts - 1).min(10));
            let wait = pause.unwrap_or_default().max(backoff).min(PAUSE_MAX);
            step.retry(wait, pause.is_some());
            return None;
        }
        self.counts.failed += 1;
        // What was fetched before stays as it is.
        let record = bare(step, State::Failed, now).filter(|_| !again)?;
        Some(Record {
            status,
            title: why,
            ..record
        })
    }

    /// Enters URLs that are wanted and new; the numbers of all that are wanted, each once.
    fn enter_all(
        &mut self,
        step: &mut Step<'_>,
        kept: &Kept,
        (urls, found): (&Addresses, Found),
    ) -> Result<Vec<u64>, Failure> {
        let mut ids = Vec::with_capacity(urls.len());
        for address in urls.iter() {
            let mut id = step.recent(address);
            if id.is_none() {
                let url = parsed(address)?;
                match self.bounds.unwanted(&url, found) {
                    Some(reason) => self.left_out.add(step, kept, (address, reason)),
                    None => id = step.discover(&url, found)?,
                }
            }
            ids.extend(id);
        }
        self.counts.links += ids.len() as u64;
        Ok(ids)
    }

    /// The numbers of URLs that are known already. The others are left out.
    fn known(
        &mut self,
        step: &mut Step<'_>,
        kept: &Kept,
        (urls, found, reason): (&Addresses, Found, Reason),
    ) -> Result<Vec<u64>, Failure> {
        let mut ids = Vec::new();
        for address in urls.iter() {
            let id = match step.recent(address) {
                Some(id) => Some(id),
                None => step.number_of(address)?,
            };
            if id.is_none() {
                let unwanted = self.bounds.unwanted(&parsed(address)?, found);
                let reason = unwanted.unwrap_or(reason);
                self.left_out.add(step, kept, (address, reason));
            }
            ids.extend(id);
        }
        self.counts.links += ids.len() as u64;
        Ok(ids)
    }
}

fn parsed(address: &str) -> Result<Url, Failure> {
    Url::parse(address).map_err(|error| Failure::Damaged(format!("a URL: {error}")))
}

/// Whether budgets count what comes of this: a page that is asked for the first time.
fn is_budgeted(job: &Job) -> bool {
    job.allowed && !job.entry.again && Kind::of(&job.entry) == Kind::Page
}

/// A record of a page of which there is no answer.
fn bare(step: &Step<'_>, state: State, now: u64) -> Option<Record> {
    let entry = &step.job()?.entry;
    Some(Record::bare(state, &entry.url, entry.depth, now))
}
