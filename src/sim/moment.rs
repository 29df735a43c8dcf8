//! What is on the simulated disk after some number of calls, without the bytes.

use std::collections::BTreeMap;
use std::ops::Range;
use std::sync::Arc;

use super::directory::Clock;
use super::file::File;

/// A changing call that has been made. Files are named by their identity, because names move.
#[derive(Clone, Debug)]
pub(super) enum Operation {
    CreateDir,
    Create {
        name: String,
        file: Arc<File>,
    },
    Append {
        file: usize,
        len: usize,
    },
    /// From now on zeros follow the appends, or no longer.
    Reserve {
        file: usize,
        is_reserved: bool,
    },
    Sync {
        file: usize,
    },
    /// What was not durable yet will never be.
    FailedSync {
        file: usize,
    },
    Rename {
        from: String,
        to: String,
        file: usize,
    },
    Remove {
        name: String,
    },
    SyncDir,
}

/// The final bytes of every file, by its identity: files only grow, so that what they were
/// before is a part of it.
pub(super) type Contents = BTreeMap<usize, Arc<[u8]>>;

/// What is on the disk and what is only with the system, after some number of calls.
#[derive(Clone, Debug)]
pub(super) struct Moment {
    pub(super) exists: bool,
    pub(super) boot_id: u128,
    pub(super) clock: Clock,
    pub(super) names: BTreeMap<String, usize>,
    pub(super) durable_names: BTreeMap<String, usize>,
    /// What has happened to names since the directory was synced, oldest first.
    pub(super) changes: Vec<Change>,
    pub(super) extents: BTreeMap<usize, Extent>,
}

/// One change of the directory: atomic, as renames are.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct Change {
    pub(super) remove: Option<String>,
    pub(super) insert: Option<(String, usize)>,
}

/// How much of a file there is.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub(super) struct Extent {
    pub(super) len: usize,
    pub(super) durable_len: usize,
    /// Ranges below `durable_len` that never reached the disk.
    pub(super) lost: Vec<Range<usize>>,
    /// Where appends ended since the last sync.
    pub(super) appends: Vec<usize>,
    /// Whether zeros follow while the system runs.
    pub(super) is_reserved: bool,
}

impl Moment {
    pub(super) fn apply(&mut self, operation: &Operation) {
        match operation {
            Operation::CreateDir => self.exists = true,
            Operation::Create { name, file } => {
                self.extents.insert(file.id, Extent::default());
                self.change(None, Some((name.clone(), file.id)));
            }
            Operation::Rename { from, to, file } => {
                self.change(Some(from.clone()), Some((to.clone(), *file)));
            }
            Operation::Remove { name } => self.change(Some(name.clone()), None),
            Operation::SyncDir => {
                self.durable_names = self.names.clone();
                self.changes.clear();
            }
            Operation::Append { file, len } => {
                let extent = self.extents.entry(*file).or_default();
                extent.len += len;
                extent.appends.push(extent.len);
            }
            Operation::Reserve { file, is_reserved } => {
                self.extents.entry(*file).or_default().is_reserved = *is_reserved;
            }
            Operation::Sync { file } => self.extents.entry(*file).or_default().sync(),
            Operation::FailedSync { file } => {
                let extent = self.extents.entry(*file).or_default();
                if extent.durable_len < extent.len {
                    extent.lost.push(extent.durable_len..extent.len);
                }
                extent.sync();
            }
        }
    }

    fn change(&mut self, remove: Option<String>, insert: Option<(String, usize)>) {
        let change = Change { remove, insert };
        change.apply(&mut self.names);
        self.changes.push(change);
    }
}

impl Change {
    pub(super) fn apply(&self, names: &mut BTreeMap<String, usize>) {
        if let Some(name) = &self.remove {
            names.remove(name);
        }
        if let Some((name, file)) = &self.insert {
            names.insert(name.clone(), *file);
        }
    }
}

impl Extent {
    fn sync(&mut self) {
        self.durable_len = self.len;
        self.appends.clear();
    }
}
