//! The account of a range: which runs a scan of it has to read.

use std::fmt;
use std::ops::Bound;

use crate::bounds::{Bounds, is_below};
use crate::cursor::{Cursor, Direction};
use crate::error::Result;
use crate::segment::LookupCost;
use crate::slice::Slice;
use crate::version::Run;

use super::state::Tree;

/// The account of a range, made by [`Keyspace::explain_range`](crate::Keyspace::explain_range): of each run
/// what its range filters say, and the blocks up to its first entry in the range.
///
/// ```
/// use criba::{Db, RangeFilterPolicy, RangeOutcome};
///
/// # fn main() -> criba::Result<()> {
/// # let dir = tempfile::tempdir().unwrap();
/// # let path = dir.path().join("data");
/// let policy = RangeFilterPolicy::Bits { bits_per_key: 12.0 };
/// let db = Db::builder(&path).range_filter(policy).open()?;
/// for number in 0..10_000 {
///     db.put(format!("{:06}", number * 37), "row")?;
/// }
/// db.flush()?;
/// // Between two keys, and around one.
/// let empty = db.explain_range("123450".."123454")?;
/// assert_eq!(empty.runs[0].outcome, RangeOutcome::Refuted);
/// assert_eq!(empty.block_reads(), 0);
/// let one = db.explain_range("123432".."123440")?;
/// assert_eq!(one.runs[0].outcome, RangeOutcome::Entries);
/// assert_eq!((one.runs[0].data_blocks, one.block_reads()), (1, 1));
/// println!("{one}");
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct RangeExplanation {
    /// The bounds that were asked for.
    pub range: (Bound<Slice>, Bound<Slice>),
    /// Memtables with an entry in the range.
    pub memtables: usize,
    /// The runs, newest first.
    pub runs: Vec<RangeStep>,
}

/// What one run has to say of a range.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct RangeStep {
    /// Ordinal of the run, 0 is the newest.
    pub run: usize,
    /// Its level.
    pub level: u32,
    /// Whether a range filter was there to ask.
    pub has_range_filters: bool,
    /// How it ended.
    pub outcome: RangeOutcome,
    /// Data blocks asked for, up to the first entry in the range or behind it.
    pub data_blocks: u64,
    /// Data blocks among these that were read from storage; the others were in the cache.
    pub block_reads: u64,
    /// Filter pages asked for; 0 when filters are pinned.
    pub filter_pages: u64,
}

/// How the question to a run ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum RangeOutcome {
    /// No segment of the run has keys in the range: nothing was read.
    NoSegment,
    /// Its range filter says that no key lies in the range: nothing was read.
    Refuted,
    /// It has entries in the range; they may be deleted or overwritten in newer runs.
    Entries,
    /// It was read, and has no entry in the range.
    InVain,
}

impl Tree {
    /// Reads of each run the blocks that a scan of the range would begin with.
    pub(crate) fn explain_range(&self, range: Bounds) -> Result<RangeExplanation> {
        let view = self.view();
        self.check(&view)?;
        let tables = std::iter::once(&view.active).chain(&view.sealed);
        let mut memtables = 0;
        for table in tables {
            let mut walk = table.walk(Direction::Forward, range.0.clone());
            memtables += usize::from(walk.advance()? && is_below(&range.1, walk.entry().key));
        }
        let runs = view.version.runs().iter().enumerate();
        let step = |(number, run)| self.explain_run(number, run, &range);
        Ok(RangeExplanation {
            memtables,
            runs: runs.map(step).collect::<Result<_>>()?,
            range,
        })
    }

    fn explain_run(&self, number: usize, run: &Run, range: &Bounds) -> Result<RangeStep> {
        let mut cost = LookupCost::default();
        let bounds = (
            range.0.as_ref().map(|key| &**key),
            range.1.as_ref().map(|key| &**key),
        );
        let may_hold = run.may_hold(bounds, self.caches(), &mut cost);
        let mut step = RangeStep {
            run: number,
            level: run.level,
            has_range_filters: run.has_range_filters,
            outcome: match run.overlaps(range) {
                true => RangeOutcome::Refuted,
                false => RangeOutcome::NoSegment,
            },
            data_blocks: 0,
            block_reads: 0,
            filter_pages: cost.filter_pages,
        };
        if !may_hold {
            return Ok(step);
        }
        let mut walk = run.walk(self.caches(), Direction::Forward, range.0.clone());
        let is_there = walk.advance()? && is_below(&range.1, walk.entry().key);
        step.outcome = if is_there {
            RangeOutcome::Entries
        } else {
            RangeOutcome::InVain
        };
        (step.data_blocks, step.block_reads) = walk.blocks();
        Ok(step)
    }
}

impl RangeExplanation {
    /// Data blocks asked for.
    pub fn data_blocks(&self) -> u64 {
        self.runs.iter().map(|step| step.data_blocks).sum()
    }

    /// Data blocks read from storage.
    pub fn block_reads(&self) -> u64 {
        self.runs.iter().map(|step| step.block_reads).sum()
    }
}

impl fmt::Display for RangeExplanation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "range {:?} to {:?}", self.range.0, self.range.1)?;
        writeln!(f, "  memtables with entries: {}", self.memtables)?;
        for step in &self.runs {
            writeln!(f, "  {step}")?;
        }
        write!(
            f,
            "asked for {} data blocks, {} read from storage",
            self.data_blocks(),
            self.block_reads()
        )
    }
}

impl fmt::Display for RangeStep {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "run {}, level {}: ", self.run, self.level)?;
        let filter = match self.has_range_filters {
            true => "range filter says maybe, ",
            false => "no range filter, ",
        };
        match self.outcome {
            RangeOutcome::NoSegment => return write!(f, "no segment has keys in the range"),
            RangeOutcome::Refuted => return write!(f, "range filter says no"),
            RangeOutcome::Entries => write!(f, "{filter}entries found")?,
            RangeOutcome::InVain => write!(f, "{filter}read in vain")?,
        }
        write!(
            f,
            ", {} data blocks, {} from storage",
            self.data_blocks, self.block_reads
        )
    }
}
