//! What to fetch next, and when: a window in memory onto the frontier in the store.
//!
//! Each origin has its queue in the store, in order of time and number. Of each, the first entries
//! are here, ready to be taken; the rest stays on disk, so memory does not grow with the crawl.
//!
//! Invariants:
//! 1. An entry stays in the store until the batch that finishes it deletes it. Whatever is here can
//!    be lost at any moment without losing an address.
//! 2. `cursor` of an origin is the place of the last entry that came here from its queue. Everything
//!    before it was taken or is in `ready`; places only grow, so nothing is taken twice.
//! 3. An origin is in `schedule` whenever it could have something to do. Of several places there, the
//!    one that its `scheduled` names counts; the others are passed over.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BinaryHeap, HashMap, VecDeque};
use std::fmt;
use std::sync::Arc;
use std::time::{Duration, Instant};

use criba::Keyspace;
use url::Url;

use crate::entry::{Entry, parsed};
use crate::error::Error;
use crate::keys::{self, Place};

/// Entries of one origin that are kept here.
const READY_MAX: usize = 256;

/// Origins without work whose manners are remembered.
const IDLE_MAX: usize = 4096;

/// Which addresses of an origin may be fetched.
pub trait Rules: Send + Sync {
    /// Whether this one may.
    fn allows(&self, url: &Url) -> bool;
}

/// How an origin wants to be treated.
#[derive(Clone)]
pub struct Manners {
    /// Which addresses may be fetched; `None` for all.
    pub rules: Option<Arc<dyn Rules>>,
    /// Requests under way at the same time, at least 1.
    pub connections: usize,
    /// From the beginning of one request to that of the next.
    pub delay: Duration,
}

impl Default for Manners {
    /// All is allowed, one request after the other without a pause.
    fn default() -> Manners {
        Manners {
            rules: None,
            connections: 1,
            delay: Duration::ZERO,
        }
    }
}

impl fmt::Debug for Manners {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut shown = f.debug_struct("Manners");
        shown.field("connections", &self.connections);
        shown.field("delay", &self.delay).finish_non_exhaustive()
    }
}

/// The state of the knowledge of an origin's manners.
#[derive(Debug)]
enum Knowledge {
    Unknown,
    /// Being asked for.
    Asked,
    Known(Manners),
    /// Not to be had: its addresses wait for another run.
    Held,
}

#[derive(Debug)]
struct Origin {
    name: Arc<str>,
    ready: VecDeque<(Place, Entry)>,
    cursor: Option<Place>,
    /// When it is worth to look into the store for more; `None` if there is nothing.
    more: Option<Instant>,
    knowledge: Knowledge,
    next_at: Instant,
    in_flight: usize,
    scheduled: Option<Instant>,
}

/// An entry that has come into the frontier.
#[derive(Debug)]
pub(crate) struct Fresh {
    pub(crate) place: Place,
    pub(crate) entry: Entry,
    /// Its address begins with `scheme://host:port`, in this many bytes.
    pub(crate) origin_len: usize,
}

/// Work for a program.
#[derive(Debug)]
pub enum Work {
    /// Ask this origin, `scheme://host:port`, for its rules; then [`Crawl::learned`](crate::Crawl::learned).
    Ask(Arc<str>),
    /// Fetch this; then [`Crawl::finish`](crate::Crawl::finish).
    Fetch(Box<Job>),
}

/// An address to fetch.
#[derive(Debug)]
pub struct Job {
    /// `scheme://host:port`.
    pub origin: Arc<str>,
    /// Its place in the frontier, with the number of the address.
    pub place: Place,
    /// Its entry in the frontier.
    pub entry: Entry,
    /// The address.
    pub url: Url,
    /// Whether the origin's rules allow it. Forbidden addresses are handed out too, to be noted.
    pub allowed: bool,
}

/// An answer to the question for work.
#[derive(Debug)]
pub enum Next {
    /// This.
    Work(Work),
    /// Nothing before this moment.
    Wait(Instant),
    /// Nothing until something under way is finished.
    Busy,
    /// Nothing any more. Origins whose rules are not to be had may have addresses that wait.
    Done,
}

/// All origins with something to do.
#[derive(Debug)]
pub(crate) struct Frontier {
    queues: Keyspace,
    origins: HashMap<Arc<str>, Origin>,
    schedule: BinaryHeap<Reverse<(Instant, Arc<str>)>>,
    in_flight: usize,
    held: usize,
    /// With a depth limit: how many entries wait or are under way at each depth. A level begins
    /// when the one above it has ended, so that an address is found at its least depth.
    levels: Option<BTreeMap<u32, u64>>,
    blocked: Vec<Arc<str>>,
    /// All that is left is blocked by something beyond the window: the next one may be of any
    /// depth.
    any_depth: bool,
}

impl Frontier {
    /// Finds the origins that have something waiting: one seek for each.
    pub(crate) fn open(queues: &Keyspace, by_level: bool) -> Result<Frontier, Error> {
        let mut frontier = Frontier {
            queues: queues.clone(),
            origins: HashMap::new(),
            schedule: BinaryHeap::new(),
            in_flight: 0,
            held: 0,
            levels: by_level.then(BTreeMap::new),
            blocked: Vec::new(),
            any_depth: false,
        };
        if let Some(levels) = &mut frontier.levels {
            for entry in queues.iter() {
                *levels.entry(Entry::decode(&entry?.1)?.depth).or_default() += 1;
            }
        }
        let mut from = Vec::new();
        while let Some(entry) = queues.range(&from[..]..).next() {
            let (key, _) = entry?;
            let (name, _) = keys::read_waiting(&key).ok_or_else(too_short)?;
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
                knowledge: Knowledge::Unknown,
                next_at: Instant::now(),
                in_flight: 0,
                scheduled: None,
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
                || matches!(origin.knowledge, Knowledge::Held | Knowledge::Asked)
        });
    }

    /// Puts an origin into the schedule if it has something to do.
    fn plan(&mut self, name: &Arc<str>, now: Instant) {
        let Some(origin) = self.origins.get_mut(name) else {
            return;
        };
        let most = match &origin.knowledge {
            Knowledge::Asked | Knowledge::Held => 0,
            Knowledge::Unknown => 1,
            Knowledge::Known(manners) => manners.connections.max(1),
        };
        if origin.in_flight >= most {
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

    /// Hands out work. `now_ms` is the time in the terms of the store.
    pub(crate) fn next(&mut self, now_ms: u64) -> Result<Next, Error> {
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
                return Ok(Next::Work(work));
            }
        }
    }

    fn take(&mut self, name: &Arc<str>, now: Instant, now_ms: u64) -> Result<Option<Work>, Error> {
        let least = self.least_depth();
        let queues = self.queues.clone();
        let Some(origin) = self.origins.get_mut(name) else {
            return Ok(None);
        };
        let manners = match &origin.knowledge {
            Knowledge::Known(manners) => manners.clone(),
            Knowledge::Asked | Knowledge::Held => return Ok(None),
            Knowledge::Unknown => {
                origin.knowledge = Knowledge::Asked;
                origin.in_flight += 1;
                self.in_flight += 1;
                return Ok(Some(Work::Ask(Arc::clone(name))));
            }
        };
        let fits = |entry: &Entry| least.is_none_or(|least| entry.depth <= least);
        if !origin.ready.front().is_some_and(|(_, entry)| fits(entry)) {
            origin.refill(&queues, now, now_ms)?;
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
        let url = parsed(&entry.url)?;
        let allowed = manners.rules.is_none_or(|rules| rules.allows(&url));
        // No request is sent for a forbidden address, so the next one need not wait.
        if allowed && !manners.delay.is_zero() {
            origin.next_at = now + manners.delay;
        }
        origin.in_flight += 1;
        self.in_flight += 1;
        let origin = Arc::clone(name);
        self.plan(name, now);
        Ok(Some(Work::Fetch(Box::new(Job {
            origin,
            place,
            entry,
            url,
            allowed,
        }))))
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
    pub(crate) fn finished(&mut self, name: &Arc<str>, depth: u32) {
        self.give_back(name);
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

    fn give_back(&mut self, name: &Arc<str>) {
        self.in_flight -= 1;
        if let Some(origin) = self.origins.get_mut(name) {
            origin.in_flight -= 1;
        }
    }

    /// The manners of an origin have come, or will not come (`None`): then its addresses wait for
    /// another run.
    pub(crate) fn learned(&mut self, name: &Arc<str>, manners: Option<Manners>) {
        self.give_back(name);
        self.held += usize::from(manners.is_none());
        let now = Instant::now();
        if let Some(origin) = self.origins.get_mut(name) {
            let delay = manners.as_ref().map_or(Duration::ZERO, |known| known.delay);
            origin.next_at = now + delay;
            origin.knowledge = manners.map_or(Knowledge::Held, Knowledge::Known);
        }
        self.plan(name, now);
    }

    /// The manners did not come; another attempt may be made then.
    pub(crate) fn ask_again(&mut self, name: &Arc<str>, at: Instant) {
        self.give_back(name);
        if let Some(origin) = self.origins.get_mut(name) {
            origin.knowledge = Knowledge::Unknown;
            origin.next_at = at;
        }
        self.plan(name, Instant::now());
    }

    /// No request was sent for an entry that was handed out just now. It was the origin's turn then,
    /// so it still is.
    pub(crate) fn not_asked(&mut self, name: &Arc<str>) {
        if let Some(origin) = self.origins.get_mut(name) {
            origin.next_at = Instant::now();
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

    /// Origins whose manners are not to be had.
    pub(crate) fn held(&self) -> usize {
        self.held
    }
}

impl Origin {
    /// Takes the next entries that are due out of the store.
    fn refill(&mut self, queues: &Keyspace, now: Instant, now_ms: u64) -> Result<(), Error> {
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
        for entry in queues.range(from..until) {
            let (key, value) = entry?;
            let (_, place) = keys::read_waiting(&key).ok_or_else(too_short)?;
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

fn too_short() -> Error {
    Error::Damaged("a key of the frontier is too short".into())
}
