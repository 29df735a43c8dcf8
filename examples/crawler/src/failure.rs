//! Why the program ends early, and with which exit code.

use std::error::Error;
use std::fmt;
use std::io;

use common::codec::Malformed;
use common::exit::with_causes;

common::exit_codes! {
    Done = 0 "everything within reach was fetched, or the page limit was reached"
    Wrong = 1 "embedded site only: something was missed or fetched twice"
    Usage = 2 "the command line is not valid"
    Store = 3 "the store is damaged, locked or not one of this program"
    Incomplete = 4 "no seed could be fetched, hosts are held, or a signal stopped it; run it again to go on"
    Io = 5 "the system refused to read or write: a full disk, a file that cannot be written"
}

/// A failure that ends the crawl. What was committed before it is safe.
#[derive(Debug)]
pub(crate) enum Failure {
    Usage(String),
    Store(criba::Error),
    /// Bytes in the store are not what this program writes.
    Damaged(String),
    /// The directory holds something else than a store of this program.
    NotOurs(String),
    /// What was being done, and what the system said.
    Io(String, io::Error),
    /// The peer store of `--seen sled`, or another structure in place of the store.
    Peer(Box<dyn Error + Send + Sync>),
}

impl Failure {
    pub(crate) fn exit(&self) -> Exit {
        match self {
            Failure::Usage(_) => Exit::Usage,
            Failure::Io(..) => Exit::Io,
            Failure::Store(error) if is_refusal(error) => Exit::Io,
            Failure::Peer(error) if is_refusal_behind(&**error) => Exit::Io,
            Failure::Store(_) | Failure::Damaged(_) | Failure::NotOurs(_) | Failure::Peer(_) => {
                Exit::Store
            }
        }
    }

    /// For `map_err`: adds what was being done.
    pub(crate) fn io(doing: impl Into<String>) -> impl FnOnce(io::Error) -> Failure {
        move |error| Failure::Io(doing.into(), error)
    }
}

/// Whether the system refused something. After that the store refuses too, and names the cause.
fn is_refusal(error: &criba::Error) -> bool {
    match error {
        criba::Error::Io { .. } => true,
        criba::Error::Poisoned { cause } | criba::Error::Stalled { cause } => is_refusal(cause),
        _ => false,
    }
}

/// The same for an error of another kind, by its causes.
fn is_refusal_behind(error: &(dyn Error + 'static)) -> bool {
    let mut next = Some(error);
    while let Some(error) = next {
        if error.is::<io::Error>() || matches!(error.downcast_ref(), Some(sled::Error::Io(_))) {
            return true;
        }
        next = error.source();
    }
    false
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
            crawl::Error::Other(error) => Failure::Peer(error),
            crawl::Error::NotOurs { .. } => Failure::NotOurs(error.to_string()),
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
        Failure::Peer(Box::new(error))
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Failure::Usage(what) | Failure::NotOurs(what) => f.write_str(what),
            Failure::Store(error) => f.write_str(&with_causes(error)),
            Failure::Damaged(what) => write!(
                f,
                "{what}; the store is damaged or of another version: choose another --store, or \
                 look at it with `criba stats`"
            ),
            Failure::Io(doing, error) => write!(f, "{doing}: {error}"),
            Failure::Peer(error) => write!(f, "--seen: {error}"),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;

    #[test]
    fn a_refusal_of_the_system_is_found_behind_other_errors() {
        fn check(failure: impl Into<Failure>, exit: Exit) {
            let failure = failure.into();
            assert_eq!(failure.exit(), exit, "{failure}");
        }
        let full = || io::Error::from(io::ErrorKind::StorageFull);
        let refused = || {
            Arc::new(criba::Error::Io {
                path: "data".into(),
                source: Arc::new(full()),
            })
        };
        let stalled = || criba::Error::Stalled { cause: refused() };
        let cause = Arc::new(stalled());
        check(stalled(), Exit::Io);
        check(criba::Error::Poisoned { cause }, Exit::Io);
        check(crawl::Error::Store(stalled()), Exit::Io);
        check(crawl::Error::other(sled::Error::Io(full())), Exit::Io);
        check(crawl::Error::other(full()), Exit::Io);
        check(sled::Error::Io(full()), Exit::Io);
        check(sled::Error::ReportableBug("one".into()), Exit::Store);
        let cause = Arc::new(criba::Error::Closed);
        check(criba::Error::Poisoned { cause }, Exit::Store);
        check(crawl::Error::Damaged("a value".into()), Exit::Store);
        let not_ours = crawl::Error::NotOurs {
            path: "data".into(),
            holds: "something else".into(),
        };
        check(not_ours, Exit::Store);
        let found = "none".into();
        check(crawl::Error::Partition { found }, Exit::Usage);
    }
}
