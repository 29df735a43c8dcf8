//! The only code that touches files.
//!
//! A [`Storage`] is one store's directory, or what stands for it: names in it are flat and made
//! by the store, never taken from file content. A published file (see [`Storage::create`]) is
//! read by position and never changed, so that an object store can stand behind the same trait.
//! Nothing here knows what the bytes mean, except that every read says *why* it is made.

mod append;
mod counting;
mod disk;
mod limit;
mod link;
mod many;
mod mappable;
mod room;
mod task;
// The second list is that of `Cargo.toml`.
#[cfg_attr(
    not(all(
        target_os = "linux",
        any(
            target_arch = "x86_64",
            target_arch = "aarch64",
            target_arch = "riscv64",
            target_arch = "loongarch64",
            target_arch = "powerpc64"
        )
    )),
    path = "no_uring.rs"
)]
mod uring;
mod window;

pub use counting::{Counting, ReadCount, ReadCounts};
pub use disk::{Disk, Io};
pub(crate) use disk::{is_there, real_path, rename_directory};
pub(crate) use link::link;
pub use many::ReadManyBy;

use std::any::Any;
use std::fmt;
use std::io;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::SystemTime;

use crate::slice::Slice;

/// Why bytes are read.
///
/// ```
/// use criba::storage::ReadCause;
///
/// # fn main() -> criba::Result<()> {
/// # let dir = tempfile::tempdir().unwrap();
/// # let db = criba::Db::open(dir.path().join("data"))?;
/// db.put("apple", "red")?;
/// db.flush()?;
/// db.get("apple")?;
/// let reads = db.stats().reads;
/// assert_eq!(reads.get(ReadCause::Data).calls, 1);
/// for cause in ReadCause::ALL {
///     println!("{cause:?}: {} reads", reads.get(cause).calls);
/// }
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
#[non_exhaustive]
pub enum ReadCause {
    /// A page of a filter block, or its resident header.
    Filter,
    /// The index (fences) of a segment.
    Index,
    /// A data block, for a point lookup or a scan; many of them with one read, for a merge.
    Data,
    /// Footers, properties, manifest, journal: all that opening a store needs.
    Open,
}

impl ReadCause {
    /// Every cause, in the order in which counts are shown.
    pub const ALL: [ReadCause; 4] = [
        ReadCause::Filter,
        ReadCause::Index,
        ReadCause::Data,
        ReadCause::Open,
    ];
}

/// A directory of immutable and append-only files.
///
/// Errors are plain [`io::Error`]s; the caller adds the path with [`Storage::path_of`].
///
/// ```
/// use criba::storage::{Disk, Io, ReadCause, Storage};
///
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// # let dir = tempfile::tempdir()?;
/// # let path = dir.path().join("data");
/// let storage = Disk::new(&path, Io::Pread);
/// storage.create_dir()?;
/// let mut file = storage.create("next")?;
/// file.append(&[b"one, ", b"two"])?;
/// file.sync()?;
/// storage.rename("next", "list")?;
/// storage.sync_dir()?;
/// // Now the file and its name survive power loss.
/// let file = storage.open("list")?;
/// assert_eq!(file.read(ReadCause::Data, 5, 3)?, "two");
/// assert_eq!(storage.list()?, ["list"]);
/// # Ok(())
/// # }
/// ```
pub trait Storage: Send + Sync + fmt::Debug + 'static {
    /// A path for messages to people; of the directory itself for an empty name.
    fn path_of(&self, name: &str) -> PathBuf;

    /// Makes the directory if it is not there, its name durable in its parent.
    ///
    /// # Errors
    ///
    /// When it cannot be made, or a file of that name is in the way.
    fn create_dir(&self) -> io::Result<()>;

    /// Asks whether files can be made and written here, and changes nothing. By default it is
    /// taken for granted.
    ///
    /// # Errors
    ///
    /// When the directory cannot be written, or the disk has no free block.
    fn check_room(&self) -> io::Result<()> {
        Ok(())
    }

    /// The names in the directory, sorted. Anything that is not a regular file (a symbolic link,
    /// a folder) is listed too.
    ///
    /// # Errors
    ///
    /// `NotFound` when there is no directory.
    fn list(&self) -> io::Result<Vec<String>>;

    /// Opens a file for positioned reads. Symbolic links are not followed.
    ///
    /// # Errors
    ///
    /// `NotFound` when there is no such file.
    fn open(&self, name: &str) -> io::Result<Arc<dyn ReadFile>>;

    /// Makes many reads of files of this storage: their results, in the order of the requests. Each
    /// is what [`ReadFile::read`] returns, whatever becomes of the others.
    ///
    /// By default one read follows the other. A storage that can have several under way makes them
    /// together, with a bound on how many; it finds its own files by their type.
    fn read_many(&self, requests: &[ReadRequest<'_>]) -> Vec<io::Result<Slice>> {
        requests.iter().map(ReadRequest::by_itself).collect()
    }

    /// How [`Storage::read_many`] has made its last reads; `None` before the first of them that came
    /// together, and where there is only one way.
    fn read_many_by(&self) -> Option<ReadManyBy> {
        None
    }

    /// Creates a file for appending. Its name is durable only after [`Storage::sync_dir`].
    ///
    /// # Errors
    ///
    /// `AlreadyExists` when the name is taken.
    fn create(&self, name: &str) -> io::Result<Box<dyn AppendFile>>;

    /// Renames a file over another, atomically. Durable only after [`Storage::sync_dir`].
    ///
    /// # Errors
    ///
    /// `NotFound` when there is no such file.
    fn rename(&self, from: &str, to: &str) -> io::Result<()>;

    /// Removes a file. Handles that are open stay readable.
    ///
    /// # Errors
    ///
    /// `NotFound` when there is no such file.
    fn remove(&self, name: &str) -> io::Result<()>;

    /// Makes creations, renames and removals so far survive power loss.
    ///
    /// # Errors
    ///
    /// When the device fails; it is then unknown what is durable.
    fn sync_dir(&self) -> io::Result<()>;

    /// Takes the exclusive lock on the store; it is released when the guard is dropped or the
    /// process ends. Creates the lock file if needed.
    ///
    /// # Errors
    ///
    /// `WouldBlock` when it is held by someone else.
    fn lock(&self, name: &str) -> io::Result<Box<dyn LockGuard>>;

    /// Takes the lock together with other readers. Nobody can take it exclusively then. Creates no
    /// lock file: where the file is missing, returns a guard that keeps writers out in another way,
    /// or `None`. A storage without shared locks takes an exclusive one.
    ///
    /// # Errors
    ///
    /// `WouldBlock` when it is held exclusively by someone else.
    fn lock_shared(&self, name: &str) -> io::Result<Option<Box<dyn LockGuard>>> {
        match self.list()?.iter().any(|listed| listed == name) {
            true => self.lock(name).map(Some),
            false => Ok(None),
        }
    }

    /// Where a file lies in the file system of this machine. `None` where it lies in none: then it
    /// cannot be linked, and a checkpoint copies it.
    fn local_path(&self, name: &str) -> Option<PathBuf> {
        let _not_local = name;
        None
    }

    /// An identity of the running operating system that changes with each start of the machine.
    /// While it stays the same, all bytes that were written to files are there, synced or not.
    /// `None` when it is unknown.
    fn boot_id(&self) -> Option<u128>;

    /// The time of day; `None` when it is unknown. A clock may be wrong and may jump: only the age
    /// at which data is dropped depends on it, where a FIFO has one.
    fn now(&self) -> Option<SystemTime> {
        Some(SystemTime::now())
    }

    /// Bytes that nobody can guess: the identity of a new store and its secret hash key.
    ///
    /// # Errors
    ///
    /// When the system has no randomness to give.
    fn fill_random(&self, bytes: &mut [u8]) -> io::Result<()> {
        getrandom::fill(bytes).map_err(io::Error::other)
    }
}

/// What is appended to the name of a file while another one is written that will replace it.
pub(crate) const NEXT: &str = ".next";

/// Bytes that are copied at a time.
const COPY_BYTES: u64 = 1 << 20;

/// Makes every byte of a file survive power loss, whoever wrote it, once the directory is synced.
///
/// A sync would not do: after one that has failed, the system may show bytes that it believes to
/// be on the disk, where they are not, and no later sync brings them there. So the file is
/// written anew and put in the place of the old one.
pub(crate) fn rewrite(storage: &dyn Storage, name: &str) -> io::Result<()> {
    copy(storage, name, name)
}

/// Copies a file durably, but for its name, over another one or itself: the name is there only
/// with all bytes.
pub(crate) fn copy(storage: &dyn Storage, name: &str, to: &str) -> io::Result<()> {
    let next = format!("{to}{NEXT}");
    match storage.remove(&next) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
        _ => {}
    }
    let old = storage.open(name)?;
    let mut new = storage.create(&next)?;
    let mut offset = 0;
    while offset < old.len() {
        let len = COPY_BYTES.min(old.len() - offset);
        new.append(&[&old.read(ReadCause::Open, offset, len as usize)?])?;
        offset += len;
    }
    new.sync()?;
    storage.rename(&next, to)
}

/// What is appended to the name of a file that is kept although it cannot be used.
pub(crate) const DAMAGED: &str = ".damaged";

/// Gives a file that is in the way a name that no other has.
pub(crate) fn put_aside(storage: &dyn Storage, name: &str) -> io::Result<()> {
    let taken = storage.list()?;
    let mut kept = format!("{name}{DAMAGED}");
    while taken.contains(&kept) {
        kept.push_str(DAMAGED);
    }
    storage.rename(name, &kept)
}

/// A file that is read by position.
///
/// ```
/// use criba::storage::{Disk, Io, ReadCause, Storage};
///
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// # let dir = tempfile::tempdir()?;
/// # let path = dir.path().join("data");
/// # let storage = Disk::new(&path, Io::Pread);
/// # storage.create_dir()?;
/// # storage.create("list")?.append(&[b"one, two"])?;
/// let file = storage.open("list")?;
/// assert_eq!(file.len(), 8);
/// assert_eq!(file.read(ReadCause::Data, 0, 3)?, "one");
/// // The range must lie within the file.
/// let error = file.read(ReadCause::Data, 5, 4).unwrap_err();
/// assert_eq!(error.kind(), std::io::ErrorKind::UnexpectedEof);
/// # Ok(())
/// # }
/// ```
pub trait ReadFile: Any + Send + Sync + fmt::Debug {
    /// The file's length when it was opened, in bytes.
    fn len(&self) -> u64;

    /// Whether the file has no bytes.
    fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Exactly `len` bytes from `offset`: one read of the device, or a piece of the memory map.
    /// The caller bounds `len` by the length of the file before it asks.
    ///
    /// # Errors
    ///
    /// `UnexpectedEof` when the range is not within the file.
    fn read(&self, cause: ReadCause, offset: u64, len: usize) -> io::Result<Slice>;

    /// A hint that these bytes are about to be read in order, a little at a time. Bytes beyond the
    /// end of the file are ignored. The call does not wait and does not fail. Without such a hint,
    /// each read may cost a request to the device by itself.
    ///
    /// By default nothing happens, which fits files whose reads the system sees: it reads ahead of
    /// them by itself.
    fn will_read(&self, offset: u64, len: u64) {
        let _nothing = (offset, len);
    }

    /// All bytes, if the file is in a memory map: to look again at bytes that were read before.
    /// That does not count as a read.
    fn mapped(&self) -> Option<Slice> {
        None
    }
}

/// One of many reads: see [`Storage::read_many`].
///
/// ```
/// use criba::storage::{Disk, Io, ReadCause, ReadRequest, Storage};
///
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// # let dir = tempfile::tempdir()?;
/// # let path = dir.path().join("data");
/// # let storage = Disk::new(&path, Io::Pread);
/// # storage.create_dir()?;
/// # storage.create("list")?.append(&[b"one, two"])?;
/// let file = storage.open("list")?;
/// let request = |offset, len| ReadRequest {
///     file: &*file,
///     cause: ReadCause::Data,
///     offset,
///     len,
/// };
/// let read = storage.read_many(&[request(5, 3), request(5, 4), request(0, 3)]);
/// assert_eq!(read[0].as_ref().unwrap(), "two");
/// // The others are not concerned.
/// assert!(read[1].is_err());
/// assert_eq!(read[2].as_ref().unwrap(), "one");
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Copy, Debug)]
pub struct ReadRequest<'a> {
    /// The file, as the storage has opened it.
    pub file: &'a dyn ReadFile,
    /// Why it is read.
    pub cause: ReadCause,
    /// The first byte.
    pub offset: u64,
    /// How many bytes.
    pub len: usize,
}

impl<'a> ReadRequest<'a> {
    fn by_itself(&self) -> io::Result<Slice> {
        self.file.read(self.cause, self.offset, self.len)
    }

    /// The file, if it has this type.
    fn file_as<T: ReadFile>(&self) -> Option<&'a T> {
        let file: &dyn Any = self.file;
        file.downcast_ref()
    }
}

/// Zeros behind the last append of a file with a reserve, in bytes.
///
/// ```
/// use criba::storage::{Disk, Io, RESERVE_MIN, Storage};
///
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// # let dir = tempfile::tempdir()?;
/// # let path = dir.path().join("data");
/// # let storage = Disk::new(&path, Io::Pread);
/// # storage.create_dir()?;
/// let mut file = storage.create("journal")?;
/// file.reserve();
/// file.append(&[b"one"])?;
/// assert!(storage.open("journal")?.len() >= 3 + RESERVE_MIN as u64);
/// # Ok(())
/// # }
/// ```
pub const RESERVE_MIN: usize = 8 << 10;

/// A file that grows at its end.
///
/// A kill may cut off the append that is under way. A file without a reserve then ends with the
/// first part of it. A file with a reserve holds any part of it, in any order, with zeros in place
/// of the rest; but its first byte is there only if all others are.
///
/// ```
/// use criba::storage::{Disk, Io, Storage};
///
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// # let dir = tempfile::tempdir()?;
/// # let path = dir.path().join("data");
/// # let storage = Disk::new(&path, Io::Pread);
/// # storage.create_dir()?;
/// let mut file = storage.create("list")?;
/// file.append(&[b"one, ", b"two"])?;
/// file.append(&[b", three"])?;
/// file.sync()?;
/// assert_eq!(storage.open("list")?.len(), 15);
/// # Ok(())
/// # }
/// ```
pub trait AppendFile: Send + fmt::Debug {
    /// Appends all bytes of these parts, as one append. After success they survive a kill of the
    /// process.
    ///
    /// # Errors
    ///
    /// When the device or the space fails; a part may have been written.
    fn append(&mut self, parts: &[&[u8]]) -> io::Result<()>;

    /// Announces many small appends: the file may be made longer ahead of them. Until the handle
    /// is dropped, and after a crash, at least [`RESERVE_MIN`] zeros then follow the last append.
    fn reserve(&mut self) {}

    /// Makes everything appended so far survive power loss.
    ///
    /// # Errors
    ///
    /// When the device fails; it is then unknown what is durable, and trying again proves
    /// nothing.
    fn sync(&self) -> io::Result<()>;

    /// A handle that syncs this file from another thread, so that writers need not wait for it.
    fn syncer(&self) -> Arc<dyn SyncFile>;
}

/// Syncs a file that someone else appends to.
///
/// ```
/// use criba::storage::{Disk, Io, Storage};
///
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// # let dir = tempfile::tempdir()?;
/// # let path = dir.path().join("data");
/// # let storage = Disk::new(&path, Io::Pread);
/// # storage.create_dir()?;
/// let mut file = storage.create("list")?;
/// file.append(&[b"one"])?;
/// let syncer = file.syncer();
/// let synced = std::thread::spawn(move || syncer.sync());
/// // Meanwhile the file can grow.
/// file.append(&[b", two"])?;
/// synced.join().unwrap()?;
/// # Ok(())
/// # }
/// ```
pub trait SyncFile: Send + Sync + fmt::Debug {
    /// Makes everything appended before the call survive power loss.
    ///
    /// # Errors
    ///
    /// As for [`AppendFile::sync`].
    fn sync(&self) -> io::Result<()>;
}

/// Holds the lock of a store until it is dropped.
///
/// ```
/// use criba::storage::{Disk, Io, Storage};
///
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// # let dir = tempfile::tempdir()?;
/// # let path = dir.path().join("data");
/// # let storage = Disk::new(&path, Io::Pread);
/// # storage.create_dir()?;
/// let guard = storage.lock("LOCK")?;
/// let error = storage.lock("LOCK").unwrap_err();
/// assert_eq!(error.kind(), std::io::ErrorKind::WouldBlock);
/// drop(guard);
/// assert!(storage.lock("LOCK").is_ok());
/// # Ok(())
/// # }
/// ```
pub trait LockGuard: Any + Send + Sync + fmt::Debug {}
