//! Remembers where nothing is left to see, so that iterators need not pass over it again.
//!
//! A queue (put at one end, delete at the other) leaves its tombstones in front of its first
//! entry, in the memtable and in segments, until compaction has removed them; whoever asks for
//! the first entry would pass over all of them each time. The iterator that did it once leaves a
//! gap here, and the next one steps over it.
//!
//! Invariants:
//! 1. No key within a gap is visible at the gap's sequence or at any later one up to now.
//! 2. A put is taken out of the gaps before it becomes visible, under the same lock under which
//!    gaps are added; a gap that was found before the last put is not added any more.
//!
//! `tests/it/interleavings.rs` tries both in every interleaving of a small model.

use std::ops::Bound;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use arc_swap::ArcSwap;

use crate::bounds::{Bounds, is_above, is_below};
use crate::cursor::Direction;
use crate::key::Sequence;
use crate::locks::{Guard, Mutex, rank};
use crate::slice::Slice;

/// Gaps kept at a time: one for each of so many queues.
const GAPS_MAX: usize = 8;

/// Entries that must have been passed over for a gap to be worth its keeping.
pub(crate) const PASSED_MIN: u64 = 32;

/// Where nothing is visible.
#[derive(Clone, Debug)]
struct Gap {
    lower: Bound<Slice>,
    upper: Bound<Slice>,
    sequence: Sequence,
}

/// What puts and gaps say to each other.
#[derive(Debug, Default)]
struct Puts {
    /// Sequence of the last put.
    last: Sequence,
    /// Whether there is any gap, which most puts need not look for.
    has_gaps: bool,
}

/// The gaps of a store.
#[derive(Debug, Default)]
pub(crate) struct Gaps {
    /// Newest first.
    list: ArcSwap<Vec<Gap>>,
    puts: Mutex<Puts, { rank::GAPS }>,
    /// Gaps that were used, for the curious.
    used: AtomicU64,
}

/// The bound that begins where the other ends.
fn behind(bound: &Bound<Slice>) -> Option<Bound<Slice>> {
    match bound {
        Bound::Unbounded => None,
        Bound::Included(key) => Some(Bound::Excluded(key.clone())),
        Bound::Excluded(key) => Some(Bound::Included(key.clone())),
    }
}

impl Gap {
    fn contains(&self, key: &[u8]) -> bool {
        is_above(&self.lower, key) && is_below(&self.upper, key)
    }

    /// Whether a walk that starts at this bound starts within the gap.
    fn holds_start(&self, start: &Bound<Slice>, direction: Direction) -> bool {
        match (start, direction) {
            (Bound::Included(key) | Bound::Excluded(key), _) => self.contains(key),
            (Bound::Unbounded, Direction::Forward) => self.lower == Bound::Unbounded,
            (Bound::Unbounded, Direction::Backward) => self.upper == Bound::Unbounded,
        }
    }
}

/// What a gap does to a walk.
pub(crate) enum Step {
    /// It starts where it would.
    None,
    /// It starts at `start`; what it passes over then adds to a gap that begins at `from`.
    Over {
        start: Bound<Slice>,
        from: Bound<Slice>,
    },
    /// Nothing is left in its direction.
    End,
}

impl Gaps {
    /// Where a walk at this sequence may start instead.
    pub(crate) fn step(&self, start: &Bound<Slice>, direction: Direction, at: Sequence) -> Step {
        let list = self.list.load();
        let found = list
            .iter()
            .find(|gap| gap.sequence <= at && gap.holds_start(start, direction));
        let Some(gap) = found else { return Step::None };
        self.used.fetch_add(1, Ordering::Relaxed);
        let (from, to) = match direction {
            Direction::Forward => (&gap.lower, &gap.upper),
            Direction::Backward => (&gap.upper, &gap.lower),
        };
        match behind(to) {
            None => Step::End,
            Some(start) => Step::Over {
                start,
                from: from.clone(),
            },
        }
    }

    /// Adds a gap that a walk at this sequence has found.
    pub(crate) fn add(&self, (lower, upper): Bounds, sequence: Sequence) {
        let mut puts = self.puts.lock();
        if puts.last > sequence {
            return;
        }
        puts.has_gaps = true;
        let gap = Gap {
            lower,
            upper,
            sequence,
        };
        let old = self.list.load();
        // What begins or ends at the same place is the same gap, grown.
        let others = old
            .iter()
            .filter(|other| other.lower != gap.lower && other.upper != gap.upper)
            .take(GAPS_MAX - 1)
            .cloned();
        let list = std::iter::once(gap.clone()).chain(others).collect();
        self.list.store(Arc::new(list));
        drop(puts);
    }

    /// Begins writes: nobody adds a gap until the guard is dropped, after they became visible.
    pub(crate) fn writes(&self) -> Writes<'_> {
        Writes {
            gaps: self,
            puts: self.puts.lock(),
        }
    }

    #[cfg(test)]
    fn used(&self) -> u64 {
        self.used.load(Ordering::Relaxed)
    }
}

/// Writes that are about to become visible.
pub(crate) struct Writes<'a> {
    gaps: &'a Gaps,
    puts: Guard<'a, Puts, { rank::GAPS }>,
}

impl Writes<'_> {
    /// A key gets a value: what of a gap lies behind it is no gap any more.
    pub(crate) fn put(&mut self, key: &[u8], sequence: Sequence) {
        self.puts.last = sequence;
        if !self.puts.has_gaps {
            return;
        }
        let list = self.gaps.list.load();
        if list.iter().all(|gap| !gap.contains(key)) {
            return;
        }
        let cut = |gap: &Gap| {
            if !gap.contains(key) {
                return gap.clone();
            }
            Gap {
                upper: Bound::Excluded(Slice::from(key)),
                ..gap.clone()
            }
        };
        self.gaps
            .list
            .store(Arc::new(list.iter().map(cut).collect()));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(key: &str) -> Slice {
        Slice::from(key)
    }

    fn start(gaps: &Gaps, from: &Bound<Slice>, direction: Direction, sequence: u64) -> String {
        match gaps.step(from, direction, Sequence(sequence)) {
            Step::None => "none".into(),
            Step::End => "end".into(),
            Step::Over { start, .. } => format!("{start:?}"),
        }
    }

    #[test]
    fn walks_start_behind_a_gap() {
        let gaps = Gaps::default();
        let (forward, backward) = (Direction::Forward, Direction::Backward);
        gaps.add((Bound::Unbounded, Bound::Excluded(at("m"))), Sequence(5));
        assert_eq!(
            start(&gaps, &Bound::Unbounded, forward, 5),
            "Included(\"m\")"
        );
        assert_eq!(
            start(&gaps, &Bound::Included(at("c")), forward, 9),
            "Included(\"m\")"
        );
        assert_eq!(start(&gaps, &Bound::Included(at("m")), forward, 9), "none");
        assert_eq!(start(&gaps, &Bound::Unbounded, backward, 9), "none");
        assert_eq!(start(&gaps, &Bound::Included(at("c")), backward, 9), "end");
        assert_eq!(
            start(&gaps, &Bound::Unbounded, forward, 4),
            "none",
            "an older reader"
        );
        assert_eq!(gaps.used(), 3);
    }

    #[test]
    fn a_put_cuts_a_gap_and_keeps_older_findings_out() {
        let gaps = Gaps::default();
        gaps.add((Bound::Unbounded, Bound::Excluded(at("m"))), Sequence(5));
        gaps.writes().put(b"x", Sequence(6));
        assert_eq!(
            start(&gaps, &Bound::Unbounded, Direction::Forward, 6),
            "Included(\"m\")"
        );
        gaps.writes().put(b"c", Sequence(7));
        assert_eq!(
            start(&gaps, &Bound::Unbounded, Direction::Forward, 7),
            "Included(\"c\")"
        );
        gaps.add((Bound::Unbounded, Bound::Excluded(at("z"))), Sequence(6));
        assert_eq!(
            start(&gaps, &Bound::Unbounded, Direction::Forward, 7),
            "Included(\"c\")"
        );
    }

    #[test]
    fn a_few_gaps_are_kept_and_a_grown_one_replaces_itself() {
        let gaps = Gaps::default();
        for queue in 0..20 {
            for end in 1..5 {
                let lower = Bound::Included(at(&format!("{queue:02}")));
                let upper = Bound::Excluded(at(&format!("{queue:02}{end}")));
                gaps.add((lower, upper), Sequence(1));
            }
        }
        assert_eq!(gaps.list.load().len(), GAPS_MAX);
        let last = start(&gaps, &Bound::Included(at("19")), Direction::Forward, 1);
        assert_eq!(last, "Included(\"194\")");
    }
}
