//! One store for one setting: loaded run by run, checked to be what was ordered.

use std::path::Path;

use criba::{Create, Db, Durability, Io};

use super::args::StudyArgs;
use super::workload::{Part, Workload};
use crate::choice::{FilterChoice, filter_name};
use crate::exit::{Exit, Failure};
use crate::progress::Progress;
use crate::random::fill_value;

/// Operations in a batch of the load.
const BATCH_ENTRIES: usize = 500;

/// More than any memtable charges for an entry beside its key and value.
const ENTRY_BYTES: u64 = 512;

/// A loaded store, open for lookups.
pub(crate) struct Loaded {
    pub(crate) setting: String,
    pub(crate) choice: FilterChoice,
    pub(crate) db: Db,
}

/// Makes the store and loads it, one flush to a run.
///
/// # Errors
///
/// When the store fails, or does not have the runs that were ordered.
pub(crate) fn load(
    choice: FilterChoice,
    path: &Path,
    work: &Workload,
    args: &StudyArgs,
    progress: &mut Progress,
) -> Result<Loaded, Failure> {
    let builder = Db::builder(path)
        .compaction(criba::Compaction::Manual)
        .create(Create::Always)
        .io(Io::Pread)
        .filter_residency(args.residency)
        .cache_bytes(args.cache_bytes)
        .block_bytes(args.block_bytes)
        .entries_per_group(args.entries_per_group)
        .memtable_bytes(memtable_bytes(work, args.value_bytes));
    let db = choice.choose(builder).open()?;
    let mut value = vec![0; args.value_bytes as usize];
    for part in &work.parts {
        load_run(&db, part, work, &mut value, progress)?;
        db.flush()?;
    }
    let loaded = Loaded {
        setting: filter_name(choice),
        choice,
        db,
    };
    loaded.check(work)?;
    Ok(loaded)
}

/// Enough for the largest run, so that nothing is flushed before it is whole.
fn memtable_bytes(work: &Workload, value_bytes: u64) -> u64 {
    let run = |part: &Part| part.key_bytes + part.keys * (value_bytes + ENTRY_BYTES);
    let largest = work.parts.iter().map(run).max().unwrap_or(0);
    largest.clamp(1 << 20, 16 << 30)
}

fn load_run(
    db: &Db,
    part: &Part,
    work: &Workload,
    value: &mut [u8],
    progress: &mut Progress,
) -> Result<(), Failure> {
    let held: Vec<_> = work
        .present
        .iter()
        .filter(|present| present.is_in(part.run))
        .collect();
    for chunk in held.chunks(BATCH_ENTRIES) {
        let mut batch = db.batch();
        for present in chunk {
            fill_value(&present.key, part.run, work.seed, value);
            batch.put(&present.key, &*value);
            progress.step();
        }
        batch.commit_with(Durability::Buffered)?;
    }
    Ok(())
}

impl Loaded {
    /// The runs of the store are the parts of the load, the newest first: what is counted for a run
    /// is counted for the right one.
    fn check(&self, work: &Workload) -> Result<(), Failure> {
        let stats = self.db.stats();
        let found: Vec<u64> = stats
            .runs
            .iter()
            .rev()
            .map(|run| run.segments.iter().map(|segment| segment.keys).sum())
            .collect();
        let ordered: Vec<u64> = work.parts.iter().map(|part| part.keys).collect();
        if found == ordered {
            return Ok(());
        }
        Err(Failure::new(
            Exit::Damaged,
            format!(
                "{}: the store has runs of {found:?} keys, oldest first, where {ordered:?} were loaded",
                self.setting
            ),
        ))
    }
}
