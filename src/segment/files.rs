//! How long the files of a segment stay.

use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use crate::format::manifest::SegmentMeta;
use crate::storage::Storage;

use super::names::{file_name, filter_file_name};

/// The files of a segment, wherever in the tree: its copies share them, and the last takes them
/// with it if they are not needed any more.
#[derive(Debug)]
pub(super) struct Files {
    storage: Arc<dyn Storage>,
    id: u64,
    /// That of [`SegmentMeta`].
    filter_file: u64,
    /// Not live any more.
    obsolete: AtomicBool,
    /// Another filter file stands for this segment's own by now.
    filter_obsolete: AtomicBool,
}

impl Files {
    pub(super) fn of(storage: &Arc<dyn Storage>, meta: &SegmentMeta) -> Files {
        Files {
            storage: Arc::clone(storage),
            id: meta.id,
            filter_file: meta.filter_file,
            obsolete: AtomicBool::new(false),
            filter_obsolete: AtomicBool::new(false),
        }
    }

    /// Where the filter is, for messages.
    pub(super) fn path_of_filter(&self) -> PathBuf {
        self.storage.path_of(&match self.filter_file {
            0 => file_name(self.id),
            id => filter_file_name(id),
        })
    }

    pub(super) fn retire(&self) {
        self.obsolete.store(true, Ordering::Release);
    }

    pub(super) fn retire_filter(&self) {
        self.filter_obsolete.store(true, Ordering::Release);
    }
}

/// A file that cannot be removed now is removed by the next `open`.
impl Drop for Files {
    fn drop(&mut self) {
        let obsolete = self.obsolete.load(Ordering::Acquire);
        if obsolete {
            self.storage.remove(&file_name(self.id)).ok();
        }
        if self.filter_file > 0 && (obsolete || self.filter_obsolete.load(Ordering::Acquire)) {
            let name = filter_file_name(self.filter_file);
            self.storage.remove(&name).ok();
        }
    }
}
