//! What a store lends to its trees: storage and caches, file numbers and edits of the manifest,
//! the sequences of snapshots, and a monitor to which they report.

mod catalog;
mod events;
mod monitor;
mod pace;
mod snapshots;

pub(crate) use catalog::Catalog;
pub use events::{Event, EventKind};
pub(crate) use monitor::{Monitor, Tally, Wake, nanos};
pub(crate) use pace::Pace;
pub(crate) use snapshots::{Reader, Snapshots};

use std::any::Any;
use std::sync::Arc;
use std::time::UNIX_EPOCH;

use crate::options::FilterLoading;
use crate::remains::Remains;
use crate::segment::Caches;
use crate::storage::Storage;

/// Where trees put aside what takes long to drop.
pub(crate) type PastThings = Remains<Box<dyn Any + Send>>;

/// What a store lends to its trees.
#[derive(Debug)]
pub(crate) struct Services {
    pub(crate) storage: Arc<dyn Storage>,
    pub(crate) store_id: u128,
    pub(crate) hash_seed: u64,
    pub(crate) caches: Arc<Caches>,
    /// Caches that hold nothing: merges must not push out what readers use.
    pub(crate) no_caches: Arc<Caches>,
    /// How the filters of segments are opened.
    pub(crate) loading: FilterLoading,
    /// Bytes that a merge writes in a second at most.
    pub(crate) compaction_rate: Option<u64>,
    pub(crate) catalog: Catalog,
    pub(crate) snapshots: Snapshots,
    /// How long flushes and merges take, whatever the tree.
    pub(crate) flush_pace: Pace,
    pub(crate) merge_pace: Pace,
    pub(crate) past_things: PastThings,
    pub(crate) monitor: Arc<Monitor>,
}

impl Services {
    /// Milliseconds since 1970, if that is known.
    pub(crate) fn now_ms(&self) -> Option<u64> {
        let since = self.storage.now()?.duration_since(UNIX_EPOCH).ok()?;
        u64::try_from(since.as_millis()).ok().filter(|ms| *ms > 0)
    }
}
