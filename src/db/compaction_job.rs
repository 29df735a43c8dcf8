//! A compaction that a user has requested: how one waits for it or cancels it.

use std::sync::Arc;

use crate::bounds::Bounds;
use crate::error::Result;
use crate::origin::Origin;
use crate::store::{Request, Store};

/// A compaction under way: see [`Db::compact`](crate::Db::compact).
///
/// Dropped, the compaction goes on.
#[derive(Debug, Clone)]
pub struct CompactionJob {
    request: Arc<Request>,
    origin: Origin,
}

impl CompactionJob {
    pub(super) fn new(store: &Store, bounds: Bounds) -> CompactionJob {
        CompactionJob {
            request: store.request_compaction(bounds),
            origin: store.monitor().origin().clone(),
        }
    }

    /// Waits for the end.
    ///
    /// # Errors
    ///
    /// Why it failed; [`Error::Cancelled`](crate::Error::Cancelled) after [`CompactionJob::cancel`]
    /// or a close; [`Error::Forked`](crate::Error::Forked) in a forked child, where nothing is
    /// compacted.
    pub fn wait(&self) -> Result<()> {
        self.origin.check()?;
        self.request.wait()
    }

    /// Gives up; nothing is changed. Too late if it has ended. In a forked child it does nothing.
    pub fn cancel(&self) {
        if !self.origin.is_elsewhere() {
            self.request.cancel();
        }
    }

    /// Bytes of keys and values merged so far, and bytes of the input files; both 0 while it
    /// waits for its turn.
    pub fn progress(&self) -> (u64, u64) {
        self.request.progress()
    }

    /// Whether it has ended, well or not. In a forked child it has.
    pub fn is_done(&self) -> bool {
        self.origin.is_elsewhere() || self.request.is_done()
    }
}
