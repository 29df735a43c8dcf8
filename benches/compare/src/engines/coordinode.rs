//! coordinode-lsm-tree is a tree without a log and without threads of its own; its user brings both.
//! Here that is what the other stores do: a file to which each put is written with one system call
//! (synced on demand) and which goes when its memtable is flushed, a thread that flushes, two that
//! compact (leveled, its default) until nothing is left to do, and writers that wait when four
//! memtables are full or level 0 has 20 runs. So its write path and its recovery are partly ours.
//! Equal: cache, memtable, block size, bits of the filter (a ribbon, although its option says
//! Bloom); filters and index are pinned unless starved. Compression is LZ4.

use std::fs::File;
use std::io::{Read as _, Write};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use lsm_tree::compaction::{CompactionAction, Leveled};
use lsm_tree::config::{
    BlockSizePolicy, BloomConstructionPolicy, CompressionPolicy, FilterPolicy, FilterPolicyEntry,
    PinningPolicy,
};
use lsm_tree::{
    AbstractTree, AnyTree, Cache, CompressionType, Config, Guard, IterGuardImpl, SeqNo,
    SequenceNumberCounter,
};

use crate::engine::{Engine, OnEntry, OnValue, Read, Result, Settings};

const SEALED_MAX: usize = 3;
const COMPACTORS: usize = 2;
const LEVEL0_RUNS_MAX: usize = 20;
const LOG_PREFIX: &str = "log-";

struct Coordinode {
    shared: Arc<Shared>,
    threads: Vec<JoinHandle<()>>,
}

struct Shared {
    tree: AnyTree,
    dir: PathBuf,
    memtable_bytes: u64,
    sync: bool,
    seqno: SequenceNumberCounter,
    visible: SequenceNumberCounter,
    log: Mutex<Log>,
    /// Raised by whoever makes work for the threads; they and those who wait for them sleep on it.
    work: Mutex<Work>,
    changed: Condvar,
    is_closing: AtomicBool,
}

struct Log {
    file: File,
    number: u64,
    buffer: Vec<u8>,
}

#[derive(Default)]
struct Work {
    flush: bool,
    is_flushing: bool,
    /// Threads that shall look for something to compact, and those that do.
    compact: usize,
    compacting: usize,
    failure: Option<String>,
}

pub fn open(dir: &Path, settings: &Settings) -> Result<Box<dyn Engine>> {
    let seqno = SequenceNumberCounter::default();
    let visible = SequenceNumberCounter::default();
    let tree = config(dir, settings, &seqno, &visible).open()?;
    let shared = Arc::new(Shared {
        dir: dir.to_path_buf(),
        memtable_bytes: settings.memtable_bytes,
        sync: settings.sync,
        log: Mutex::new(replayed(dir, &tree, &seqno)?),
        tree,
        work: Mutex::default(),
        changed: Condvar::new(),
        is_closing: AtomicBool::new(false),
        seqno,
        visible,
    });
    shared.visible.fetch_max(shared.seqno.get());
    let compactors = std::iter::repeat_n(Shared::run_compactions as fn(&Shared), COMPACTORS);
    let threads = std::iter::once(Shared::run_flushes as fn(&Shared)).chain(compactors);
    let threads = threads.map(|run| {
        let shared = Arc::clone(&shared);
        std::thread::spawn(move || run(&shared))
    });
    let threads = threads.collect();
    Ok(Box::new(Coordinode { shared, threads }))
}

fn config(
    dir: &Path,
    settings: &Settings,
    seqno: &SequenceNumberCounter,
    visible: &SequenceNumberCounter,
) -> Config {
    let bits = BloomConstructionPolicy::BitsPerKey(settings.filter_bits as f32);
    let config = Config::new(dir.join("tree"), seqno.clone(), visible.clone())
        .use_cache(Arc::new(Cache::with_capacity_bytes(settings.cache_bytes)))
        .data_block_size_policy(BlockSizePolicy::all(settings.block_bytes))
        .filter_policy(FilterPolicy::all(FilterPolicyEntry::Bloom(bits)))
        .data_block_compression_policy(CompressionPolicy::all(match settings.compression {
            true => CompressionType::Lz4,
            false => CompressionType::None,
        }));
    config
        .filter_block_pinning_policy(PinningPolicy::all(!settings.starved))
        .index_block_pinning_policy(PinningPolicy::all(!settings.starved))
        .filter_block_partitioning_policy(PinningPolicy::all(settings.starved))
        .index_block_partitioning_policy(PinningPolicy::all(settings.starved))
}

/// Writes what the logs hold into the tree, and begins the next one.
fn replayed(dir: &Path, tree: &AnyTree, seqno: &SequenceNumberCounter) -> Result<Log> {
    if let Some(highest) = tree.get_highest_seqno() {
        seqno.fetch_max(highest + 1);
    }
    let mut numbers = log_numbers(dir)?;
    numbers.sort_unstable();
    for number in &numbers {
        let mut bytes = Vec::new();
        File::open(log_path(dir, *number))?.read_to_end(&mut bytes)?;
        let mut rest = &bytes[..];
        while let Some(((key, value), after)) = record(rest) {
            match value {
                Some(value) => tree.insert(key, value, seqno.next()),
                None => tree.remove(key, seqno.next()),
            };
            rest = after;
        }
    }
    let number = numbers.last().map_or(0, |last| last + 1);
    Ok(Log {
        file: File::create(log_path(dir, number))?,
        number,
        buffer: Vec::new(),
    })
}

fn log_path(dir: &Path, number: u64) -> PathBuf {
    dir.join(format!("{LOG_PREFIX}{number}"))
}

fn log_numbers(dir: &Path) -> Result<Vec<u64>> {
    let mut numbers = Vec::new();
    for entry in std::fs::read_dir(dir)? {
        let name = entry?.file_name();
        let number = name.to_str().and_then(|name| name.strip_prefix(LOG_PREFIX));
        numbers.extend(number.and_then(|number| number.parse::<u64>().ok()));
    }
    Ok(numbers)
}

/// Length of the value that stands for a deletion.
const DELETED: u32 = u32::MAX;
const HEAD_BYTES: usize = 6;

type Record<'a> = (&'a [u8], Option<&'a [u8]>);

/// The first key of a log with its value or `None` for a deletion, and the rest.
fn record(bytes: &[u8]) -> Option<(Record<'_>, &[u8])> {
    let (head, rest) = bytes.split_at_checked(HEAD_BYTES)?;
    let key_len = u16::from_le_bytes([head[0], head[1]]) as usize;
    let value_len = u32::from_le_bytes([head[2], head[3], head[4], head[5]]);
    let (key, rest) = rest.split_at_checked(key_len)?;
    if value_len == DELETED {
        return Some(((key, None), rest));
    }
    let (value, rest) = rest.split_at_checked(value_len as usize)?;
    Some(((key, Some(value)), rest))
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Shared {
    fn write(&self, key: &[u8], value: Option<&[u8]>) -> Result<()> {
        self.wait_for_room()?;
        let mut log = lock(&self.log);
        log.append(key, value)?;
        if self.sync {
            log.file.sync_data()?;
        }
        let seqno = self.seqno.next();
        let (_, memtable_bytes) = match value {
            Some(value) => self.tree.insert(key, value, seqno),
            None => self.tree.remove(key, seqno),
        };
        self.visible.fetch_max(seqno + 1);
        if memtable_bytes > self.memtable_bytes {
            self.seal(&mut log)?;
        }
        Ok(())
    }

    fn seal(&self, log: &mut Log) -> Result<()> {
        if self.tree.rotate_memtable().is_some() {
            log.number += 1;
            log.file = File::create(log_path(&self.dir, log.number))?;
            lock(&self.work).flush = true;
            self.changed.notify_all();
        }
        Ok(())
    }

    fn wait_for_room(&self) -> Result<()> {
        while self.tree.sealed_memtable_count() > SEALED_MAX
            || self.tree.l0_run_count() >= LEVEL0_RUNS_MAX
        {
            let work = lock(&self.work);
            work.check()?;
            let wait = Duration::from_millis(1);
            drop(self.changed.wait_timeout(work, wait));
        }
        Ok(())
    }

    fn run_flushes(&self) {
        while self.begin(|work| {
            let is_due = std::mem::take(&mut work.flush);
            work.is_flushing |= is_due;
            is_due
        }) {
            let result = self.flush();
            self.end(result, |work| {
                work.is_flushing = false;
                work.compact = COMPACTORS;
            });
        }
    }

    fn flush(&self) -> Result<()> {
        let live = lock(&self.log).number;
        let flushing = self.tree.get_flush_lock();
        // What is sealed now was written to logs before the live one.
        self.tree.flush(&flushing, self.visible.get())?;
        for number in log_numbers(&self.dir)? {
            if number < live {
                std::fs::remove_file(log_path(&self.dir, number))?;
            }
        }
        Ok(())
    }

    fn run_compactions(&self) {
        while self.begin(|work| {
            let is_due = work.compact > 0;
            work.compact -= usize::from(is_due);
            work.compacting += usize::from(is_due);
            is_due
        }) {
            let result = self.compact();
            self.end(result, |work| work.compacting -= 1);
        }
    }

    fn compact(&self) -> Result<()> {
        let strategy = Arc::new(Leveled::default());
        while !self.is_closing.load(Ordering::Relaxed) {
            let result = self.tree.compact(strategy.clone(), self.visible.get())?;
            if result.action == CompactionAction::Nothing {
                break;
            }
            // What this one has written may be due for the other to move on.
            lock(&self.work).compact = COMPACTORS;
            self.changed.notify_all();
        }
        Ok(())
    }

    /// Waits until there is work, which `take` marks as begun; `false` when the store is closing.
    fn begin(&self, mut take: impl FnMut(&mut Work) -> bool) -> bool {
        let mut work = lock(&self.work);
        loop {
            if self.is_closing.load(Ordering::Relaxed) {
                return false;
            }
            if take(&mut work) {
                return true;
            }
            let waited = self.changed.wait(work);
            work = waited.unwrap_or_else(PoisonError::into_inner);
        }
    }

    fn end(&self, result: Result<()>, mark: impl FnOnce(&mut Work)) {
        let mut work = lock(&self.work);
        mark(&mut work);
        if let Err(error) = result {
            work.failure = Some(error.to_string());
        }
        self.changed.notify_all();
    }
}

impl Log {
    /// One system call, as the other stores make.
    fn append(&mut self, key: &[u8], value: Option<&[u8]>) -> Result<()> {
        let value_len = value.map_or(DELETED, |value| value.len() as u32);
        self.buffer.clear();
        self.buffer.extend((key.len() as u16).to_le_bytes());
        self.buffer.extend(value_len.to_le_bytes());
        self.buffer.extend(key);
        self.buffer.extend(value.unwrap_or_default());
        Ok(self.file.write_all(&self.buffer)?)
    }
}

impl Work {
    fn check(&self) -> Result<()> {
        match &self.failure {
            Some(failure) => Err(failure.as_str().into()),
            None => Ok(()),
        }
    }

    fn is_done(&self) -> bool {
        !self.flush && !self.is_flushing && self.compact == 0 && self.compacting == 0
    }
}

impl Read for Coordinode {
    fn get(&self, key: &[u8], on_value: OnValue<'_>) -> Result<bool> {
        let value = self.shared.tree.get(key, SeqNo::MAX)?;
        if let Some(value) = &value {
            on_value(value);
        }
        Ok(value.is_some())
    }

    fn scan(&self, from: &[u8], limit: usize, on_entry: OnEntry<'_>) -> Result<usize> {
        let entries = self.shared.tree.range(from.., SeqNo::MAX, None);
        each(entries.take(limit), on_entry)
    }

    fn prefix(&self, prefix: &[u8], on_entry: OnEntry<'_>) -> Result<usize> {
        each(self.shared.tree.prefix(prefix, SeqNo::MAX, None), on_entry)
    }
}

fn each(entries: impl Iterator<Item = IterGuardImpl>, on_entry: OnEntry<'_>) -> Result<usize> {
    let mut count = 0;
    for entry in entries {
        let (key, value) = entry.into_inner()?;
        on_entry(&key, &value);
        count += 1;
    }
    Ok(count)
}

impl Engine for Coordinode {
    fn put(&self, key: &[u8], value: &[u8]) -> Result<()> {
        self.shared.write(key, Some(value))
    }

    fn delete(&self, key: &[u8]) -> Result<()> {
        self.shared.write(key, None)
    }

    fn settle(&self) -> Result<Instant> {
        self.shared.seal(&mut lock(&self.shared.log))?;
        let mut work = lock(&self.shared.work);
        work.compact = COMPACTORS;
        self.shared.changed.notify_all();
        while !work.is_done() {
            work.check()?;
            let waited = self.shared.changed.wait(work);
            work = waited.unwrap_or_else(PoisonError::into_inner);
        }
        work.check()?;
        Ok(Instant::now())
    }

    fn reader(&self) -> Result<Box<dyn Read + '_>> {
        Ok(Box::new(Coordinode {
            shared: Arc::clone(&self.shared),
            threads: Vec::new(),
        }))
    }

    fn close(self: Box<Self>) -> Result<()> {
        lock(&self.shared.log).file.sync_all()?;
        {
            let _work = lock(&self.shared.work);
            self.shared.is_closing.store(true, Ordering::Relaxed);
            self.shared.changed.notify_all();
        }
        for thread in self.threads {
            thread.join().map_err(|_| "a background thread panicked")?;
        }
        Ok(())
    }
}
