//! Runs a crawl: threads that take work, fetch, read, and commit what they found.
//!
//! As many threads as requests may be under way. Whoever has finished a page commits it and takes
//! its next work under the same lock; fetching and reading pages happen outside of it. On a fast
//! server this needs no hand-over between threads at all.

use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use crawl::{Job, Next, Work, now_ms};
use url::Url;

use crate::archive::Archive;
use crate::core::Core;
use crate::failure::Failure;
use crate::http::{Ask, Body, Client, Conditional, Connection, Head, Response};
use crate::outcome::{Outcome, Reading};
use crate::page;
use crate::pool::Pool;
use crate::reason::Reason;
use crate::rules;
use crate::signals;
use crate::summary::{Point, Series, Summary};

/// How pages are fetched and read.
pub(crate) struct Fetching {
    pub(crate) client: Client,
    pub(crate) ask: Ask,
    pub(crate) reading: Reading,
    /// Requests under way at the same time, at all hosts together.
    pub(crate) workers: usize,
}

/// A crawl that is running.
pub(crate) struct Crawl {
    core: Mutex<State>,
    /// There may be something to do.
    work: Condvar,
    fetching: Fetching,
    archive: Option<Archive>,
}

struct State {
    core: Core,
    pool: Pool,
    /// Threads that wait for `work`.
    idle: usize,
    /// Threads that have not ended.
    running: usize,
    /// When the last one had ended.
    ended: Option<Instant>,
    /// Who is to be woken then.
    watcher: thread::Thread,
    failure: Option<Failure>,
    /// A signal has come: what is under way is finished, and nothing more is begun.
    is_stopping: bool,
}

/// Where a crawl stands, for whoever looks on.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Look {
    pub(crate) point: Point,
    /// Requests under way.
    pub(crate) under_way: usize,
    pub(crate) is_stopping: bool,
}

/// Looks are at most this far apart, so that a signal is soon obeyed.
const LOOK: Duration = Duration::from_millis(100);

/// Points that a series holds; with more, every second one goes.
const POINTS_MAX: usize = 1000;

impl Crawl {
    pub(crate) fn new(core: Core, fetching: Fetching, archive: Option<Archive>) -> Crawl {
        let state = State {
            core,
            pool: Pool::default(),
            idle: 0,
            running: 0,
            ended: None,
            watcher: thread::current(),
            failure: None,
            is_stopping: false,
        };
        Crawl {
            core: Mutex::new(state),
            work: Condvar::new(),
            fetching,
            archive,
        }
    }

    /// Crawls to the end, or until a signal asks for it. `watch` is called now and then with where it
    /// stands.
    pub(crate) fn run(self, mut watch: impl FnMut(&Look)) -> Result<(Summary, Series), Failure> {
        let began = Instant::now();
        let mut series = Series::default();
        {
            let mut state = self.lock();
            state.running = self.fetching.workers;
            state.watcher = thread::current();
        }
        thread::scope(|scope| {
            for _ in 0..self.fetching.workers {
                scope.spawn(|| self.work());
            }
            self.watch(began, &mut series, &mut watch);
        });
        let state = self.core.into_inner();
        let mut state = state.unwrap_or_else(PoisonError::into_inner);
        let took = state.ended.map_or(began.elapsed(), |ended| ended - began);
        if let Some(failure) = state.failure.take() {
            return Err(failure);
        }
        state.core.flush()?;
        series.points.push(state.core.point(took));
        if let Some(archive) = self.archive {
            archive.finish()?;
        }
        state.core.finish_log()?;
        let summary = state.core.summary();
        Ok((
            Summary {
                took,
                is_stopped: state.is_stopping && summary.waiting > 0,
                ..summary
            },
            series,
        ))
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.core.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Looks at the crawl until its last thread has ended.
    fn watch(&self, began: Instant, series: &mut Series, watch: &mut impl FnMut(&Look)) {
        let mut pause = Duration::from_millis(10);
        let mut next_point = Duration::ZERO;
        let mut state = self.lock();
        while state.running > 0 {
            if !state.is_stopping && signals::asked_to_stop() {
                state.is_stopping = true;
                self.work.notify_all();
            }
            let look = Look {
                point: state.core.point(began.elapsed()),
                under_way: state.core.under_way(),
                is_stopping: state.is_stopping,
            };
            drop(state);
            watch(&look);
            if look.point.at >= next_point {
                series.points.push(look.point);
                next_point = look.point.at + pause;
            }
            if series.points.len() > POINTS_MAX {
                let mut number = 0;
                series.points.retain(|_| {
                    number += 1;
                    number % 2 == 0
                });
                pause = (2 * pause).min(Duration::from_secs(60));
            }
            thread::park_timeout(pause.min(LOOK));
            state = self.lock();
        }
    }

    /// The life of one thread.
    fn work(&self) {
        let mut fetcher = Fetcher {
            crawl: self,
            request: Vec::new(),
            body: Body::default(),
            room: page::Room::default(),
        };
        let mut state = self.lock();
        let result = loop {
            match self.take(state) {
                Ok(Some(taken)) => match fetcher.finish(taken) {
                    Ok(next) => state = next,
                    Err(failure) => break Err(failure),
                },
                Ok(None) => break Ok(()),
                Err(failure) => break Err(failure),
            }
        };
        let mut state = self.lock();
        state.running -= 1;
        if state.running == 0 {
            state.ended = Some(Instant::now());
            state.watcher.unpark();
        }
        if let Err(failure) = result {
            state.failure.get_or_insert(failure);
        }
        drop(state);
        self.work.notify_all();
    }

    /// Waits for work; `None` when the crawl is over.
    fn take<'a>(&'a self, mut state: MutexGuard<'a, State>) -> Result<Option<Taken>, Failure> {
        loop {
            if state.failure.is_some() || state.is_stopping {
                return Ok(None);
            }
            let wait = match state.core.next()? {
                Next::Work(work) => {
                    // There may be more: one who sleeps will see, and wake the next.
                    if state.idle > 0 {
                        self.work.notify_one();
                    }
                    let origin = match &work {
                        Work::Ask(origin) => origin,
                        Work::Fetch(job) => &job.origin,
                    };
                    let kept = state.pool.take(origin);
                    return Ok(Some(Taken { work, kept }));
                }
                Next::Done => return Ok(None),
                Next::Wait(until) => until.saturating_duration_since(Instant::now()),
                Next::Busy => Duration::from_secs(3600),
            };
            state.idle += 1;
            let woken = self.work.wait_timeout(state, wait);
            state = woken.unwrap_or_else(PoisonError::into_inner).0;
            state.idle -= 1;
        }
    }
}

/// Work, and a connection that may still be open.
struct Taken {
    work: Work,
    kept: Option<Connection>,
}

/// One thread's own things.
struct Fetcher<'a> {
    crawl: &'a Crawl,
    request: Vec<u8>,
    /// Room for bodies.
    body: Body,
    /// Room to read pages.
    room: page::Room,
}

impl<'a> Fetcher<'a> {
    /// Does the work, commits the result, and leaves the lock to whoever takes the next.
    fn finish(&mut self, taken: Taken) -> Result<MutexGuard<'a, State>, Failure> {
        let crawl = self.crawl;
        let Fetching { client, ask, .. } = &crawl.fetching;
        let Taken { work, mut kept } = taken;
        let state = match work {
            Work::Ask(origin) => {
                let mut keep = |url: &Url, request: &[u8], response: &Response| {
                    let archive = crawl.archive.as_ref();
                    archive.map_or(Ok(()), |archive| archive.add(url, request, response))
                };
                let answer = rules::fetch(client, ask, &origin, &mut kept, &mut keep)?;
                let mut state = crawl.lock();
                state.pool.give(&origin, kept);
                // Before the store believes the answer: it is not asked for again then.
                crawl.archive.as_ref().map_or(Ok(()), Archive::commit_end)?;
                state.core.finish_robots(&origin, answer)?;
                state
            }
            Work::Fetch(job) => {
                let began = Instant::now();
                let (outcome, bytes) = self.fetch(&job, &mut kept)?;
                let took = began.elapsed();
                let mut state = crawl.lock();
                state.pool.give(&job.origin, kept);
                state.core.add_bytes(bytes);
                let archived = crawl.archive.as_ref().map(Archive::end);
                state.core.finish(*job, outcome, took, archived)?;
                state
            }
        };
        // Those who wait for something to come would wait in vain after the last one.
        if state.core.under_way() == 0 {
            crawl.work.notify_all();
        }
        Ok(state)
    }

    /// Fetches and reads a page; how many bytes its body had on the wire.
    fn fetch(
        &mut self,
        job: &Job,
        kept: &mut Option<Connection>,
    ) -> Result<(Outcome, u64), Failure> {
        if !job.allowed {
            return Ok((Outcome::LeftOut(Reason::Robots), 0));
        }
        let Fetching {
            client,
            ask,
            reading,
            ..
        } = &self.crawl.fetching;
        let mut conditional = Conditional::default();
        if job.entry.again {
            let head = self.crawl.lock().core.head_before(job.place.id)?;
            conditional.etag = Head::find(&head, "etag");
            conditional.last_modified = Head::find(&head, "last-modified");
        }
        ask.write(&job.url, &conditional, &mut self.request);
        let body = std::mem::take(&mut self.body);
        let answer = client.exchange(&job.url, &self.request, body, kept);
        let mut bytes = 0;
        if let Ok(response) = &answer {
            bytes = response.wire.len() as u64;
            if let Some(archive) = &self.crawl.archive {
                archive.add(&job.url, &self.request, response)?;
            }
        }
        let outcome = reading.outcome(job, &answer, now_ms(), &mut self.room);
        if let Ok(response) = answer {
            self.body = response.into_room();
        }
        Ok((outcome, bytes))
    }
}
