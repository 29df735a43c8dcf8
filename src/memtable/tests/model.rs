//! The tree in every interleaving of a writer and a reader (with `loom`).
//!
//! The files of the tree are compiled once more here, as they stand, against the atomics of `loom`.
//! These try every order of steps, and every value that the memory orders let a reader see. Nodes
//! have two slots, so that the third entry divides a leaf, and the next division takes it again.
//! Each entry has a chunk of its own: a reader that gets a name too early finds nothing there, and
//! panics.
//!
//! Readers write nothing, so one of them is as good as many. The bytes of an entry are published by
//! `arena`, whose atomics stay those of the standard library.

#![expect(
    clippy::duplicate_mod,
    clippy::modulo_one,
    dead_code,
    reason = "the files are those of the tree, with pools of single nodes, and not all is modelled"
)]

use std::cmp::Ordering;
use std::ops::Bound;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, Weak};

use loom::sync::atomic::{AtomicUsize, Ordering as Memory};
use loom::thread;

use crate::cursor::{Cursor as _, Direction, Item};
use crate::key::{self, Kind, Sequence};

use entries::Content;
use insert::Inserter;
use sync::{Fault, Plant};
use tree::{Target, Tree};
use walk::Walk;

#[path = "../entries.rs"]
mod entries;
#[path = "../insert.rs"]
mod insert;
#[path = "../node.rs"]
mod node;
#[path = "../pool.rs"]
mod pool;
mod sync;
#[path = "../tree.rs"]
mod tree;
#[path = "../walk.rs"]
mod walk;

/// The part of a memtable that a walk needs.
#[derive(Debug)]
struct Memtable {
    tree: Tree,
}

impl Memtable {
    fn put(&self, inserter: &mut Inserter, key: &str, sequence: usize) {
        let target = target(key, sequence);
        let spot = self.tree.spot(inserter, target);
        let content = Content::of(Kind::Value, b"");
        self.tree.insert(inserter, spot, target, content);
    }
}

fn target(key: &str, sequence: usize) -> Target<'_> {
    Target {
        key: key.as_bytes(),
        sequence: Sequence(sequence as u64),
    }
}

/// Keys that are put before there is a reader, and keys that are put beside it.
#[derive(Clone, Copy, Debug)]
struct Life {
    before: &'static [&'static str],
    beside: &'static [&'static str],
}

const LIVES: [Life; 6] = [
    // A leaf is divided, taken again by the next division, and gets one more entry then.
    Life {
        before: &["b", "d"],
        beside: &["c", "e", "f"],
    },
    // The same in ascending order, where nodes stay full.
    Life {
        before: &["a", "b"],
        beside: &["c", "d", "e"],
    },
    // An inner node gets a child, and another in the place of one.
    Life {
        before: &["b", "d", "c", "cc", "a"],
        beside: &["aa"],
    },
    // An inner node is divided, and taken again.
    Life {
        before: &["b", "d", "c"],
        beside: &["cc", "dd"],
    },
    // A key begins otherwise than all before.
    Life {
        before: &["xb", "xd"],
        beside: &["xc", "a"],
    },
    // Versions of the same key.
    Life {
        before: &["b", "b"],
        beside: &["b", "a"],
    },
];

#[derive(Clone, Copy, Debug)]
enum Read {
    /// The newest entry of a key.
    Find(&'static str),
    Walk(Direction),
}

impl Life {
    /// Every key is looked for, and everything is walked over in both directions.
    fn reads(self) -> Vec<Read> {
        let mut keys = [self.before, self.beside].concat();
        keys.sort_unstable();
        keys.dedup();
        let mut reads: Vec<Read> = keys.into_iter().map(Read::Find).collect();
        reads.extend([Direction::Forward, Direction::Backward].map(Read::Walk));
        reads
    }

    /// Puts the keys, and reads at what is visible then.
    fn live(self, read: Read) {
        let table = Arc::new(Memtable {
            tree: Tree::new(Weak::new()),
        });
        let mut inserter = Inserter::default();
        for (key, sequence) in self.before.iter().zip(1..) {
            table.put(&mut inserter, key, sequence);
        }
        let visible = Arc::new(AtomicUsize::new(self.before.len()));
        let (its_table, its_visible) = (Arc::clone(&table), Arc::clone(&visible));
        let writer = thread::spawn(move || {
            for (key, sequence) in self.beside.iter().zip(self.before.len() + 1..) {
                its_table.put(&mut inserter, key, sequence);
                its_visible.store(sequence, Memory::Release);
            }
        });
        let seen = visible.load(Memory::Acquire);
        let all = [self.before, self.beside].concat();
        match read {
            Read::Find(key) => find(&table, key, &all[..seen]),
            Read::Walk(direction) => walk(&table, direction, seen),
        }
        writer.join().unwrap();
    }
}

/// The first entry from a key on stands before no visible one: later ones may stand between.
fn find(table: &Memtable, key: &str, visible: &[&str]) {
    let seen = visible.len();
    let from = (key.as_bytes(), Sequence(seen as u64));
    let entries = visible.iter().zip(1..);
    let entries = entries.map(|(key, sequence)| (key.as_bytes(), Sequence(sequence)));
    let expected = entries
        .filter(|entry| key::compare(*entry, from) != Ordering::Less)
        .min_by(|one, other| key::compare(*one, *other));
    let found = table.tree.first(target(key, seen)).map(|name| {
        let entry = table.tree.entry(name);
        (entry.key(), entry.sequence)
    });
    match (found, expected) {
        (Some(found), expected) => {
            let is_new = found.1 > from.1 && key::compare(from, found) == Ordering::Less;
            let is_before = expected.is_none_or(|it| key::compare(found, it) == Ordering::Less);
            assert!(Some(found) == expected || is_new && is_before);
        }
        (None, expected) => assert_eq!(expected, None),
    }
}

/// A walk is sorted and meets each visible entry.
fn walk(table: &Arc<Memtable>, direction: Direction, seen: usize) {
    let mut walk = Walk::new(Arc::clone(table), direction, Bound::Unbounded);
    let (mut met, mut last) = (0, None::<Item>);
    while let Some(item) = walk.next().unwrap() {
        met += usize::from(item.sequence.0 <= seen as u64);
        if let Some(last) = &last {
            assert!(direction.compare(&last.entry(), &item.entry()).is_lt());
        }
        last = Some(item);
    }
    assert_eq!(met, seen);
}

/// Tries every interleaving with at most this many preemptions; returns how many there are.
fn explore(life: Life, read: Read) -> usize {
    let asked = std::env::var("CRIBA_MODEL_PREEMPTIONS").ok();
    let mut builder = loom::model::Builder::new();
    builder.preemption_bound = Some(asked.map_or(2, |asked| asked.parse().unwrap()));
    builder.max_branches = 10_000;
    let count = Arc::new(std::sync::atomic::AtomicUsize::new(0));
    let counted = Arc::clone(&count);
    builder.check(move || {
        counted.fetch_add(1, Memory::Relaxed);
        life.live(read);
    });
    count.load(Memory::Relaxed)
}

/// Explores the reads of all lives that are of one kind.
fn explore_all(is_asked: fn(&Read) -> bool) {
    for life in LIVES {
        for read in life.reads().into_iter().filter(is_asked) {
            let count = explore(life, read);
            assert!(count > 1, "{life:?}, {read:?}: {count}");
        }
    }
}

#[test]
fn visible_keys_are_found_beside_a_writer() {
    explore_all(|read| matches!(read, Read::Find(_)));
}

/// Bug: between the two stores that replace a leaf, a walk forwards read all of the old leaf, and
/// then its upper half again from the new one.
#[test]
fn walks_beside_a_writer_are_sorted_and_miss_nothing() {
    explore_all(|read| matches!(read, Read::Walk(_)));
}

/// Every acquire and release in the tree, each with its fault; and the store of a generation.
fn plants() -> Vec<Plant> {
    let files = [
        ("node.rs", include_str!("../node.rs")),
        ("tree.rs", include_str!("../tree.rs")),
    ];
    let mut plants = Vec::new();
    for (file, text) in files {
        for (line, text) in (1..).zip(text.lines().map(str::trim)) {
            let has_order = text.contains("Memory::Acquire") || text.contains("Memory::Release");
            let fault = if has_order && !text.starts_with("//") {
                Fault::Relaxed
            } else if text.starts_with(".store(self.generation()") {
                Fault::Lost
            } else {
                continue;
            };
            plants.push(Plant { file, line, fault });
        }
    }
    plants
}

/// Ten lines are wrong in turns, two of them fences; and once a recycled node keeps its
/// generation. The model finds each.
#[test]
fn every_memory_order_is_needed() {
    let plants = plants();
    assert_eq!(plants.len(), 11);
    for planted in plants {
        sync::plant(Some(planted));
        let mut reads = LIVES
            .iter()
            .flat_map(|life| life.reads().into_iter().map(|read| (*life, read)));
        let is_found = reads
            .any(|(life, read)| catch_unwind(AssertUnwindSafe(|| explore(life, read))).is_err());
        sync::plant(None);
        assert!(is_found, "{planted:?} is not found");
    }
}
