//! Mapped pieces of a file that grows: each is made while the one before it is filled.
//!
//! The first touch of a mapped page costs the system a microsecond or two, and to make a file longer
//! costs more. A thread does both ahead of who appends, from the moment the first piece is half full.

use std::fs::File;
use std::io;
use std::ops::Range;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::thread::JoinHandle;

use memmap2::{Advice, MmapMut};

use super::RESERVE_MIN;

/// Bytes that are reserved and mapped at a time; a longer append gets as many as it needs.
const WINDOW_BYTES: u64 = 1 << 20;

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
        let needed = offset - start + bytes as u64 + RESERVE_MIN as u64;
        let len = needed.next_multiple_of(WINDOW_BYTES);
        allocate(file, start, len)?;
        let map = map_for_writing(file, start, len)?;
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

    /// Where the next one begins, so that whatever there is no room for here begins there, unless it
    /// is long.
    fn next_start(&self) -> u64 {
        self.start + self.len() - PAGE_BYTES
    }
}

/// The windows of one file, one after the other.
#[derive(Debug)]
pub(super) struct Windows {
    file: Arc<File>,
    current: Window,
    maker: Option<Maker>,
}

impl Windows {
    pub(super) fn open(file: &Arc<File>, offset: u64) -> io::Result<Windows> {
        let current = Window::open(file, offset, 0)?;
        // Only what is written shall be touched: nothing there is worth being read ahead.
        current.map.advise(Advice::Random).ok();
        Ok(Windows {
            file: Arc::clone(file),
            current,
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
            None => Window::open(&self.file, offset, bytes)?,
        };
        let old = std::mem::replace(&mut self.current, next);
        if let Some(maker) = &mut self.maker {
            maker.old = Some(old);
        }
        Ok(())
    }

    /// Without the thread, each window is made when it is needed.
    fn make_next(&mut self) {
        if self.maker.is_none() {
            self.maker = Maker::start(&self.file).ok();
        }
        if let Some(maker) = &mut self.maker {
            maker.ask(self.current.next_start());
        }
    }
}

/// The thread that makes windows.
#[derive(Debug)]
struct Maker {
    asks: Option<SyncSender<Ask>>,
    made: Receiver<io::Result<Window>>,
    thread: Option<JoinHandle<()>>,
    /// Invariant: it makes one window at a time.
    is_asked: bool,
    /// The window before the current one, which the thread is to unmap.
    old: Option<Window>,
}

#[derive(Debug)]
struct Ask {
    start: u64,
    old: Option<Window>,
}

impl Maker {
    fn start(file: &Arc<File>) -> io::Result<Maker> {
        let (asks, asked) = sync_channel::<Ask>(1);
        let (give, made) = sync_channel(1);
        let file = Arc::clone(file);
        let make = move || {
            for Ask { start, old } in asked {
                drop(old);
                let window = Window::open(&file, start, 0);
                #[cfg(target_os = "linux")]
                if let Ok(window) = &window {
                    // An old system cannot do it: then pages are touched as they are filled.
                    window.map.advise(Advice::PopulateWrite).ok();
                }
                if give.send(window).is_err() {
                    return;
                }
            }
        };
        let thread = std::thread::Builder::new().name("criba-journal".to_owned());
        Ok(Maker {
            asks: Some(asks),
            made,
            thread: Some(thread.spawn(make)?),
            is_asked: false,
            old: None,
        })
    }

    /// Asks for one, if that was not done.
    fn ask(&mut self, start: u64) {
        if self.is_asked {
            return;
        }
        let old = self.old.take();
        let asks = self.asks.as_ref();
        self.is_asked = asks.is_some_and(|asks| asks.send(Ask { start, old }).is_ok());
    }

    /// What was asked for. If it is just being made, waiting is faster than making another.
    fn take(&mut self) -> Option<Window> {
        if !std::mem::take(&mut self.is_asked) {
            return None;
        }
        self.made.recv().ok()?.ok()
    }
}

/// The thread ends, so that the file grows no more.
impl Drop for Maker {
    fn drop(&mut self) {
        self.asks = None;
        self.is_asked = false;
        if let Some(thread) = self.thread.take() {
            // What it has made is not needed.
            drop(self.made.try_recv());
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
