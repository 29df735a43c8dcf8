//! Many reads of files at once, by a ring of the kernel or by threads.
//!
//! A device takes many requests at a time: the disk that this was measured on makes four to five
//! times as many reads of 4 KiB a second with 16 or more under way as with one. Which way is taken
//! shows at the first reads that come together. Before that there is no ring, and there are never
//! threads except while such reads are made.

use std::io;
use std::sync::atomic::{AtomicU8, Ordering};
use std::sync::{Mutex, PoisonError};
use std::thread;

use super::task::Task;
use super::uring::Ring;

/// How reads that come together are made.
///
/// ```
/// use std::sync::Arc;
/// use criba::{Db, Io};
/// use criba::storage::{Disk, ReadManyBy};
///
/// # fn main() -> criba::Result<()> {
/// # let dir = tempfile::tempdir().unwrap();
/// # let path = dir.path().join("data");
/// // A program that wants no rings of the kernel.
/// let disk = Disk::new(&path, Io::Pread).read_many_by(ReadManyBy::Threads);
/// let db = Db::builder(&path).storage(Arc::new(disk)).open()?;
/// for n in 0..200 {
///     db.put(format!("{n:03}"), [n; 100])?;
/// }
/// db.flush()?;
/// assert_eq!(db.get_many(["001", "100"])?.iter().flatten().count(), 2);
/// assert_eq!(db.stats().read_many_by, Some(ReadManyBy::Threads));
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
#[non_exhaustive]
pub enum ReadManyBy {
    /// Each by itself, one after the other.
    OneByOne,
    /// By threads that live while the reads are made.
    Threads,
    /// By io_uring. Where the kernel lets the process have no ring, by threads.
    Uring,
}

/// Threads that read at once, at most, the caller among them.
const THREADS_MAX: usize = 16;

/// Reads for each thread, at least: on a busy machine it takes as long as some reads until a new thread
/// runs, and the caller waits for each that it has started.
const READS_PER_THREAD: usize = 8;

const ONE_BY_ONE: u8 = 1;
const THREADS: u8 = 2;
const URING: u8 = 3;

/// Makes reads that come together.
#[derive(Debug, Default)]
pub(super) struct Engine {
    wanted: Option<ReadManyBy>,
    /// How the last reads were made.
    used: AtomicU8,
    /// Rings that nobody uses at the moment: as many as there were callers at once.
    rings: Mutex<Vec<Ring>>,
}

impl Engine {
    pub(super) fn by(wanted: ReadManyBy) -> Engine {
        Engine {
            wanted: Some(wanted),
            ..Engine::default()
        }
    }

    /// How reads were made that came together; `None` before there were any.
    pub(super) fn used(&self) -> Option<ReadManyBy> {
        match self.used.load(Ordering::Relaxed) {
            ONE_BY_ONE => Some(ReadManyBy::OneByOne),
            THREADS => Some(ReadManyBy::Threads),
            URING => Some(ReadManyBy::Uring),
            _ => None,
        }
    }

    /// Makes these reads and returns when all are finished.
    pub(super) fn read(&self, tasks: &mut [Task<'_>]) {
        if tasks.len() > 1 {
            self.read_together(tasks);
        }
        tasks.iter_mut().for_each(Task::finish);
    }

    fn read_together(&self, tasks: &mut [Task<'_>]) {
        let wanted = self.wanted.unwrap_or(ReadManyBy::Uring);
        let is_refused = self.used.load(Ordering::Relaxed) == THREADS;
        let used = match wanted {
            ReadManyBy::OneByOne => ONE_BY_ONE,
            ReadManyBy::Uring if !is_refused && self.read_by_ring(tasks).is_ok() => URING,
            ReadManyBy::Uring | ReadManyBy::Threads => {
                read_by_threads(tasks);
                THREADS
            }
        };
        self.used.store(used, Ordering::Relaxed);
    }

    fn read_by_ring(&self, tasks: &mut [Task<'_>]) -> io::Result<()> {
        let idle = self
            .rings
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .pop();
        let mut ring = match idle.filter(Ring::is_ours) {
            Some(ring) => ring,
            None => Ring::open()?,
        };
        ring.read(tasks)?;
        self.rings
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .push(ring);
        Ok(())
    }
}

/// Each thread takes the next read that is left. Where there is no room for a thread, there are fewer.
fn read_by_threads(tasks: &mut [Task<'_>]) {
    let count = (tasks.len() / READS_PER_THREAD).min(THREADS_MAX);
    let left = Mutex::new(tasks.iter_mut());
    let next = || left.lock().unwrap_or_else(PoisonError::into_inner).next();
    let read = || {
        while let Some(task) = next() {
            task.finish();
        }
    };
    thread::scope(|scope| {
        for _ in 1..count {
            let name = "criba-read".to_owned();
            if thread::Builder::new()
                .name(name)
                .spawn_scoped(scope, read)
                .is_err()
            {
                break;
            }
        }
        read();
    });
}

#[cfg(test)]
mod tests;
