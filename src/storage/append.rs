//! A file of the operating system that grows at its end.
//!
//! Bytes are given to the system by a call to write them, or, where many small appends are to
//! come, by copying them to a memory map: the system keeps the pages of a file's map when the
//! process is killed, so that an append survives a kill without a system call.

use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt as _;
use std::sync::Arc;

use memmap2::MmapMut;

use super::{AppendFile, RESERVE_MIN, SyncFile};

/// Bytes that are reserved and mapped at a time; a longer append gets as many as it needs.
const WINDOW_BYTES: u64 = 1 << 20;

/// Offsets of maps are multiples of the page size, which is this or a divisor of it.
const PAGE_BYTES: u64 = 64 << 10;

#[derive(Debug)]
pub(super) struct Appended {
    file: Arc<Synced>,
    /// Bytes appended; the file may be longer.
    len: u64,
    /// Whether the file is to be reserved ahead.
    reserves: bool,
    window: Option<Window>,
}

#[derive(Debug)]
pub(super) struct Synced(File);

/// A mapped piece of the file, zeros from the end of what was appended on.
#[derive(Debug)]
struct Window {
    map: MmapMut,
    /// Where it begins in the file.
    start: u64,
}

impl Window {
    /// The place for so many bytes at an offset, if [`RESERVE_MIN`] zeros follow it.
    fn room(&mut self, offset: u64, bytes: usize) -> Option<&mut [u8]> {
        let start = usize::try_from(offset.checked_sub(self.start)?).ok()?;
        let end = start.checked_add(bytes)?;
        if end.checked_add(RESERVE_MIN)? > self.map.len() {
            return None;
        }
        self.map.get_mut(start..end)
    }
}

impl Appended {
    /// A new, empty file that is open for reading and writing.
    pub(super) fn new(file: File) -> Appended {
        Appended {
            file: Arc::new(Synced(file)),
            len: 0,
            reserves: false,
            window: None,
        }
    }

    /// Makes the file longer, and maps a piece in which there is room for so many bytes.
    fn grow(&mut self, bytes: usize) -> io::Result<Window> {
        self.window = None;
        let start = self.len / PAGE_BYTES * PAGE_BYTES;
        let needed = self.len - start + bytes as u64 + RESERVE_MIN as u64;
        let len = needed.next_multiple_of(WINDOW_BYTES);
        allocate(&self.file.0, start, len)?;
        Ok(Window {
            map: map_for_writing(&self.file.0, start, len)?,
            start,
        })
    }
}

impl AppendFile for Appended {
    fn append(&mut self, bytes: &[u8]) -> io::Result<()> {
        let has_room = |window: &mut Window| window.room(self.len, bytes.len()).is_some();
        if self.reserves && !self.window.as_mut().is_some_and(has_room) {
            self.window = self.grow(bytes.len()).ok();
            // Where the system cannot do it, or the disk is nearly full, appends are written.
            self.reserves = self.window.is_some();
        }
        let window = self.window.as_mut();
        match window.and_then(|window| window.room(self.len, bytes.len())) {
            Some(room) => room.copy_from_slice(bytes),
            None => self.file.0.write_all_at(bytes, self.len)?,
        }
        self.len += bytes.len() as u64;
        Ok(())
    }

    fn reserve(&mut self) {
        self.reserves = true;
    }

    fn trim(&mut self) {
        self.reserves = false;
        if self.window.take().is_some() {
            // Zeros at its end do the file no harm: they are not worth an error.
            self.file.0.set_len(self.len).ok();
        }
    }

    fn sync(&self) -> io::Result<()> {
        self.file.sync()
    }

    fn syncer(&self) -> Arc<dyn SyncFile> {
        Arc::<Synced>::clone(&self.file)
    }
}

impl Drop for Appended {
    fn drop(&mut self) {
        self.trim();
    }
}

impl SyncFile for Synced {
    fn sync(&self) -> io::Result<()> {
        // fdatasync leaves out times only: the length is needed to read the data back, and is
        // written with it. Pages that were written to through a map are synced like others.
        self.0.sync_data()
    }
}

/// Makes the file reach so far, with room on the disk: a page of a map that turned out to have
/// none would be a signal instead of an error.
#[cfg(target_os = "linux")]
#[expect(unsafe_code, reason = "the standard library has no fallocate")]
fn allocate(file: &File, start: u64, len: u64) -> io::Result<()> {
    use std::os::fd::AsRawFd as _;
    let too_large = |_too_large| io::Error::from(io::ErrorKind::FileTooLarge);
    let start = libc::off_t::try_from(start).map_err(too_large)?;
    let len = libc::off_t::try_from(len).map_err(too_large)?;
    // SAFETY: takes no pointers; the descriptor is that of an open file.
    if unsafe { libc::fallocate(file.as_raw_fd(), 0, start, len) } == 0 {
        Ok(())
    } else {
        Err(io::Error::last_os_error())
    }
}

#[cfg(not(target_os = "linux"))]
fn allocate(_: &File, _: u64, _: u64) -> io::Result<()> {
    Err(io::ErrorKind::Unsupported.into())
}

#[expect(unsafe_code, reason = "a file can be mapped only by a promise")]
fn map_for_writing(file: &File, start: u64, len: u64) -> io::Result<MmapMut> {
    let too_large = |_too_large| io::Error::from(io::ErrorKind::FileTooLarge);
    let len = usize::try_from(len).map_err(too_large)?;
    let mut options = memmap2::MmapOptions::new();
    options.offset(start).len(len);
    // SAFETY: the piece lies within the file, which was created by this process under the store's
    // lock and is not made shorter while it is mapped. Beside this map only reads look at it, of
    // bytes that were appended before and are not written again.
    unsafe { options.map_mut(file) }
}

#[cfg(test)]
#[expect(clippy::disallowed_methods, reason = "of files as they are")]
mod tests {
    use super::*;

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
        reserved.append(b"header").unwrap();
        written.append(b"header").unwrap();
        reserved.reserve();
        for n in 0..3000_usize {
            let bytes = vec![n as u8 | 1; n * n * 31 % 3000 + usize::from(n == 700) * 3_000_000];
            reserved.append(&bytes).unwrap();
            written.append(&bytes).unwrap();
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
        reserved.trim();
        reserved.append(b"end").unwrap();
        written.append(b"end").unwrap();
        let read = |name: &str| std::fs::read(directory.path().join(name)).unwrap();
        assert!(read("reserved") == read("written"));
    }

    #[test]
    fn a_dropped_file_has_no_reserve() {
        let directory = tempfile::tempdir().unwrap();
        let mut appended = Appended::new(file(&directory, "file"));
        appended.reserve();
        appended.append(b"abc").unwrap();
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
        appended.append(b"abc").unwrap();
        appended.append(b"def").unwrap();
        assert!(!appended.reserves);
        assert!(std::fs::read(&path).unwrap().starts_with(b"abcdef"));
    }
}
