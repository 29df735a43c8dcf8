//! Blocks that many keys need, in counts of reads and of calls.

use std::collections::BTreeSet;
use std::fmt;
use std::fs::OpenOptions;
use std::io::{self, ErrorKind};
use std::os::unix::fs::FileExt as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use criba::operator::Add;
use criba::sim::Memory;
use criba::storage::{
    AppendFile, Disk, LockGuard, ReadCause, ReadFile, ReadManyBy, ReadRequest, Storage,
};
use criba::{Builder, Compaction, Db, Error, FilterPolicy, Io, Slice};

use crate::mounts::skipped;

const KEYS: u32 = 40_000;
/// So many entries are more than a block has.
const FAR: usize = 64;

fn key(n: u32) -> String {
    format!("key{n:06}")
}

fn value(n: u32) -> Vec<u8> {
    let mut value = vec![5; 100];
    value[..4].copy_from_slice(&n.to_le_bytes());
    value
}

fn filled(builder: Builder, runs: u32) -> Db {
    let db = builder
        .compaction(Compaction::Manual)
        .memtable_bytes(64 << 20)
        .open()
        .unwrap();
    for run in 0..runs {
        let mut batch = db.batch();
        for n in (run..KEYS).step_by(runs as usize) {
            batch.put(key(n), value(n));
        }
        batch.commit().unwrap();
        db.flush().unwrap();
    }
    db
}

/// A thousand keys in no order, some of them in one block.
fn thousand() -> Vec<u32> {
    (0..1000_u32)
        .map(|n| n.wrapping_mul(2_654_435_761) % KEYS)
        .collect()
}

/// Data blocks read by this, and calls with many of them.
fn read_by<T>(db: &Db, work: impl FnOnce(&Db) -> T) -> (u64, u64) {
    let before = db.stats();
    work(db);
    let after = db.stats();
    let reads = after.reads.since(&before.reads).get(ReadCause::Data);
    (reads.calls, after.read_batches - before.read_batches)
}

fn get_all(db: &Db, numbers: &[u32]) {
    let found = db.get_many(numbers.iter().map(|n| key(*n))).unwrap();
    for (n, found) in numbers.iter().zip(found) {
        assert_eq!(found.unwrap(), value(*n), "{n}");
    }
}

/// Blocks that hold these keys, by segment.
fn blocks_of(db: &Db, numbers: &[u32]) -> u64 {
    let block = |n: &u32| {
        let steps = db.explain(key(*n)).unwrap().steps;
        let step = steps.last().unwrap();
        (format!("{:?}", step.source), step.block.unwrap())
    };
    numbers.iter().map(block).collect::<BTreeSet<_>>().len() as u64
}

#[test]
fn a_thousand_cold_keys_read_each_block_once_and_together() {
    for cache_bytes in [0, 64 << 20] {
        let disk = Memory::new();
        let builder = || {
            Db::builder("many")
                .storage(Arc::new(disk.clone()))
                .cache_bytes(cache_bytes)
        };
        filled(builder(), 1).close().unwrap();
        let numbers = thousand();
        let db = builder().open().unwrap();
        let blocks = blocks_of(&db, &numbers);
        db.close().unwrap();
        assert!((500..1000).contains(&blocks), "{blocks}");
        let db = builder().open().unwrap();
        assert_eq!(read_by(&db, |db| get_all(db, &numbers)), (blocks, 1));
        let again = if cache_bytes == 0 {
            (blocks, 1)
        } else {
            (0, 0)
        };
        assert_eq!(read_by(&db, |db| get_all(db, &numbers)), again);
        let misses = db.stats().block_cache.misses;
        // As many as one by one, where each block was asked for by each key.
        assert_eq!(misses, if cache_bytes == 0 { 2000 } else { 1000 });
    }
}

#[test]
fn the_other_forms_read_together_too() {
    let builder = Db::builder("many").storage(Arc::new(Memory::new()));
    let db = filled(builder.cache_bytes(0), 1);
    let keys: Vec<String> = thousand().into_iter().map(key).collect();
    let expected = read_by(&db, |db| db.get_many(&keys).unwrap());
    let snapshot = db.snapshot();
    let by_snapshot = read_by(&db, |_| snapshot.get_many(&keys).unwrap());
    assert_eq!(by_snapshot, expected);
    let mut transaction = db.transaction();
    transaction.put(&keys[0], "own").unwrap();
    let by_transaction = read_by(&db, |_| transaction.get_many(&keys).unwrap());
    // The block of its own key may have no other.
    assert!((expected.0 - 1..=expected.0).contains(&by_transaction.0));
    assert_eq!(by_transaction.1, 1);
    // Few keys, or one block, need no call with many.
    assert_eq!(read_by(&db, |db| get_all(db, &[17])), (1, 0));
    assert_eq!(read_by(&db, |db| get_all(db, &[17, 18])), (1, 0));
}

/// A key whose block does not have it waits for the next round.
#[test]
fn each_run_without_a_filter_is_a_round() {
    const RUNS: u32 = 3;
    let builder = Db::builder("many").storage(Arc::new(Memory::new()));
    let builder = builder.cache_bytes(0).filter(FilterPolicy::None);
    let db = filled(builder, RUNS);
    let far: Vec<u32> = (0..KEYS).step_by(FAR * RUNS as usize).collect();
    // All of them are in the oldest run.
    assert!(far.iter().all(|n| n % RUNS == 0));
    let reads = far.len() as u64 * u64::from(RUNS) - 2;
    // The first key lies before the others of the newer runs.
    assert_eq!(read_by(&db, |db| get_all(db, &far)), (reads, 3));
}

#[test]
fn operands_in_many_runs_are_combined() {
    let builder = || {
        Db::builder("many")
            .storage(Arc::new(Memory::new()))
            .cache_bytes(0)
            .operator(Add::u64())
            .compaction(Compaction::Manual)
    };
    let db = builder().open().unwrap();
    let counters: Vec<String> = (0..2000).map(key).collect();
    for run in 0..3_u64 {
        // Each run has two operands of some keys, the first one values too.
        let _held = db.snapshot();
        for round in 0..2 {
            for (n, counter) in counters.iter().enumerate() {
                match n % 3 {
                    0 if run == 0 && round == 0 => db.put(counter, 100_u64.to_le_bytes()),
                    _ => db.merge(counter, (run + 1).to_le_bytes()),
                }
                .unwrap();
            }
        }
        db.flush().unwrap();
    }
    db.merge(&counters[1], 1_u64.to_le_bytes()).unwrap();
    let expected: Vec<_> = counters.iter().map(|key| db.get(key).unwrap()).collect();
    let (_, batches) = read_by(&db, |db| {
        assert_eq!(db.get_many(&counters).unwrap(), expected);
    });
    // Three rounds for each thousand keys.
    assert_eq!(batches, 6);
    assert_eq!(expected[0].as_deref(), Some(&111_u64.to_le_bytes()[..]));
    assert_eq!(expected[1].as_deref(), Some(&13_u64.to_le_bytes()[..]));
}

/// More keys than wait at one time.
#[test]
fn very_many_keys_are_read_in_parts() {
    let builder = Db::builder("many").storage(Arc::new(Memory::new()));
    let db = filled(builder.cache_bytes(0), 1);
    let all: Vec<u32> = (0..KEYS).rev().collect();
    let (reads, batches) = read_by(&db, |db| get_all(db, &all));
    let blocks: u64 = db.stats().segments().map(|one| one.blocks).sum();
    let parts = u64::from(KEYS).div_ceil(1024);
    assert_eq!(batches, parts);
    // The block at the seam of two parts is read for both.
    assert!(
        (blocks..blocks + parts).contains(&reads),
        "{reads} of {blocks}"
    );
}

fn on_disk(path: &Path, by: ReadManyBy, io: Io) -> Db {
    let disk = Disk::new(path, io).read_many_by(by);
    let builder = Db::builder(path).storage(Arc::new(disk));
    builder.compaction(Compaction::Manual).open().unwrap()
}

const ALL: [ReadManyBy; 3] = [ReadManyBy::OneByOne, ReadManyBy::Threads, ReadManyBy::Uring];

#[test]
fn all_ways_of_reading_give_the_same_answers() {
    let directory = tempfile::tempdir().unwrap();
    filled(Db::builder(directory.path()), 3).close().unwrap();
    let numbers = thousand();
    for by in ALL {
        let db = on_disk(directory.path(), by, Io::Pread);
        assert_eq!(
            db.stats().read_many_by,
            None,
            "nothing was read together yet"
        );
        let counts = read_by(&db, |db| get_all(db, &numbers));
        assert!(counts.0 > 500 && counts.1 > 0, "{counts:?}");
        let used = db.stats().read_many_by;
        match (by, used) {
            (ReadManyBy::Uring, Some(ReadManyBy::Threads)) => {
                skipped("the kernel lets this process have no ring");
            }
            _ => assert_eq!(used, Some(by)),
        }
        assert!(db.stats().to_string().contains("batches"));
        db.close().unwrap();
        // Mapped files need none of these.
        let db = on_disk(directory.path(), by, Io::Mmap);
        get_all(&db, &numbers);
        assert_eq!(db.stats().read_many_by, None);
    }
}

fn segment_file(directory: &Path) -> PathBuf {
    let files = std::fs::read_dir(directory).unwrap();
    let mut names = files.map(|entry| entry.unwrap().path());
    let is_segment = |path: &PathBuf| path.extension().is_some_and(|ending| ending == "seg");
    names.find(is_segment).unwrap()
}

/// A damaged block and a file that is cut short are errors of the keys that they concern.
#[test]
fn an_error_concerns_its_keys_only() {
    let directory = tempfile::tempdir().unwrap();
    filled(Db::builder(directory.path()), 1).close().unwrap();
    let path = segment_file(directory.path());
    let whole = std::fs::read(&path).unwrap();
    let far: Vec<u32> = (0..KEYS).step_by(FAR).collect();
    let keys: Vec<String> = far.iter().map(|n| key(*n)).collect();
    for by in ALL {
        for kind in [None, Some(ErrorKind::UnexpectedEof)] {
            let file = OpenOptions::new().write(true).open(&path).unwrap();
            // All is open when the file is damaged, or cut in its middle.
            let spoiled = || {
                file.write_all_at(&whole, 0).unwrap();
                let db = on_disk(directory.path(), by, Io::Pread);
                let blocks: u64 = db.stats().segments().map(|one| one.blocks).sum();
                let at = blocks / 2 * 4096;
                if kind.is_some() {
                    file.set_len(at).unwrap();
                }
                // A few blocks: not each has a key.
                for at in (0..4)
                    .map(|n| at + n * 4096 + 99)
                    .filter(|_| kind.is_none())
                {
                    file.write_all_at(&[whole[at as usize] ^ 1], at).unwrap();
                }
                db
            };
            let db = spoiled();
            let errors: Vec<_> = keys.iter().map(|key| db.get(key).err()).collect();
            db.close().unwrap();
            let db = spoiled();
            let failed = db.get_many(&keys).map(drop).unwrap_err();
            match &failed {
                Error::Corrupt(_) => assert_eq!(kind, None),
                Error::Io { source, .. } => assert_eq!(Some(source.kind()), kind),
                other => panic!("{other}"),
            }
            let of_first = errors.iter().flatten().next().unwrap();
            assert_eq!(failed.to_string(), of_first.to_string());
            // Of those that fail, the first in the order of the keys counts.
            let of_last = errors.iter().flatten().next_back().unwrap();
            let failed = db.get_many(keys.iter().rev()).map(drop).unwrap_err();
            assert_eq!(failed.to_string(), of_last.to_string());
            let whole_ones = far.iter().zip(&errors).filter(|(_, error)| error.is_none());
            let whole_ones: Vec<u32> = whole_ones.map(|(n, _)| *n).collect();
            assert!(whole_ones.len() > far.len() / 3, "{}", whole_ones.len());
            get_all(&db, &whole_ones);
        }
        OpenOptions::new()
            .write(true)
            .open(&path)
            .unwrap()
            .write_all_at(&whole, 0)
            .unwrap();
    }
}

/// What becomes of the results of reads that were made together.
type Hook = dyn Fn(Vec<io::Result<Slice>>) -> Vec<io::Result<Slice>> + Send + Sync;

/// A storage whose reads together end as the hook says.
struct Hooked {
    memory: Memory,
    hook: Box<Hook>,
}

impl fmt::Debug for Hooked {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Hooked").finish_non_exhaustive()
    }
}

impl Storage for Hooked {
    fn path_of(&self, name: &str) -> PathBuf {
        self.memory.path_of(name)
    }

    fn create_dir(&self) -> io::Result<()> {
        self.memory.create_dir()
    }

    fn list(&self) -> io::Result<Vec<String>> {
        self.memory.list()
    }

    fn open(&self, name: &str) -> io::Result<Arc<dyn ReadFile>> {
        self.memory.open(name)
    }

    fn read_many(&self, requests: &[ReadRequest<'_>]) -> Vec<io::Result<Slice>> {
        (self.hook)(self.memory.read_many(requests))
    }

    fn create(&self, name: &str) -> io::Result<Box<dyn AppendFile>> {
        self.memory.create(name)
    }

    fn rename(&self, from: &str, to: &str) -> io::Result<()> {
        self.memory.rename(from, to)
    }

    fn remove(&self, name: &str) -> io::Result<()> {
        self.memory.remove(name)
    }

    fn sync_dir(&self) -> io::Result<()> {
        self.memory.sync_dir()
    }

    fn lock(&self, name: &str) -> io::Result<Box<dyn LockGuard>> {
        self.memory.lock(name)
    }

    fn boot_id(&self) -> Option<u128> {
        self.memory.boot_id()
    }
}

/// Errors and short slices in the middle, and a storage that forgets its last requests.
#[test]
fn a_storage_that_fails_some_reads_is_believed() {
    /// Of ten keys in blocks far apart, those whose reads fail, and the error.
    fn failing(hook: Box<Hook>) -> (Vec<usize>, Error) {
        let memory = Memory::new();
        let hooked = Hooked { memory, hook };
        let db = filled(Db::builder("many").storage(Arc::new(hooked)), 1);
        let far = || (0..10).map(|n| n * KEYS / 10);
        let error = db.get_many(far().map(key)).map(drop).unwrap_err();
        // What was read well is in the cache.
        let is_read = |n: u32| {
            let found = || assert_eq!(db.get(key(n)).unwrap().unwrap(), value(n));
            read_by(&db, |_| found()).0 > 0
        };
        let failed = far().enumerate().filter(|(_, n)| is_read(*n));
        (failed.map(|(at, _)| at).collect(), error)
    }
    let (at, error) = failing(Box::new(|mut results| {
        results[3] = Err(ErrorKind::TimedOut.into());
        results
    }));
    assert_eq!(at, [3]);
    assert!(matches!(error, Error::Io { source, .. } if source.kind() == ErrorKind::TimedOut));
    let (at, error) = failing(Box::new(|mut results| {
        let short = results[4].as_ref().unwrap().slice(0..100);
        results[4] = Ok(short);
        results
    }));
    assert_eq!(at, [4]);
    assert!(matches!(error, Error::Corrupt(_)), "{error}");
    let (at, error) = failing(Box::new(|mut results| {
        results.truncate(8);
        results
    }));
    assert_eq!(at, [8, 9]);
    assert!(matches!(error, Error::Io { .. }), "{error}");
}
