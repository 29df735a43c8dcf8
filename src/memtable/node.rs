//! The nodes of the tree: fourteen sorted slots that are read while one is added.
//!
//! Slots are written once, in the order in which they come; which of them are in use and how they
//! are sorted says one word, the *order*, that is replaced in a single store. So a reader sees the
//! node before a change or after it, never in between, and never waits. (The idea is that of the
//! permutation in Mao, Kohler, Morris, "Cache craftiness for fast multicore key-value storage",
//! 2012, section 4.6.2.)
//!
//! A slot begins with the *head* of its key: four bytes of it behind the [`Prefix`] that all keys
//! of the node share. Two keys that differ there are told apart without a look at the entry.
//!
//! A node whose slots others have taken over is *recycled*: it gets another generation first and
//! other slots then. Whoever read it looks at the generation afterwards, and if it is another,
//! what was read counts for nothing (a sequence lock; the orderings are those of Boehm, "Can
//! seqlocks get along with programming language memory models?", 2012, section 4). Names of
//! entries and nodes are valid whenever they are read, so that nothing worse can come of it.

use crate::key::MAX_KEY_BYTES;
use criba_filters::prefetch;

use super::entries::EntryRef;
use super::sync::{AtomicBool, AtomicU8, AtomicU16, AtomicU32, AtomicU64, Memory, SLOTS, fence};

/// The name of a node as it was when it was named: its number, which of two kinds it is, and its
/// generation.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct NodeRef {
    pub(super) number: u32,
    pub(super) is_inner: bool,
    pub(super) generation: u32,
}

/// Nodes of a kind that can be named: more than there can be entries, which take 12 bytes of 16 GiB.
pub(super) const NODES_MAX: u32 = 1 << 31;

/// The bit of a name that says that it is of an inner node.
const INNER: u64 = NODES_MAX as u64;

impl NodeRef {
    pub(super) fn from_u64(name: u64) -> NodeRef {
        NodeRef {
            number: (name & (INNER - 1)) as u32,
            is_inner: name & INNER != 0,
            generation: (name >> 32) as u32,
        }
    }

    pub(super) fn to_u64(self) -> u64 {
        let kind = if self.is_inner { INNER } else { 0 };
        u64::from(self.generation) << 32 | kind | u64::from(self.number)
    }
}

/// The bytes that all keys of a node begin with: how many.
///
/// Heads are made behind the very prefix that the node has, and looked for behind it: its length is
/// exact. Two bytes hold the length of any key.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Prefix {
    pub(super) bytes: u16,
    /// All keys of the tree begin with them, and not because they lie between these of that node: a key
    /// that is looked for there may begin otherwise.
    pub(super) is_of_all: bool,
}

const _: () = assert!(MAX_KEY_BYTES <= u16::MAX as usize);

/// Which slots are in use, sorted.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(super) struct Order(u64);

/// The bit of an order that marks a leaf as divided; the slots leave it free.
const DIVIDED: u64 = 1 << 63;

impl Order {
    /// The first `count` slots as they are.
    pub(super) fn first(count: usize) -> Order {
        (0..count).fold(Order::default(), |order, slot| order.insert(slot, slot))
    }

    #[inline]
    pub(super) fn len(self) -> usize {
        (self.0 & 15) as usize
    }

    /// The slot at a position below [`Order::len`].
    #[inline]
    pub(super) fn slot(self, position: usize) -> usize {
        (self.0 >> (4 + 4 * position)) as usize & 15
    }

    /// With one slot more, at this position; there are fewer than [`SLOTS`].
    pub(super) fn insert(self, position: usize, slot: usize) -> Order {
        let at = 4 + 4 * position as u32;
        let below = self.0 & ((1 << at) - 1);
        let above = (self.0 >> at) << (at + 4);
        Order((below | (slot as u64) << at | above) + 1)
    }

    /// The same slots, of a leaf whose halves are about to take its place.
    pub(super) fn divided(self) -> Order {
        Order(self.0 | DIVIDED)
    }

    #[inline]
    pub(super) fn is_divided(self) -> bool {
        self.0 & DIVIDED != 0
    }

    pub(super) fn slots(self) -> impl Iterator<Item = usize> {
        (0..self.len()).map(move |position| self.slot(position))
    }
}

/// Four bytes of a key from `prefix` on, as a number that is sorted as they are. Of shorter keys
/// what is missing counts as zeros.
#[inline]
pub(super) fn head(key: &[u8], prefix: u16) -> u32 {
    let rest = key.get(usize::from(prefix)..).unwrap_or_default();
    if let Some(bytes) = rest.first_chunk() {
        return u32::from_le_bytes(*bytes).swap_bytes();
    }
    let shifted = rest
        .iter()
        .fold(0_u32, |head, &byte| head << 8 | u32::from(byte));
    // Of an empty rest nothing is left to shift.
    shifted.checked_shl(32 - 8 * rest.len() as u32).unwrap_or(0)
}

/// A leaf, whose slots are entries; or what an inner node has in common with it, where they are
/// the least entries below each child.
#[derive(Debug, Default)]
#[repr(align(64))]
pub(super) struct Leaf {
    order: AtomicU64,
    generation: AtomicU32,
    /// The [`Prefix`], which changes only together with the generation.
    prefix_bytes: AtomicU16,
    prefix_is_of_all: AtomicBool,
    /// Slots written so far; only the writer looks.
    used: AtomicU8,
    heads: [AtomicU32; SLOTS],
    entries: [AtomicU32; SLOTS],
}

impl Leaf {
    /// Whether it is still of this generation, and what was read of it before is sound.
    #[inline]
    pub(super) fn is_still(&self, generation: u32) -> bool {
        fence(Memory::Acquire);
        self.generation.load(Memory::Relaxed) == generation
    }

    pub(super) fn generation(&self) -> u32 {
        self.generation.load(Memory::Relaxed)
    }

    /// Makes it an empty node of the next generation, which there must be.
    pub(super) fn recycle(&self) {
        self.generation
            .store(self.generation() + 1, Memory::Relaxed);
        // Whoever sees what is written from here on sees the new generation, too.
        fence(Memory::Release);
        self.used.store(0, Memory::Relaxed);
    }

    /// Begins to fetch it.
    #[inline]
    pub(super) fn prefetch(&self) {
        prefetch(std::slice::from_ref(&self.order), 0, 1);
        prefetch(&self.entries, SLOTS - 1, 1);
    }

    #[inline]
    pub(super) fn order(&self) -> Order {
        Order(self.order.load(Memory::Acquire))
    }

    /// From now on readers see the slots in this order.
    pub(super) fn publish(&self, order: Order) {
        self.order.store(order.0, Memory::Release);
    }

    #[inline]
    pub(super) fn prefix(&self) -> Prefix {
        Prefix {
            bytes: self.prefix_bytes.load(Memory::Relaxed),
            is_of_all: self.prefix_is_of_all.load(Memory::Relaxed),
        }
    }

    /// Before the first slot is written.
    pub(super) fn set_prefix(&self, prefix: Prefix) {
        self.prefix_bytes.store(prefix.bytes, Memory::Relaxed);
        self.prefix_is_of_all
            .store(prefix.is_of_all, Memory::Relaxed);
    }

    /// Slots that can still be written.
    pub(super) fn room(&self) -> usize {
        SLOTS - usize::from(self.used.load(Memory::Relaxed))
    }

    /// Writes the next slot and returns its number; readers do not see it yet. There is room.
    pub(super) fn add(&self, head: u32, entry: EntryRef) -> usize {
        let used = self.used.load(Memory::Relaxed);
        let slot = usize::from(used);
        self.heads[slot].store(head, Memory::Relaxed);
        // In a recycled node it may be seen before the order: so must be the entry.
        self.entries[slot].store(entry.to_u32(), Memory::Release);
        self.used.store(used + 1, Memory::Relaxed);
        slot
    }

    #[inline]
    pub(super) fn head(&self, slot: usize) -> u32 {
        self.heads[slot].load(Memory::Relaxed)
    }

    #[inline]
    pub(super) fn entry(&self, slot: usize) -> EntryRef {
        EntryRef::from_u32(self.entries[slot].load(Memory::Acquire))
    }

    /// How many slots come first of which it is true that they stand before something whose head
    /// is `head`: those with a lesser head, and of those with the same one as `tie` says.
    #[inline]
    pub(super) fn partition(
        &self,
        order: Order,
        head: u32,
        tie: impl Fn(EntryRef) -> bool,
    ) -> usize {
        let (mut first, mut len) = (0, order.len());
        while len > 0 {
            let half = len / 2;
            let slot = order.slot(first + half);
            let found = self.head(slot);
            if found < head || (found == head && tie(self.entry(slot))) {
                first += half + 1;
                len -= half + 1;
            } else {
                len = half;
            }
        }
        first
    }
}

/// A node above others.
#[derive(Debug, Default)]
pub(super) struct Inner {
    pub(super) leaf: Leaf,
    children: [AtomicU64; SLOTS],
}

impl Inner {
    /// Ordered before what is read of this node later.
    #[inline]
    pub(super) fn child(&self, slot: usize) -> NodeRef {
        NodeRef::from_u64(self.children[slot].load(Memory::Acquire))
    }

    /// Writes the next slot: see [`Leaf::add`].
    pub(super) fn add(&self, head: u32, (least, child): (EntryRef, NodeRef)) -> usize {
        let slot = self.leaf.add(head, least);
        self.set_child(slot, child);
        slot
    }

    pub(super) fn set_child(&self, slot: usize, child: NodeRef) {
        self.children[slot].store(child.to_u64(), Memory::Release);
    }
}
