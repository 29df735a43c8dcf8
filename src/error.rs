//! What can go wrong, cut by what the caller can do about it.

use std::fmt;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// The result of every fallible operation of this crate.
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// An error of the store.
///
/// Each variant calls for a different action, which its message names.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub enum Error {
    /// The operating system refused an operation on a file.
    Io {
        /// The file or directory.
        path: PathBuf,
        /// What the operating system said.
        source: Arc<io::Error>,
    },
    /// Bytes on disk are not what was written. Nothing was changed.
    Corrupt(Corruption),
    /// A file that the store needs is not there.
    Missing {
        /// The missing file.
        path: PathBuf,
    },
    /// The directory holds no store, or something else than a store.
    NotAStore {
        /// The directory.
        path: PathBuf,
        /// What was found instead, and what to do.
        what: String,
    },
    /// Another process, or another handle of this one, has the store open.
    Locked {
        /// The lock file.
        path: PathBuf,
    },
    /// The store was opened for reading only.
    ReadOnly,
    /// An earlier failure left it unknown what is on disk: reads go on, writes are refused
    /// until the store is opened again.
    Poisoned {
        /// The first failure.
        cause: Arc<Error>,
    },
    /// Background work fails again and again (a full disk, say) and memory for further writes
    /// is used up. The write was not made; it can be tried again when the cause is gone.
    Stalled {
        /// The last failure.
        cause: Arc<Error>,
    },
    /// The caller asked for something outside the limits; nothing was written.
    Invalid(String),
    /// The store was closed.
    Closed,
    /// The caller cancelled the operation; nothing was changed.
    Cancelled,
}

/// Where bytes on disk are damaged.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Corruption {
    /// The damaged file.
    pub path: PathBuf,
    /// Byte offset of the damaged structure within the file.
    pub offset: u64,
    /// What is wrong.
    pub what: String,
}

impl Error {
    pub(crate) fn io(path: impl Into<PathBuf>, source: io::Error) -> Error {
        let path = path.into();
        if source.kind() == io::ErrorKind::NotFound {
            return Error::Missing { path };
        }
        Error::Io {
            path,
            source: Arc::new(source),
        }
    }

    pub(crate) fn corrupt(path: &Path, offset: u64, what: impl Into<String>) -> Error {
        Error::Corrupt(Corruption {
            path: path.to_owned(),
            offset,
            what: what.into(),
        })
    }

    /// Whether the operating system reported that no space is left, or that a quota or the limit on
    /// the size of files (`ulimit -f`) is used up.
    pub fn is_disk_full(&self) -> bool {
        match self {
            Error::Io { source, .. } => {
                matches!(
                    source.kind(),
                    io::ErrorKind::StorageFull
                        | io::ErrorKind::QuotaExceeded
                        | io::ErrorKind::FileTooLarge
                )
            }
            Error::Poisoned { cause } | Error::Stalled { cause } => cause.is_disk_full(),
            _ => false,
        }
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Error::Io { path, .. } => {
                write!(f, "the system refused an operation on {}", path.display())
            }
            Error::Corrupt(corruption) => corruption.fmt(f),
            Error::Missing { path } => write!(
                f,
                "{} is missing; restore it from a copy, or make a new store of what is left with \
                 `criba repair`; nothing has been changed",
                path.display()
            ),
            Error::NotAStore { path, what } => write!(f, "{}: {what}", path.display()),
            Error::Locked { path } => write!(
                f,
                "{} is held by another process or handle; close it there first",
                path.display()
            ),
            Error::ReadOnly => f.write_str("the store is open for reading only"),
            Error::Poisoned { .. } => f.write_str(
                "writes are refused after an earlier failure; reads go on; open the store again \
                 to recover",
            ),
            Error::Stalled { .. } => f.write_str(
                "memory for writes is used up while background work keeps failing; remove the \
                 cause and try again",
            ),
            Error::Invalid(what) => f.write_str(what),
            Error::Closed => f.write_str("the store is closed"),
            Error::Cancelled => f.write_str("cancelled"),
        }
    }
}

impl std::error::Error for Error {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            Error::Io { source, .. } => Some(&**source),
            Error::Poisoned { cause } | Error::Stalled { cause } => Some(&**cause),
            _ => None,
        }
    }
}

impl fmt::Display for Corruption {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "{} is damaged at byte {}: {}",
            self.path.display(),
            self.offset,
            self.what
        )
    }
}
