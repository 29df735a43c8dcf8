//! `--seen store`: the store's own filters say "certainly new" without the disk; what they cannot
//! rule out is looked up.
//!
//! A lookup is a `Db::explain`: the same lookup as `Db::get`, with an account of what it asked.

use criba::{Db, Explanation, Outcome, Source};

use crate::failure::Failure;
use crate::summary::SeenCounts;

use super::{Seen, read_id};

pub(super) struct InStore {
    db: Db,
    /// Probability with which "certainly new" is not believed.
    doubt: f64,
    random: u64,
}

impl InStore {
    pub(super) fn new(db: Db, doubt: f64) -> InStore {
        InStore {
            db,
            doubt,
            random: 0x9e37_79b9_7f4a_7c15,
        }
    }

    /// Whether to doubt this time (xorshift, Marsaglia 2003).
    fn doubts(&mut self) -> bool {
        if self.doubt <= 0.0 {
            return false;
        }
        self.random ^= self.random << 13;
        self.random ^= self.random >> 7;
        self.random ^= self.random << 17;
        (self.random >> 11) as f64 / (1_u64 << 53) as f64 <= self.doubt
    }
}

impl Seen for InStore {
    fn find(&mut self, key: &[u8], counts: &mut SeenCounts) -> Result<Option<u64>, Failure> {
        let lookup = self.db.explain(key)?;
        let certainly_new = account(&lookup, counts);
        if certainly_new && self.doubts() {
            // A false positive, made up: the answer must come from the data. Iterators ask no
            // filter.
            counts.answered_by_filter -= 1;
            counts.verified_on_disk += 1;
            counts.false_positives += 1;
            counts.forced += 1;
            return match self.db.range(key..=key).next() {
                Some(entry) => read_id(&entry?.1).map(Some),
                None => Ok(None),
            };
        }
        lookup.value.map(|value| read_id(&value)).transpose()
    }

    fn learn(&mut self, _key: &[u8], _id: u64) -> Result<(), Failure> {
        Ok(())
    }
}

/// Adds what a lookup took; whether it found "certainly new" without a data block.
fn account(lookup: &Explanation, counts: &mut SeenCounts) -> bool {
    let blocks = lookup.data_blocks();
    let from_cache: u64 = lookup.steps.iter().map(|step| step.from_cache).sum();
    counts.blocks += blocks;
    counts.disk_reads += blocks + lookup.filter_pages() - from_cache;
    counts.blocks_without_filters += lookup.blocks_without_filters;
    let vain = lookup
        .steps
        .iter()
        .filter(|step| step.outcome == Outcome::FalsePositive);
    counts.false_positives += vain.count() as u64;
    let from_memtable = lookup.steps.last().is_some_and(|step| {
        step.outcome == Outcome::Found
            && matches!(
                step.source,
                Source::ActiveMemtable | Source::SealedMemtable(_)
            )
    });
    match (blocks, &lookup.value) {
        (0, None) => counts.answered_by_filter += 1,
        _ if from_memtable => counts.answered_by_memtable += 1,
        _ => counts.verified_on_disk += 1,
    }
    blocks == 0 && lookup.value.is_none()
}
