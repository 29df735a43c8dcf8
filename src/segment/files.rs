//! The files of segments, and how long they stay.

use std::collections::BTreeSet;
use std::io;
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use crate::error::{Error, Result};
use crate::format::manifest::SegmentMeta;
use crate::slice::Slice;
use crate::storage::{ReadCause, ReadFile, Storage};

use super::names::{file_name, filter_file_name};

/// A file that holds a segment, or several that were written together. It goes when none of its
/// segments is live and nobody reads any of them.
#[derive(Debug)]
pub(crate) struct SegmentFile {
    storage: Arc<dyn Storage>,
    id: u64,
    file: Arc<dyn ReadFile>,
    /// Segments in it that are live.
    live: Mutex<BTreeSet<u64>>,
    /// A segment in it was live and is not any more.
    was_live: AtomicBool,
}

impl SegmentFile {
    pub(crate) fn open(storage: &Arc<dyn Storage>, id: u64) -> Result<Arc<SegmentFile>> {
        let name = file_name(id);
        let file = storage
            .open(&name)
            .map_err(|error| Error::io(storage.path_of(&name), error))?;
        Ok(Arc::new(SegmentFile {
            storage: Arc::clone(storage),
            id,
            file,
            live: Mutex::default(),
            was_live: AtomicBool::new(false),
        }))
    }

    /// Its length in bytes.
    pub(crate) fn len(&self) -> u64 {
        self.file.len()
    }

    pub(super) fn storage(&self) -> &Arc<dyn Storage> {
        &self.storage
    }

    pub(super) fn path(&self) -> PathBuf {
        self.storage.path_of(&file_name(self.id))
    }

    /// The file with the bytes of all its segments.
    pub(super) fn whole(&self) -> &dyn ReadFile {
        &*self.file
    }

    /// The bytes of one segment: the whole file, or a section of it.
    pub(super) fn section(&self, start: u64, len: u64) -> Arc<dyn ReadFile> {
        if start == 0 && self.file.len() == len {
            return Arc::clone(&self.file);
        }
        Arc::new(Section {
            file: Arc::clone(&self.file),
            start,
            len: len.min(self.file.len().saturating_sub(start)),
        })
    }

    fn live(&self) -> MutexGuard<'_, BTreeSet<u64>> {
        self.live.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A file that cannot be removed now is removed by the next `open`.
impl Drop for SegmentFile {
    fn drop(&mut self) {
        if self.was_live.load(Ordering::Acquire) && self.live().is_empty() {
            self.storage.remove(&file_name(self.id)).ok();
        }
    }
}

/// Files of segments that are opened together: each is opened once.
#[derive(Debug)]
pub(crate) struct SegmentFiles<'a> {
    storage: &'a Arc<dyn Storage>,
    open: std::collections::BTreeMap<u64, Arc<SegmentFile>>,
}

impl<'a> SegmentFiles<'a> {
    pub(crate) fn of(storage: &'a Arc<dyn Storage>) -> SegmentFiles<'a> {
        SegmentFiles {
            storage,
            open: Default::default(),
        }
    }

    /// The file that holds a segment.
    pub(crate) fn of_segment(&mut self, meta: &SegmentMeta) -> Result<Arc<SegmentFile>> {
        if let Some(file) = self.open.get(&meta.file) {
            return Ok(Arc::clone(file));
        }
        let file = SegmentFile::open(self.storage, meta.file)?;
        self.open.insert(meta.file, Arc::clone(&file));
        Ok(file)
    }
}

/// A part of a file, as a file.
#[derive(Debug)]
struct Section {
    file: Arc<dyn ReadFile>,
    start: u64,
    len: u64,
}

impl ReadFile for Section {
    fn len(&self) -> u64 {
        self.len
    }

    fn read(&self, cause: ReadCause, offset: u64, len: usize) -> io::Result<Slice> {
        let end = offset.checked_add(len as u64);
        if end.is_none_or(|end| end > self.len) {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        self.file.read(cause, self.start + offset, len)
    }

    fn will_read(&self, offset: u64, len: u64) {
        let len = len.min(self.len.saturating_sub(offset));
        self.file.will_read(self.start.saturating_add(offset), len);
    }

    fn mapped(&self) -> Option<Slice> {
        let start = usize::try_from(self.start).ok()?;
        let end = start.checked_add(usize::try_from(self.len).ok()?)?;
        let all = self.file.mapped()?;
        (end <= all.len()).then(|| all.slice(start..end))
    }
}

/// The files of a segment, wherever in the tree: its copies share them, and the last takes them
/// with it if they are not needed any more.
#[derive(Debug)]
pub(super) struct Files {
    file: Arc<SegmentFile>,
    id: u64,
    /// That of [`SegmentMeta`].
    filter_file: u64,
    /// Not live any more.
    obsolete: AtomicBool,
    /// Another filter file stands for this segment's own by now.
    filter_obsolete: AtomicBool,
}

impl Files {
    pub(super) fn of(file: &Arc<SegmentFile>, meta: &SegmentMeta) -> Files {
        file.live().insert(meta.id);
        Files {
            file: Arc::clone(file),
            id: meta.id,
            filter_file: meta.filter_file,
            obsolete: AtomicBool::new(false),
            filter_obsolete: AtomicBool::new(false),
        }
    }

    /// The file that holds the segment.
    pub(super) fn file(&self) -> &Arc<SegmentFile> {
        &self.file
    }

    /// Where the filter is, for messages.
    pub(super) fn path_of_filter(&self) -> PathBuf {
        match self.filter_file {
            0 => self.file.path(),
            id => self.file.storage.path_of(&filter_file_name(id)),
        }
    }

    pub(super) fn retire(&self) {
        self.obsolete.store(true, Ordering::Release);
        self.file.live().remove(&self.id);
        self.file.was_live.store(true, Ordering::Release);
    }

    pub(super) fn retire_filter(&self) {
        self.filter_obsolete.store(true, Ordering::Release);
    }
}

/// A file that cannot be removed now is removed by the next `open`.
impl Drop for Files {
    fn drop(&mut self) {
        let obsolete = self.obsolete.load(Ordering::Acquire);
        if self.filter_file > 0 && (obsolete || self.filter_obsolete.load(Ordering::Acquire)) {
            let name = filter_file_name(self.filter_file);
            self.file.storage.remove(&name).ok();
        }
    }
}
