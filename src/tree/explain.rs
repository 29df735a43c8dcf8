//! The account of one lookup: what was asked, read and saved, run by run.

use std::fmt;
use std::time::{Duration, Instant};

use crate::key::Kind;
use crate::segment::{Hit, LookupCost, Segment};
use crate::slice::Slice;
use criba_filters::segment::Answer;

use super::stop::Stop;

/// Is shown each step of a lookup. [`Silent`] costs nothing.
pub(super) trait Observer {
    /// Whether it keeps an account, for which a lookup does a little more.
    const WATCHES: bool;
    /// A step begins.
    fn begin(&mut self);
    /// A memtable was asked.
    fn memtable(&mut self, source: Source, hit: Option<&Hit>);
    /// A run was asked: `None` when no segment of it covers the key.
    fn run(&mut self, source: Source, asked: Option<&Asked<'_>>);
    /// The lookup has stopped, for a block that was not read yet. Its result is of no use.
    fn stopped(&mut self, _: Stop) {}
    /// It has met these operands before it stopped, newest first.
    fn gathered(&mut self, _: Vec<Slice>) {}
}

/// A segment that was asked, and how that ended.
pub(super) struct Asked<'a> {
    pub(super) segment: &'a Segment,
    pub(super) cost: &'a LookupCost,
    pub(super) hit: Option<&'a Hit>,
}

/// Keeps no account.
pub(super) struct Silent;

impl Observer for Silent {
    const WATCHES: bool = false;

    fn begin(&mut self) {}
    fn memtable(&mut self, _: Source, _: Option<&Hit>) {}
    fn run(&mut self, _: Source, _: Option<&Asked<'_>>) {}
}

/// The account of one lookup: what it asked, and what it cost. Made by
/// [`Keyspace::explain`](crate::Keyspace::explain).
///
/// ```
/// # fn main() -> criba::Result<()> {
/// # let dir = tempfile::tempdir().unwrap();
/// # let db = criba::Db::open(dir.path().join("data"))?;
/// db.put("apple", "red")?;
/// db.flush()?;
/// db.put("banana", "yellow")?;
/// db.flush()?;
/// let explanation = db.explain("apple")?;
/// assert_eq!(explanation.value.as_ref().unwrap(), "red");
/// // The newer run has no such key, and was not read to know it.
/// assert_eq!(explanation.steps.len(), 3);
/// assert_eq!((explanation.data_blocks(), explanation.block_reads()), (1, 1));
/// assert_eq!(explanation.filter_pages(), 0);
/// assert!(explanation.read_bytes() > 0);
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Explanation {
    /// The key that was looked up.
    pub key: Slice,
    /// The value, if the key is there.
    pub value: Option<Slice>,
    /// The memtables and runs that were asked, in order. The lookup ends with the first one that
    /// has an answer, or, behind operands, with the first value or tombstone.
    pub steps: Vec<Step>,
    /// Data blocks that the same lookup would ask for if no segment had a filter: one for each
    /// segment that covers the key, up to the one with which it ends.
    pub blocks_without_filters: u64,
}

/// One memtable or one run that was asked.
///
/// ```
/// # fn main() -> criba::Result<()> {
/// # let dir = tempfile::tempdir().unwrap();
/// # let db = criba::Db::open(dir.path().join("data"))?;
/// db.put("apple", "red")?;
/// db.flush()?;
/// let explanation = db.explain("apple")?;
/// let [memtable, segment] = &explanation.steps[..] else {
///     panic!("{explanation}");
/// };
/// assert_eq!(memtable.data_blocks, 0);
/// assert_eq!(segment.filter_kind, Some("bloomier"));
/// assert_eq!((segment.data_blocks, segment.from_cache), (1, 0));
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Step {
    /// The memtable or run.
    pub source: Source,
    /// The kind of its filter, `bloom` or `bloomier`, if it has one. Memtables have a Bloom
    /// filter of their own, which is not counted here.
    pub filter_kind: Option<&'static str>,
    /// The answer of its filter.
    pub filter: FilterOutcome,
    /// Filter pages asked for; 0 when the filter is pinned.
    pub filter_pages: u64,
    /// Ordinal of the data block that the filter named, or the fences where the filter named none.
    /// With [`FilterOutcome::Refuted`] this block was not asked for. It is then a part of the
    /// ordinal, where the filter stores no more of it.
    pub block: Option<u32>,
    /// Data blocks asked for.
    pub data_blocks: u64,
    /// Data blocks among these that were read from storage; the others were in the cache.
    pub block_reads: u64,
    /// Filter pages and data blocks that were found in a cache.
    pub from_cache: u64,
    /// Bytes read from storage.
    pub read_bytes: u64,
    /// How it ended.
    pub outcome: Outcome,
    /// Time it took.
    pub took: Duration,
}

/// The memtable or run that a [`Step`] asked.
///
/// ```
/// use criba::Source;
///
/// # fn main() -> criba::Result<()> {
/// # let dir = tempfile::tempdir().unwrap();
/// # let db = criba::Db::open(dir.path().join("data"))?;
/// db.put("apple", "red")?;
/// let before = db.explain("apple")?;
/// assert_eq!(before.steps[0].source, Source::ActiveMemtable);
/// db.flush()?;
/// let after = db.explain("apple")?;
/// assert!(matches!(
///     after.steps[1].source,
///     Source::Segment { run: 0, level: 0, .. }
/// ));
/// # Ok(())
/// # }
/// ```
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

/// The answer of a filter.
///
/// ```
/// use criba::{BloomierBits, Db, FilterOutcome, FilterPolicy};
///
/// # fn main() -> criba::Result<()> {
/// # let dir = tempfile::tempdir().unwrap();
/// # let path = dir.path().join("data");
/// let policy = FilterPolicy::Bloomier(BloomierBits::Block);
/// let db = Db::builder(&path).filter(policy).open()?;
/// for number in 0..1000 {
///     db.put(format!("{number:04}"), [b'x'; 100])?;
/// }
/// db.flush()?;
/// let explanation = db.explain("0500")?;
/// let last = explanation.steps.last().unwrap();
/// let FilterOutcome::Block { block, slot: None } = last.filter else {
///     panic!("{last}");
/// };
/// assert_eq!(last.block, Some(block));
/// # Ok(())
/// # }
/// ```
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
///
/// ```
/// use criba::Outcome;
///
/// # fn main() -> criba::Result<()> {
/// # let dir = tempfile::tempdir().unwrap();
/// # let db = criba::Db::open(dir.path().join("data"))?;
/// db.put("apple", "red")?;
/// db.flush()?;
/// let outcome = |key| Ok::<_, criba::Error>(db.explain(key)?.steps.last().unwrap().outcome);
/// assert_eq!(outcome("apple")?, Outcome::Found);
/// assert_eq!(outcome("banana")?, Outcome::Absent);
/// db.delete("apple")?;
/// assert_eq!(outcome("apple")?, Outcome::Deleted);
/// # Ok(())
/// # }
/// ```
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
    /// An operand was found, or several: the lookup goes on to what they stand on.
    Operand,
}

impl Explanation {
    /// Data blocks that the lookup asked for.
    pub fn data_blocks(&self) -> u64 {
        self.steps.iter().map(|step| step.data_blocks).sum()
    }

    /// Data blocks that the lookup read from storage.
    pub fn block_reads(&self) -> u64 {
        self.steps.iter().map(|step| step.block_reads).sum()
    }

    /// Bytes of data blocks and filter pages that the lookup read from storage.
    pub fn read_bytes(&self) -> u64 {
        self.steps.iter().map(|step| step.read_bytes).sum()
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
        match (&self.value, self.steps.last().map(|step| step.outcome)) {
            (Some(value), _) => writeln!(f, "found, {} bytes", value.len())?,
            (None, Some(Outcome::Deleted)) => writeln!(f, "not there: it was deleted")?,
            (None, _) => writeln!(f, "not there")?,
        }
        write!(
            f,
            "asked for {} and {}, {} bytes read from storage; without filters {}",
            Counted(self.data_blocks(), "data block"),
            Counted(self.filter_pages(), "filter page"),
            self.read_bytes(),
            Counted(self.blocks_without_filters, "data block")
        )
    }
}

/// `1 data block`, `2 data blocks`.
struct Counted(u64, &'static str);

impl fmt::Display for Counted {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let plural = if self.0 == 1 { "" } else { "s" };
        write!(f, "{} {}{plural}", self.0, self.1)
    }
}

impl fmt::Display for Source {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Source::ActiveMemtable => write!(f, "active memtable"),
            Source::SealedMemtable(ordinal) => write!(f, "sealed memtable {ordinal}"),
            Source::NoSegment { run, level } => {
                write!(f, "run {run}, level {level}: no segment covers the key")
            }
            Source::Segment { run, level, id } => {
                write!(f, "run {run}, level {level}, segment {id:06}")
            }
        }
    }
}

impl Step {
    /// What the filter said, and which block it or the fences named.
    fn write_named(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let kind = self.filter_kind.unwrap_or("no");
        match self.filter {
            FilterOutcome::NotAsked => write!(f, ": no filter")?,
            FilterOutcome::No => return write!(f, ": {kind} filter says no"),
            FilterOutcome::Maybe => write!(f, ": {kind} filter says maybe")?,
            FilterOutcome::Block { block, slot } => {
                write!(f, ": {kind} filter says block {block}")?;
                if let Some(slot) = slot {
                    write!(f, ", group {slot}")?;
                }
                if self.block == Some(block) {
                    return write!(f, "; its fences cover the key");
                }
            }
            FilterOutcome::Refuted => {
                write!(f, ": {kind} filter says block ")?;
                match self.block {
                    Some(block) => write!(f, "{block}")?,
                    None => write!(f, "unknown")?,
                }
                return write!(f, "; its fences do not cover the key");
            }
            FilterOutcome::Damaged => write!(f, ": filter is damaged, not used")?,
        }
        match self.block {
            Some(block) => write!(f, "; fences name block {block}"),
            None => Ok(()),
        }
    }

    /// What was asked for, and where it came from.
    fn write_cost(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let blocks_cached = self.data_blocks.saturating_sub(self.block_reads);
        let pages_cached = self.from_cache.saturating_sub(blocks_cached);
        let pages_read = self.filter_pages.saturating_sub(pages_cached);
        for (count, what, place) in [
            (pages_read, "filter page", "storage"),
            (pages_cached, "filter page", "the cache"),
            (self.block_reads, "data block", "storage"),
            (blocks_cached, "data block", "the cache"),
        ] {
            if count > 0 {
                write!(f, ", {} from {place}", Counted(count, what))?;
            }
        }
        if self.read_bytes > 0 {
            write!(f, ", {} bytes read", self.read_bytes)?;
        }
        Ok(())
    }
}

impl fmt::Display for Step {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.source)?;
        if let Source::NoSegment { .. } = self.source {
            return Ok(());
        }
        if let Source::Segment { .. } = self.source {
            self.write_named(f)?;
            self.write_cost(f)?;
        }
        let outcome = match self.outcome {
            Outcome::Absent => "absent",
            Outcome::FalsePositive => "absent, read in vain",
            Outcome::Found => "found",
            Outcome::Deleted => "deleted",
            Outcome::Operand => "operand, goes on",
        };
        write!(f, ": {outcome} [{:?}]", self.took)
    }
}

/// The account of an explained lookup.
#[derive(Default)]
pub(super) struct Account {
    steps: Vec<Step>,
    started: Option<Instant>,
    /// Segments that cover the key: each costs a block without its filter.
    covering: u64,
}

fn found(hit: Option<&Hit>) -> Option<Outcome> {
    hit.map(|hit| match hit.kind {
        Kind::Value => Outcome::Found,
        Kind::Tombstone => Outcome::Deleted,
        Kind::Operand => Outcome::Operand,
    })
}

impl Account {
    /// The account as the user gets it.
    pub(super) fn finish(self, key: &[u8], value: Option<Slice>) -> Explanation {
        Explanation {
            key: Slice::from(key),
            value,
            steps: self.steps,
            blocks_without_filters: self.covering,
        }
    }

    fn step(&self, source: Source) -> Step {
        Step {
            source,
            filter_kind: None,
            filter: FilterOutcome::NotAsked,
            filter_pages: 0,
            block: None,
            data_blocks: 0,
            block_reads: 0,
            from_cache: 0,
            read_bytes: 0,
            outcome: Outcome::Absent,
            took: self
                .started
                .map(|started| started.elapsed())
                .unwrap_or_default(),
        }
    }
}

impl Observer for Account {
    const WATCHES: bool = true;

    fn begin(&mut self) {
        self.started = Some(Instant::now());
    }

    fn memtable(&mut self, source: Source, hit: Option<&Hit>) {
        let mut step = self.step(source);
        step.outcome = found(hit).unwrap_or(Outcome::Absent);
        self.steps.push(step);
    }

    fn run(&mut self, source: Source, asked: Option<&Asked<'_>>) {
        let mut step = self.step(source);
        if let Some(Asked { segment, cost, hit }) = asked {
            self.covering += 1;
            step.filter_kind = segment.filter_kind();
            step.filter = filter_outcome(cost);
            step.filter_pages = cost.filter_pages;
            step.block = cost.block;
            step.data_blocks = cost.data_blocks;
            step.block_reads = cost.block_reads;
            step.from_cache = cost.from_cache;
            step.read_bytes = cost.read_bytes;
            step.outcome = match (found(*hit), cost.data_blocks) {
                (Some(outcome), _) => outcome,
                (None, 0) => Outcome::Absent,
                (None, _) => Outcome::FalsePositive,
            };
        }
        self.steps.push(step);
    }
}

fn filter_outcome(cost: &LookupCost) -> FilterOutcome {
    match cost.answer {
        _ if cost.filter_damaged => FilterOutcome::Damaged,
        _ if cost.refuted => FilterOutcome::Refuted,
        None => FilterOutcome::NotAsked,
        Some(Answer::No) => FilterOutcome::No,
        Some(Answer::Maybe) => FilterOutcome::Maybe,
        Some(Answer::At(location)) => FilterOutcome::Block {
            block: location.block,
            slot: location.slot,
        },
    }
}
