//! A B+ tree of entries that is read while one thread inserts, without locks.
//!
//! Nodes are only ever added to ([`Leaf::publish`]); where one has no room, two new ones take its
//! place in the node above: first the right one is added there, then the left one takes the place
//! of the old. A reader that still is in the old node finds all that was there when it came, and
//! what came later it must not see anyway: it reads at a sequence. When the old node is given new
//! slots, a reader that still is in it notices, and begins again at the root.
//! A leaf is marked as divided before its right half is added above: a walk takes that half once.
//!
//! Invariants:
//! 1. The least entry of a node is the separator that stands for it in the node above; only the
//!    first node of each height has none ([`EntryRef::NONE`]) and may hold lesser ones.
//! 2. All keys of a node begin with the same bytes, as its two separators do; its heads are those
//!    behind this prefix, or behind a part of it. A node at an edge of the tree lacks a separator:
//!    its prefix is what all keys of the tree have in common, and when one comes that begins
//!    otherwise, the nodes at the edges are made anew before.
//! 3. Entries are never removed, so the entry after the last of a leaf is the next separator.
//! 4. A node is recycled when nothing that can be reached from the root names its generation.

use std::cmp::Ordering;
use std::sync::Weak;

use crate::arena::Spares;
use crate::key::Sequence;

use super::entries::{Entries, Entry, EntryRef};
use super::node::{Inner, Leaf, NodeRef, Order, Prefix, head};
use super::pool::Pool;
use super::sync::{AtomicU64, Memory, OnceLock, SLOTS, spin_loop};

/// Bytes that all keys may be known to begin with: more tell them no better apart.
pub(super) const COMMON_BYTES_MAX: usize = 64;

/// A place between entries: before those that are not less.
#[derive(Clone, Copy, Debug)]
pub(super) struct Target<'a> {
    pub(super) key: &'a [u8],
    pub(super) sequence: Sequence,
}

/// Before this entry.
pub(super) fn at(entry: Entry<'_>) -> Target<'_> {
    Target {
        key: entry.key(),
        sequence: entry.sequence,
    }
}

/// Neighbouring entries of a leaf, ascending.
#[derive(Debug)]
pub(super) struct Part {
    entries: [EntryRef; SLOTS],
    len: usize,
    /// The entry after the last of the leaf; there may be none.
    pub(super) after: Option<EntryRef>,
}

impl Part {
    fn of(leaf: &Leaf, order: Order, positions: std::ops::Range<usize>, high: EntryRef) -> Part {
        let mut part = Part {
            entries: [EntryRef::NONE; SLOTS],
            len: positions.len(),
            after: high.some(),
        };
        for (place, position) in part.entries.iter_mut().zip(positions) {
            *place = leaf.entry(order.slot(position));
        }
        part
    }

    pub(super) fn entries(&self) -> &[EntryRef] {
        &self.entries[..self.len]
    }
}

#[derive(Debug)]
pub(super) struct Tree {
    pub(super) entries: Entries,
    pub(super) leaves: Pool<Leaf>,
    pub(super) inners: Pool<Inner>,
    /// How the first key began that was inserted, and how all others do as far as nodes say.
    pub(super) beginning: OnceLock<Box<[u8]>>,
    /// One more than the name of the root, 0 if there is none.
    root: AtomicU64,
}

impl Tree {
    pub(super) fn new(spares: Weak<Spares>) -> Tree {
        Tree {
            entries: Entries::new(spares),
            leaves: Pool::new(),
            inners: Pool::new(),
            beginning: OnceLock::new(),
            root: AtomicU64::new(0),
        }
    }

    #[inline]
    pub(super) fn is_empty(&self) -> bool {
        self.root().is_none()
    }

    #[inline]
    pub(super) fn entry(&self, entry: EntryRef) -> Entry<'_> {
        self.entries.get(entry)
    }

    /// Begins to fetch entries that will be read one after the other.
    pub(super) fn prefetch(&self, entries: &[EntryRef]) {
        for entry in entries {
            self.entries.prefetch(*entry);
        }
    }

    #[inline]
    pub(super) fn root(&self) -> Option<NodeRef> {
        let name = self.root.load(Memory::Acquire);
        name.checked_sub(1).map(NodeRef::from_u64)
    }

    pub(super) fn set_root(&self, node: NodeRef) {
        self.root.store(node.to_u64() + 1, Memory::Release);
    }

    /// Whether a separator or an entry stands before the target.
    #[inline]
    pub(super) fn is_before(&self, entry: EntryRef, target: Target<'_>) -> bool {
        entry == EntryRef::NONE
            || self
                .entry(entry)
                .compare(target.key, target.sequence)
                .is_lt()
    }

    #[inline]
    fn is_not_after(&self, least: EntryRef, target: Target<'_>) -> bool {
        least == EntryRef::NONE
            || self
                .entry(least)
                .compare(target.key, target.sequence)
                .is_le()
    }

    /// Children whose separators are not after the target.
    #[inline]
    pub(super) fn children_up_to(&self, inner: &Leaf, order: Order, target: Target<'_>) -> usize {
        self.partition((inner, order), target.key, |least| {
            self.is_not_after(least, target)
        })
    }

    /// Entries of a leaf, or separators of children, that stand before the target.
    #[inline]
    pub(super) fn entries_before(&self, leaf: &Leaf, order: Order, target: Target<'_>) -> usize {
        self.partition((leaf, order), target.key, |entry| {
            self.is_before(entry, target)
        })
    }

    /// [`Leaf::partition`] for a key that may begin otherwise than those of the node.
    #[inline]
    fn partition(
        &self,
        (node, order): (&Leaf, Order),
        key: &[u8],
        tie: impl Fn(EntryRef) -> bool,
    ) -> usize {
        let prefix = node.prefix();
        match self.compare_beginning(key, prefix) {
            Ordering::Equal => node.partition(order, head(key, prefix.bytes), tie),
            // But for a first child without a separator.
            Ordering::Less => usize::from(node.entry(order.slot(0)) == EntryRef::NONE),
            Ordering::Greater => order.len(),
        }
    }

    /// Whether a key stands before or behind all keys of a node because it begins otherwise.
    #[inline]
    pub(super) fn compare_beginning(&self, key: &[u8], prefix: Prefix) -> Ordering {
        if !prefix.is_of_all {
            return Ordering::Equal;
        }
        let bytes = usize::from(prefix.bytes);
        let common = self.beginning.get().and_then(|all| all.get(..bytes));
        let common = common.unwrap_or_default();
        if key.starts_with(common) {
            return Ordering::Equal;
        }
        key.cmp(common)
    }

    /// Goes down to the leaf below the last child of so many as `count` says, and reads it and the
    /// separator behind it. `None` in an empty tree.
    #[inline]
    fn read<R>(
        &self,
        count: impl Fn(&Leaf, Order) -> usize,
        read: impl Fn(&Leaf, EntryRef) -> R,
    ) -> Option<R> {
        loop {
            let root = self.root()?;
            if let Some(found) = self.read_below(root, &count, &read) {
                return Some(found);
            }
            spin_loop();
        }
    }

    /// `None` when a node was replaced on the way and it is not sure where it leads.
    #[inline]
    fn read_below<R>(
        &self,
        mut node: NodeRef,
        count: &impl Fn(&Leaf, Order) -> usize,
        read: &impl Fn(&Leaf, EntryRef) -> R,
    ) -> Option<R> {
        let mut high = EntryRef::NONE;
        while node.is_inner {
            let inner = self.inners.get(node.number);
            let order = inner.leaf.order();
            let count = count(&inner.leaf, order);
            if count < order.len() {
                high = inner.leaf.entry(order.slot(count));
            }
            let child = inner.child(order.slot(count.saturating_sub(1)));
            // A child that is the left half of another was put there after the right half: whoever
            // sees it sees the order in which that is.
            if inner.leaf.order() != order || !inner.leaf.is_still(node.generation) {
                return None;
            }
            node = child;
        }
        let leaf = self.leaves.get(node.number);
        let found = read(leaf, high);
        leaf.is_still(node.generation).then_some(found)
    }

    /// The first entry that is not before the target.
    #[inline]
    pub(super) fn first(&self, target: Target<'_>) -> Option<EntryRef> {
        let first = |leaf: &Leaf, high: EntryRef| {
            let order = leaf.order();
            let position = self.entries_before(leaf, order, target);
            if position < order.len() {
                return Some(leaf.entry(order.slot(position)));
            }
            high.some()
        };
        self.read(
            |inner, order| self.children_up_to(inner, order, target),
            first,
        )
        .flatten()
    }

    /// Entries of a leaf that are not before the target, the first there is among them or right
    /// behind. `None` in an empty tree.
    pub(super) fn from(&self, target: Target<'_>) -> Option<Part> {
        let from = |leaf: &Leaf, high: EntryRef| {
            let order = leaf.order();
            let position = self.entries_before(leaf, order, target);
            // The right half of a leaf that is being divided may be reached already, and then its
            // separator stands here: the entries from there on come with that half.
            let end = match high.some() {
                Some(high) if order.is_divided() => {
                    self.entries_before(leaf, order, at(self.entry(high)))
                }
                _ => order.len(),
            };
            Part::of(leaf, order, position..end.max(position), high)
        };
        self.read(
            |inner, order| self.children_up_to(inner, order, target),
            from,
        )
    }

    /// Entries of a leaf before the target, or before the end of all, the last there is among
    /// them. None if there are none in the tree.
    pub(super) fn before(&self, target: Option<Target<'_>>) -> Option<Part> {
        let count = |node: &Leaf, order: Order| {
            target.map_or(order.len(), |target| {
                self.entries_before(node, order, target)
            })
        };
        self.read(count, |leaf, high| {
            let order = leaf.order();
            Part::of(leaf, order, 0..count(leaf, order), high)
        })
    }
}
