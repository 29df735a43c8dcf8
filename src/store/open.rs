//! Opens a store: checks before anything is touched, then recovers.

use std::collections::BTreeMap;
use std::io::ErrorKind;
use std::sync::Arc;

use crate::error::{Error, Result};
use crate::journal::{self, Expect, Point, Recovered};
use crate::key::{KeyspaceId, Sequence};
use crate::manifest::{self, CURRENT, KeyspaceMeta, Manifest};
use crate::memtable::Memtable;
use crate::options::{Access, Create, Options, Recovery};
use crate::segment::{self, Caches, Segment, SegmentFiles};
use crate::services::{Catalog, EventKind, Monitor, Pace, PastThings, Services, Snapshots};
use crate::storage::{Counting, LockGuard, Storage};
use crate::tree::{RecoveredTables, Tree, View};
use crate::version::Version;

use super::actives::Actives;
use super::commit::capacity;
use super::directory::{LOCK, Names};
use super::log::{Log, RecoveredLog};
use super::report::{RecoveryReport, TornTail};
use super::salvage::{self, Settled};
use super::state::{Parts, Store};
use super::trees::Trees;

/// The ways past damage that refuses an `open`.
const REPAIR: &str = "`criba repair` makes a new store of what is intact";
const MODES: &str = "Recovery::TolerateTail and Recovery::Salvage open the store without what is \
                     damaged, `criba repair` makes a new one of what is intact";

/// An open store and the lock that must be held as long as it is.
pub(super) type Opened = (Arc<Store>, Option<Box<dyn LockGuard>>);

/// Opens the store that lies in `storage`.
pub(super) fn open(options: Options, storage: Arc<dyn Storage>) -> Result<Opened> {
    options.check()?;
    let counting = Counting::new(storage);
    let storage: Arc<dyn Storage> = Arc::new(counting.clone());
    let mut opener = Opener { options, storage };
    let guard = opener.lock_directory()?;
    let manifest = opener.load_or_create()?;
    let store = opener.recover(manifest, counting)?;
    for tree in store.trees().list() {
        for segment in tree.version().segments() {
            if segment.filter_damage().is_some() {
                store.monitor().event(EventKind::DamagedFilter {
                    segment: segment.meta.id,
                });
            }
        }
    }
    Ok((store, guard))
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

    fn recover(&self, mut manifest: Manifest, counting: Counting) -> Result<Arc<Store>> {
        let blame = |error| manifest.blame(error);
        let versions = self.open_segments(&manifest).map_err(blame)?;
        let names = Names::sort(&self.list()?, &manifest);
        let dead = names.dead.clone();
        let Replayed {
            tables,
            recovered,
            ids,
            salvaged,
        } = self.replay(&manifest, &names).map_err(blame)?;
        let mut report = RecoveryReport {
            clean: manifest.current().clean_at.is_some(),
            batches: tables.batches,
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
        let names = manifest.state().keyspaces().clone();
        let services = self.services(manifest);
        let (trees, actives) = self.trees(&services, names, versions, tables)?;
        let found = RecoveredLog {
            actives,
            point: recovered.point,
            last_journal: recovered.last.unwrap_or(0),
            journals: ids,
            are_durable: report.clean,
            durable,
        };
        let log = Log::new(&services, self.options.map_journal, found);
        if let Some(salvaged) = salvaged.filter(|_| settles) {
            let settled = Settled {
                services: &services,
                log: &log,
            };
            report.quarantined = settled.settle(&salvaged.damaged, &dead)?;
        }
        Ok(Store::new(Parts {
            options: self.options.clone(),
            counting,
            services,
            log,
            trees,
            recovery: report,
        }))
    }

    /// A tree for each keyspace, with what journals hold of it as its active memtable.
    fn trees(
        &self,
        services: &Arc<Services>,
        names: BTreeMap<KeyspaceId, KeyspaceMeta>,
        mut versions: BTreeMap<KeyspaceId, Version>,
        mut tables: RecoveredTables,
    ) -> Result<(Trees, Actives)> {
        let defaults = Arc::new(self.options.tree.clone());
        let (mut actives, mut all) = (Actives::default(), BTreeMap::new());
        for (id, KeyspaceMeta { name, operator }) in names {
            let active = tables.tables.remove(&id).map(Arc::new);
            let version = Arc::new(versions.remove(&id).unwrap_or_default());
            let shown = active.clone().unwrap_or_else(Memtable::none);
            let view = View::new(shown, Vec::new(), version);
            let tree = Arc::new(Tree::new(services, (id, &name), &defaults, view));
            tree.note_operator(&operator);
            actives.add(&tree, active);
            all.insert(id, tree);
        }
        let default = all.remove(&KeyspaceId::DEFAULT).ok_or_else(|| Error::Bug {
            what: "a store without the default keyspace".into(),
        })?;
        default.check_operator(&defaults)?;
        default.open(None);
        Ok((Trees::new(default, all.into_values()), actives))
    }

    fn services(&self, manifest: Manifest) -> Arc<Services> {
        let caches = Caches::new(self.options.cache_bytes, self.options.residency);
        let work = manifest.state().work;
        let monitor = Arc::new(Monitor::new(self.options.access, work));
        Arc::new(Services {
            storage: Arc::clone(&self.storage),
            store_id: manifest.store_id(),
            hash_seed: manifest.hash_seed(),
            caches: Arc::new(caches),
            no_caches: Arc::new(Caches::none()),
            catalog: Catalog::new(manifest, &monitor),
            snapshots: Snapshots::default(),
            loading: self.options.filter_loading(),
            compaction_rate: self.options.compaction_rate,
            flush_pace: Pace::default(),
            merge_pace: Pace::default(),
            past_things: PastThings::default(),
            monitor,
        })
    }

    fn open_segments(&self, manifest: &Manifest) -> Result<BTreeMap<KeyspaceId, Version>> {
        let mut segments: BTreeMap<KeyspaceId, Vec<Arc<Segment>>> = BTreeMap::new();
        let loading = self.options.filter_loading();
        let mut files = SegmentFiles::of(&self.storage);
        for meta in manifest.state().segments.values() {
            let file = files.of_segment(meta)?;
            let segment = Segment::open(&file, manifest.store_id(), meta.clone(), &loading)?;
            let traffic = manifest.state().traffic.get(&meta.id);
            segment.count_from(&traffic.copied().unwrap_or_default(), 0);
            let keyspace = segments.entry(meta.keyspace).or_default();
            keyspace.push(Arc::new(segment));
        }
        let mut versions = BTreeMap::new();
        for (keyspace, segments) in segments {
            let version = Version::new(segments);
            if let Some(what) = version.unsound() {
                let name = manifest::file_name(manifest.current().manifest);
                return Err(Error::corrupt(&self.storage.path_of(&name), 0, what));
            }
            versions.insert(keyspace, version);
        }
        Ok(versions)
    }

    /// Reads the journals into memtables.
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
                let error = salvage::blame_cut(error, names, &self.storage, current.manifest);
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

    fn no_tables(&self, manifest: &Manifest) -> RecoveredTables {
        let state = manifest.state();
        let keyspaces = state.keyspaces().len() as u64;
        let bytes = capacity(self.options.memtable_bytes, keyspaces);
        RecoveredTables::of(state, bytes, &self.options.tree.operator)
    }

    fn replay_strictly(
        &self,
        manifest: &Manifest,
        ids: &[u64],
        expect: &Expect<'_>,
    ) -> Result<Replayed> {
        let mut tables = self.no_tables(manifest);
        let hash_seed = manifest.hash_seed();
        let mut apply = |id, first, count, payload: &[u8]| {
            let applied = tables.apply((first, count), payload, hash_seed);
            applied.map_err(|what| self.malformed(id, first, &what))
        };
        let recovered = journal::recover(&self.storage, ids, expect, &mut apply)?;
        Ok(Replayed {
            tables,
            recovered,
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
        let mut tables = self.no_tables(manifest);
        let hash_seed = manifest.hash_seed();
        let mut apply = |id, first, count, payload: &[u8]| {
            let applied = tables.apply((first, count), payload, hash_seed);
            applied.map_err(|what| self.malformed(id, first, &what))
        };
        let mode = self.options.recovery;
        let (recovered, salvaged) = salvage::replay(&self.storage, &ids, mode, expect, &mut apply)?;
        Ok(Replayed {
            tables,
            recovered,
            ids,
            salvaged: Some(salvaged),
        })
    }

    fn malformed(&self, journal: u64, first: Sequence, what: &str) -> Error {
        let path = self.storage.path_of(&journal::file_name(journal));
        Error::corrupt(&path, 0, format!("record {first}: {what}"))
    }
}

/// What the journals held.
struct Replayed {
    tables: RecoveredTables,
    recovered: Recovered,
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
