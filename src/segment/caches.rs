//! What stays in memory of what was read: whole blocks, entries by themselves, pages of filters.
//!
//! Of a block that a lookup reads one entry was wanted. Kept by itself it takes about a fifteenth
//! of the memory, so that many more of the entries that are looked up often have room; a block is
//! better where its other entries are wanted as well. So blocks have the whole budget until it is
//! used up. From then on a block that a lookup reads stays only if it was read lately, as by
//! lookups in the order of keys, and its entry is offered to the [`EntryCache`]; so are, now and
//! then, entries found in kept blocks.
//!
//! Pages of filters are pinned elsewhere, or have a budget of their own here, or a part of this
//! one. How it is divided once it is used up is the matter of [`CacheBudget`].

use std::cell::Cell;
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};

use crate::cache::{Cache, CacheKey, Weigh};
use crate::doorkeeper::Doorkeeper;
use crate::options::FilterResidency;
use crate::sharded_counter::ShardedCounter;
use criba_filters::KeyHash;

use super::block::Block;
use super::cache_budget::{BLOCKS, CacheBudget, ENTRIES, KINDS, PAGES, PARTS, PARTS_MAX, Use};
use super::entry_cache::EntryCache;
use super::filter_page::FilterPage;
use super::groups::Room;
use super::outcome::Hit;

/// Blocks longer than this are kept whole at once: to read one again costs more than its room.
const DIVISIBLE_BYTES_MAX: u64 = 16 << 10;

/// Bytes of the budget for each block that is remembered as read lately: a quarter of those that
/// fit.
const BYTES_PER_REMEMBERED: u64 = 16 << 10;
const REMEMBERED_MAX: u64 = 1 << 20;

/// The same of blocks that scans read: as many as fit, so that what is scanned over and over is
/// kept.
const BYTES_PER_SCANNED: u64 = 4 << 10;

/// Bytes of the budget for each read from one division to the next, and at least so many reads.
const BYTES_PER_READ: u64 = 16 << 10;
const READS_MIN: u64 = 1 << 10;

/// Hits of blocks, by a thread, for each that is offered to be an entry.
const HITS_PER_OFFER: u32 = 8;

/// What all segments of a store share while they are read.
#[derive(Debug)]
pub(crate) struct Caches {
    pub(crate) blocks: Cache<Block>,
    pub(crate) entries: EntryCache,
    pub(crate) pages: Cache<FilterPage>,
    /// For what is known of groups. What it takes is subtracted from the budget at each division.
    pub(super) group_room: Room,
    /// Pages are within the budget of the others.
    shares_with_pages: bool,
    budget_bytes: u64,
    /// Bytes that were kept, until the budget is used up.
    filled_bytes: AtomicU64,
    read_lately: Doorkeeper,
    scanned_lately: Doorkeeper,
    /// Blocks and shared pages that were read since the budget was used up. Each thread counts by
    /// itself when the budget is to be divided anew.
    reads: ShardedCounter<1>,
    /// None before the budget is used up.
    division: Mutex<Option<CacheBudget>>,
}

impl Caches {
    /// With a budget of zero bytes, nothing is kept.
    pub(crate) fn new(budget_bytes: u64, residency: FilterResidency) -> Caches {
        let remembered = (budget_bytes / BYTES_PER_REMEMBERED).min(REMEMBERED_MAX);
        let scanned = (budget_bytes / BYTES_PER_SCANNED).min(REMEMBERED_MAX);
        let page_bytes = match residency {
            FilterResidency::Pinned => 0,
            FilterResidency::Cached { bytes } => bytes,
            FilterResidency::Shared => budget_bytes,
        };
        Caches {
            blocks: Cache::new(budget_bytes),
            entries: EntryCache::new(budget_bytes / PARTS * PARTS_MAX[ENTRIES]),
            pages: Cache::new(page_bytes),
            group_room: Room::of_budget(budget_bytes),
            shares_with_pages: residency == FilterResidency::Shared,
            budget_bytes,
            filled_bytes: AtomicU64::new(0),
            read_lately: Doorkeeper::new(remembered),
            scanned_lately: Doorkeeper::new(scanned),
            reads: ShardedCounter::default(),
            division: Mutex::default(),
        }
    }

    /// Nothing is kept.
    pub(crate) fn none() -> Caches {
        Caches::new(0, FilterResidency::Pinned)
    }

    /// The newest entry of a key in a segment, if it is kept by itself.
    #[inline]
    pub(super) fn entry(&self, segment: u64, hash: KeyHash, key: &[u8]) -> Option<Hit> {
        // Where all blocks have room, nobody looks for entries.
        if self.has_room() {
            return None;
        }
        self.entries.get(segment, hash, key)
    }

    /// Keeps a block.
    pub(super) fn keep(&self, place: CacheKey, block: Block) {
        self.fill(&block);
        self.blocks.insert(place, block);
    }

    /// Keeps a page of a filter that was read.
    pub(super) fn keep_page(&self, place: CacheKey, page: FilterPage) {
        if self.shares_with_pages {
            if !self.has_room() {
                self.count_read();
            }
            self.fill(&page);
        }
        self.pages.insert(place, page);
    }

    /// Whether a block that is read for one entry shall be kept.
    pub(super) fn wants(&self, place: CacheKey, len: u64) -> bool {
        if self.has_room() || len > DIVISIBLE_BYTES_MAX {
            return true;
        }
        self.count_read();
        self.read_lately.again(place)
    }

    /// Whether an entry that was found in a kept block shall be offered to be kept by itself: now
    /// and then, so that a block of which only that one is wanted can go.
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
    pub(super) fn wants_scanned(&self, place: CacheKey) -> bool {
        if self.has_room() {
            return true;
        }
        // Scans have no use for entries and pages, which may be in the way of blocks.
        self.count_read();
        self.scanned_lately.again(place)
    }

    /// Whether the budget has not been used up yet. One of nothing never is.
    fn has_room(&self) -> bool {
        self.budget_bytes == 0 || self.filled_bytes.load(Ordering::Relaxed) < self.budget_bytes
    }

    fn fill(&self, kept: &impl Weigh) {
        if self.has_room() {
            // Relaxed: when exactly the budget is used up does not matter.
            self.filled_bytes
                .fetch_add(kept.weight_bytes(), Ordering::Relaxed);
        }
    }

    fn count_read(&self) {
        let reads = self.reads.mine().before_adding(0, 1);
        if reads.is_multiple_of((self.budget_bytes / BYTES_PER_READ).max(READS_MIN)) {
            self.divide();
        }
    }

    fn divide(&self) {
        // Who comes while another is at it has nothing to do.
        let Ok(mut division) = self.division.try_lock() else {
            return;
        };
        let mut uses = [Use::default(); KINDS];
        uses[BLOCKS] = use_of(&self.blocks);
        uses[ENTRIES] = use_of(&self.entries.cache);
        uses[PAGES] = use_of(&self.pages);
        let budget_bytes = self.budget_bytes - self.group_room.taken_bytes();
        let division = match &mut *division {
            Some(division) => {
                division.set_budget(budget_bytes);
                division.hand_on(uses);
                division
            }
            none => none.insert(CacheBudget::first(
                budget_bytes,
                uses,
                self.shares_with_pages,
            )),
        };
        let bytes = division.bytes();
        // Those that give away first.
        for is_turn_of_givers in [true, false] {
            set_capacity(&self.blocks, bytes[BLOCKS], is_turn_of_givers);
            set_capacity(&self.entries.cache, bytes[ENTRIES], is_turn_of_givers);
            if self.shares_with_pages {
                set_capacity(&self.pages, bytes[PAGES], is_turn_of_givers);
            }
        }
    }
}

fn use_of<V: Weigh + Clone>(cache: &Cache<V>) -> Use {
    Use {
        hits: cache.hits_and_misses().0,
        bytes: cache.bytes_and_capacity().0,
    }
}

fn set_capacity<V: Weigh + Clone>(cache: &Cache<V>, bytes: u64, only_less: bool) {
    if !only_less || bytes < cache.bytes_and_capacity().1 {
        cache.set_capacity(bytes);
    }
}
