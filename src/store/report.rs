//! What `open` has found and done.

use std::path::PathBuf;

use crate::loss::Loss;

/// What `open` found and did.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct RecoveryReport {
    /// Whether the last user closed the store.
    pub clean: bool,
    /// Batches replayed from journals.
    pub batches: u64,
    /// Operations in them.
    pub operations: u64,
    /// Torn tails that were dropped: writes that were never acknowledged as durable.
    pub torn: Vec<TornTail>,
    /// What was given up that no crash explains: see [`Recovery`](crate::Recovery). Empty when
    /// nothing was damaged.
    pub lost: Vec<Loss>,
    /// Files that were kept under these names because they are damaged.
    pub quarantined: Vec<String>,
    /// Files that are not the store's. They are left alone.
    pub unknown_files: Vec<String>,
    /// Files of the store that nothing refers to any more, removed by `open`.
    pub removed_files: Vec<String>,
}

/// A torn tail of a journal.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct TornTail {
    /// The journal.
    pub path: PathBuf,
    /// Where the intact part ends, in bytes.
    pub offset: u64,
    /// Bytes dropped.
    pub dropped_bytes: u64,
}
