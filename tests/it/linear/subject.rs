//! The store under test, or one with a bug that was put in on purpose.

use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};

use criba::{Db, Slice, Snapshot};

/// A bug that the checks must find.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Plant {
    /// A lookup that now and then answers from the past.
    StaleGet,
    /// The same for the first entry of a range.
    StaleFirst,
    /// A snapshot that was taken for someone else, earlier.
    OldSnapshot,
    /// A batch that becomes visible in two steps.
    TornBatch,
}

#[derive(Debug)]
pub(super) struct Subject {
    pub(super) db: Db,
    plant: Option<Plant>,
    calls: AtomicU64,
    snapshots: AtomicU64,
    past: Mutex<Option<Snapshot>>,
}

impl Subject {
    pub(super) fn new(db: Db, plant: Option<Plant>) -> Subject {
        Subject {
            db,
            plant,
            calls: AtomicU64::new(0),
            snapshots: AtomicU64::new(0),
            past: Mutex::new(None),
        }
    }

    /// Now and then a snapshot from some calls ago, if the bug is this one.
    fn past(&self, plant: Plant) -> Option<Snapshot> {
        if self.plant != Some(plant) {
            return None;
        }
        let call = self.calls.fetch_add(1, Ordering::Relaxed);
        match call % 64 {
            0 => *self.past.lock().unwrap() = Some(self.db.snapshot()),
            32 => return self.past.lock().unwrap().clone(),
            _ => {}
        }
        None
    }

    pub(super) fn get(&self, key: &str) -> Option<Slice> {
        match self.past(Plant::StaleGet) {
            Some(past) => past.get(key).unwrap(),
            None => self.db.get(key).unwrap(),
        }
    }

    /// The first entry whose key begins so.
    pub(super) fn first(&self, prefix: &str) -> Option<(Slice, Slice)> {
        let mut entries = match self.past(Plant::StaleFirst) {
            Some(past) => past.prefix(prefix),
            None => self.db.prefix(prefix),
        };
        entries.next().map(Result::unwrap)
    }

    pub(super) fn snapshot(&self) -> Snapshot {
        let snapshot = self.past(Plant::OldSnapshot);
        let snapshot = snapshot.unwrap_or_else(|| self.db.snapshot());
        self.snapshots.fetch_add(1, Ordering::Relaxed);
        snapshot
    }

    pub(super) fn commit(&self, entries: &[(String, Vec<u8>)]) {
        let is_torn = self.plant == Some(Plant::TornBatch);
        let cut = if is_torn { 2 } else { entries.len() };
        let (now, later) = entries.split_at(cut);
        self.commit_at_once(now);
        if is_torn {
            // Until someone may have seen it.
            let before = self.snapshots.load(Ordering::Relaxed);
            let is_seen = || self.snapshots.load(Ordering::Relaxed) > before + 1;
            (0..100)
                .take_while(|_| !is_seen())
                .for_each(|_| std::thread::yield_now());
            self.commit_at_once(later);
        }
    }

    fn commit_at_once(&self, entries: &[(String, Vec<u8>)]) {
        let mut batch = self.db.batch();
        for (key, value) in entries {
            batch.put(key, value);
        }
        batch.commit().unwrap();
    }
}
