//! Connections that can be used again, by origin.

use std::collections::HashMap;
use std::sync::Arc;

use crate::http::Connection;

/// Connections that are kept, at all origins together: each has a file descriptor.
const KEPT_MAX: usize = 512;

/// Connections that nobody uses.
#[derive(Default)]
pub(crate) struct Pool {
    kept: HashMap<Arc<str>, Vec<Connection>>,
    count: usize,
}

impl Pool {
    pub(crate) fn take(&mut self, origin: &Arc<str>) -> Option<Connection> {
        let taken = self.kept.get_mut(origin)?.pop();
        self.count -= usize::from(taken.is_some());
        taken
    }

    /// Keeps a connection. Of too many, all of before go: which of them are still open, nobody
    /// knows.
    pub(crate) fn give(&mut self, origin: &Arc<str>, connection: Option<Connection>) {
        let Some(connection) = connection else { return };
        if self.count >= KEPT_MAX {
            *self = Pool::default();
        }
        let kept = self.kept.entry(Arc::clone(origin)).or_default();
        kept.push(connection);
        self.count += 1;
    }
}
