//! One store for one strategy: loaded in random order, run by run, each settled before the next, so
//! that the shape of the tree does not depend on how fast the machine compacts.

use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use criba::{Compaction, Db, Durability, FilterResidency, Io, Strategy};

use super::keys::{KEY_BYTES, Keys};
use super::settle::settle;
use crate::choice::StudyFilter;
use crate::exit::Failure;
use crate::progress::Progress;
use crate::study::args::StudyArgs;

/// Operations in a batch of the load.
const BATCH_ENTRIES: usize = 500;

/// What a memtable charges for an entry beside its key and value, and some more.
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

/// A store that is being loaded.
pub(super) struct Loading<'a> {
    pub(super) path: PathBuf,
    pub(super) strategy: Strategy,
    args: &'a StudyArgs,
    /// Keys that are there.
    pub(super) count: u64,
    /// The time that took, until the tree was at rest.
    pub(super) took: Duration,
}

impl<'a> Loading<'a> {
    pub(super) fn new(path: PathBuf, strategy: Strategy, args: &'a StudyArgs) -> Loading<'a> {
        Loading {
            path,
            strategy,
            args,
            count: 0,
            took: Duration::ZERO,
        }
    }

    /// Opens the store here, or a copy of it elsewhere.
    ///
    /// # Errors
    ///
    /// When the store fails.
    pub(super) fn open(
        &self,
        path: &Path,
        filter: StudyFilter,
        compaction: Compaction,
    ) -> Result<Db, Failure> {
        let args = self.args;
        let builder = Db::builder(path)
            .io(Io::Pread)
            .strategy(self.strategy)
            .compaction(compaction)
            // While one filter after another is measured over copies of it, the tree stays as it is.
            .merge_when_idle(false)
            .level_ratio(args.ratio)
            .level0_runs(LEVEL0_RUNS)
            .level_base_bytes(base_bytes(args))
            // It is flushed when the run has its keys, before it is full.
            .memtable_bytes(args.memtable_bytes.saturating_mul(2))
            .segment_bytes(base_bytes(args))
            .filter_residency(FilterResidency::Pinned)
            .cache_bytes(0)
            .block_bytes(args.block_bytes)
            .entries_per_group(args.entries_per_group);
        let db = filter.choice(args.bits).choose(builder).open()?;
        Ok(db)
    }

    /// Goes on until so many keys are there.
    ///
    /// # Errors
    ///
    /// When the store fails.
    pub(super) fn load(
        &mut self,
        until: u64,
        db: &Db,
        progress: &mut Progress,
    ) -> Result<(), Failure> {
        let started = Instant::now();
        let keys = Keys::new(until, self.args.seed);
        let mut value = vec![0; self.args.value_bytes as usize];
        let mut missing = keys.present().skip(self.count as usize).peekable();
        while missing.peek().is_some() {
            let mut left = run_keys(self.args);
            while left > 0 && missing.peek().is_some() {
                let mut batch = db.batch();
                for key in missing.by_ref().take(BATCH_ENTRIES.min(left as usize)) {
                    keys.fill_value(&key, &mut value);
                    batch.put(key, &value);
                    progress.step();
                }
                left -= batch.len() as u64;
                batch.commit_with(Durability::Buffered)?;
            }
            db.flush()?;
            settle(db)?;
        }
        self.count = until;
        self.took += started.elapsed();
        Ok(())
    }
}
