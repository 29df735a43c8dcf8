//! What all handles and background threads of an open store share.
//!
//! Locks, in the order in which they are taken: `syncing`, `writer`, `next_journal`, `manifest`,
//! `installing`; that of the gaps is taken last.
//! Readers take none of them.

use std::collections::{BTreeMap, VecDeque};
use std::sync::atomic::{AtomicBool, AtomicI64, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, OnceLock};
use std::time::{Duration, Instant};

use arc_swap::ArcSwap;

use crate::arena::Spares;
use crate::error::{Error, Result};
use crate::journal;
use crate::key::Sequence;
use crate::manifest::{JournalFloor, Manifest, Work};
use crate::memtable::Memtable;
use crate::options::Options;
use crate::origin::Origin;
use crate::segment::Caches;
use crate::storage::{Counting, Storage};
use crate::version::Version;

use super::compact::Compacting;
use super::gaps::Gaps;
use super::lookups::LookupCounters;
use super::pause::WorkTimes;
use super::rotate::NextJournal;
use super::stats::{Event, EventKind, RecoveryReport};
use super::threads::Threads;
use super::write::Writing;

/// Events kept for [`crate::Stats`].
const EVENTS_MAX: usize = 256;

/// Where all entries are at one moment: an immutable value that readers take without a lock.
///
/// Invariant: an entry is newer than any entry of its key in a later place: active memtable,
/// sealed memtables as listed, runs as listed.
#[derive(Debug)]
pub(crate) struct View {
    pub(crate) active: Arc<Memtable>,
    /// Newest first.
    pub(crate) sealed: Vec<Arc<Sealed>>,
    pub(crate) version: Arc<Version>,
}

/// A memtable that takes no more writes and waits for its flush.
#[derive(Debug)]
pub(crate) struct Sealed {
    pub(crate) table: Arc<Memtable>,
    /// Sequence of its newest entry.
    pub(crate) last: Sequence,
    /// Where the journals begin that are needed once it is flushed.
    pub(crate) floor: JournalFloor,
}

/// Counters of what readers and writers met.
#[derive(Debug, Default)]
pub(crate) struct Counters {
    pub(crate) lookups: LookupCounters,
    pub(crate) flushes: AtomicU64,
    pub(crate) flushed_bytes: AtomicU64,
    /// Bytes of batches, as they were given.
    pub(crate) user_bytes: AtomicU64,
    pub(crate) compactions: AtomicU64,
    pub(crate) compacted_parts: AtomicU64,
    pub(crate) moves: AtomicU64,
    pub(crate) dropped: AtomicU64,
    pub(crate) compacted_bytes: AtomicU64,
    pub(crate) compaction_ns: AtomicU64,
    pub(crate) slowed: AtomicU64,
    pub(crate) slowed_ns: AtomicU64,
    pub(crate) stopped: AtomicU64,
    pub(crate) stopped_ns: AtomicU64,
}

impl Counters {
    /// Counters of a session that goes on where the last one ended.
    pub(crate) fn after(work: Work) -> Counters {
        Counters {
            user_bytes: work.user_bytes.into(),
            flushed_bytes: work.flushed_bytes.into(),
            compacted_bytes: work.merged_bytes.into(),
            ..Counters::default()
        }
    }

    /// What has been written since the store was made.
    pub(crate) fn work(&self) -> Work {
        let load = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        Work {
            user_bytes: load(&self.user_bytes),
            flushed_bytes: load(&self.flushed_bytes),
            merged_bytes: load(&self.compacted_bytes),
        }
    }

    pub(crate) fn add(counter: &AtomicU64, n: u64) {
        counter.fetch_add(n, Ordering::Relaxed);
    }
}

/// The state of the background flush.
#[derive(Debug, Default)]
pub(crate) struct Flushing {
    /// The thread shall end.
    pub(crate) stop: bool,
    /// The next journal shall be made ready.
    pub(crate) wants_journal: bool,
    /// Journals that are written no more, to be put away.
    pub(crate) sealed_journals: Vec<journal::Writer>,
    /// The last attempt failed; cleared by the next that succeeds.
    pub(crate) failure: Option<Arc<Error>>,
    /// Attempts that failed, ever.
    pub(crate) failures: u64,
}

#[derive(Debug)]
pub(crate) struct Shared {
    /// Looked at before any lock is taken: in a forked child it may be held for ever.
    pub(crate) origin: Origin,
    pub(crate) options: Options,
    pub(crate) storage: Arc<dyn Storage>,
    pub(crate) counting: Counting,
    pub(crate) caches: Arc<Caches>,
    pub(crate) store_id: u128,
    pub(crate) hash_seed: u64,
    pub(crate) view: ArcSwap<View>,
    /// Sealed memtables of the view, for who wants to know no more.
    pub(crate) sealed_count: AtomicUsize,
    /// Sequence of the newest write that readers see. Stored after its entries are in the
    /// memtable, loaded after the view.
    pub(crate) visible: AtomicU64,
    /// Everything up to this sequence survives power loss.
    pub(crate) durable: AtomicU64,
    pub(crate) gaps: Arc<Gaps>,
    pub(crate) syncing: Mutex<()>,
    pub(crate) writer: Mutex<Writing>,
    pub(crate) next_journal: Mutex<NextJournal>,
    pub(crate) manifest: Mutex<Manifest>,
    pub(crate) installing: Mutex<()>,
    /// Sequences that snapshots read at, and how many of them.
    pub(crate) snapshots: Mutex<BTreeMap<Sequence, usize>>,
    /// Memory of memtables that were flushed.
    pub(crate) spares: Arc<Spares>,
    pub(crate) flushing: Mutex<Flushing>,
    /// A memtable was sealed, or the thread shall stop.
    pub(crate) flush_work: Condvar,
    /// A flush ended, well or not.
    pub(crate) flush_done: Condvar,
    /// Time to flush a byte of a memtable, in nanoseconds; 0 before the first flush.
    pub(crate) flush_ns_per_kib: AtomicU64,
    pub(crate) work_times: WorkTimes,
    pub(crate) compacting: Mutex<Compacting>,
    /// The tree has changed, someone asked for a compaction, or the thread shall stop.
    pub(crate) compact_work: Condvar,
    /// A compaction ended, well or not.
    pub(crate) compact_done: Condvar,
    pub(crate) threads: Mutex<Threads>,
    /// Time to compact a KiB of output, in nanoseconds; 0 before the first compaction.
    pub(crate) compact_ns_per_kib: AtomicU64,
    /// Delay that slowed writers owe, in nanoseconds; less than none when they waited too long.
    pub(crate) owed_ns: AtomicI64,
    /// Bytes that wait for a compaction: see [`crate::compaction::debt_bytes`].
    pub(crate) debt_bytes: AtomicU64,
    /// Caches that hold nothing: compactions shall not push out what readers use.
    pub(crate) no_caches: Arc<Caches>,
    pub(crate) poison: OnceLock<Arc<Error>>,
    pub(crate) closed: AtomicBool,
    pub(crate) counters: Counters,
    pub(crate) events: Mutex<VecDeque<Event>>,
    pub(crate) started: Instant,
    pub(crate) recovery: RecoveryReport,
}

/// A lock that survives a panic of another holder: the state behind it is changed in single
/// steps, so it is whole.
pub(crate) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex
        .lock()
        .unwrap_or_else(std::sync::PoisonError::into_inner)
}

impl Shared {
    pub(crate) fn visible(&self) -> Sequence {
        Sequence(self.visible.load(Ordering::Acquire))
    }

    pub(crate) fn durable(&self) -> Sequence {
        Sequence(self.durable.load(Ordering::Acquire))
    }

    /// Refuses everything after `close`, and in a forked child.
    pub(crate) fn check_open(&self) -> Result<()> {
        self.origin.check()?;
        if self.closed.load(Ordering::Acquire) {
            Err(Error::Closed)
        } else {
            Ok(())
        }
    }

    /// Refuses writes when the store cannot take any.
    pub(crate) fn check_writable(&self) -> Result<()> {
        self.check_open()?;
        if self.options.access == crate::options::Access::ReadOnly {
            return Err(Error::ReadOnly);
        }
        self.check_sound()
    }

    /// Refuses when it is unknown what is on disk.
    pub(crate) fn check_sound(&self) -> Result<()> {
        match self.poison.get() {
            Some(cause) => Err(Error::Poisoned {
                cause: Arc::clone(cause),
            }),
            None => Ok(()),
        }
    }

    /// From now on writes are refused: it is unknown what is on disk. Returns the error that the
    /// caller passes on.
    pub(crate) fn poison(&self, error: Error) -> Error {
        let cause = Arc::clone(self.poison.get_or_init(|| Arc::new(error)));
        self.event(EventKind::Failed {
            what: format!("writes are refused from now on: {cause}"),
        });
        // Whoever waits for a flush must learn that there will be none.
        drop(lock(&self.flushing));
        self.flush_done.notify_all();
        self.flush_work.notify_all();
        drop(lock(&self.compacting));
        self.compact_work.notify_all();
        self.compact_done.notify_all();
        Error::Poisoned { cause }
    }

    pub(crate) fn event(&self, what: EventKind) {
        let mut events = lock(&self.events);
        if events.len() == EVENTS_MAX {
            events.pop_front();
        }
        events.push_back(Event {
            at: self.started.elapsed(),
            what,
        });
    }

    /// Replaces the view by one made from it, and returns the one that was there. What only that one holds goes
    /// with it: not while anybody waits for the lock.
    pub(crate) fn install(&self, change: impl FnOnce(&View) -> View) -> Arc<View> {
        let guard = lock(&self.installing);
        let view = change(&self.view.load());
        let sealed = view.sealed.len();
        let old = self.view.swap(Arc::new(view));
        self.sealed_count.store(sealed, Ordering::Relaxed);
        drop(guard);
        old
    }

    /// The same for a thread of the store's own, which puts away what goes with the old view.
    ///
    /// Who writes or looks a key up holds the view for a moment, and would else be the last to hold it now and then:
    /// to remove a file of 64 MiB takes 20 ms. Who holds it for longer, as an iterator does, puts it
    /// away when he is done.
    #[expect(
        clippy::disallowed_methods,
        reason = "who lets go of a view tells nobody; a few milliseconds at most"
    )]
    pub(crate) fn install_behind(&self, change: impl FnOnce(&View) -> View) {
        let old = self.install(change);
        for _ in 0..MOMENTS {
            if Arc::strong_count(&old) == 1 {
                break;
            }
            std::thread::sleep(MOMENT);
        }
    }

    /// For handles that are dropped in a forked child: all that they share stays as it is, with its
    /// files, threads and locks, until the process ends.
    pub(crate) fn leak(self: &Arc<Self>) {
        std::mem::forget(Arc::clone(self));
    }

    /// The sequences that snapshots read at, ascending.
    pub(crate) fn snapshot_sequences(&self) -> Vec<Sequence> {
        lock(&self.snapshots).keys().copied().collect()
    }
}

/// How long to wait for those who hold a view for a moment: two turns of a processor that many share.
const MOMENT: Duration = Duration::from_millis(1);
const MOMENTS: u32 = 8;

/// Nanoseconds as a number; longer than 584 years does not occur.
pub(crate) fn nanos(duration: Duration) -> u64 {
    u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX)
}
