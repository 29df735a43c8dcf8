//! The directory that documents are extracted into.
//!
//! 1. Every name is looked up in the open directory above it, and links are not followed: so nothing is
//!    written outside, and no path is too long for the system.
//! 2. Nothing that was there is changed or removed.
//! 3. A file gets its name when it is whole. Until then it has a passing name with a random number.
//! 4. A directory gets its time when another one is entered that comes after all below it. Names come
//!    in the order of a sorted walk, so nothing is written into it any more.

use std::collections::BTreeMap;
use std::ffi::OsStr;
use std::fs::{self, File};
use std::io;
use std::ops::Bound;
use std::os::fd::{AsFd as _, OwnedFd};
use std::path::{Path, PathBuf};

use rustix::fs::{Access, AtFlags, CWD, Mode, OFlags, Timespec, Timestamps, UTIME_OMIT};
use rustix::io::Errno;

/// What a directory needs as long as something is written into it.
const OPEN_MODE: Mode = Mode::RWXU;

/// A passing name is this and 16 hexadecimal digits.
const PASSING: &str = ".io_fetcher-";

#[derive(Debug)]
pub(crate) struct Tree {
    root: PathBuf,
    /// The directory that was entered last: its path below the root.
    entered: Option<(PathBuf, OwnedFd)>,
    /// Directories made here that have not got their modification times yet. A directory and those
    /// beside it, down the path that is being written.
    untimed: BTreeMap<PathBuf, i64>,
    /// Times that could not be set, and why.
    failed: Vec<(PathBuf, io::Error)>,
    /// Directories made here whose modes would keep their owner out, in the order of their making.
    closed: Vec<(PathBuf, Mode)>,
}

impl Tree {
    pub(crate) fn new(root: &Path) -> Tree {
        Tree {
            root: root.to_owned(),
            entered: None,
            untimed: BTreeMap::new(),
            failed: Vec::new(),
            closed: Vec::new(),
        }
    }

    /// Whether documents can be written below this directory, or below the one in which it is to be
    /// made. Nothing is made yet.
    pub(crate) fn check(root: &Path) -> io::Result<()> {
        for path in root.ancestors() {
            let path = match path.as_os_str().is_empty() {
                true => Path::new("."),
                false => path,
            };
            match fs::metadata(path) {
                Err(error) if error.kind() == io::ErrorKind::NotFound => {}
                Err(error) => return Err(error),
                Ok(meta) if !meta.is_dir() => return Err(io::ErrorKind::NotADirectory.into()),
                Ok(_) => {
                    let needed = Access::WRITE_OK | Access::EXEC_OK;
                    return Ok(rustix::fs::access(path, needed)?);
                }
            }
        }
        Err(io::ErrorKind::NotFound.into())
    }

    /// Makes a directory with this mode and, if it is known, this modification time in nanoseconds.
    /// Returns `false` if there is one, which is left as it is.
    pub(crate) fn directory(
        &mut self,
        path: &Path,
        mode: u32,
        mtime: Option<i64>,
    ) -> io::Result<bool> {
        let (folder, name) = self.place(path)?;
        match rustix::fs::mkdirat(folder, name, OPEN_MODE) {
            Err(Errno::EXIST) => open(folder, name).map(|_| false),
            Err(error) => Err(error.into()),
            Ok(()) => {
                let mode = Mode::from_raw_mode(mode);
                rustix::fs::fchmod(open(folder, name)?, mode | OPEN_MODE)?;
                if !mode.contains(OPEN_MODE) {
                    self.closed.push((path.to_owned(), mode));
                }
                if let Some(mtime) = mtime {
                    self.untimed.insert(path.to_owned(), mtime);
                }
                Ok(true)
            }
        }
    }

    /// Makes a symbolic link with, if it is known, this modification time.
    pub(crate) fn link(
        &mut self,
        path: &Path,
        target: &[u8],
        mtime: Option<i64>,
    ) -> io::Result<()> {
        use std::os::unix::ffi::OsStrExt as _;
        let (folder, name) = self.place(path)?;
        rustix::fs::symlinkat(OsStr::from_bytes(target), folder, name).map_err(there)?;
        if let Some(mtime) = mtime {
            let flags = AtFlags::SYMLINK_NOFOLLOW;
            rustix::fs::utimensat(folder, name, &modified(mtime), flags)?;
        }
        Ok(())
    }

    /// Makes a file that `fill` writes, and returns what `fill` does. If it fails, there is no
    /// file.
    pub(crate) fn file<T, E: From<io::Error>>(
        &mut self,
        path: &Path,
        fill: impl FnOnce(&File) -> Result<T, E>,
    ) -> Result<T, E> {
        let (folder, name) = self.place(path)?;
        match rustix::fs::statat(folder, name, AtFlags::SYMLINK_NOFOLLOW) {
            Err(Errno::NOENT) => {}
            Err(error) => return Err(io::Error::from(error).into()),
            Ok(_) => return Err(there(Errno::EXIST).into()),
        }
        let (passing, file) = passing(folder)?;
        // A link, unlike a renaming, does not replace what has come there meanwhile.
        let written = fill(&file).and_then(|filled| {
            let linked = rustix::fs::linkat(folder, &passing, folder, name, AtFlags::empty());
            linked.map_err(there)?;
            Ok(filled)
        });
        let removed = rustix::fs::unlinkat(folder, &passing, AtFlags::empty());
        let filled = written?;
        removed.map_err(io::Error::from)?;
        Ok(filled)
    }

    /// Gives directories their times, and the modes that would have kept us out, those below first.
    /// Calls `failed` with the path of each that could not be given.
    pub(crate) fn close(mut self, mut failed: impl FnMut(&Path, &io::Error)) {
        self.leave(None);
        for (path, error) in &self.failed {
            failed(path, error);
        }
        for (path, mode) in std::mem::take(&mut self.closed).into_iter().rev() {
            let folder = self.enter(&path);
            let closed = folder.and_then(|folder| Ok(rustix::fs::fchmod(folder, mode)?));
            if let Err(error) = closed {
                failed(&path, &error);
            }
        }
    }

    /// The open directory above a path below the root, and the last name.
    fn place<'p>(&mut self, path: &'p Path) -> io::Result<(&OwnedFd, &'p OsStr)> {
        let name = path.file_name().ok_or(io::ErrorKind::InvalidFilename)?;
        let folder = self.enter(path.parent().unwrap_or(Path::new("")))?;
        Ok((folder, name))
    }

    /// Opens a directory below the root; makes it, and those above it, where there is none.
    fn enter(&mut self, path: &Path) -> io::Result<&OwnedFd> {
        let known = self.entered.take().filter(|(entered, _)| entered == path);
        let entered = match known {
            Some(known) => known,
            None => {
                self.leave(Some(path));
                (path.to_owned(), self.walk(path)?)
            }
        };
        Ok(&self.entered.insert(entered).1)
    }

    /// Gives those directories their times that come before this one and are not above it; all of
    /// them, if there is none.
    fn leave(&mut self, next: Option<&Path>) {
        let end = next.map_or(Bound::Unbounded, |next| Bound::Excluded(next.to_owned()));
        let is_above = |path: &PathBuf| next.is_some_and(|next| next.starts_with(path));
        let before = (Bound::Unbounded, end);
        let left = self.untimed.extract_if(before, |path, _| !is_above(path));
        let mut left: Vec<_> = left.collect();
        while let Some((path, mtime)) = left.pop() {
            let folder = self.walk(&path);
            let set = folder.and_then(|folder| {
                rustix::fs::futimens(folder, &modified(mtime))?;
                Ok(())
            });
            if let Err(error) = set {
                self.failed.push((path, error));
            }
        }
    }

    fn walk(&self, path: &Path) -> io::Result<OwnedFd> {
        fs::create_dir_all(&self.root)?;
        let flags = OFlags::DIRECTORY | OFlags::CLOEXEC;
        let mut folder = rustix::fs::openat(CWD, &self.root, flags, Mode::empty())?;
        for name in path {
            let below = match open(&folder, name) {
                Err(error) if error.kind() == io::ErrorKind::NotFound => {
                    rustix::fs::mkdirat(&folder, name, Mode::from_raw_mode(0o777))?;
                    open(&folder, name)?
                }
                opened => opened?,
            };
            folder = below;
        }
        Ok(folder)
    }
}

/// A directory in another.
fn open(folder: &OwnedFd, name: &OsStr) -> io::Result<OwnedFd> {
    let flags = OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    match rustix::fs::openat(folder.as_fd(), name, flags, Mode::empty()) {
        Err(Errno::NOTDIR | Errno::LOOP) => {
            let what = "where a directory is to be, there is a link or a file";
            Err(io::Error::new(io::ErrorKind::NotADirectory, what))
        }
        opened => Ok(opened?),
    }
}

/// A modification time in nanoseconds since 1970, to be set alone.
fn modified(nanos: i64) -> Timestamps {
    Timestamps {
        last_access: Timespec {
            tv_sec: 0,
            tv_nsec: UTIME_OMIT,
        },
        last_modification: Timespec {
            tv_sec: nanos.div_euclid(1_000_000_000),
            tv_nsec: nanos.rem_euclid(1_000_000_000),
        },
    }
}

/// A new file that nobody else can read, with a name that no other file has.
fn passing(folder: &OwnedFd) -> io::Result<(String, File)> {
    let mut random = [0; 8];
    getrandom::fill(&mut random).map_err(io::Error::other)?;
    let name = format!("{PASSING}{:016x}", u64::from_le_bytes(random));
    let flags = OFlags::CREATE | OFlags::EXCL | OFlags::WRONLY | OFlags::CLOEXEC;
    let file = rustix::fs::openat(folder, &name, flags, Mode::RUSR | Mode::WUSR)?;
    Ok((name, file.into()))
}

fn there(error: Errno) -> io::Error {
    match error {
        Errno::EXIST => {
            let what = "something has that name already, and nothing is overwritten";
            io::Error::new(io::ErrorKind::AlreadyExists, what)
        }
        error => error.into(),
    }
}
