//! Entries come into the tree.
//!
//! Where a node has no room, two new ones take its place; in ascending order it stays full, and the
//! next one begins behind it. As long as it was the last there was no telling what its keys have in
//! common: then it is *closed*, which is to say that another with better heads takes its place.

use crate::key::long_head;

use super::entries::{Adder, Content, EntryRef};
use super::node::{Inner, Leaf, NODES_MAX, NodeRef, Order, Prefix, head};
use super::tree::{COMMON_BYTES_MAX, Target, Tree};

/// The separators around a node.
#[derive(Clone, Copy, Debug)]
pub(super) struct Fences {
    low: EntryRef,
    high: EntryRef,
}

impl Fences {
    const NONE: Fences = Fences {
        low: EntryRef::NONE,
        high: EntryRef::NONE,
    };

    /// Whether the node is the first or the last of its height.
    fn are_open(self) -> bool {
        self.low == EntryRef::NONE || self.high == EntryRef::NONE
    }

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

/// The slots of a leaf, sorted.
fn slots_of(leaf: &Leaf) -> Vec<Slot> {
    let slot = |slot| Slot {
        head: leaf.head(slot),
        entry: leaf.entry(slot),
    };
    leaf.order().slots().map(slot).collect()
}

/// The children of a node and their least entries, sorted.
fn children_of(inner: &Inner) -> Vec<(EntryRef, NodeRef)> {
    let child = |slot| (inner.leaf.entry(slot), inner.child(slot));
    inner.leaf.order().slots().map(child).collect()
}

/// How many of what is too much for one node stay in the left one: in ascending order all but the last.
fn middle_of(count: usize, in_order: bool) -> usize {
    if in_order { count - 1 } else { count / 2 }
}

/// Heads that differ in their first two bytes tell a node's keys apart well enough.
const TOLD_APART: u32 = 16;

/// Whether the heads of sorted slots do so.
fn are_told_apart(slots: &[Slot]) -> bool {
    let heads = slots.first().zip(slots.last());
    let differ = |(first, last): (&Slot, &Slot)| (first.head ^ last.head).leading_zeros();
    heads.map_or(u32::BITS, differ) < TOLD_APART
}

/// What becomes of a node: another comes behind it, with its least entry, and one more may take its
/// place.
#[derive(Clone, Copy, Debug)]
struct Change {
    node: NodeRef,
    instead: Option<NodeRef>,
    after: (EntryRef, NodeRef),
    /// In ascending order nodes stay full.
    in_order: bool,
}

/// A step down the tree.
#[derive(Clone, Copy, Debug)]
struct Step {
    inner: NodeRef,
    position: usize,
    fences: Fences,
}

/// The last leaf, the entry at its end, and how its key begins.
#[derive(Clone, Copy, Debug)]
struct End {
    leaf: NodeRef,
    last: EntryRef,
    head: u128,
}

/// The right to insert.
#[derive(Debug, Default)]
pub(super) struct Inserter {
    adder: Adder,
    leaves: Numbers,
    inners: Numbers,
    path: Vec<Step>,
    /// Bytes that all keys begin with: the prefix of nodes at the edges.
    common: u16,
    /// Where the next entry goes while they come in ascending order.
    end: Option<End>,
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
        assert!(self.count < NODES_MAX, "there are fewer nodes than entries");
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

    /// When nothing leads to the nodes any more that were replaced.
    fn recycle_replaced(&mut self) {
        for node in self.replaced.drain(..) {
            if node.generation < u32::MAX {
                let numbers = match node.is_inner {
                    true => &mut self.inners,
                    false => &mut self.leaves,
                };
                numbers.free.push(node.number);
            }
        }
    }
}

/// Where an entry goes, for as long as nothing else is inserted.
#[derive(Clone, Copy, Debug)]
pub(super) enum Spot {
    /// Nothing is there yet.
    Empty,
    /// Behind the last entry, in this leaf, which has room.
    End(NodeRef),
    /// Into the leaf to which the path leads.
    Below(NodeRef, Fences),
}

impl Tree {
    /// Finds where an entry goes, and begins to fetch the leaf. Only one thread has the inserter of a
    /// tree.
    pub(super) fn spot(&self, inserter: &mut Inserter, target: Target<'_>) -> Spot {
        self.admit(inserter, target.key);
        if let Some(end) = inserter.end
            && (end.head < long_head(target.key) || self.is_before(end.last, target))
            && self.leaves.get(end.leaf.number).room() > 0
        {
            return Spot::End(end.leaf);
        }
        let Some(root) = self.root() else {
            return Spot::Empty;
        };
        let (leaf, fences) = self.descend(inserter, root, target);
        self.leaves.get(leaf.number).prefetch();
        Spot::Below(leaf, fences)
    }

    /// Sees to it that nodes at the edges say no more of keys than is true of this one, too.
    fn admit(&self, inserter: &mut Inserter, key: &[u8]) {
        let Some(beginning) = self.beginning.get() else {
            let common = &key[..key.len().min(COMMON_BYTES_MAX)];
            inserter.common = common_bytes(common, key);
            self.beginning.get_or_init(|| common.into());
            return;
        };
        if key.starts_with(&beginning[..usize::from(inserter.common)]) {
            return;
        }
        inserter.common = common_bytes(beginning, key);
        inserter.end = None;
        if let Some(root) = self.root() {
            let root = self.renewed(inserter, root, Fences::NONE);
            self.set_root(root);
            inserter.recycle_replaced();
        }
    }

    /// What is to take the place of a node with these fences, and of those below it, when the keys of all
    /// have less in common. What readers find in the old ones stays as it is.
    fn renewed(&self, inserter: &mut Inserter, node: NodeRef, fences: Fences) -> NodeRef {
        if !fences.are_open() {
            return node;
        }
        inserter.replaced.push(node);
        if !node.is_inner {
            let mut slots = slots_of(self.leaves.get(node.number));
            for slot in &mut slots {
                slot.head = self.head_of(slot.entry, inserter.common);
            }
            return self.new_leaf(inserter, &slots, (inserter.common, fences));
        }
        let mut children = children_of(self.inners.get(node.number));
        let mut high = fences.high;
        for (low, child) in children.iter_mut().rev() {
            let fences = Fences { low: *low, high };
            *child = self.renewed(inserter, *child, fences);
            high = *low;
        }
        self.new_inner(inserter, &children, fences)
    }

    /// Adds an entry in its spot; returns the one after it if that may be one of the same key.
    pub(super) fn insert(
        &self,
        inserter: &mut Inserter,
        spot: Spot,
        target: Target<'_>,
        content: Content<'_>,
    ) -> Option<EntryRef> {
        let Target { key, sequence } = target;
        let entry = self
            .entries
            .add(&mut inserter.adder, (key, sequence), content);
        let end = |leaf| End {
            leaf,
            last: entry,
            head: long_head(key),
        };
        let (node, fences) = match spot {
            Spot::Below(leaf, fences) => (leaf, fences),
            Spot::End(node) => {
                self.append(node, target, entry);
                inserter.end = Some(end(node));
                return None;
            }
            Spot::Empty => {
                let slot = Slot {
                    head: head(key, 0),
                    entry,
                };
                let node = self.new_leaf(inserter, &[slot], (0, Fences::NONE));
                inserter.end = Some(end(node));
                self.set_root(node);
                return None;
            }
        };
        let leaf = self.leaves.get(node.number);
        let order = leaf.order();
        let position = self.entries_before(leaf, order, target);
        let new = Slot {
            head: head(key, leaf.prefix().bytes),
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
            inserter.end = is_last.then(|| end(node));
        } else {
            let right = self.divide_leaf(inserter, (node, fences), (position, new));
            inserter.end = is_last.then(|| end(right));
        }
        next
    }

    /// Puts two leaves in the place of a full one, to which the path leads, with a slot more at a
    /// position; returns the right one. In ascending order the slot alone makes the right one, and the
    /// full one stays if no better heads are to be had.
    fn divide_leaf(
        &self,
        inserter: &mut Inserter,
        (node, fences): (NodeRef, Fences),
        (position, new): (usize, Slot),
    ) -> NodeRef {
        let leaf = self.leaves.get(node.number);
        let prefix = leaf.prefix().bytes;
        let mut all = slots_of(leaf);
        let in_order = position == all.len();
        all.insert(position, new);
        let (below, above) = all.split_at(middle_of(all.len(), in_order));
        let least = above[0].entry;
        let (left, right) = fences.split(least);
        let right = self.new_leaf(inserter, above, (prefix, right));
        let has_best_heads = are_told_apart(below) || self.shared_prefix(inserter, left) <= prefix;
        let stays = in_order && has_best_heads;
        let instead = (!stays).then(|| {
            // Before the right half can be reached: see `Tree::from`.
            leaf.publish(leaf.order().divided());
            inserter.replaced.push(node);
            self.new_leaf(inserter, below, (prefix, left))
        });
        let change = Change {
            node,
            instead,
            after: (least, right),
            in_order,
        };
        self.replace(inserter, change);
        right
    }

    /// Adds an entry at the end of a leaf that has room.
    fn append(&self, node: NodeRef, target: Target<'_>, entry: EntryRef) {
        let leaf = self.leaves.get(node.number);
        let order = leaf.order();
        let slot = leaf.add(head(target.key, leaf.prefix().bytes), entry);
        leaf.publish(order.insert(order.len(), slot));
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

    /// Adds a node behind the one at the end of the path, and then puts another in the place of that
    /// one, unless it is to stay. Never before: of what lies behind a node its heads tell nothing.
    fn replace(&self, inserter: &mut Inserter, change: Change) {
        let Change {
            mut node,
            mut instead,
            mut after,
            mut in_order,
        } = change;
        loop {
            let Some(step) = inserter.path.pop() else {
                let first = (EntryRef::NONE, instead.unwrap_or(node));
                let root = self.new_inner(inserter, &[first, after], Fences::NONE);
                self.set_root(root);
                break;
            };
            let inner = self.inners.get(step.inner.number);
            let order = inner.leaf.order();
            if inner.leaf.room() > 0 {
                let head = self.head_of(after.0, inner.leaf.prefix().bytes);
                let slot = inner.add(head, after);
                inner.leaf.publish(order.insert(step.position + 1, slot));
                if let Some(node) = instead {
                    inner.set_child(order.slot(step.position), node);
                }
                break;
            }
            // As with leaves.
            node = step.inner;
            let mut all = children_of(inner);
            if let Some(node) = instead {
                all[step.position].1 = node;
            }
            in_order &= step.position + 1 == all.len();
            all.insert(step.position + 1, after);
            let (below, above) = all.split_at(middle_of(all.len(), in_order));
            let (left, right) = step.fences.split(above[0].0);
            after = (above[0].0, self.new_inner(inserter, above, right));
            let prefix = inner.leaf.prefix().bytes;
            let has_best_heads = self.shared_prefix(inserter, left) <= prefix;
            if !(in_order && instead.is_none() && has_best_heads) {
                inserter.replaced.push(node);
                instead = Some(self.new_inner(inserter, below, left));
            }
        }
        inserter.recycle_replaced();
    }

    /// A leaf with entries whose heads are those behind a prefix.
    fn new_leaf(
        &self,
        inserter: &mut Inserter,
        slots: &[Slot],
        (prefix, fences): (u16, Fences),
    ) -> NodeRef {
        let (number, is_used) = inserter.leaves.next();
        let leaf = self.leaves.make(number);
        if is_used {
            leaf.recycle();
        }
        let of_bytes = |bytes| Prefix {
            bytes,
            is_of_all: fences.are_open(),
        };
        if are_told_apart(slots) {
            // To look at every key once more would be most of the work of a split.
            leaf.set_prefix(of_bytes(prefix));
            for slot in slots {
                leaf.add(slot.head, slot.entry);
            }
        } else {
            let prefix = self.shared_prefix(inserter, fences);
            leaf.set_prefix(of_bytes(prefix));
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
        let prefix = self.shared_prefix(inserter, fences);
        inner.leaf.set_prefix(Prefix {
            bytes: prefix,
            is_of_all: fences.are_open(),
        });
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

    fn head_of(&self, entry: EntryRef, prefix: u16) -> u32 {
        if entry == EntryRef::NONE {
            return 0;
        }
        head(self.entry(entry).key(), prefix)
    }

    /// Bytes that all keys between the fences begin with.
    fn shared_prefix(&self, inserter: &Inserter, fences: Fences) -> u16 {
        if fences.are_open() {
            return inserter.common;
        }
        let (low, high) = (self.entry(fences.low).key(), self.entry(fences.high).key());
        common_bytes(low, high)
    }
}

/// Bytes that both begin with: of two keys, so that two bytes hold their number.
fn common_bytes(left: &[u8], right: &[u8]) -> u16 {
    let pairs = left.iter().zip(right);
    let count = pairs.take_while(|(left, right)| left == right).count();
    u16::try_from(count).expect("a key has at most `MAX_KEY_BYTES`")
}
