//! Files of the operating system.
//!
//! Files are made with mode 0600 and directories with 0700. Names are single components, and a
//! symbolic link, a pipe or a device under the name of a file is refused, not followed.
#![expect(
    clippy::disallowed_methods,
    reason = "this module is the one that touches files"
)]

#[cfg(not(unix))]
compile_error!("criba runs on unix only: it needs positioned reads and directory syncs");

use std::ffi::OsStr;
use std::fs::{DirBuilder, File, OpenOptions, TryLockError};
use std::io::{self, ErrorKind};
use std::os::unix::fs::{DirBuilderExt as _, FileExt as _, MetadataExt as _, OpenOptionsExt as _};
use std::path::{Component, Path, PathBuf};
use std::sync::Arc;

use memmap2::Advice;

use super::append::Appended;
use super::many::{Engine, ReadManyBy};
use super::task::Task;
use super::{AppendFile, LockGuard, ReadCause, ReadFile, ReadRequest, Storage, room};
use crate::slice::Slice;

const FILE_MODE: u32 = 0o600;
const DIRECTORY_MODE: u32 = 0o700;

/// How bytes of a file are read.
///
/// ```
/// use criba::{Db, Io};
///
/// # fn main() -> criba::Result<()> {
/// # let dir = tempfile::tempdir().unwrap();
/// # let path = dir.path().join("data");
/// # let db = Db::open(&path)?;
/// # db.put("apple", "red")?;
/// # db.close()?;
/// // The files are the same: a session reads them in the way that it likes.
/// for io in [Io::Pread, Io::Mmap] {
///     let db = Db::builder(&path).io(io).open()?;
///     assert_eq!(db.get("apple")?.unwrap(), "red");
/// }
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default)]
#[non_exhaustive]
pub enum Io {
    /// One positioned read into memory of its own for each request. A failing device or a file
    /// that someone cut short is an error.
    #[default]
    Pread,
    /// A memory map of each file: a read copies nothing, and a block that was verified costs no
    /// system call while it is in the system's cache. A data block is verified when it is first
    /// looked at, and takes no room in the store's block cache unless it is compressed.
    ///
    /// The store advises the system that reads come in no order, so that a cold lookup fetches the
    /// pages of its block and nothing around them. Blocks that are read in order are asked for
    /// ahead.
    ///
    /// When the device fails, or someone cuts a mapped file short in spite of the store's lock,
    /// the system ends the process with SIGBUS: no error can be returned. A program that overwrites
    /// a mapped file changes bytes whose checksum was verified.
    Mmap,
}

/// A directory of the operating system.
///
/// ```
/// use criba::Db;
/// use criba::storage::{Disk, Io, Storage};
///
/// # fn main() -> criba::Result<()> {
/// # let dir = tempfile::tempdir().unwrap();
/// # let path = dir.path().join("data");
/// let db = Db::open(&path)?;
/// db.put("apple", "red")?;
/// db.close()?;
/// // The files of a store.
/// let names = Disk::new(&path, Io::Pread).list().unwrap();
/// assert!(names.contains(&"CURRENT".to_owned()));
/// assert!(names.iter().any(|name| name.ends_with(".journal")));
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Debug)]
pub struct Disk {
    path: PathBuf,
    io: Io,
    engine: Arc<Engine>,
}

/// Flag of files whose times of access are not noted, where there is one.
#[cfg(any(target_os = "linux", target_os = "android"))]
const UNNOTED: i32 = libc::O_NOATIME;
#[cfg(not(any(target_os = "linux", target_os = "android")))]
const UNNOTED: i32 = 0;

impl Disk {
    /// Stands for a directory, which need not exist yet.
    pub fn new(path: impl Into<PathBuf>, io: Io) -> Disk {
        Disk {
            path: path.into(),
            io,
            engine: Arc::default(),
        }
    }

    /// Reads that come together are made in this way, and not in the one that is found to be best.
    #[must_use]
    pub fn read_many_by(self, by: ReadManyBy) -> Disk {
        Disk {
            engine: Arc::new(Engine::by(by)),
            ..self
        }
    }

    fn at(&self, name: &str) -> io::Result<PathBuf> {
        let mut components = Path::new(name).components();
        match (components.next(), components.next()) {
            (Some(Component::Normal(only)), None) if only == OsStr::new(name) => {
                Ok(self.path.join(name))
            }
            _ => Err(io::Error::new(
                ErrorKind::InvalidInput,
                "not a plain file name",
            )),
        }
    }

    fn open_regular(&self, name: &str, options: &mut OpenOptions) -> io::Result<File> {
        self.open_with(name, options, 0)
    }

    /// Opens a file to be read. That the system notes when that was costs a fortieth of a lookup; to
    /// leave that out is only for whose file it is.
    fn open_unnoted(&self, name: &str) -> io::Result<File> {
        let mut options = OpenOptions::new();
        options.read(true);
        match self.open_with(name, &mut options, UNNOTED) {
            Err(error) if error.kind() == ErrorKind::PermissionDenied => {
                self.open_with(name, &mut options, 0)
            }
            opened => opened,
        }
    }

    fn open_with(&self, name: &str, options: &mut OpenOptions, flags: i32) -> io::Result<File> {
        // Without O_NONBLOCK the opening of a pipe would wait for its other end.
        options
            .mode(FILE_MODE)
            .custom_flags(libc::O_NOFOLLOW | libc::O_NONBLOCK | flags);
        let file = options.open(self.at(name)?)?;
        if !file.metadata()?.is_file() {
            return Err(io::Error::new(
                ErrorKind::InvalidInput,
                "not a regular file",
            ));
        }
        Ok(file)
    }
}

/// Takes an exclusive lock or a shared one, without waiting.
type TryLock = fn(&File) -> Result<(), TryLockError>;

/// How often a lock file may be replaced while it is locked.
const LOCK_TRIES: usize = 8;

impl Disk {
    /// Locks the directory itself, as a lock file can be removed while it is locked. Not every file
    /// system has locks of directories.
    fn lock_directory(&self, try_lock: TryLock) -> io::Result<Option<File>> {
        let directory = File::open(&self.path)?;
        match try_lock(&directory) {
            Ok(()) => Ok(Some(directory)),
            Err(TryLockError::WouldBlock) => Err(ErrorKind::WouldBlock.into()),
            Err(TryLockError::Error(_)) => Ok(None),
        }
    }

    /// Locks the file that has this name at that moment.
    fn lock_named(
        &self,
        name: &str,
        options: &mut OpenOptions,
        try_lock: TryLock,
    ) -> io::Result<File> {
        for _ in 0..LOCK_TRIES {
            let file = self.open_regular(name, options)?;
            match try_lock(&file) {
                Ok(()) => {}
                Err(TryLockError::WouldBlock) => return Err(ErrorKind::WouldBlock.into()),
                Err(TryLockError::Error(error)) => return Err(error),
            }
            let locked = file.metadata()?;
            let named = std::fs::symlink_metadata(self.at(name)?);
            if named.is_ok_and(|named| (named.dev(), named.ino()) == (locked.dev(), locked.ino())) {
                return Ok(file);
            }
        }
        Err(ErrorKind::WouldBlock.into())
    }
}

impl Storage for Disk {
    fn path_of(&self, name: &str) -> PathBuf {
        if name.is_empty() {
            self.path.clone()
        } else {
            self.path.join(name)
        }
    }

    fn create_dir(&self) -> io::Result<()> {
        make_dir(&self.path)
    }

    fn check_room(&self) -> io::Result<()> {
        room::check(&self.path)
    }

    fn local_path(&self, name: &str) -> Option<PathBuf> {
        self.at(name).ok()
    }

    fn list(&self) -> io::Result<Vec<String>> {
        let mut names = Vec::new();
        for entry in std::fs::read_dir(&self.path)? {
            // Names of the store are ASCII: one that changes here is none of them.
            names.push(entry?.file_name().to_string_lossy().into_owned());
        }
        names.sort_unstable();
        Ok(names)
    }

    fn open(&self, name: &str) -> io::Result<Arc<dyn ReadFile>> {
        let file = self.open_unnoted(name)?;
        let len = file.metadata()?.len();
        match self.io {
            Io::Mmap if len > 0 => Ok(Arc::new(Mapped::new(map(&file)?))),
            Io::Mmap | Io::Pread => Ok(Arc::new(Positioned { file, len })),
        }
    }

    fn read_many(&self, requests: &[ReadRequest<'_>]) -> Vec<io::Result<Slice>> {
        if requests.len() > 1 {
            // Mapped files fetch all parts before the first is looked at.
            for request in requests {
                request.file.will_read(request.offset, request.len as u64);
            }
        }
        let tasks = requests.iter().filter_map(|request| {
            let file = &Positioned::that_has(request)?.file;
            Some(Task::new(file, request.offset, request.len))
        });
        let mut tasks: Vec<Task<'_>> = tasks.collect();
        self.engine.read(&mut tasks);
        let mut tasks = tasks.into_iter();
        let result = |request| match Positioned::that_has(request).and_then(|_| tasks.next()) {
            Some(task) => task.into_result(),
            None => request.by_itself(),
        };
        requests.iter().map(result).collect()
    }

    fn read_many_by(&self) -> Option<ReadManyBy> {
        self.engine.used()
    }

    fn create(&self, name: &str) -> io::Result<Box<dyn AppendFile>> {
        // What is mapped to be written to must be open for reading too.
        let mut options = OpenOptions::new();
        let file = self.open_regular(name, options.read(true).write(true).create_new(true))?;
        Ok(Box::new(Appended::new(file)))
    }

    fn rename(&self, from: &str, to: &str) -> io::Result<()> {
        std::fs::rename(self.at(from)?, self.at(to)?)
    }

    fn remove(&self, name: &str) -> io::Result<()> {
        std::fs::remove_file(self.at(name)?)
    }

    fn sync_dir(&self) -> io::Result<()> {
        File::open(&self.path)?.sync_all()
    }

    fn lock(&self, name: &str) -> io::Result<Box<dyn LockGuard>> {
        let directory = self.lock_directory(File::try_lock)?;
        let mut options = OpenOptions::new();
        options.write(true).create(true).truncate(false);
        let file = self.lock_named(name, &mut options, File::try_lock)?;
        Ok(Locked::new(directory.into_iter().chain([file]).collect()))
    }

    fn lock_shared(&self, name: &str) -> io::Result<Option<Box<dyn LockGuard>>> {
        let directory = self.lock_directory(File::try_lock_shared)?;
        let mut options = OpenOptions::new();
        let file = match self.lock_named(name, options.read(true), File::try_lock_shared) {
            Ok(file) => Some(file),
            Err(error) if error.kind() == ErrorKind::NotFound => None,
            Err(error) => return Err(error),
        };
        let files = Vec::from_iter(directory.into_iter().chain(file));
        Ok((!files.is_empty()).then(|| Locked::new(files) as Box<dyn LockGuard>))
    }

    fn boot_id(&self) -> Option<u128> {
        if !cfg!(target_os = "linux") {
            return None;
        }
        let text = std::fs::read("/proc/sys/kernel/random/boot_id").ok()?;
        let digits = std::str::from_utf8(&text).ok()?.trim().replace('-', "");
        u128::from_str_radix(&digits, 16).ok()
    }
}

/// Whether anything has this name.
pub(crate) fn is_there(path: &Path) -> bool {
    std::fs::symlink_metadata(path).is_ok()
}

/// The path without symbolic links. One that leads nowhere stays as it is.
pub(crate) fn real_path(path: &Path) -> PathBuf {
    std::fs::canonicalize(path).unwrap_or_else(|_| path.to_owned())
}

/// Renames a directory beside itself, durably. Nothing has the new name.
pub(crate) fn rename_directory(from: &Path, to: &Path) -> io::Result<()> {
    std::fs::rename(from, to)?;
    match to.parent() {
        Some(parent) if !parent.as_os_str().is_empty() => File::open(parent)?.sync_all(),
        _ => File::open(".")?.sync_all(),
    }
}

/// Makes a directory and those above it, each name durable before the next is made in it.
fn make_dir(path: &Path) -> io::Result<()> {
    let parent = match path.parent() {
        Some(parent) if parent.as_os_str().is_empty() => Path::new("."),
        Some(parent) => parent,
        None => return std::fs::metadata(path).map(drop),
    };
    let mut builder = DirBuilder::new();
    builder.mode(DIRECTORY_MODE);
    let made = match builder.create(path) {
        Err(error) if error.kind() == ErrorKind::NotFound => {
            make_dir(parent)?;
            builder.create(path)
        }
        made => made,
    };
    match made {
        Ok(()) => File::open(parent)?.sync_all(),
        Err(error) if error.kind() == ErrorKind::AlreadyExists => {
            if !std::fs::metadata(path)?.is_dir() {
                return Err(error);
            }
            // An earlier attempt may have been cut off before it made the name durable. Where
            // the parent may not be read, someone else made the directory.
            match File::open(parent) {
                Ok(parent) => parent.sync_all(),
                Err(error) if error.kind() == ErrorKind::PermissionDenied => Ok(()),
                Err(error) => Err(error),
            }
        }
        Err(error) => Err(error),
    }
}

#[expect(
    unsafe_code,
    reason = "a file can be mapped only by a promise that nobody changes it"
)]
fn map(file: &File) -> io::Result<memmap2::Mmap> {
    // SAFETY: the bytes must not change while they are mapped. A published file is never written
    // to again; a journal only grows, behind what is mapped of it; the lock keeps out other
    // processes that write. A removed file stays as it is while it is mapped. Who writes to the
    // files of a store by other means breaks this promise, as `Io::Mmap` says.
    unsafe { memmap2::Mmap::map(file) }
}

/// The end of a range that lies within `file_len` bytes.
fn end_within(file_len: u64, offset: u64, len: usize) -> io::Result<u64> {
    match offset.checked_add(len as u64) {
        Some(end) if end <= file_len => Ok(end),
        _ => Err(ErrorKind::UnexpectedEof.into()),
    }
}

const PAGE_BYTES: u64 = 4 << 10;

/// Whether a part of a map lies on more than one page: each would be fetched by itself, when it is
/// first looked at, so that it is worth a system call to ask for them at once.
fn is_on_pages(offset: u64, len: usize) -> bool {
    offset % PAGE_BYTES + len as u64 > PAGE_BYTES
}

/// Bytes that a mapped file asks for at a time. Linux cuts what it is asked for at once to what it
/// would read ahead, which is this much unless the device is set otherwise.
const ASKED_BYTES: u64 = 128 << 10;

/// Offset and length of the requests for a part of a file, as far as the file goes. They begin with
/// pages: no page more than they say is asked for, of which the last would be cut off.
fn requests(file_len: u64, offset: u64, len: u64) -> impl Iterator<Item = (u64, u64)> {
    let end = offset.saturating_add(len).min(file_len);
    let start = if offset < end {
        offset / PAGE_BYTES * PAGE_BYTES
    } else {
        end
    };
    let starts = (start..end).step_by(ASKED_BYTES as usize);
    starts.map(move |start| (start, ASKED_BYTES.min(end - start)))
}

#[derive(Debug)]
struct Positioned {
    file: File,
    len: u64,
}

impl Positioned {
    /// The file of a request, if it is one of these and has all bytes that are asked for.
    fn that_has<'a>(request: &ReadRequest<'a>) -> Option<&'a Positioned> {
        let file: &Positioned = request.file_as()?;
        end_within(file.len, request.offset, request.len).ok()?;
        Some(file)
    }
}

impl ReadFile for Positioned {
    fn len(&self) -> u64 {
        self.len
    }

    fn read(&self, _: ReadCause, offset: u64, len: usize) -> io::Result<Slice> {
        end_within(self.len, offset, len)?;
        Slice::filled(len, |bytes| self.file.read_exact_at(bytes, offset))
    }
}

/// The system reads nothing ahead of a mapped file: it cannot tell a lookup from the beginning of a
/// walk, and would read as far as the device is set to, megabytes here and there, for one block.
/// Whoever reads on says so.
#[derive(Debug)]
struct Mapped {
    map: Arc<memmap2::Mmap>,
}

impl Mapped {
    fn new(map: memmap2::Mmap) -> Mapped {
        // A system that does not know the advice reads ahead: slower, not wrong.
        map.advise(Advice::Random).ok();
        Mapped { map: Arc::new(map) }
    }
}

impl ReadFile for Mapped {
    fn len(&self) -> u64 {
        self.map.len() as u64
    }

    fn read(&self, _: ReadCause, offset: u64, len: usize) -> io::Result<Slice> {
        let end = end_within(self.len(), offset, len)?;
        if is_on_pages(offset, len) {
            self.will_read(offset, len as u64);
        }
        let range = usize::try_from(offset).ok().zip(usize::try_from(end).ok());
        range
            .and_then(|(start, end)| Slice::from_map(&self.map, start..end))
            .ok_or_else(|| ErrorKind::UnexpectedEof.into())
    }

    fn will_read(&self, offset: u64, len: u64) {
        for (offset, len) in requests(self.len(), offset, len) {
            if let (Ok(offset), Ok(len)) = (usize::try_from(offset), usize::try_from(len)) {
                self.map.advise_range(Advice::WillNeed, offset, len).ok();
            }
        }
    }

    fn mapped(&self) -> Option<Slice> {
        Slice::from_map(&self.map, 0..self.map.len())
    }
}

/// The locks of a directory and of the file in it.
#[derive(Debug)]
struct Locked {
    files: Vec<File>,
    process: u32,
}

impl Locked {
    fn new(files: Vec<File>) -> Box<Locked> {
        Box::new(Locked {
            files,
            process: std::process::id(),
        })
    }
}

impl LockGuard for Locked {}

impl Drop for Locked {
    fn drop(&mut self) {
        // A forked child has the same open files: if the parent only closed its own, the locks would
        // last as long as the child. The child must not end them.
        if self.process == std::process::id() {
            for file in &self.files {
                file.unlock().ok();
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::{PermissionsExt as _, symlink};

    use super::*;

    fn disk(io: Io) -> (tempfile::TempDir, Disk) {
        let directory = tempfile::tempdir().unwrap();
        let disk = Disk::new(directory.path().join("a/b"), io);
        disk.create_dir().unwrap();
        (directory, disk)
    }

    fn write(disk: &Disk, name: &str, bytes: &[u8]) {
        let mut file = disk.create(name).unwrap();
        file.append(&[bytes]).unwrap();
        file.sync().unwrap();
        file.syncer().sync().unwrap();
    }

    /// What was read last longer ago than it was written would be noted by any system that notes at all.
    #[test]
    fn reads_leave_the_time_of_access_as_it_is() {
        let (_directory, disk) = disk(Io::Pread);
        write(&disk, "file", &[7; 10_000]);
        let path = disk.path_of("file");
        let long_ago = std::time::UNIX_EPOCH + std::time::Duration::from_secs(1000);
        let times = std::fs::FileTimes::new().set_accessed(long_ago);
        File::open(&path).unwrap().set_times(times).unwrap();
        let file = disk.open("file").unwrap();
        file.read(ReadCause::Data, 10, 4096).unwrap();
        let accessed = std::fs::metadata(&path).unwrap().accessed().unwrap();
        if cfg!(target_os = "linux") {
            assert_eq!(accessed, long_ago);
        }
    }

    /// Positioned reads are the safe twin of the map.
    #[test]
    fn a_map_reads_what_positioned_reads_do() {
        let (_directory, disk) = disk(Io::Pread);
        let bytes: Vec<u8> = (0..10_000_u32).map(|n| (n * n / 32) as u8).collect();
        write(&disk, "file", &bytes);
        let mapped = Disk::new(disk.path_of(""), Io::Mmap).open("file").unwrap();
        let positioned = disk.open("file").unwrap();
        assert!(mapped.read(ReadCause::Data, 0, 1).unwrap().is_mapped());
        assert!(!positioned.read(ReadCause::Data, 0, 1).unwrap().is_mapped());
        let mut random = 1_u64;
        for _ in 0..10_000 {
            random = random
                .wrapping_mul(0x5851_f42d_4c95_7f2d)
                .wrapping_add(0x1405_7b7e_f767_814f);
            // Up to the end, beyond it, and where a sum would overflow.
            let offset = match random >> 62 {
                0 => u64::MAX - (random >> 40) % 12_000,
                _ => (random >> 40) % 12_000,
            };
            let len = (random >> 20) as usize % 5_000;
            let read = |file: &Arc<dyn ReadFile>| {
                let found = file.read(ReadCause::Data, offset, len);
                found
                    .map(|slice| slice.to_vec())
                    .map_err(|error| error.kind())
            };
            let expected = usize::try_from(offset).ok().and_then(|start| {
                let end = start.checked_add(len)?;
                Some(bytes.get(start..end)?.to_vec())
            });
            assert_eq!(read(&mapped), read(&positioned), "{len} from {offset}");
            assert_eq!(read(&mapped).ok(), expected, "{len} from {offset}");
        }
    }

    #[test]
    fn what_is_asked_for_at_once_is_what_the_system_grants() {
        let check = |file_len, (offset, len), expected: &[(u64, u64)]| {
            let asked: Vec<(u64, u64)> = requests(file_len, offset, len).collect();
            assert_eq!(asked, expected, "{len} from {offset} of {file_len}");
        };
        const KIB: u64 = 1 << 10;
        check(1 << 20, (0, 4 * KIB), &[(0, 4 * KIB)]);
        check(1 << 20, (5 * KIB, 4 * KIB), &[(4 * KIB, 5 * KIB)]);
        check(1 << 20, (0, 128 * KIB), &[(0, 128 * KIB)]);
        // 33 pages.
        let two = [(4 * KIB, 128 * KIB), (132 * KIB, 1)];
        check(1 << 20, (4 * KIB + 1, 128 * KIB), &two);
        check(3, (0, u64::MAX), &[(0, 3)]);
        check(3, (3, 1), &[]);
        check(3, (u64::MAX, u64::MAX), &[]);
        check(0, (0, 0), &[]);
        for (offset, len, expected) in [
            (0, 4096, false),
            (0, 4097, true),
            (8192, 0, false),
            (4095, 1, false),
            (4095, 2, true),
        ] {
            assert_eq!(is_on_pages(offset, len), expected, "{len} from {offset}");
        }
    }

    #[test]
    fn reads_what_was_appended_and_nothing_beyond() {
        for io in [Io::Pread, Io::Mmap] {
            let (_directory, disk) = disk(io);
            write(&disk, "full", b"0123456789");
            write(&disk, "empty", b"");
            crate::storage::rewrite(&disk, "full").unwrap();
            disk.sync_dir().unwrap();
            let file = disk.open("full").unwrap();
            assert_eq!(file.len(), 10);
            assert_eq!(file.read(ReadCause::Data, 2, 3).unwrap(), b"234");
            assert_eq!(file.read(ReadCause::Data, 10, 0).unwrap(), b"");
            assert_eq!(
                file.read(ReadCause::Data, 0, 10).unwrap().is_mapped(),
                io == Io::Mmap
            );
            for (offset, len) in [(0, 11), (11, 0), (u64::MAX, 1), (1, usize::MAX)] {
                let error = file.read(ReadCause::Data, offset, len).unwrap_err();
                assert_eq!(error.kind(), ErrorKind::UnexpectedEof, "{offset} {len}");
            }
            let empty = disk.open("empty").unwrap();
            assert!(empty.is_empty());
            assert_eq!(empty.read(ReadCause::Open, 0, 0).unwrap(), b"");
            assert!(empty.read(ReadCause::Open, 0, 1).is_err());
        }
    }

    #[test]
    fn a_removed_file_stays_readable() {
        for io in [Io::Pread, Io::Mmap] {
            let (_directory, disk) = disk(io);
            write(&disk, "old", b"old");
            write(&disk, "new", b"new");
            let old = disk.open("old").unwrap();
            disk.rename("new", "old").unwrap();
            assert_eq!(disk.list().unwrap(), ["old"]);
            assert_eq!(
                disk.open("old")
                    .unwrap()
                    .read(ReadCause::Data, 0, 3)
                    .unwrap(),
                b"new"
            );
            disk.remove("old").unwrap();
            assert_eq!(old.read(ReadCause::Data, 0, 3).unwrap(), b"old");
            assert_eq!(disk.open("old").unwrap_err().kind(), ErrorKind::NotFound);
        }
    }

    /// P14: only the owner may read, and links are not followed.
    #[test]
    fn only_plain_private_files() {
        let (directory, disk) = disk(Io::Pread);
        write(&disk, "file", b"x");
        let mode = |path: PathBuf| std::fs::metadata(path).unwrap().permissions().mode() & 0o777;
        assert_eq!(mode(disk.path_of("file")), 0o600);
        assert_eq!(mode(directory.path().join("a/b")), 0o700);
        assert_eq!(mode(directory.path().join("a")), 0o700);

        symlink(disk.path_of("file"), disk.path_of("link")).unwrap();
        symlink(disk.path_of("nowhere"), disk.path_of("dangling")).unwrap();
        for name in ["link", "dangling"] {
            assert!(disk.open(name).is_err());
            assert!(crate::storage::rewrite(&disk, name).is_err());
            assert!(disk.lock(name).is_err());
            assert_eq!(
                disk.create(name).unwrap_err().kind(),
                ErrorKind::AlreadyExists
            );
        }
        assert_eq!(
            disk.create("file").unwrap_err().kind(),
            ErrorKind::AlreadyExists
        );
        for name in ["", ".", "..", "../b", "/etc/passwd", "b/", "./b"] {
            assert_eq!(
                disk.open(name).unwrap_err().kind(),
                ErrorKind::InvalidInput,
                "{name}"
            );
        }
        DirBuilder::new().create(disk.path_of("folder")).unwrap();
        assert!(disk.open("folder").is_err());
        assert_eq!(disk.list().unwrap(), ["dangling", "file", "folder", "link"]);
        let in_the_way = Disk::new(disk.path_of("file"), Io::Pread);
        assert!(in_the_way.create_dir().is_err());
        disk.create_dir().unwrap();
    }

    #[test]
    fn one_holder_of_the_lock() {
        let (_directory, disk) = disk(Io::Pread);
        let guard = disk.lock("LOCK").unwrap();
        assert_eq!(
            disk.clone().lock("LOCK").unwrap_err().kind(),
            ErrorKind::WouldBlock
        );
        drop(guard);
        drop(disk.lock("LOCK").unwrap());
    }

    #[test]
    fn the_run_of_the_system_has_one_name() {
        let disk = Disk::new("nowhere", Io::Pread);
        assert_eq!(disk.boot_id(), disk.boot_id());
        assert_ne!(disk.boot_id(), Some(0));
        assert_eq!(disk.list().unwrap_err().kind(), ErrorKind::NotFound);
    }
}
