//! Small lives of a store, recorded call by call.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use criba::operator::{Append, MergeOperator as _};
use criba::sim::{History, Memory, Survivors};
use criba::storage::Storage;
use criba::{
    Access, Batch, BloomierBits, Builder, Compaction, Db, Durability, Error, FilterPolicy,
    RangeFilterPolicy, Snapshot,
};

use super::lives::Plot;

pub(crate) type Model = BTreeMap<Vec<u8>, Vec<u8>>;

/// What a batch puts, and deletes.
pub(crate) type Operations = Vec<(Vec<u8>, Option<Vec<u8>>)>;

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Step {
    /// The next batch.
    Write(Durability),
    /// The next batch as a transaction, beside one that loses.
    Transact(Durability),
    Sync,
    Flush,
    Compact,
    /// A day later: what a FIFO drops, so many batches from the beginning.
    DropDue(usize),
    /// All filters anew, under another policy than that of the session before.
    Rebuild,
    HoldSnapshot,
    ReleaseSnapshot,
    /// The next batch, which writes to a keyspace beside that is made for it.
    MakePassing,
    DropPassing,
    /// Closed, and opened by a session that only reads.
    Read,
    /// Closed and opened again.
    Reopen,
    /// Killed and opened again.
    Kill,
    Close,
}

pub(crate) use Durability::{Buffered, Process, Sync as Synced};
pub(crate) use Step::{
    Close, Compact, DropDue, DropPassing, Flush, HoldSnapshot, Kill, MakePassing, Read, Rebuild,
    ReleaseSnapshot, Reopen, Sync, Transact, Write,
};

/// What a life has promised. Batch `n` leaves state `n`.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default)]
pub(crate) struct Promise {
    /// Batches that may be there.
    pub(crate) attempted: usize,
    /// Batches that survive a kill.
    pub(crate) processed: usize,
    /// Batches that survive power loss.
    pub(crate) synced: usize,
    /// So many batches from the beginning a FIFO has dropped, ...
    pub(crate) dropped: usize,
    /// ... or so many.
    pub(crate) dropping: usize,
}

/// One session, and what was promised after how many calls.
pub(crate) struct Session {
    pub(crate) history: History,
    promises: Vec<(usize, Promise)>,
}

impl Session {
    /// How many calls were made in it.
    pub(crate) fn calls(&self) -> usize {
        self.history.len()
    }

    /// What is promised when so many calls were made.
    pub(crate) fn promise(&self, calls: usize) -> Promise {
        let known = self.promises.iter().filter(|(at, _)| *at <= calls);
        known.map(|(_, promise)| *promise).next_back().unwrap()
    }
}

/// How much a batch writes.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Load {
    /// Bytes of the value that every third batch has.
    pub(crate) big: usize,
    /// Values of that size that every batch has beside.
    pub(crate) bulk: usize,
    /// Long keys that every batch has beside.
    pub(crate) long: u8,
    /// Whether the keys of a batch are in several keyspaces.
    pub(crate) spread: bool,
    /// Whether every batch has operands beside.
    pub(crate) operands: bool,
}

/// Keys that begin so get operands, not values.
const MERGED: &[u8] = b"merged/";

fn operator() -> Append {
    Append::with_delimiter(",")
}

/// The keyspace in which a key lies where they are spread.
fn home(key: &[u8]) -> &'static str {
    match key {
        b"right" => "right",
        b"big" => "big",
        _ if key.starts_with(MERGED) => "merged",
        _ if key.starts_with(b"own") => "own",
        _ => "default",
    }
}

/// A keyspace that comes and goes. Its only entry is the number of the batch that has made it.
pub(crate) const PASSING: &str = "passing";

/// Bytes that long keys share.
const LONG_BYTES: usize = 32_770;

impl Load {
    /// Batch `n`: two keys that are always equal, a key of its own, a delete, sometimes a value
    /// that does not fit in a sector.
    pub(crate) fn operations(self, n: usize) -> Operations {
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
            all.push((b"big".to_vec(), Some(noise(n, self.big))));
        }
        let bulk = (0..self.bulk).map(|at| {
            let key = format!("bulk{}-{at:03}", n % 2).into_bytes();
            (key, Some(noise(n * 1000 + at, self.big)))
        });
        all.extend(bulk);
        let long = (0..self.long).map(|at| {
            let key = [&vec![b'l'; LONG_BYTES][..], &[at, (n % 2) as u8]].concat();
            (key, Some(vec![n as u8]))
        });
        all.extend(long);
        if self.operands {
            let operand = |key: &str| {
                (
                    [MERGED, key.as_bytes()].concat(),
                    Some(n.to_string().into()),
                )
            };
            all.extend([
                operand("all"),
                operand("all"),
                operand(["a", "b", "c"][n % 3]),
            ]);
            if n % 4 == 3 {
                all.push(([MERGED, b"a"].concat(), None));
            }
        }
        all
    }

    /// The state after `count` batches, the first `dropped` of which are gone.
    pub(crate) fn state(self, dropped: usize, count: usize) -> Model {
        let mut model = Model::new();
        for n in dropped + 1..=count {
            for (key, value) in self.operations(n) {
                match value {
                    Some(operand) if key.starts_with(MERGED) => {
                        let base = model.get(&key).map(Vec::as_slice);
                        let merged = operator().merge(&key, base, &[&operand]).unwrap();
                        model.insert(key, merged)
                    }
                    Some(value) => model.insert(key, value),
                    None => model.remove(&key),
                };
            }
        }
        model
    }
}

/// Writes a batch, spread over keyspaces or not.
pub(crate) fn write(
    db: &Db,
    batch: &Operations,
    durability: Durability,
    spread: bool,
) -> criba::Result<()> {
    batch_of(db, batch, spread)?.commit_with(durability)
}

fn batch_of(db: &Db, batch: &Operations, spread: bool) -> criba::Result<Batch> {
    let mut all = db.batch();
    for (key, value) in batch {
        let home = if spread { home(key) } else { "default" };
        let keyspace = db.keyspace(home)?;
        let mut all = all.keyspace(&keyspace);
        match value {
            Some(operand) if key.starts_with(MERGED) => all.merge(key, operand),
            Some(value) => all.put(key, value),
            None => all.delete(key),
        };
    }
    Ok(all)
}

/// The same as a transaction that relies on what the one before has left. Another one, that relies
/// on the same, comes too late, and leaves nothing.
fn transact(
    db: &Db,
    batch: &Operations,
    durability: Durability,
    spread: bool,
) -> criba::Result<()> {
    let mut late = db.transaction();
    late.get("left")?;
    late.put("late", "")?;
    let mut tx = db.transaction();
    let home = |key: &[u8]| db.keyspace(if spread { home(key) } else { "default" });
    assert_eq!(tx.get("left")?, tx.keyspace(&home(b"right")?).get("right")?);
    for entry in tx.keyspace(&home(b"own")?).prefix("own") {
        entry?;
    }
    for (key, value) in batch {
        let keyspace = home(key)?;
        let mut tx = tx.keyspace_mut(&keyspace);
        match value {
            Some(operand) if key.starts_with(MERGED) => tx.merge(key, operand)?,
            Some(value) => tx.put(key, value)?,
            None => tx.delete(key)?,
        };
    }
    tx.commit_with(durability)?;
    match late.commit_with(durability) {
        Err(Error::Conflict(_)) => Ok(()),
        Err(error) => Err(error),
        Ok(()) => panic!("it came too late"),
    }
}

/// Bytes that do not compress and differ from batch to batch.
fn noise(seed: usize, len: usize) -> Vec<u8> {
    let mut random = seed as u64 ^ 0x9e37_79b9_7f4a_7c15;
    let byte = |_| {
        random ^= random << 13;
        random ^= random >> 7;
        random ^= random << 17;
        random as u8
    };
    (0..len).map(byte).collect()
}

/// For a store of any life.
pub(crate) fn builder(storage: Arc<dyn Storage>) -> Builder {
    builder_without_operator(storage).operator(operator())
}

fn builder_without_operator(storage: Arc<dyn Storage>) -> Builder {
    Db::builder("campaign")
        .compaction(Compaction::Manual)
        .compaction_threads(1)
        .storage(storage)
        .memtable_bytes(64 << 10)
        .block_bytes(512)
        .cache_bytes(1 << 16)
}

/// How the store reaches the disk; a planted bug is a layer that lies.
pub(crate) type Layer = dyn Fn(Memory) -> Arc<dyn Storage> + Send + std::marker::Sync;

pub(crate) struct Life<'a> {
    plot: &'a Plot,
    memory: Memory,
    layer: &'a Layer,
    db: Option<Db>,
    promise: Promise,
    promises: Vec<(usize, Promise)>,
    sessions: Vec<Session>,
    snapshots: Vec<(Snapshot, usize)>,
    rebuilds: usize,
    days: u64,
}

/// Lives through all steps; an error when the store itself has noticed that something is wrong.
pub(crate) fn live(plot: &Plot, layer: &Layer) -> criba::Result<Vec<Session>> {
    let mut life = Life::new(plot, layer);
    life.begin()?;
    for step in plot.steps {
        life.step(*step)?;
    }
    life.end_session();
    Ok(life.sessions)
}

/// What is left of a life that a failing storage has ended, or not.
pub(crate) struct Failed {
    pub(crate) memory: Memory,
    pub(crate) db: Option<Db>,
    pub(crate) promise: Promise,
    pub(crate) error: Option<Error>,
}

/// Lives up to the first error, as a caller would.
pub(crate) fn live_to_error(plot: &Plot, layer: &Layer) -> Failed {
    let mut life = Life::new(plot, layer);
    let lived = life
        .begin()
        .and_then(|()| plot.steps.iter().try_for_each(|step| life.step(*step)));
    Failed {
        memory: life.memory,
        db: life.db,
        promise: life.promise,
        error: lived.err(),
    }
}

const POLICIES: [FilterPolicy; 3] = [
    FilterPolicy::Bloomier(BloomierBits::Slot),
    FilterPolicy::Bloom { bits_per_key: 10.0 },
    FilterPolicy::Bloomier(BloomierBits::Block),
];

const DAY: Duration = Duration::from_secs(86_400);

fn day(n: u64) -> SystemTime {
    UNIX_EPOCH + DAY * (20_000 + n as u32)
}

impl<'a> Life<'a> {
    fn new(plot: &'a Plot, layer: &'a Layer) -> Life<'a> {
        let life = Life {
            plot,
            memory: Memory::new(),
            layer,
            db: None,
            promise: Promise::default(),
            promises: Vec::new(),
            sessions: Vec::new(),
            snapshots: Vec::new(),
            rebuilds: 0,
            days: 0,
        };
        life.set_clock();
        life
    }

    fn set_clock(&self) {
        self.memory.set_clock(Some(day(self.days)));
    }

    fn begin(&mut self) -> criba::Result<()> {
        self.memory.record();
        self.promises = vec![(0, self.promise)];
        self.open()
    }

    fn builder(&self) -> Builder {
        let policy = POLICIES[self.rebuilds % POLICIES.len()];
        let of = match self.plot.load.operands {
            true => builder,
            false => builder_without_operator,
        };
        let range = match self.rebuilds % 2 {
            0 => RangeFilterPolicy::None,
            _ => RangeFilterPolicy::Bits { bits_per_key: 64.0 },
        };
        let builder = of((self.layer)(self.memory.clone()));
        let builder = builder.filter(policy).range_filter(range);
        (self.plot.settings)(builder)
    }

    fn open(&mut self) -> criba::Result<()> {
        self.db = Some(self.builder().open()?);
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

    fn close(&mut self) -> criba::Result<()> {
        self.check_snapshots();
        self.db.take().unwrap().close()
    }

    fn step(&mut self, step: Step) -> criba::Result<()> {
        match step {
            Write(durability) => self.write(durability, write)?,
            Transact(durability) => self.write(durability, transact)?,
            MakePassing => self.make_passing()?,
            DropPassing => assert!(self.db().drop_keyspace(PASSING)?),
            Sync => self.db().sync()?,
            Flush => self.db().flush()?,
            Compact => self.compact()?,
            DropDue(batches) => self.drop_due(batches)?,
            Rebuild => self.rebuild()?,
            HoldSnapshot => {
                let held = (self.db().snapshot(), self.promise.attempted);
                self.snapshots.push(held);
            }
            ReleaseSnapshot => self.check_snapshots(),
            Read => {
                self.close()?;
                let reader = self.builder().access(Access::ReadOnly).open()?;
                let found = contents(&reader, &reader.snapshot());
                assert!(found == self.expected(self.promise.attempted));
                reader.close()?;
                self.open()?;
            }
            Close => self.close()?,
            Reopen => {
                self.close()?;
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
        if matches!(
            step,
            Sync | Flush | Compact | Rebuild | Read | Close | Reopen
        ) {
            self.promise.processed = self.promise.attempted;
            self.promise.synced = self.promise.attempted;
        }
        self.note();
        Ok(())
    }

    fn write(
        &mut self,
        durability: Durability,
        write: fn(&Db, &Operations, Durability, bool) -> criba::Result<()>,
    ) -> criba::Result<()> {
        self.promise.attempted += 1;
        self.note();
        let n = self.promise.attempted;
        let load = self.plot.load;
        write(self.db(), &load.operations(n), durability, load.spread)?;
        match durability {
            Buffered => {}
            Process => self.promise.processed = n,
            Synced => (self.promise.processed, self.promise.synced) = (n, n),
            other => unreachable!("{other:?}"),
        }
        Ok(())
    }

    fn make_passing(&mut self) -> criba::Result<()> {
        self.promise.attempted += 1;
        self.note();
        let (n, load) = (self.promise.attempted, self.plot.load);
        let passing = self.db().keyspace(PASSING)?;
        let mut batch = batch_of(self.db(), &load.operations(n), load.spread)?;
        batch.keyspace(&passing).put("made by", n.to_le_bytes());
        batch.commit_with(Process)?;
        self.promise.processed = n;
        Ok(())
    }

    fn compact(&self) -> criba::Result<()> {
        for name in self.db().keyspaces() {
            self.db().keyspace(&name)?.compact_all()?.wait()?;
        }
        Ok(())
    }

    fn drop_due(&mut self, batches: usize) -> criba::Result<()> {
        self.days += 1;
        // A clock that was set does not change in what is recorded: that begins anew.
        self.db().sync()?;
        self.promise.processed = self.promise.attempted;
        self.promise.synced = self.promise.attempted;
        self.note();
        self.end_session();
        self.set_clock();
        self.memory.record();
        self.promise.dropping = batches;
        self.promises = vec![(0, self.promise)];
        self.db().compact_all()?.wait()?;
        self.promise.dropped = batches;
        let found = contents(self.db(), &self.db().snapshot());
        assert!(found == self.expected(self.promise.attempted));
        Ok(())
    }

    fn rebuild(&mut self) -> criba::Result<()> {
        self.rebuilds += 1;
        self.close()?;
        self.open()?;
        self.db().rebuild_filters(.., |_, _| {})?;
        Ok(())
    }

    fn expected(&self, n: usize) -> Model {
        self.plot.load.state(self.promise.dropped, n)
    }

    fn check_snapshots(&mut self) {
        for (snapshot, n) in std::mem::take(&mut self.snapshots) {
            let is_same = contents(self.db(), &snapshot) == self.expected(n);
            assert!(is_same, "a snapshot of state {n} has changed");
        }
    }
}

/// All keys of a moment, wherever they are.
fn contents(db: &Db, snapshot: &Snapshot) -> Model {
    let mut all = Model::new();
    for name in db.keyspaces().iter().filter(|name| *name != PASSING) {
        let keyspace = snapshot.keyspace(&db.keyspace(name).unwrap());
        let entries = keyspace.iter().map(|entry| entry.unwrap());
        all.extend(entries.map(|(key, value)| (key.to_vec(), value.to_vec())));
    }
    all
}
