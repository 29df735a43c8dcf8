//! The protocols between threads, small enough to be tried in every interleaving (with `loom`).
//!
//! The engine uses locks and atomics of the standard library, so these are models: each does, step
//! by step and by the same names and memory orders, what the engine does, with one key and two or
//! three writes. Whoever changes the order of steps there changes it here. Each model also has a
//! wrong order that it must find.
//!
//! The tree of the memtable needs no copy: `src/memtable/tests/model.rs` tries its own files.

use loom::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use loom::sync::{Arc, Mutex};
use loom::thread;

/// Tries every interleaving with at most so many preemptions: enough for all that was planted.
fn explore(preemptions: usize, model: impl Fn() + Send + Sync + 'static) {
    let mut builder = loom::model::Builder::new();
    builder.preemption_bound = Some(preemptions);
    builder.check(model);
}

/// A memtable with one key: the versions that were inserted.
#[derive(Default)]
struct Table([AtomicU64; 3]);

impl Table {
    /// As the tree does: an entry is seen as a whole, once the order of its node has it.
    fn insert(&self, sequence: u64) {
        self.0[sequence as usize].store(sequence, Ordering::Release);
    }

    fn newest(&self, at_most: u64) -> u64 {
        let versions = self.0.iter().map(|version| version.load(Ordering::Acquire));
        let visible = versions.filter(|version| *version <= at_most);
        visible.max().unwrap_or_default()
    }
}

/// The versions that a flush keeps: the newest, and what snapshots see (`Retain`).
fn retained(versions: &[u64], snapshots: &[u64]) -> Vec<u64> {
    let newest = versions.iter().max().copied();
    let seen = snapshots.iter().filter_map(|snapshot| {
        let visible = versions.iter().filter(|version| *version <= snapshot);
        visible.max().copied()
    });
    newest.into_iter().chain(seen).collect()
}

/// Where the entries of the first memtable are, at first in the active one: see `View` in
/// `src/tree/view.rs`.
const SEALED: usize = 1;
const FLUSHED: usize = 2;

/// `Shared`, as far as readers and the flush meet in it.
#[derive(Default)]
struct Store {
    view: AtomicUsize,
    table: Table,
    segment: Mutex<Vec<u64>>,
    visible: AtomicU64,
    snapshots: Mutex<Vec<u64>>,
}

impl Store {
    /// `Shared::write`: into the memtable, then visible.
    fn write(&self, sequence: u64) {
        self.table.insert(sequence);
        self.visible.store(sequence, Ordering::Release);
    }

    /// `Shared::install`.
    fn install(&self, view: usize) {
        self.view.store(view, Ordering::SeqCst);
    }

    fn visible(&self) -> u64 {
        self.visible.load(Ordering::Acquire)
    }

    fn view(&self) -> usize {
        self.view.load(Ordering::SeqCst)
    }

    /// `Shared::snapshot_sequences`.
    fn snapshot_sequences(&self) -> Vec<u64> {
        self.snapshots.lock().unwrap().clone()
    }

    /// `Shared::flush_one`: the snapshots are those of its beginning.
    fn flush_one(&self, snapshots: &[u64]) {
        if self.view() != SEALED {
            return;
        }
        let versions = self.table.0.iter().map(|one| one.load(Ordering::Acquire));
        let versions: Vec<u64> = versions.filter(|version| *version > 0).collect();
        *self.segment.lock().unwrap() = retained(&versions, snapshots);
        self.install(FLUSHED);
    }

    /// The newest version up to `sequence` in what a view holds.
    fn find(&self, view: usize, sequence: u64) -> u64 {
        if view != FLUSHED {
            return self.table.newest(sequence);
        }
        let segment = self.segment.lock().unwrap();
        let visible = segment.iter().filter(|version| **version <= sequence);
        visible.max().copied().unwrap_or_default()
    }
}

/// Writes two versions and seals the memtable, flushes it, and reads meanwhile.
fn read_path(read: fn(&Store) -> (usize, u64)) {
    let store = Arc::new(Store::default());
    store.write(1);
    let writer = Arc::clone(&store);
    let writer = thread::spawn(move || {
        writer.write(2);
        writer.install(SEALED);
    });
    let flusher = Arc::clone(&store);
    let flusher = thread::spawn(move || flusher.flush_one(&flusher.snapshot_sequences()));
    let (view, visible) = read(&store);
    assert_eq!(
        store.find(view, visible),
        visible,
        "a visible write is not found"
    );
    writer.join().unwrap();
    flusher.join().unwrap();
}

/// `Shared::get` and `Iter::new`: the view first. (`Iter::new` looks once more whether the view
/// is still that one, so that no write is missing; what is found is found either way.)
#[test]
fn a_reader_finds_what_is_visible() {
    explore(3, || {
        read_path(|store| {
            let view = store.view();
            (view, store.visible())
        })
    });
}

#[test]
#[should_panic(expected = "a visible write is not found")]
fn the_model_finds_visible_before_view() {
    explore(3, || {
        read_path(|store| {
            let visible = store.visible();
            (store.view(), visible)
        })
    });
}

/// Takes a snapshot while the memtable is sealed and flushed, then reads at it.
fn snapshot_path(take: fn(&Store) -> u64, flush: fn(&Store)) {
    let store = Arc::new(Store::default());
    store.write(1);
    let flusher = Arc::clone(&store);
    let flusher = thread::spawn(move || flush(&flusher));
    let writer = Arc::clone(&store);
    let writer = thread::spawn(move || {
        writer.write(2);
        writer.install(SEALED);
    });
    let sequence = take(&store);
    for _ in 0..2 {
        let view = store.view();
        assert_eq!(
            store.find(view, sequence),
            sequence,
            "a snapshot has lost its version"
        );
        thread::yield_now();
    }
    writer.join().unwrap();
    flusher.join().unwrap();
    assert_eq!(
        store.find(store.view(), sequence),
        sequence,
        "a snapshot has lost its version"
    );
}

/// `Snapshot::take`: sequence and registration under one lock.
fn take(store: &Store) -> u64 {
    let mut snapshots = store.snapshots.lock().unwrap();
    let sequence = store.visible();
    snapshots.push(sequence);
    sequence
}

/// The sealed memtable first, which holds only visible entries, then the snapshots.
fn flush(store: &Store) {
    if store.view() == SEALED {
        store.flush_one(&store.snapshot_sequences());
    }
}

#[test]
fn a_flush_keeps_what_snapshots_see() {
    explore(3, || snapshot_path(take, flush));
}

#[test]
#[should_panic(expected = "a snapshot has lost its version")]
fn the_model_finds_a_snapshot_that_is_registered_late() {
    let take = |store: &Store| {
        let sequence = store.visible();
        store.snapshots.lock().unwrap().push(sequence);
        sequence
    };
    explore(3, move || snapshot_path(take, flush));
}

#[test]
#[should_panic(expected = "a snapshot has lost its version")]
fn the_model_finds_a_list_of_snapshots_that_is_older_than_the_memtable() {
    let flush = |store: &Store| {
        let snapshots = store.snapshot_sequences();
        store.flush_one(&snapshots);
    };
    explore(3, move || snapshot_path(take, flush));
}

/// `Gaps` with one key, deleted at sequence 1; 0 is no gap, else its sequence.
#[derive(Default)]
struct Queue {
    list: AtomicU64,
    last_put: Mutex<u64>,
    table: AtomicU64,
    visible: AtomicU64,
}

impl Queue {
    /// `Shared::write` of a put: taken out of the gaps before it becomes visible.
    fn put(&self, sequence: u64) {
        let mut last_put = self.last_put.lock().unwrap();
        *last_put = sequence;
        self.list.store(0, Ordering::SeqCst);
        self.table.store(sequence, Ordering::Release);
        self.visible.store(sequence, Ordering::Release);
    }

    /// `Gaps::add`.
    fn add(&self, sequence: u64, is_checked: bool) {
        let last_put = self.last_put.lock().unwrap();
        if !is_checked || *last_put <= sequence {
            self.list.store(sequence, Ordering::SeqCst);
        }
    }

    /// `Iter::first`: steps over a gap, or finds what is there, or leaves a gap.
    fn first(&self, is_checked: bool) {
        let sequence = self.visible.load(Ordering::Acquire);
        let gap = self.list.load(Ordering::SeqCst);
        let is_put = |put: u64| put > 1 && put <= sequence;
        if gap > 0 && gap <= sequence {
            assert!(!is_put(sequence), "an entry lies in a gap");
        } else if !is_put(self.table.load(Ordering::Acquire)) {
            self.add(sequence, is_checked);
        }
    }
}

fn queue_path(is_checked: bool) {
    let queue = Arc::new(Queue::default());
    queue.table.store(1, Ordering::Release);
    queue.visible.store(1, Ordering::Release);
    let writer = Arc::clone(&queue);
    let writer = thread::spawn(move || writer.put(2));
    let reader = Arc::clone(&queue);
    let reader = thread::spawn(move || reader.first(is_checked));
    queue.first(is_checked);
    queue.first(is_checked);
    writer.join().unwrap();
    reader.join().unwrap();
    queue.first(is_checked);
}

#[test]
fn a_put_is_never_in_a_gap() {
    explore(3, || queue_path(true));
}

#[test]
#[should_panic(expected = "an entry lies in a gap")]
fn the_model_finds_a_gap_that_is_older_than_the_last_put() {
    explore(3, || queue_path(false));
}

/// Where the first memtable went after `FLUSHED`: its segment is merged, and a FIFO drops it.
const MERGED: usize = 3;
const DROPPED: usize = 4;

/// A key that is deleted again and again, while a transaction relies on it: see
/// `src/tree/conflict.rs`. The second memtable stays active.
#[derive(Default)]
struct Watched {
    writer: Mutex<()>,
    view: AtomicUsize,
    tables: [Table; 2],
    /// What the flush has written, and what the merge has.
    segments: [Mutex<Option<u64>>; 2],
    visible: AtomicU64,
    snapshots: Mutex<Vec<u64>>,
    dropped: AtomicU64,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum CommitPlant {
    None,
    /// The view is taken before it is asked how far the examination goes.
    ViewFirst,
    /// Whether there is anything to look at is decided before the view is taken.
    SkippedEarly,
    /// What is in no memtable any more is taken to be examined.
    NotAgain,
    /// Whether something was dropped is asked before the view is taken.
    DroppedFirst,
    /// A view lacks what was dropped before that is noted.
    NotedLate,
    /// Flushes do not know of the transaction.
    NotRegistered,
    /// Under the lock only the memtable is looked at that is active then.
    ActiveOnly,
}

impl Watched {
    fn visible(&self) -> u64 {
        self.visible.load(Ordering::Acquire)
    }

    fn view(&self) -> usize {
        self.view.load(Ordering::SeqCst)
    }

    /// `Store::write_in_turn`.
    fn delete(&self, sequence: u64) {
        let _turn = self.writer.lock().unwrap();
        let active = usize::from(self.view() >= SEALED);
        self.tables[active].insert(sequence);
        self.visible.store(sequence, Ordering::Release);
    }

    /// `Store::rotate`.
    fn rotate(&self) {
        let _turn = self.writer.lock().unwrap();
        self.view.store(SEALED, Ordering::SeqCst);
    }

    /// `Tree::flush`.
    fn flush(&self) {
        if self.view() == SEALED {
            self.rewrite(0, || self.tables[0].newest(u64::MAX), FLUSHED);
        }
    }

    /// `Tree::begin_merge`: its inputs, then the snapshots.
    fn merge(&self) {
        if self.view() == FLUSHED {
            self.rewrite(1, || self.newest_in_segment(0), MERGED);
        }
    }

    /// `Retain`: a tombstone stays for older snapshots only.
    fn rewrite(&self, segment: usize, newest: impl Fn() -> u64, view: usize) {
        let snapshots = self.snapshots.lock().unwrap().clone();
        let newest = newest();
        let is_needed = snapshots.iter().any(|snapshot| *snapshot < newest);
        *self.segments[segment].lock().unwrap() = is_needed.then_some(newest);
        self.view.store(view, Ordering::SeqCst);
    }

    fn newest_in_segment(&self, segment: usize) -> u64 {
        self.segments[segment].lock().unwrap().unwrap_or_default()
    }

    /// `Tree::drop_segments`.
    fn drop_segments(&self, plant: CommitPlant) {
        if self.view() != MERGED {
            return;
        }
        let last = self.newest_in_segment(1);
        let note = || self.dropped.store(last, Ordering::Release);
        if plant == CommitPlant::NotedLate {
            self.view.store(DROPPED, Ordering::SeqCst);
            note();
        } else {
            note();
            self.view.store(DROPPED, Ordering::SeqCst);
        }
    }

    /// `Tree::examine`: which memtable was active, and up to where all was looked at; `None` for a
    /// conflict.
    fn examine(&self, since: u64, plant: CommitPlant) -> Option<(usize, u64)> {
        let early = self.dropped.load(Ordering::Acquire);
        let (up_to, view) = match plant {
            CommitPlant::ViewFirst => {
                let view = self.view();
                (0, view)
            }
            _ => (self.visible(), self.view()),
        };
        let newest = |table: usize| self.tables[table].newest(u64::MAX);
        let newest = match view {
            SEALED => newest(0).max(newest(1)),
            FLUSHED => newest(1).max(self.newest_in_segment(0)),
            MERGED => newest(1).max(self.newest_in_segment(1)),
            DROPPED => newest(1),
            _active => newest(0),
        };
        let up_to = match plant {
            CommitPlant::ViewFirst => self.visible(),
            _ => up_to,
        };
        let dropped = match plant {
            CommitPlant::DroppedFirst => early,
            _ => self.dropped.load(Ordering::Acquire),
        };
        let now = match plant {
            CommitPlant::SkippedEarly => up_to,
            _ => self.visible(),
        };
        let is_conflict = now > since && newest.max(dropped) > since;
        (!is_conflict).then_some((usize::from(view >= SEALED), up_to))
    }

    /// `Tree::examine_rest`: whether nothing came; `None` if a memtable was flushed.
    fn examine_rest(
        &self,
        since: u64,
        (active, up_to): (usize, u64),
        plant: CommitPlant,
    ) -> Option<bool> {
        if self.visible() == up_to {
            return Some(true);
        }
        let view = self.view();
        let newest = |table: usize| self.tables[table].newest(u64::MAX);
        let newest = match (active, view) {
            (0, FLUSHED..) if plant == CommitPlant::NotAgain => newest(1),
            (0, FLUSHED..) => return None,
            (0, SEALED) if plant != CommitPlant::ActiveOnly => newest(0).max(newest(1)),
            (0, 0) => newest(0),
            _ => newest(1),
        };
        Some(newest <= since)
    }

    /// `Store::commit_changes`.
    fn commit(&self, since: u64, plant: CommitPlant) {
        loop {
            let Some(examined) = self.examine(since, plant) else {
                return;
            };
            let turn = self.writer.lock().unwrap();
            match self.examine_rest(since, examined, plant) {
                None => drop(turn),
                Some(false) => return,
                Some(true) => {
                    assert!(self.visible() <= since, "a conflict was missed");
                    return;
                }
            }
        }
    }
}

fn commit_path(plant: CommitPlant) {
    let watched = Arc::new(Watched::default());
    let writer = Arc::clone(&watched);
    let writer = thread::spawn(move || {
        writer.delete(1);
        writer.rotate();
        writer.delete(2);
    });
    let flusher = Arc::clone(&watched);
    let flusher = thread::spawn(move || {
        flusher.flush();
        flusher.merge();
        flusher.drop_segments(plant);
    });
    // `Snapshots::register`.
    let mut snapshots = watched.snapshots.lock().unwrap();
    let since = watched.visible();
    if plant != CommitPlant::NotRegistered {
        snapshots.push(since);
    }
    drop(snapshots);
    watched.commit(since, plant);
    writer.join().unwrap();
    flusher.join().unwrap();
}

#[test]
fn a_commit_misses_no_conflict() {
    explore(3, || commit_path(CommitPlant::None));
}

/// Whether a model with this bug misses a conflict.
fn misses_a_conflict(plant: CommitPlant) -> bool {
    std::panic::catch_unwind(|| explore(3, move || commit_path(plant))).is_err()
}

#[test]
fn the_model_finds_each_wrong_order_of_a_commit() {
    for plant in [
        CommitPlant::ViewFirst,
        CommitPlant::SkippedEarly,
        CommitPlant::NotAgain,
        CommitPlant::DroppedFirst,
        CommitPlant::NotedLate,
        CommitPlant::NotRegistered,
        CommitPlant::ActiveOnly,
    ] {
        assert!(misses_a_conflict(plant), "{plant:?}");
    }
}

/// Two journals, and how much of each is written and synced. Who syncs covers what was written
/// when the sync began.
#[derive(Default)]
struct Journals {
    writing: Mutex<Writing>,
    syncing: Mutex<()>,
    durable: AtomicU64,
    /// On the disk, of each journal: its last sequence that survives.
    disk: [AtomicU64; 2],
}

#[derive(Default)]
struct Writing {
    last: u64,
    /// Last sequences of the journals.
    written: [u64; 2],
    current: usize,
    unsynced: Vec<usize>,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum SyncPlant {
    None,
    /// What was sealed before is not synced.
    CurrentOnly,
    /// What is durable is taken to be what is written when the sync ends.
    LastAfterwards,
}

impl Journals {
    /// `Shared::write`, after `rotate` if `is_full`.
    fn write(&self, is_full: bool) -> u64 {
        let mut writing = self.writing.lock().unwrap();
        if is_full {
            let sealed = writing.current;
            writing.unsynced.push(sealed);
            writing.current = 1;
        }
        writing.last += 1;
        let current = writing.current;
        writing.written[current] = writing.last;
        writing.last
    }

    /// `Shared::sync_to`.
    fn sync_to(&self, target: u64, plant: SyncPlant) {
        if self.durable.load(Ordering::Acquire) >= target {
            return;
        }
        let _turn = self.syncing.lock().unwrap();
        if self.durable.load(Ordering::Acquire) >= target {
            return;
        }
        // `take_unsynced`.
        let mut writing = self.writing.lock().unwrap();
        let mut files = std::mem::take(&mut writing.unsynced);
        if plant == SyncPlant::CurrentOnly {
            files.clear();
        }
        files.push(writing.current);
        let mut last = writing.last;
        let written = writing.written;
        drop(writing);
        for file in files {
            self.disk[file].store(written[file], Ordering::SeqCst);
        }
        if plant == SyncPlant::LastAfterwards {
            last = self.writing.lock().unwrap().last;
        }
        self.durable.fetch_max(last, Ordering::AcqRel);
    }

    /// Whether everything up to `target` is on the disk.
    fn check(&self, target: u64) {
        let writing = self.writing.lock().unwrap();
        let [first, second] = writing.written;
        let on_disk = [0, 1].map(|file: usize| self.disk[file].load(Ordering::SeqCst));
        assert!(
            on_disk[0] >= target.min(first),
            "an acknowledged write is not on the disk"
        );
        let needed = if target > first && second > 0 {
            target
        } else {
            0
        };
        assert!(
            on_disk[1] >= needed,
            "an acknowledged write is not on the disk"
        );
    }
}

fn sync_path(plant: SyncPlant) {
    let journals = Arc::new(Journals::default());
    let synced = |is_full: bool| {
        let journals = Arc::clone(&journals);
        move || {
            let sequence = journals.write(is_full);
            journals.sync_to(sequence, plant);
            journals.check(sequence);
        }
    };
    journals.write(false);
    let first = thread::spawn(synced(false));
    let second = thread::spawn(synced(true));
    first.join().unwrap();
    second.join().unwrap();
}

#[test]
fn a_shared_sync_covers_all_that_it_acknowledges() {
    explore(3, || sync_path(SyncPlant::None));
}

#[test]
#[should_panic(expected = "an acknowledged write is not on the disk")]
fn the_model_finds_a_sealed_journal_that_is_not_synced() {
    explore(3, || sync_path(SyncPlant::CurrentOnly));
}

#[test]
#[should_panic(expected = "an acknowledged write is not on the disk")]
fn the_model_finds_a_sync_that_promises_what_came_later() {
    explore(3, || sync_path(SyncPlant::LastAfterwards));
}
