//! The keys that came most often, by name.
//!
//! Metwally, Agrawal, El Abbadi, "Efficient computation of frequent and top-k elements in data
//! streams" (2005), section 3.1: `k` counters. A key that has one raises it; any other key takes
//! over the least counter, name and all, and adds to what it says. So no count is too low, none is
//! too high by more than the least counter, which is at most `N / k` (lemma 3.3), and every key
//! that came more than `N / k` times has a counter (theorem 3.5). Each counter also knows by how
//! much it may be too high: what it said when its key took over.
//!
//! Memory: the bytes of `k` keys and about 100 more for each. An insertion costs a hash table
//! lookup and `log2 k` steps in a heap (the paper's list of buckets would save these for counts of
//! one).
//!
//! It has to name keys, so it takes keys and not their hashes, as
//! [`MisraGries`](super::MisraGries) does, which counts from below.
//!
//! Merging (Agarwal, Cormode, Huang, Phillips, Wei, Yi, "Mergeable summaries", 2012, section 3)
//! keeps the bounds for both streams together, but is not the summary of both in one: which of
//! several rare keys hold the last counters depends on the order.

use std::collections::HashMap;
use std::sync::Arc;

use crate::Merge;
use crate::error::{Error, Result};
use crate::family::frame;

use super::sizing::{check_cells, check_open, invalid};

const KIND: frame::Kind = *b"SPSV";
const VERSION: u8 = 1;

/// Most counters.
const COUNTERS_MAX: usize = 1 << 28;

/// The most frequent keys of a stream.
///
/// Formulas, use, what was measured and what it costs: `docs/filters/space-saving.md`.
///
/// ```
/// use criba_filters::SpaceSaving;
///
/// let mut top = SpaceSaving::with_error(0.01)?; // 100 counters
/// for word in "the quick brown fox jumps over the lazy dog".split(' ') {
///     top.insert(word);
/// }
/// assert_eq!(top.top(1)[0].key, b"the");
/// assert_eq!(top.estimate("the"), (2, 0));
/// # Ok::<(), criba_filters::Error>(())
/// ```
#[doc(alias = "heavy hitters")]
#[derive(Clone, Debug)]
pub struct SpaceSaving {
    capacity: usize,
    total: u64,
    /// A heap: no counter says less than the one at half its place.
    heap: Vec<Slot>,
    /// Place in the heap of every key that has a counter.
    places: HashMap<Arc<[u8]>, usize>,
}

/// A key and how often it came.
///
/// ```
/// use criba_filters::{Counter, SpaceSaving};
///
/// let mut top = SpaceSaving::with_counters(1)?;
/// ["apple", "apple", "melon"].map(|key| top.insert(key));
/// // The only counter was taken over, with what it said.
/// let counter = Counter { key: b"melon".to_vec(), count: 3, error: 2 };
/// assert_eq!(top.top(10), [counter]);
/// # Ok::<(), criba_filters::Error>(())
/// ```
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Counter {
    /// The key.
    pub key: Vec<u8>,
    /// How often it came, at most.
    pub count: u64,
    /// By how much that may be too high.
    pub error: u64,
}

#[derive(Clone, Debug)]
struct Slot {
    key: Arc<[u8]>,
    count: u64,
    error: u64,
}

impl SpaceSaving {
    /// A summary in which no count is too high by more than `epsilon` times the length of the
    /// stream: `ceil(1 / epsilon)` counters.
    ///
    /// # Errors
    ///
    /// If `epsilon` is not above 0 and below 1, or more than 2^28 counters would be needed.
    pub fn with_error(epsilon: f64) -> Result<SpaceSaving> {
        check_open("the error", epsilon)?;
        let counters = check_cells("counters", (1.0 / epsilon).ceil())?;
        SpaceSaving::with_counters(usize::try_from(counters).unwrap_or(usize::MAX))
    }

    /// A summary of so many counters, 1 to 2^28. Memory is taken as keys come.
    ///
    /// # Errors
    ///
    /// If the number is out of its bounds.
    pub fn with_counters(counters: usize) -> Result<SpaceSaving> {
        if !(1..=COUNTERS_MAX).contains(&counters) {
            return Err(invalid(format!(
                "{counters} counters cannot be had: ask for 1 to {COUNTERS_MAX}"
            )));
        }
        Ok(SpaceSaving {
            capacity: counters,
            total: 0,
            heap: Vec::new(),
            places: HashMap::new(),
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

    fn add_bytes(&mut self, key: &[u8], count: u64) {
        self.total = self.total.saturating_add(count);
        if let Some(&place) = self.places.get(key) {
            self.heap[place].count = self.heap[place].count.saturating_add(count);
            self.sink(place);
            return;
        }
        let key: Arc<[u8]> = key.into();
        if self.heap.len() < self.capacity {
            self.push(Slot {
                key,
                count,
                error: 0,
            });
            return;
        }
        let least = &mut self.heap[0];
        let error = least.count;
        let count = error.saturating_add(count);
        let taken = std::mem::replace(
            least,
            Slot {
                key: key.clone(),
                count,
                error,
            },
        );
        self.places.remove(&taken.key);
        self.places.insert(key, 0);
        self.sink(0);
    }

    /// How often the key came, and by how much that may be too high. A key without a counter came
    /// at most as often as the least counter says.
    #[must_use]
    pub fn estimate(&self, key: impl AsRef<[u8]>) -> (u64, u64) {
        match self.places.get(key.as_ref()) {
            Some(&place) => (self.heap[place].count, self.heap[place].error),
            None => (self.least(), self.least()),
        }
    }

    /// The keys with the greatest counts, in their order: at most `k`, and not more than there are
    /// counters. Keys of one count are in their own order.
    #[must_use]
    pub fn top(&self, k: usize) -> Vec<Counter> {
        let mut slots: Vec<&Slot> = self.heap.iter().collect();
        slots.sort_unstable_by(|one, other| (other.count, &one.key).cmp(&(one.count, &other.key)));
        let counter = |slot: &&Slot| Counter {
            key: slot.key.to_vec(),
            count: slot.count,
            error: slot.error,
        };
        slots.iter().take(k).map(counter).collect()
    }

    /// What no count is too high by more than, and what a key without a counter came at most: 0
    /// while there are counters left, then the least counter.
    #[must_use]
    pub fn least(&self) -> u64 {
        match self.heap.first() {
            Some(least) if self.heap.len() == self.capacity => least.count,
            _ => 0,
        }
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

    /// Bytes of memory, about: those of the keys and those of counters and table.
    #[must_use]
    pub fn memory_bytes(&self) -> usize {
        /// The two counts that an `Arc` keeps beside the bytes.
        const COUNTS: usize = 16;
        let keys: usize = self.heap.iter().map(|slot| slot.key.len() + COUNTS).sum();
        // The table holds an entry and a byte of control for each place.
        let table = self.places.capacity() * (size_of::<(Arc<[u8]>, usize)>() + 1);
        size_of::<Self>() + keys + table + self.heap.capacity() * size_of::<Slot>()
    }

    /// The summary as bytes: 24 for its size, total and number of keys, and for each key 20 and its
    /// own bytes, framed.
    #[must_use]
    pub fn to_bytes(&self) -> Vec<u8> {
        let mut payload = Vec::new();
        payload.extend((self.capacity as u64).to_le_bytes());
        payload.extend(self.total.to_le_bytes());
        payload.extend((self.heap.len() as u64).to_le_bytes());
        for slot in self.top(self.capacity) {
            payload.extend(slot.count.to_le_bytes());
            payload.extend(slot.error.to_le_bytes());
            payload.extend((slot.key.len() as u64).to_le_bytes());
            payload.extend(slot.key);
        }
        frame::encode(KIND, VERSION, &payload)
    }

    /// Reads what [`to_bytes`](Self::to_bytes) wrote.
    ///
    /// # Errors
    ///
    /// [`Error::Unreadable`](crate::Error::Unreadable) for anything else.
    pub fn from_bytes(bytes: &[u8]) -> Result<SpaceSaving> {
        let mut fields = frame::decode(KIND, VERSION, bytes)?;
        let capacity = fields.u64("the number of counters is cut short")?;
        let capacity = usize::try_from(capacity).unwrap_or(usize::MAX);
        let broken = |_| Error::field("the number of counters is out of bounds");
        let mut summary = SpaceSaving::with_counters(capacity).map_err(broken)?;
        summary.total = fields.u64("the total is cut short")?;
        let used = fields.u64("the number of keys is cut short")?;
        frame::require(used <= capacity as u64, "there are more keys than counters")?;
        let mut slots = Vec::new();
        for _ in 0..used {
            let count = fields.u64("a count is cut short")?;
            let error = fields.u64("an error is cut short")?;
            frame::require(error <= count, "an error is greater than its count")?;
            let length = fields.u64("the length of a key is cut short")?;
            let key = fields.bytes(length, "a key is cut short")?.into();
            slots.push(Slot { key, count, error });
        }
        fields.end()?;
        slots.into_iter().rev().for_each(|slot| summary.push(slot));
        let are_distinct = summary.places.len() == summary.heap.len();
        frame::require(are_distinct, "a key is there twice")?;
        Ok(summary)
    }

    /// Adds a counter for a new key.
    fn push(&mut self, slot: Slot) {
        let mut place = self.heap.len();
        self.places.insert(slot.key.clone(), place);
        self.heap.push(slot);
        while place > 0 {
            let parent = (place - 1) / 2;
            if self.heap[parent].count <= self.heap[place].count {
                break;
            }
            self.swap(parent, place);
            place = parent;
        }
    }

    /// Restores the order of the heap below a place whose count has grown.
    fn sink(&mut self, mut place: usize) {
        loop {
            let count = |place: usize| self.heap.get(place).map(|slot| slot.count);
            let (left, right) = (2 * place + 1, 2 * place + 2);
            let least = match (count(left), count(right)) {
                (Some(one), Some(other)) if other < one => right,
                (Some(_), _) => left,
                (None, _) => return,
            };
            if self.heap[place].count <= self.heap[least].count {
                return;
            }
            self.swap(place, least);
            place = least;
        }
    }

    fn swap(&mut self, one: usize, other: usize) {
        self.heap.swap(one, other);
        for place in [one, other] {
            if let Some(known) = self.places.get_mut(&self.heap[place].key) {
                *known = place;
            }
        }
    }
}

impl Merge for SpaceSaving {
    /// Counts and bounds hold for both streams together.
    fn merge(&mut self, other: &Self) -> Result<()> {
        if self.capacity != other.capacity {
            return Err(invalid(format!(
                "{} counters cannot be merged with {}: make both for one error",
                self.capacity, other.capacity
            )));
        }
        let (least, others_least) = (self.least(), other.least());
        let mut all: Vec<Slot> = self.heap.drain(..).collect();
        for slot in &mut all {
            let (count, error) = match other.places.get(&slot.key) {
                Some(&place) => (other.heap[place].count, other.heap[place].error),
                None => (others_least, others_least),
            };
            slot.count = slot.count.saturating_add(count);
            slot.error = slot.error.saturating_add(error);
        }
        for slot in &other.heap {
            if !self.places.contains_key(&slot.key) {
                all.push(Slot {
                    key: slot.key.clone(),
                    count: slot.count.saturating_add(least),
                    error: slot.error.saturating_add(least),
                });
            }
        }
        all.sort_unstable_by(|one, other| (other.count, &one.key).cmp(&(one.count, &other.key)));
        all.truncate(self.capacity);
        self.places.clear();
        all.into_iter().rev().for_each(|slot| self.push(slot));
        self.total = self.total.saturating_add(other.total);
        Ok(())
    }
}

impl PartialEq for SpaceSaving {
    /// Whether both have seen as much and count the same keys alike.
    fn eq(&self, other: &SpaceSaving) -> bool {
        (self.capacity, self.total) == (other.capacity, other.total)
            && self.top(self.capacity) == other.top(other.capacity)
    }
}

impl Eq for SpaceSaving {}
