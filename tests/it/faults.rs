//! A storage that fails, and crashes, at every single call.
//!
//! Bugs that were found this way are named tests at the end of the file.

use std::collections::BTreeMap;
use std::fmt;
use std::io::{self, ErrorKind, Write as _};
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Condvar, Mutex, RwLock, mpsc};
use std::time::Duration;

use criba::sim::{Memory, Survivors};
use criba::storage::{AppendFile, LockGuard, ReadFile, Storage, SyncFile};
use criba::{Access, Db, Durability, Error, EventKind};

/// A call that changes something.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Call {
    CreateDir,
    Create,
    Append,
    Rename,
    Remove,
    SyncDir,
    Sync,
}

/// Is asked before each changing call, and once more in the middle of each append.
pub(crate) type Hook = dyn Fn(Call, &str) -> io::Result<()> + Send + Sync;

/// A [`Memory`] whose changing calls can be counted, refused, blocked, or followed by a crash.
#[derive(Clone)]
pub(crate) struct Rig {
    pub(crate) memory: Memory,
    hook: Arc<RwLock<Arc<Hook>>>,
    handles: Arc<()>,
}

impl fmt::Debug for Rig {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Rig").finish_non_exhaustive()
    }
}

impl Rig {
    pub(crate) fn new(memory: Memory) -> Rig {
        Rig {
            memory,
            hook: Arc::new(RwLock::new(Arc::new(|_, _| Ok(())))),
            handles: Arc::new(()),
        }
    }

    pub(crate) fn set(&self, hook: impl Fn(Call, &str) -> io::Result<()> + Send + Sync + 'static) {
        *self.hook.write().unwrap() = Arc::new(hook);
    }

    pub(crate) fn heal(&self) {
        self.set(|_, _| Ok(()));
    }

    /// Files that are open for appending or syncing.
    pub(crate) fn open_handles(&self) -> usize {
        Arc::strong_count(&self.handles) - 1
    }

    fn call(&self, call: Call, name: &str) -> io::Result<()> {
        let hook = Arc::clone(&self.hook.read().unwrap());
        hook(call, name)
    }
}

impl Storage for Rig {
    fn path_of(&self, name: &str) -> PathBuf {
        self.memory.path_of(name)
    }

    fn create_dir(&self) -> io::Result<()> {
        self.call(Call::CreateDir, "")?;
        self.memory.create_dir()
    }

    fn list(&self) -> io::Result<Vec<String>> {
        self.memory.list()
    }

    fn open(&self, name: &str) -> io::Result<Arc<dyn ReadFile>> {
        self.memory.open(name)
    }

    fn create(&self, name: &str) -> io::Result<Box<dyn AppendFile>> {
        self.call(Call::Create, name)?;
        let inner = self.memory.create(name)?;
        let syncer = Arc::new(RigSync {
            inner: inner.syncer(),
            name: name.to_owned(),
            rig: Rig {
                memory: self.memory.clone(),
                hook: Arc::clone(&self.hook),
                handles: Arc::clone(&self.handles),
            },
        });
        Ok(Box::new(RigAppend { inner, syncer }))
    }

    fn rename(&self, from: &str, to: &str) -> io::Result<()> {
        self.call(Call::Rename, from)?;
        self.memory.rename(from, to)
    }

    fn remove(&self, name: &str) -> io::Result<()> {
        self.call(Call::Remove, name)?;
        self.memory.remove(name)
    }

    fn sync_dir(&self) -> io::Result<()> {
        self.call(Call::SyncDir, "")?;
        self.memory.sync_dir()
    }

    fn lock(&self, name: &str) -> io::Result<Box<dyn LockGuard>> {
        self.memory.lock(name)
    }

    fn boot_id(&self) -> Option<u128> {
        self.memory.boot_id()
    }

    fn now(&self) -> Option<std::time::SystemTime> {
        self.memory.now()
    }
}

#[derive(Debug)]
struct RigAppend {
    inner: Box<dyn AppendFile>,
    syncer: Arc<RigSync>,
}

impl AppendFile for RigAppend {
    fn append(&mut self, parts: &[&[u8]]) -> io::Result<()> {
        self.syncer.rig.call(Call::Append, &self.syncer.name)?;
        let bytes = parts.concat();
        let (first, second) = bytes.split_at(bytes.len() / 2);
        self.inner.append(&[first])?;
        self.syncer.rig.call(Call::Append, &self.syncer.name)?;
        self.inner.append(&[second])
    }

    fn sync(&self) -> io::Result<()> {
        self.syncer.sync()
    }

    fn syncer(&self) -> Arc<dyn SyncFile> {
        Arc::<RigSync>::clone(&self.syncer)
    }
}

#[derive(Debug)]
struct RigSync {
    inner: Arc<dyn SyncFile>,
    name: String,
    rig: Rig,
}

impl SyncFile for RigSync {
    fn sync(&self) -> io::Result<()> {
        self.rig.call(Call::Sync, &self.name)?;
        self.inner.sync()
    }
}

/// A door in a hook: calls wait in front of it until it is opened.
#[derive(Clone, Debug, Default)]
pub(crate) struct Gate {
    state: Arc<(Mutex<GateState>, Condvar)>,
}

#[derive(Debug, Default)]
struct GateState {
    is_open: bool,
    visitors: usize,
}

impl Gate {
    pub(crate) fn closed() -> Gate {
        Gate::default()
    }

    pub(crate) fn pass(&self) {
        let (state, changed) = &*self.state;
        let mut state = state.lock().unwrap();
        state.visitors += 1;
        changed.notify_all();
        drop(changed.wait_while(state, |state| !state.is_open).unwrap());
    }

    /// Returns when a call has come to the door.
    pub(crate) fn wait_for_visitor(&self) {
        let (state, changed) = &*self.state;
        let state = state.lock().unwrap();
        drop(
            changed
                .wait_while(state, |state| state.visitors == 0)
                .unwrap(),
        );
    }

    /// Calls wait again, and visitors are counted anew.
    pub(crate) fn close(&self) {
        *self.state.0.lock().unwrap() = GateState::default();
    }

    pub(crate) fn open(&self) {
        let (state, changed) = &*self.state;
        state.lock().unwrap().is_open = true;
        changed.notify_all();
    }
}

/// Tells a line of counts, past the capture of what tests print.
pub(crate) fn tell(line: &str) {
    let line = format!("{line}\n");
    io::stderr().write_all(line.as_bytes()).unwrap();
}

/// Fails the test instead of letting it hang.
pub(crate) fn within<T: Send + 'static>(
    limit: Duration,
    what: impl Into<String>,
    work: impl FnOnce() -> T + Send + 'static,
) -> T {
    let (done, waiting) = mpsc::channel();
    let thread = std::thread::spawn(move || {
        let result = work();
        // The receiver is gone only when the test has failed already.
        done.send(()).ok();
        result
    });
    match waiting.recv_timeout(limit) {
        Err(mpsc::RecvTimeoutError::Timeout) => panic!("{} hangs", what.into()),
        _ => thread
            .join()
            .unwrap_or_else(|panic| std::panic::resume_unwind(panic)),
    }
}

const LIMIT: Duration = Duration::from_secs(60);

type Model = BTreeMap<Vec<u8>, Vec<u8>>;

pub(crate) fn open(storage: &(impl Storage + Clone)) -> criba::Result<Db> {
    Db::builder("faults")
        .compaction(criba::Compaction::Manual)
        .storage(Arc::new(storage.clone()))
        .memtable_bytes(64 << 10)
        .block_bytes(512)
        .open()
}

fn read_all(db: &Db) -> Model {
    let all: Model = db
        .iter()
        .map(|entry| entry.unwrap())
        .map(|(key, value)| (key.to_vec(), value.to_vec()))
        .collect();
    let mut backwards: Vec<_> = db.iter().rev().map(|entry| entry.unwrap().0).collect();
    backwards.reverse();
    assert!(
        backwards
            .iter()
            .map(|key| key.to_vec())
            .eq(all.keys().cloned())
    );
    for (key, value) in &all {
        assert_eq!(db.get(key).unwrap().unwrap(), value);
    }
    all
}

/// What a run of the workload has promised so far. Batch `n` leaves state `n`.
#[derive(Clone, Copy, Debug, Default)]
struct Promise {
    /// Batches that may be there.
    attempted: usize,
    /// Batches that survive a kill.
    processed: usize,
    /// Batches that survive power loss.
    synced: usize,
}

/// A store's life: batches, flushes, rotations by size, close, reopen.
#[derive(Default)]
struct Life {
    promise: Mutex<Promise>,
}

/// Batch `n`: two keys that are always equal, a key of its own, sometimes a delete, sometimes a
/// value that fills the memtable.
fn operations(n: usize) -> Vec<(Vec<u8>, Option<Vec<u8>>)> {
    let stamp = n.to_le_bytes().to_vec();
    let mut all = vec![
        (b"left".to_vec(), Some(stamp.clone())),
        (b"right".to_vec(), Some(stamp.clone())),
        (format!("own{n:03}").into_bytes(), Some(stamp)),
    ];
    if n >= 2 {
        all.push((format!("own{:03}", n - 2).into_bytes(), None));
    }
    if n % 4 == 3 {
        all.push((b"big".to_vec(), Some(vec![n as u8; 70_000])));
    }
    all
}

/// The state after `count` batches.
fn state(count: usize) -> Model {
    let mut model = Model::new();
    for n in 1..=count {
        for (key, value) in operations(n) {
            match value {
                Some(value) => model.insert(key, value),
                None => model.remove(&key),
            };
        }
    }
    model
}

impl Life {
    fn promise(&self) -> Promise {
        *self.promise.lock().unwrap()
    }

    fn write(&self, db: &Db, durability: Durability) -> criba::Result<()> {
        let n = {
            let mut promise = self.promise.lock().unwrap();
            promise.attempted += 1;
            promise.attempted
        };
        let mut batch = db.batch();
        for (key, value) in operations(n) {
            match value {
                Some(value) => batch.put(key, value),
                None => batch.delete(key),
            };
        }
        batch.commit_with(durability)?;
        let mut promise = self.promise.lock().unwrap();
        match durability {
            Durability::Buffered => {}
            Durability::Process => promise.processed = n,
            Durability::Sync => (promise.processed, promise.synced) = (n, n),
            other => unreachable!("{other:?}"),
        }
        Ok(())
    }

    fn synced(&self) {
        let mut promise = self.promise.lock().unwrap();
        promise.processed = promise.attempted;
        promise.synced = promise.attempted;
    }

    /// One session; stops at the first error, as a caller would.
    fn session(&self, storage: &Rig) -> criba::Result<()> {
        let db = open(storage)?;
        let worked = self.work(&db);
        match worked {
            Ok(()) => db.close().map(|()| self.synced()),
            Err(error) => {
                self.after_failure(&db, &error);
                Err(error)
            }
        }
    }

    fn work(&self, db: &Db) -> criba::Result<()> {
        self.write(db, Durability::Process)?;
        self.write(db, Durability::Sync)?;
        self.write(db, Durability::Process)?;
        db.flush()?;
        self.synced();
        self.write(db, Durability::Process)?;
        self.write(db, Durability::Buffered)?;
        db.sync()?;
        self.synced();
        self.write(db, Durability::Buffered)?;
        self.write(db, Durability::Sync)
    }

    /// Reads go on after any failure, and when the store is poisoned writes are refused.
    fn after_failure(&self, db: &Db, error: &Error) {
        let found = read_all(db);
        let promise = self.promise();
        let states = promise.processed..=promise.attempted;
        assert!(
            states.clone().any(|n| state(n) == found),
            "after {error}: not one of the states {states:?}"
        );
        if let Error::Poisoned { .. } = error {
            assert!(matches!(db.put("k", "v"), Err(Error::Poisoned { .. })));
            assert!(matches!(db.flush(), Err(Error::Poisoned { .. })));
            assert!(matches!(db.sync(), Err(Error::Poisoned { .. })));
        }
    }
}

/// Opens an image and checks it against what was promised; then it must work as any store does,
/// and hold no file that is not needed.
fn check_image(image: &Memory, least: usize, most: usize, what: &str) {
    let db = open(image).unwrap_or_else(|error| panic!("{what}: {error}: {}", cause(&error)));
    let found = read_all(&db);
    assert!(
        (least..=most).any(|n| state(n) == found),
        "{what}: not one of the states {least} to {most}: {:?}",
        found
            .keys()
            .map(|key| key.escape_ascii().to_string())
            .collect::<Vec<_>>()
    );
    assert_eq!(db.stats().recovery.unknown_files, [""; 0], "{what}");
    db.put("after", "wards").unwrap();
    db.flush().unwrap();
    db.close().unwrap();
    let db = open(image).unwrap_or_else(|error| panic!("{what}, again: {error}"));
    assert!(db.stats().recovery.clean);
    let mut again = read_all(&db);
    assert_eq!(again.remove(&b"after"[..]).unwrap(), b"wards");
    assert_eq!(again, found, "{what}");
    assert_eq!(db.stats().recovery.unknown_files, [""; 0], "{what}");
    check_files(image, &db, what);
}

fn cause(error: &Error) -> String {
    std::error::Error::source(error)
        .map(ToString::to_string)
        .unwrap_or_default()
}

/// Live segments, one journal, two manifests, `CURRENT` and `LOCK`: nothing else.
fn check_files(image: &Memory, db: &Db, what: &str) {
    let names = image.list().unwrap();
    let count = |suffix: &str| names.iter().filter(|name| name.ends_with(suffix)).count();
    let segments: Vec<String> = {
        let stats = db.stats();
        let mut all: Vec<_> = stats
            .segments()
            .map(|s| format!("{:06}.seg", s.id))
            .collect();
        all.sort_unstable();
        all
    };
    let kept: Vec<_> = names
        .iter()
        .filter(|name| name.ends_with(".seg"))
        .cloned()
        .collect();
    assert_eq!(kept, segments, "{what}");
    let manifests = names
        .iter()
        .filter(|name| name.starts_with("MANIFEST-"))
        .count();
    assert!(manifests <= 2, "{what}: {names:?}");
    let others = names
        .iter()
        .filter(|name| ["CURRENT", "LOCK"].contains(&name.as_str()))
        .count();
    assert_eq!(
        count(".seg") + count(".journal") + manifests + others,
        names.len(),
        "{what}: {names:?}"
    );
    assert!(count(".journal") <= 1, "{what}: {names:?}");
}

/// Every image that a crash can leave during some sessions, with what was promised by then.
type Images = Arc<Mutex<Vec<(Memory, Survivors, Promise, String)>>>;

const SURVIVORS: [Survivors; 3] = [Survivors::Everything, Survivors::Synced, Survivors::Ordered];

/// Runs sessions on a store and collects an image before each changing call.
fn images_of(memory: &Memory, life: &Arc<Life>, sessions: usize) -> Images {
    let rig = Rig::new(memory.clone());
    let images = collect(&rig, life, "");
    for _ in 0..sessions {
        life.session(&rig).unwrap();
    }
    rig.heal();
    images
}

/// From now on an image is taken before each changing call.
fn collect(rig: &Rig, life: &Arc<Life>, story: &str) -> Images {
    let images = Images::default();
    let (taken, life, story) = (Arc::clone(&images), Arc::clone(life), story.to_owned());
    let memory = rig.memory.clone();
    rig.set(move |call, name| {
        // The promise first: what is promised between the two is not asked of the image.
        let promise = life.promise();
        for survivors in SURVIVORS {
            let image = memory.crash(survivors);
            let what = format!("{story}{survivors:?} before {call:?} {name}");
            // What is attempted by now may be in the image.
            let most = Promise {
                attempted: life.promise().attempted,
                ..promise
            };
            taken.lock().unwrap().push((image, survivors, most, what));
        }
        Ok(())
    });
    images
}

fn check_images(images: &Images) -> usize {
    let images = std::mem::take(&mut *images.lock().unwrap());
    for (image, survivors, promise, what) in &images {
        let least = match survivors {
            Survivors::Everything => promise.processed,
            _ => promise.synced,
        };
        check_image(image, least, promise.attempted, what);
    }
    images.len()
}

#[test]
fn a_crash_at_every_call_loses_nothing_that_was_promised() {
    within(LIMIT, "crash at every call", || {
        let life = Arc::<Life>::default();
        let images = images_of(&Memory::new(), &life, 3);
        let checked = check_images(&images);
        assert!(checked > 300, "{checked} images");
    });
}

/// Recovery, and the session after it, crash too.
#[test]
fn a_crash_within_recovery_loses_nothing_either() {
    within(LIMIT, "crash within recovery", || {
        let life = Arc::<Life>::default();
        let images = images_of(&Memory::new(), &life, 1);
        let images = std::mem::take(&mut *images.lock().unwrap());
        // A sample that walks through all three kinds.
        for (image, survivors, promise, what) in images.into_iter().step_by(10) {
            let recovered = read_all(&open(&image.crash(Survivors::Everything)).unwrap());
            let count = (0..=promise.attempted).find(|n| state(*n) == recovered);
            let count = count.unwrap_or_else(|| panic!("{what}: no state"));
            // What a kill left unsynced, a later power cut may take.
            let synced = match survivors {
                Survivors::Everything => promise.synced,
                _ => count,
            };
            let second = Arc::new(Life {
                promise: Mutex::new(Promise {
                    attempted: count,
                    processed: count,
                    synced,
                }),
            });
            let rig = Rig::new(image.clone());
            let images = collect(&rig, &second, &format!("{what}, then "));
            let db = open(&rig).unwrap();
            second.write(&db, Durability::Process).unwrap();
            second.write(&db, Durability::Sync).unwrap();
            let recovered = read_all(&db);
            db.close().unwrap();
            second.synced();
            rig.heal();
            check_images(&images);
            // A clean close makes durable what was recovered.
            let after = open(&image.crash(Survivors::Synced)).unwrap();
            assert_eq!(read_all(&after), recovered);
        }
    });
}

/// Calls fail from the n-th on, or only the n-th: no panic, no hang, nothing acknowledged lost.
fn fail_everywhere(kind: ErrorKind, once: bool) {
    for n in 1.. {
        let memory = Memory::new();
        let rig = Rig::new(memory.clone());
        let calls = Arc::new(AtomicU64::new(0));
        let failed = Arc::new(AtomicBool::new(false));
        {
            let (calls, failed) = (Arc::clone(&calls), Arc::clone(&failed));
            rig.set(move |_, _| {
                let call = calls.fetch_add(1, Ordering::SeqCst) + 1;
                if call == n || (call > n && !once) {
                    failed.store(true, Ordering::SeqCst);
                    return Err(kind.into());
                }
                Ok(())
            });
        }
        let life = Life::default();
        let mut result = life.session(&rig);
        if result.is_ok() {
            result = life.session(&rig);
        }
        let what = format!("{kind:?} at call {n}, once: {once}, gave {result:?}");
        let promise = life.promise();
        // The failure lasts: whoever opens now is refused or finds everything.
        if let Ok(db) = open(&rig) {
            let found = read_all(&db);
            let mut states = promise.processed..=promise.attempted;
            assert!(states.any(|n| state(n) == found), "{what}");
        }
        rig.heal();
        let image = memory.crash(Survivors::Synced);
        check_image(&image, promise.synced, promise.attempted, &what);
        let image = memory.crash(Survivors::Everything);
        check_image(&image, promise.processed, promise.attempted, &what);
        if !failed.load(Ordering::SeqCst) {
            assert!(result.is_ok() && n > 100, "{what}");
            break;
        }
    }
}

#[test]
fn a_failure_at_every_call_loses_nothing_that_was_acknowledged() {
    within(LIMIT, "failing for good", || {
        fail_everywhere(ErrorKind::Other, false)
    });
    within(LIMIT, "a full disk", || {
        fail_everywhere(ErrorKind::StorageFull, false)
    });
}

#[test]
fn a_single_failure_at_every_call_loses_nothing_that_was_acknowledged() {
    within(LIMIT, "failing once", || {
        fail_everywhere(ErrorKind::Other, true)
    });
}

/// The same with the fault of [`Memory`] itself, whose failing appends leave their first half.
#[test]
fn half_written_files_are_survived() {
    within(LIMIT, "half-written files", || {
        for n in 1..200 {
            let memory = Memory::new();
            let life = Life::default();
            memory.fail_after(n, ErrorKind::StorageFull);
            let result = life.session(&Rig::new(memory.clone()));
            let promise = life.promise();
            for (survivors, least) in [
                (Survivors::Everything, promise.processed),
                (Survivors::Synced, promise.synced),
            ] {
                let what = format!("{survivors:?} after call {n} failed: {result:?}");
                check_image(&memory.crash(survivors), least, promise.attempted, &what);
            }
        }
    });
}

/// A disk that is full for whatever is appended to segments, or to all files.
fn full_disk(rig: &Rig, only: &'static str) {
    rig.set(move |call, name| match call {
        Call::Append if name.ends_with(only) => Err(ErrorKind::StorageFull.into()),
        _ => Ok(()),
    });
}

fn segments_in(memory: &Memory) -> usize {
    let names = memory.list().unwrap();
    names.iter().filter(|name| name.ends_with(".seg")).count()
}

#[test]
fn a_full_disk_stops_a_flush_until_there_is_room() {
    within(LIMIT, "a full disk", || {
        let memory = Memory::new();
        let rig = Rig::new(memory.clone());
        let db = open(&rig).unwrap();
        db.put("k", "v").unwrap();
        full_disk(&rig, ".seg");
        let error = db.flush().unwrap_err();
        assert!(error.is_disk_full(), "{error}");
        assert_eq!(segments_in(&memory), 0, "what was written of it is removed");
        assert_eq!(db.get("k").unwrap().unwrap(), "v");
        // Writers go on until memory is used up, and are then told instead of waiting.
        let mut written = 0_u64;
        let error = loop {
            match db.put(format!("{written}"), vec![0; 10_000]) {
                Ok(()) => written += 1,
                Err(error) => break error,
            }
        };
        assert!(
            matches!(error, Error::Stalled { .. }) && error.is_disk_full(),
            "{error}"
        );
        let memtable = db.stats().memtable;
        assert!(memtable.active_bytes + memtable.sealed_bytes < 4 * (64 << 10) + 50_000);
        assert!(db.stats().stalls.stopped > 0);
        assert!(matches!(db.flush(), Err(error) if error.is_disk_full()));
        assert_eq!(segments_in(&memory), 0);
        rig.heal();
        db.flush().unwrap();
        db.put("after", "wards").unwrap();
        for n in 0..written {
            assert_eq!(db.get(format!("{n}")).unwrap().unwrap().len(), 10_000);
        }
        db.close().unwrap();
        let db = open(&memory).unwrap();
        assert_eq!(db.iter().count() as u64, written + 2);
        check_files(&memory, &db, "after a full disk");
    });
}

#[test]
fn a_failed_sync_of_the_journal_poisons_and_reads_go_on() {
    let memory = Memory::new();
    let rig = Rig::new(memory.clone());
    let db = open(&rig).unwrap();
    db.put_with("safe", "v", Durability::Sync).unwrap();
    rig.set(|call, name| match call {
        Call::Sync if name.ends_with(".journal") => Err(ErrorKind::Other.into()),
        _ => Ok(()),
    });
    let error = db.put_with("k", "v", Durability::Sync).unwrap_err();
    assert!(matches!(error, Error::Poisoned { .. }), "{error}");
    rig.heal();
    // The device has recovered; what it dropped is not known, so nothing is tried again.
    let syncs = db.stats().syncs;
    assert!(matches!(db.put("k", "v"), Err(Error::Poisoned { .. })));
    assert!(matches!(db.sync(), Err(Error::Poisoned { .. })));
    assert!(matches!(db.clone().close(), Err(Error::Poisoned { .. })));
    assert_eq!(db.stats().syncs, syncs);
    let failed = |event: &criba::Event| matches!(event.what, EventKind::Failed { .. });
    assert!(db.stats().events.iter().any(failed));
    let after = open(&memory.crash(Survivors::Synced)).unwrap();
    assert_eq!(after.get("safe").unwrap().unwrap(), "v");
    assert!(!after.stats().recovery.clean);
    drop(db);
    open(&memory).unwrap();
}

/// Bug: `sync` with nothing written in this session synced nothing and said it had.
#[test]
fn sync_after_a_kill_makes_durable_what_was_recovered() {
    let memory = Memory::new();
    let db = open(&memory).unwrap();
    db.put("k", "v").unwrap();
    let killed = memory.crash(Survivors::Everything);
    let db = open(&killed).unwrap();
    db.sync().unwrap();
    let after = open(&killed.crash(Survivors::Synced)).unwrap();
    assert_eq!(after.get("k").unwrap().unwrap(), "v");

    let killed = memory.crash(Survivors::Everything);
    open(&killed).unwrap().close().unwrap();
    let after = open(&killed.crash(Survivors::Synced)).unwrap();
    assert_eq!(
        after.get("k").unwrap().unwrap(),
        "v",
        "close is a sync as well"
    );

    // A reader changes nothing.
    let killed = memory.crash(Survivors::Everything);
    let reader = Db::builder("faults")
        .compaction(criba::Compaction::Manual)
        .storage(Arc::new(killed.clone()))
        .access(Access::ReadOnly)
        .open()
        .unwrap();
    reader.close().unwrap();
    assert_eq!(killed.mutations(), 0);
}

/// Bug: the watermark written after the last sync was itself not synced before the store was
/// marked as closed, so that a power cut that tore it made the store unreadable.
#[test]
fn after_close_nothing_is_left_to_sync() {
    for last in [Durability::Buffered, Durability::Process, Durability::Sync] {
        let memory = Memory::new();
        let db = open(&memory).unwrap();
        db.put_with("a", "1", Durability::Sync).unwrap();
        db.put_with("b", "2", last).unwrap();
        db.close().unwrap();
        let synced = memory.crash(Survivors::Synced);
        assert_eq!(synced.list().unwrap(), memory.list().unwrap());
        for name in memory.list().unwrap() {
            assert_eq!(
                synced.bytes_of(&name),
                memory.bytes_of(&name),
                "{name} after {last:?}"
            );
        }
    }
}

/// Bug: each sealed journal stayed open, and so on the disk, until somebody called `sync`.
#[test]
fn journals_that_were_flushed_are_let_go() {
    let rig = Rig::new(Memory::new());
    let db = open(&rig).unwrap();
    for n in 0..40_u32 {
        db.put(n.to_le_bytes(), "v").unwrap();
        db.flush().unwrap();
    }
    // The manifest, the journal, and the one before it.
    assert!(rig.open_handles() <= 6, "{} handles", rig.open_handles());
}

/// Bug: a flush went on to append to a manifest whose last append had failed, and removed
/// journals that only the lost edit made superfluous.
#[test]
fn nothing_is_appended_to_a_manifest_that_failed() {
    within(LIMIT, "a failed manifest", || {
        // Numbers are reserved in the manifest now and then; some rounds meet that.
        let hits = (20..32)
            .filter(|flushes| fail_an_edit_during_a_flush(*flushes))
            .count();
        assert!(hits > 0);
    });
}

/// While a segment is written, a writer needs more file numbers for new memtables and its edit
/// fails, once. Returns whether it came to that.
fn fail_an_edit_during_a_flush(flushes: u32) -> bool {
    let memory = Memory::new();
    let rig = Rig::new(memory.clone());
    let db = open(&rig).unwrap();
    for n in 0..flushes {
        db.put("warm", n.to_le_bytes()).unwrap();
        db.flush().unwrap();
    }
    db.put("k", "v").unwrap();
    let gate = Gate::closed();
    let armed = Arc::new(AtomicBool::new(false));
    {
        let (armed, gate) = (Arc::clone(&armed), gate.clone());
        rig.set(move |call, name| {
            if call == Call::Sync && name.ends_with(".seg") {
                gate.pass();
            }
            let is_edit = call == Call::Append && name.starts_with("MANIFEST");
            if is_edit && armed.swap(false, Ordering::SeqCst) {
                return Err(ErrorKind::Other.into());
            }
            Ok(())
        });
    }
    let flusher = {
        let db = db.clone();
        std::thread::spawn(move || db.flush())
    };
    gate.wait_for_visitor();
    armed.store(true, Ordering::SeqCst);
    let written: criba::Result<()> =
        (0..3_u32).try_for_each(|n| db.put(n.to_le_bytes(), vec![1; 70_000]));
    let hit = !armed.swap(false, Ordering::SeqCst);
    assert_eq!(matches!(written, Err(Error::Poisoned { .. })), hit);
    gate.open();
    assert_eq!(flusher.join().unwrap().is_err(), hit);
    drop(db);
    rig.heal();
    let db = open(&memory).unwrap_or_else(|error| panic!("after {flushes} flushes: {error}"));
    assert_eq!(db.get("k").unwrap().unwrap(), "v");
    hit
}

/// Bug: the journal before was not synced when its last write was durable already, but the next
/// one continues from its very end: a power cut lost acknowledged syncs.
#[test]
fn a_sync_covers_the_end_of_the_journal_before() {
    within(LIMIT, "a sync over two journals", || {
        let memory = Memory::new();
        let rig = Rig::new(memory.clone());
        let db = open(&rig).unwrap();
        let gate = Gate::closed();
        {
            let gate = gate.clone();
            rig.set(move |call, name| {
                if call == Call::Create && name.ends_with(".seg") {
                    gate.pass();
                }
                Ok(())
            });
        }
        db.put_with("a", "1", Durability::Sync).unwrap();
        let flusher = {
            let db = db.clone();
            std::thread::spawn(move || db.flush())
        };
        gate.wait_for_visitor();
        db.put_with("b", "2", Durability::Sync).unwrap();
        for survivors in SURVIVORS {
            let after = open(&memory.crash(survivors)).unwrap();
            assert_eq!(after.get("a").unwrap().unwrap(), "1", "{survivors:?}");
            assert_eq!(after.get("b").unwrap().unwrap(), "2", "{survivors:?}");
        }
        gate.open();
        flusher.join().unwrap().unwrap();
    });
}

/// Bug: each attempt of a flush took new file numbers, which the manifest must reserve; with the
/// disk still full that failed after a minute and the store was poisoned.
#[test]
fn a_disk_that_stays_full_does_not_poison_the_store() {
    within(LIMIT, "a disk that stays full", || {
        let memory = Memory::new();
        let rig = Rig::new(memory.clone());
        let db = open(&rig).unwrap();
        db.put("k", "v").unwrap();
        // The new journal of the first flush needs room; from then on there is none.
        full_disk(&rig, ".seg");
        db.flush().unwrap_err();
        full_disk(&rig, "");
        for attempt in 0..200 {
            let error = db.flush().unwrap_err();
            assert!(
                !matches!(error, Error::Poisoned { .. }) && error.is_disk_full(),
                "attempt {attempt}: {error}"
            );
        }
        rig.heal();
        db.flush().unwrap();
        db.close().unwrap();
        let db = open(&memory).unwrap();
        assert_eq!(db.get("k").unwrap().unwrap(), "v");
        check_files(&memory, &db, "after a disk that was full for long");
    });
}

/// Bug: each `flush` sealed one more memtable, however many were waiting.
#[test]
fn failing_flushes_do_not_pile_up_memtables() {
    within(LIMIT, "failing flushes", || {
        let memory = Memory::new();
        let rig = Rig::new(memory.clone());
        let db = open(&rig).unwrap();
        full_disk(&rig, ".seg");
        for n in 0..50_u32 {
            db.put(n.to_le_bytes(), "v").unwrap();
            assert!(db.flush().unwrap_err().is_disk_full());
        }
        let sealed = db.stats().memtable.sealed_count;
        assert!(sealed <= 3, "{sealed} memtables wait");
        rig.heal();
        db.flush().unwrap();
        assert_eq!(
            db.stats().memtable.sealed_count + db.stats().memtable.active_entries,
            0
        );
        assert_eq!(db.iter().count(), 50);
    });
}

/// Sessions that fail at their start use up file numbers; they must not use them up for good.
#[test]
fn many_sessions_that_fail_at_once_do_no_harm() {
    let memory = Memory::new();
    let rig = Rig::new(memory.clone());
    let db = open(&rig).unwrap();
    db.put("k", "v").unwrap();
    db.close().unwrap();
    for n in 0..100 {
        rig.heal();
        let db = open(&rig).unwrap();
        full_disk(&rig, if n % 2 == 0 { "" } else { ".journal" });
        let error = db.put("k", "w").unwrap_err();
        assert!(error.is_disk_full(), "session {n}: {error}");
        assert_eq!(db.get("k").unwrap().unwrap(), "v");
    }
    rig.heal();
    let db = open(&rig).unwrap();
    db.put("k", "w").unwrap();
    db.flush().unwrap();
    db.close().unwrap();
    let db = open(&memory).unwrap();
    assert_eq!(db.get("k").unwrap().unwrap(), "w");
    assert_eq!(db.stats().recovery.unknown_files, [""; 0]);
    check_files(&memory, &db, "after many failed sessions");
}

/// Bug: `open` removed journals because of an edit that a killed process had written to the
/// manifest and not synced; a power cut then took the edit back.
#[test]
fn open_removes_nothing_because_of_an_edit_that_may_be_lost() {
    let memory = Memory::new();
    let rig = Rig::new(memory.clone());
    let db = open(&rig).unwrap();
    db.put_with("k", "v", Durability::Sync).unwrap();
    rig.set(|call, name| match call {
        Call::Sync if name.starts_with("MANIFEST") => Err(ErrorKind::Other.into()),
        _ => Ok(()),
    });
    assert!(matches!(db.flush(), Err(Error::Poisoned { .. })));
    let killed = memory.crash(Survivors::Everything);
    let db = open(&killed).unwrap();
    assert!(!db.stats().recovery.removed_files.is_empty());
    db.sync().unwrap();
    killed.sync_dir().unwrap();
    for survivors in SURVIVORS {
        let after = open(&killed.crash(survivors)).unwrap();
        assert_eq!(after.get("k").unwrap().unwrap(), "v", "{survivors:?}");
    }
}

/// Keys of 64 KiB stand in the manifest too: it grows until it is replaced within the session.
#[test]
fn a_manifest_that_has_grown_is_replaced_at_no_risk() {
    within(LIMIT, "a grown manifest", || {
        let memory = Memory::new();
        let rig = Rig::new(memory.clone());
        let db = open(&rig).unwrap();
        let written = Arc::new(AtomicU64::new(0));
        let images: Arc<Mutex<Vec<(Memory, u64)>>> = Arc::default();
        {
            let (images, written, memory) =
                (Arc::clone(&images), Arc::clone(&written), memory.clone());
            rig.set(move |_, name| {
                // Only around the replacement: the images are large.
                if ["CURRENT.next", ""].contains(&name) || name.starts_with("MANIFEST") {
                    let least = written.load(Ordering::SeqCst);
                    for survivors in SURVIVORS {
                        let image = (memory.crash(survivors), least);
                        let mut images = images.lock().unwrap();
                        if images.len() == 60 {
                            images.remove(0);
                        }
                        images.push(image);
                    }
                }
                Ok(())
            });
        }
        let live = || {
            let names = memory.list().unwrap();
            names
                .into_iter()
                .rfind(|name| name.starts_with("MANIFEST-"))
        };
        let first = live();
        let mut n = 0_u64;
        while live() == first {
            assert!(n < 100, "the manifest grows without end");
            let mut key = vec![b'k'; 65_535];
            key[..8].copy_from_slice(&n.to_le_bytes());
            db.put_with(&key, "v", Durability::Sync).unwrap();
            written.store(n + 1, Ordering::SeqCst);
            db.flush().unwrap();
            n += 1;
        }
        db.put("after", "wards").unwrap();
        db.flush().unwrap();
        rig.heal();
        drop(db);
        for (image, least) in std::mem::take(&mut *images.lock().unwrap()) {
            let found = open(&image).unwrap().iter().count() as u64;
            assert!(found >= least, "{found} of {least}");
        }
        let db = open(&memory).unwrap();
        assert_eq!(db.iter().count() as u64, n + 1);
        check_files(&memory, &db, "after a replacement");
    });
}

/// Bug: a process was killed while it created a store, the next one began a session, and power
/// failed: two manifests without `CURRENT` were left, which no process took for its own.
#[test]
fn power_loss_after_an_unfinished_create_leaves_room_for_a_store() {
    let rig = Rig::new(Memory::new());
    let memory = rig.memory.clone();
    rig.set(move |call, _| match call {
        // Everything but the last sync of the directory.
        Call::SyncDir if memory.bytes_of("CURRENT").is_some() => Err(ErrorKind::Other.into()),
        _ => Ok(()),
    });
    open(&rig).unwrap_err();
    let killed = rig.memory.crash(Survivors::Everything);
    killed.record();
    let db = open(&killed).unwrap();
    db.put("k", "v").unwrap();
    db.close().unwrap();
    let history = killed.history().unwrap();
    let mut bare = 0;
    for calls in 0..=history.len() {
        for state in history.states(calls, &criba::sim::Bounds::default()) {
            let image = state.image();
            let names = image.list().unwrap();
            bare += usize::from(names.contains(&"MANIFEST-000002".to_owned()) && names.len() == 3);
            let db = open(&image).unwrap_or_else(|error| panic!("{names:?}: {error}"));
            db.put_with("k", "w", Durability::Sync).unwrap();
        }
    }
    assert!(bare > 0, "the state that was refused is among them");
}

/// Bug: a journal whose sync had failed was recovered after a kill and synced, and that was believed:
/// power loss then took what the first sync had dropped.
#[test]
fn a_sync_that_failed_is_not_made_good_by_another() {
    let memory = Memory::new();
    let db = open(&memory).unwrap();
    db.put("k", "v").unwrap();
    memory.fail_once(1, ErrorKind::Other);
    assert!(matches!(db.sync(), Err(Error::Poisoned { .. })));
    for closes in [false, true] {
        let killed = memory.crash(Survivors::Everything);
        let db = open(&killed).unwrap();
        if closes {
            db.close().unwrap();
        } else {
            db.sync().unwrap();
        }
        for survivors in SURVIVORS {
            let after = open(&killed.crash(survivors)).unwrap();
            assert_eq!(after.get("k").unwrap().unwrap(), "v", "{survivors:?}");
        }
    }
}
