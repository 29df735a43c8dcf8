//! criba (Spanish: sieve) is an embedded, ordered, crash-safe key-value store: a log-structured
//! merge tree whose segment files carry their own filter.
//!
//! Before it reads a data block it asks the segment whether the key can be there, and, with a
//! Bloomier filter, *where*. A lookup of a key that is there costs one read of the disk. A lookup
//! of a key that is not there costs none.
//!
//! ```
//! # fn main() -> criba::Result<()> {
//! # let dir = tempfile::tempdir().unwrap();
//! # let path = dir.path().join("data");
//! let db = criba::Db::builder(&path).cache_bytes(0).open()?;
//! for number in 0..1000 {
//!     db.put(format!("{number:04}"), "value")?;
//! }
//! db.flush()?;
//! for number in 0..999 {
//!     assert!(db.contains_key(format!("{number:04}"))?);
//!     assert!(!db.contains_key(format!("{number:04}?"))?);
//! }
//! let lookups = db.stats().lookups;
//! assert_eq!(lookups.reads_per_hit(), Some(1.0));
//! assert!(lookups.reads_per_absent().unwrap() < 0.05);
//! # Ok(())
//! # }
//! ```
//!
//! The code of the filters is in the package `criba-filters` (`crates/criba-filters`).
//!
//! Start with [`Db`]. `docs/architecture.md` of the repository is the map of the code,
//! `docs/format.md` specifies every byte on disk.

#![cfg_attr(docsrs, feature(doc_cfg))]

// A module may name only modules above it in this list; `tests/it/tidy.rs` sees to it.

// Words that everything uses.
mod error;

mod arena;

mod slice;

mod key;

mod loss;

mod bounds;

mod origin;

mod sharded_counter;

mod priority;

mod locks;

mod remains;

// What operands come to; knows nothing of where they lie.
pub mod operator;

// Bytes on disk, both ways: pure functions over slices.
mod format;

// The only code that touches files.
pub mod storage;

// A disk that is not there, and knows what a crash would leave of it.
#[cfg(feature = "sim")]
#[cfg_attr(docsrs, doc(cfg(feature = "sim")))]
pub mod sim;

mod options;

// What every sorted source of entries looks like.
mod cursor;

// Sources of entries, and what keeps them in memory.
mod memtable;

mod cache;
mod doorkeeper;

mod segment;

// What is durable: writes not yet in a segment, and which segments are live.
mod journal;

mod version;

mod manifest;

mod merge;

// Keeps the tree in shape.
mod compaction;

// What a store lends to its trees.
mod services;

// One sorted set of keys.
mod tree;

// An open store: what all its trees share.
mod store;

// What is done to a whole store, seldom.
mod tools;

// The store as its users see it.
mod db;

pub use bounds::KeyRange;
pub use criba_filters::segment::BloomierBits;
pub use db::stats::{
    CacheStats, CompactionStats, MemtableStats, RunStats, SnapshotStats, StallStats, Stats,
};
pub use db::{
    Batch, BatchKeyspace, Builder, CompactionJob, Db, Isolation, Iter, Keyspace, KeyspaceOptions,
    Snapshot, Transaction, TransactionIter, TransactionKeyspace, TransactionKeyspaceMut,
};
pub use error::{Conflict, Corruption, Error, Result};
pub use key::{MAX_KEY_BYTES, MAX_VALUE_BYTES};
pub use loss::Loss;
pub use operator::{MergeOperator, sketch};
pub use options::{
    Access, Compaction, Compression, Create, Durability, FilterPolicy, FilterResidency,
    RangeFilterPolicy, Recovery, Strategy,
};
pub use segment::{BlockInfo, FilterStats, Inspection, RangeFilterStats, RegionInfo, SegmentStats};
pub use services::{Event, EventKind};
pub use slice::Slice;
pub use storage::Io;
pub use store::{RecoveryReport, TornTail};
pub use tools::{Checkpoint, Rebuilt, Repaired, Verification};
pub use tree::{
    Explanation, FilterOutcome, LookupStats, Outcome, RangeExplanation, RangeOutcome, RangeStep,
    ScanStats, Source, Step,
};

/// The programs in the README compile.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;
