//! A B+ tree of entries that is read while one thread inserts, without locks or retries.
//!
//! Nodes are only ever added to ([`Leaf::publish`]); where one has no room, new ones take its
//! place in the node above, again by the store of one word, up to the root. A reader that still
//! is in the old node finds all that was there when it came, and what came later it must not see
//! anyway: it reads at a sequence. Nodes are freed with the table.
//!
//! Invariants:
//! 1. The least entry of a node is the separator that stands for it in the node above; only the
//!    first node of each height has none ([`EntryRef::NONE`]) and may hold lesser ones.
//! 2. All keys of a node begin with the same bytes, as its two separators do; its heads are those
//!    behind this prefix, or behind a part of it.
//! 3. Entries are never removed, so the entry after the last of a leaf is the next separator.

use std::sync::atomic::{AtomicU64, Ordering as Memory};

use crate::key::{Kind, Sequence};

use super::entries::{Adder, Entries, Entry, EntryRef};
use super::node::{Inner, Leaf, Order, SLOTS, head};
use super::pool::Pool;

/// Children up to which a node without room is written anew by itself; with more it is split.
const REWRITTEN_MAX: usize = 12;

/// A place between entries: before those that are not less.
#[derive(Clone, Copy, Debug)]
pub(super) struct Target<'a> {
    pub(super) key: &'a [u8],
    pub(super) sequence: Sequence,
}

/// The root and its height: leaves have height 0.
#[derive(Clone, Copy, Debug)]
struct Root {
    height: u32,
    node: u32,
}

impl Root {
    fn from_u64(number: u64) -> Option<Root> {
        // The word is one more than both halves, so that 0 stands for no root.
        let number = number.checked_sub(1)?;
        Some(Root {
            height: (number >> 32) as u32,
            node: number as u32,
        })
    }

    fn to_u64(self) -> u64 {
        (u64::from(self.height) << 32 | u64::from(self.node)) + 1
    }
}

/// The separators around a node.
#[derive(Clone, Copy, Debug)]
struct Fences {
    low: EntryRef,
    high: EntryRef,
}

impl Fences {
    const NONE: Fences = Fences {
        low: EntryRef::NONE,
        high: EntryRef::NONE,
    };
}

/// An entry of a leaf, or the least one of a child.
#[derive(Clone, Copy, Debug)]
struct Slot {
    head: u64,
    entry: EntryRef,
}

/// Heads that differ in their first four bytes tell a node's keys apart well enough.
const TOLD_APART: u32 = 32;

/// A part of a leaf, in order: entries from a place on, or up to it.
#[derive(Debug)]
pub(super) struct Found<'a> {
    leaf: &'a Leaf,
    order: Order,
    /// Position in the leaf of the first entry that is not before the target.
    position: usize,
    /// The entry after the last of the leaf, or [`EntryRef::NONE`].
    high: EntryRef,
}

impl Found<'_> {
    /// The first entry that is not before the target.
    pub(super) fn next(&self) -> Option<EntryRef> {
        if self.position < self.order.len() {
            return Some(self.leaf.entry(self.order.slot(self.position)));
        }
        (self.high != EntryRef::NONE).then_some(self.high)
    }

    /// [`Found::next`] if its key may be one with this head; most others are told apart without
    /// a look at the entry.
    fn next_like(&self, head: u64) -> Option<EntryRef> {
        if self.position < self.order.len() {
            let slot = self.order.slot(self.position);
            return (self.leaf.head(slot) == head).then(|| self.leaf.entry(slot));
        }
        (self.high != EntryRef::NONE).then_some(self.high)
    }

    /// Entries of the leaf that are not before the target, ascending, and the one after them.
    pub(super) fn rest(&self) -> (impl Iterator<Item = EntryRef>, Option<EntryRef>) {
        let positions = self.position..self.order.len();
        let rest = positions.map(|position| self.leaf.entry(self.order.slot(position)));
        (rest, (self.high != EntryRef::NONE).then_some(self.high))
    }

    /// Entries of the leaf before the target, descending. None if there are none in the tree.
    pub(super) fn before(&self) -> impl Iterator<Item = EntryRef> {
        let positions = (0..self.position).rev();
        positions.map(|position| self.leaf.entry(self.order.slot(position)))
    }
}

/// A step down the tree.
#[derive(Clone, Copy, Debug)]
struct Step {
    inner: u32,
    position: usize,
    fences: Fences,
}

/// The right to insert.
#[derive(Debug, Default)]
pub(super) struct Inserter {
    adder: Adder,
    leaf_count: u32,
    inner_count: u32,
    path: Vec<Step>,
}

impl Inserter {
    /// Bytes of all nodes.
    pub(super) fn node_bytes(&self) -> u64 {
        let leaves = u64::from(self.leaf_count) * size_of::<Leaf>() as u64;
        leaves + u64::from(self.inner_count) * size_of::<Inner>() as u64
    }
}

#[derive(Debug)]
pub(super) struct Tree {
    entries: Entries,
    leaves: Pool<Leaf>,
    inners: Pool<Inner>,
    root: AtomicU64,
}

impl Tree {
    pub(super) fn new() -> Tree {
        Tree {
            entries: Entries::new(),
            leaves: Pool::new(),
            inners: Pool::new(),
            root: AtomicU64::new(0),
        }
    }

    #[inline]
    pub(super) fn entry(&self, entry: EntryRef) -> Entry<'_> {
        self.entries.get(entry)
    }

    fn root(&self) -> Option<Root> {
        Root::from_u64(self.root.load(Memory::Acquire))
    }

    /// Whether a separator or an entry stands before the target.
    #[inline]
    fn is_before(&self, entry: EntryRef, target: Target<'_>) -> bool {
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

    /// The leaf in which the first entry that is not before the target is or would be. `None` in
    /// an empty tree.
    #[inline]
    pub(super) fn find(&self, target: Target<'_>) -> Option<Found<'_>> {
        let Root { height, mut node } = self.root()?;
        let mut high = EntryRef::NONE;
        for _ in 0..height {
            let inner = self.inners.get(node);
            let order = inner.leaf.order();
            let count =
                inner
                    .leaf
                    .partition(order, head(target.key, inner.leaf.prefix()), |least| {
                        self.is_not_after(least, target)
                    });
            if count < order.len() {
                high = inner.leaf.entry(order.slot(count));
            }
            node = inner.child(order.slot(count.saturating_sub(1)));
        }
        Some(self.found(node, target, high))
    }

    /// The leaf in which the last entry before the target is, or before the end of all. `None` in
    /// an empty tree.
    pub(super) fn find_before(&self, target: Option<Target<'_>>) -> Option<Found<'_>> {
        let Root { height, mut node } = self.root()?;
        for _ in 0..height {
            let inner = self.inners.get(node);
            let order = inner.leaf.order();
            let count = target.map_or(order.len(), |target| {
                inner
                    .leaf
                    .partition(order, head(target.key, inner.leaf.prefix()), |least| {
                        self.is_before(least, target)
                    })
            });
            node = inner.child(order.slot(count.saturating_sub(1)));
        }
        let Some(target) = target else {
            let leaf = self.leaves.get(node);
            let order = leaf.order();
            return Some(Found {
                leaf,
                order,
                position: order.len(),
                high: EntryRef::NONE,
            });
        };
        Some(self.found(node, target, EntryRef::NONE))
    }

    #[inline]
    fn found(&self, node: u32, target: Target<'_>, high: EntryRef) -> Found<'_> {
        let leaf = self.leaves.get(node);
        let order = leaf.order();
        let position = leaf.partition(order, head(target.key, leaf.prefix()), |entry| {
            self.is_before(entry, target)
        });
        Found {
            leaf,
            order,
            position,
            high,
        }
    }

    /// Adds an entry; returns the one after it if that may be one of the same key. Only one thread
    /// has the inserter of a tree.
    pub(super) fn insert(
        &self,
        inserter: &mut Inserter,
        target: Target<'_>,
        value: (Kind, &[u8]),
    ) -> Option<EntryRef> {
        let Target { key, sequence } = target;
        let entry = self
            .entries
            .add(&mut inserter.adder, (key, sequence), value);
        let Some(root) = self.root() else {
            let slot = Slot {
                head: head(key, 0),
                entry,
            };
            let node = self.new_leaf(inserter, &[slot], (0, Fences::NONE));
            self.root
                .store(Root { height: 0, node }.to_u64(), Memory::Release);
            return None;
        };
        let (node, fences) = self.descend(inserter, root, target);
        let found = self.found(node, target, fences.high);
        let head = head(key, found.leaf.prefix());
        let next = found.next_like(head);
        let Found {
            leaf,
            order,
            position,
            ..
        } = found;
        if leaf.room() > 0 {
            let slot = leaf.add(head, entry);
            leaf.publish(order.insert(position, slot));
            return next;
        }
        let prefix = leaf.prefix();
        let new = Slot { head, entry };
        if position == order.len() {
            // In ascending order leaves stay full.
            let right = Fences {
                low: entry,
                ..fences
            };
            let right = self.new_leaf(inserter, &[new], (prefix, right));
            self.replace(inserter, root, (None, Some((entry, right))));
            return next;
        }
        let slot = |slot| Slot {
            head: leaf.head(slot),
            entry: leaf.entry(slot),
        };
        let mut all: Vec<Slot> = order.slots().map(slot).collect();
        all.insert(position, new);
        let (below, above) = all.split_at(all.len() / 2);
        let middle = above[0].entry;
        let left = Fences {
            high: middle,
            ..fences
        };
        let left = self.new_leaf(inserter, below, (prefix, left));
        let right = Fences {
            low: middle,
            ..fences
        };
        let right = self.new_leaf(inserter, above, (prefix, right));
        self.replace(inserter, root, (Some(left), Some((middle, right))));
        next
    }

    /// Goes down to the leaf for an entry and notes the way.
    fn descend(&self, inserter: &mut Inserter, root: Root, target: Target<'_>) -> (u32, Fences) {
        let mut node = root.node;
        let mut fences = Fences::NONE;
        inserter.path.clear();
        for _ in 0..root.height {
            let inner = self.inners.get(node);
            let order = inner.leaf.order();
            let head = head(target.key, inner.leaf.prefix());
            let count = inner
                .leaf
                .partition(order, head, |least| self.is_not_after(least, target));
            let position = count.saturating_sub(1);
            inserter.path.push(Step {
                inner: node,
                position,
                fences,
            });
            let slot = order.slot(position);
            fences.low = inner.leaf.entry(slot);
            if position + 1 < order.len() {
                fences.high = inner.leaf.entry(order.slot(position + 1));
            }
            node = inner.child(slot);
        }
        (node, fences)
    }

    /// Puts new nodes in the place of the one at the end of the path: one for it, if it is not to
    /// stay, and one that comes after it, with its least entry.
    fn replace(
        &self,
        inserter: &mut Inserter,
        root: Root,
        (mut instead, mut after): (Option<u32>, Option<(EntryRef, u32)>),
    ) {
        while let Some(step) = inserter.path.pop() {
            let inner = self.inners.get(step.inner);
            let order = inner.leaf.order();
            let needed = usize::from(instead.is_some()) + usize::from(after.is_some());
            if needed <= inner.leaf.room() {
                self.change(inner, step, (instead, after));
                return;
            }
            let is_last = step.position + 1 == order.len();
            if instead.is_none() && is_last && order.len() == SLOTS {
                // As with leaves, in ascending order.
                if let Some((least, child)) = after {
                    let fences = Fences {
                        low: least,
                        ..step.fences
                    };
                    let right = self.new_inner(inserter, &[(least, child)], fences);
                    after = Some((least, right));
                }
                continue;
            }
            let child = |slot| (inner.leaf.entry(slot), inner.child(slot));
            let mut all: Vec<(EntryRef, u32)> = order.slots().map(child).collect();
            if let Some(node) = instead {
                all[step.position].1 = node;
            }
            all.splice(step.position + 1..step.position + 1, after);
            (instead, after) = self.rewrite(inserter, &all, step.fences);
        }
        let node = match after {
            None => instead.unwrap_or(root.node),
            Some(after) => {
                let first = (EntryRef::NONE, instead.unwrap_or(root.node));
                self.new_inner(inserter, &[first, after], Fences::NONE)
            }
        };
        let height = root.height + u32::from(after.is_some());
        self.root
            .store(Root { height, node }.to_u64(), Memory::Release);
    }

    /// Changes a node that has room.
    fn change(
        &self,
        inner: &Inner,
        step: Step,
        (instead, after): (Option<u32>, Option<(EntryRef, u32)>),
    ) {
        let mut order = inner.leaf.order();
        let head_of = |entry| self.head_of(entry, inner.leaf.prefix());
        if let Some(node) = instead {
            let least = inner.leaf.entry(order.slot(step.position));
            let slot = inner.add(head_of(least), (least, node));
            order = order.replace(step.position, slot);
        }
        if let Some((least, node)) = after {
            let slot = inner.add(head_of(least), (least, node));
            order = order.insert(step.position + 1, slot);
        }
        inner.leaf.publish(order);
    }

    /// Writes children to one new node, or two.
    fn rewrite(
        &self,
        inserter: &mut Inserter,
        children: &[(EntryRef, u32)],
        fences: Fences,
    ) -> (Option<u32>, Option<(EntryRef, u32)>) {
        if children.len() <= REWRITTEN_MAX {
            return (Some(self.new_inner(inserter, children, fences)), None);
        }
        let (below, above) = children.split_at(children.len() / 2);
        let middle = above[0].0;
        let left = Fences {
            high: middle,
            ..fences
        };
        let left = self.new_inner(inserter, below, left);
        let right = Fences {
            low: middle,
            ..fences
        };
        let right = self.new_inner(inserter, above, right);
        (Some(left), Some((middle, right)))
    }

    /// A leaf with entries whose heads are those behind a prefix.
    fn new_leaf(
        &self,
        inserter: &mut Inserter,
        slots: &[Slot],
        (prefix, fences): (usize, Fences),
    ) -> u32 {
        let number = inserter.leaf_count;
        inserter.leaf_count += 1;
        let leaf = self.leaves.make(number);
        let heads = slots.first().zip(slots.last());
        let differ = |(first, last): (&Slot, &Slot)| (first.head ^ last.head).leading_zeros();
        if heads.map_or(u64::BITS, differ) < TOLD_APART {
            // To look at every key once more would be most of the work of a split.
            leaf.set_prefix(prefix);
            for slot in slots {
                leaf.add(slot.head, slot.entry);
            }
        } else {
            let prefix = self.shared_prefix(fences);
            leaf.set_prefix(prefix);
            for slot in slots {
                leaf.add(self.head_of(slot.entry, prefix), slot.entry);
            }
        }
        leaf.publish(Order::first(slots.len()));
        number
    }

    fn new_inner(
        &self,
        inserter: &mut Inserter,
        children: &[(EntryRef, u32)],
        fences: Fences,
    ) -> u32 {
        let number = inserter.inner_count;
        inserter.inner_count += 1;
        let inner = self.inners.make(number);
        let prefix = self.shared_prefix(fences);
        inner.leaf.set_prefix(prefix);
        for &(least, child) in children {
            inner.add(self.head_of(least, prefix), (least, child));
        }
        inner.leaf.publish(Order::first(children.len()));
        number
    }

    fn head_of(&self, entry: EntryRef, prefix: usize) -> u64 {
        if entry == EntryRef::NONE {
            return 0;
        }
        head(self.entry(entry).key(), prefix)
    }

    /// Bytes that all keys between the fences begin with.
    fn shared_prefix(&self, fences: Fences) -> usize {
        if fences.low == EntryRef::NONE || fences.high == EntryRef::NONE {
            return 0;
        }
        let (low, high) = (self.entry(fences.low).key(), self.entry(fences.high).key());
        let pairs = low.iter().zip(high);
        pairs.take_while(|(low, high)| low == high).count()
    }
}
