//! What can go wrong.

use std::fmt;
use std::path::PathBuf;

use common::codec::Malformed;

/// Why a crawl cannot go on. Batches that were committed before are safe.
#[derive(Debug)]
#[non_exhaustive]
pub enum Error {
    /// The store refused.
    Store(criba::Error),
    /// Bytes in the store are not what this crate writes.
    Damaged(String),
    /// The directory holds a store of something else, or of another layout.
    NotOurs {
        /// The directory.
        path: PathBuf,
        /// A description of its content.
        holds: String,
    },
    /// The store was made with another order of the seen set.
    Partition {
        /// The order that it has; see [`Partition::name`](crate::Partition::name).
        found: String,
    },
    /// Another structure than the store, which stands in its place ([`Seen`](crate::Seen)), failed.
    Other(Box<dyn std::error::Error + Send + Sync>),
}

impl Error {
    /// For `map_err` in a [`Seen`](crate::Seen).
    pub fn other(error: impl std::error::Error + Send + Sync + 'static) -> Error {
        Error::Other(Box::new(error))
    }
}

impl From<criba::Error> for Error {
    fn from(error: criba::Error) -> Error {
        Error::Store(error)
    }
}

impl From<Malformed> for Error {
    fn from(_: Malformed) -> Error {
        Error::Damaged("a value is not one that a crawl writes".into())
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Error::Store(error) => write!(f, "{error}"),
            Error::Damaged(what) => write!(
                f,
                "{what}; the store is damaged: look at it with `criba verify`, or begin another crawl"
            ),
            Error::Other(error) => write!(f, "{error}"),
            Error::Partition { found } => write!(
                f,
                "this crawl was begun with partition `{found}`; open it with that, or begin another one"
            ),
            Error::NotOurs { path, holds } => {
                let path = path.display();
                write!(f, "{path} holds {holds}; choose another directory")
            }
        }
    }
}

impl std::error::Error for Error {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            Error::Store(error) => Some(error),
            Error::Other(error) => Some(&**error),
            Error::Damaged(_) | Error::NotOurs { .. } | Error::Partition { .. } => None,
        }
    }
}
