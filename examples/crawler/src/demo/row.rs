//! One crawl of the made-up web, with one way to know which addresses were seen.

use std::collections::HashSet;
use std::path::Path;
use std::time::{Duration, Instant};

use common::device;
use crawl::{Crawl, Found, Job, Manners, Next, Partition, SeenCounts, Settings, Store, Work};
use criba::FilterPolicy;

use super::web::Web;
use crate::failure::Failure;
use crate::seen::{Choice, Mode};

/// Times that a crawl is looked at.
const SAMPLES: u64 = 40;
/// Times that its files are dropped from the page cache, so that the system's memory does not stand
/// in for the budget.
const DROPS: u64 = 500;

/// What all rows have in common.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Task {
    /// Pages to fetch.
    pub(crate) pages: u64,
    pub(crate) hosts: usize,
    /// Part of the links that is new.
    pub(crate) new: f64,
    /// Bytes of a memtable, of which two may be in memory.
    pub(crate) memtable_bytes: u64,
    pub(crate) cache_bytes: u64,
    /// Addresses in the front.
    pub(crate) front: usize,
    pub(crate) partition: Partition,
}

/// A way to know which addresses were seen.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Way {
    pub(crate) name: &'static str,
    pub(crate) mode: Mode,
    pub(crate) filter: FilterPolicy,
    /// Bits for each address of [`Mode::FilterAlone`].
    pub(crate) bits: f64,
}

/// A moment of a crawl, in totals since its start.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Moment {
    pub(crate) links: u64,
    /// Read calls of the thread that crawls.
    pub(crate) reads: u64,
    /// Bytes that the process had from the device.
    pub(crate) device_bytes: u64,
    pub(crate) took: Duration,
}

/// What a crawl has cost, and what it got wrong.
#[derive(Debug, Clone)]
pub(crate) struct Row {
    pub(crate) name: &'static str,
    pub(crate) seen: SeenCounts,
    /// Addresses that were linked to, by the web that was made up.
    pub(crate) linked: u64,
    /// Of these, addresses that the crawl does not know: neither fetched nor waiting.
    pub(crate) missed: u64,
    /// Pages that were fetched more than once.
    pub(crate) twice: u64,
    pub(crate) total: Moment,
    /// Bytes of the filters of the seen set.
    pub(crate) filter_bytes: u64,
    /// Bytes of the seen set's segments.
    pub(crate) segment_bytes: u64,
    pub(crate) series: Vec<Moment>,
}

impl Row {
    /// Crawls. `watch` is called with the links that were looked up so far.
    pub(crate) fn of(
        way: Way,
        task: Task,
        directory: &Path,
        watch: &mut dyn FnMut(u64),
    ) -> Result<Row, Failure> {
        let store = Store::open(&directory.join("store"), settings(way, task))?;
        let choice = Choice {
            mode: way.mode,
            front: task.front,
            filter_bits: way.bits,
            false_positives: 0.0,
            sled_bytes: 2 * task.memtable_bytes + task.cache_bytes,
        };
        let seen = choice.open(&store)?;
        let mut crawl = Crawl::open(store.clone(), seen, false)?;
        let mut web = Web::new(task.hosts, task.new);
        let mut step = crawl.begin();
        for seed in web.seeds() {
            step.discover(&seed, Found::default())?;
        }
        step.commit()?;
        let mut driver = Driver {
            crawl,
            web: &mut web,
            fetched: HashSet::new(),
            twice: 0,
            links: 0,
        };
        let series = driver.crawl(task.pages, directory, watch)?;
        let Driver { crawl, twice, .. } = driver;
        let stats = store.seen().stats();
        let filters = stats
            .segments()
            .filter_map(|segment| segment.filter.as_ref());
        let row = Row {
            name: way.name,
            seen: crawl.seen().counts(),
            linked: web.linked(),
            missed: web.linked().saturating_sub(crawl.store().totals().urls),
            twice,
            total: series.last().copied().unwrap_or_default(),
            filter_bytes: filters.map(|filter| filter.pinned_bytes).sum(),
            segment_bytes: stats.segments().map(|segment| segment.file_bytes).sum(),
            series,
        };
        drop(crawl);
        store.db().clone().close()?;
        Ok(row)
    }
}

fn settings(way: Way, task: Task) -> Settings {
    Settings {
        partition: task.partition,
        filter: way.filter,
        cache_bytes: task.cache_bytes,
        memtable_bytes: task.memtable_bytes,
        filter_bytes: None,
    }
}

/// A crawl under way.
struct Driver<'a> {
    crawl: Crawl,
    web: &'a mut Web,
    fetched: HashSet<u64>,
    twice: u64,
    links: u64,
}

impl Driver<'_> {
    fn crawl(
        &mut self,
        pages: u64,
        directory: &Path,
        watch: &mut dyn FnMut(u64),
    ) -> Result<Vec<Moment>, Failure> {
        let forget = |write_back| {
            device::forget(directory, write_back).map_err(Failure::io("cannot drop files"))
        };
        forget(true)?;
        let (began, start) = (Instant::now(), (reads(), bytes()));
        let mut paused = Duration::ZERO;
        let mut series = vec![Moment::default()];
        for page in 1..=pages {
            match self.next()? {
                Some(job) => self.visit(job)?,
                None => break,
            }
            let is_time = |times: u64| page.is_multiple_of((pages / times).max(1)) || page == pages;
            if is_time(SAMPLES) {
                series.push(Moment {
                    links: self.links,
                    reads: reads() - start.0,
                    device_bytes: bytes() - start.1,
                    took: began.elapsed() - paused,
                });
                watch(self.links);
            }
            if is_time(DROPS) {
                let pause = Instant::now();
                forget(is_time(SAMPLES))?;
                paused += pause.elapsed();
            }
        }
        Ok(series)
    }

    fn next(&mut self) -> Result<Option<Job>, Failure> {
        loop {
            match self.crawl.take()? {
                Next::Work(Work::Ask(origin)) => {
                    self.crawl.learned(&origin, Some(Manners::default()));
                }
                Next::Work(Work::Fetch(job)) => return Ok(Some(*job)),
                Next::Wait(_) | Next::Busy | Next::Done => return Ok(None),
            }
        }
    }

    /// A page is one batch.
    fn visit(&mut self, job: Job) -> Result<(), Failure> {
        let name = xxhash_rust::xxh3::xxh3_64(job.url.as_str().as_bytes());
        self.twice += u64::from(!self.fetched.insert(name));
        let links = self.web.links(&job.url);
        self.links += links.len() as u64;
        let mut step = self.crawl.finish(job);
        for link in links {
            if step.recent(link.as_str()).is_none() {
                step.discover(&link, Found::default())?;
            }
        }
        Ok(step.commit()?)
    }
}

fn reads() -> u64 {
    device::read_calls().unwrap_or_default()
}

fn bytes() -> u64 {
    device::read_bytes().unwrap_or_default()
}
