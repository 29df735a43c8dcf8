//! A file of the operating system that grows at its end.
//!
//! Bytes are given to the system by a call to write them, or, where many small appends are to
//! come, by copying them to a memory map: the system keeps the pages of a file's map when the
//! process is killed, so that an append survives a kill without a system call. The device gets the
//! bytes when the system sees fit or a sync asks for them.

use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt as _;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU8, Ordering};

use super::window::Window;
use super::{AppendFile, SyncFile, limit, mappable};

#[derive(Debug)]
pub(super) struct Appended {
    file: Arc<File>,
    is_synced: Arc<AtomicBool>,
    /// Bytes appended; the file may be longer.
    len: u64,
    /// The file is made longer ahead of what is appended.
    window: Option<Window>,
    was_reserved: bool,
}

#[derive(Debug)]
pub(super) struct Synced {
    file: Arc<File>,
    is_synced: Arc<AtomicBool>,
}

impl Appended {
    /// A new, empty file that is open for reading and writing.
    pub(super) fn new(file: File) -> Appended {
        Appended {
            file: Arc::new(file),
            is_synced: Arc::default(),
            len: 0,
            window: None,
            was_reserved: false,
        }
    }
}

impl Appended {
    /// Copies the parts to the map; `false` where the system cannot map more of the file.
    fn copy(&mut self, parts: &[&[u8]], bytes: usize) -> bool {
        let Some(window) = &mut self.window else {
            return false;
        };
        match window.room(self.len, bytes) {
            Ok(room) => {
                copy_first_byte_last(room, parts);
                true
            }
            Err(_) => false,
        }
    }

    /// Gives the reserve up: the file ends with its last append, as readers of one expect that is
    /// appended to by calls.
    fn end_reserve(&mut self) -> io::Result<()> {
        self.window = None;
        if std::mem::take(&mut self.was_reserved) {
            self.file.set_len(self.len)?;
        }
        Ok(())
    }

    fn write(&self, parts: &[&[u8]]) -> io::Result<()> {
        let bytes: usize = parts.iter().map(|part| part.len()).sum();
        limit::check(self.len + bytes as u64)?;
        let mut offset = self.len;
        for part in parts {
            self.file.write_all_at(part, offset)?;
            offset += part.len() as u64;
        }
        Ok(())
    }
}

impl AppendFile for Appended {
    fn append(&mut self, parts: &[&[u8]]) -> io::Result<()> {
        let bytes: usize = parts.iter().map(|part| part.len()).sum();
        if bytes == 0 {
            return Ok(());
        }
        if !self.copy(parts, bytes) {
            // The disk may be nearly full: an append by calls then says so, where a map could not.
            self.end_reserve()?;
            self.write(parts)?;
        }
        self.len += bytes as u64;
        Ok(())
    }

    fn reserve(&mut self) {
        if !mappable::is_mappable(&self.file) {
            return;
        }
        self.window = Window::open(&self.file, &self.is_synced, self.len).ok();
        // An attempt that failed may have made the file longer all the same.
        self.was_reserved = true;
    }

    fn sync(&self) -> io::Result<()> {
        sync(&self.file, &self.is_synced)
    }

    fn syncer(&self) -> Arc<dyn SyncFile> {
        Arc::new(Synced {
            file: Arc::clone(&self.file),
            is_synced: Arc::clone(&self.is_synced),
        })
    }
}

/// The file is as long as what was appended.
impl Drop for Appended {
    fn drop(&mut self) {
        // Zeros at its end do the file no harm: they are not worth an error.
        self.end_reserve().ok();
    }
}

/// Copies the parts one after the other, and the first byte of all when all others are there. A
/// kill cuts a copy off after any part of it, in any order: if the first byte is not zero, the copy
/// is whole.
#[expect(unsafe_code, reason = "one byte of a map is stored behind all others")]
fn copy_first_byte_last(room: &mut [u8], parts: &[&[u8]]) {
    let mut first = None;
    let mut at = 0;
    for part in parts {
        let Some((byte, rest)) = part.split_first() else {
            continue;
        };
        match first {
            None => first = Some(*byte),
            Some(_) => room[at] = *byte,
        }
        room[at + 1..at + part.len()].copy_from_slice(rest);
        at += part.len();
    }
    if let (Some(byte), Some(place)) = (first, room.first_mut()) {
        // SAFETY: the pointer is that of a byte that is borrowed for writing alone.
        let place = unsafe { AtomicU8::from_ptr(place) };
        // A release: the compiler moves none of the stores above behind it.
        place.store(byte, Ordering::Release);
    }
}

impl SyncFile for Synced {
    fn sync(&self) -> io::Result<()> {
        sync(&self.file, &self.is_synced)
    }
}

fn sync(file: &File, is_synced: &AtomicBool) -> io::Result<()> {
    is_synced.store(true, Ordering::Relaxed);
    // fdatasync leaves out times only: the length is needed to read the data back, and is
    // written with it. Pages that were written to through a map are synced like others.
    file.sync_data()
}

#[cfg(test)]
#[expect(clippy::disallowed_methods, reason = "of files as they are")]
mod tests {
    use super::*;
    use crate::storage::RESERVE_MIN;

    fn file(directory: &tempfile::TempDir, name: &str) -> File {
        let mut options = File::options();
        options.read(true).write(true).create_new(true);
        options.open(directory.path().join(name)).unwrap()
    }

    /// Writing calls are the safe twin of the map.
    #[test]
    fn a_file_with_a_reserve_is_as_one_without() {
        let directory = tempfile::tempdir().unwrap();
        let mut reserved = Appended::new(file(&directory, "reserved"));
        let mut written = Appended::new(file(&directory, "written"));
        reserved.append(&[b"header"]).unwrap();
        written.append(&[b"header"]).unwrap();
        reserved.reserve();
        for n in 0..3000_usize {
            // Now and then more than a piece has room for.
            let long = usize::from(n == 700) * 3_000_000 + usize::from(n % 97 == 5) * 400_000;
            let bytes = vec![n as u8 | 1; n * n * 31 % 3000 + long];
            reserved.append(&[&bytes]).unwrap();
            written.append(&[&bytes]).unwrap();
            if n % 500 == 0 {
                reserved.sync().unwrap();
                let read = |name: &str| std::fs::read(directory.path().join(name)).unwrap();
                let (reserved, written) = (read("reserved"), read("written"));
                let (start, rest) = reserved.split_at(written.len());
                assert!(start == written);
                assert!(rest.len() >= RESERVE_MIN && rest.iter().all(|byte| *byte == 0));
            }
        }
        assert!(reserved.window.is_some());
        drop(reserved);
        let read = |name: &str| std::fs::read(directory.path().join(name)).unwrap();
        assert!(read("reserved") == read("written"));
    }

    #[test]
    fn a_dropped_file_has_no_reserve() {
        let directory = tempfile::tempdir().unwrap();
        let mut appended = Appended::new(file(&directory, "file"));
        appended.reserve();
        appended.append(&[b"abc"]).unwrap();
        drop(appended);
        assert_eq!(
            std::fs::read(directory.path().join("file")).unwrap(),
            b"abc"
        );
    }

    /// Where nothing can be reserved, appends are written all the same.
    #[test]
    fn what_cannot_be_mapped_is_written() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("file");
        std::fs::write(&path, b"").unwrap();
        // A file that is open for writing only cannot be mapped.
        let mut appended = Appended::new(File::options().write(true).open(&path).unwrap());
        appended.reserve();
        appended.append(&[b"abc"]).unwrap();
        appended.append(&[b"def"]).unwrap();
        assert!(appended.window.is_none());
        assert!(std::fs::read(&path).unwrap().starts_with(b"abcdef"));
    }
}
