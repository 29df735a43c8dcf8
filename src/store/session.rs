//! A session: from the opening of a store to its close, with the lock on its directory.

use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};

use crate::error::Result;
use crate::options::Options;
use crate::storage::{LockGuard, Storage};

use super::open::open;
use super::state::Store;

/// What ends with the last handle. Snapshots and iterators hold only what they read.
#[derive(Debug)]
pub(crate) struct Session {
    store: Arc<Store>,
    path: PathBuf,
    /// Held as long as the store is open.
    lock: Mutex<Option<Box<dyn LockGuard>>>,
}

impl Session {
    /// Opens the store that lies in `storage`.
    pub(crate) fn open(
        path: PathBuf,
        options: Options,
        storage: Arc<dyn Storage>,
    ) -> Result<Session> {
        let (store, guard) = open(options, storage)?;
        store.tree_changed(store.tree());
        Ok(Session {
            store,
            path,
            lock: Mutex::new(guard),
        })
    }

    #[inline]
    pub(crate) fn store(&self) -> &Arc<Store> {
        &self.store
    }

    /// The directory of the store.
    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    /// Ends the session: everything written survives power loss.
    pub(crate) fn close(&self) -> Result<()> {
        let store = &self.store;
        store.monitor().origin().check()?;
        store.monitor().close()?;
        store.flusher().stop();
        store.compactor().stop();
        store.threads().end()?;
        let result = store.finish();
        // Under the lock: the next session looks at what files there are.
        store.services().past_things.finish();
        let mut lock = self.lock.lock().unwrap_or_else(PoisonError::into_inner);
        drop(lock.take());
        result
    }
}

impl Store {
    /// The end of a session: all synced, and `CURRENT` marked clean if it has written.
    fn finish(&self) -> Result<()> {
        self.monitor().check_sound()?;
        if self.monitor().is_read_only() {
            return Ok(());
        }
        self.flusher().close_sealed_journals();
        let log = self.log();
        log.forget_ready_journal();
        if !log.turn().has_journal() {
            log.sync_to(self.visible())?;
            return self.save_traffic();
        }
        let last = log.sync_last()?;
        self.save_traffic()?;
        let catalog = &self.services().catalog;
        catalog.change(|manifest| manifest.mark_clean(last))
    }
}

impl Store {
    /// Writes what was counted, at the end of a session. A store that was closed in order stays
    /// so, also if this session has written nothing.
    fn save_traffic(&self) -> Result<()> {
        let trees = self.trees().list();
        self.services().catalog.change(|manifest| {
            let mut edit = manifest.edit();
            for tree in &trees {
                tree.add_traffic(manifest, &mut edit, (&[], &[]));
            }
            if edit.traffic.is_empty() && edit.work == manifest.state().work {
                return Ok(());
            }
            let clean_at = manifest.current().clean_at;
            manifest.commit(&edit)?;
            clean_at.map_or(Ok(()), |at| manifest.mark_clean(at))
        })
    }
}

/// The fallback for a user who does not call `close`; its errors are lost.
impl Drop for Session {
    fn drop(&mut self) {
        if self.store.monitor().origin().is_elsewhere() {
            self.store.leak();
            let guard = self.lock.get_mut();
            std::mem::forget(guard.unwrap_or_else(PoisonError::into_inner).take());
        } else {
            drop(self.close());
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use crate::sim::Memory;
    use crate::{Compaction, Db};

    #[test]
    fn threads_are_started_at_the_first_work_for_them() {
        let storage = Arc::new(Memory::new());
        let open = |compaction| {
            let builder = Db::builder("threads").storage(Arc::<Memory>::clone(&storage));
            builder.compaction(compaction).open().unwrap()
        };
        let db = open(Compaction::Background);
        db.put("k", "v").unwrap();
        db.sync().unwrap();
        assert_eq!(db.get("k").unwrap().unwrap(), "v");
        assert_eq!(db.store().threads().started(), 0);
        db.flush().unwrap();
        assert_eq!(db.store().threads().started(), 1, "one run is in shape");
        db.close().unwrap();

        let db = open(Compaction::Manual);
        for n in 0..20 {
            db.put("k", format!("{n}")).unwrap();
            db.flush().unwrap();
        }
        assert_eq!(db.store().threads().started(), 1, "nobody asked");
        db.compact_all().unwrap().wait().unwrap();
        assert_eq!(db.store().threads().started(), 3);
        for n in 0..20 {
            db.put("k", format!("{n}")).unwrap();
            db.flush().unwrap();
        }
        db.close().unwrap();

        let db = open(Compaction::Background);
        assert_eq!(db.store().threads().started(), 2, "too many runs");
        db.close().unwrap();
    }
}
