//! Careful reading of files that others may change, replace or remove meanwhile.
//!
//! A file is read only if it still has the stamp it was listed with, and what was read counts only
//! if it has it afterwards: so no document is ever a mixture of two versions.

use std::fs::{File, Metadata, OpenOptions};
use std::os::unix::fs::{FileExt as _, MetadataExt as _, OpenOptionsExt as _};
use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};

use rustix::io::Errno;

use crate::keys::{FINGERPRINT_BYTES, Fingerprint, Hash};
use crate::record::Stamp;

/// The first block of a document.
pub(crate) const BLOCK_BYTES: usize = 4096;

/// Bytes read at a time, and of a frame.
pub(crate) const CHUNK_BYTES: usize = 256 << 10;

/// Counts what is read of the sources.
#[derive(Debug, Default)]
pub(crate) struct Sources {
    pub(crate) opened: AtomicU64,
    pub(crate) bytes: AtomicU64,
}

pub(crate) fn stamp(meta: &Metadata) -> Stamp {
    let nanos =
        |seconds: i64, nanos: i64| seconds.saturating_mul(1_000_000_000).saturating_add(nanos);
    Stamp {
        size: meta.len(),
        mtime: nanos(meta.mtime(), meta.mtime_nsec()),
        ctime: nanos(meta.ctime(), meta.ctime_nsec()),
        inode: meta.ino(),
    }
}

pub(crate) const CHANGED: &str = "it changed while it was read; run again when it is at rest";

impl Sources {
    /// Opens a file that has to have this stamp.
    fn open(&self, path: &Path, expected: &Stamp) -> Result<File, String> {
        let file = self.open_any(path)?;
        check_unchanged(&file, expected)?;
        Ok(file)
    }

    /// Opens a file. A pipe or a link that has taken its place is not waited for and not followed.
    fn open_any(&self, path: &Path) -> Result<File, String> {
        let file = OpenOptions::new()
            .read(true)
            .custom_flags(libc::O_NOFOLLOW | libc::O_NONBLOCK)
            .open(path)
            .map_err(|error| error.to_string())?;
        self.opened.fetch_add(1, Ordering::Relaxed);
        Ok(file)
    }

    fn read_at(&self, file: &File, buffer: &mut [u8], offset: u64) -> Result<(), String> {
        file.read_exact_at(buffer, offset)
            .map_err(|error| match error.kind() {
                std::io::ErrorKind::UnexpectedEof => CHANGED.to_owned(),
                _ => error.to_string(),
            })?;
        self.bytes.fetch_add(buffer.len() as u64, Ordering::Relaxed);
        Ok(())
    }

    /// The first block, or all of a smaller file.
    pub(crate) fn first_block(&self, path: &Path, expected: &Stamp) -> Result<Vec<u8>, String> {
        // Whether it is the file that was listed is asked once, after the read.
        let file = self.open_any(path)?;
        let mut block = vec![0; first_len(expected.size)];
        self.read_at(&file, &mut block, 0)?;
        check_unchanged(&file, expected)?;
        Ok(block)
    }

    /// Gives the content to `take`, chunk by chunk. What was read of it before, its first block or
    /// nothing, is the first chunk and not read again.
    pub(crate) fn chunks<E: From<String>>(
        &self,
        (path, expected): (&Path, &Stamp),
        first: &[u8],
        mut take: impl FnMut(&[u8]) -> Result<(), E>,
    ) -> Result<(), E> {
        let mut offset = first.len() as u64;
        if offset > 0 {
            take(first)?;
        }
        if offset == expected.size {
            return Ok(());
        }
        let file = self.open(path, expected)?;
        let left = |offset| usize::try_from(expected.size - offset).unwrap_or(CHUNK_BYTES);
        let mut buffer = vec![0; left(offset).min(CHUNK_BYTES)];
        while offset < expected.size {
            let chunk = &mut buffer[..left(offset).min(CHUNK_BYTES)];
            self.read_at(&file, chunk, offset)?;
            take(chunk)?;
            offset += chunk.len() as u64;
        }
        Ok(check_unchanged(&file, expected)?)
    }

    /// The hash of the whole content, of which `first` is known.
    pub(crate) fn hash(&self, path: &Path, expected: &Stamp, first: &[u8]) -> Result<Hash, String> {
        let mut hasher = blake3::Hasher::new();
        self.chunks((path, expected), first, |chunk| {
            hasher.update(chunk);
            Ok::<(), String>(())
        })?;
        Ok(*hasher.finalize().as_bytes())
    }
}

/// Bytes of the first block of a document of this size.
pub(crate) fn first_len(size: u64) -> usize {
    usize::try_from(size).map_or(BLOCK_BYTES, |size| size.min(BLOCK_BYTES))
}

fn check_unchanged(file: &File, expected: &Stamp) -> Result<(), String> {
    let meta = file.metadata().map_err(|error| error.to_string())?;
    if meta.is_file() && stamp(&meta) == *expected {
        return Ok(());
    }
    Err(CHANGED.to_owned())
}

/// Whether a file or directory has access lists or other extended attributes, as far as that can be
/// seen. A label of SELinux does not count: the system gives each new file its own.
pub(crate) fn has_attributes(path: &Path) -> bool {
    let mut names = [0; 64];
    match rustix::fs::llistxattr(path, &mut names) {
        Ok(len) => !matches!(&names[..len], b"" | b"security.selinux\0"),
        Err(error) => error == Errno::RANGE,
    }
}

/// The fingerprint of a document by its size and first block.
pub(crate) fn fingerprint_first(size: u64, block: &[u8]) -> Fingerprint {
    let mut hasher = blake3::Hasher::new();
    hasher.update(&size.to_le_bytes());
    hasher.update(block);
    short(&hasher.finalize())
}

/// The fingerprint of a block or line.
pub(crate) fn fingerprint(piece: &[u8]) -> Fingerprint {
    short(&blake3::hash(piece))
}

fn short(hash: &blake3::Hash) -> Fingerprint {
    let mut fingerprint = [0; FINGERPRINT_BYTES];
    fingerprint.copy_from_slice(&hash.as_bytes()[..FINGERPRINT_BYTES]);
    fingerprint
}
