//! Where all entries of a tree are at one moment.

use std::sync::{Arc, OnceLock};

use crate::key::Sequence;
use crate::manifest::JournalFloor;
use crate::memtable::Memtable;
use crate::remains::Remains;
use crate::version::Version;

/// An immutable value that readers take without a lock.
///
/// Invariant: an entry is newer than any entry of its key in a later place: active memtable,
/// sealed memtables as listed, runs as listed.
#[derive(Debug)]
pub(crate) struct View {
    pub(crate) active: Arc<Memtable>,
    /// Newest first.
    pub(crate) sealed: Vec<Arc<Sealed>>,
    pub(crate) version: Arc<Version>,
    /// Set once another view has taken the place of this one: where its parts are dropped.
    past: OnceLock<Remains<Parts>>,
}

/// A memtable that takes no more writes and waits for its flush.
#[derive(Debug)]
pub(crate) struct Sealed {
    pub(crate) table: Arc<Memtable>,
    /// Sequence of its newest entry.
    pub(crate) last: Sequence,
    /// Where the journals begin that are needed once it is flushed.
    pub(crate) floor: JournalFloor,
}

/// The parts of a view that has gone, for the thread that drops them.
#[derive(Debug)]
pub(crate) struct Parts {
    _sealed: Vec<Arc<Sealed>>,
    _version: Arc<Version>,
}

impl View {
    pub(crate) fn new(
        active: Arc<Memtable>,
        sealed: Vec<Arc<Sealed>>,
        version: Arc<Version>,
    ) -> View {
        View {
            active,
            sealed,
            version,
            past: OnceLock::new(),
        }
    }

    /// The same with another version.
    pub(crate) fn with_version(&self, version: Version) -> View {
        View::new(
            Arc::clone(&self.active),
            self.sealed.clone(),
            Arc::new(version),
        )
    }

    /// Lets go of a view that was replaced. If nobody else holds it, its parts are dropped here.
    /// Otherwise the last holder, a reader or writer with no time for that, puts them aside.
    pub(super) fn retire(self: Arc<View>, remains: &Remains<Parts>) {
        self.past.get_or_init(|| remains.clone());
        if let Some(mut last) = Arc::into_inner(self) {
            last.past.take();
        }
    }
}

impl Drop for View {
    fn drop(&mut self) {
        let Some(remains) = self.past.take() else {
            return;
        };
        let is_last = Arc::strong_count(&self.version) == 1
            || self.sealed.iter().any(|one| Arc::strong_count(one) == 1);
        if is_last {
            remains.add(Parts {
                _sealed: std::mem::take(&mut self.sealed),
                _version: Arc::clone(&self.version),
            });
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_holder_puts_the_parts_of_a_past_view_aside() {
        let remains = Remains::default();
        let view = || {
            let version = Arc::new(Version::new(Vec::new()));
            Arc::new(View::new(Arc::new(Memtable::new(0)), Vec::new(), version))
        };
        // Nobody else holds it.
        let past = view();
        let version = Arc::downgrade(&past.version);
        past.retire(&remains);
        assert_eq!(version.strong_count(), 0);
        // A reader holds it a little longer.
        let past = view();
        let (reader, version) = (Arc::clone(&past), Arc::downgrade(&past.version));
        past.retire(&remains);
        assert_eq!(version.strong_count(), 1);
        assert!(reader.past.get().is_some(), "the reader knows where to");
        drop(reader);
        remains.finish();
        assert_eq!(version.strong_count(), 0);
        // One that was not replaced is dropped where it is.
        let last = view();
        let version = Arc::downgrade(&last.version);
        drop(last);
        assert_eq!(version.strong_count(), 0);
    }
}
