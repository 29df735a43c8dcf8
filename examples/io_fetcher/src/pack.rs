//! Content on disk: frames one after the other in a few large files that are only appended to.
//!
//! Why not as values of the store: a value is written to the journal, by the flush, and again by
//! merges; a frame is written once, and a part of a document can be read by its place.
//!
//! The index says where the last committed frame ends. What is behind that was written by a process
//! that was killed, nothing refers to it, and it is overwritten. Frames are synced before the batch
//! that names them is committed, so the index never refers to what a power loss can take.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::fs::{File, OpenOptions};
use std::io;
use std::os::unix::fs::{FileExt as _, MetadataExt as _};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use rustix::fs::{FallocateFlags, fallocate};
use zstd::bulk::Compressor;

use crate::record::{FRAME_BYTES_MAX, Frame};

/// Addresses of one file; a frame does not cross into the next. Fixed: addresses are on disk.
const PACK_BYTES: u64 = 1 << 30;

/// What can be given back to the file system: holes are made of whole blocks.
pub(crate) const BLOCK_BYTES: u64 = 4096;

/// Files that stay open for reading.
const OPEN_MAX: usize = 32;

#[derive(Debug)]
pub(crate) struct Packs {
    folder: PathBuf,
    level: i32,
    tail: Mutex<Tail>,
    readers: Mutex<BTreeMap<u64, Arc<File>>>,
    pub(crate) reads: AtomicU64,
    pub(crate) read_bytes: AtomicU64,
    pub(crate) written_bytes: AtomicU64,
}

/// Where the next frame goes.
#[derive(Debug)]
struct Tail {
    end: u64,
    file: Option<(u64, Arc<File>)>,
    /// Files written since the last sync.
    unsynced: Vec<Arc<File>>,
    is_new_file: bool,
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Packs {
    /// The packs in this folder up to `end`; nothing is opened or made yet.
    pub(crate) fn new(folder: PathBuf, end: u64, level: i32) -> Packs {
        Packs {
            folder,
            level,
            tail: Mutex::new(Tail {
                end,
                file: None,
                unsynced: Vec::new(),
                is_new_file: false,
            }),
            readers: Mutex::default(),
            reads: AtomicU64::new(0),
            read_bytes: AtomicU64::new(0),
            written_bytes: AtomicU64::new(0),
        }
    }

    pub(crate) fn end(&self) -> u64 {
        lock(&self.tail).end
    }

    fn path(&self, pack: u64) -> PathBuf {
        self.folder.join(format!("{pack:06}.pack"))
    }

    /// Compresses and appends.
    pub(crate) fn append(&self, raw: &[u8]) -> io::Result<Frame> {
        let packed = compress(raw, self.level)?;
        let stored = if packed.len() < raw.len() {
            &packed
        } else {
            raw
        };
        let mut tail = lock(&self.tail);
        let len = stored.len() as u64;
        if tail.end / PACK_BYTES != (tail.end + len) / PACK_BYTES {
            tail.end = tail.end.next_multiple_of(PACK_BYTES);
        }
        let address = tail.end;
        let file = self.tail_file(&mut tail)?;
        file.write_all_at(stored, address % PACK_BYTES)?;
        tail.end += len;
        self.written_bytes.fetch_add(len, Ordering::Relaxed);
        Ok(Frame {
            address,
            stored: stored.len() as u32,
            raw: raw.len() as u32,
        })
    }

    fn tail_file(&self, tail: &mut Tail) -> io::Result<Arc<File>> {
        let pack = tail.end / PACK_BYTES;
        if let Some((open, file)) = &tail.file
            && *open == pack
        {
            return Ok(Arc::clone(file));
        }
        let file = OpenOptions::new()
            .read(true)
            .write(true)
            .create(true)
            .truncate(false)
            .open(self.path(pack))?;
        // Away with what was never committed.
        file.set_len(tail.end % PACK_BYTES)?;
        let file = Arc::new(file);
        tail.unsynced.push(Arc::clone(&file));
        tail.file = Some((pack, Arc::clone(&file)));
        tail.is_new_file = true;
        Ok(file)
    }

    /// Everything appended so far survives power loss.
    pub(crate) fn sync(&self) -> io::Result<()> {
        let mut tail = lock(&self.tail);
        if tail.is_new_file {
            File::open(&self.folder)?.sync_all()?;
            tail.is_new_file = false;
        }
        for file in &tail.unsynced {
            file.sync_data()?;
        }
        tail.unsynced.clear();
        if let Some((_, file)) = &tail.file {
            // It will be written again before the next sync.
            let file = Arc::clone(file);
            tail.unsynced.push(file);
        }
        Ok(())
    }

    /// The content of a frame, by one positioned read. Everything that can be wrong with it is a
    /// sentence: the frame is damaged.
    pub(crate) fn read(&self, frame: &Frame) -> Result<Vec<u8>, String> {
        if frame.stored > FRAME_BYTES_MAX || frame.raw > FRAME_BYTES_MAX {
            return Err("a frame is longer than any can be".into());
        }
        let mut stored = vec![0; frame.stored as usize];
        let pack = frame.address / PACK_BYTES;
        self.reader(pack)
            .and_then(|file| file.read_exact_at(&mut stored, frame.address % PACK_BYTES))
            .map_err(|error| format!("cannot read {}: {error}", self.path(pack).display()))?;
        self.reads.fetch_add(1, Ordering::Relaxed);
        self.read_bytes
            .fetch_add(u64::from(frame.stored), Ordering::Relaxed);
        if frame.stored == frame.raw {
            return Ok(stored);
        }
        let damaged = |what: String| {
            format!(
                "{} is damaged at byte {}: {what}",
                self.path(pack).display(),
                frame.address % PACK_BYTES
            )
        };
        let raw = zstd::bulk::decompress(&stored, frame.raw as usize)
            .map_err(|error| damaged(error.to_string()))?;
        if raw.len() != frame.raw as usize {
            return Err(damaged("it holds less than it should".into()));
        }
        Ok(raw)
    }

    fn reader(&self, pack: u64) -> io::Result<Arc<File>> {
        let mut readers = lock(&self.readers);
        if let Some(file) = readers.get(&pack) {
            return Ok(Arc::clone(file));
        }
        if readers.len() == OPEN_MAX {
            readers.clear();
        }
        let file = Arc::new(File::open(self.path(pack))?);
        readers.insert(pack, Arc::clone(&file));
        Ok(file)
    }

    /// Gives the blocks back that are `free`: a file that has no others goes, but for the last one.
    /// Nothing in the index may lead there any more, and that must be synced.
    pub(crate) fn free(&self, free: impl Fn(u64) -> bool) -> io::Result<()> {
        const BLOCKS: u64 = PACK_BYTES / BLOCK_BYTES;
        let end = self.end() / BLOCK_BYTES;
        for pack in 0..=end / BLOCKS {
            let (first, end) = (pack * BLOCKS, end.min((pack + 1) * BLOCKS));
            let path = self.path(pack);
            if !path.exists() {
                continue;
            }
            if end - first == BLOCKS && (first..end).all(&free) {
                std::fs::remove_file(&path)?;
                continue;
            }
            let file = OpenOptions::new().write(true).open(&path)?;
            let mut at = first;
            while at < end {
                let is_free = free(at);
                let len = (at..end)
                    .take_while(|&block| free(block) == is_free)
                    .count() as u64;
                if is_free {
                    let flags = FallocateFlags::PUNCH_HOLE | FallocateFlags::KEEP_SIZE;
                    let offset = (at - first) * BLOCK_BYTES;
                    fallocate(&file, flags, offset, len * BLOCK_BYTES)?;
                }
                at += len;
            }
        }
        Ok(())
    }

    /// Bytes that the files take, what is no longer referred to included, holes not.
    pub(crate) fn bytes_on_disk(folder: &Path) -> u64 {
        let sizes = std::fs::read_dir(folder)
            .into_iter()
            .flatten()
            .filter_map(|entry| entry.ok()?.metadata().ok())
            .map(|meta| meta.len().min(meta.blocks() * 512));
        sizes.sum()
    }
}

/// With a compressor for each thread: making one costs more than compressing a small file.
fn compress(raw: &[u8], level: i32) -> io::Result<Vec<u8>> {
    thread_local! {
        static COMPRESSOR: RefCell<Option<(i32, Compressor<'static>)>> = const { RefCell::new(None) };
    }
    COMPRESSOR.with_borrow_mut(|kept| match kept {
        Some((its, compressor)) if *its == level => compressor.compress(raw),
        kept => {
            let (_, compressor) = kept.insert((level, Compressor::new(level)?));
            compressor.compress(raw)
        }
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn frames_come_back_and_a_tail_is_overwritten() {
        let dir = tempfile::tempdir().unwrap();
        let packs = Packs::new(dir.path().into(), 0, 1);
        let text = b"the same again, ".repeat(100);
        let first = packs.append(&text).unwrap();
        let noise: Vec<u8> = (0..100u32).map(|n| (n * n % 251) as u8).collect();
        let second = packs.append(&noise).unwrap();
        assert!(first.stored < first.raw && second.stored == second.raw);
        assert_eq!(packs.read(&first).unwrap(), text);
        assert_eq!(packs.read(&second).unwrap(), noise);
        packs.sync().unwrap();

        // Committed up to the first frame only.
        let packs = Packs::new(dir.path().into(), u64::from(first.stored), 1);
        let third = packs.append(b"third").unwrap();
        assert_eq!(third.address, second.address);
        assert_eq!(packs.read(&third).unwrap(), b"third");
        assert!(packs.read(&second).unwrap_err().contains("cannot read"));
    }

    #[test]
    fn a_frame_does_not_cross_files() {
        let dir = tempfile::tempdir().unwrap();
        let packs = Packs::new(dir.path().into(), PACK_BYTES - 3, 1);
        let frame = packs.append(b"abcdef").unwrap();
        assert_eq!(frame.address, PACK_BYTES);
        assert_eq!(packs.read(&frame).unwrap(), b"abcdef");
    }
}
