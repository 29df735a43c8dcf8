//! A compaction that a user has requested: how one waits for it or cancels it.

use std::sync::Arc;

use crate::bounds::Bounds;
use crate::error::Result;
use crate::origin::Origin;
use crate::store::{Request, Store};
use crate::tree::Tree;

/// A compaction under way: see [`Keyspace::compact`](crate::Keyspace::compact).
///
/// Dropped, the compaction goes on.
///
/// ```
/// # fn main() -> criba::Result<()> {
/// # let dir = tempfile::tempdir().unwrap();
/// # let db = criba::Db::open(dir.path().join("data"))?;
/// for value in ["1", "2", "3"] {
///     db.put("apple", value)?;
///     db.flush()?;
/// }
/// let job = db.compact_all()?;
/// // The store can be read and written meanwhile.
/// db.put("banana", "yellow")?;
/// job.wait()?;
/// assert!(job.is_done());
/// assert_eq!(db.stats().segments().map(|one| one.entries).sum::<u64>(), 1);
/// # Ok(())
/// # }
/// ```
#[derive(Debug, Clone)]
pub struct CompactionJob {
    request: Arc<Request>,
    origin: Origin,
}

impl CompactionJob {
    pub(super) fn new(store: &Store, tree: &Arc<Tree>, bounds: Bounds) -> CompactionJob {
        CompactionJob {
            request: store.request_compaction(tree, bounds),
            origin: store.monitor().origin().clone(),
        }
    }

    /// Waits until it has ended.
    ///
    /// ```
    /// # fn main() -> criba::Result<()> {
    /// # let dir = tempfile::tempdir().unwrap();
    /// # let db = criba::Db::open(dir.path().join("data"))?;
    /// db.put("apple", "red")?;
    /// db.delete("apple")?;
    /// db.compact("a".."b")?.wait()?;
    /// // Not even the tombstone is left.
    /// assert_eq!(db.stats().segments().count(), 0);
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    ///
    /// The failure of the compaction; [`Error::Cancelled`](crate::Error::Cancelled) after
    /// [`CompactionJob::cancel`] or a close; [`Error::Forked`](crate::Error::Forked) in a forked
    /// child, where nothing is compacted.
    pub fn wait(&self) -> Result<()> {
        self.origin.check()?;
        self.request.wait()
    }

    /// Cancels the compaction: nothing is changed, unless it has ended already. In a forked child
    /// this does nothing.
    ///
    /// ```
    /// use criba::Error;
    ///
    /// # fn main() -> criba::Result<()> {
    /// # let dir = tempfile::tempdir().unwrap();
    /// # let db = criba::Db::open(dir.path().join("data"))?;
    /// db.put("apple", "red")?;
    /// let job = db.compact_all()?;
    /// job.cancel();
    /// match job.wait() {
    ///     Err(Error::Cancelled) => println!("nothing has changed"),
    ///     done => done?, // it had ended before
    /// }
    /// assert!(job.is_done());
    /// # Ok(())
    /// # }
    /// ```
    pub fn cancel(&self) {
        if !self.origin.is_elsewhere() {
            self.request.cancel();
        }
    }

    /// Bytes of keys and values merged so far, and bytes of the input files; both 0 while it
    /// waits for its turn.
    ///
    /// ```
    /// # fn main() -> criba::Result<()> {
    /// # let dir = tempfile::tempdir().unwrap();
    /// # let db = criba::Db::open(dir.path().join("data"))?;
    /// # for number in 0..1000 {
    /// #     db.put(format!("{number:04}"), "value")?;
    /// # }
    /// # db.flush()?;
    /// # db.put("0000", "again")?;
    /// let job = db.compact_all()?;
    /// while !job.is_done() {
    ///     let (merged, all) = job.progress();
    ///     println!("{merged} of {all} bytes");
    ///     std::thread::sleep(std::time::Duration::from_millis(10));
    /// }
    /// job.wait()?;
    /// # Ok(())
    /// # }
    /// ```
    pub fn progress(&self) -> (u64, u64) {
        self.request.progress()
    }

    /// Whether it has ended, well or not. In a forked child it has.
    ///
    /// ```
    /// # fn main() -> criba::Result<()> {
    /// # let dir = tempfile::tempdir().unwrap();
    /// # let db = criba::Db::open(dir.path().join("data"))?;
    /// db.put("apple", "red")?;
    /// let job = db.compact_all()?;
    /// job.wait()?;
    /// assert!(job.is_done());
    /// # Ok(())
    /// # }
    /// ```
    pub fn is_done(&self) -> bool {
        self.origin.is_elsewhere() || self.request.is_done()
    }
}
