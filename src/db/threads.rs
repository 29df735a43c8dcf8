//! Background threads, each started at the first work for it: a session that only reads a tree in
//! which a pause would change nothing, or that writes less than half a memtable, has none.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, Weak};
use std::thread::JoinHandle;

use crate::error::{Error, Result};
use crate::options::Access;

use super::shared::{Shared, lock};

#[derive(Debug, Default)]
pub(crate) struct Threads {
    /// What they work on; they keep it alive, and it must not keep itself alive.
    shared: Weak<Shared>,
    handles: Vec<JoinHandle<()>>,
    flushers: usize,
    compactors: usize,
    /// The store is closing: none is started any more.
    is_over: bool,
}

impl Threads {
    pub(crate) fn of(shared: &Weak<Shared>) -> Threads {
        Threads {
            shared: Weak::clone(shared),
            ..Threads::default()
        }
    }

    fn start(&mut self, name: String, run: fn(&Shared)) -> Result<()> {
        let Some(shared) = self.shared.upgrade().filter(|_| !self.is_over) else {
            return Err(Error::Closed);
        };
        let path = shared.storage.path_of("");
        let handle = std::thread::Builder::new()
            .name(name)
            .spawn(move || run(&shared))
            .map_err(|error| Error::io(path, error))?;
        self.handles.push(handle);
        Ok(())
    }

    /// None is started from now on; those that run are the caller's to join.
    pub(crate) fn end(&mut self) -> Vec<JoinHandle<()>> {
        self.is_over = true;
        std::mem::take(&mut self.handles)
    }
}

impl Shared {
    /// Before a memtable is sealed: somebody must flush it.
    pub(crate) fn start_flusher(&self) -> Result<()> {
        let mut threads = lock(&self.threads);
        if threads.flushers == 0 {
            threads.start("criba-flush".to_owned(), Shared::run_flushes)?;
            threads.flushers = 1;
        }
        Ok(())
    }

    /// A panic in the background is a bug, but nobody may wait for ever because of one: what the
    /// work has done is unknown, so writes are refused from then on, and whoever waits learns why.
    /// No lock may be held that [`Shared::poison`] takes.
    pub(crate) fn or_poison<T>(&self, what: &str, work: impl FnOnce() -> Result<T>) -> Result<T> {
        catch_unwind(AssertUnwindSafe(work)).unwrap_or_else(|panic| {
            let said = panic
                .downcast_ref::<&str>()
                .copied()
                .or_else(|| panic.downcast_ref::<String>().map(String::as_str))
                .unwrap_or("without a message");
            let what = format!("the background {what} panicked: {said}");
            Err(self.poison(Error::Bug { what }))
        })
    }

    pub(crate) fn has_compactors(&self) -> bool {
        lock(&self.threads).compactors == self.options.compaction_threads
    }

    /// There may be something to compact.
    pub(crate) fn start_compactors(&self) -> Result<()> {
        if self.options.access == Access::ReadOnly {
            return Ok(());
        }
        let mut threads = lock(&self.threads);
        while threads.compactors < self.options.compaction_threads {
            let name = format!("criba-compact-{}", threads.compactors);
            threads.start(name, Shared::run_compactions)?;
            threads.compactors += 1;
        }
        Ok(())
    }

    /// How many background threads were started.
    #[cfg(test)]
    pub(super) fn threads_started(&self) -> usize {
        let threads = lock(&self.threads);
        threads.flushers + threads.compactors
    }
}

/// The shared state, which knows itself so that it can start threads on itself.
pub(crate) fn with_threads(mut shared: Shared) -> Arc<Shared> {
    Arc::new_cyclic(|itself| {
        shared.threads = Threads::of(itself).into();
        shared
    })
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use crate::storage::Memory;
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
        assert_eq!(db.shared().threads_started(), 0);
        db.flush().unwrap();
        assert_eq!(db.shared().threads_started(), 1, "one run is in shape");
        db.close().unwrap();

        let db = open(Compaction::Manual);
        for n in 0..20 {
            db.put("k", format!("{n}")).unwrap();
            db.flush().unwrap();
        }
        assert_eq!(db.shared().threads_started(), 1, "nobody asked");
        db.compact_all().unwrap().wait().unwrap();
        assert_eq!(db.shared().threads_started(), 3);
        for n in 0..20 {
            db.put("k", format!("{n}")).unwrap();
            db.flush().unwrap();
        }
        db.close().unwrap();

        let db = open(Compaction::Background);
        assert_eq!(db.shared().threads_started(), 2, "too many runs");
        db.close().unwrap();
    }
}
