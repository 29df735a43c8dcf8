//! Small lives of a store, recorded call by call.

use std::collections::BTreeMap;
use std::sync::Arc;

use criba::storage::{History, Memory, Storage, Survivors};
use criba::{BloomierBits, Builder, Compaction, Db, Durability, FilterPolicy, Snapshot};

pub(crate) type Model = BTreeMap<Vec<u8>, Vec<u8>>;

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Step {
    /// The next batch.
    Write(Durability),
    Sync,
    Flush,
    Compact,
    /// All filters anew, under another policy than that of the session before.
    Rebuild,
    HoldSnapshot,
    ReleaseSnapshot,
    /// Closed and opened again.
    Reopen,
    /// Killed and opened again.
    Kill,
    Close,
}

pub(crate) use Durability::{Buffered, Process, Sync as Synced};
pub(crate) use Step::{
    Close, Compact, Flush, HoldSnapshot, Kill, Rebuild, ReleaseSnapshot, Reopen, Sync, Write,
};

/// What a life has promised. Batch `n` leaves state `n`.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Promise {
    /// Batches that may be there.
    pub(crate) attempted: usize,
    /// Batches that survive a kill.
    pub(crate) processed: usize,
    /// Batches that survive power loss.
    pub(crate) synced: usize,
}

/// One session, and what was promised after how many calls.
pub(crate) struct Session {
    pub(crate) history: History,
    promises: Vec<(usize, Promise)>,
}

impl Session {
    /// What is promised when so many calls were made.
    pub(crate) fn promise(&self, calls: usize) -> Promise {
        let known = self.promises.iter().filter(|(at, _)| *at <= calls);
        known.map(|(_, promise)| *promise).next_back().unwrap()
    }
}

/// Batch `n`: two keys that are always equal, a key of its own, a delete, sometimes a value that
/// does not fit in a sector.
pub(crate) fn operations(n: usize) -> Vec<(Vec<u8>, Option<Vec<u8>>)> {
    let stamp = n.to_le_bytes().to_vec();
    let mut all = vec![
        (b"left".to_vec(), Some(stamp.clone())),
        (b"right".to_vec(), Some(stamp.clone())),
        (format!("own{n:03}").into_bytes(), Some(stamp)),
    ];
    if n >= 2 {
        all.push((format!("own{:03}", n - 2).into_bytes(), None));
    }
    if n % 3 == 2 {
        let bytes = (0..700).map(|at| (at * n % 251) as u8);
        all.push((b"big".to_vec(), Some(bytes.collect())));
    }
    all
}

/// The states after 0, 1, 2, ... batches.
pub(crate) fn states(count: usize) -> Vec<Model> {
    let mut all = vec![Model::new()];
    for n in 1..=count {
        let mut model = all[n - 1].clone();
        for (key, value) in operations(n) {
            match value {
                Some(value) => model.insert(key, value),
                None => model.remove(&key),
            };
        }
        all.push(model);
    }
    all
}

pub(crate) fn builder(storage: Arc<dyn Storage>) -> Builder {
    Db::builder("campaign")
        .compaction(Compaction::Manual)
        .storage(storage)
        .memtable_bytes(64 << 10)
        .block_bytes(512)
        .cache_bytes(1 << 16)
}

/// How the store reaches the disk; a planted bug is a layer that lies.
pub(crate) type Layer = dyn Fn(Memory) -> Arc<dyn Storage> + Send + std::marker::Sync;

pub(crate) struct Life<'a> {
    memory: Memory,
    layer: &'a Layer,
    db: Option<Db>,
    promise: Promise,
    promises: Vec<(usize, Promise)>,
    sessions: Vec<Session>,
    snapshots: Vec<(Snapshot, usize)>,
    rebuilds: usize,
}

/// Lives through all steps; `None` when the store itself has noticed that something is wrong.
pub(crate) fn live(steps: &[Step], layer: &Layer) -> criba::Result<Vec<Session>> {
    let mut life = Life {
        memory: Memory::new(),
        layer,
        db: None,
        promise: Promise::default(),
        promises: Vec::new(),
        sessions: Vec::new(),
        snapshots: Vec::new(),
        rebuilds: 0,
    };
    life.begin()?;
    for step in steps {
        life.step(*step)?;
    }
    life.end_session();
    Ok(life.sessions)
}

const POLICIES: [FilterPolicy; 3] = [
    FilterPolicy::Bloomier(BloomierBits::Slot),
    FilterPolicy::Bloom { bits_per_key: 10.0 },
    FilterPolicy::Bloomier(BloomierBits::Block),
];

impl Life<'_> {
    fn begin(&mut self) -> criba::Result<()> {
        self.memory.record();
        self.promises = vec![(0, self.promise)];
        self.open()
    }

    fn open(&mut self) -> criba::Result<()> {
        let storage = (self.layer)(self.memory.clone());
        let policy = POLICIES[self.rebuilds % POLICIES.len()];
        self.db = Some(builder(storage).filter(policy).open()?);
        Ok(())
    }

    fn end_session(&mut self) {
        self.sessions.push(Session {
            history: self.memory.history().unwrap(),
            promises: std::mem::take(&mut self.promises),
        });
    }

    fn note(&mut self) {
        self.promises.push((self.memory.recorded(), self.promise));
    }

    fn db(&self) -> &Db {
        self.db.as_ref().unwrap()
    }

    fn step(&mut self, step: Step) -> criba::Result<()> {
        match step {
            Write(durability) => self.write(durability)?,
            Sync => self.db().sync()?,
            Flush => self.db().flush()?,
            Compact => self.db().compact_all()?.wait()?,
            Rebuild => self.rebuild()?,
            HoldSnapshot => {
                let held = (self.db().snapshot(), self.promise.attempted);
                self.snapshots.push(held);
            }
            ReleaseSnapshot => self.check_snapshots(),
            Close => self.db.take().unwrap().close()?,
            Reopen => {
                self.check_snapshots();
                self.db.take().unwrap().close()?;
                self.open()?;
            }
            Kill => {
                self.check_snapshots();
                self.end_session();
                self.memory = self.memory.crash(Survivors::Everything);
                // The process is gone: what was only in its memory, too.
                self.promise.attempted = self.promise.processed;
                self.db = None;
                self.begin()?;
            }
        }
        if matches!(step, Sync | Flush | Compact | Close | Reopen) {
            self.promise.processed = self.promise.attempted;
            self.promise.synced = self.promise.attempted;
        }
        self.note();
        Ok(())
    }

    fn write(&mut self, durability: Durability) -> criba::Result<()> {
        self.promise.attempted += 1;
        self.note();
        let n = self.promise.attempted;
        write(self.db(), n, durability)?;
        match durability {
            Buffered => {}
            Process => self.promise.processed = n,
            Synced => (self.promise.processed, self.promise.synced) = (n, n),
        }
        Ok(())
    }

    fn rebuild(&mut self) -> criba::Result<()> {
        self.rebuilds += 1;
        self.db.take().unwrap().close()?;
        self.open()?;
        self.db().rebuild_filters::<&[u8]>(..)?;
        self.promise.synced = self.promise.attempted;
        self.promise.processed = self.promise.attempted;
        Ok(())
    }

    fn check_snapshots(&mut self) {
        for (snapshot, n) in self.snapshots.drain(..) {
            let found: Model = snapshot
                .iter()
                .map(|entry| entry.unwrap())
                .map(|(key, value)| (key.to_vec(), value.to_vec()))
                .collect();
            assert!(found == states(n)[n], "a snapshot of state {n} has changed");
        }
    }
}

pub(crate) fn write(db: &Db, n: usize, durability: Durability) -> criba::Result<()> {
    let mut batch = db.batch();
    for (key, value) in operations(n) {
        match value {
            Some(value) => batch.put(key, value),
            None => batch.delete(key),
        };
    }
    batch.commit_with(durability)
}
