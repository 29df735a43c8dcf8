//! The store answers: filters say "certainly new" without the disk, and what they cannot rule out is
//! looked up.
//!
//! A lookup is a `Keyspace::explain`: the same lookup as `get`, with an account of what it asked.

use criba::{Explanation, FilterOutcome, Keyspace, Outcome, Source};

use super::{Seen, SeenCounts};
use crate::error::Error;
use crate::store::{Store, read_id};

/// The seen set of the store.
#[derive(Debug)]
pub struct InStore {
    seen: Keyspace,
    doubt: f64,
    random: u64,
}

impl InStore {
    /// Asks the store.
    pub fn new(store: &Store) -> InStore {
        InStore::doubting(store, 0.0)
    }

    /// Asks the store, and does not believe a part of the answers "certainly new", 0 to 1: these
    /// are looked up in the data. So one sees what false positives cost, and that they lose nothing.
    pub fn doubting(store: &Store, part: f64) -> InStore {
        InStore {
            seen: store.seen.clone(),
            doubt: part,
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
    fn find(&mut self, key: &[u8], counts: &mut SeenCounts) -> Result<Option<u64>, Error> {
        let lookup = self.seen.explain(key)?;
        let answer = answer(&lookup);
        count(&lookup, counts);
        if matches!(answer, Answer::Filter | Answer::Ranges) && self.doubts() {
            // A false positive, made up: the answer must come from the data. Iterators ask no
            // filter.
            counts.verified_on_disk += 1;
            counts.false_positives += 1;
            counts.forced += 1;
            return match self.seen.range(key..=key).next() {
                Some(entry) => read_id(&entry?.1).map(Some),
                None => Ok(None),
            };
        }
        *match answer {
            Answer::Memtable => &mut counts.answered_by_memtable,
            Answer::Ranges => &mut counts.answered_by_ranges,
            Answer::Filter => &mut counts.answered_by_filter,
            Answer::Disk => &mut counts.verified_on_disk,
        } += 1;
        lookup.value.map(|value| read_id(&value)).transpose()
    }
}

/// Where a lookup ended.
enum Answer {
    Memtable,
    /// No segment could have the key.
    Ranges,
    Filter,
    Disk,
}

fn answer(lookup: &Explanation) -> Answer {
    let last = lookup.steps.last();
    let in_memtable = last.is_some_and(|step| {
        let memtable = matches!(
            step.source,
            Source::ActiveMemtable | Source::SealedMemtable(_)
        );
        memtable && step.outcome == Outcome::Found
    });
    let refuted = lookup
        .steps
        .iter()
        .any(|step| matches!(step.filter, FilterOutcome::No | FilterOutcome::Refuted));
    match (lookup.data_blocks(), refuted) {
        _ if in_memtable => Answer::Memtable,
        (0, true) => Answer::Filter,
        (0, false) => Answer::Ranges,
        _ => Answer::Disk,
    }
}

/// Adds what a lookup took.
fn count(lookup: &Explanation, counts: &mut SeenCounts) {
    let blocks = lookup.data_blocks();
    counts.blocks += blocks;
    counts.blocks_without_filters += lookup.blocks_without_filters;
    for step in &lookup.steps {
        counts.disk_reads += step.data_blocks + step.filter_pages - step.from_cache;
        counts.false_positives += u64::from(step.outcome == Outcome::FalsePositive);
        counts.filters_asked += u64::from(step.filter != FilterOutcome::NotAsked);
    }
}
