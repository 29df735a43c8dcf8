//! What happened in the background, for [`Stats`](crate::Stats).

use std::time::Duration;

/// Something worth knowing that happened in the background.
///
/// ```
/// use criba::EventKind;
///
/// # fn main() -> criba::Result<()> {
/// # let dir = tempfile::tempdir().unwrap();
/// # let db = criba::Db::open(dir.path().join("data"))?;
/// for value in ["1", "2"] {
///     db.put("apple", value)?;
///     db.flush()?;
/// }
/// db.compact_all()?.wait()?;
/// let events = db.stats().events;
/// let is_merge = |kind: &EventKind| matches!(kind, EventKind::Compacted { inputs: 2, .. });
/// let merge = events.iter().find(|event| is_merge(&event.what)).unwrap();
/// println!("{:?} after open: {:?}", merge.at, merge.what);
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Event {
    /// Time since `open`.
    pub at: Duration,
    /// The event itself.
    pub what: EventKind,
}

/// The kinds of an [`Event`].
///
/// ```
/// use criba::EventKind;
///
/// # fn main() -> criba::Result<()> {
/// # let dir = tempfile::tempdir().unwrap();
/// # let db = criba::Db::open(dir.path().join("data"))?;
/// // A program that runs for long looks now and then.
/// for event in db.stats().events {
///     match event.what {
///         EventKind::Failed { what } => eprintln!("criba: {what}"),
///         EventKind::DamagedFilter { segment } => eprintln!("criba: filter of {segment}"),
///         _ => {}
///     }
/// }
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum EventKind {
    /// Memtables that were sealed together became segments.
    Flushed {
        /// Entries written.
        entries: u64,
        /// Bytes of the new files.
        bytes: u64,
        /// Time it took.
        took: Duration,
    },
    /// Segments were merged into a level.
    Compacted {
        /// The level that took the result.
        level: u32,
        /// Segments merged.
        inputs: u64,
        /// Bytes of the new files.
        bytes: u64,
        /// Time it took.
        took: Duration,
    },
    /// Writers are slowed: this many memtables wait.
    Slowed {
        /// Memtables that wait for their flush.
        sealed: u64,
    },
    /// Writers are stopped: this many memtables wait.
    Stopped {
        /// Memtables that wait for their flush.
        sealed: u64,
    },
    /// Background work failed and will be tried again, or the store is poisoned.
    Failed {
        /// The error, in words.
        what: String,
    },
    /// A filter is damaged; its segment is read without it.
    DamagedFilter {
        /// The segment.
        segment: u64,
    },
    /// The program's own filter was not built; the segment is read without one.
    FilterNotBuilt {
        /// The segment.
        segment: u64,
        /// Why, in words.
        what: String,
    },
}
