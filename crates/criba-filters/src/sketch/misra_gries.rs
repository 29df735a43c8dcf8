//! The keys that came most often, by name, never counted too high.
//!
//! Misra, Gries, "Finding repeated elements" (1982): `k` counters. A key that has one raises it, and
//! any other key takes a free one. Where none is free, all counters are lowered by one, that of the new
//! key included, and those at 0 become free. Each such step takes `k + 1` of the stream away, so there
//! are at most `N / (k + 1)` of them: no count is too low by more, none is too high, and every key that
//! came more often than that has a counter.
//!
//! Memory: the bytes of `k` keys and some 60 more for each. An insertion costs a hash table lookup. The
//! passes that lower all counters cost `k` steps each, and `k + 1` insertions have paid for each, so
//! that is a constant for each insertion. Where [`add`](MisraGries::add) is called with large counts, a
//! call may take a pass of its own.
//!
//! Merging (Agarwal, Cormode, Huang, Phillips, Wei, Yi, "Mergeable summaries", 2012, section 3): counts
//! of both are added, then the one at place `k + 1` is taken from all. The bound holds for both streams
//! together. The same paper shows that the summary is that of [`SpaceSaving`](super::SpaceSaving) with
//! one counter more, whose least count is taken from all others.

use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::sync::Arc;

use crate::Merge;
use crate::error::{Error, Result};
use crate::family::frame;

use super::sizing::{check_cells, check_open, invalid};

const KIND: frame::Kind = *b"MIGR";
const VERSION: u8 = 1;

/// Most counters.
const COUNTERS_MAX: usize = 1 << 28;

/// The most frequent keys of a stream, with counts that are never too high.
///
/// Formulas, use, what was measured and what it costs: `docs/filters/misra-gries.md`.
///
/// ```
/// use criba_filters::MisraGries;
///
/// let mut top = MisraGries::with_error(0.25)?; // 3 counters
/// for word in "a b a c a d a e".split(' ') {
///     top.insert(word);
/// }
/// // "a" came four times.
/// assert!(top.estimate("a") <= 4 && top.estimate("a") + top.error() >= 4);
/// assert_eq!(top.top(1)[0].0, b"a");
/// # Ok::<(), criba_filters::Error>(())
/// ```
#[doc(alias = "heavy hitters")]
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct MisraGries {
    capacity: usize,
    total: u64,
    /// By how much all counters have been lowered.
    lowered: u64,
    /// Invariant: at most `capacity`, none of them 0.
    counts: HashMap<Arc<[u8]>, u64>,
}

impl MisraGries {
    /// A summary in which no count is too low by more than `epsilon` times the length of the
    /// stream: `ceil(1 / epsilon) - 1` counters.
    ///
    /// # Errors
    ///
    /// If `epsilon` is not above 0 and below 1, or more than 2^28 counters would be needed.
    pub fn with_error(epsilon: f64) -> Result<MisraGries> {
        check_open("the error", epsilon)?;
        let counters = check_cells("counters", (1.0 / epsilon).ceil() - 1.0)?;
        MisraGries::with_counters(usize::try_from(counters).unwrap_or(usize::MAX))
    }

    /// A summary of so many counters, 1 to 2^28. Memory is taken as keys come.
    ///
    /// # Errors
    ///
    /// If the number is out of its bounds.
    pub fn with_counters(counters: usize) -> Result<MisraGries> {
        if !(1..=COUNTERS_MAX).contains(&counters) {
            return Err(invalid(format!(
                "{counters} counters cannot be had: ask for 1 to {COUNTERS_MAX}"
            )));
        }
        Ok(MisraGries {
            capacity: counters,
            total: 0,
            lowered: 0,
            counts: HashMap::new(),
        })
    }

    /// Counts a key once.
    pub fn insert(&mut self, key: impl AsRef<[u8]>) {
        self.add_bytes(key.as_ref(), 1);
    }

    /// Counts a key so many times.
    pub fn add(&mut self, key: impl AsRef<[u8]>, count: u64) {
        self.add_bytes(key.as_ref(), count);
    }

    fn add_bytes(&mut self, key: &[u8], mut count: u64) {
        self.total = self.total.saturating_add(count);
        if let Some(own) = self.counts.get_mut(key) {
            *own = own.saturating_add(count);
            return;
        }
        if self.counts.len() == self.capacity {
            let least = self.counts.values().min().copied().unwrap_or(0);
            let step = least.min(count);
            self.lower(step);
            count -= step;
        }
        // A counter is free now, or nothing is left to count.
        if count > 0 {
            self.counts.insert(key.into(), count);
        }
    }

    /// Takes so much from all counters.
    fn lower(&mut self, step: u64) {
        self.lowered = self.lowered.saturating_add(step);
        self.counts.retain(|_, count| {
            *count = count.saturating_sub(step);
            *count > 0
        });
    }

    /// How often the key came, at least: 0 for a key without a counter. It came at most
    /// [`error`](Self::error) times more often.
    #[must_use]
    pub fn estimate(&self, key: impl AsRef<[u8]>) -> u64 {
        self.counts.get(key.as_ref()).copied().unwrap_or(0)
    }

    /// What no count is too low by more than: at most the length of the stream over one more than
    /// the counters.
    #[must_use]
    pub fn error(&self) -> u64 {
        self.lowered
    }

    /// The keys with the greatest counts, in their order, each with its count: at most `k`, and not
    /// more than there are counters. Keys of one count are in their own order.
    #[must_use]
    pub fn top(&self, k: usize) -> Vec<(Vec<u8>, u64)> {
        let sorted = self.sorted();
        let sorted = sorted.into_iter().take(k);
        sorted.map(|(key, count)| (key.to_vec(), count)).collect()
    }

    /// All keys, the greatest count first, then by key.
    fn sorted(&self) -> Vec<(&[u8], u64)> {
        let pairs = self.counts.iter().map(|(key, count)| (&**key, *count));
        let mut all: Vec<(&[u8], u64)> = pairs.collect();
        all.sort_unstable_by(|one, other| (other.1, one.0).cmp(&(one.1, other.0)));
        all
    }

    /// The length of the stream.
    #[must_use]
    pub fn total(&self) -> u64 {
        self.total
    }

    /// The number of counters.
    #[must_use]
    pub fn counters(&self) -> usize {
        self.capacity
    }

    /// Bytes of memory, about: those of the keys and those of the table.
    #[must_use]
    pub fn memory_bytes(&self) -> usize {
        /// The two counts that an `Arc` keeps beside the bytes.
        const COUNTS: usize = 16;
        let keys: usize = self.counts.keys().map(|key| key.len() + COUNTS).sum();
        // The table holds an entry and a byte of control for each place.
        let table = self.counts.capacity() * (size_of::<(Arc<[u8]>, u64)>() + 1);
        size_of::<Self>() + keys + table
    }

    /// The summary as bytes: 32 for its size, total, error and number of keys, and for each key 16
    /// and its own bytes, framed.
    #[must_use]
    pub fn to_bytes(&self) -> Vec<u8> {
        let mut payload = Vec::new();
        payload.extend((self.capacity as u64).to_le_bytes());
        payload.extend(self.total.to_le_bytes());
        payload.extend(self.lowered.to_le_bytes());
        payload.extend((self.counts.len() as u64).to_le_bytes());
        for (key, count) in self.sorted() {
            payload.extend(count.to_le_bytes());
            payload.extend((key.len() as u64).to_le_bytes());
            payload.extend(key);
        }
        frame::encode(KIND, VERSION, &payload)
    }

    /// Reads what [`to_bytes`](Self::to_bytes) wrote.
    ///
    /// # Errors
    ///
    /// [`Error::Unreadable`](crate::Error::Unreadable) for anything else.
    pub fn from_bytes(bytes: &[u8]) -> Result<MisraGries> {
        let mut fields = frame::decode(KIND, VERSION, bytes)?;
        let capacity = fields.u64("the number of counters is cut short")?;
        let capacity = usize::try_from(capacity).unwrap_or(usize::MAX);
        let broken = |_| Error::field("the number of counters is out of bounds");
        let mut summary = MisraGries::with_counters(capacity).map_err(broken)?;
        summary.total = fields.u64("the total is cut short")?;
        summary.lowered = fields.u64("the error is cut short")?;
        let used = fields.u64("the number of keys is cut short")?;
        frame::require(used <= capacity as u64, "there are more keys than counters")?;
        let mut last: Option<(u64, &[u8])> = None;
        for _ in 0..used {
            let count = fields.u64("a count is cut short")?;
            frame::require(count > 0, "a count is 0")?;
            let length = fields.u64("the length of a key is cut short")?;
            let key = fields.bytes(length, "a key is cut short")?;
            let follows = |(before, other): (u64, &[u8])| (count, other) < (before, key);
            frame::require(last.is_none_or(follows), "keys are not in their order")?;
            last = Some((count, key));
            summary.counts.insert(key.into(), count);
        }
        fields.end()?;
        let are_distinct = summary.counts.len() as u64 == used;
        frame::require(are_distinct, "a key is there twice")?;
        frame::require(summary.adds_up(), "counts are more than the stream")?;
        Ok(summary)
    }

    /// Whether the counts and what was taken from them are at most the stream. A total that has
    /// reached its end says nothing.
    fn adds_up(&self) -> bool {
        let counted: u128 = self.counts.values().map(|count| u128::from(*count)).sum();
        let lost = u128::from(self.lowered) * (self.capacity as u128 + 1);
        self.total == u64::MAX || counted + lost <= u128::from(self.total)
    }
}

impl Merge for MisraGries {
    /// Counts and bound hold for both streams together.
    #[expect(
        clippy::iter_over_hash_type,
        reason = "sums do not depend on the order of keys"
    )]
    fn merge(&mut self, other: &Self) -> Result<()> {
        if self.capacity != other.capacity {
            return Err(invalid(format!(
                "{} counters cannot be merged with {}: make both for one error",
                self.capacity, other.capacity
            )));
        }
        for (key, count) in &other.counts {
            match self.counts.entry(key.clone()) {
                Entry::Occupied(mut own) => *own.get_mut() = own.get().saturating_add(*count),
                Entry::Vacant(place) => _ = place.insert(*count),
            }
        }
        self.lowered = self.lowered.saturating_add(other.lowered);
        self.total = self.total.saturating_add(other.total);
        if self.counts.len() > self.capacity {
            let mut counts: Vec<u64> = self.counts.values().copied().collect();
            // The greatest that has no counter.
            let (_, next, _) =
                counts.select_nth_unstable_by(self.capacity, |one, other| other.cmp(one));
            let step = *next;
            self.lower(step);
        }
        Ok(())
    }
}
