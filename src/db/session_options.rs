//! Options of a session: what survives a write, how files are read and written, and what `open` may
//! do.

use crate::options::{Access, Create, Durability, Recovery};
use crate::storage::Io;

use super::builder::Builder;

impl Builder {
    /// How much a write survives once it has returned, unless the write itself says otherwise.
    /// Default [`Durability::Process`].
    ///
    /// ```
    /// use criba::{Db, Durability};
    ///
    /// # fn main() -> criba::Result<()> {
    /// # let dir = tempfile::tempdir().unwrap();
    /// # let path = dir.path().join("data");
    /// let db = Db::builder(&path).durability(Durability::Sync).open()?;
    /// let before = db.stats().syncs;
    /// db.put("apple", "red")?;
    /// assert!(db.stats().syncs > before);
    /// // Where the store would sync, a write may do without.
    /// let before = db.stats().syncs;
    /// db.put_with("banana", "yellow", Durability::Process)?;
    /// assert_eq!(db.stats().syncs, before);
    /// # Ok(())
    /// # }
    /// ```
    pub fn durability(mut self, durability: Durability) -> Builder {
        self.options.durability = durability;
        self
    }

    /// How files are read. Default [`Io::Pread`].
    ///
    /// ```
    /// use criba::{Db, Io};
    ///
    /// # fn main() -> criba::Result<()> {
    /// # let dir = tempfile::tempdir().unwrap();
    /// # let path = dir.path().join("data");
    /// let db = Db::builder(&path).io(Io::Mmap).open()?;
    /// db.put("apple", "red")?;
    /// db.flush()?;
    /// assert_eq!(db.get("apple")?.unwrap(), "red");
    /// // The block stays in the map: the store's cache holds no copy.
    /// assert_eq!(db.stats().block_cache.bytes, 0);
    /// # Ok(())
    /// # }
    /// ```
    pub fn io(mut self, io: Io) -> Builder {
        self.options.io = io;
        self
    }

    /// Whether the journal may be written through a memory map of room that is reserved ahead.
    /// Default `true`: a write then survives a kill of the process without a system call. Both
    /// ways keep the same promises.
    ///
    /// The map is used on Linux, on ext4 and tmpfs. Other file systems may need new room for a page
    /// that is written again, and a full disk would end the process. On those, the journal is
    /// written by calls, whatever is set here.
    ///
    /// When the device fails while a page of the map is written to, the system may end the process
    /// with SIGBUS where a call would have returned an error.
    ///
    /// ```
    /// use criba::Db;
    ///
    /// # fn main() -> criba::Result<()> {
    /// # let dir = tempfile::tempdir().unwrap();
    /// # let path = dir.path().join("data");
    /// let db = Db::builder(&path).map_journal(false).open()?;
    /// db.put("apple", "red")?;
    /// db.close()?;
    /// // Any later session may choose the other way.
    /// let db = Db::open(&path)?;
    /// assert_eq!(db.get("apple")?.unwrap(), "red");
    /// # Ok(())
    /// # }
    /// ```
    pub fn map_journal(mut self, map: bool) -> Builder {
        self.options.map_journal = map;
        self
    }

    /// Whether a new store may be made. Default [`Create::IfMissing`].
    ///
    /// ```
    /// use criba::{Create, Db, Error};
    ///
    /// # fn main() -> criba::Result<()> {
    /// # let dir = tempfile::tempdir().unwrap();
    /// # let path = dir.path().join("data");
    /// let refused = Db::builder(&path).create(Create::Never).open();
    /// assert!(matches!(refused, Err(Error::NotAStore { .. })));
    /// let db = Db::builder(&path).create(Create::Always).open()?;
    /// # db.close()
    /// # }
    /// ```
    pub fn create(mut self, create: Create) -> Builder {
        self.options.create = create;
        self
    }

    /// Whether the store will be written. Default [`Access::ReadWrite`].
    ///
    /// ```
    /// use criba::{Access, Db, Error};
    ///
    /// # fn main() -> criba::Result<()> {
    /// # let dir = tempfile::tempdir().unwrap();
    /// # let path = dir.path().join("data");
    /// # Db::open(&path)?.close()?;
    /// let reader = Db::builder(&path).access(Access::ReadOnly);
    /// let db = reader.clone().open()?;
    /// let other = reader.open()?;
    /// assert!(other.is_empty()?);
    /// assert!(matches!(db.put("apple", "red"), Err(Error::ReadOnly)));
    /// # Ok(())
    /// # }
    /// ```
    pub fn access(mut self, access: Access) -> Builder {
        self.options.access = access;
        self
    }

    /// How `open` deals with a journal that is damaged in a way that no crash explains. Default
    /// [`Recovery::Strict`]: it refuses.
    ///
    /// ```
    /// use criba::{Db, Recovery};
    ///
    /// # fn main() -> criba::Result<()> {
    /// # let dir = tempfile::tempdir().unwrap();
    /// # let path = dir.path().join("data");
    /// # Db::open(&path)?.close()?;
    /// let db = Db::builder(&path).recovery(Recovery::Salvage).open()?;
    /// for loss in &db.stats().recovery.lost {
    ///     println!("{loss}");
    /// }
    /// assert!(db.stats().recovery.lost.is_empty());
    /// # Ok(())
    /// # }
    /// ```
    pub fn recovery(mut self, recovery: Recovery) -> Builder {
        self.options.recovery = recovery;
        self
    }
}
