//! One store: the keys are flushed run by run, and compaction comes to rest after each.

use std::path::Path;

use criba::{Compaction, Create, Db, Durability, FilterPolicy, Io, RangeFilterPolicy, Strategy};

use super::keys::Keys;
use crate::exit::Failure;
use crate::progress::Progress;
use crate::random::fill_value;
use crate::study::args::StudyArgs;
use crate::study::tree::settle::settle;

/// Operations in a batch of the load.
const BATCH_ENTRIES: usize = 500;

/// Flushed runs that are merged down together when levels are leveled.
const LEVEL0_RUNS: u32 = 4;

/// What a memtable charges for an entry beside its key and value, and some more.
const ENTRY_BYTES: u64 = 256;

/// What becomes of flushed runs: nothing, or what a strategy does with them.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Tree {
    pub(super) name: &'static str,
    pub(super) strategy: Option<Strategy>,
    /// Scans are counted after so many flushes.
    pub(super) stops: &'static [u32],
}

/// In the order in which they are measured.
pub(super) const TREES: [Tree; 4] = [
    Tree {
        name: "flushed",
        strategy: None,
        stops: &[1, 2, 4, 8, 16, 30],
    },
    Tree {
        name: "leveled",
        strategy: Some(Strategy::Leveled),
        stops: AT_REST,
    },
    Tree {
        name: "tiered",
        strategy: Some(Strategy::Tiered),
        stops: AT_REST,
    },
    Tree {
        name: "lazy-leveled",
        strategy: Some(Strategy::LazyLeveled),
        stops: AT_REST,
    },
];

/// With the default ratio of 10, 9, 11 and 17 runs of a tiered tree.
const AT_REST: &[u32] = &[9, 38, 89];

impl Tree {
    /// Keys of a flushed run, so that the last stop has them all.
    pub(super) fn run_keys(self, keys: &Keys) -> usize {
        let flushes = self.stops.last().copied().unwrap_or(1) as usize;
        (keys.order.len() / flushes).max(1)
    }
}

/// A store that is being loaded.
pub(super) struct Store<'a> {
    pub(super) db: Db,
    tree: Tree,
    keys: &'a Keys,
    args: &'a StudyArgs,
    flushes: u32,
}

impl<'a> Store<'a> {
    /// Opens it, empty; without range filters for no bits.
    ///
    /// # Errors
    ///
    /// When the store fails.
    pub(super) fn open(
        path: &Path,
        (tree, bits): (Tree, Option<f64>),
        keys: &'a Keys,
        args: &'a StudyArgs,
    ) -> Result<Store<'a>, Failure> {
        let key_bytes: usize = keys.all.iter().map(|key| key.len()).sum();
        let entry = (key_bytes / keys.all.len().max(1)) as u64 + args.value_bytes;
        let run = tree.run_keys(keys) as u64;
        let base_bytes = (run * entry * u64::from(LEVEL0_RUNS)).max(64 << 10);
        let range_filter = match bits {
            Some(bits_per_key) => RangeFilterPolicy::Bits { bits_per_key },
            None => RangeFilterPolicy::None,
        };
        let compaction = match tree.strategy {
            Some(_) => Compaction::Background,
            None => Compaction::Manual,
        };
        let db = Db::builder(path)
            .create(Create::Always)
            .io(Io::Pread)
            .compaction(compaction)
            .strategy(tree.strategy.unwrap_or_default())
            .merge_when_idle(false)
            .level0_runs(LEVEL0_RUNS)
            .level_base_bytes(base_bytes)
            .segment_bytes(base_bytes)
            .memtable_bytes((run * (entry + ENTRY_BYTES) * 2).clamp(1 << 20, 4 << 30))
            // No lookup is made: scans do not ask the filters for single keys.
            .filter(FilterPolicy::None)
            .range_filter(range_filter)
            .cache_bytes(0)
            .block_bytes(args.block_bytes)
            .entries_per_group(args.entries_per_group)
            .open()?;
        Ok(Store {
            db,
            tree,
            keys,
            args,
            flushes: 0,
        })
    }

    /// Goes on until there were so many flushes, and returns the places of the keys that are there, in
    /// their order.
    ///
    /// # Errors
    ///
    /// When the store fails.
    pub(super) fn load(&mut self, flushes: u32, bar: &mut Progress) -> Result<Vec<u32>, Failure> {
        let run_keys = self.tree.run_keys(self.keys);
        let mut value = vec![0; self.args.value_bytes as usize];
        while self.flushes < flushes {
            let from = self.flushes as usize * run_keys;
            for chunk in self.keys.order[from..from + run_keys].chunks(BATCH_ENTRIES) {
                let mut batch = self.db.batch();
                for &place in chunk {
                    let key = &self.keys.all[place as usize];
                    fill_value(key, 0, self.args.seed, &mut value);
                    batch.put(key, &value);
                }
                batch.commit_with(Durability::Buffered)?;
                bar.steps(chunk.len() as u64);
            }
            self.db.flush()?;
            if self.tree.strategy.is_some() {
                settle(&self.db)?;
            }
            self.flushes += 1;
        }
        let mut loaded = self.keys.order[..flushes as usize * run_keys].to_vec();
        loaded.sort_unstable();
        Ok(loaded)
    }
}
