//! The account of one lookup: what was asked, read and saved, run by run.

use std::fmt;
use std::time::Duration;

use crate::slice::Slice;

/// What one lookup asked and cost. Made by [`Db::explain`](crate::Db::explain).
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Explanation {
    /// The key that was looked up.
    pub key: Slice,
    /// The value, if the key is there.
    pub value: Option<Slice>,
    /// What was asked, in order; the lookup ends with the first step that has an answer.
    pub steps: Vec<Step>,
    /// Data blocks that the same lookup would ask for if no segment had a filter.
    pub blocks_without_filters: u64,
}

/// One memtable or one run that was asked.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Step {
    /// What was asked.
    pub source: Source,
    /// The kind of its filter, `bloom` or `bloomier`, if it has one. Memtables have a Bloom
    /// filter of their own, which is not counted here.
    pub filter_kind: Option<&'static str>,
    /// What its filter said.
    pub filter: FilterOutcome,
    /// Filter pages asked for; 0 when the filter is pinned.
    pub filter_pages: u64,
    /// Data blocks asked for.
    pub data_blocks: u64,
    /// Of both, found in a cache.
    pub from_cache: u64,
    /// Bytes read from storage.
    pub read_bytes: u64,
    /// How it ended.
    pub outcome: Outcome,
    /// Time it took.
    pub took: Duration,
}

/// What was asked.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Source {
    /// The memtable that takes writes.
    ActiveMemtable,
    /// A memtable that waits for its flush; 0 is the newest.
    SealedMemtable(usize),
    /// A run, none of whose segments covers the key.
    NoSegment {
        /// Ordinal of the run, 0 is the newest.
        run: usize,
        /// Its level.
        level: u32,
    },
    /// A segment.
    Segment {
        /// Ordinal of its run, 0 is the newest.
        run: usize,
        /// Its level.
        level: u32,
        /// Its number, which names its file.
        id: u64,
    },
}

/// What a filter said.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum FilterOutcome {
    /// There was none to ask.
    NotAsked,
    /// Certainly absent.
    No,
    /// Maybe here, anywhere.
    Maybe,
    /// If it is here, then in this block.
    Block {
        /// Ordinal of the block within the segment.
        block: u32,
        /// Ordinal of the group of entries within the block, when the filter knows it.
        slot: Option<u16>,
    },
    /// A place was named, and the fence keys of the block showed that the key is not there.
    Refuted,
    /// Its checksum failed; the lookup went on without it.
    Damaged,
}

/// How a step ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Outcome {
    /// The key is not there, and no data block was read to know it.
    Absent,
    /// The key is not there, and a data block was read in vain.
    FalsePositive,
    /// A value was found.
    Found,
    /// A tombstone was found: the key was deleted.
    Deleted,
}

impl Explanation {
    /// Data blocks that the lookup asked for.
    pub fn data_blocks(&self) -> u64 {
        self.steps.iter().map(|step| step.data_blocks).sum()
    }

    /// Filter pages that the lookup asked for.
    pub fn filter_pages(&self) -> u64 {
        self.steps.iter().map(|step| step.filter_pages).sum()
    }
}

impl fmt::Display for Explanation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "key {:?}", self.key)?;
        for step in &self.steps {
            writeln!(f, "  {step}")?;
        }
        match &self.value {
            Some(value) => writeln!(f, "found, {} bytes", value.len())?,
            None => writeln!(f, "not there")?,
        }
        write!(
            f,
            "{} data blocks and {} filter pages asked for; without filters {} data blocks",
            self.data_blocks(),
            self.filter_pages(),
            self.blocks_without_filters
        )
    }
}

impl fmt::Display for Step {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.source {
            Source::ActiveMemtable => write!(f, "active memtable")?,
            Source::SealedMemtable(ordinal) => write!(f, "sealed memtable {ordinal}")?,
            Source::NoSegment { run, level } => {
                return write!(f, "run {run}, level {level}: no segment covers the key");
            }
            Source::Segment { run, level, id } => {
                write!(f, "run {run}, level {level}, segment {id:06}")?;
            }
        }
        let kind = self.filter_kind.unwrap_or("no");
        match self.filter {
            FilterOutcome::NotAsked => {}
            FilterOutcome::No => write!(f, ": {kind} filter says no")?,
            FilterOutcome::Maybe => write!(f, ": {kind} filter says maybe")?,
            FilterOutcome::Block { block, slot: None } => {
                write!(f, ": {kind} filter says block {block}")?;
            }
            FilterOutcome::Block {
                block,
                slot: Some(slot),
            } => {
                write!(f, ": {kind} filter says block {block}, group {slot}")?;
            }
            FilterOutcome::Refuted => {
                write!(f, ": {kind} filter names a block, its fences refute it")?
            }
            FilterOutcome::Damaged => write!(f, ": filter is damaged, not used")?,
        }
        if self.data_blocks + self.filter_pages > 0 {
            write!(
                f,
                ", {} data blocks, {} filter pages ({} from cache, {} bytes read)",
                self.data_blocks, self.filter_pages, self.from_cache, self.read_bytes
            )?;
        }
        let outcome = match self.outcome {
            Outcome::Absent => "absent",
            Outcome::FalsePositive => "absent, read in vain",
            Outcome::Found => "found",
            Outcome::Deleted => "deleted",
        };
        write!(f, ": {outcome} [{:?}]", self.took)
    }
}
