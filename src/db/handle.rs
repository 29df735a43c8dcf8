//! The handle of an open store.

use std::fmt;
use std::ops::Deref;
use std::path::Path;
use std::sync::Arc;

use crate::error::Result;
use crate::slice::Slice;
use crate::store::Session;

use super::iter::Iter;
use super::keyspace::Keyspace;
use super::keyspace_options::KeyspaceOptions;

/// An open store, and its default keyspace.
///
/// All methods of [`Keyspace`] can be called on a `Db`: they read and write the default keyspace. A
/// program that needs one map of keys needs no other.
///
/// A handle is cheap to clone and can be used from any number of threads. The store is closed
/// when the last handle is dropped, or by [`Db::close`], which returns errors.
///
/// A handle works in the process that opened it. In a forked child it, and all that was made by it,
/// returns [`Error::Forked`](crate::Error::Forked) and can be dropped without harm. The child
/// cannot open the store before the parent has closed it. If the parent is killed, the store stays
/// locked until its forked children have ended or have executed another program. A daemon opens
/// its stores after its last fork.
///
/// ```
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// # let dir = tempfile::tempdir()?;
/// # let path = dir.path().join("data");
/// let db = criba::Db::open(&path)?;
/// db.put("apple", "red")?;
/// db.put("banana", "yellow")?;
/// assert_eq!(db.get("apple")?.as_deref(), Some(&b"red"[..]));
/// db.delete("apple")?;
/// assert_eq!(db.get("apple")?, None);
/// db.close()?;
/// # Ok(())
/// # }
/// ```
#[derive(Clone)]
pub struct Db {
    default: Keyspace,
}

impl Db {
    pub(super) fn new(session: Session) -> Db {
        let session = Arc::new(session);
        let default = Keyspace::new(&session, session.store().tree());
        Db { default }
    }

    /// The directory of the store.
    ///
    /// ```
    /// # fn main() -> criba::Result<()> {
    /// # let dir = tempfile::tempdir().unwrap();
    /// # let path = dir.path().join("data");
    /// let db = criba::Db::open(&path)?;
    /// assert_eq!(db.path(), path);
    /// # Ok(())
    /// # }
    /// ```
    pub fn path(&self) -> &Path {
        self.default.session().path()
    }

    /// The keyspace of this name. It is made, durably, if it is not there.
    ///
    /// A keyspace that is opened for the first time in this session gets the options of the store's
    /// [`Builder`](crate::Builder). Until a program opens a keyspace, it is not merged in the background.
    ///
    /// ```
    /// # fn main() -> criba::Result<()> {
    /// # let dir = tempfile::tempdir().unwrap();
    /// # let db = criba::Db::open(dir.path().join("data"))?;
    /// let tenant = db.keyspace("tenant/4711")?;
    /// tenant.put("colour", "blue")?;
    /// assert_eq!(db.keyspace("tenant/4711")?.get("colour")?.unwrap(), "blue");
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    ///
    /// [`Error::Invalid`](crate::Error::Invalid) for a name that is empty or longer than 255 bytes, and
    /// failures of writing, as for [`Keyspace::put`], when it is to be made.
    /// [`Error::ReadOnly`](crate::Error::ReadOnly) when it is not there and the store was opened for
    /// reading.
    pub fn keyspace(&self, name: &str) -> Result<Keyspace> {
        let tree = self.store().keyspace(name, None)?;
        Ok(Keyspace::new(self.default.session(), &tree))
    }

    /// The keyspace of this name with options of its own: filter, compression, strategy and so on. The
    /// options begin as those of the store's [`Builder`](crate::Builder).
    ///
    /// Options are not kept on disk. A program gives the same ones at each start, and may change them from
    /// start to start, as those of the `Builder`.
    ///
    /// ```
    /// use criba::{BloomierBits, Compression, FilterPolicy, Strategy};
    ///
    /// # fn main() -> criba::Result<()> {
    /// # let dir = tempfile::tempdir().unwrap();
    /// # let db = criba::Db::open(dir.path().join("data"))?;
    /// // The newest gigabyte of events, compressed; nobody looks one up by its key.
    /// let events = db.keyspace_with("events", |options| {
    ///     options
    ///         .strategy(Strategy::Fifo { bytes: 1 << 30, age: None })
    ///         .compression(Compression::Lz4)
    ///         .filter(FilterPolicy::None)
    /// })?;
    /// events.put("2026-05-01T12:00", "started")?;
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    ///
    /// As for [`Db::keyspace`]; [`Error::Invalid`](crate::Error::Invalid) as well for an option outside its
    /// bounds, and when the keyspace was opened in this session with other options.
    pub fn keyspace_with(
        &self,
        name: &str,
        options: impl FnOnce(KeyspaceOptions) -> KeyspaceOptions,
    ) -> Result<Keyspace> {
        let base = KeyspaceOptions::of(self.store().options().tree.clone());
        let tree = self.store().keyspace(name, Some(options(base).tree))?;
        Ok(Keyspace::new(self.default.session(), &tree))
    }

    /// The names of all keyspaces, sorted. Reads nothing.
    ///
    /// ```
    /// # fn main() -> criba::Result<()> {
    /// # let dir = tempfile::tempdir().unwrap();
    /// # let db = criba::Db::open(dir.path().join("data"))?;
    /// db.keyspace("users")?;
    /// assert_eq!(db.keyspaces(), ["default", "users"]);
    /// # Ok(())
    /// # }
    /// ```
    pub fn keyspaces(&self) -> Vec<String> {
        match self.store().monitor().origin().is_elsewhere() {
            true => Vec::new(),
            false => self.store().keyspace_names(),
        }
    }

    /// Drops a keyspace with all that is in it. Returns whether it was there.
    ///
    /// This is one edit of the manifest, however large the keyspace is. Its files go as soon as nobody
    /// reads them. Handles and snapshots of it return
    /// [`Error::KeyspaceDropped`](crate::Error::KeyspaceDropped) from then on; iterators that were made
    /// before read on. A keyspace of the same name that is made later is another one, and empty.
    ///
    /// ```
    /// use criba::Error;
    ///
    /// # fn main() -> criba::Result<()> {
    /// # let dir = tempfile::tempdir().unwrap();
    /// # let db = criba::Db::open(dir.path().join("data"))?;
    /// let users = db.keyspace("users")?;
    /// users.put("17", "Ada")?;
    /// assert!(db.drop_keyspace("users")?);
    /// assert!(matches!(users.get("17"), Err(Error::KeyspaceDropped { .. })));
    /// assert!(db.keyspace("users")?.is_empty()?);
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    ///
    /// [`Error::Invalid`](crate::Error::Invalid) for the default keyspace; failures of writing, as for
    /// [`Keyspace::put`].
    pub fn drop_keyspace(&self, name: &str) -> Result<bool> {
        self.store().drop_keyspace(name)
    }

    /// Makes everything that was written before survive power loss. Concurrent calls share one
    /// fsync.
    ///
    /// ```
    /// # fn main() -> criba::Result<()> {
    /// # let dir = tempfile::tempdir().unwrap();
    /// # let db = criba::Db::open(dir.path().join("data"))?;
    /// db.put("a", "1")?;
    /// db.put("b", "2")?;
    /// let before = db.stats().syncs;
    /// db.sync()?;
    /// // One fsync for both writes.
    /// assert_eq!(db.stats().syncs, before + 1);
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    ///
    /// As for [`Keyspace::put`].
    pub fn sync(&self) -> Result<()> {
        self.store().sync()
    }

    /// Closes the store for all handles: everything written survives power loss, and the next
    /// `open` knows that nothing may be missing. Snapshots and iterators can still be read.
    ///
    /// ```
    /// use criba::Error;
    ///
    /// # fn main() -> criba::Result<()> {
    /// # let dir = tempfile::tempdir().unwrap();
    /// # let db = criba::Db::open(dir.path().join("data"))?;
    /// let other = db.clone();
    /// db.put("apple", "red")?;
    /// let snapshot = db.snapshot();
    /// db.close()?;
    /// assert!(matches!(other.get("apple"), Err(Error::Closed)));
    /// assert_eq!(snapshot.get("apple")?.unwrap(), "red");
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    ///
    /// The first failure on the way; [`Error::Poisoned`](crate::Error::Poisoned) after an earlier
    /// one. Synced writes that have returned are safe all the same.
    pub fn close(self) -> Result<()> {
        self.default.session().close()
    }
}

/// A store is its default keyspace, too.
impl Deref for Db {
    type Target = Keyspace;

    #[inline]
    fn deref(&self) -> &Keyspace {
        &self.default
    }
}

impl IntoIterator for &Db {
    type Item = Result<(Slice, Slice)>;
    type IntoIter = Iter;

    fn into_iter(self) -> Iter {
        self.iter()
    }
}

impl fmt::Debug for Db {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Db")
            .field("path", &self.default.session().path())
            .finish_non_exhaustive()
    }
}
