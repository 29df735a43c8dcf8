//! Why the program ends early, and with which exit code.

use std::fmt;
use std::io;

use common::codec::Malformed;
use common::exit::with_causes;

common::exit_codes! {
    Done = 0 "everything within reach was fetched, or the page limit was reached"
    Wrong = 1 "embedded site only: something was missed or fetched twice"
    Usage = 2 "the command line is not valid"
    Store = 3 "the store is damaged, locked or not one of this program"
    Incomplete = 4 "no seed could be fetched, or hosts are held; run it again to go on"
    Io = 5 "the system refused to read or write"
}

/// A failure that ends the crawl. What was committed before it is safe.
#[derive(Debug)]
pub(crate) enum Failure {
    Usage(String),
    Store(criba::Error),
    /// Bytes in the store are not what this program writes.
    Damaged(String),
    /// What was being done, and what the system said.
    Io(String, io::Error),
    /// The peer store of `--seen sled`.
    Peer(sled::Error),
}

impl Failure {
    pub(crate) fn exit(&self) -> Exit {
        match self {
            Failure::Usage(_) => Exit::Usage,
            Failure::Store(criba::Error::Io { .. }) | Failure::Io(..) => Exit::Io,
            Failure::Store(_) | Failure::Damaged(_) | Failure::Peer(_) => Exit::Store,
        }
    }

    /// For `map_err`: adds what was being done.
    pub(crate) fn io(doing: impl Into<String>) -> impl FnOnce(io::Error) -> Failure {
        move |error| Failure::Io(doing.into(), error)
    }
}

impl From<criba::Error> for Failure {
    fn from(error: criba::Error) -> Failure {
        Failure::Store(error)
    }
}

impl From<crawl::Error> for Failure {
    fn from(error: crawl::Error) -> Failure {
        match error {
            crawl::Error::Store(error) => Failure::Store(error),
            crawl::Error::Damaged(what) => Failure::Damaged(what),
            other => Failure::Usage(other.to_string()),
        }
    }
}

impl From<Malformed> for Failure {
    fn from(_: Malformed) -> Failure {
        Failure::Damaged("a value is not one that this program writes".into())
    }
}

impl From<sled::Error> for Failure {
    fn from(error: sled::Error) -> Failure {
        Failure::Peer(error)
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Failure::Usage(what) => f.write_str(what),
            Failure::Store(error) => f.write_str(&with_causes(error)),
            Failure::Damaged(what) => write!(
                f,
                "{what}; the store is damaged or of another version: choose another --store, or \
                 look at it with `criba stats`"
            ),
            Failure::Io(doing, error) => write!(f, "{doing}: {error}"),
            Failure::Peer(error) => write!(f, "sled: {error}"),
        }
    }
}
