//! A FIFO with an age limit, by a clock that the test sets.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};
use std::time::{Duration, UNIX_EPOCH};

use criba::sim::{Memory, Survivors};
use criba::{Compaction, Db, Strategy};

use super::{
    LIMIT, Model, Rng, check_contents, check_files, check_runs, entries, fill, key, rig, settle,
    small, wait_until,
};
use crate::faults::{Rig, within};

const HOUR: Duration = Duration::from_secs(3600);

const HOURLY: Strategy = Strategy::Fifo {
    bytes: u64::MAX,
    age: Some(HOUR),
};

/// A time in the year 2023, so many minutes later.
fn minute(memory: &Memory, minutes: u64) {
    let seconds = 1_700_000_000 + minutes * 60;
    memory.set_clock(Some(UNIX_EPOCH + Duration::from_secs(seconds)));
}

fn open(memory: &Memory, strategy: Strategy) -> Db {
    small(memory)
        .strategy(strategy)
        .compaction(Compaction::Manual)
        .open()
        .unwrap()
}

/// Removes what is due, and nothing else happens.
fn drop_due(db: &Db) {
    let merges = db.stats().compactions.merges;
    db.compact_all().unwrap().wait().unwrap();
    assert_eq!(db.stats().compactions.merges, merges);
}

/// Puts ten keys and flushes them.
fn flush_ten(db: &Db, first: u64) {
    fill(db, first..first + 10, 1);
    db.flush().unwrap();
}

#[test]
fn a_run_goes_when_all_of_it_has_come_of_age() {
    let memory = Memory::new();
    minute(&memory, 0);
    let db = open(&memory, HOURLY);
    for n in 0..4 {
        minute(&memory, n * 10);
        flush_ten(&db, n * 10);
    }
    let written = db.stats().segments().map(|one| one.written_at).max();
    let latest = UNIX_EPOCH + Duration::from_secs(1_700_000_000 + 1800);
    assert_eq!(written, Some(Some(latest)));
    for (at, left) in [(59, 40), (60, 30), (79, 20), (80, 10), (89, 10), (90, 0)] {
        minute(&memory, at);
        drop_due(&db);
        assert_eq!(db.iter().count(), left, "minute {at}");
    }
    assert_eq!(db.stats().compactions.dropped, 4);
    check_files(&memory, &db, "all have come of age");
}

/// Compacting under FIFO merges nothing: what was merged could only go all at once.
#[test]
fn asking_for_a_compaction_keeps_the_runs() {
    let memory = Memory::new();
    minute(&memory, 0);
    let db = open(&memory, HOURLY);
    for n in 0..4 {
        minute(&memory, n);
        flush_ten(&db, 0);
    }
    drop_due(&db);
    assert_eq!((db.stats().runs.len(), entries(&db)), (4, 40));
    let sized = Strategy::Fifo {
        bytes: 64 << 10,
        age: None,
    };
    db.close().unwrap();
    let db = open(&memory, sized);
    for n in 0..30 {
        fill(&db, n * 100..(n + 1) * 100, 1);
        db.flush().unwrap();
    }
    let runs = db.stats().runs.len();
    db.compact("a".."b").unwrap().wait().unwrap();
    let bytes: u64 = db.stats().segments().map(|one| one.file_bytes).sum();
    assert!(bytes <= 64 << 10 && db.stats().runs.len() < runs, "{bytes}");
    assert_eq!(db.get(key(2999)).unwrap().unwrap(), [1; 100]);
}

#[test]
fn a_clock_that_is_wrong_drops_nothing_too_early() {
    let memory = Memory::new();
    minute(&memory, 100);
    let db = open(&memory, HOURLY);
    flush_ten(&db, 0);
    // Set back: what is written now is no older than what was written before.
    minute(&memory, 0);
    flush_ten(&db, 10);
    drop_due(&db);
    minute(&memory, 159);
    drop_due(&db);
    assert_eq!(db.iter().count(), 20);
    minute(&memory, 160);
    drop_due(&db);
    assert_eq!(db.iter().count(), 0);
    // Unknown when it is written, and later unknown altogether.
    memory.set_clock(None);
    flush_ten(&db, 0);
    minute(&memory, 1000);
    flush_ten(&db, 10);
    minute(&memory, 5000);
    drop_due(&db);
    memory.set_clock(None);
    drop_due(&db);
    assert_eq!(db.iter().count(), 20);
    let times: Vec<_> = db.stats().segments().map(|one| one.written_at).collect();
    assert!(times[0].is_some() && times[1].is_none());
    // A clock before 1970 is none.
    memory.set_clock(Some(UNIX_EPOCH - HOUR));
    drop_due(&db);
    assert_eq!(db.iter().count(), 20);
    // A merge is no older than its newest input, and later than what it does not know.
    db.close().unwrap();
    minute(&memory, 6000);
    let db = open(&memory, Strategy::Leveled);
    db.compact_all().unwrap().wait().unwrap();
    db.close().unwrap();
    let db = open(&memory, HOURLY);
    minute(&memory, 6059);
    drop_due(&db);
    assert_eq!((db.iter().count(), db.stats().runs.len()), (20, 1));
    minute(&memory, 6060);
    drop_due(&db);
    assert_eq!(db.stats().runs.len(), 0);
}

#[test]
fn merges_and_moves_under_other_strategies_keep_the_newest_time() {
    for strategy in [Strategy::Leveled, Strategy::Tiered, Strategy::LazyLeveled] {
        let memory = Memory::new();
        for n in 0..3 {
            minute(&memory, n * 10);
            let db = open(&memory, HOURLY);
            flush_ten(&db, n * 5);
            db.close().unwrap();
        }
        minute(&memory, 50);
        let db = open(&memory, strategy);
        db.compact_all().unwrap().wait().unwrap();
        db.rebuild_filters(.., |_, _| {}).unwrap();
        assert_eq!(entries(&db), 20);
        db.close().unwrap();
        let db = open(&memory, HOURLY);
        flush_ten(&db, 100);
        for (at, left) in [(79, 30), (80, 10), (109, 10), (110, 0)] {
            minute(&memory, at);
            drop_due(&db);
            assert_eq!(db.iter().count(), left, "{strategy:?}, minute {at}");
        }
    }
}

/// Nobody writes and nobody asks: the background looks by itself, also after an open.
#[test]
fn the_background_wakes_up_for_what_comes_of_age() {
    within(LIMIT, "waking up", || {
        let memory = Memory::new();
        let soon = Strategy::Fifo {
            bytes: u64::MAX,
            age: Some(Duration::from_millis(150)),
        };
        let db = small(&memory).strategy(soon).open().unwrap();
        flush_ten(&db, 0);
        wait_until("it is gone", || db.stats().runs.is_empty());
        assert_eq!(db.stats().compactions.dropped, 1);
        db.close().unwrap();
        let db = open(&memory, soon);
        flush_ten(&db, 0);
        db.close().unwrap();
        let db = small(&memory).strategy(soon).open().unwrap();
        wait_until("it is gone after an open", || db.stats().runs.is_empty());
        check_files(&memory, &db, "nothing is left");
    });
}

/// A crash finds the runs that are due all there, or all gone.
#[test]
fn a_crash_while_runs_are_dropped_leaves_all_or_none() {
    let rig = rig();
    minute(&rig.memory, 0);
    let build = |rig: &Rig| small(rig).strategy(HOURLY).compaction(Compaction::Manual);
    let db = build(&rig).open().unwrap();
    for (at, first) in [(0, 0), (1, 10), (50, 20)] {
        minute(&rig.memory, at);
        flush_ten(&db, first);
    }
    db.sync().unwrap();
    let images: Arc<Mutex<Vec<Memory>>> = Arc::default();
    let (taken, memory) = (Arc::clone(&images), rig.memory.clone());
    rig.set(move |_, _| {
        let all = [Survivors::Everything, Survivors::Synced, Survivors::Ordered];
        let crashed = all.map(|survivors| memory.crash(survivors));
        taken.lock().unwrap().extend(crashed);
        Ok(())
    });
    minute(&rig.memory, 61);
    drop_due(&db);
    rig.heal();
    drop(db);
    let mut found = BTreeMap::new();
    for image in std::mem::take(&mut *images.lock().unwrap()) {
        let rig = Rig::new(image);
        let db = build(&rig).open().unwrap();
        *found.entry(db.iter().count()).or_insert(0) += 1;
        drop_due(&db);
        assert_eq!(db.iter().count(), 10);
        check_files(&rig.memory, &db, "after a crash while runs are dropped");
    }
    assert!(found.keys().eq(&[10, 30]), "{found:?}");
}

/// What was written, and whether it may have come of age.
#[derive(Clone, PartialEq, Debug)]
struct Aged {
    value: Option<Vec<u8>>,
    /// When, by all minutes that ever went by; the clock may have been set back since.
    elapsed: u64,
    may_be_gone: bool,
}

/// A random life under a clock that runs, stands and is set back; sessions of other strategies
/// between those with an age.
struct Life {
    rng: Rng,
    memory: Memory,
    db: Db,
    strategy: Strategy,
    minute: u64,
    elapsed: u64,
    /// The latest that the clock ever said.
    latest: u64,
    /// Segments that were dropped in earlier sessions.
    dropped: u64,
    model: BTreeMap<Vec<u8>, Aged>,
    what: String,
}

impl Life {
    fn new(seed: u64) -> Life {
        let memory = Memory::new();
        minute(&memory, 0);
        let db = small(&memory).strategy(HOURLY).open().unwrap();
        Life {
            rng: Rng(seed),
            memory,
            db,
            strategy: HOURLY,
            minute: 0,
            elapsed: 0,
            latest: 0,
            dropped: 0,
            model: BTreeMap::new(),
            what: format!("ages, seed {seed}"),
        }
    }

    fn set_clock(&mut self, to: u64) {
        self.elapsed += to.saturating_sub(self.minute);
        self.minute = to;
        self.latest = self.latest.max(to);
        minute(&self.memory, to);
        for one in self.model.values_mut() {
            one.may_be_gone |= self.elapsed >= one.elapsed + 60;
        }
    }

    fn reopen(&mut self) {
        self.dropped += self.db.stats().compactions.dropped;
        if self.rng.below(2) == 0 {
            self.memory = self.memory.crash(Survivors::Everything);
        } else {
            self.db.clone().close().unwrap();
        }
        let all = [HOURLY, HOURLY, Strategy::Leveled, Strategy::Tiered];
        self.strategy = all[self.rng.below(4) as usize];
        self.db = small(&self.memory)
            .strategy(self.strategy)
            .compaction_threads(1 + self.rng.below(2) as usize)
            .open()
            .unwrap();
    }

    fn step(&mut self) {
        match self.rng.below(1000) {
            0..930 => {
                let key = key(self.rng.below(600));
                let value = (self.rng.below(5) > 0).then(|| vec![self.rng.next() as u8; 150]);
                match &value {
                    Some(value) => self.db.put(&key, value).unwrap(),
                    None => self.db.delete(&key).unwrap(),
                }
                let written = Aged {
                    value,
                    elapsed: self.elapsed,
                    may_be_gone: false,
                };
                self.model.insert(key, written);
            }
            930..960 => {
                let later = self.minute + self.rng.below(20);
                self.set_clock(later);
            }
            960..963 => {
                let earlier = self.minute.saturating_sub(self.rng.below(100));
                self.set_clock(earlier);
            }
            963..975 => self.db.flush().unwrap(),
            975..978 => drop(self.db.compact_all().unwrap()),
            978..982 => self.check(),
            982..986 => self.reopen(),
            986..988 => self.all_comes_of_age(),
            _ => {}
        }
    }

    /// What is there is the newest; what is not has come of age, perhaps between two looks.
    fn check(&mut self) {
        check_runs(&self.db, &self.what);
        let found = super::collect(self.db.iter());
        for (key, one) in &self.model {
            let got = self.db.get(key).unwrap().map(|value| value.to_vec());
            for there in [found.get(key), got.as_ref()] {
                let is_as_written = there == one.value.as_ref();
                let is_gone = there.is_none() && one.may_be_gone;
                assert!(is_as_written || is_gone, "{}: {key:?}, {one:?}", self.what);
            }
        }
        assert!(found.keys().all(|key| self.model.contains_key(key)));
    }

    fn all_comes_of_age(&mut self) {
        if self.strategy != HOURLY {
            return;
        }
        self.db.flush().unwrap();
        // The clock may have been set back: what was written then is as old as what was before.
        self.set_clock(self.latest + 60);
        self.db.compact_all().unwrap().wait().unwrap();
        settle(&self.db);
        check_contents(&self.db, &Model::new(), &self.what);
        check_files(&self.memory, &self.db, &self.what);
    }
}

#[test]
fn a_long_life_of_ages() {
    let mut dropped = 0;
    super::long::campaign_of(|seed| {
        let mut life = Life::new(seed);
        for _ in 0..20_000 {
            life.step();
        }
        life.check();
        dropped += life.dropped;
    });
    assert!(dropped > 20, "{dropped}");
}
