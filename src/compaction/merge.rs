//! Carries out a merge: many runs in, one sorted sequence of segments out.

use std::ops::Bound;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use crate::cursor::{Cursor, Direction};
use crate::error::{Error, Result};
use crate::key::Sequence;
use crate::merge::Merge;
use crate::operator::Operator;
use crate::segment::{Caches, Segment};
use crate::slice::Slice;
use crate::version::{Run, Version};

use super::output::Output;
use super::retain::Retain;

/// What is merged, and what lies below it.
#[derive(Debug)]
pub(crate) struct Inputs {
    /// The segments to merge, as runs, newest first.
    pub(crate) runs: Vec<Run>,
    /// All that is older than the inputs and not among them.
    pub(crate) older: Vec<Run>,
    /// Sequences that snapshots read at, ascending.
    pub(crate) snapshots: Vec<Sequence>,
    /// Combines operands.
    operator: Operator,
    /// The keys to merge: from this one on, and before that one.
    range: (Option<Slice>, Option<Slice>),
}

/// How far a merge is. Shared with who watches or cancels it.
#[derive(Debug, Default)]
pub(crate) struct Progress {
    pub(crate) cancelled: AtomicBool,
    /// Entries taken from the inputs.
    pub(crate) read_entries: AtomicU64,
    /// Bytes of keys and values taken from the inputs.
    pub(crate) read_bytes: AtomicU64,
    /// Bytes of segments written, as far as the pace was looked at.
    pub(crate) written_bytes: AtomicU64,
}

impl Progress {
    /// Adds what was read since the last time. Parts of a merge count in one place: not for each entry.
    fn note(&self, entries: &mut u64, bytes: &mut u64) {
        let (entries, bytes) = (std::mem::take(entries), std::mem::take(bytes));
        self.read_entries.fetch_add(entries, Ordering::Relaxed);
        self.read_bytes.fetch_add(bytes, Ordering::Relaxed);
    }
}

/// Entries, and bytes of keys and values, between two looks at the clock and at the cancel flag.
const STRIDE: u64 = 1024;
const STRIDE_BYTES: u64 = 1 << 20;

impl Inputs {
    /// The inputs with these segment ids, and all that is older than the place where the output
    /// goes: `level` and, there, runs older than all inputs.
    pub(crate) fn of(
        version: &Version,
        ids: &[u64],
        level: u32,
        snapshots: Vec<Sequence>,
    ) -> Inputs {
        let is_input = |id: u64| ids.contains(&id);
        let mut runs = Vec::new();
        let mut older = Vec::new();
        for run in version.runs() {
            let (inputs, others): (Vec<_>, Vec<_>) = run
                .segments
                .iter()
                .cloned()
                .partition(|one| is_input(one.meta.id));
            if !others.is_empty() && run.level >= level {
                older.push(run.with_segments(others));
            }
            if !inputs.is_empty() {
                runs.push(run.with_segments(inputs));
            }
        }
        Inputs {
            runs,
            older,
            snapshots,
            operator: Operator::default(),
            range: (None, None),
        }
    }

    /// With an operator that combines operands; without one they stay as they are.
    pub(crate) fn combining(self, operator: &Operator) -> Inputs {
        Inputs {
            operator: operator.clone(),
            ..self
        }
    }

    /// The segments to merge.
    pub(crate) fn segments(&self) -> impl Iterator<Item = &Arc<Segment>> + Clone {
        self.runs.iter().flat_map(|run| run.segments.iter())
    }

    /// The parts between these keys, which ascend.
    pub(crate) fn cut(self, keys: &[Vec<u8>]) -> Vec<Inputs> {
        let ends = || keys.iter().map(|key| Some(Slice::from(&**key)));
        let lower = std::iter::once(None).chain(ends());
        let upper = ends().chain(std::iter::once(None));
        lower.zip(upper).map(|range| self.part(range)).collect()
    }

    fn part(&self, (lower, upper): (Option<Slice>, Option<Slice>)) -> Inputs {
        let is_within = |one: &&Arc<Segment>| {
            lower.as_ref().is_none_or(|key| **key <= *one.meta.last_key)
                && upper.as_ref().is_none_or(|key| *one.meta.first_key < **key)
        };
        let part = |run: &Run| {
            let segments = run.segments.iter().filter(is_within);
            run.with_segments(segments.cloned().collect())
        };
        Inputs {
            runs: self.runs.iter().map(part).collect(),
            older: self.older.clone(),
            snapshots: self.snapshots.clone(),
            operator: self.operator.clone(),
            range: (lower, upper),
        }
    }
}

/// Merges the inputs into `output`; `pace` is called now and then with the bytes written so far
/// and may wait. Returns why operands were not combined, if the operator has refused any.
///
/// # Errors
///
/// [`Error::Cancelled`] when the merge was cancelled, and what reading and writing give. The
/// caller removes the output then.
pub(crate) fn merge(
    inputs: &Inputs,
    caches: &Arc<Caches>,
    output: &mut Output<'_>,
    progress: &Progress,
    pace: &dyn Fn(u64),
) -> Result<Option<Error>> {
    let (lower, upper) = &inputs.range;
    let from = lower.clone().map_or(Bound::Unbounded, Bound::Included);
    let cursors = inputs.runs.iter().map(|run| {
        let walk = run.walk(caches, Direction::Forward, from.clone());
        Box::new(walk.ahead()) as Box<dyn Cursor>
    });
    let mut merged = Merge::new(cursors.collect(), Direction::Forward);
    let mut retain = Retain::new(inputs.snapshots.clone(), inputs.operator.clone());
    let is_oldest = |key: &[u8]| inputs.older.iter().all(|run| run.find(key).is_none());
    let (mut read, mut read_bytes) = (0, 0);
    while merged.advance()? {
        let entry = merged.entry();
        if upper.as_ref().is_some_and(|upper| *entry.key >= **upper) {
            break;
        }
        read += 1;
        read_bytes += (entry.key.len() + entry.value.len()) as u64;
        if read == STRIDE || read_bytes >= STRIDE_BYTES {
            progress.note(&mut read, &mut read_bytes);
            if progress.cancelled.load(Ordering::Relaxed) {
                return Err(Error::Cancelled);
            }
            pace(output.bytes());
        }
        retain.take(&entry, &is_oldest, &mut |entry| output.add(entry))?;
    }
    let refusal = retain.finish(&is_oldest, &mut |entry| output.add(entry))?;
    progress.note(&mut read, &mut read_bytes);
    Ok(refusal)
}
