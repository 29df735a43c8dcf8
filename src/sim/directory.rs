//! The simulated disk: which files have which names, now and on the disk.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::SystemTime;

use super::file::File;

pub(super) type Names = BTreeMap<String, Arc<File>>;

/// What there is, and what a machine that uses it can tell.
#[derive(Debug)]
pub(super) struct Directory {
    pub(super) exists: bool,
    pub(super) names: Names,
    pub(super) durable_names: Names,
    pub(super) boot_id: u128,
    pub(super) clock: Clock,
    /// Files that were ever made.
    pub(super) files_made: usize,
}

/// What [`Storage::now`](crate::storage::Storage::now) says.
#[derive(Debug, Clone, Copy)]
pub(super) enum Clock {
    System,
    Set(Option<SystemTime>),
}
