//! Opens a store: checks before anything is touched, then recovers.

use std::collections::{BTreeMap, VecDeque};
use std::io::ErrorKind;
use std::sync::atomic::{AtomicBool, AtomicI64, AtomicU64, AtomicUsize};
use std::sync::{Arc, Condvar, Mutex, OnceLock};
use std::time::Instant;

use arc_swap::ArcSwap;

use crate::arena::Spares;
use crate::error::{Error, Result};
use crate::format::batch::{self, Operations};
use crate::journal::{self, Expect, Point, Recovered};
use crate::key::Sequence;
use crate::manifest::{self, CURRENT, CURRENT_NEXT, Manifest};
use crate::memtable::Memtable;
use crate::options::{Access, Create, Options, Recovery};
use crate::origin::Origin;
use crate::segment::{self, Caches, Segment};
use crate::storage::{self, Counting, LockGuard, Storage};
use crate::version::Version;

use super::age::now_ms;
use super::compact::Compacting;
use super::insertion::Insertion;
use super::pause::WorkTimes;
use super::salvage;
use super::shared::{Counters, Flushing, Shared, View};
use super::stats::{EventKind, RecoveryReport, TornTail};
use super::threads::with_threads;
use super::write::Writing;

/// The file whose lock keeps a second process out.
pub(crate) const LOCK: &str = "LOCK";

/// The ways past damage that refuses an `open`.
const REPAIR: &str = "`criba repair` makes a new store of what is intact";
const MODES: &str = "Recovery::TolerateTail and Recovery::Salvage open the store without what is \
                     damaged, `criba repair` makes a new one of what is intact";

/// An open store and the lock that must be held as long as it is.
pub(crate) type Opened = (Arc<Shared>, Option<Box<dyn LockGuard>>);

/// Opens the store that lies in `storage`.
pub(crate) fn open(options: Options, storage: Arc<dyn Storage>) -> Result<Opened> {
    options.check()?;
    let counting = Counting::new(storage);
    let storage: Arc<dyn Storage> = Arc::new(counting.clone());
    let mut opener = Opener { options, storage };
    let guard = opener.lock_directory()?;
    let manifest = opener.load_or_create()?;
    let shared = opener.recover(manifest, counting)?;
    for segment in shared.view.load().version.segments() {
        if segment.filter_damage().is_some() {
            shared.event(EventKind::DamagedFilter {
                segment: segment.meta.id,
            });
        }
    }
    Ok((with_threads(shared), guard))
}

struct Opener {
    options: Options,
    storage: Arc<dyn Storage>,
}

impl Opener {
    fn path(&self) -> std::path::PathBuf {
        self.storage.path_of("")
    }

    fn not_a_store(&self, what: &str) -> Error {
        Error::NotAStore {
            path: self.path(),
            what: what.into(),
        }
    }

    fn list(&self) -> Result<Vec<String>> {
        self.storage
            .list()
            .map_err(|error| Error::io(self.path(), error))
    }

    /// Refuses what is no place for a store, then takes the lock.
    fn lock_directory(&mut self) -> Result<Option<Box<dyn LockGuard>>> {
        let names = match self.storage.list() {
            Ok(names) => names,
            Err(error) if error.kind() == ErrorKind::NotFound => {
                if self.options.create == Create::Never || self.is_read_only() {
                    return Err(self.not_a_store("there is no such directory; check the path"));
                }
                self.storage
                    .create_dir()
                    .map_err(|error| Error::io(self.path(), error))?;
                Vec::new()
            }
            Err(error) if error.kind() == ErrorKind::NotADirectory => {
                return Err(self.not_a_store("a file, not a directory; check the path"));
            }
            Err(error) => return Err(Error::io(self.path(), error)),
        };
        self.check_names(&names)?;
        if !self.is_read_only() {
            self.storage
                .check_room()
                .map_err(|error| Error::io(self.path(), error))?;
        }
        let locked = if self.is_read_only() {
            self.storage.lock_shared(LOCK)
        } else {
            self.storage.lock(LOCK).map(Some)
        };
        match locked {
            Ok(guard) => Ok(guard),
            Err(error) if error.kind() == ErrorKind::WouldBlock => Err(Error::Locked {
                path: self.storage.path_of(LOCK),
            }),
            Err(error) => Err(Error::io(self.storage.path_of(LOCK), error)),
        }
    }

    fn is_read_only(&self) -> bool {
        self.options.access == Access::ReadOnly
    }

    /// Whether these names are those of a store, or of a place where one may be made.
    fn check_names(&self, names: &[String]) -> Result<()> {
        if names.iter().any(|name| name == CURRENT) {
            if self.options.create == Create::Always {
                return Err(self.not_a_store("holds a store already; choose another directory"));
            }
            return Ok(());
        }
        let live = |name: &String| {
            segment::parse_name(name).is_some()
                || segment::parse_filter_name(name).is_some()
                || journal::parse_name(name).is_some()
        };
        if names.iter().any(live) {
            return Err(Error::Missing {
                path: self.storage.path_of(CURRENT),
            });
        }
        if self.options.create == Create::Never || self.is_read_only() {
            return Err(self.not_a_store("no store is here; check the path, or create one"));
        }
        match manifest::leftovers_of_create(names, LOCK) {
            Some(_) => Ok(()),
            None => Err(self.not_a_store(
                "holds files, but no store; choose a directory that is empty or not there yet",
            )),
        }
    }

    fn load_or_create(&self) -> Result<Manifest> {
        let names = self.list()?;
        // Again, now that nobody else can change it.
        self.check_names(&names)?;
        if names.iter().any(|name| name == CURRENT) {
            return Manifest::load(&self.storage)
                .map_err(|error| salvage::with_ways_out(error, REPAIR));
        }
        for name in manifest::leftovers_of_create(&names, LOCK).unwrap_or_default() {
            let removed = self.storage.remove(&name);
            removed.map_err(|error| Error::io(self.storage.path_of(&name), error))?;
        }
        let mut random = [0; 24];
        self.storage
            .fill_random(&mut random)
            .map_err(|error| Error::io(self.path(), error))?;
        let (store_id, hash_seed) = random.split_at(16);
        let mut id = [0; 16];
        id.copy_from_slice(store_id);
        let mut seed = [0; 8];
        seed.copy_from_slice(hash_seed);
        Manifest::create(
            &self.storage,
            u128::from_le_bytes(id),
            u64::from_le_bytes(seed),
        )
    }

    fn recover(&self, mut manifest: Manifest, counting: Counting) -> Result<Shared> {
        let blame = |error| manifest.blame(error);
        let version = self.open_segments(&manifest).map_err(blame)?;
        let names = Names::sort(&self.list()?, &manifest);
        let Replayed {
            table,
            recovered,
            batches,
            ids,
            salvaged,
        } = self.replay(&manifest, &names).map_err(blame)?;
        let mut report = RecoveryReport {
            clean: manifest.current().clean_at.is_some(),
            batches,
            operations: recovered.operations,
            torn: recovered.torn.iter().map(torn_tail).collect(),
            lost: salvaged.iter().flat_map(|one| one.losses.clone()).collect(),
            quarantined: Vec::new(),
            unknown_files: names.unknown,
            removed_files: Vec::new(),
        };
        manifest.skip_files_to(names.highest);
        manifest.keep_clear_of(names.strays);
        let settles = !self.is_read_only() && salvaged.is_some();
        if !self.is_read_only() && !settles && !names.dead.is_empty() {
            manifest.make_durable()?;
            for name in &names.dead {
                match self.storage.remove(name) {
                    // Of a manifest that was being made durable, it is gone already.
                    Err(error) if error.kind() != ErrorKind::NotFound => {
                        return Err(Error::io(self.storage.path_of(name), error));
                    }
                    _ => report.removed_files.push(name.clone()),
                }
            }
        }
        let last = recovered.point.last();
        let durable = if report.clean {
            last
        } else {
            recovered.watermark.min(last)
        };
        let active = Arc::new(table);
        let writing = Writing {
            active: Arc::clone(&active),
            journal: None,
            point: recovered.point,
            last_journal: recovered.last.unwrap_or(0),
            recovered: ids,
            recovered_durable: report.clean,
            unsynced: Vec::new(),
            has_asked: false,
        };
        let view = View {
            active,
            sealed: Vec::new(),
            version: Arc::new(version),
        };
        let mut shared = self.share((manifest, writing, view), counting, (last, durable, report));
        if let Some(salvaged) = salvaged.filter(|_| settles) {
            shared.recovery.quarantined = shared.settle(&salvaged.damaged, &names.dead)?;
        }
        Ok(shared)
    }

    fn share(
        &self,
        (manifest, writing, view): (Manifest, Writing, View),
        counting: Counting,
        (last, durable, recovery): (Sequence, Sequence, RecoveryReport),
    ) -> Shared {
        let caches = Caches::new(self.options.cache_bytes, self.options.residency);
        let counters = Counters::after(manifest.state().work);
        Shared {
            origin: Origin::here(),
            options: self.options.clone(),
            storage: Arc::clone(&self.storage),
            counting,
            caches: Arc::new(caches),
            store_id: manifest.store_id(),
            hash_seed: manifest.hash_seed(),
            sealed_count: AtomicUsize::new(view.sealed.len()),
            view: ArcSwap::from_pointee(view),
            visible: AtomicU64::new(last.0),
            durable: AtomicU64::new(durable.0),
            gaps: Arc::default(),
            syncing: Mutex::new(()),
            writer: Mutex::new(writing),
            manifest: Mutex::new(manifest),
            installing: Mutex::new(()),
            snapshots: Mutex::new(BTreeMap::new()),
            next_journal: Mutex::default(),
            spares: Arc::new(Spares::of_bytes(self.options.memtable_bytes)),
            flushing: Mutex::new(Flushing::default()),
            flush_work: Condvar::new(),
            flush_done: Condvar::new(),
            flush_ns_per_kib: AtomicU64::new(0),
            work_times: WorkTimes::since(now_ms(&*self.storage)),
            compacting: Mutex::new(Compacting::default()),
            compact_work: Condvar::new(),
            compact_done: Condvar::new(),
            threads: Mutex::default(),
            compact_ns_per_kib: AtomicU64::new(0),
            owed_ns: AtomicI64::new(0),
            debt_bytes: AtomicU64::new(0),
            no_caches: Arc::new(Caches::none()),
            poison: OnceLock::new(),
            closed: AtomicBool::new(false),
            counters,
            events: Mutex::new(VecDeque::new()),
            started: Instant::now(),
            recovery,
        }
    }

    fn open_segments(&self, manifest: &Manifest) -> Result<Version> {
        let mut segments = Vec::new();
        for meta in manifest.state().segments.values() {
            let loading = self.options.filter_loading();
            let segment =
                Segment::open(&self.storage, manifest.store_id(), meta.clone(), &loading)?;
            let traffic = manifest.state().traffic.get(&meta.id);
            segment.count_from(&traffic.copied().unwrap_or_default(), 0);
            segments.push(Arc::new(segment));
        }
        let version = Version::new(segments);
        match version.unsound() {
            None => Ok(version),
            Some(what) => {
                let name = manifest::file_name(manifest.current().manifest);
                Err(Error::corrupt(&self.storage.path_of(&name), 0, what))
            }
        }
    }

    /// Reads the journals into a memtable.
    fn replay(&self, manifest: &Manifest, names: &Names) -> Result<Replayed> {
        let floor = manifest.state().floor;
        let current = manifest.current();
        let first_needed = floor.map_or(0, |floor| floor.id);
        let ids: Vec<u64> = names
            .journals
            .iter()
            .copied()
            .filter(|id| *id >= first_needed)
            .collect();
        let required = Some(current.journal).filter(|id| *id > 0 && *id >= first_needed);
        let required: Vec<u64> = required.into_iter().collect();
        let expect = Expect {
            store_id: manifest.store_id(),
            floor: floor.map(|floor| {
                (
                    floor.id,
                    Point {
                        next: floor.next,
                        chain: floor.chain,
                    },
                )
            }),
            required: &required,
            clean_at: current.clean_at,
            durable: floor.map_or(Sequence(0), |floor| Sequence(floor.next.0 - 1)),
        };
        match self.replay_strictly(manifest, &ids, &expect) {
            Err(error) => {
                let source = (&self.storage, current.manifest);
                let error = salvage::blame_cut(error, (&names.dead, &names.journals), source);
                if !salvage::is_passable(&error, manifest) {
                    return Err(salvage::with_ways_out(error, REPAIR));
                }
                if self.options.recovery == Recovery::Strict {
                    return Err(salvage::with_ways_out(error, MODES));
                }
                self.replay_leniently(manifest, ids, &expect)
            }
            replayed => replayed,
        }
    }

    fn replay_strictly(
        &self,
        manifest: &Manifest,
        ids: &[u64],
        expect: &Expect<'_>,
    ) -> Result<Replayed> {
        let table = Memtable::new(self.options.memtable_bytes);
        let mut batches = 0;
        let mut apply = self.apply_to(&table, &mut batches, manifest.hash_seed());
        let recovered = journal::recover(&self.storage, ids, expect, &mut apply)?;
        drop(apply);
        Ok(Replayed {
            table,
            recovered,
            batches,
            ids: ids.to_vec(),
            salvaged: None,
        })
    }

    fn replay_leniently(
        &self,
        manifest: &Manifest,
        ids: Vec<u64>,
        expect: &Expect<'_>,
    ) -> Result<Replayed> {
        let table = Memtable::new(self.options.memtable_bytes);
        let mut batches = 0;
        let mut apply = self.apply_to(&table, &mut batches, manifest.hash_seed());
        let how = (self.options.recovery, expect);
        let (recovered, salvaged) = salvage::replay(&self.storage, &ids, how, &mut apply)?;
        drop(apply);
        Ok(Replayed {
            table,
            recovered,
            batches,
            ids,
            salvaged: Some(salvaged),
        })
    }

    /// Inserts the operations of a record, all or none.
    fn apply_to<'a>(
        &'a self,
        table: &'a Memtable,
        batches: &'a mut u64,
        hash_seed: u64,
    ) -> impl FnMut(u64, Sequence, u32, &[u8]) -> Result<()> + 'a {
        move |id, first, count, payload| {
            let what = match batch::count(payload) {
                Ok(decoded) if decoded == count => {
                    *batches += 1;
                    let operations = (first, Operations::of(payload));
                    return Insertion::begin(table, hash_seed, operations)
                        .finish(None)
                        .map(drop);
                }
                Ok(decoded) => format!("{decoded} operations where {count} are stated"),
                Err(malformed) => malformed.to_string(),
            };
            let path = self.storage.path_of(&journal::file_name(id));
            Err(Error::corrupt(&path, 0, format!("record {first}: {what}")))
        }
    }
}

/// What the journals held.
struct Replayed {
    table: Memtable,
    recovered: Recovered,
    batches: u64,
    /// The journals that were read.
    ids: Vec<u64>,
    /// What was given up, if anything that no crash explains.
    salvaged: Option<journal::Salvaged>,
}

fn torn_tail(torn: &journal::Torn) -> TornTail {
    TornTail {
        path: torn.path.clone(),
        offset: torn.offset,
        dropped_bytes: torn.dropped_bytes,
    }
}

/// The files of the directory, by what they are to this store.
#[derive(Default)]
struct Names {
    journals: Vec<u64>,
    /// Ours and not needed any more.
    dead: Vec<String>,
    unknown: Vec<String>,
    /// Those of them whose names are like ours, with numbers that were never given.
    strays: BTreeMap<u64, Vec<String>>,
    /// The highest number that any file of ours has.
    highest: u64,
}

impl Names {
    fn sort(names: &[String], manifest: &Manifest) -> Names {
        let mut sorted = Names::default();
        let live = manifest.current().manifest;
        // The manifest before the live one is kept.
        let previous = names
            .iter()
            .filter_map(|name| manifest::parse_name(name))
            .filter(|id| *id < live)
            .max()
            .unwrap_or(live);
        let floor = manifest.state().floor.map_or(0, |floor| floor.id);
        for name in names {
            let (id, is_live) = if let Some(id) = segment::parse_name(name) {
                (id, manifest.state().segments.contains_key(&id))
            } else if let Some(id) = journal::parse_name(name) {
                (id, id >= floor)
            } else if let Some(id) = segment::parse_filter_name(name) {
                let mut segments = manifest.state().segments.values();
                (id, segments.any(|segment| segment.filter_file == id))
            } else if let Some(id) = manifest::parse_name(name) {
                (id, id == live || id == previous)
            } else {
                match name.as_str() {
                    LOCK | CURRENT => {}
                    CURRENT_NEXT => sorted.dead.push(name.clone()),
                    _ if is_being_rewritten(name, manifest) => sorted.dead.push(name.clone()),
                    _ => sorted.unknown.push(name.clone()),
                }
                continue;
            };
            if !manifest.knows_file(id) {
                sorted.unknown.push(name.clone());
                sorted.strays.entry(id).or_default().push(name.clone());
                continue;
            }
            sorted.highest = sorted.highest.max(id);
            if !is_live {
                sorted.dead.push(name.clone());
            } else if let Some(id) = journal::parse_name(name) {
                sorted.journals.push(id);
            }
        }
        sorted.journals.sort_unstable();
        sorted
    }
}

/// Whether this is what a crash has left of a journal or manifest that was made durable.
fn is_being_rewritten(name: &str, manifest: &Manifest) -> bool {
    let number = |name: &str| journal::parse_name(name).or_else(|| manifest::parse_name(name));
    let replaced = name.strip_suffix(storage::NEXT);
    let replaced = replaced.map(|name| name.strip_suffix(storage::DAMAGED).unwrap_or(name));
    let replaced = replaced.and_then(number);
    replaced.is_some_and(|id| manifest.knows_file(id))
}
