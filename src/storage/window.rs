//! Mapped pieces of a file that grows: some are made while the one before them is filled.
//!
//! The first touch of a mapped page costs the system a microsecond or two, and to make a file longer
//! costs more. A thread does both ahead of who appends, from the moment the first piece is half full:
//! it writes zeros to the file and maps them, a quarter of the work of mapping room that is allocated
//! and empty, as what is written by long calls is kept in pieces of many pages. A sync writes whole
//! pieces, so a file that is being synced gets its room by pages instead.
//!
//! Invariant: nothing is appended where the thread still may write zeros. Whoever opens a piece by itself
//! waits first until nothing more is being made.

use std::fs::File;
use std::io;
use std::ops::Range;
use std::os::unix::fs::FileExt as _;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::thread::JoinHandle;

use memmap2::{Advice, MmapMut};

use super::{RESERVE_MIN, limit};

/// Bytes that are reserved and mapped at a time by who appends; a longer append gets as many as it needs.
const WINDOW_BYTES: u64 = 1 << 20;

/// Bytes that are reserved and mapped at a time by the thread, with one call. Pieces of the page cache of
/// 512 KiB and more, which a longer call makes, are now and then mapped page by page all the same; and
/// whoever has filled everything waits for one piece.
const PIECE_BYTES: u64 = 256 << 10;

/// Pieces that are made ahead of the one that is filled.
const AHEAD: usize = 4;

/// Offsets of maps are multiples of the page size, which is this or a divisor of it.
const PAGE_BYTES: u64 = 64 << 10;

/// A mapped piece of the file, zeros from the end of what was appended on.
#[derive(Debug)]
pub(super) struct Window {
    map: MmapMut,
    /// Where it begins in the file.
    start: u64,
}

impl Window {
    /// Makes the file longer, and maps a piece in which there is room for so many bytes at `offset`.
    fn open(file: &File, offset: u64, bytes: usize) -> io::Result<Window> {
        let start = offset / PAGE_BYTES * PAGE_BYTES;
        let needed = offset + bytes as u64 + RESERVE_MIN as u64;
        let len = needed.next_multiple_of(WINDOW_BYTES) - start;
        limit::check(start + len)?;
        allocate(file, start, len)?;
        Window::map(file, start, len)
    }

    /// The one that continues a reserve which ends at `end`; `zeros` are [`PIECE_BYTES`].
    fn ahead(file: &File, end: u64, zeros: &[u8]) -> io::Result<Window> {
        let next_end = (end + 1).next_multiple_of(PIECE_BYTES);
        limit::check(next_end)?;
        file.write_all_at(&zeros[..(next_end - end) as usize], end)?;
        let start = end - PAGE_BYTES;
        let window = Window::map(file, start, next_end - start)?;
        window.touch();
        Ok(window)
    }

    /// The same of single pages.
    fn ahead_by_pages(file: &File, end: u64) -> io::Result<Window> {
        let window = Window::open(file, end - PAGE_BYTES, PAGE_BYTES as usize)?;
        window.touch();
        Ok(window)
    }

    /// An old system cannot do it: then pages are touched as they are filled.
    fn touch(&self) {
        #[cfg(target_os = "linux")]
        self.map.advise(Advice::PopulateWrite).ok();
    }

    fn map(file: &File, start: u64, len: u64) -> io::Result<Window> {
        let map = map_for_writing(file, start, len)?;
        // What is read ahead of a touch would be zeros.
        map.advise(Advice::Random).ok();
        Ok(Window { map, start })
    }

    /// Where so many bytes at an offset lie in the map, if [`RESERVE_MIN`] zeros follow them.
    fn place(&self, offset: u64, bytes: usize) -> Option<Range<usize>> {
        let start = usize::try_from(offset.checked_sub(self.start)?).ok()?;
        let end = start.checked_add(bytes)?;
        (end.checked_add(RESERVE_MIN)? <= self.map.len()).then_some(start..end)
    }

    fn len(&self) -> u64 {
        self.map.len() as u64
    }

    /// Where it ends in the file. The next one begins [`PAGE_BYTES`] before that, so that whatever there
    /// is no room for here begins there, unless it is long.
    fn end(&self) -> u64 {
        self.start + self.len()
    }
}

/// The windows of one file, one after the other.
#[derive(Debug)]
pub(super) struct Windows {
    file: Arc<File>,
    /// Whether the file was synced since that was looked at.
    is_synced: Arc<AtomicBool>,
    current: Window,
    maker: Option<Maker>,
}

impl Windows {
    /// `is_synced` is set by who syncs the file.
    pub(super) fn open(
        file: &Arc<File>,
        is_synced: &Arc<AtomicBool>,
        offset: u64,
    ) -> io::Result<Windows> {
        Ok(Windows {
            file: Arc::clone(file),
            is_synced: Arc::clone(is_synced),
            current: Window::open(file, offset, 0)?,
            maker: None,
        })
    }

    /// The place for so many bytes at an offset, which is where the last place ended.
    pub(super) fn room(&mut self, offset: u64, bytes: usize) -> io::Result<&mut [u8]> {
        let place = match self.current.place(offset, bytes) {
            Some(place) => Some(place),
            None => {
                self.move_on(offset, bytes)?;
                self.current.place(offset, bytes)
            }
        };
        // The thread has to come to its turn in time, but a file of a few appends needs none.
        let is_begun = offset - self.current.start > self.current.len() / 2;
        if is_begun || self.maker.is_some() {
            self.make_next();
        }
        let room = place.and_then(|place| self.current.map.get_mut(place));
        room.ok_or_else(|| io::ErrorKind::FileTooLarge.into())
    }

    fn move_on(&mut self, offset: u64, bytes: usize) -> io::Result<()> {
        let made = self.maker.as_mut().and_then(Maker::take);
        let next = match made.filter(|window| window.place(offset, bytes).is_some()) {
            Some(window) => window,
            None => {
                if let Some(maker) = &mut self.maker {
                    maker.forget();
                }
                Window::open(&self.file, offset, bytes)?
            }
        };
        let old = std::mem::replace(&mut self.current, next);
        if let Some(maker) = &mut self.maker {
            maker.old = Some(old);
            maker.by_pages = self.is_synced.swap(false, Ordering::Relaxed);
        }
        Ok(())
    }

    /// Without the thread, each window is made when it is needed.
    fn make_next(&mut self) {
        if self.maker.is_none() {
            let by_pages = self.is_synced.swap(false, Ordering::Relaxed);
            self.maker = Maker::start(&self.file, by_pages).ok();
        }
        if let Some(maker) = &mut self.maker {
            maker.ask(self.current.end());
        }
    }
}

/// The thread that makes windows, one after the other.
#[derive(Debug)]
struct Maker {
    asks: Option<SyncSender<Ask>>,
    made: Option<Receiver<io::Result<Window>>>,
    thread: Option<JoinHandle<()>>,
    /// Windows that were asked for and not taken; at most [`AHEAD`].
    asked: usize,
    /// Whether the file was synced while the window before the current one was filled.
    by_pages: bool,
    /// The window before the current one, which the thread is to unmap.
    old: Option<Window>,
}

#[derive(Debug)]
struct Ask {
    /// Where the reserve ends, if not with the window that was asked for before.
    end: Option<u64>,
    by_pages: bool,
    old: Option<Window>,
}

impl Maker {
    fn start(file: &Arc<File>, by_pages: bool) -> io::Result<Maker> {
        // Neither side waits to send.
        let (asks, asked) = sync_channel::<Ask>(AHEAD);
        let (give, made) = sync_channel(AHEAD);
        let file = Arc::clone(file);
        let make = move || {
            let zeros = vec![0; PIECE_BYTES as usize];
            let mut end = 0;
            for ask in asked {
                drop(ask.old);
                end = ask.end.unwrap_or(end);
                let window = match ask.by_pages {
                    true => Window::ahead_by_pages(&file, end),
                    false => Window::ahead(&file, end, &zeros),
                };
                end = window.as_ref().map_or(end, Window::end);
                if give.send(window).is_err() {
                    return;
                }
            }
        };
        let thread = std::thread::Builder::new().name("criba-journal".to_owned());
        Ok(Maker {
            asks: Some(asks),
            made: Some(made),
            thread: Some(thread.spawn(make)?),
            asked: 0,
            by_pages,
            old: None,
        })
    }

    /// Asks for as many as are made ahead, of a file that is being synced for a single one; the reserve ends
    /// at `end` if nothing was asked for.
    fn ask(&mut self, end: u64) {
        let most = if self.by_pages { 1 } else { AHEAD };
        while self.asked < most {
            let ask = Ask {
                end: (self.asked == 0).then_some(end),
                by_pages: self.by_pages,
                old: self.old.take(),
            };
            let asks = self.asks.as_ref();
            if asks.is_none_or(|asks| asks.send(ask).is_err()) {
                return;
            }
            self.asked += 1;
        }
    }

    /// The next one. If it is just being made, waiting is faster than making another.
    fn take(&mut self) -> Option<Window> {
        self.asked = self.asked.checked_sub(1)?;
        self.made.as_ref()?.recv().ok()?.ok()
    }

    /// Waits until nothing is being made any more; all of it goes.
    fn forget(&mut self) {
        while self.asked > 0 {
            drop(self.take());
        }
    }
}

/// The thread ends, so that the file grows no more, with the window that it is making.
impl Drop for Maker {
    fn drop(&mut self) {
        self.asks = None;
        self.made = None;
        if let Some(thread) = self.thread.take() {
            thread.join().ok();
        }
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
    // bytes that were appended before and are not written again, and the map of the piece before it,
    // which holds the same pages where both overlap.
    unsafe { options.map_mut(file) }
}
