//! Memory that is filled from front to back while what was filled before is read.
//!
//! The memtable's entries lie in such chunks, and a value that a lookup returns is a slice of one:
//! nothing is copied, the chunk lives as long as the slice.
//!
//! Invariants:
//! 1. A chunk has one [`Filler`], which alone writes to it.
//! 2. Bytes before `filled` are never written again, bytes from there on are never read.
#![expect(
    unsafe_code,
    reason = "bytes are read beside the place where others are being written"
)]

use std::cell::UnsafeCell;
use std::fmt;
use std::ops::Range;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};

use memmap2::{MmapMut, MmapRaw};

/// Some memory of fixed size, of which a growing front part may be read.
pub(crate) struct Chunk {
    memory: Memory,
    filled: AtomicUsize,
    /// Where the memory goes when nobody needs it any more.
    spares: Weak<Spares>,
}

/// From so many bytes on, memory comes from the system and goes back to it: what an allocator gets back,
/// it keeps, as something that lives longer lies behind it. Miri looks at every byte of a chunk that is
/// touched, so its chunks are small.
pub(crate) const MAPPED_BYTES_MIN: usize = if cfg!(miri) { 4 << 10 } else { 256 << 10 };

/// Maps of chunks that are no more, for those to come: to get as many pages from the system and to give
/// them back costs a tenth of a put.
#[derive(Debug, Default)]
pub(crate) struct Spares {
    maps: Mutex<Vec<MmapRaw>>,
    most: usize,
}

impl Spares {
    /// Room for so many bytes.
    pub(crate) fn of_bytes(bytes: u64) -> Spares {
        Spares {
            maps: Mutex::default(),
            most: usize::try_from(bytes).unwrap_or(0) / MAPPED_BYTES_MIN,
        }
    }

    fn maps(&self) -> MutexGuard<'_, Vec<MmapRaw>> {
        self.maps.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.maps().is_empty()
    }

    /// Gives all back to the system.
    pub(crate) fn clear(&self) {
        // Not under the lock, for which a writer may wait.
        let maps = std::mem::take(&mut *self.maps());
        drop(maps);
    }

    fn take(&self, bytes: usize) -> Option<MmapRaw> {
        (bytes == MAPPED_BYTES_MIN)
            .then(|| self.maps().pop())
            .flatten()
    }

    /// Keeps a map if it is of the usual length and there is room.
    fn give(&self, map: MmapRaw) {
        let mut maps = self.maps();
        if map.len() == MAPPED_BYTES_MIN && maps.len() < self.most {
            maps.push(map);
            return;
        }
        drop(maps);
        drop(map);
    }
}

/// Zeroed by the system as it is filled, as all at once it would be the slowest of many puts; or as it was
/// left by a chunk before.
enum Memory {
    Heap(Box<[UnsafeCell<u8>]>),
    Mapped(MmapRaw),
}

impl Memory {
    fn new(bytes: usize, spares: &Weak<Spares>) -> Memory {
        if let Some(map) = spares.upgrade().and_then(|spares| spares.take(bytes)) {
            return Memory::Mapped(map);
        }
        // There may be too many maps.
        if bytes >= MAPPED_BYTES_MIN
            && let Ok(map) = MmapMut::map_anon(bytes)
        {
            return Memory::Mapped(map.into());
        }
        let cells = Box::new_zeroed_slice(bytes);
        // SAFETY: a cell of a byte is whatever the byte is, and zero is a byte.
        Memory::Heap(unsafe { cells.assume_init() })
    }

    #[inline]
    fn cells(&self) -> &[UnsafeCell<u8>] {
        match self {
            Memory::Heap(cells) => cells,
            // SAFETY: the map is so long and lives as long as the reference. The system has zeroed it, it was
            // only written since, and nobody else has its address; it may be written, so its cells may be as well.
            Memory::Mapped(map) => unsafe {
                std::slice::from_raw_parts(map.as_ptr().cast(), map.len())
            },
        }
    }
}

// SAFETY: threads share a chunk by invariant 2: what is read is no longer written.
unsafe impl Sync for Chunk {}

impl Chunk {
    /// Bytes that were appended.
    ///
    /// # Panics
    ///
    /// If the range does not lie within what has been filled, as indexing does.
    #[inline]
    pub(crate) fn read(&self, range: Range<usize>) -> &[u8] {
        assert!(
            range.start <= range.end && range.end <= self.filled.load(Ordering::Acquire),
            "bytes of a chunk are read once they are written"
        );
        let cells = &self.memory.cells()[range.clone()];
        // SAFETY: the range lies within the cells, as `filled` does, and is initialised, as all
        // cells are. By invariant 2 nobody writes to it while the slice lives.
        unsafe { std::slice::from_raw_parts(cells.as_ptr().cast(), range.len()) }
    }

    /// All that was appended from a place on.
    ///
    /// # Panics
    ///
    /// If less has been filled, as indexing does.
    #[inline]
    pub(crate) fn read_from(&self, start: usize) -> &[u8] {
        self.read(start..self.filled.load(Ordering::Acquire))
    }
}

impl Drop for Chunk {
    fn drop(&mut self) {
        let memory = std::mem::replace(&mut self.memory, Memory::Heap(Box::default()));
        if let Memory::Mapped(map) = memory
            && let Some(spares) = self.spares.upgrade()
        {
            spares.give(map);
        }
    }
}

impl fmt::Debug for Chunk {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Chunk")
            .field("bytes", &self.memory.cells().len())
            .field("filled", &self.filled)
            .finish()
    }
}

/// The right to append to a chunk.
#[derive(Debug)]
pub(crate) struct Filler {
    chunk: Arc<Chunk>,
}

impl Filler {
    /// A new chunk of so many bytes, from the spares if there is one.
    pub(crate) fn new(bytes: usize, spares: &Weak<Spares>) -> Filler {
        let chunk = Chunk {
            memory: Memory::new(bytes, spares),
            filled: AtomicUsize::new(0),
            spares: Weak::clone(spares),
        };
        Filler {
            chunk: Arc::new(chunk),
        }
    }

    pub(crate) fn chunk(&self) -> &Arc<Chunk> {
        &self.chunk
    }

    /// Bytes that can still be appended.
    pub(crate) fn room(&self) -> usize {
        self.chunk.memory.cells().len() - self.chunk.filled.load(Ordering::Relaxed)
    }

    /// Appends the parts one after the other; returns where the first begins, or `None` when
    /// there is too little room for all.
    #[inline]
    pub(crate) fn append(&mut self, parts: &[&[u8]]) -> Option<usize> {
        let total = parts.iter().map(|part| part.len()).sum::<usize>();
        let start = self.chunk.filled.load(Ordering::Relaxed);
        if total > self.room() {
            return None;
        }
        let mut at = start;
        for part in parts {
            let cells = &self.chunk.memory.cells()[at..at + part.len()];
            let target = cells.as_ptr().cast::<u8>().cast_mut();
            // SAFETY: the cells are as many as the part has bytes and may be written through a
            // shared reference. Only this filler writes (it is borrowed mutably, and there is no
            // other), nobody reads beyond `filled`, and the part cannot be among these cells.
            unsafe { std::ptr::copy_nonoverlapping(part.as_ptr(), target, part.len()) };
            at += part.len();
        }
        self.chunk.filled.store(at, Ordering::Release);
        Some(start)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// In memory of the allocator and of the system.
    #[test]
    fn a_chunk_holds_what_a_vector_holds() {
        for bytes in [1000, MAPPED_BYTES_MIN + 1000] {
            holds_what_a_vector_holds(bytes);
        }
    }

    fn holds_what_a_vector_holds(bytes: usize) {
        let mut filler = Filler::new(bytes, &Weak::new());
        let mut twin = Vec::new();
        let mut step = 0_usize;
        loop {
            step += 1;
            let (left, right) = (
                vec![step as u8; step * bytes / 1000 % 13_000],
                [step as u8; 3],
            );
            let before = twin.len();
            match filler.append(&[&left, &right]) {
                Some(start) => assert_eq!(start, before),
                None => break,
            }
            twin.extend(left);
            twin.extend(right);
            assert_eq!(filler.chunk().read(0..twin.len()), twin);
            assert_eq!(filler.chunk().read(before..twin.len()), &twin[before..]);
        }
        assert_eq!(filler.room(), bytes - twin.len());
        assert!(filler.append(&[&vec![1; filler.room()]]).is_some());
        assert_eq!((filler.room(), filler.append(&[&[]])), (0, Some(bytes)));
        assert_eq!(filler.chunk().read(bytes..bytes), &[] as &[u8]);
        assert_eq!(filler.append(&[&[1]]), None);
    }

    #[test]
    fn memory_goes_from_chunk_to_chunk_and_back() {
        let spares = Arc::new(Spares::of_bytes(2 * MAPPED_BYTES_MIN as u64));
        let kept = Arc::downgrade(&spares);
        let spare = || spares.maps().len();
        let new = |bytes| Filler::new(bytes, &kept);
        let mut fillers: Vec<Filler> = [0, 1, MAPPED_BYTES_MIN / 256]
            .map(|more| new(MAPPED_BYTES_MIN + more))
            .into();
        fillers.extend([(); 3].map(|()| new(MAPPED_BYTES_MIN)));
        for filler in &mut fillers {
            filler.append(&[&[9; MAPPED_BYTES_MIN]]).unwrap();
        }
        // Only as many as there is room for, and only of one length.
        drop(fillers);
        assert_eq!(spare(), 2);
        let mut again = new(MAPPED_BYTES_MIN);
        assert_eq!((spare(), again.room()), (1, MAPPED_BYTES_MIN));
        again.append(&[b"new"]);
        assert_eq!(again.chunk().read_from(0), b"new");
        let reader = Arc::clone(again.chunk());
        drop(again);
        assert_eq!((spare(), reader.read(0..3)), (1, &b"new"[..]));
        drop(reader);
        assert_eq!(spare(), 2);
        spares.clear();
        assert!(spares.is_empty());
        // Who reads may outlive the store.
        let last = new(MAPPED_BYTES_MIN);
        drop(spares);
        drop(last);
    }

    #[test]
    #[should_panic(expected = "once they are written")]
    fn nothing_is_read_before_it_is_written() {
        let mut filler = Filler::new(100, &Weak::new());
        filler.append(&[b"abc"]);
        filler.chunk().read(1..4);
    }

    #[test]
    fn readers_beside_the_writer_see_whole_parts() {
        const BYTES: usize = if cfg!(miri) { 1 << 11 } else { 1 << 16 };
        let mut filler = Filler::new(BYTES, &Weak::new());
        let chunk = Arc::clone(filler.chunk());
        std::thread::scope(|scope| {
            for _ in 0..2 {
                scope.spawn(|| {
                    let mut seen = 0;
                    while seen < BYTES {
                        seen = chunk.filled.load(Ordering::Acquire);
                        let bytes = chunk.read(0..seen);
                        assert!(bytes.chunks_exact(16).all(|part| part[0] == part[15]));
                        assert_eq!(seen % 16, 0);
                    }
                });
            }
            for n in 0..BYTES / 16 {
                let n = (n / 16) as u8;
                filler.append(&[&[n; 7], &[n; 9]]).unwrap();
            }
        });
    }
}
