//! A blocked Bloom filter that grows while it is read: the filter of a memtable.
//!
//! Invariants:
//! 1. Bits are only ever set, so "absent" is final for a key that was inserted before the question.
//! 2. Bits are read and set with relaxed order. The filter does not publish keys, the memtable does:
//!    a writer inserts the hash *before* it makes the entry reachable with a release store, and a
//!    reader that was to see the entry has made an acquire load of what that store wrote (the entry
//!    itself or the sequence number it reads at). That pair orders the bits too. A reader without such
//!    a load may miss an entry that is being written at that moment, as it may in the memtable itself.
#![expect(unsafe_code, reason = "memory is taken as it comes, zeroed")]

use std::sync::atomic::{AtomicU64, Ordering};

use super::KeyHash;
use super::blocked::{LINE_WORDS, line_count, probes};
use super::math::best_probes;
use crate::hash::{mix, start_of};

/// A lock-free filter over key hashes; a lookup touches one cache line.
///
/// More keys than expected raise the false-positive rate, nothing else. It never reaches the disk.
#[doc(alias = "bloom")]
#[derive(Debug)]
pub struct MemoryBloom {
    words: Box<[AtomicU64]>,
    /// Words before the first line, which begins a cache line as all others do.
    skip: usize,
    line_count: u32,
    probe_count: u8,
}

/// Bits for each key that a memtable can hold, ...
const TABLE_BITS_PER_KEY: f64 = 12.0;
/// ... and the number of probes that is best then.
const TABLE_PROBES: u8 = 8;

impl MemoryBloom {
    /// A filter for about `expected_keys` keys at `bits_per_key` (1.0 to 64.0; what lies outside is
    /// moved to the nearest bound).
    #[must_use]
    pub fn new(expected_keys: usize, bits_per_key: f64) -> Self {
        let keys = expected_keys.max(1) as u64;
        let line_count = line_count(keys, bits_per_key);
        Self::with_probes(line_count, best_probes(keys, u64::from(line_count)))
    }

    /// One of 12 bits for each key that is expected, for memtables: there is a new one with every memtable, and to
    /// find the best number of probes takes longer than to open a small store.
    pub fn of_table(expected_keys: usize) -> Self {
        let keys = expected_keys.max(1) as u64;
        Self::with_probes(line_count(keys, TABLE_BITS_PER_KEY), TABLE_PROBES)
    }

    fn with_probes(line_count: u32, probe_count: u8) -> Self {
        let words = zeros((line_count as usize + 1) * LINE_WORDS);
        let bytes = words.as_ptr().addr().wrapping_neg() % size_of::<[AtomicU64; LINE_WORDS]>();
        Self {
            skip: bytes / size_of::<AtomicU64>(),
            words,
            line_count,
            probe_count,
        }
    }

    /// Remembers a key. Call it before the entry becomes reachable (invariant 2).
    #[inline]
    pub fn insert(&self, hash: KeyHash) {
        let mixed = mix(hash, 0);
        let words = self.line(mixed);
        for (word, mask) in probes(mixed, self.probe_count) {
            // Keys written again are common: a line that has the bit stays shared between processors.
            if words[word].load(Ordering::Relaxed) & mask == 0 {
                words[word].fetch_or(mask, Ordering::Relaxed);
            }
        }
    }

    /// The same for the only one who inserts: no other thread does meanwhile, or bits are lost.
    ///
    /// An addition that others may disturb makes the processor wait for all memory before it: without
    /// eight of them, a put takes 4 to 7 % less.
    #[inline]
    pub fn insert_alone(&self, hash: KeyHash) {
        let mixed = mix(hash, 0);
        let words = self.line(mixed);
        for (word, mask) in probes(mixed, self.probe_count) {
            let before = words[word].load(Ordering::Relaxed);
            words[word].store(before | mask, Ordering::Relaxed);
        }
    }

    /// Whether a key may have been inserted; `false` is certain.
    #[inline]
    #[must_use]
    pub fn may_contain(&self, hash: KeyHash) -> bool {
        let mixed = mix(hash, 0);
        let words = self.line(mixed);
        probes(mixed, self.probe_count)
            .all(|(word, mask)| words[word].load(Ordering::Relaxed) & mask != 0)
    }

    /// Bytes of memory held, without the handle itself.
    #[must_use]
    pub fn bytes(&self) -> usize {
        size_of_val::<[AtomicU64]>(&self.words)
    }

    #[inline]
    fn line(&self, mixed: u64) -> &[AtomicU64; LINE_WORDS] {
        let line = start_of(mixed, u64::from(self.line_count)) as usize;
        let words = self.words[self.skip + line * LINE_WORDS..].first_chunk();
        // There is at least one line, as at least one key is expected, and words for one more.
        words.expect("a line lies within the words")
    }
}

/// Zeroed by the system as they are used: all at once, they would be the longest of many writes.
fn zeros(words: usize) -> Box<[AtomicU64]> {
    let words = Box::<[AtomicU64]>::new_zeroed_slice(words);
    // SAFETY: an atomic number has the representation of the number, and zero is one.
    unsafe { words.assume_init() }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn hash(i: u64) -> KeyHash {
        KeyHash(mix(KeyHash(i), 4242))
    }

    #[test]
    #[cfg_attr(miri, ignore = "a rate needs more keys than Miri can insert")]
    fn nothing_inserted_is_denied() {
        let filter = MemoryBloom::new(50_000, 10.0);
        for i in 0..50_000 {
            filter.insert(hash(i));
        }
        assert!((0..50_000).all(|i| filter.may_contain(hash(i))));
        let hits = (0..200_000)
            .filter(|i| filter.may_contain(hash(1 << 40 | i)))
            .count();
        // Expected 0.0095 * 200 000 = 1900; six standard deviations are 260.
        assert!((1640..=2190).contains(&hits), "{hits}");
    }

    #[test]
    fn a_new_filter_is_zeros_in_whole_cache_lines() {
        for keys in [1, 100, 10_000, 1_000_000] {
            let filter = MemoryBloom::new(keys, 10.0);
            let words: Vec<u64> = filter
                .words
                .iter()
                .map(|w| w.load(Ordering::Relaxed))
                .collect();
            assert_eq!(words, vec![0; words.len()]);
            for mixed in [0, u64::MAX / 2, u64::MAX] {
                assert_eq!(filter.line(mixed).as_ptr().addr() % 64, 0);
            }
        }
    }

    #[test]
    fn the_probes_of_tables_are_the_best() {
        for keys in [4096, 100_000, 10_000_000] {
            let best = MemoryBloom::new(keys, TABLE_BITS_PER_KEY);
            let table = MemoryBloom::of_table(keys);
            assert_eq!(table.probe_count, best.probe_count, "{keys} keys");
            assert_eq!(table.bytes(), best.bytes());
        }
    }

    #[test]
    fn any_size_works() {
        for (keys, bits) in [(0, 10.0), (1, 0.0), (1, f64::NAN), (3, f64::INFINITY)] {
            let filter = MemoryBloom::new(keys, bits);
            assert!(!filter.may_contain(hash(1)));
            filter.insert(hash(1));
            assert!(filter.may_contain(hash(1)));
            assert_eq!(filter.bytes() % 64, 0);
        }
        assert_eq!(MemoryBloom::new(512, 10.5).bytes(), (11 + 1) * 64);
    }

    #[test]
    fn readers_see_what_writers_have_published() {
        const KEYS: u64 = if cfg!(miri) { 100 } else { 10_000 };
        let filter = MemoryBloom::new(4 * KEYS as usize, 12.0);
        let published: [AtomicU64; 4] = Default::default();
        std::thread::scope(|scope| {
            for (writer, count) in published.iter().enumerate() {
                let filter = &filter;
                scope.spawn(move || {
                    for i in 0..KEYS {
                        filter.insert(hash((writer as u64) << 32 | i));
                        count.store(i + 1, Ordering::Release);
                    }
                });
            }
            scope.spawn(|| {
                let mut finished = 0;
                while finished < published.len() {
                    finished = 0;
                    for (writer, count) in published.iter().enumerate() {
                        let seen = count.load(Ordering::Acquire);
                        finished += usize::from(seen == KEYS);
                        for i in seen.saturating_sub(50)..seen {
                            assert!(filter.may_contain(hash((writer as u64) << 32 | i)));
                        }
                    }
                }
            });
        });
        assert!((0..KEYS).all(|i| filter.may_contain(hash(3 << 32 | i))));
    }
}
