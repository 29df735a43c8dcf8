//! What can go wrong, cut by what the caller can do about it.

use std::fmt;
use std::io;
use std::ops::Bound;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// The result of every fallible operation of this crate.
///
/// ```
/// use criba::{Db, Result};
///
/// # fn main() -> criba::Result<()> {
/// # let dir = tempfile::tempdir().unwrap();
/// # let path = dir.path().join("data");
/// fn count_visit(db: &Db) -> Result<u64> {
///     let visits = match db.get("visits")? {
///         Some(bytes) => u64::from_le_bytes(bytes.as_ref().try_into().unwrap_or_default()) + 1,
///         None => 1,
///     };
///     db.put("visits", visits.to_le_bytes())?;
///     Ok(visits)
/// }
/// # let db = Db::open(&path)?;
/// assert_eq!(count_visit(&db)?, 1);
/// assert_eq!(count_visit(&db)?, 2);
/// # Ok(())
/// # }
/// ```
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// An error of the store.
///
/// Each variant calls for a different action. Its text is a sentence that names the action and the
/// cause, so it is enough to print the error alone.
///
/// ```
/// use criba::{Db, Error};
///
/// # fn main() -> criba::Result<()> {
/// # let dir = tempfile::tempdir().unwrap();
/// # let path = dir.path().join("data");
/// # let other = Db::open(&path)?;
/// match Db::open(&path) {
///     Ok(db) => db.put("apple", "red")?,
///     // Some errors have an answer in the program.
///     Err(Error::Locked { path }) => assert!(path.ends_with("LOCK")),
///     // All have a text that says what to do.
///     Err(error) => eprintln!("error: {error}"),
/// }
/// # Ok(())
/// # }
/// ```
#[derive(Debug, Clone)]
#[non_exhaustive]
pub enum Error {
    /// The operating system refused an operation on a file.
    Io {
        /// The file or directory.
        path: PathBuf,
        /// The error of the operating system.
        source: Arc<io::Error>,
    },
    /// Bytes on disk differ from those that were written. Nothing was changed.
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
        /// The content of the directory, and what to do, in words.
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
    /// The key has operands, and the store was opened without their operator. The operands stay as
    /// they are, and all other keys can be read.
    NoOperator {
        /// The name of the operator, where the store has recorded it.
        name: Option<Box<str>>,
        /// The key.
        key: Box<[u8]>,
    },
    /// The operator has refused the operands of a key, or panicked. The operands stay as they are,
    /// and all other keys can be read.
    Operator {
        /// The name of the operator.
        name: Box<str>,
        /// The key.
        key: Box<[u8]>,
        /// What the operator said.
        what: Box<str>,
    },
    /// The store has met a state that its own code rules out: a bug of this crate, please report
    /// it. Background work that panicked becomes this; writes are refused from then on.
    Bug {
        /// The work that failed, and its message.
        what: String,
    },
    /// The store was closed.
    Closed,
    /// The keyspace was dropped after this handle was made. What was read of it before stays.
    KeyspaceDropped {
        /// Its name.
        name: String,
    },
    /// The caller cancelled the operation; nothing was changed.
    Cancelled,
    /// Another write has changed what a [`Transaction`](crate::Transaction) relies on. Nothing of
    /// it was written. Run it again from its beginning, or let
    /// [`Keyspace::transact`](crate::Keyspace::transact) do that.
    Conflict(Conflict),
    /// The process is a forked child of the one that opened this handle, and the handle does
    /// nothing here. Open the store anew in this process, once the parent has closed it.
    Forked,
}

/// Where bytes on disk are damaged.
///
/// ```
/// use criba::{Db, Error};
///
/// # fn main() -> criba::Result<()> {
/// # let dir = tempfile::tempdir().unwrap();
/// # let path = dir.path().join("data");
/// # let db = Db::open(&path)?;
/// # db.put("apple", "red")?;
/// # db.flush()?;
/// # let segment = path.join(format!("{:06}.seg", db.stats().segments().next().unwrap().id));
/// # db.close()?;
/// // Somebody changes the first byte of a segment.
/// let mut bytes = std::fs::read(&segment).unwrap();
/// bytes[0] ^= 1;
/// std::fs::write(&segment, bytes).unwrap();
/// let db = Db::open(&path)?;
/// let Err(Error::Corrupt(corruption)) = db.get("apple") else {
///     panic!("the damage was not found");
/// };
/// assert_eq!((corruption.path, corruption.offset), (segment, 0));
/// # Ok(())
/// # }
/// ```
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Corruption {
    /// The damaged file.
    pub path: PathBuf,
    /// Byte offset of the damaged structure within the file.
    pub offset: u64,
    /// The damage, in words.
    pub what: String,
}

/// Where the writes of others met a transaction.
///
/// ```
/// use criba::{Conflict, Db, Error};
///
/// # fn main() -> criba::Result<()> {
/// # let dir = tempfile::tempdir().unwrap();
/// # let db = Db::open(dir.path().join("data"))?;
/// let mut transaction = db.transaction();
/// assert_eq!(transaction.get("apple")?, None);
/// transaction.put("banana", "yellow")?;
/// db.put("apple", "red")?;
/// let Err(Error::Conflict(conflict)) = transaction.commit() else {
///     panic!("the apple has come meanwhile");
/// };
/// assert!(matches!(&conflict, Conflict::Key { key, .. } if key == b"apple"));
/// assert_eq!(conflict.to_string(), "the key \"apple\" of \"default\"");
/// # Ok(())
/// # }
/// ```
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum Conflict {
    /// A key was written or deleted since the transaction began.
    Key {
        /// The name of its keyspace.
        keyspace: String,
        /// The key.
        key: Vec<u8>,
    },
    /// A key between these bounds was.
    Range {
        /// The name of its keyspace.
        keyspace: String,
        /// Where the range begins.
        lower: Bound<Vec<u8>>,
        /// Where it ends.
        upper: Bound<Vec<u8>>,
    },
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

    pub(crate) fn operator(name: &str, key: &[u8], what: impl Into<Box<str>>) -> Error {
        Error::Operator {
            name: name.into(),
            key: key.into(),
            what: what.into(),
        }
    }

    /// Whether it is about one key, and others can be read.
    pub(crate) fn is_of_operands(&self) -> bool {
        matches!(self, Error::NoOperator { .. } | Error::Operator { .. })
    }

    /// The nearest kind of the system's errors. `Interrupted` is none of them: callers repeat that.
    fn kind(&self) -> io::ErrorKind {
        match self {
            Error::Io { source, .. } => source.kind(),
            Error::Corrupt(_) => io::ErrorKind::InvalidData,
            Error::Missing { .. } | Error::NotAStore { .. } => io::ErrorKind::NotFound,
            Error::Locked { .. } => io::ErrorKind::WouldBlock,
            Error::ReadOnly => io::ErrorKind::PermissionDenied,
            Error::Poisoned { cause } | Error::Stalled { cause } => cause.kind(),
            Error::Invalid(_) => io::ErrorKind::InvalidInput,
            Error::NoOperator { .. } => io::ErrorKind::Unsupported,
            Error::Operator { .. } => io::ErrorKind::InvalidData,
            Error::KeyspaceDropped { .. } => io::ErrorKind::NotFound,
            Error::Bug { .. }
            | Error::Closed
            | Error::Cancelled
            | Error::Conflict(_)
            | Error::Forked => io::ErrorKind::Other,
        }
    }

    /// Whether the operating system reported that no space is left, or that a quota or the limit on
    /// the size of files (`ulimit -f`) is used up.
    ///
    /// ```
    /// # fn main() -> criba::Result<()> {
    /// # let dir = tempfile::tempdir().unwrap();
    /// # let db = criba::Db::open(dir.path().join("data"))?;
    /// if let Err(error) = db.put("apple", "red") {
    ///     match error.is_disk_full() {
    ///         true => eprintln!("remove some files, then open the store again: {error}"),
    ///         false => return Err(error),
    ///     }
    /// }
    /// # assert!(!criba::Error::Closed.is_disk_full());
    /// # Ok(())
    /// # }
    /// ```
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
            Error::Io { path, source } => write!(f, "{}: {source}", path.display()),
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
            Error::Poisoned { cause } => write!(
                f,
                "writes are refused after an earlier failure; reads go on; open the store again \
                 to recover; the failure was: {cause}"
            ),
            Error::Stalled { cause } => write!(
                f,
                "memory for writes is used up while background work keeps failing; remove the \
                 cause and try again: {cause}"
            ),
            Error::Invalid(what) => f.write_str(what),
            Error::NoOperator { name, key } => {
                write!(
                    f,
                    "the key \"{}\" has operands, which need their operator; open the store with ",
                    key.escape_ascii()
                )?;
                match name {
                    Some(name) => write!(f, "the operator \"{name}\" (Builder::operator)"),
                    None => f.write_str("it (Builder::operator)"),
                }
            }
            Error::Operator { name, key, what } => write!(
                f,
                "the operator \"{name}\" cannot combine the operands of key \"{}\": {what}; put a \
                 value or delete the key",
                key.escape_ascii()
            ),
            Error::Bug { what } => write!(
                f,
                "{what}; this is a bug in criba, please report it; open the store again to recover"
            ),
            Error::Closed => f.write_str("the store is closed"),
            Error::KeyspaceDropped { name } => write!(f, "the keyspace {name:?} was dropped"),
            Error::Cancelled => f.write_str("cancelled"),
            Error::Conflict(conflict) => write!(
                f,
                "{conflict} was changed by others while the transaction ran; nothing was written; \
                 run the transaction again"
            ),
            Error::Forked => f.write_str(
                "this handle was opened before a fork and works in the parent process only; open \
                 the store anew in this process, once the parent has closed it",
            ),
        }
    }
}

impl std::error::Error for Error {
    /// The cause behind the one that the text names, so that a program that prints the chain says
    /// nothing twice.
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            Error::Io { source, .. } => source.source(),
            Error::Poisoned { cause } | Error::Stalled { cause } => cause.source(),
            _ => None,
        }
    }
}

/// For functions that return errors of the system. The kind is that of the cause where the system
/// refused something, and the nearest one otherwise; the error itself stays within
/// ([`io::Error::get_ref`]).
impl From<Error> for io::Error {
    fn from(error: Error) -> io::Error {
        io::Error::new(error.kind(), error)
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

impl fmt::Display for Conflict {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (keyspace, lower, upper) = match self {
            Conflict::Key { keyspace, key } => {
                return write!(f, "the key \"{}\" of {keyspace:?}", key.escape_ascii());
            }
            Conflict::Range {
                keyspace,
                lower,
                upper,
            } => (keyspace, lower, upper),
        };
        write!(f, "a key of {keyspace:?} in the range ")?;
        match lower {
            Bound::Unbounded => {}
            Bound::Included(key) => write!(f, "\"{}\"", key.escape_ascii())?,
            Bound::Excluded(key) => write!(f, "behind \"{}\" ", key.escape_ascii())?,
        }
        match upper {
            Bound::Unbounded => f.write_str(".."),
            Bound::Included(key) => write!(f, "..=\"{}\"", key.escape_ascii()),
            Bound::Excluded(key) => write!(f, "..\"{}\"", key.escape_ascii()),
        }
    }
}

/// An error and its causes in one line.
pub(crate) fn chain(error: &Error) -> String {
    let mut text = error.to_string();
    let mut source = std::error::Error::source(error);
    while let Some(cause) = source {
        text.push_str(": ");
        text.push_str(&cause.to_string());
        source = cause.source();
    }
    text
}

#[cfg(test)]
mod tests {
    use std::io::ErrorKind;

    use super::*;

    fn full() -> Error {
        Error::io("data/000012.seg", ErrorKind::StorageFull.into())
    }

    /// One of each variant, and the kind of the system's error that it becomes.
    fn all() -> Vec<(Error, ErrorKind)> {
        let path = || PathBuf::from("data");
        let what = || "no manifest".to_owned();
        let (poison, stall) = (Arc::new(full()), Arc::new(full()));
        vec![
            (full(), ErrorKind::StorageFull),
            (Error::corrupt(&path(), 7, what()), ErrorKind::InvalidData),
            (
                Error::io(path(), ErrorKind::NotFound.into()),
                ErrorKind::NotFound,
            ),
            (
                Error::NotAStore {
                    path: path(),
                    what: what(),
                },
                ErrorKind::NotFound,
            ),
            (Error::Locked { path: path() }, ErrorKind::WouldBlock),
            (Error::ReadOnly, ErrorKind::PermissionDenied),
            (Error::Poisoned { cause: poison }, ErrorKind::StorageFull),
            (Error::Stalled { cause: stall }, ErrorKind::StorageFull),
            (Error::Invalid(what()), ErrorKind::InvalidInput),
            (
                Error::NoOperator {
                    name: None,
                    key: (*b"key").into(),
                },
                ErrorKind::Unsupported,
            ),
            (
                Error::operator("add", b"key", what()),
                ErrorKind::InvalidData,
            ),
            (Error::Bug { what: what() }, ErrorKind::Other),
            (Error::Closed, ErrorKind::Other),
            (Error::Cancelled, ErrorKind::Other),
            (
                Error::Conflict(Conflict::Key {
                    keyspace: "users".into(),
                    key: b"k".to_vec(),
                }),
                ErrorKind::Other,
            ),
            (Error::Forked, ErrorKind::Other),
        ]
    }

    /// As a program prints it that goes through the causes.
    fn printed(error: &dyn std::error::Error) -> String {
        let mut text = error.to_string();
        let mut source = error.source();
        while let Some(cause) = source {
            text.push_str(&format!(": {cause}"));
            source = cause.source();
        }
        text
    }

    #[test]
    fn the_text_names_the_cause_and_a_chain_says_it_once() {
        let cause = full().to_string();
        assert_eq!(cause, "data/000012.seg: no storage space");
        for (error, kind) in all() {
            let text = error.to_string();
            let is_full = kind == ErrorKind::StorageFull;
            assert_eq!(text.matches(&cause).count(), usize::from(is_full), "{text}");
            assert_eq!(printed(&error), text);
        }
    }

    #[test]
    fn a_conflict_names_keys_in_a_way_that_a_terminal_bears() {
        let bound = |key: &[u8]| key.to_vec();
        let range = |lower, upper| {
            let keyspace = "a\x1b".to_owned();
            let conflict = Conflict::Range {
                keyspace,
                lower,
                upper,
            };
            conflict.to_string()
        };
        let key = Conflict::Key {
            keyspace: "users".into(),
            key: bound(b"a\x1b\""),
        };
        let all = [
            key.to_string(),
            range(Bound::Included(bound(b"a")), Bound::Excluded(bound(b"\n"))),
            range(Bound::Excluded(bound(b"a")), Bound::Included(bound(b"c"))),
            range(Bound::Unbounded, Bound::Unbounded),
        ];
        let wanted = [
            r#"the key "a\x1b\"" of "users""#,
            r#"a key of "a\u{1b}" in the range "a".."\n""#,
            r#"a key of "a\u{1b}" in the range behind "a" ..="c""#,
            r#"a key of "a\u{1b}" in the range .."#,
        ];
        assert_eq!(all, wanted);
    }

    #[test]
    fn what_is_behind_the_cause_is_the_source() {
        #[derive(Debug)]
        struct Outer(io::Error);
        impl fmt::Display for Outer {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("the server answered nonsense")
            }
        }
        impl std::error::Error for Outer {
            fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
                Some(&self.0)
            }
        }
        let outer = Outer(io::Error::other("bad header"));
        let error = Error::io("data/x", io::Error::other(outer));
        let all = "data/x: the server answered nonsense: bad header";
        assert_eq!(printed(&error), all);
        let poisoned = Error::Poisoned {
            cause: Arc::new(error),
        };
        let text = printed(&poisoned);
        assert!(text.ends_with(all), "{text}");
        assert_eq!(text.matches("bad header").count(), 1, "{text}");
    }

    #[test]
    fn an_error_becomes_one_of_the_system_and_stays_itself_within() {
        for (error, kind) in all() {
            let text = error.to_string();
            let system = io::Error::from(error);
            assert_eq!(system.kind(), kind, "{text}");
            assert_eq!(printed(&system), text);
            let within = system.get_ref().and_then(|inner| inner.downcast_ref());
            assert!(within.is_some_and(|inner: &Error| inner.to_string() == text));
        }
    }
}
