//! The mapped end of a file that grows.
//!
//! Room is reserved and mapped piece by piece; an append is copied to the piece and needs no system
//! call. The file is longer than what was appended then, by zeros.
//!
//! Room that was written with zeros is cheaper to fill than room that is only allocated: the system
//! keeps it in pieces of many pages, and the first touch of each piece maps it whole. But a sync
//! writes whole pieces. So room is allocated at first, and after each sync.

use std::fs::File;
use std::io;
use std::ops::Range;
use std::os::unix::fs::FileExt as _;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use memmap2::{Advice, MmapMut};

use super::{RESERVE_MIN, limit};

/// Bytes that are reserved and mapped at a time, by allocation and by zeros. An append that needs
/// more gets a longer piece.
const ALLOCATED_BYTES: u64 = 1 << 20;
const ZEROED_BYTES: u64 = 256 << 10;

static ZEROS: [u8; ZEROED_BYTES as usize] = [0; ZEROED_BYTES as usize];

/// Offsets of maps are multiples of the page size, which is this or a divisor of it.
const PAGE_BYTES: u64 = 64 << 10;

/// A mapped piece of the file, zeros from the end of what was appended on.
#[derive(Debug)]
struct Piece {
    map: MmapMut,
    /// Where it begins in the file.
    start: u64,
}

impl Piece {
    /// Makes the file longer, and maps a piece in which there is room for so many bytes at `offset`,
    /// where the file's content ends.
    fn open(file: &File, offset: u64, bytes: usize, by_zeros: bool) -> io::Result<Piece> {
        let start = offset / PAGE_BYTES * PAGE_BYTES;
        let needed = offset + bytes as u64 + RESERVE_MIN as u64;
        let step = if by_zeros {
            ZEROED_BYTES
        } else {
            ALLOCATED_BYTES
        };
        let end = needed.next_multiple_of(step);
        let len = end - start;
        limit::check(end)?;
        if by_zeros {
            write_zeros(file, offset..end)?;
        } else {
            allocate(file, start, len)?;
        }
        let map = map_for_writing(file, start, len)?;
        // Pages that were read ahead of a touch would be zeros.
        map.advise(Advice::Random).ok();
        Ok(Piece { map, start })
    }

    /// Where so many bytes at an offset lie in the map, if [`RESERVE_MIN`] zeros follow them.
    fn place(&self, offset: u64, bytes: usize) -> Option<Range<usize>> {
        let start = usize::try_from(offset.checked_sub(self.start)?).ok()?;
        let end = start.checked_add(bytes)?;
        (end.checked_add(RESERVE_MIN)? <= self.map.len()).then_some(start..end)
    }
}

/// The mapped end of one file.
#[derive(Debug)]
pub(super) struct Window {
    file: Arc<File>,
    /// Whether the file was synced since that was looked at.
    is_synced: Arc<AtomicBool>,
    piece: Piece,
}

impl Window {
    /// `is_synced` is set by who syncs the file.
    pub(super) fn open(
        file: &Arc<File>,
        is_synced: &Arc<AtomicBool>,
        offset: u64,
    ) -> io::Result<Window> {
        Ok(Window {
            file: Arc::clone(file),
            is_synced: Arc::clone(is_synced),
            piece: Piece::open(file, offset, 0, false)?,
        })
    }

    /// The place for so many bytes at an offset, which is where the last place ended.
    pub(super) fn room(&mut self, offset: u64, bytes: usize) -> io::Result<&mut [u8]> {
        let place = match self.piece.place(offset, bytes) {
            Some(place) => Some(place),
            None => {
                let by_zeros = !self.is_synced.swap(false, Ordering::Relaxed);
                self.piece = Piece::open(&self.file, offset, bytes, by_zeros)?;
                self.piece.place(offset, bytes)
            }
        };
        let room = place.and_then(|place| self.piece.map.get_mut(place));
        room.ok_or_else(|| io::ErrorKind::FileTooLarge.into())
    }
}

fn write_zeros(file: &File, range: Range<u64>) -> io::Result<()> {
    let mut at = range.start;
    while at < range.end {
        let bytes = (range.end - at).min(ZEROED_BYTES);
        file.write_all_at(&ZEROS[..bytes as usize], at)?;
        at += bytes;
    }
    Ok(())
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
    // bytes that were appended before and are not written again, and the map of the piece before it,
    // which holds the same pages where both overlap.
    unsafe { options.map_mut(file) }
}
