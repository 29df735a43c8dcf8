//! The nodes of the tree: fifteen sorted slots that are read while one is added.
//!
//! Slots are written once, in the order in which they come; which of them are in use and how they
//! are sorted says one word, the *order*, that is replaced in a single store. So a reader sees the
//! node before a change or after it, never in between, and never waits. (The idea is that of the
//! permutation in Mao, Kohler, Morris, "Cache craftiness for fast multicore key-value storage",
//! 2012, section 4.6.2.)
//!
//! A slot begins with the *head* of its key: eight bytes of it behind the prefix that all keys of
//! the node share. Two keys that differ there are told apart without a look at the entry.

use std::sync::atomic::{AtomicU32, AtomicU64, Ordering as Memory};

use super::entries::EntryRef;

/// Slots of a node: what fits the order, 4 bits each and 4 for their number.
pub(super) const SLOTS: usize = 15;

/// Which slots are in use, sorted.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(super) struct Order(u64);

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

    /// With one slot more, at this position; there are at most 14.
    pub(super) fn insert(self, position: usize, slot: usize) -> Order {
        let at = 4 + 4 * position as u32;
        let below = self.0 & ((1 << at) - 1);
        // At the last position nothing is above, and the shift would be one of 64 bits.
        let above = (self.0 >> at).checked_shl(at + 4).unwrap_or(0);
        Order((below | (slot as u64) << at | above) + 1)
    }

    /// With another slot at this position.
    pub(super) fn replace(self, position: usize, slot: usize) -> Order {
        let at = 4 + 4 * position as u32;
        Order(self.0 & !(15 << at) | (slot as u64) << at)
    }

    pub(super) fn slots(self) -> impl Iterator<Item = usize> {
        (0..self.len()).map(move |position| self.slot(position))
    }
}

/// Eight bytes of a key from `prefix` on, as a number that is sorted as they are. Of shorter keys
/// what is missing counts as zeros.
#[inline]
pub(super) fn head(key: &[u8], prefix: usize) -> u64 {
    let rest = key.get(prefix..).unwrap_or_default();
    if let Some(bytes) = rest.first_chunk() {
        return u64::from_le_bytes(*bytes).swap_bytes();
    }
    let shifted = rest
        .iter()
        .fold(0_u64, |head, &byte| head << 8 | u64::from(byte));
    // Of an empty rest nothing is left to shift.
    shifted.checked_shl(64 - 8 * rest.len() as u32).unwrap_or(0)
}

/// A leaf, whose slots are entries; or what an inner node has in common with it, where they are
/// the least entries below each child.
#[derive(Debug, Default)]
#[repr(align(64))]
pub(super) struct Leaf {
    order: AtomicU64,
    prefix: AtomicU32,
    /// Slots written so far; only the writer looks.
    used: AtomicU32,
    heads: [AtomicU64; SLOTS],
    entries: [AtomicU64; SLOTS],
}

impl Leaf {
    #[inline]
    pub(super) fn order(&self) -> Order {
        Order(self.order.load(Memory::Acquire))
    }

    /// From now on readers see the slots in this order.
    pub(super) fn publish(&self, order: Order) {
        self.order.store(order.0, Memory::Release);
    }

    #[inline]
    pub(super) fn prefix(&self) -> usize {
        self.prefix.load(Memory::Relaxed) as usize
    }

    /// Before the first slot is written.
    pub(super) fn set_prefix(&self, prefix: usize) {
        // Keys are shorter than 64 KiB.
        self.prefix.store(prefix as u32, Memory::Relaxed);
    }

    /// Slots that can still be written.
    pub(super) fn room(&self) -> usize {
        SLOTS - self.used.load(Memory::Relaxed) as usize
    }

    /// Writes the next slot and returns its number; readers do not see it yet. There is room.
    pub(super) fn add(&self, head: u64, entry: EntryRef) -> usize {
        let used = self.used.load(Memory::Relaxed);
        let slot = used as usize;
        self.heads[slot].store(head, Memory::Relaxed);
        self.entries[slot].store(entry.to_u64(), Memory::Relaxed);
        self.used.store(used + 1, Memory::Relaxed);
        slot
    }

    #[inline]
    pub(super) fn head(&self, slot: usize) -> u64 {
        self.heads[slot].load(Memory::Relaxed)
    }

    #[inline]
    pub(super) fn entry(&self, slot: usize) -> EntryRef {
        EntryRef::from_u64(self.entries[slot].load(Memory::Relaxed))
    }

    /// How many slots come first of which it is true that they stand before something whose head
    /// is `head`: those with a lesser head, and of those with the same one as `tie` says.
    #[inline]
    pub(super) fn partition(
        &self,
        order: Order,
        head: u64,
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
    children: [AtomicU32; SLOTS],
}

impl Inner {
    #[inline]
    pub(super) fn child(&self, slot: usize) -> u32 {
        self.children[slot].load(Memory::Relaxed)
    }

    /// Writes the next slot: see [`Leaf::add`].
    pub(super) fn add(&self, head: u64, (least, child): (EntryRef, u32)) -> usize {
        let slot = self.leaf.add(head, least);
        self.children[slot].store(child, Memory::Relaxed);
        slot
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_order_is_a_list_of_slots() {
        let mut twin: Vec<usize> = Vec::new();
        let mut order = Order::default();
        for slot in 0..SLOTS {
            let position = slot * 7 % (twin.len() + 1);
            twin.insert(position, slot);
            order = order.insert(position, slot);
            assert_eq!(order.slots().collect::<Vec<_>>(), twin);
        }
        assert_eq!(order.len(), SLOTS);
        twin[14] = 3;
        twin[0] = 14;
        let replaced = order.replace(14, 3).replace(0, 14);
        assert_eq!(replaced.slots().collect::<Vec<_>>(), twin);
        let first = Order::first(15);
        assert_eq!(
            first.slots().collect::<Vec<_>>(),
            (0..15).collect::<Vec<_>>()
        );
    }

    #[test]
    fn heads_are_sorted_as_keys() {
        let keys: [&[u8]; 7] = [
            b"",
            b"\0",
            b"a",
            b"a\0b",
            b"abcdefgh",
            b"abcdefgi",
            b"b\xff\xff\xff\xff\xff\xff\xff\xff",
        ];
        assert!(keys.is_sorted_by_key(|key| head(key, 0)));
        assert_eq!(head(b"", 0), 0);
        assert_eq!(head(b"abc", 7), 0);
        assert_eq!(head(b"xyab", 2), 0x6162 << 48);
        assert_eq!(head(b"xyabcdefghij", 2), 0x6162_6364_6566_6768);
    }
}
