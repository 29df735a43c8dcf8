//! What must hold of every state that a crash leaves.

use std::collections::{BTreeMap, HashSet};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, Mutex};

use criba::sim::{CrashState, Memory};
use criba::storage::{RESERVE_MIN, Storage as _};
use criba::{Access, Db, Durability, FilterResidency};
use xxhash_rust::xxh3::xxh3_64;

use super::lives::Plot;
use super::workload::{DropDue, Model, Operations, PASSING, Promise, builder, write};

/// All that a life may leave, and what of it was seen.
pub(crate) struct Judge {
    /// Batch `n`.
    pub(crate) batches: Vec<Operations>,
    /// By the number of batches that a FIFO has dropped, then by that of batches written.
    models: BTreeMap<usize, Vec<Model>>,
    pub(crate) spread: bool,
    /// Stores as they were after check and close: one that is the same need not be read again.
    after: Mutex<HashSet<u64>>,
}

/// What a state may hold.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub(crate) struct Expected {
    pub(crate) least: usize,
    pub(crate) most: usize,
    /// What of that survives power loss.
    pub(crate) synced: usize,
    /// Dropped are so many batches, or so many.
    pub(crate) dropped: (usize, usize),
}

/// How a state is looked at: what all must pass would cost too much of each.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Way {
    /// Filters are read by pages, not kept in memory.
    pub(crate) is_paged: bool,
    /// What was recovered is flushed, and not only left in journals.
    pub(crate) flushes: bool,
    /// It is looked at once more, with the zeros that a reserve leaves at the end of journals.
    pub(crate) reserves: bool,
}

impl Way {
    fn of(fingerprint: u64) -> Way {
        Way {
            is_paged: fingerprint.is_multiple_of(2),
            flushes: (fingerprint >> 1).is_multiple_of(4),
            reserves: (fingerprint >> 4).is_multiple_of(2),
        }
    }
}

impl Expected {
    pub(crate) fn of(promise: Promise, is_power_loss: bool) -> Expected {
        Expected {
            least: if is_power_loss {
                promise.synced
            } else {
                promise.processed
            },
            most: promise.attempted,
            synced: promise.synced,
            dropped: (promise.dropped, promise.dropping),
        }
    }
}

/// Gives the journals the zeros that they have at their end while they are written to a map, as
/// power loss may leave them or not.
fn reserve(image: &Memory) {
    let names = image.list().unwrap_or_default();
    for name in names.iter().filter(|name| name.ends_with(".journal")) {
        let mut bytes = image.bytes_of(name).unwrap_or_default();
        // Nothing is reserved before the header is durable.
        let is_born = bytes.get(..80).is_some_and(|header| header != [0; 80]);
        if is_born {
            bytes.resize(bytes.len() + RESERVE_MIN, 0);
            image.replace(name, bytes);
        }
    }
}

impl Judge {
    pub(crate) fn of(plot: &Plot) -> Judge {
        let drops = plot.steps.iter().filter_map(|step| match step {
            DropDue(batches) => Some(*batches),
            _ => None,
        });
        let count = plot.steps.len() + 4;
        let all = |dropped| (0..=count).map(|n| plot.load.state(dropped, n)).collect();
        let models = std::iter::once(0).chain(drops);
        Judge {
            batches: (0..=count).map(|n| plot.load.operations(n)).collect(),
            models: models.map(|dropped| (dropped, all(dropped))).collect(),
            spread: plot.load.spread,
            after: Mutex::default(),
        }
    }

    /// Opens the image, reads, writes, closes and reads again. The batch up to which it had
    /// everything, or what is wrong.
    pub(crate) fn check(&self, state: &CrashState, expected: Expected) -> Result<usize, String> {
        self.try_judge(&state.image(), state, expected)
    }

    /// The same of some of the states, with the zeros that a reserve leaves at the end of journals.
    /// It may well have one batch more: a record that is cut off may be whole with them.
    pub(crate) fn check_reserved(
        &self,
        state: &CrashState,
        expected: Expected,
    ) -> Result<(), String> {
        // After a kill the state says itself whether there is a reserve.
        if !state.is_power_loss() || !Way::of(state.fingerprint()).reserves {
            return Ok(());
        }
        let image = state.image();
        reserve(&image);
        self.try_judge(&image, state, expected).map(drop)
    }

    fn try_judge(
        &self,
        image: &Memory,
        state: &CrashState,
        expected: Expected,
    ) -> Result<usize, String> {
        let way = Way::of(state.fingerprint());
        let checked = catch_unwind(AssertUnwindSafe(|| self.judge(image, expected, way)));
        let checked = checked.unwrap_or_else(|panic| Err(format!("panic: {}", message(&*panic))));
        checked.map_err(|what| format!("{what}; {}", state.describe()))
    }

    /// The same of an image. It is closed then, one batch later.
    pub(crate) fn judge(
        &self,
        image: &Memory,
        expected: Expected,
        way: Way,
    ) -> Result<usize, String> {
        let mut opener = builder(Arc::new(image.clone()));
        if way.is_paged {
            opener = opener.filter_residency(FilterResidency::Cached { bytes: 1 << 14 });
        }
        let db = opener.open().map_err(told("open"))?;
        let (dropped, n) = self.find(&read(&db)?, expected)?;
        let batch = &self.batches[n + 1];
        check_passing(&db, n)?;
        write(&db, batch, Durability::Sync, self.spread).map_err(told("write"))?;
        if way.flushes {
            db.flush().map_err(told("flush"))?;
        }
        db.close().map_err(told("close"))?;
        if self.after.lock().unwrap().insert(content(image)) {
            let expected = &self.models[&dropped][n + 1];
            self.judge_closed(image, expected, way)?;
        }
        Ok(n)
    }

    fn judge_closed(&self, image: &Memory, expected: &Model, way: Way) -> Result<(), String> {
        let db = builder(Arc::new(image.clone()))
            .access(Access::ReadOnly)
            .open()
            .map_err(told("open again"))?;
        if read(&db)? != *expected {
            return Err("not what it was, after a write".to_owned());
        }
        if !db.stats().recovery.clean {
            return Err("not clean after close".to_owned());
        }
        let mut live = Vec::new();
        for name in db.keyspaces() {
            let stats = db.keyspace(&name).map_err(told("keyspace"))?.stats();
            let filters = stats.segments().filter_map(|one| one.filter.as_ref());
            if let Some(damage) = filters.filter_map(|one| one.damage.as_ref()).next() {
                return Err(format!("a filter is damaged: {damage}"));
            }
            live.extend(stats.segments().map(|one| format!("{:06}", one.file)));
        }
        check_files(image, &live, way)
    }

    /// How many batches were dropped and written.
    pub(crate) fn find(&self, found: &Model, expected: Expected) -> Result<(usize, usize), String> {
        let stamp = found.get(&b"left"[..]);
        let stamp =
            stamp.map(|stamp| usize::from_le_bytes(stamp[..].try_into().unwrap_or_default()));
        for dropped in [expected.dropped.0, expected.dropped.1] {
            let n = stamp.unwrap_or(dropped);
            let is_promised = (expected.least..=expected.most).contains(&n);
            if is_promised && self.models[&dropped].get(n) == Some(found) {
                return Ok((dropped, n));
            }
        }
        let keys: Vec<_> = found.keys().map(|key| key.escape_ascii()).collect();
        let keys: Vec<_> = keys.into_iter().map(|key| key.to_string()).collect();
        Err(format!("not as {expected:?}: state {stamp:?}, {keys:?}"))
    }
}

fn message(panic: &(dyn std::any::Any + Send)) -> String {
    let text = panic.downcast_ref::<&str>().map(|text| (*text).to_owned());
    let text = text.or_else(|| panic.downcast_ref::<String>().cloned());
    text.unwrap_or_default()
}

pub(crate) fn told(what: &str) -> impl Fn(criba::Error) -> String {
    move |error| {
        let cause = std::error::Error::source(&error);
        format!(
            "{what}: {error}, {}",
            cause.map_or_else(String::new, ToString::to_string)
        )
    }
}

/// All keys, wherever they are.
pub(crate) fn read(db: &Db) -> Result<Model, String> {
    let mut all = Model::new();
    for name in db.keyspaces().iter().filter(|name| *name != PASSING) {
        let keyspace = db.keyspace(name).map_err(told("keyspace"))?;
        let mut found = Model::new();
        for entry in keyspace.iter() {
            let (key, value) = entry.map_err(told("scan"))?;
            found.insert(key.to_vec(), value.to_vec());
        }
        for (key, value) in &found {
            let got = keyspace.get(key).map_err(told("get"))?;
            if got.as_deref() != Some(&value[..]) {
                return Err(format!("get and scan differ at {}", key.escape_ascii()));
            }
        }
        if keyspace.get("nothing").map_err(told("get"))?.is_some() {
            return Err("something where nothing is".to_owned());
        }
        all.extend(found);
    }
    Ok(all)
}

/// Of a store with `n` batches: the keyspace that comes and goes has no part of a later one.
fn check_passing(db: &Db, n: usize) -> Result<(), String> {
    if !db.keyspaces().iter().any(|name| name == PASSING) {
        return Ok(());
    }
    let passing = db.keyspace(PASSING).map_err(told("keyspace"))?;
    let made_by = passing.get("made by").map_err(told("get"))?;
    let number = |bytes: &[u8]| usize::from_le_bytes(bytes.try_into().unwrap_or_default());
    match made_by.map(|bytes| number(&bytes)) {
        Some(made_by) if made_by > n => Err(format!("a part of batch {made_by} without the rest")),
        _ => Ok(()),
    }
}

/// The same for stores with the same files.
fn content(image: &Memory) -> u64 {
    let mut all = Vec::new();
    for name in image.list().unwrap() {
        let bytes = image.bytes_of(&name).unwrap();
        all.extend_from_slice(name.as_bytes());
        all.extend_from_slice(&(bytes.len() as u64).to_le_bytes());
        all.extend_from_slice(&bytes);
    }
    xxh3_64(&all)
}

/// Live segments with their filters, two manifests, `CURRENT` and `LOCK`, and the journals that
/// are not flushed: nothing else.
fn check_files(image: &Memory, live: &[String], way: Way) -> Result<(), String> {
    let names = image.list().map_err(|error| error.to_string())?;
    let mut manifests = 0;
    let mut journals = 0;
    let mut filters = 0;
    for name in &names {
        let is_known = match name.split_once('.') {
            Some((stem, "seg")) => live.iter().any(|id| id == stem),
            Some((_, "filter")) => {
                filters += 1;
                filters <= live.len()
            }
            Some((_, "journal")) => {
                journals += 1;
                journals <= 1 || !way.flushes
            }
            None if name.starts_with("MANIFEST-") => {
                manifests += 1;
                manifests <= 2
            }
            _ => name == "CURRENT" || name == "LOCK",
        };
        if !is_known {
            return Err(format!("{name} is left over: {names:?}"));
        }
    }
    Ok(())
}
