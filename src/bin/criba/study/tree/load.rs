//! One store for one strategy and one filter: loaded in random order, run by run, each settled
//! before the next, so that the shape of the tree is the same for all filters and does not depend
//! on how fast the machine compacts.

use std::path::Path;
use std::time::{Duration, Instant};

use criba::{Create, Db, Durability, FilterResidency, Io, Strategy};

use super::keys::{KEY_BYTES, Keys};
use super::settle::settle;
use crate::choice::StudyFilter;
use crate::exit::Failure;
use crate::progress::Progress;
use crate::study::args::StudyArgs;

/// Operations in a batch of the load.
const BATCH_ENTRIES: usize = 500;

/// What a memtable charges for an entry beside its key and value.
const ENTRY_BYTES: u64 = 144;

/// Flushed runs that are merged down together when levels are leveled.
const LEVEL0_RUNS: u32 = 4;

/// Size of the first level, as the library advises.
pub(super) fn base_bytes(args: &StudyArgs) -> u64 {
    args.memtable_bytes.saturating_mul(u64::from(LEVEL0_RUNS))
}

/// Keys of a flushed run: as many as a memtable holds.
pub(super) fn run_keys(args: &StudyArgs) -> u64 {
    let entry = KEY_BYTES as u64 + args.value_bytes + ENTRY_BYTES;
    (args.memtable_bytes / entry).max(1)
}

/// A loaded store at rest.
pub(super) struct Loaded {
    pub(super) db: Db,
    /// Until it was at rest.
    pub(super) took: Duration,
}

/// # Errors
///
/// When the store fails.
pub(super) fn load(
    (strategy, filter): (Strategy, StudyFilter),
    path: &Path,
    keys: &Keys,
    args: &StudyArgs,
    progress: &mut Progress,
) -> Result<Loaded, Failure> {
    let started = Instant::now();
    let db = Db::builder(path.join("store"))
        .create(Create::Always)
        .io(Io::Pread)
        .strategy(strategy)
        .level_ratio(args.ratio)
        .level0_runs(LEVEL0_RUNS)
        .level_base_bytes(base_bytes(args))
        // It is flushed when the run has its keys, before it is full.
        .memtable_bytes(args.memtable_bytes.saturating_mul(2))
        .segment_bytes(base_bytes(args))
        .filter(filter.policy(args.bits))
        .filter_residency(FilterResidency::Pinned)
        .cache_bytes(0)
        .block_bytes(args.block_bytes)
        .entries_per_group(args.entries_per_group)
        .open()?;
    let mut value = vec![0; args.value_bytes as usize];
    let mut present = keys.present().peekable();
    while present.peek().is_some() {
        let mut left = run_keys(args);
        while left > 0 && present.peek().is_some() {
            let mut batch = db.batch();
            for key in present.by_ref().take(BATCH_ENTRIES.min(left as usize)) {
                keys.fill_value(&key, &mut value);
                batch.put(key, &value);
                progress.step();
            }
            left -= batch.len() as u64;
            batch.commit_with(Durability::Buffered)?;
        }
        db.flush()?;
        settle(&db)?;
    }
    let took = started.elapsed();
    Ok(Loaded { db, took })
}
