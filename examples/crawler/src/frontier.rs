//! What to fetch next, and when: a window in memory onto the frontier in the store.
//!
//! Each origin has its queue in the store, in order of time and number. Of each, the first entries
//! are here, ready to be taken; the rest stays on disk, so memory does not grow with the crawl.
//!
//! Invariants:
//! 1. An entry stays in the store until the batch that finishes it deletes it. Whatever is here can
//!    be lost at any moment without losing a URL.
//! 2. `cursor` of an origin is the place of the last entry that came here from its queue. Everything
//!    before it was taken or is in `ready`; places only grow, so nothing is taken twice.
//! 3. An origin is in `schedule` whenever it could have something to do. Of several places there, the
//!    one that its `scheduled` names counts; the others are passed over.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BinaryHeap, HashMap, VecDeque};
use std::sync::Arc;
use std::time::{Duration, Instant};

use criba::Db;
use url::Url;

use crate::failure::Failure;
use crate::http::Connection;
use crate::keys::{self, Place};
use crate::record::Entry;
use crate::robots::Robots;

/// Entries of one origin that are kept here.
const READY_MAX: usize = 256;

/// Origins without work that are remembered for their pace, robots.txt and connections.
const IDLE_MAX: usize = 4096;

/// With more origins than this, connections are not kept.
const KEPT_MAX: usize = 512;

/// How fast we may be.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Pace {
    /// Requests under way at one origin.
    pub(crate) connections: usize,
    /// From the beginning of one request to that of the next, at one origin.
    pub(crate) delay: Duration,
}

/// What is known of an origin's robots.txt.
#[derive(Debug)]
enum Rules {
    Unknown,
    /// Being fetched.
    Asked,
    Known(Arc<Robots>),
    /// Not to be had: its URLs wait for another run.
    Held,
}

struct Origin {
    name: Arc<str>,
    ready: VecDeque<(Place, Entry)>,
    cursor: Option<Place>,
    /// When it is worth to look into the store for more; `None` if there is nothing.
    more: Option<Instant>,
    rules: Rules,
    next_at: Instant,
    in_flight: usize,
    scheduled: Option<Instant>,
    /// Connections that can be used again.
    kept: Vec<Connection>,
}

/// An entry that has come into the frontier.
pub(crate) struct Fresh {
    pub(crate) place: Place,
    pub(crate) entry: Entry,
    /// Its URL begins with `scheme://host:port`, in so many bytes.
    pub(crate) origin_len: usize,
}

/// Work for one who fetches.
#[derive(Debug)]
pub(crate) enum Work {
    /// Fetch robots.txt of this origin.
    Robots {
        origin: Arc<str>,
        kept: Option<Connection>,
    },
    /// Fetch this.
    Fetch(Job),
}

/// A URL to fetch.
#[derive(Debug)]
pub(crate) struct Job {
    pub(crate) origin: Arc<str>,
    pub(crate) place: Place,
    pub(crate) entry: Entry,
    pub(crate) url: Url,
    /// By robots.txt.
    pub(crate) allowed: bool,
    pub(crate) kept: Option<Connection>,
}

/// What there is to do.
#[derive(Debug)]
pub(crate) enum Next {
    Work(Box<Work>),
    /// Nothing before this moment.
    Wait(Instant),
    /// Nothing until something under way is finished.
    Busy,
    /// Nothing any more.
    Done,
}

/// All origins with something to do.
pub(crate) struct Frontier {
    db: Db,
    pace: Pace,
    origins: HashMap<Arc<str>, Origin>,
    schedule: BinaryHeap<Reverse<(Instant, Arc<str>)>>,
    in_flight: usize,
    held: usize,
    /// With a depth limit: how many entries wait or are under way at each depth. A level begins
    /// when the one above it has ended, so that a URL is found at its least depth.
    levels: Option<BTreeMap<u32, u64>>,
    blocked: Vec<Arc<str>>,
    /// All that is left is blocked by something beyond the window: the next one may be of any
    /// depth.
    any_depth: bool,
}

impl Frontier {
    /// Finds the origins that have something waiting: one seek for each.
    pub(crate) fn open(db: &Db, pace: Pace, by_level: bool) -> Result<Frontier, Failure> {
        let mut frontier = Frontier {
            db: db.clone(),
            pace,
            origins: HashMap::new(),
            schedule: BinaryHeap::new(),
            in_flight: 0,
            held: 0,
            levels: by_level.then(BTreeMap::new),
            blocked: Vec::new(),
            any_depth: false,
        };
        if let Some(levels) = &mut frontier.levels {
            for entry in db.prefix(keys::FRONTIER) {
                *levels.entry(Entry::decode(&entry?.1)?.depth).or_default() += 1;
            }
        }
        let mut from = keys::FRONTIER.to_vec();
        while let Some(entry) = db.range(&from[..]..&b"g"[..]).next() {
            let (key, _) = entry?;
            let (name, _) = keys::read_waiting(&key)
                .ok_or_else(|| Failure::Damaged("a key of the frontier is too short".into()))?;
            from = keys::queue(name);
            // Right behind all keys of this origin.
            if let Some(last) = from.last_mut() {
                *last = 1;
            }
            let now = Instant::now();
            frontier.origin(&Arc::from(name)).more = Some(now);
            frontier.plan(&Arc::from(name), now);
        }
        Ok(frontier)
    }

    /// An origin, made if it is new.
    fn origin(&mut self, name: &Arc<str>) -> &mut Origin {
        if !self.origins.contains_key(name) && self.origins.len() >= IDLE_MAX {
            self.forget_idle();
        }
        self.origins
            .entry(Arc::clone(name))
            .or_insert_with(|| Origin {
                name: Arc::clone(name),
                ready: VecDeque::new(),
                cursor: None,
                // What an earlier origin of this name has left, if anything.
                more: None,
                rules: Rules::Unknown,
                next_at: Instant::now(),
                in_flight: 0,
                scheduled: None,
                kept: Vec::new(),
            })
    }

    /// Forgets origins that have nothing to do and may be asked again at once.
    fn forget_idle(&mut self) {
        let now = Instant::now();
        self.origins.retain(|_, origin| {
            origin.scheduled.is_some()
                || origin.in_flight > 0
                || origin.more.is_some()
                || !origin.ready.is_empty()
                || origin.next_at > now
                || matches!(origin.rules, Rules::Held | Rules::Asked)
        });
    }

    /// Puts an origin into the schedule if it has something to do.
    fn plan(&mut self, name: &Arc<str>, now: Instant) {
        let connections = self.pace.connections;
        let Some(origin) = self.origins.get_mut(name) else {
            return;
        };
        let idle = matches!(origin.rules, Rules::Asked | Rules::Held);
        if idle || origin.in_flight >= connections {
            return;
        }
        let at = match (origin.ready.is_empty(), origin.more) {
            (false, _) => now,
            (true, Some(more)) => more,
            (true, None) => return,
        };
        let at = at.max(origin.next_at);
        if origin.scheduled.is_none_or(|planned| at < planned) {
            origin.scheduled = Some(at);
            self.schedule.push(Reverse((at, Arc::clone(name))));
        }
    }

    /// Takes note of an entry that a committed batch has put into the store.
    pub(crate) fn entered(&mut self, fresh: Fresh, due: Instant) {
        let (place, entry) = (fresh.place, fresh.entry);
        let name = &entry.url[..fresh.origin_len];
        if let Some(levels) = &mut self.levels {
            *levels.entry(entry.depth).or_default() += 1;
        }
        let name = match self.origins.get_key_value(name) {
            Some((name, _)) => Arc::clone(name),
            None => Arc::from(name),
        };
        let now = Instant::now();
        let origin = self.origin(&name);
        if due <= now && origin.more.is_none() && origin.ready.len() < READY_MAX {
            origin.cursor = Some(place);
            origin.ready.push_back((place, entry));
        } else {
            let due = due.max(now);
            origin.more = Some(origin.more.map_or(due, |more| more.min(due)));
        }
        self.plan(&name, now);
    }

    /// What to do now. `now_ms` is the time in the terms of the store.
    pub(crate) fn next(&mut self, now_ms: u64) -> Result<Next, Failure> {
        loop {
            let now = Instant::now();
            match self.schedule.peek() {
                Some(Reverse((at, _))) if *at > now => return Ok(Next::Wait(*at)),
                Some(_) => {}
                None if self.in_flight > 0 => return Ok(Next::Busy),
                None if !self.blocked.is_empty() => {
                    self.any_depth = true;
                    self.plan_blocked();
                    continue;
                }
                None => return Ok(Next::Done),
            }
            let Some(Reverse((at, name))) = self.schedule.pop() else {
                continue;
            };
            let origin = self.origins.get_mut(&name);
            let Some(origin) = origin.filter(|origin| origin.scheduled == Some(at)) else {
                continue;
            };
            origin.scheduled = None;
            if let Some(work) = self.take(&name, now, now_ms)? {
                return Ok(Next::Work(Box::new(work)));
            }
        }
    }

    fn take(
        &mut self,
        name: &Arc<str>,
        now: Instant,
        now_ms: u64,
    ) -> Result<Option<Work>, Failure> {
        let pace = self.pace;
        let least = self.least_depth();
        let db = self.db.clone();
        let Some(origin) = self.origins.get_mut(name) else {
            return Ok(None);
        };
        let robots = match &origin.rules {
            Rules::Known(robots) => Arc::clone(robots),
            Rules::Asked | Rules::Held => return Ok(None),
            Rules::Unknown => {
                origin.rules = Rules::Asked;
                origin.in_flight += 1;
                self.in_flight += 1;
                let work = Work::Robots {
                    origin: Arc::clone(name),
                    kept: origin.kept.pop(),
                };
                return Ok(Some(work));
            }
        };
        let fits = |entry: &Entry| least.is_none_or(|least| entry.depth <= least);
        if !origin.ready.front().is_some_and(|(_, entry)| fits(entry)) {
            origin.refill(&db, now, now_ms)?;
        }
        if origin.ready.is_empty() {
            self.plan(name, now);
            return Ok(None);
        }
        let fitting = origin.ready.iter().position(|(_, entry)| fits(entry));
        let Some((place, entry)) = fitting.and_then(|at| origin.ready.remove(at)) else {
            match origin.more.filter(|more| *more > now) {
                // A retry of that depth, perhaps.
                Some(more) => {
                    origin.scheduled = Some(more);
                    self.schedule.push(Reverse((more, Arc::clone(name))));
                }
                None => self.blocked.push(Arc::clone(name)),
            }
            return Ok(None);
        };
        let url = Url::parse(&entry.url)
            .map_err(|error| Failure::Damaged(format!("a URL in the frontier: {error}")))?;
        let allowed = robots.allows(&url);
        let delay = pace.delay.max(robots.crawl_delay().unwrap_or_default());
        // What robots.txt forbids is not asked for, so there is nothing to wait for.
        if allowed && !delay.is_zero() {
            origin.next_at = now + delay;
        }
        origin.in_flight += 1;
        self.in_flight += 1;
        let kept = origin.kept.pop();
        let origin = Arc::clone(name);
        self.plan(name, now);
        Ok(Some(Work::Fetch(Job {
            origin,
            place,
            entry,
            url,
            allowed,
            kept,
        })))
    }

    /// The depth that entries may have now; `None` for any.
    fn least_depth(&mut self) -> Option<u32> {
        if std::mem::take(&mut self.any_depth) {
            return None;
        }
        self.levels.as_ref()?.keys().next().copied()
    }

    fn plan_blocked(&mut self) {
        for blocked in std::mem::take(&mut self.blocked) {
            self.plan(&blocked, Instant::now());
        }
    }

    /// An entry that was under way is finished: its batch is committed.
    pub(crate) fn finished(&mut self, name: &Arc<str>, depth: u32, kept: Option<Connection>) {
        self.give_back(name, kept);
        if let Some(levels) = &mut self.levels {
            if let Some(count) = levels.get_mut(&depth) {
                *count -= 1;
                if *count == 0 {
                    levels.remove(&depth);
                }
            }
            self.plan_blocked();
        }
        self.plan(name, Instant::now());
    }

    fn give_back(&mut self, name: &Arc<str>, kept: Option<Connection>) {
        self.in_flight -= 1;
        let many = self.origins.len();
        if let Some(origin) = self.origins.get_mut(name) {
            origin.in_flight -= 1;
            // Connections of very many origins would be too many to keep.
            if many < KEPT_MAX {
                origin.kept.extend(kept);
            }
        }
    }

    /// robots.txt of an origin has come, or will not come (`None`): then its URLs wait for another
    /// run.
    pub(crate) fn learned(
        &mut self,
        name: &Arc<str>,
        robots: Option<Robots>,
        kept: Option<Connection>,
    ) {
        self.give_back(name, kept);
        self.held += usize::from(robots.is_none());
        let (now, delay) = (Instant::now(), self.pace.delay);
        if let Some(origin) = self.origins.get_mut(name) {
            origin.next_at = now + delay;
            origin.rules = robots.map_or(Rules::Held, |robots| Rules::Known(Arc::new(robots)));
        }
        self.plan(name, now);
    }

    /// robots.txt did not come; another attempt may be made then.
    pub(crate) fn ask_again(&mut self, name: &Arc<str>, at: Instant) {
        self.give_back(name, None);
        if let Some(origin) = self.origins.get_mut(name) {
            origin.rules = Rules::Unknown;
            origin.next_at = at;
        }
        self.plan(name, Instant::now());
    }

    /// The server asks for a pause.
    pub(crate) fn pause(&mut self, name: &Arc<str>, until: Instant) {
        if let Some(origin) = self.origins.get_mut(name) {
            origin.next_at = origin.next_at.max(until);
        }
    }

    pub(crate) fn in_flight(&self) -> usize {
        self.in_flight
    }

    /// Origins in memory.
    pub(crate) fn origins(&self) -> usize {
        self.origins.len()
    }

    /// Origins whose robots.txt is not to be had.
    pub(crate) fn held(&self) -> usize {
        self.held
    }
}

impl Origin {
    /// Takes the next entries that are due out of the store.
    fn refill(&mut self, db: &Db, now: Instant, now_ms: u64) -> Result<(), Failure> {
        if self.more.is_none_or(|more| more > now) {
            return Ok(());
        }
        let from = match self.cursor {
            Some(Place { due, id }) => keys::waiting(&self.name, Place { due, id: id + 1 }),
            None => keys::queue(&self.name),
        };
        let until = keys::waiting(
            &self.name,
            Place {
                due: u64::MAX,
                id: u64::MAX,
            },
        );
        self.more = None;
        for entry in db.range(from..until) {
            let (key, value) = entry?;
            let (_, place) = keys::read_waiting(&key)
                .ok_or_else(|| Failure::Damaged("a key of the frontier is too short".into()))?;
            if place.due > now_ms {
                self.more = Some(now + Duration::from_millis(place.due - now_ms));
                break;
            }
            if self.ready.len() == READY_MAX {
                self.more = Some(now);
                break;
            }
            self.cursor = Some(place);
            self.ready.push_back((place, Entry::decode(&value)?));
        }
        Ok(())
    }
}
