//! Scans of one store: every block that is read is counted, every entry that is found is checked.

use std::ops::Bound;

use criba::Db;
use criba::storage::ReadCause;

use super::keys::Keys;
use crate::exit::{Exit, Failure};
use crate::random::{SplitMix, mix};

/// How many entries a scan is to find.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Wanted {
    /// All of a range of both bounds that has so many.
    Exactly(usize),
    /// The next one behind a place without a key; no end is named.
    Next,
}

pub(super) const ALL: [Wanted; 6] = [
    Wanted::Exactly(0),
    Wanted::Exactly(1),
    Wanted::Exactly(3),
    Wanted::Exactly(10),
    Wanted::Exactly(100),
    Wanted::Next,
];

/// As many more scans of nothing are made than of others: few of them read anything.
const EMPTY_TIMES: u64 = 5;

/// What scans of one kind cost.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Cost {
    pub(super) scans: u64,
    pub(super) entries: u64,
    /// Data blocks that were read, counted by the storage.
    pub(super) blocks: u64,
    /// Reads of any other cause, of which there should be none.
    pub(super) others: u64,
    pub(super) asked: u64,
    pub(super) refuted: u64,
    pub(super) in_vain: u64,
}

impl Cost {
    pub(super) fn blocks_per_scan(&self) -> f64 {
        self.blocks as f64 / self.scans as f64
    }

    /// Of the ranges in which a run held nothing, those that its filter did not refute.
    pub(super) fn share_in_vain(&self) -> f64 {
        self.in_vain as f64 / (self.in_vain + self.refuted) as f64
    }
}

impl Wanted {
    pub(super) fn name(self) -> String {
        match self {
            Wanted::Exactly(entries) => entries.to_string(),
            Wanted::Next => "next".into(),
        }
    }

    /// Scans of which the cost is counted, for so many that were asked for.
    pub(super) fn scans(self, lookups: u64) -> u64 {
        match self {
            Wanted::Exactly(0) => lookups * EMPTY_TIMES,
            _ => lookups,
        }
    }
}

/// A store with the places of the keys that are in it.
pub(super) struct Scanned<'a> {
    pub(super) db: &'a Db,
    pub(super) keys: &'a Keys,
    pub(super) loaded: &'a [u32],
    pub(super) seed: u64,
}

impl Scanned<'_> {
    /// # Errors
    ///
    /// When the store fails or gives a wrong answer.
    pub(super) fn count(&self, wanted: Wanted, lookups: u64) -> Result<Cost, Failure> {
        let mut random = SplitMix::new(mix(self.seed ^ 0x5ca5));
        let before = self.db.stats();
        let mut cost = Cost {
            scans: wanted.scans(lookups),
            ..Cost::default()
        };
        for _ in 0..cost.scans {
            cost.entries += self.scan(wanted, &mut random)?;
        }
        let after = self.db.stats();
        let reads = after.reads.since(&before.reads);
        cost.blocks = reads.get(ReadCause::Data).calls;
        let all = ReadCause::ALL.map(|cause| reads.get(cause).calls);
        cost.others = all.iter().sum::<u64>() - cost.blocks;
        cost.asked = after.scans.asked - before.scans.asked;
        cost.refuted = after.scans.refuted - before.scans.refuted;
        cost.in_vain = after.scans.in_vain - before.scans.in_vain;
        Ok(cost)
    }

    fn scan(&self, wanted: Wanted, random: &mut SplitMix) -> Result<u64, Failure> {
        let ordinal = random.below(self.keys.held_out.len() as u64) as usize;
        let empty = self.keys.empty_range(ordinal);
        match wanted {
            Wanted::Exactly(0) => {
                self.check((Bound::Included(empty.0), Bound::Included(empty.1)), &[])
            }
            Wanted::Exactly(entries) => {
                let places = self.loaded.len().saturating_sub(entries) as u64 + 1;
                let first = random.below(places) as usize;
                let expected = &self.loaded[first..(first + entries).min(self.loaded.len())];
                let (lower, upper) = (expected[0], expected[expected.len() - 1]);
                let key = |place: u32| Bound::Included(&*self.keys.all[place as usize]);
                self.check((key(lower), key(upper)), expected)
            }
            Wanted::Next => {
                let from = self.keys.held_out[ordinal % self.keys.held_out.len()];
                let next = self.loaded.partition_point(|&place| place < from);
                let expected = &self.loaded[next..(next + 1).min(self.loaded.len())];
                self.check((Bound::Included(empty.0), Bound::Unbounded), expected)
            }
        }
    }

    /// Scans a range, up to as many entries as are expected where it has no end.
    fn check(&self, range: (Bound<&[u8]>, Bound<&[u8]>), expected: &[u32]) -> Result<u64, Failure> {
        let has_end = range.1 != Bound::Unbounded;
        let mut entries = self.db.range(range);
        for &place in expected {
            let found = entries.next_ref().transpose()?;
            let key = &self.keys.all[place as usize];
            if found.is_none_or(|entry| *entry.0 != **key) {
                return Err(wrong());
            }
        }
        if has_end && entries.next_ref().transpose()?.is_some() {
            return Err(wrong());
        }
        Ok(expected.len() as u64)
    }
}

fn wrong() -> Failure {
    Failure::new(
        Exit::Damaged,
        "a scan found other entries than were loaded: please report this",
    )
}
