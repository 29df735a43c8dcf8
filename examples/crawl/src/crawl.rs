//! A crawl: what is next, and one batch for each page.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::{Duration, Instant, SystemTime};

use criba::Batch;
use url::Url;

use crate::entry::Entry;
use crate::error::Error;
use crate::frontier::{Fresh, Frontier, Job, Manners, Next};
use crate::keys::{self, Place};
use crate::seen::SeenSet;
use crate::store::{Store, Totals};

/// Milliseconds since 1970 by the clock of the system.
pub fn now_ms() -> u64 {
    let since = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH);
    since.map_or(0, |since| since.as_millis() as u64)
}

/// How an address was found.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Found {
    /// Links from a seed to it.
    pub depth: u32,
    /// Redirects that led to it in a row.
    pub hops: u32,
    /// The kind of page that is expected there; see [`Entry::kind`].
    pub kind: u8,
}

/// A crawl. Threads that share it take work and commit under a lock around it.
///
/// After an error the crawl must be opened anew: the seen set may know of addresses that were not
/// written.
#[derive(Debug)]
pub struct Crawl {
    store: Store,
    seen: SeenSet,
    frontier: Frontier,
}

impl Crawl {
    /// Takes up a crawl where its store stands. One seek for each origin that has something waiting.
    ///
    /// With `by_level`, an address is handed out only when nothing waits that is nearer to the
    /// seeds, so each is found at its least depth. This reads the frontier once.
    ///
    /// # Errors
    ///
    /// When the store cannot be read.
    pub fn open(store: Store, seen: SeenSet, by_level: bool) -> Result<Crawl, Error> {
        Ok(Crawl {
            frontier: Frontier::open(store.frontier(), by_level)?,
            store,
            seen,
        })
    }

    /// Hands out the next work. Mostly this reads nothing; one scan of 256 entries serves as many pages.
    ///
    /// # Errors
    ///
    /// When the store cannot be read.
    pub fn take(&mut self) -> Result<Next, Error> {
        self.frontier.next(self.now())
    }

    /// The manners of an origin have come, or cannot be had in this run (`None`): then its addresses
    /// wait for another one.
    pub fn learned(&mut self, origin: &Arc<str>, manners: Option<Manners>) {
        self.frontier.learned(origin, manners);
    }

    /// The manners of an origin did not come; they are to be asked for again then.
    pub fn ask_again(&mut self, origin: &Arc<str>, at: Instant) {
        self.frontier.ask_again(origin, at);
    }

    /// Begins a batch that finishes no page: for seeds, and for what a list of pages names.
    pub fn begin(&mut self) -> Step<'_> {
        Step {
            batch: self.store.db().batch(),
            fresh: Vec::new(),
            new: HashMap::new(),
            done: None,
            pause: None,
            was_asked: true,
            totals: self.store.totals,
            crawl: self,
        }
    }

    /// Begins the batch that finishes a page: its place in the frontier is given up.
    pub fn finish(&mut self, job: Job) -> Step<'_> {
        let mut step = self.begin();
        let key = keys::waiting(&job.origin, job.place);
        let frontier = &step.crawl.store.frontier;
        step.batch.keyspace(frontier).delete(key);
        step.totals.waiting = step.totals.waiting.saturating_sub(1);
        step.done = Some(job);
        step
    }

    /// Milliseconds since 1970; never before what an earlier run has written.
    pub fn now(&self) -> u64 {
        now_ms().max(self.store.totals.latest)
    }

    /// The store.
    pub fn store(&self) -> &Store {
        &self.store
    }

    /// The seen set.
    pub fn seen(&self) -> &SeenSet {
        &self.seen
    }

    /// Work that was handed out and is not finished.
    pub fn under_way(&self) -> usize {
        self.frontier.in_flight()
    }

    /// Origins in memory.
    pub fn origins(&self) -> usize {
        self.frontier.origins()
    }

    /// Origins whose manners could not be had in this run.
    pub fn held(&self) -> usize {
        self.frontier.held()
    }
}

/// A batch that is being made. Dropped without [`Step::commit`] it leaves the crawl unusable.
#[derive(Debug)]
#[must_use = "it does nothing without `commit`"]
pub struct Step<'a> {
    crawl: &'a mut Crawl,
    batch: Batch,
    /// To be told to the frontier when the batch is committed.
    fresh: Vec<(Fresh, Instant)>,
    /// Addresses that are new in this batch: the seen set does not have them yet.
    new: HashMap<Box<str>, u64>,
    done: Option<Job>,
    pause: Option<Instant>,
    /// A request was sent for the page.
    was_asked: bool,
    totals: Totals,
}

impl Step<'_> {
    /// The batch, for what the program keeps of the page.
    pub fn batch(&mut self) -> &mut Batch {
        &mut self.batch
    }

    /// The number of the page that is finished; [`u64::MAX`] in a step that finishes none.
    pub fn id(&self) -> u64 {
        self.done.as_ref().map_or(u64::MAX, |job| job.place.id)
    }

    /// The page that is finished.
    pub fn job(&self) -> Option<&Job> {
        self.done.as_ref()
    }

    /// The number of an address that was looked up or discovered moments ago. No read. `None` says
    /// nothing: ask [`Step::discover`].
    pub fn recent(&mut self, address: &str) -> Option<u64> {
        self.crawl.seen.recent(address)
    }

    /// The number of an address that was discovered in an earlier batch. No account is kept of this
    /// lookup.
    ///
    /// # Errors
    ///
    /// When the store cannot be read.
    pub fn number_of(&self, address: &str) -> Result<Option<u64>, Error> {
        self.crawl.store.number_of(address)
    }

    /// The number of an address. One that is new gets a number and a place in the frontier. `None`
    /// if the seen set takes a new address for seen by mistake, as a filter alone does.
    ///
    /// Cost: that of a lookup in the seen set. With a filter, a new address costs next to no read
    /// and a known one a read of one group, or none if its block is in the cache.
    ///
    /// # Errors
    ///
    /// When the seen set cannot be read.
    pub fn discover(&mut self, url: &Url, found: Found) -> Result<Option<u64>, Error> {
        let address = url.as_str();
        if let Some(&id) = self.new.get(address) {
            return Ok(Some(id));
        }
        if let Some(id) = self.crawl.seen.find(address)? {
            return Ok((id != SeenSet::LOST).then_some(id));
        }
        let id = self.totals.urls;
        let Crawl { store, seen, .. } = &mut *self.crawl;
        seen.insert(address, id, (store, &mut self.batch))?;
        self.new.insert(address.into(), id);
        self.totals.urls += 1;
        self.totals.latest = self.totals.latest.max(self.crawl.now());
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
            from: self.done.as_ref().map(|job| job.place.id),
        };
        self.wait(keys::origin(url), place, entry, Instant::now());
        Ok(Some(id))
    }

    /// Addresses that were new in this batch, so far.
    pub fn discovered(&self) -> u64 {
        self.totals.urls - self.crawl.store.totals.urls
    }

    /// Nothing was sent for the page, so the next request to its origin need not wait for it.
    pub fn not_asked(&mut self) {
        self.was_asked = false;
    }

    /// The page is to be fetched again after a pause of at least a millisecond. With `all`, the
    /// pause holds for its whole origin.
    pub fn retry(&mut self, pause: Duration, all: bool) {
        let Some(job) = &self.done else { return };
        // An entry that is due now could stand behind the frontier's cursor.
        let pause = pause.max(Duration::from_millis(1));
        let place = Place {
            due: self.crawl.now() + pause.as_millis() as u64,
            id: job.place.id,
        };
        let mut entry = job.entry.clone();
        entry.attempts += 1;
        let (origin, due) = (Arc::clone(&job.origin), Instant::now() + pause);
        self.pause = all.then_some(due);
        self.wait(&origin, place, entry, due);
    }

    /// Takes a place in the frontier.
    fn wait(&mut self, origin: &str, place: Place, entry: Entry, due: Instant) {
        let key = keys::waiting(origin, place);
        let frontier = &self.crawl.store.frontier;
        self.batch.keyspace(frontier).put(key, entry.encode());
        self.totals.waiting += 1;
        let origin_len = origin.len();
        let fresh = Fresh {
            place,
            entry,
            origin_len,
        };
        self.fresh.push((fresh, due));
    }

    /// Writes the batch. It survives a kill of the process when this returns.
    ///
    /// # Errors
    ///
    /// When the store refuses to write.
    pub fn commit(mut self) -> Result<(), Error> {
        if !self.batch.is_empty() {
            Store::put_totals(&mut self.batch, self.totals);
            self.batch.commit()?;
        }
        let crawl = self.crawl;
        crawl.store.totals = self.totals;
        for (fresh, due) in self.fresh {
            crawl.frontier.entered(fresh, due);
        }
        if let Some(job) = self.done {
            if !self.was_asked {
                crawl.frontier.not_asked(&job.origin);
            }
            if let Some(until) = self.pause {
                crawl.frontier.pause(&job.origin, until);
            }
            crawl.frontier.finished(&job.origin, job.entry.depth);
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::frontier::Work;
    use crate::store::Settings;

    #[test]
    fn what_is_not_asked_for_costs_no_pause_and_new_addresses_are_counted() {
        let dir = tempfile::tempdir().unwrap();
        let store = Store::open(&dir.path().join("crawl"), Settings::default()).unwrap();
        let seen = SeenSet::in_store(&store, 10);
        let mut crawl = Crawl::open(store, seen, false).unwrap();
        let url = |path: u32| Url::parse(&format!("http://a/{path}")).unwrap();
        let mut step = crawl.begin();
        for path in [1, 2, 3, 2] {
            step.discover(&url(path), Found::default()).unwrap();
        }
        assert_eq!(step.discovered(), 3);
        assert_eq!(step.number_of("http://a/1").unwrap(), None);
        step.commit().unwrap();
        let Next::Work(Work::Ask(origin)) = crawl.take().unwrap() else {
            panic!("manners are asked for first");
        };
        let manners = Manners {
            delay: Duration::from_secs(3600),
            ..Manners::default()
        };
        crawl.learned(&origin, Some(manners));
        crawl.frontier.not_asked(&origin);
        for path in 1..=3 {
            let Next::Work(Work::Fetch(job)) = crawl.take().unwrap() else {
                panic!("there is no pause before {path}");
            };
            assert_eq!(job.url, url(path));
            let mut step = crawl.finish(*job);
            assert_eq!(step.number_of("http://a/1").unwrap(), Some(0));
            assert_eq!(step.discover(&url(1), Found::default()).unwrap(), Some(0));
            assert_eq!(step.discovered(), 0);
            if path == 1 {
                step.not_asked();
            }
            step.commit().unwrap();
            if path == 2 {
                break;
            }
        }
        assert!(matches!(crawl.take().unwrap(), Next::Wait(_)));
    }
}
