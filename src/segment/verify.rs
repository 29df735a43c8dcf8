//! Verifies a segment: every checksum, the order of the entries, and that index and filter find
//! every key.

use std::ops::Bound;
use std::sync::Arc;

use crate::cursor::{Direction, Item};
use crate::error::{Error, Result};
use crate::key::{self, Kind, Sequence};
use crate::slice::Slice;
use criba_filters::hash_key;

use super::Caches;
use super::body::Body;
use super::filter::FilterState;
use super::lookup::{Entrance, Lead, Lookup, Wanted};
use super::outcome::LookupCost;
use super::range_filter::RangeState;
use super::readahead::Windows;
use super::reader::Segment;

/// Walks a segment and yields its entries in order, while everything about them is checked.
///
/// Reads every data block once, past the caches, and every filter page once.
#[derive(Debug)]
pub(crate) struct Verifier {
    segment: Arc<Segment>,
    hash_seed: u64,
    /// Caches that hold nothing.
    caches: Arc<Caches>,
    /// The block that comes next.
    next: u32,
    windows: Windows,
    /// Entries of the current block with where they are, last one first.
    entries: Vec<(Item, At)>,
    last: Option<(Slice, Sequence)>,
    seen: Seen,
    pub(crate) findings: Vec<Error>,
}

/// Where an entry is: a block and a group of it, by their ordinals.
#[derive(Clone, Copy, Debug)]
struct At {
    block: u32,
    group: u32,
}

/// What was met on the way, to be held against what the segment says of itself.
#[derive(Debug, Default)]
struct Seen {
    entries: u64,
    keys: u64,
    tombstones: u64,
    is_partial: bool,
}

fn same(one: &Error, other: &Error) -> bool {
    one.to_string() == other.to_string()
}

/// More findings of one segment tell nothing new.
const FINDINGS_MAX: usize = 100;

impl Verifier {
    pub(crate) fn new(segment: Arc<Segment>, hash_seed: u64, caches: Arc<Caches>) -> Verifier {
        let mut verifier = Verifier {
            segment,
            hash_seed,
            caches,
            next: 0,
            windows: Windows::default(),
            entries: Vec::new(),
            last: None,
            seen: Seen::default(),
            findings: Vec::new(),
        };
        let segment = Arc::clone(&verifier.segment);
        if let Some(damage) = segment.damage() {
            verifier.findings.push(damage.clone());
        }
        let (filter, range) = (segment.filter_damage(), segment.range_filter_damage());
        verifier.findings.extend(filter.cloned());
        // A filter file that cannot be opened is one damage of both.
        let is_same = |range: &&Error| filter.is_some_and(|filter| same(filter, range));
        verifier
            .findings
            .extend(range.filter(|range| !is_same(range)).cloned());
        let Ok(body) = segment.body() else {
            return verifier;
        };
        let mut damaged = Vec::new();
        if let FilterState::Ready(filter) = &body.filter {
            damaged.extend(filter.damaged_pages_on_disk());
        }
        if let RangeState::Ready(filter) = &body.range {
            damaged.extend(filter.damaged_pages_on_disk());
        }
        for (offset, what) in damaged {
            verifier.find(segment.corrupt_filter(offset, what.to_string()));
        }
        verifier
    }

    fn find(&mut self, finding: Error) {
        if self.findings.len() < FINDINGS_MAX {
            self.findings.push(finding);
        }
    }

    /// An entry here is newer than one of its key in a newer run.
    pub(crate) fn find_misplaced(&mut self) {
        let what = "an entry is newer than another of its key in a newer run";
        let finding = self.segment.corrupt(0, what);
        self.find(finding);
    }

    /// The next entry that can be read; what cannot is among the findings.
    pub(crate) fn next(&mut self) -> Option<Item> {
        loop {
            if let Some((item, at)) = self.entries.pop() {
                self.check(&item, at);
                return Some(item);
            }
            let segment = Arc::clone(&self.segment);
            let body = segment.body().ok()?;
            if self.next >= body.fences.block_count() {
                self.check_counts(body);
                return None;
            }
            let ordinal = self.next;
            self.next += 1;
            match self.load(&segment, body, ordinal) {
                Ok(entries) => self.entries = entries,
                Err(error) => {
                    self.seen.is_partial = true;
                    self.find(error);
                }
            }
        }
    }

    fn load(&mut self, segment: &Segment, body: &Body, ordinal: u32) -> Result<Vec<(Item, At)>> {
        self.windows.come_to(body, ordinal, Direction::Forward);
        let block = segment.block(body, ordinal, &self.caches, &mut LookupCost::default())?;
        let (mut entries, mut items) = (Vec::new(), Vec::new());
        for group in 0..block.shape.group_count() {
            block
                .decode(group, &mut items)
                .map_err(|what| segment.malformed_block(body, ordinal, &what))?;
            let at = At {
                block: ordinal,
                group,
            };
            entries.extend(items.drain(..).map(|item| (item, at)));
        }
        entries.reverse();
        Ok(entries)
    }

    fn check(&mut self, item: &Item, at: At) {
        let segment = Arc::clone(&self.segment);
        let Ok(body) = segment.body() else { return };
        let is_new_key = self.last.as_ref().is_none_or(|(key, _)| *key != item.key);
        self.seen.entries += 1;
        self.seen.keys += u64::from(is_new_key);
        self.seen.tombstones += u64::from(item.kind == Kind::Tombstone);
        let offset = body.fences.extent(at.block).0;
        let out_of_order = self.last.as_ref().is_some_and(|(key, sequence)| {
            key::compare((key, *sequence), (&item.key, item.sequence)).is_ge()
        });
        if out_of_order || !segment.covers(&item.key) {
            self.find(segment.corrupt(offset, "an entry is out of order"));
        }
        if item.sequence < body.properties.sequence_min {
            self.find(segment.corrupt(offset, "an entry is older than the segment says"));
        }
        // Nobody sees it before the store has given its sequence to another write.
        if item.sequence > segment.meta.sequence_max {
            self.find(segment.corrupt(offset, "an entry is newer than the manifest says"));
        }
        if is_new_key {
            self.check_way_to(&item.key, &segment, body, at);
        }
        self.last = Some((item.key.clone(), item.sequence));
    }

    /// The fences must lead to the block of the newest entry of a key, and the filter to the group
    /// as well if it names one: a lookup searches no other.
    fn check_way_to(&mut self, key: &[u8], segment: &Segment, body: &Body, at: At) {
        let offset = body.fences.extent(at.block).0;
        if body.fences.first_block_of(key) != at.block {
            self.find(segment.corrupt(offset, "the index does not lead to a key of this block"));
        }
        if self.is_passed_over(key, segment) {
            let what = format!("the range filter denies a key of the block at byte {offset}");
            self.find(segment.corrupt_filter(0, what));
        }
        let FilterState::Ready(filter) = &body.filter else {
            return;
        };
        let wanted = Wanted {
            hash: hash_key(self.hash_seed, key),
            key,
            sequence: Sequence(u64::MAX),
            fetched: None,
        };
        let mut lookup = Lookup::new(wanted, &self.caches);
        let leads_here = match Segment::lead_to(body, filter, &mut lookup) {
            Lead::Absent => false,
            Lead::Fences => true,
            // Of keys with equal hashes the filter knows the place of one.
            Lead::Block(Entrance { block, group }) => {
                let is_here = block == at.block && group.is_none_or(|group| group == at.group);
                is_here || filter.equal_hashes
            }
        };
        if !leads_here {
            let what = format!("the filter does not lead to a key of the block at byte {offset}");
            self.find(segment.corrupt_filter(0, what));
        }
    }

    /// Whether a scan would miss the key: one that asks for the key alone, or begins at it in either
    /// direction.
    fn is_passed_over(&self, key: &[u8], segment: &Segment) -> bool {
        let (caches, cost) = (&self.caches, &mut LookupCost::default());
        let only = Bound::Included(key);
        let may_hold = segment.may_hold((only, only), caches, cost);
        let next = segment.next_from(key, caches, cost);
        let previous = segment.previous_to(key, caches, cost);
        !may_hold || next.is_none_or(|next| *next > *key) || previous.is_none_or(|end| *end <= *key)
    }

    fn check_counts(&mut self, body: &Body) {
        if self.seen.is_partial {
            return;
        }
        let said = (
            body.properties.entries,
            body.properties.keys,
            body.properties.tombstones,
        );
        let seen = (self.seen.entries, self.seen.keys, self.seen.tombstones);
        if said != seen {
            let what = format!("entries, keys and tombstones are {seen:?}, not {said:?}");
            let finding = self.segment.corrupt(body.footer.properties, what);
            self.find(finding);
        }
    }
}
