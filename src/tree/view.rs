//! Where all entries of a tree are at one moment.

use std::sync::{Arc, OnceLock};

use crate::memtable::Memtable;
use crate::segment::Segment;
use crate::services::PastThings;
use crate::version::Version;

/// An immutable value that readers take without a lock.
///
/// Invariant: an entry is newer than any entry of its key in a later place: active memtable,
/// sealed memtables as listed, runs as listed.
#[derive(Debug)]
pub(crate) struct View {
    pub(crate) active: Arc<Memtable>,
    /// Those that take no more writes and wait for their flush, newest first.
    pub(crate) sealed: Vec<Arc<Memtable>>,
    pub(crate) version: Arc<Version>,
    /// The last view of a tree that was dropped: there is nothing to read any more.
    pub(crate) is_dropped: bool,
    /// Set once another view has taken the place of this one: where its parts are dropped.
    past: OnceLock<PastThings>,
}

/// The parts of a view that has gone, for the thread that drops them.
#[derive(Debug)]
pub(crate) struct Parts {
    _sealed: Vec<Arc<Memtable>>,
    _version: Arc<Version>,
}

impl View {
    pub(crate) fn new(
        active: Arc<Memtable>,
        sealed: Vec<Arc<Memtable>>,
        version: Arc<Version>,
    ) -> View {
        View {
            active,
            sealed,
            version,
            is_dropped: false,
            past: OnceLock::new(),
        }
    }

    /// That of a tree that is empty.
    pub(crate) fn empty() -> View {
        let version = Arc::new(Version::new(Vec::new()));
        View::new(Memtable::none(), Vec::new(), version)
    }

    /// That of a tree that was dropped.
    pub(super) fn dropped() -> View {
        let mut view = View::empty();
        view.is_dropped = true;
        view
    }

    /// The same with another active memtable.
    pub(super) fn with_active(&self, active: Arc<Memtable>) -> View {
        View::new(active, self.sealed.clone(), Arc::clone(&self.version))
    }

    /// The same with the active memtable sealed.
    pub(super) fn with_sealed(&self) -> View {
        let mut sealed = vec![Arc::clone(&self.active)];
        sealed.extend(self.sealed.iter().cloned());
        View::new(Memtable::none(), sealed, Arc::clone(&self.version))
    }

    /// The same with segments in the place of a sealed memtable.
    pub(super) fn with_flushed(&self, table: &Arc<Memtable>, segments: Vec<Arc<Segment>>) -> View {
        let waits = |one: &&Arc<Memtable>| !Arc::ptr_eq(one, table);
        let sealed = self.sealed.iter().filter(waits).cloned().collect();
        let version = self.version.with(segments, &[]);
        View::new(Arc::clone(&self.active), sealed, Arc::new(version))
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
    pub(super) fn retire(self: Arc<View>, remains: &PastThings) {
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
            remains.add(Box::new(Parts {
                _sealed: std::mem::take(&mut self.sealed),
                _version: Arc::clone(&self.version),
            }));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_holder_puts_the_parts_of_a_past_view_aside() {
        let remains = PastThings::default();
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
