//! Options of a store, chosen one by one and checked at `open`.

use std::path::PathBuf;
use std::sync::Arc;

use crate::error::Result;
use crate::options::{
    Access, Compaction, Create, Durability, FilterResidency, Options, Recovery, Strategy,
};
use crate::storage::{Disk, Io, Storage};
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
/// The options of files hold for files that are written from now on; a store can be opened with
/// other options at any time.
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

    /// How the tree is kept in shape. Default [`Strategy::Leveled`].
    pub fn strategy(mut self, strategy: Strategy) -> Builder {
        self.options.tree.strategy = strategy;
        self
    }

    /// How many times larger a level is than the one above it, or how many runs a level has when
    /// it is tiered: 2 to 100. Default 10.
    pub fn level_ratio(mut self, ratio: u32) -> Builder {
        self.options.tree.ratio = ratio;
        self
    }

    /// Flushed runs that are merged down together when levels are leveled: 1 to 1000. Default 4.
    /// Where there is a second level, they wait for more, up to twice as many, while they are less
    /// than what of level 1 would have to be written anew with them.
    pub fn level0_runs(mut self, runs: u32) -> Builder {
        self.options.tree.level0_runs = runs;
        self
    }

    /// Least size of a level below the flushed runs before there is another below it, in bytes,
    /// from 64 KiB. Default 256 MiB; best is about twice [`Builder::memtable_bytes`] times
    /// [`Builder::level0_runs`]. A larger one means less rewriting, a smaller one less space for
    /// what was overwritten: levels above the last hold up to this each, or the part of the last
    /// that [`Builder::level_ratio`] says, whichever is more.
    pub fn level_base_bytes(mut self, bytes: u64) -> Builder {
        self.options.tree.base_bytes = bytes;
        self
    }

    /// Whether compactions run by themselves. Default [`Compaction::Background`].
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
    pub fn merge_when_idle(mut self, merges: bool) -> Builder {
        self.options.tree.merge_when_idle = merges;
        self
    }

    /// Threads that compact, 1 to 16. Default 2, so that a merge into a deep level does not hold up
    /// what is flushed meanwhile. Each merges segments of its own; those that have nothing else to
    /// do take a part, by key range, of a large merge of another.
    pub fn compaction_threads(mut self, threads: usize) -> Builder {
        self.options.compaction_threads = threads;
        self
    }

    /// Bytes that each compaction, all its parts together, writes in a second at most, from 64 KiB.
    /// Default no limit.
    pub fn compaction_rate(mut self, bytes_per_s: u64) -> Builder {
        self.options.compaction_rate = Some(bytes_per_s);
        self
    }

    /// Where filters are while the store is open. Default pinned in memory.
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
    pub fn memtable_bytes(mut self, bytes: u64) -> Builder {
        self.options.memtable_bytes = bytes;
        self
    }

    /// Sealed memtables that may wait for their flush, 1 to 64, before writers are stopped.
    /// Default 3. Memory for writes is at most this number and one, times
    /// [`Builder::memtable_bytes`], and the batches under way.
    pub fn sealed_memtables_max(mut self, count: usize) -> Builder {
        self.options.sealed_memtables_max = count;
        self
    }

    /// What survives a write that has returned, where a write does not say otherwise. Default
    /// [`Durability::Process`].
    pub fn durability(mut self, durability: Durability) -> Builder {
        self.options.durability = durability;
        self
    }

    /// How files are read. Default [`Io::Pread`].
    pub fn io(mut self, io: Io) -> Builder {
        self.options.io = io;
        self
    }

    /// Whether the journal may be written through a memory map of room that is reserved ahead.
    /// Default `true`: a write then survives a kill of the process without a system call. Both
    /// ways keep the same promises.
    ///
    /// The map is used on Linux, on ext4 and tmpfs. Other file systems may need new room for a page
    /// that is written again, and a full disk would end the process. There the journal is written
    /// by calls, whatever is set here.
    ///
    /// When the device fails while a page of the map is written to, the system may end the process
    /// with SIGBUS where a call would have returned an error.
    pub fn map_journal(mut self, map: bool) -> Builder {
        self.options.map_journal = map;
        self
    }

    /// Whether a new store may be made. Default [`Create::IfMissing`].
    pub fn create(mut self, create: Create) -> Builder {
        self.options.create = create;
        self
    }

    /// Whether the store will be written. Default [`Access::ReadWrite`].
    pub fn access(mut self, access: Access) -> Builder {
        self.options.access = access;
        self
    }

    /// What to do when a journal is damaged in a way that no crash explains. Default
    /// [`Recovery::Strict`]: refuse.
    pub fn recovery(mut self, recovery: Recovery) -> Builder {
        self.options.recovery = recovery;
        self
    }

    /// Keeps the store in this storage instead of the directory: memory for tests, or one's own.
    pub fn storage(mut self, storage: Arc<dyn Storage>) -> Builder {
        self.storage = Some(storage);
        self
    }

    /// Opens the store, recovering what an earlier process wrote.
    ///
    /// Reads manifest and journals whole, and of each segment footer, properties, index and
    /// filter header (the filter too, if it is pinned): 4 reads a segment, and one for each 4 KiB
    /// of a pinned filter.
    ///
    /// # Errors
    ///
    /// [`Invalid`](crate::Error::Invalid) names an option outside its bounds;
    /// [`NotAStore`](crate::Error::NotAStore), [`Locked`](crate::Error::Locked),
    /// [`Missing`](crate::Error::Missing) and [`Corrupt`](crate::Error::Corrupt) say what is in
    /// the way. Nothing has been changed then, except that the directory and its `LOCK` may
    /// have been made.
    pub fn open(self) -> Result<Db> {
        let storage = match self.storage {
            Some(storage) => storage,
            None => Arc::new(Disk::new(&self.path, self.options.io)),
        };
        Session::open(self.path, self.options, storage).map(Db::new)
    }
}
