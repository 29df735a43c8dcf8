//! Options of a store, chosen one by one and checked at `open`.

use std::path::PathBuf;
use std::sync::Arc;

use crate::error::Result;
use crate::operator::{MergeOperator, Operator};
use crate::options::{Compaction, FilterResidency, Options, Strategy};
use crate::storage::{Disk, Storage};
use crate::store::Session;

use super::handle::Db;

impl Db {
    /// Opens the store in this directory, or makes one, with default options.
    ///
    /// ```
    /// use criba::{Db, Error};
    ///
    /// # fn main() -> criba::Result<()> {
    /// # let dir = tempfile::tempdir().unwrap();
    /// # let path = dir.path().join("data");
    /// let db = Db::open(&path)?;
    /// db.put("apple", "red")?;
    /// // One process or handle at a time has a store open.
    /// assert!(matches!(Db::open(&path), Err(Error::Locked { .. })));
    /// db.close()?;
    /// let db = Db::open(&path)?;
    /// assert_eq!(db.get("apple")?.unwrap(), "red");
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    ///
    /// As for [`Builder::open`].
    pub fn open(path: impl Into<PathBuf>) -> Result<Db> {
        Db::builder(path).open()
    }

    /// Chooses options for the store in this directory.
    ///
    /// ```
    /// use criba::{Db, Durability};
    ///
    /// # fn main() -> criba::Result<()> {
    /// # let dir = tempfile::tempdir().unwrap();
    /// # let path = dir.path().join("data");
    /// let db = Db::builder(&path)
    ///     .durability(Durability::Sync)
    ///     .memtable_bytes(8 << 20)
    ///     .open()?;
    /// assert!(db.is_empty()?);
    /// # Ok(())
    /// # }
    /// ```
    pub fn builder(path: impl Into<PathBuf>) -> Builder {
        Builder::new(path.into())
    }
}

/// Chooses the options of a store: made by [`Db::builder`], ended by [`Builder::open`].
///
/// A store can be opened with other options at any time. The options of files hold for files that
/// are written from then on.
///
/// ```
/// use criba::{Compression, Db, Durability};
///
/// # fn main() -> criba::Result<()> {
/// # let dir = tempfile::tempdir().unwrap();
/// # let path = dir.path().join("data");
/// let options = Db::builder(&path)
///     .compression(Compression::Lz4)
///     .durability(Durability::Sync)
///     .cache_bytes(256 << 20);
/// let db = options.clone().open()?;
/// db.put("apple", "red")?;
/// db.close()?;
/// // Later sessions can choose other options.
/// let db = options.compression(Compression::None).open()?;
/// assert_eq!(db.get("apple")?.unwrap(), "red");
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Debug)]
#[must_use = "nothing is opened before `open`"]
pub struct Builder {
    pub(super) path: PathBuf,
    pub(super) options: Options,
    pub(super) storage: Option<Arc<dyn Storage>>,
}

impl Builder {
    pub(crate) fn new(path: PathBuf) -> Builder {
        Builder {
            path,
            options: Options::default(),
            storage: None,
        }
    }

    /// How operands become values: see [`Keyspace::merge`](crate::Keyspace::merge). Default
    /// none, and merges are refused.
    ///
    /// A store with operands can be opened without their operator. Lookups of keys that have
    /// operands return [`Error::NoOperator`](crate::Error::NoOperator) then; everything else works.
    ///
    /// ```
    /// use criba::{Db, Error, Strategy, operator::{Add, Max}};
    ///
    /// # fn main() -> criba::Result<()> {
    /// # let dir = tempfile::tempdir().unwrap();
    /// # let path = dir.path().join("data");
    /// let db = Db::builder(&path).operator(Max).open()?;
    /// db.merge("best", "0712")?;
    /// db.merge("best", "0650")?;
    /// assert_eq!(db.get("best")?.unwrap(), "0712");
    /// # db.close()?;
    /// // FIFO throws away the older entries that an operator needs.
    /// let fifo = Strategy::Fifo { bytes: 1 << 30, age: None };
    /// let refused = Db::builder(&path).operator(Add::i64()).strategy(fifo).open();
    /// assert!(matches!(refused, Err(Error::Invalid(_))));
    /// # Ok(())
    /// # }
    /// ```
    pub fn operator(mut self, operator: impl MergeOperator + 'static) -> Builder {
        self.options.tree.operator = Operator::new(operator);
        self
    }

    /// How the tree is kept in shape. Default [`Strategy::Leveled`].
    ///
    /// ```
    /// use criba::{Db, Strategy};
    ///
    /// # fn main() -> criba::Result<()> {
    /// # let dir = tempfile::tempdir().unwrap();
    /// # let path = dir.path().join("data");
    /// let strategy = Strategy::Fifo { bytes: 1 << 30, age: None };
    /// let db = Db::builder(&path).strategy(strategy).open()?;
    /// for day in ["monday", "tuesday", "wednesday"] {
    ///     db.put(day, "")?;
    ///     db.flush()?;
    /// }
    /// // Nothing is merged, and less than a GiB is there: no run goes.
    /// db.compact_all()?.wait()?;
    /// assert_eq!(db.stats().runs.len(), 3);
    /// # Ok(())
    /// # }
    /// ```
    pub fn strategy(mut self, strategy: Strategy) -> Builder {
        self.options.tree.shape.strategy = strategy;
        self
    }

    /// How many times larger a level is than the one above it, or how many runs a level has when
    /// it is tiered: 2 to 100. Default 10.
    ///
    /// ```
    /// use criba::{Db, Strategy};
    ///
    /// # fn main() -> criba::Result<()> {
    /// # let dir = tempfile::tempdir().unwrap();
    /// # let path = dir.path().join("data");
    /// let db = Db::builder(&path)
    ///     .strategy(Strategy::Tiered)
    ///     .level_ratio(3)
    ///     .open()?;
    /// for day in ["monday", "tuesday", "wednesday"] {
    ///     db.put(day, "")?;
    ///     db.flush()?;
    /// }
    /// # while !db.stats().compactions.is_settled {
    /// #     std::thread::sleep(std::time::Duration::from_millis(1));
    /// # }
    /// // The third run made a level full: soon they are one run of the next.
    /// assert_eq!(db.stats().runs.len(), 1);
    /// assert_eq!(db.stats().runs[0].level, 1);
    /// # Ok(())
    /// # }
    /// ```
    pub fn level_ratio(mut self, ratio: u32) -> Builder {
        self.options.tree.shape.ratio = ratio;
        self
    }

    /// Flushed runs that are merged down together when levels are leveled: 1 to 1000. Default 4.
    /// Where there is a second level, they wait for more, up to twice as many. They wait while they
    /// are smaller than the part of level 1 that would have to be written anew with them.
    ///
    /// ```
    /// use criba::Db;
    ///
    /// # fn main() -> criba::Result<()> {
    /// # let dir = tempfile::tempdir().unwrap();
    /// # let path = dir.path().join("data");
    /// let db = Db::builder(&path).level0_runs(2).open()?;
    /// for key in ["apple", "banana"] {
    ///     db.put(key, "")?;
    ///     db.flush()?;
    /// }
    /// # while !db.stats().compactions.is_settled {
    /// #     std::thread::sleep(std::time::Duration::from_millis(1));
    /// # }
    /// // The background merges both runs soon.
    /// assert_eq!(db.stats().runs.len(), 1);
    /// # Ok(())
    /// # }
    /// ```
    pub fn level0_runs(mut self, runs: u32) -> Builder {
        self.options.tree.shape.level0_runs = runs;
        self
    }

    /// Least size of a level below the flushed runs before there is another below it, in bytes,
    /// from 64 KiB to 1 PiB. Default 256 MiB; best is about twice [`Builder::memtable_bytes`] times
    /// [`Builder::level0_runs`].
    ///
    /// A larger one means less rewriting, a smaller one less space for overwritten entries. Each
    /// level above the last holds up to this, or the part of the last that
    /// [`Builder::level_ratio`] says, whichever is more.
    ///
    /// ```
    /// use criba::{Db, Error};
    ///
    /// # fn main() -> criba::Result<()> {
    /// # let dir = tempfile::tempdir().unwrap();
    /// # let path = dir.path().join("data");
    /// let base = |bytes| Db::builder(&path).level_base_bytes(bytes);
    /// assert!(matches!(base(1000).open(), Err(Error::Invalid(_))));
    /// // Twice the size of four memtables.
    /// let db = base(64 << 20).memtable_bytes(8 << 20).level0_runs(4).open()?;
    /// # db.close()
    /// # }
    /// ```
    pub fn level_base_bytes(mut self, bytes: u64) -> Builder {
        self.options.tree.shape.base_bytes = bytes;
        self
    }

    /// Whether compactions run by themselves. Default [`Compaction::Background`].
    ///
    /// ```
    /// use criba::{Compaction, Db};
    ///
    /// # fn main() -> criba::Result<()> {
    /// # let dir = tempfile::tempdir().unwrap();
    /// # let path = dir.path().join("data");
    /// let db = Db::builder(&path).compaction(Compaction::Manual).open()?;
    /// for number in 0..20_u8 {
    ///     db.put([number], "")?;
    ///     db.flush()?;
    /// }
    /// assert_eq!(db.stats().runs.len(), 20);
    /// db.compact_all()?.wait()?;
    /// assert_eq!(db.stats().runs.len(), 1);
    /// # Ok(())
    /// # }
    /// ```
    pub fn compaction(mut self, compaction: Compaction) -> Builder {
        self.options.compaction = compaction;
        self
    }

    /// Whether a leveled tree merges runs of similar size when it is idle, so that lookups and scans
    /// ask fewer runs. Default yes.
    ///
    /// The tree is idle when nothing was written for half a second, or when no flush came for five
    /// seconds and for four times the usual interval. A merge begins when the tree has been idle for
    /// as long as the merge is expected to take, by the pace of the last merge or flush; in a session
    /// that has done neither, after ten seconds. It writes at most nine bytes for each byte of the
    /// newer runs, and no store of more than about eight times [`Builder::level_base_bytes`] is ever
    /// merged whole. Writers who come back do not wait for it: it is given up when they need the
    /// threads.
    ///
    /// ```
    /// use criba::Db;
    ///
    /// # fn main() -> criba::Result<()> {
    /// # let dir = tempfile::tempdir().unwrap();
    /// # let path = dir.path().join("data");
    /// let db = Db::builder(&path).merge_when_idle(false).open()?;
    /// for key in ["one", "two"] {
    ///     db.put(key, "")?;
    ///     db.flush()?;
    /// }
    /// // Each flush has left a run, and they stay two.
    /// assert_eq!(db.stats().runs.len(), 2);
    /// # db.close()
    /// # }
    /// ```
    pub fn merge_when_idle(mut self, merges: bool) -> Builder {
        self.options.tree.shape.merge_when_idle = merges;
        self
    }

    /// Threads that compact, 1 to 16. Default 2, so that a merge into a deep level does not hold up
    /// runs that are flushed meanwhile. Each merges segments of its own. A thread that has nothing
    /// else to do takes a part, by key range, of a large merge of another.
    ///
    /// ```
    /// use criba::Db;
    ///
    /// # fn main() -> criba::Result<()> {
    /// # let dir = tempfile::tempdir().unwrap();
    /// # let path = dir.path().join("data");
    /// let error = Db::builder(&path).compaction_threads(0).open().unwrap_err();
    /// assert_eq!(error.to_string(), "compaction_threads is 0; choose 1 to 16");
    /// let db = Db::builder(&path).compaction_threads(4).open()?;
    /// # db.close()
    /// # }
    /// ```
    pub fn compaction_threads(mut self, threads: usize) -> Builder {
        self.options.compaction_threads = threads;
        self
    }

    /// By how many steps the priority of threads that compact is lower than that of the thread that
    /// starts them, 0 to 19. Default 10: where readers, writers and merges want one processor, a merge
    /// gets a ninth of what each of the others gets. A processor that nobody else wants it has whole.
    /// Right after a fill, while merges run, lookups on two processors are 1.5 to 2 times as quick with
    /// it. Only on Linux, where threads have priorities of their own.
    ///
    /// ```
    /// use criba::Db;
    ///
    /// # fn main() -> criba::Result<()> {
    /// # let dir = tempfile::tempdir().unwrap();
    /// # let path = dir.path().join("data");
    /// let error = Db::builder(&path).compaction_niceness(20).open().unwrap_err();
    /// assert_eq!(error.to_string(), "compaction_niceness is 20; choose 0 to 19");
    /// let db = Db::builder(&path).compaction_niceness(0).open()?;
    /// # db.close()
    /// # }
    /// ```
    pub fn compaction_niceness(mut self, steps: u8) -> Builder {
        self.options.compaction_niceness = steps;
        self
    }

    /// The most bytes that a compaction, all its parts together, writes in a second, from 64 KiB.
    /// Default no limit.
    ///
    /// ```
    /// use criba::{Db, Error};
    ///
    /// # fn main() -> criba::Result<()> {
    /// # let dir = tempfile::tempdir().unwrap();
    /// # let path = dir.path().join("data");
    /// let refused = Db::builder(&path).compaction_rate(1000).open();
    /// assert!(matches!(refused, Err(Error::Invalid(_))));
    /// // 20 MB a second for each merge leave the disk to readers.
    /// let db = Db::builder(&path).compaction_rate(20_000_000).open()?;
    /// # db.close()
    /// # }
    /// ```
    pub fn compaction_rate(mut self, bytes_per_s: u64) -> Builder {
        self.options.compaction_rate = Some(bytes_per_s);
        self
    }

    /// Where filters are while the store is open. Default pinned in memory.
    ///
    /// ```
    /// use criba::storage::ReadCause;
    /// use criba::{Db, FilterResidency};
    ///
    /// # fn main() -> criba::Result<()> {
    /// # let dir = tempfile::tempdir().unwrap();
    /// # let path = dir.path().join("data");
    /// # let db = Db::open(&path)?;
    /// # for number in 0..1000 {
    /// #     db.put(format!("{number:03}"), [b'x'; 100])?;
    /// # }
    /// # db.flush()?;
    /// # db.close()?;
    /// let residency = FilterResidency::Cached { bytes: 1 << 20 };
    /// let db = Db::builder(&path).filter_residency(residency).open()?;
    /// let before = db.stats().reads;
    /// db.get("500")?;
    /// db.get("500")?;
    /// // The first lookup reads a page of the filter, the second one finds it in the cache.
    /// let reads = db.stats().reads.since(&before);
    /// assert_eq!(reads.get(ReadCause::Filter).calls, 1);
    /// # Ok(())
    /// # }
    /// ```
    pub fn filter_residency(mut self, residency: FilterResidency) -> Builder {
        self.options.residency = residency;
        self
    }

    /// Budget of the cache of data, in bytes; 0 for none. Default 64 MiB.
    ///
    /// Data blocks have all of it until it is used up; from then on entries that are looked up
    /// again and again stay without their blocks, in up to three quarters of it, and with
    /// [`FilterResidency::Shared`] pages of filters in up to thirteen sixteenths. Beside it, up to
    /// a quarter as much is for where groups of blocks lie and for their checksums, so that a
    /// lookup that the filter leads to a group reads some hundred bytes in place of a block: eight
    /// bytes for each group of blocks that lookups read.
    pub fn cache_bytes(mut self, bytes: u64) -> Builder {
        self.options.cache_bytes = bytes;
        self
    }

    /// Size at which a memtable is sealed and flushed, in bytes, 64 KiB to 4 GiB. Default
    /// 32 MiB.
    ///
    /// ```
    /// use criba::Db;
    ///
    /// # fn main() -> criba::Result<()> {
    /// # let dir = tempfile::tempdir().unwrap();
    /// # let path = dir.path().join("data");
    /// let db = Db::builder(&path).memtable_bytes(64 << 10).open()?;
    /// for number in 0..100 {
    ///     db.put(format!("{number:03}"), [b'x'; 1000])?;
    /// }
    /// // 100 kB were written: the first memtable was sealed at 64 KiB.
    /// let memtable = db.stats().memtable;
    /// assert!(memtable.active_entries < 100);
    /// # Ok(())
    /// # }
    /// ```
    pub fn memtable_bytes(mut self, bytes: u64) -> Builder {
        self.options.memtable_bytes = bytes;
        self
    }

    /// Sealed memtables that may wait for their flush, 1 to 64, before writers are stopped.
    /// Default 3. Memory for writes is at most this number and one, times
    /// [`Builder::memtable_bytes`], and the batches under way.
    ///
    /// ```
    /// use criba::Db;
    ///
    /// # fn main() -> criba::Result<()> {
    /// # let dir = tempfile::tempdir().unwrap();
    /// # let path = dir.path().join("data");
    /// let refused = Db::builder(&path).sealed_memtables_max(0).open();
    /// assert_eq!(
    ///     refused.unwrap_err().to_string(),
    ///     "sealed_memtables_max is 0; choose 1 to 64"
    /// );
    /// // Memory for writes is 32 MiB at most: a memtable that fills and one that waits.
    /// let db = Db::builder(&path)
    ///     .memtable_bytes(16 << 20)
    ///     .sealed_memtables_max(1)
    ///     .open()?;
    /// # db.close()
    /// # }
    /// ```
    pub fn sealed_memtables_max(mut self, count: usize) -> Builder {
        self.options.sealed_memtables_max = count;
        self
    }

    /// Keeps the store in this storage instead of the directory: memory for tests, or one's own.
    ///
    /// ```
    /// use std::sync::Arc;
    /// use criba::storage::{Counting, Disk, Io};
    /// use criba::Db;
    ///
    /// # fn main() -> criba::Result<()> {
    /// # let dir = tempfile::tempdir().unwrap();
    /// # let path = dir.path().join("data");
    /// let counting = Counting::new(Arc::new(Disk::new(&path, Io::Pread)));
    /// let db = Db::builder(&path)
    ///     .storage(Arc::new(counting.clone()))
    ///     .open()?;
    /// db.put("apple", "red")?;
    /// db.close()?;
    /// assert!(counting.written_bytes() > 0);
    /// # Ok(())
    /// # }
    /// ```
    pub fn storage(mut self, storage: Arc<dyn Storage>) -> Builder {
        self.storage = Some(storage);
        self
    }

    /// Opens the store, recovering what an earlier process wrote.
    ///
    /// Reads manifest and journals whole. Of each segment it reads footer, properties, index and
    /// filter header, and the filter too, if it is pinned. That is 4 reads a segment, and one for
    /// each 4 KiB of a pinned filter.
    ///
    /// ```
    /// use criba::{Db, Error};
    ///
    /// # fn main() -> criba::Result<()> {
    /// # let dir = tempfile::tempdir().unwrap();
    /// # let path = dir.path().join("data");
    /// // Every option is checked before anything is made.
    /// let nonsense = Db::builder(&path).level_ratio(1).open();
    /// assert!(matches!(nonsense, Err(Error::Invalid(_))));
    /// assert!(!path.exists());
    /// let db = Db::builder(&path).level_ratio(8).open()?;
    /// assert!(path.exists());
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    ///
    /// [`Invalid`](crate::Error::Invalid) names an option outside its bounds;
    /// [`NotAStore`](crate::Error::NotAStore), [`Locked`](crate::Error::Locked),
    /// [`Missing`](crate::Error::Missing) and [`Corrupt`](crate::Error::Corrupt) say what is in
    /// the way. Nothing has been changed then, except that `open` may have made the directory and
    /// its `LOCK`.
    pub fn open(self) -> Result<Db> {
        let storage = match self.storage {
            Some(storage) => storage,
            None => Arc::new(Disk::new(&self.path, self.options.io)),
        };
        Session::open(self.path, self.options, storage).map(Db::new)
    }
}
