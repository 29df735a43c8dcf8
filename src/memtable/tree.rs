//! A B+ tree of entries that is read while one thread inserts, without locks.
//!
//! Nodes are only ever added to ([`Leaf::publish`]); where one has no room, two new ones take its
//! place in the node above: first the right one is added there, then the left one takes the place
//! of the old. A reader that still is in the old node finds all that was there when it came, and
//! what came later it must not see anyway: it reads at a sequence. When the old node is given new
//! slots, a reader that still is in it notices, and begins again at the root.
//!
//! Invariants:
//! 1. The least entry of a node is the separator that stands for it in the node above; only the
//!    first node of each height has none ([`EntryRef::NONE`]) and may hold lesser ones.
//! 2. All keys of a node begin with the same bytes, as its two separators do; its heads are those
//!    behind this prefix, or behind a part of it.
//! 3. Entries are never removed, so the entry after the last of a leaf is the next separator.
//! 4. A node is recycled when nothing that can be reached from the root names its generation.

use std::sync::atomic::{AtomicU64, Ordering as Memory};

use crate::key::{Kind, Sequence};

use super::entries::{Adder, Entries, Entry, EntryRef};
use super::node::{Inner, Leaf, NodeRef, Order, SLOTS, head};
use super::pool::Pool;

/// A place between entries: before those that are not less.
#[derive(Clone, Copy, Debug)]
pub(super) struct Target<'a> {
    pub(super) key: &'a [u8],
    pub(super) sequence: Sequence,
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

    /// Those of the two parts of the node that an entry divides.
    fn split(self, middle: EntryRef) -> (Fences, Fences) {
        let (mut left, mut right) = (self, self);
        (left.high, right.low) = (middle, middle);
        (left, right)
    }
}

/// An entry of a leaf.
#[derive(Clone, Copy, Debug)]
struct Slot {
    head: u32,
    entry: EntryRef,
}

/// Heads that differ in their first two bytes tell a node's keys apart well enough.
const TOLD_APART: u32 = 16;

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

/// A step down the tree.
#[derive(Clone, Copy, Debug)]
struct Step {
    inner: NodeRef,
    position: usize,
    fences: Fences,
}

/// The right to insert.
#[derive(Debug, Default)]
pub(super) struct Inserter {
    adder: Adder,
    leaves: Numbers,
    inners: Numbers,
    path: Vec<Step>,
    /// The last leaf and the entry at its end, while entries come in ascending order.
    end: Option<(NodeRef, EntryRef)>,
    /// Nodes that are being replaced: to be recycled when that is done.
    replaced: Vec<NodeRef>,
}

/// The nodes of a kind that there are, and those of them that can be recycled.
#[derive(Debug, Default)]
struct Numbers {
    count: u32,
    free: Vec<u32>,
}

impl Numbers {
    /// The number of a node to fill, and whether it was another before.
    fn next(&mut self) -> (u32, bool) {
        if let Some(number) = self.free.pop() {
            return (number, true);
        }
        self.count += 1;
        (self.count - 1, false)
    }
}

impl Inserter {
    /// Memory of all entries and nodes.
    pub(super) fn bytes(&self) -> u64 {
        self.adder.bytes() + self.node_bytes()
    }

    pub(super) fn node_bytes(&self) -> u64 {
        let leaves = u64::from(self.leaves.count) * size_of::<Leaf>() as u64;
        leaves + u64::from(self.inners.count) * size_of::<Inner>() as u64
    }
}

#[derive(Debug)]
pub(super) struct Tree {
    entries: Entries,
    leaves: Pool<Leaf>,
    inners: Pool<Inner>,
    /// One more than the name of the root, 0 if there is none.
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

    /// Begins to fetch entries that will be read one after the other.
    pub(super) fn prefetch(&self, entries: &[EntryRef]) {
        for entry in entries {
            self.entries.prefetch(*entry);
        }
    }

    #[inline]
    fn root(&self) -> Option<NodeRef> {
        let name = self.root.load(Memory::Acquire);
        name.checked_sub(1).map(NodeRef::from_u64)
    }

    fn set_root(&self, node: NodeRef) {
        self.root.store(node.to_u64() + 1, Memory::Release);
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

    /// Children whose separators are not after the target.
    #[inline]
    fn children_up_to(&self, inner: &Leaf, order: Order, target: Target<'_>) -> usize {
        inner.partition(order, head(target.key, inner.prefix()), |least| {
            self.is_not_after(least, target)
        })
    }

    /// Entries of a leaf, or separators of children, that stand before the target.
    #[inline]
    fn entries_before(&self, leaf: &Leaf, order: Order, target: Target<'_>) -> usize {
        leaf.partition(order, head(target.key, leaf.prefix()), |entry| {
            self.is_before(entry, target)
        })
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
            Part::of(leaf, order, position..order.len(), high)
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
        if let Some((node, last)) = inserter.end.take()
            && self.is_before(last, target)
            && self.append(node, target, entry)
        {
            inserter.end = Some((node, entry));
            return None;
        }
        let Some(root) = self.root() else {
            let slot = Slot {
                head: head(key, 0),
                entry,
            };
            let node = self.new_leaf(inserter, &[slot], (0, Fences::NONE));
            inserter.end = Some((node, entry));
            self.set_root(node);
            return None;
        };
        let (node, fences) = self.descend(inserter, root, target);
        let leaf = self.leaves.get(node.number);
        let order = leaf.order();
        let position = self.entries_before(leaf, order, target);
        let new = Slot {
            head: head(key, leaf.prefix()),
            entry,
        };
        // Most others are told apart without a look at the entry.
        let next = if position < order.len() {
            let slot = order.slot(position);
            (leaf.head(slot) == new.head).then(|| leaf.entry(slot))
        } else {
            fences.high.some()
        };
        let is_last = position == order.len() && fences.high == EntryRef::NONE;
        if leaf.room() > 0 {
            let slot = leaf.add(new.head, entry);
            leaf.publish(order.insert(position, slot));
            inserter.end = is_last.then_some((node, entry));
        } else if position == order.len() {
            // In ascending order leaves stay full.
            let right = Fences {
                low: entry,
                ..fences
            };
            let right = self.new_leaf(inserter, &[new], (leaf.prefix(), right));
            inserter.end = is_last.then_some((right, entry));
            self.replace(inserter, root, (None, (entry, right)));
        } else {
            let slot = |slot| Slot {
                head: leaf.head(slot),
                entry: leaf.entry(slot),
            };
            let mut all: Vec<Slot> = order.slots().map(slot).collect();
            all.insert(position, new);
            let (below, above) = all.split_at(all.len() / 2);
            let (left, right) = fences.split(above[0].entry);
            let left = self.new_leaf(inserter, below, (leaf.prefix(), left));
            let right = self.new_leaf(inserter, above, (leaf.prefix(), right));
            inserter.replaced.push(node);
            self.replace(inserter, root, (Some(left), (above[0].entry, right)));
        }
        next
    }

    /// Adds an entry at the end of a leaf. `false` if there is no room.
    fn append(&self, node: NodeRef, target: Target<'_>, entry: EntryRef) -> bool {
        let leaf = self.leaves.get(node.number);
        let order = leaf.order();
        let has_room = leaf.room() > 0;
        if has_room {
            let slot = leaf.add(head(target.key, leaf.prefix()), entry);
            leaf.publish(order.insert(order.len(), slot));
        }
        has_room
    }

    /// Goes down to the leaf for an entry and notes the way.
    fn descend(
        &self,
        inserter: &mut Inserter,
        root: NodeRef,
        target: Target<'_>,
    ) -> (NodeRef, Fences) {
        let mut node = root;
        let mut fences = Fences::NONE;
        inserter.path.clear();
        while node.is_inner {
            let inner = self.inners.get(node.number);
            let order = inner.leaf.order();
            let count = self.children_up_to(&inner.leaf, order, target);
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

    /// Adds a node behind the one at the end of the path, with its least entry, and puts another
    /// in the place of that one, unless it is to stay.
    fn replace(
        &self,
        inserter: &mut Inserter,
        root: NodeRef,
        (mut instead, mut after): (Option<NodeRef>, (EntryRef, NodeRef)),
    ) {
        loop {
            let Some(step) = inserter.path.pop() else {
                let first = (EntryRef::NONE, instead.unwrap_or(root));
                let node = self.new_inner(inserter, &[first, after], Fences::NONE);
                self.set_root(node);
                break;
            };
            let inner = self.inners.get(step.inner.number);
            let order = inner.leaf.order();
            if inner.leaf.room() > 0 {
                let head = self.head_of(after.0, inner.leaf.prefix());
                let slot = inner.add(head, after);
                inner.leaf.publish(order.insert(step.position + 1, slot));
                if let Some(node) = instead {
                    inner.set_child(order.slot(step.position), node);
                }
                break;
            }
            if instead.is_none() && step.position + 1 == order.len() {
                // As with leaves, in ascending order.
                let fences = Fences {
                    low: after.0,
                    ..step.fences
                };
                after.1 = self.new_inner(inserter, &[after], fences);
                continue;
            }
            let child = |slot| (inner.leaf.entry(slot), inner.child(slot));
            let mut all: Vec<(EntryRef, NodeRef)> = order.slots().map(child).collect();
            if let Some(node) = instead {
                all[step.position].1 = node;
            }
            all.insert(step.position + 1, after);
            let (below, above) = all.split_at(all.len() / 2);
            let (left, right) = step.fences.split(above[0].0);
            instead = Some(self.new_inner(inserter, below, left));
            after = (above[0].0, self.new_inner(inserter, above, right));
            inserter.replaced.push(step.inner);
        }
        // Only now nothing leads to them.
        for node in inserter.replaced.drain(..) {
            if node.generation < u32::MAX {
                let numbers = match node.is_inner {
                    true => &mut inserter.inners,
                    false => &mut inserter.leaves,
                };
                numbers.free.push(node.number);
            }
        }
    }

    /// A leaf with entries whose heads are those behind a prefix.
    fn new_leaf(
        &self,
        inserter: &mut Inserter,
        slots: &[Slot],
        (prefix, fences): (usize, Fences),
    ) -> NodeRef {
        let (number, is_used) = inserter.leaves.next();
        let leaf = self.leaves.make(number);
        if is_used {
            leaf.recycle();
        }
        let heads = slots.first().zip(slots.last());
        let differ = |(first, last): (&Slot, &Slot)| (first.head ^ last.head).leading_zeros();
        if heads.map_or(u32::BITS, differ) < TOLD_APART {
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
        NodeRef {
            number,
            is_inner: false,
            generation: leaf.generation(),
        }
    }

    fn new_inner(
        &self,
        inserter: &mut Inserter,
        children: &[(EntryRef, NodeRef)],
        fences: Fences,
    ) -> NodeRef {
        let (number, is_used) = inserter.inners.next();
        let inner = self.inners.make(number);
        if is_used {
            inner.leaf.recycle();
        }
        let prefix = self.shared_prefix(fences);
        inner.leaf.set_prefix(prefix);
        for &(least, child) in children {
            inner.add(self.head_of(least, prefix), (least, child));
        }
        inner.leaf.publish(Order::first(children.len()));
        NodeRef {
            number,
            is_inner: true,
            generation: inner.leaf.generation(),
        }
    }

    fn head_of(&self, entry: EntryRef, prefix: usize) -> u32 {
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
