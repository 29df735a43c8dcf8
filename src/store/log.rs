//! The log of a store: its journals, which sequences are visible, and which are durable.
//!
//! A journal is written under the writer lock and synced outside of it: the first to come syncs for
//! all that have written by then, so concurrent writers share one fsync.

use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use crate::compaction::FileNumbers;
use crate::error::{Error, Result};
use crate::format::batch::Payload;
use crate::journal::{self, NewJournal, Point};
use crate::key::Sequence;
use crate::locks::{Guard, Mutex, rank};
use crate::manifest::JournalFloor;
use crate::options::Durability;
use crate::services::Services;
use crate::storage::SyncFile;

use super::actives::Actives;
use super::generation::Generation;

/// The journals of a store.
#[derive(Debug)]
pub(super) struct Log {
    services: Arc<Services>,
    /// Whether journals may be written through a map.
    maps: bool,
    syncing: Mutex<(), { rank::SYNC }>,
    writer: Mutex<Writing, { rank::WRITER }>,
    next_journal: Mutex<NextJournal, { rank::NEXT_JOURNAL }>,
    /// Sequence of the newest write that readers see. Stored after its entries are in the
    /// memtable, loaded after the view.
    visible: AtomicU64,
    /// Everything up to this sequence survives power loss.
    durable: AtomicU64,
    /// Memory of the active memtables, for writers that wait for room.
    active_bytes: AtomicU64,
}

/// The turn of one writer.
pub(super) type Turn<'a> = Guard<'a, Writing, { rank::WRITER }>;

/// State protected by the writer lock.
#[derive(Debug)]
pub(super) struct Writing {
    actives: Actives,
    /// `None` until the first write of this session.
    journal: Option<journal::Writer>,
    /// Where the next journal begins while there is none.
    point: Point,
    /// The newest journal there is, 0 for none.
    last_journal: u64,
    /// Journals that were recovered.
    recovered: Vec<u64>,
    /// Whether they are known to survive power loss.
    recovered_durable: bool,
    /// Sealed journals that are not synced yet, oldest first.
    unsynced: Vec<Unsynced>,
    /// The journal of the next memtable was requested.
    has_asked: bool,
}

/// What recovery has found in journals.
#[derive(Debug)]
pub(super) struct RecoveredLog {
    pub(super) actives: Actives,
    pub(super) point: Point,
    /// The newest journal there is, 0 for none.
    pub(super) last_journal: u64,
    /// All that were read.
    pub(super) journals: Vec<u64>,
    /// Whether all of them survive power loss.
    pub(super) are_durable: bool,
    /// Everything up to this sequence does.
    pub(super) durable: Sequence,
}

/// The journal that comes next.
#[derive(Debug, Default)]
struct NextJournal {
    /// The journal that is written now, 0 before the first write of the session.
    current: u64,
    ready: Option<journal::Ready>,
}

/// A journal to sync.
#[derive(Debug)]
struct Unsynced {
    id: u64,
    path: PathBuf,
    file: Arc<dyn SyncFile>,
}

impl Unsynced {
    fn of(journal: &journal::Writer) -> Unsynced {
        Unsynced {
            id: journal.id(),
            path: journal.path().to_owned(),
            file: journal.syncer(),
        }
    }

    fn sync(&self) -> Result<()> {
        self.file
            .sync()
            .map_err(|error| Error::io(&self.path, error))
    }
}

impl Writing {
    #[inline]
    pub(super) fn actives(&mut self) -> &mut Actives {
        &mut self.actives
    }

    /// Whether this session has written.
    #[inline]
    pub(super) fn has_journal(&self) -> bool {
        self.journal.is_some()
    }

    /// How many journals were recovered.
    pub(super) fn recovered_count(&self) -> usize {
        self.recovered.len()
    }

    /// The active memtables, and the journal once there is one.
    #[inline]
    pub(super) fn parts(&mut self) -> (&mut Actives, Option<&mut journal::Writer>) {
        (&mut self.actives, self.journal.as_mut())
    }

    /// The active memtables, of which everything is in journals before this one. From now on there
    /// are none.
    pub(super) fn take_generation(&mut self, next: &journal::Writer) -> Generation {
        let point = next.point();
        Generation {
            first: self.actives.first().unwrap_or(point.next),
            tables: self.actives.take(),
            last: point.last(),
            floor: JournalFloor {
                id: next.id(),
                next: point.next,
                chain: point.chain,
            },
        }
    }

    /// Whether the journal of the next memtable was requested.
    #[inline]
    pub(super) fn has_asked(&self) -> bool {
        self.has_asked
    }

    pub(super) fn note_asked(&mut self) {
        self.has_asked = true;
    }
}

// Sequences.
impl Log {
    pub(super) fn new(services: &Arc<Services>, maps: bool, found: RecoveredLog) -> Log {
        let visible = found.point.last();
        let active_bytes = found.actives.bytes();
        Log {
            services: Arc::clone(services),
            maps,
            syncing: Mutex::default(),
            writer: Mutex::new(Writing {
                actives: found.actives,
                journal: None,
                point: found.point,
                last_journal: found.last_journal,
                recovered: found.journals,
                recovered_durable: found.are_durable,
                unsynced: Vec::new(),
                has_asked: false,
            }),
            next_journal: Mutex::default(),
            visible: AtomicU64::new(visible.0),
            durable: AtomicU64::new(found.durable.0),
            active_bytes: AtomicU64::new(active_bytes),
        }
    }

    /// Sequence of the newest write that readers see.
    #[inline]
    pub(super) fn visible(&self) -> Sequence {
        Sequence(self.visible.load(Ordering::Acquire))
    }

    /// Readers see everything up to this sequence, which the caller has put into the memtable.
    #[inline]
    pub(super) fn show(&self, last: Sequence) {
        self.visible.store(last.0, Ordering::Release);
    }

    /// Everything up to this sequence survives power loss.
    #[inline]
    pub(super) fn durable(&self) -> Sequence {
        Sequence(self.durable.load(Ordering::Acquire))
    }

    /// Everything up to this sequence is durable, in journals or segments.
    pub(super) fn note_durable(&self, last: Sequence) {
        self.durable.fetch_max(last.0, Ordering::AcqRel);
    }

    /// Memory of the active memtables.
    #[inline]
    pub(super) fn active_bytes(&self) -> u64 {
        self.active_bytes.load(Ordering::Relaxed)
    }

    /// Called by the writer when they have changed.
    #[inline]
    pub(super) fn note_active_bytes(&self, writing: &Writing) {
        let bytes = writing.actives.bytes();
        self.active_bytes.store(bytes, Ordering::Relaxed);
    }

    /// The turn of a writer.
    #[inline]
    pub(super) fn turn(&self) -> Turn<'_> {
        self.writer.lock()
    }
}

// Journals, one after the other.
impl Log {
    /// The journal with which a session begins. From now on the store counts as open for writing.
    pub(super) fn open_journal(&self, writing: &mut Writing) -> Result<journal::Writer> {
        let journal = self.services.catalog.change(|manifest| {
            self.make_recovered_durable(writing)?;
            manifest.begin()?;
            let id = manifest.allocate()?;
            let journal = self.create_journal(id, writing)?;
            manifest.mark_open(journal.id())?;
            Ok(journal)
        })?;
        self.note_durable(journal.point().last());
        Ok(journal)
    }

    /// Makes durable what an earlier session wrote and did not sync, or could not.
    fn make_recovered_durable(&self, writing: &mut Writing) -> Result<()> {
        if !writing.recovered_durable {
            journal::make_durable(&self.services.storage, &writing.recovered)?;
            writing.recovered_durable = true;
        }
        Ok(())
    }

    /// A journal that begins where the ones before it end.
    pub(super) fn create_journal(&self, id: u64, writing: &Writing) -> Result<journal::Writer> {
        let new = self.new_journal(id, writing.last_journal);
        let journal = writing.journal.as_ref();
        let start = journal.map_or(writing.point, journal::Writer::point);
        journal::Writer::create(&self.services.storage, new, start)
    }

    fn new_journal(&self, id: u64, previous: u64) -> NewJournal {
        NewJournal {
            id,
            store_id: self.services.store_id,
            previous,
            reserve: self.maps,
        }
    }

    /// The first journal of a session is written from now on. What was recovered is behind it.
    pub(super) fn begin_journal(&self, journal: journal::Writer, writing: &mut Writing) {
        writing.recovered.clear();
        writing.recovered_durable = true;
        self.next_journal.lock().current = journal.id();
        writing.last_journal = journal.id();
        writing.journal = Some(journal);
    }

    /// Ends the journal that is written with a record that names the next one. Returns that.
    pub(super) fn seal_journal(&self, writing: &mut Writing) -> Result<journal::Writer> {
        let monitor = &self.services.monitor;
        let next = self
            .take_next_journal(writing)
            .map_err(|error| monitor.poison(error))?;
        if let Some(old) = &mut writing.journal {
            old.seal(next.id()).map_err(|error| monitor.poison(error))?;
            writing.unsynced.push(Unsynced::of(old));
        }
        Ok(next)
    }

    /// The next journal is written from now on. Returns the old one, to be put away.
    pub(super) fn go_on_in(
        &self,
        next: journal::Writer,
        writing: &mut Writing,
    ) -> Option<journal::Writer> {
        writing.last_journal = next.id();
        writing.has_asked = false;
        writing.journal.replace(next)
    }

    /// The one that was made ready, or a new one.
    fn take_next_journal(&self, writing: &Writing) -> Result<journal::Writer> {
        // Held until its number is the current one, so that none is made ready before that. If one
        // is just being made, waiting is faster than making another.
        let mut next = self.next_journal.lock();
        let journal = match (next.ready.take(), &writing.journal) {
            (Some(ready), Some(old)) => ready.begin(old.point()),
            _ => {
                let id = self.services.catalog.allocate()?;
                self.create_journal(id, writing)?
            }
        };
        next.current = journal.id();
        Ok(journal)
    }

    /// Makes the next journal ready, if it is not, and puts sealed ones away.
    pub(super) fn make_journal_ready(&self, sealed: Vec<journal::Writer>) -> Result<()> {
        // Cuts them to their length.
        drop(sealed);
        let mut next = self.next_journal.lock();
        let is_poisoned = self.services.monitor.is_poisoned();
        if next.current == 0 || next.ready.is_some() || is_poisoned {
            return Ok(());
        }
        let id = self.services.catalog.allocate()?;
        let new = self.new_journal(id, next.current);
        next.ready = Some(journal::Ready::create(&self.services.storage, new)?);
        Ok(())
    }

    /// Journals before this one are not needed any more, and nobody shall hold them open. Who
    /// closes one last frees its room, which takes a while.
    pub(super) fn forget_journals_before(&self, floor: u64) {
        let mut writing = self.turn();
        let all = std::mem::take(&mut writing.unsynced);
        let (dead, unsynced) = all.into_iter().partition(|journal| journal.id < floor);
        writing.unsynced = unsynced;
        drop(writing);
        drop::<Vec<Unsynced>>(dead);
    }

    /// Everything in these journals is in segments. One that cannot be removed now is removed by
    /// the next `open`.
    pub(super) fn remove_journals_before(&self, floor: u64) {
        let storage = &self.services.storage;
        let names = match storage.list() {
            Ok(names) => names,
            Err(error) => {
                let what = format!("journals that are not needed stay for now: {error}");
                return self.services.monitor.failed(what);
            }
        };
        for name in names {
            if journal::parse_name(&name).is_some_and(|id| id < floor) {
                storage.remove(&name).ok();
            }
        }
    }

    /// At the end of a session: a journal that was made ready is not needed. If it stays, it does
    /// no harm.
    pub(super) fn forget_ready_journal(&self) {
        if let Some(ready) = self.next_journal.lock().ready.take() {
            let name = journal::file_name(ready.id());
            drop(ready);
            self.services.storage.remove(&name).ok();
        }
    }
}

// Records.
impl Log {
    /// Appends a record and hands it to the system, unless it may be buffered. Returns the sequence
    /// of its first operation.
    #[inline]
    pub(super) fn append(
        &self,
        journal: &mut journal::Writer,
        payload: Payload<'_>,
        durability: Durability,
    ) -> Result<Sequence> {
        let durable = self.durable();
        let appended = match payload {
            Payload::Encoded { bytes, count } => journal.append(count, bytes, durable),
            Payload::One(one) => journal.append_made(1, durable, |out| one.encode(out)),
        };
        appended
            .and_then(|first| match durability {
                Durability::Buffered => Ok(first),
                Durability::Process | Durability::Sync => journal.write_out().map(|()| first),
            })
            .map_err(|error| match error {
                error @ Error::Invalid(_) => error,
                error => self.services.monitor.poison(error),
            })
    }

    /// Returns when everything up to `target` survives power loss. What is taken to be durable
    /// is what was written before the sync began: see `tests/it/interleavings.rs`.
    pub(super) fn sync_to(&self, target: Sequence) -> Result<()> {
        if self.durable() >= target {
            return Ok(());
        }
        // Whoever waits here finds its write synced by the one before, in most cases.
        let turn = self.syncing.lock();
        if self.durable() >= target {
            return Ok(());
        }
        let last = self.sync_journals()?;
        self.record_durable(last)?;
        drop(turn);
        Ok(())
    }

    /// Syncs all there is, also what tells the journal that something is durable: nothing of a
    /// store that was closed may be torn. Returns the last sequence.
    pub(super) fn sync_last(&self) -> Result<Sequence> {
        let turn = self.syncing.lock();
        let last = self.sync_journals()?;
        drop(turn);
        Ok(last)
    }

    /// Called by the holder of `syncing`. A journal is synced although its last operation is
    /// durable: the next one continues the chain from the very end of it.
    fn sync_journals(&self) -> Result<Sequence> {
        let monitor = &self.services.monitor;
        monitor.check_sound()?;
        let (files, last) = self.take_unsynced()?;
        for file in &files {
            file.sync().map_err(|error| monitor.poison(error))?;
        }
        self.note_durable(last);
        Ok(last)
    }

    /// All journals that may hold unsynced records, oldest first, and the last sequence in them.
    fn take_unsynced(&self) -> Result<(Vec<Unsynced>, Sequence)> {
        let monitor = &self.services.monitor;
        let mut writing = self.turn();
        let mut files = std::mem::take(&mut writing.unsynced);
        let last = match &mut writing.journal {
            None => {
                self.make_recovered_durable(&mut writing)
                    .map_err(|error| monitor.poison(error))?;
                writing.point.last()
            }
            Some(journal) => {
                journal.write_out().map_err(|error| monitor.poison(error))?;
                files.push(Unsynced::of(journal));
                journal.point().last()
            }
        };
        Ok((files, last))
    }

    /// Records in the journal what is durable when no other record will do so at once: without it,
    /// later damage in what was just synced could pass for a torn tail.
    fn record_durable(&self, last: Sequence) -> Result<()> {
        let mut writing = self.turn();
        if let Some(journal) = &mut writing.journal
            && journal.point().last() == last
        {
            journal
                .append(0, &[], last)
                .and_then(|_| journal.write_out())
                .map_err(|error| self.services.monitor.poison(error))?;
        }
        Ok(())
    }
}
