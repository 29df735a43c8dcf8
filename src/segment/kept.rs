//! What stays in memory of the data that was read: whole blocks, and entries by themselves.
//!
//! Of a block that a lookup reads one entry was wanted. Kept by itself it takes about a fifteenth of the
//! memory, so that many more of the entries that are looked up often have room; a block is better where
//! its other entries are wanted as well. So blocks have the whole budget until it is used up. From then
//! on a block that a lookup reads stays only if it was read lately, as by lookups in the order of keys,
//! and its entry is offered to the [`EntryCache`]; so are, now and then, entries found in kept blocks. How
//! the budget is divided follows what a byte of each gives: every so many reads the one with more hits
//! for its bytes gets a sixteenth of the budget from the other.

use std::cell::Cell;
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};

use crate::cache::{Cache, Weigh as _};
use crate::filter::KeyHash;
use crate::lately::Lately;
use crate::striped::Striped;

use super::Block;
use super::entries::EntryCache;
use super::get::Hit;

/// The budget is divided by sixteenths; of these entries have at least one, by which they are judged,
/// and leave some to scans, which need blocks.
const PARTS: u64 = 16;
const ENTRY_PARTS: std::ops::RangeInclusive<u64> = 1..=12;

/// Blocks longer than this are kept whole at once: to read one again costs more than its room.
const DIVISIBLE_BYTES_MAX: u64 = 16 << 10;

/// Bytes of the budget for each block that is remembered as read lately: a quarter of those that fit.
const BYTES_PER_REMEMBERED: u64 = 16 << 10;
const REMEMBERED_MAX: u64 = 1 << 20;

/// The same of blocks that scans read: as many as fit, so that what is scanned over and over is kept.
const BYTES_PER_SCANNED: u64 = 4 << 10;

/// Bytes of the budget for each read from one division to the next, and at least so many reads.
const BYTES_PER_READ: u64 = 16 << 10;
const READS_MIN: u64 = 1 << 10;

/// Hits of blocks, by a thread, for each that is offered to be an entry.
const HITS_PER_OFFER: u32 = 8;

/// Data blocks and entries, within one budget.
#[derive(Debug)]
pub(crate) struct DataCache {
    pub(crate) blocks: Cache<Block>,
    pub(crate) entries: EntryCache,
    budget_bytes: u64,
    /// Bytes of blocks that were kept, until the budget is used up.
    filled_bytes: AtomicU64,
    read_lately: Lately,
    scanned_lately: Lately,
    /// Blocks that lookups read since the budget was used up. Each thread counts by itself when the budget
    /// is to be divided anew.
    reads: Striped<1>,
    division: Mutex<Division>,
}

/// How the budget is divided.
#[derive(Debug)]
struct Division {
    entry_parts: u64,
    /// Hits of blocks and of entries when it was divided.
    hits: (u64, u64),
}

impl DataCache {
    /// With a budget of zero bytes, nothing is kept.
    pub(super) fn new(budget_bytes: u64) -> DataCache {
        let remembered = (budget_bytes / BYTES_PER_REMEMBERED).min(REMEMBERED_MAX);
        let scanned = (budget_bytes / BYTES_PER_SCANNED).min(REMEMBERED_MAX);
        let entry_parts = *ENTRY_PARTS.start();
        DataCache {
            blocks: Cache::new(budget_bytes),
            entries: EntryCache::new(budget_bytes / PARTS * ENTRY_PARTS.end()),
            budget_bytes,
            filled_bytes: AtomicU64::new(0),
            read_lately: Lately::new(remembered),
            scanned_lately: Lately::new(scanned),
            reads: Striped::default(),
            division: Mutex::new(Division {
                entry_parts,
                hits: (0, 0),
            }),
        }
    }

    /// The newest entry of a key in a segment, if it is kept by itself.
    #[inline]
    pub(super) fn entry(&self, segment: u64, key: (KeyHash, &[u8])) -> Option<Hit> {
        // Where all blocks have room, nobody looks for entries.
        if self.has_room() {
            return None;
        }
        self.entries.get(segment, key)
    }

    /// Keeps a block.
    pub(super) fn keep(&self, place: (u64, u64), block: Block) {
        if self.has_room() {
            // Relaxed: when exactly the budget is used up does not matter.
            self.filled_bytes
                .fetch_add(block.weight_bytes(), Ordering::Relaxed);
        }
        self.blocks.insert(place, block);
    }

    /// Whether a block that is read for one entry shall be kept.
    pub(super) fn wants(&self, place: (u64, u64), len: u64) -> bool {
        if self.has_room() || len > DIVISIBLE_BYTES_MAX {
            return true;
        }
        let reads = self.reads.mine().before_adding(0, 1);
        if reads.is_multiple_of((self.budget_bytes / BYTES_PER_READ).max(READS_MIN)) {
            self.divide();
        }
        self.read_lately.again(place)
    }

    /// Whether an entry that was found in a kept block shall be offered to be kept by itself: now and
    /// then, so that a block of which only that one is wanted can go.
    pub(super) fn wants_entry_of_kept(&self) -> bool {
        thread_local! {
            static HITS: Cell<u32> = const { Cell::new(0) };
        }
        !self.has_room() && {
            let hits = HITS.get().wrapping_add(1);
            HITS.set(hits);
            hits.is_multiple_of(HITS_PER_OFFER)
        }
    }

    /// Whether a block that is read for a scan shall be kept.
    pub(super) fn wants_scanned(&self, place: (u64, u64)) -> bool {
        self.has_room() || self.scanned_lately.again(place)
    }

    /// Whether the budget has not been used up yet. One of nothing never is.
    fn has_room(&self) -> bool {
        self.budget_bytes == 0 || self.filled_bytes.load(Ordering::Relaxed) < self.budget_bytes
    }

    /// Gives a part of the budget to where a byte has had more hits since the last time.
    fn divide(&self) {
        // Who comes while another is at it has nothing to do.
        let Ok(mut division) = self.division.try_lock() else {
            return;
        };
        let hits = (
            self.blocks.hits_and_misses().0,
            self.entries.cache.hits_and_misses().0,
        );
        let since = (
            u128::from(hits.0.wrapping_sub(division.hits.0)),
            u128::from(hits.1.wrapping_sub(division.hits.1)),
        );
        let (block_bytes, _) = self.blocks.bytes_and_capacity();
        let (entry_bytes, entry_capacity) = self.entries.cache.bytes_and_capacity();
        // What is not filled yet cannot be judged.
        if entry_bytes >= entry_capacity / 8 * 7 {
            let of_blocks = since.0 * u128::from(entry_bytes);
            let of_entries = since.1 * u128::from(block_bytes);
            let parts = division.entry_parts;
            // Without a margin, equals would hand a part to and fro.
            let parts = if of_entries * 4 > of_blocks * 5 {
                parts + 1
            } else if of_blocks * 4 > of_entries * 5 {
                parts - 1
            } else {
                parts
            };
            division.entry_parts = parts.clamp(*ENTRY_PARTS.start(), *ENTRY_PARTS.end());
        }
        division.hits = hits;
        let of_entries = self.budget_bytes / PARTS * division.entry_parts;
        // The one that gives away first.
        if of_entries >= entry_capacity {
            self.blocks.set_capacity(self.budget_bytes - of_entries);
            self.entries.cache.set_capacity(of_entries);
        } else {
            self.entries.cache.set_capacity(of_entries);
            self.blocks.set_capacity(self.budget_bytes - of_entries);
        }
    }
}
