//! A long random life under each strategy, against a sorted map. Every version that is installed
//! checks its invariants, as debug assertions are on.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use criba::sim::{Memory, Survivors};
use criba::{BloomierBits, Db, FilterPolicy, Iter, Snapshot, Strategy};

use super::{
    Model, Rng, check_contents, check_files, check_runs, check_shape, collect, settle, small,
};
use crate::faults::within;

const STRATEGIES: [Strategy; 4] = [
    Strategy::Leveled,
    Strategy::Tiered,
    Strategy::LazyLeveled,
    // Larger than anything here, so that nothing is dropped.
    Strategy::Fifo {
        bytes: 1 << 40,
        age: None,
    },
];

const FILTERS: [FilterPolicy; 4] = [
    FilterPolicy::Budget { bits_per_key: 8.0 },
    FilterPolicy::Bloomier(BloomierBits::Slot),
    FilterPolicy::Bloom { bits_per_key: 6.0 },
    FilterPolicy::None,
];

/// Keys that share more of their bytes than 15 bits can count.
const LONG_KEYS: u64 = 32;

fn long_key(n: u64) -> Vec<u8> {
    [&vec![b'l'; 40_000][..], &[n as u8]].concat()
}

struct Life {
    rng: Rng,
    /// `None`: another one in every session.
    strategy: Option<Strategy>,
    now: Strategy,
    threads: usize,
    memory: Memory,
    db: Db,
    model: Model,
    snapshots: Vec<(Snapshot, Model)>,
    iterators: Vec<(Iter, Model)>,
    queue: (u64, u64),
    /// Parts beyond the first of merges.
    cut: u64,
    what: String,
}

impl Life {
    fn new(strategy: Option<Strategy>, threads: usize, seed: u64) -> Life {
        let memory = Memory::new();
        let now = strategy.unwrap_or_default();
        let what = format!("{strategy:?}, {threads} threads, seed {seed}");
        let db = small(&memory).strategy(now).open().unwrap();
        let mut life = Life {
            rng: Rng(seed),
            strategy,
            now,
            threads,
            memory,
            db,
            model: Model::new(),
            snapshots: Vec::new(),
            iterators: Vec::new(),
            queue: (0, 0),
            cut: 0,
            what,
        };
        life.reopen();
        life
    }

    fn reopen(&mut self) {
        let compactions = self.db.stats().compactions;
        self.cut += compactions.parts - compactions.merges;
        let kill = self.rng.below(2) == 0;
        if kill {
            self.memory = self.memory.crash(Survivors::Everything);
        } else {
            self.db.clone().close().unwrap();
        }
        // What was taken before can be read to the end all the same.
        self.check_held();
        self.now = self
            .strategy
            .unwrap_or(STRATEGIES[self.rng.below(4) as usize]);
        let filter = FILTERS[self.rng.below(4) as usize];
        self.db = small(&self.memory)
            .strategy(self.now)
            .compaction_threads(self.threads)
            .filter(filter)
            .open()
            .unwrap();
    }

    fn check_held(&mut self) {
        for (snapshot, model) in self.snapshots.drain(..) {
            assert_eq!(collect(snapshot.iter()), model, "{}: snapshot", self.what);
        }
        for (iter, model) in self.iterators.drain(..) {
            assert_eq!(collect(iter), model, "{}: iterator", self.what);
        }
    }

    fn put(&mut self, key: Vec<u8>, len: u64) {
        let value = vec![self.rng.next() as u8; len as usize];
        self.db.put(&key, &value).unwrap();
        self.model.insert(key, value);
    }

    fn delete(&mut self, key: &[u8]) {
        self.db.delete(key).unwrap();
        self.model.remove(key);
    }

    /// Few keys in one part of the key space, many in another, seldom a long one.
    fn key(&mut self) -> Vec<u8> {
        if self.rng.below(256) == 0 {
            return long_key(self.rng.below(LONG_KEYS));
        }
        let n = match self.rng.below(3) {
            0 => self.rng.below(40),
            _ => 1000 + self.rng.below(2500),
        };
        super::key(n)
    }

    fn step(&mut self) {
        match self.rng.below(1000) {
            0..550 => {
                let (key, len) = (self.key(), self.rng.below(300));
                self.put(key, len);
            }
            550..700 => {
                let key = self.key();
                self.delete(&key);
            }
            700..740 => self.batch(),
            740..920 => self.queue(),
            920..960 => {
                let key = self.key();
                let found = self.db.get(&key).unwrap();
                assert_eq!(found.as_deref(), self.model.get(&key).map(Vec::as_slice));
            }
            960..970 if self.snapshots.len() < 4 => {
                self.snapshots
                    .push((self.db.snapshot(), self.model.clone()));
            }
            970..978 if !self.snapshots.is_empty() => {
                let at = self.rng.below(self.snapshots.len() as u64) as usize;
                let (snapshot, model) = self.snapshots.swap_remove(at);
                assert_eq!(collect(snapshot.iter()), model, "{}", self.what);
            }
            978..982 if self.iterators.len() < 3 => {
                self.iterators.push((self.db.iter(), self.model.clone()));
            }
            982..985 if !self.iterators.is_empty() => {
                let (iter, model) = self.iterators.swap_remove(0);
                assert_eq!(collect(iter.rev()), model, "{}", self.what);
            }
            985..990 => self.compact(),
            990..994 => self.db.flush().unwrap(),
            994..996 => check_runs(&self.db, &self.what),
            996 => self.quiet(),
            997 if self.rng.below(2) == 0 => self.reopen(),
            _ => {}
        }
    }

    fn batch(&mut self) {
        let mut batch = self.db.batch();
        // Long ones come together: as many as a leaf of a memtable has, and more.
        let is_long = self.rng.below(16) == 0;
        for _ in 0..self.rng.below(30) {
            let key = match is_long {
                true => long_key(self.rng.below(LONG_KEYS)),
                false => self.key(),
            };
            if self.rng.below(3) == 0 {
                batch.delete(&key);
                self.model.remove(&key);
            } else {
                let value = self.rng.next().to_le_bytes().to_vec();
                batch.put(&key, &value);
                self.model.insert(key, value);
            }
        }
        batch.commit().unwrap();
    }

    /// Puts at the end and takes from the front.
    fn queue(&mut self) {
        if self.rng.below(2) == 0 || self.queue.0 == self.queue.1 {
            let key = format!("queue{:08}", self.queue.1).into_bytes();
            self.queue.1 += 1;
            return self.put(key, 50);
        }
        let first = self.db.prefix("queue").next().unwrap().unwrap().0;
        let expected = format!("queue{:08}", self.queue.0);
        assert_eq!(first, expected.as_bytes(), "{}", self.what);
        self.queue.0 += 1;
        self.delete(expected.as_bytes());
    }

    fn compact(&mut self) {
        let (left, right) = (self.key(), self.key());
        let job = match self.rng.below(4) {
            0 => self.db.compact_all().unwrap(),
            1 => self.db.compact(left.clone()..).unwrap(),
            _ => {
                let (lower, upper) = (left.clone().min(right.clone()), left.max(right));
                self.db.compact(lower..upper).unwrap()
            }
        };
        match self.rng.below(3) {
            0 => {
                job.cancel();
                let result = job.wait();
                let ended = matches!(result, Ok(()) | Err(criba::Error::Cancelled));
                assert!(ended, "{}: {result:?}", self.what);
            }
            1 => job.wait().unwrap(),
            _ => {}
        }
    }

    fn quiet(&mut self) {
        settle(&self.db);
        check_shape(&self.db, self.now, &self.what);
        check_contents(&self.db, &self.model, &self.what);
        if self.iterators.is_empty() {
            check_files(&self.memory, &self.db, &self.what);
        }
    }

    fn live(mut self, steps: u32) -> Life {
        for _ in 0..steps {
            self.step();
        }
        self.check_held();
        self.quiet();
        self.reopen();
        self.quiet();
        let damaged = |event: &criba::Event| matches!(event.what, criba::EventKind::Failed { .. });
        assert!(!self.db.stats().events.iter().any(damaged), "{}", self.what);
        self
    }
}

/// Runs a life with two seeds, and with others for `CRIBA_CAMPAIGN_SECONDS`, if that is set.
pub(super) fn campaign_of(mut life: impl FnMut(u64)) {
    let seconds = std::env::var("CRIBA_CAMPAIGN_SECONDS").ok();
    let seconds: u64 = seconds.and_then(|text| text.parse().ok()).unwrap_or(0);
    let started = Instant::now();
    let mut seed = 0;
    while seed < 2 || started.elapsed() < Duration::from_secs(seconds) {
        life(seed);
        seed += 1;
    }
}

fn campaign(strategy: Option<Strategy>) {
    let cut = Arc::new(AtomicU64::new(0));
    campaign_of(|seed| {
        for threads in [1, 3] {
            let cut = Arc::clone(&cut);
            // A life takes seconds; on a machine that does other things beside a campaign, minutes.
            within(
                Duration::from_secs(900),
                format!("{strategy:?}, {threads} threads, seed {seed}"),
                move || {
                    let life = Life::new(strategy, threads, seed).live(8000);
                    cut.fetch_add(life.cut, Ordering::Relaxed);
                },
            );
        }
    });
    let merges = !matches!(strategy, Some(Strategy::Fifo { .. }));
    assert_eq!(cut.load(Ordering::Relaxed) > 0, merges, "{strategy:?}");
}

#[test]
fn a_long_life_leveled() {
    campaign(Some(Strategy::Leveled));
}

#[test]
fn a_long_life_tiered() {
    campaign(Some(Strategy::Tiered));
}

#[test]
fn a_long_life_lazily_leveled() {
    campaign(Some(Strategy::LazyLeveled));
}

#[test]
fn a_long_life_first_in_first_out() {
    campaign(Some(STRATEGIES[3]));
}

#[test]
fn a_long_life_of_changing_strategies() {
    campaign(None);
}
