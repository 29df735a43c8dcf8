//! The handle of an open store.

use std::fmt;
use std::path::Path;
use std::sync::Arc;

use crate::bounds::{Bounds, KeyRange, prefix_bounds};
use crate::error::Result;
use crate::format::batch::Operation;
use crate::options::Durability;
use crate::slice::Slice;
use crate::store::{Session, Store, check_limits};

use super::iter::Iter;
use super::snapshot::Snapshot;

/// An open store.
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
    session: Arc<Session>,
}

impl Db {
    pub(super) fn new(session: Session) -> Db {
        Db {
            session: Arc::new(session),
        }
    }

    #[inline]
    pub(crate) fn store(&self) -> &Arc<Store> {
        self.session.store()
    }

    /// The directory of the store.
    pub fn path(&self) -> &Path {
        self.session.path()
    }

    /// Sets the value of a key, with the durability of the store's options.
    ///
    /// Keys have 0 to 65,535 bytes (the empty key is a key), values up to 1 GiB.
    ///
    /// # Errors
    ///
    /// [`Error::Invalid`](crate::Error::Invalid) for a key or value beyond the limits: nothing is
    /// written. [`Error::Poisoned`](crate::Error::Poisoned) when the journal cannot be written or
    /// synced: from then on writes are refused until the store is opened again, and it is unknown
    /// whether this one survives. [`Error::Stalled`](crate::Error::Stalled) when memory for writes
    /// is used up and flushing fails.
    pub fn put(&self, key: impl AsRef<[u8]>, value: impl AsRef<[u8]>) -> Result<()> {
        self.put_with(key, value, self.store().options().durability)
    }

    /// Sets the value of a key, with this durability.
    ///
    /// # Errors
    ///
    /// As for [`Db::put`].
    pub fn put_with(
        &self,
        key: impl AsRef<[u8]>,
        value: impl AsRef<[u8]>,
        durability: Durability,
    ) -> Result<()> {
        let (key, value) = (key.as_ref(), value.as_ref());
        check_limits(key, value)?;
        self.store()
            .commit_one(Operation::put(key, value), durability)
    }

    /// Deletes a key, with the durability of the store's options. It is no error if the key is
    /// not there.
    ///
    /// # Errors
    ///
    /// As for [`Db::put`].
    pub fn delete(&self, key: impl AsRef<[u8]>) -> Result<()> {
        self.delete_with(key, self.store().options().durability)
    }

    /// Deletes a key, with this durability.
    ///
    /// # Errors
    ///
    /// As for [`Db::put`].
    pub fn delete_with(&self, key: impl AsRef<[u8]>, durability: Durability) -> Result<()> {
        let key = key.as_ref();
        check_limits(key, &[])?;
        self.store().commit_one(Operation::delete(key), durability)
    }

    /// The value of a key.
    ///
    /// Reads at most one data block for each run whose filter does not rule the key out, and
    /// none for a key that is in a memtable; see [`Db::explain`].
    ///
    /// # Errors
    ///
    /// [`Error::Corrupt`](crate::Error::Corrupt) when a block on the way is damaged,
    /// [`Error::Io`](crate::Error::Io) when it cannot be read. Other keys can still be read.
    pub fn get(&self, key: impl AsRef<[u8]>) -> Result<Option<Slice>> {
        let store = self.store();
        store.monitor().check_open()?;
        store.tree().get(key.as_ref(), || store.visible())
    }

    /// The values of many keys, all as of one moment: as many as there are keys, in their order,
    /// `None` for a key that is absent or deleted.
    ///
    /// Reads what as many calls of [`Db::get`] would read. It takes less time where filters are in
    /// memory but not in the processor's cache: what sixteen keys need first of the filters of up
    /// to twelve runs is fetched at once, and not one after the other. Keys in ascending order find
    /// their neighbours' blocks still in the cache.
    ///
    /// Takes some 40 bytes of memory for each key beside the values, of which each may hold the
    /// memory of its block ([`Slice`]). Memtables and segments of the moment stay until it returns.
    /// For very many keys, ask a [`Snapshot`] for some thousand at a time: it is as of one moment,
    /// too.
    ///
    /// ```
    /// # fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let dir = tempfile::tempdir()?;
    /// # let db = criba::Db::open(dir.path().join("data"))?;
    /// db.put("a", "1")?;
    /// let values = db.get_many(&["a", "b"])?;
    /// assert_eq!(values[0].as_deref(), Some(&b"1"[..]));
    /// assert_eq!(values[1], None);
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    ///
    /// As for [`Db::get`], with the first key for which there is one; to go on behind it, ask key
    /// by key.
    pub fn get_many<K: AsRef<[u8]>>(
        &self,
        keys: impl IntoIterator<Item = K>,
    ) -> Result<Vec<Option<Slice>>> {
        let keys = Vec::from_iter(keys);
        let store = self.store();
        store.monitor().check_open()?;
        store.tree().get_many(&keys, || store.visible())
    }

    /// Whether a key is there. Cost as for [`Db::get`].
    ///
    /// # Errors
    ///
    /// As for [`Db::get`].
    pub fn contains_key(&self, key: impl AsRef<[u8]>) -> Result<bool> {
        Ok(self.get(key)?.is_some())
    }

    /// The entries of a range of keys, in key order, from both ends. A range that ends before it
    /// begins is empty. On a closed store the iterator returns
    /// [`Error::Closed`](crate::Error::Closed) and ends.
    ///
    /// ```
    /// # fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let dir = tempfile::tempdir()?;
    /// # let db = criba::Db::open(dir.path().join("data"))?;
    /// for (key, value) in [("a", "1"), ("b", "2"), ("c", "3")] {
    ///     db.put(key, value)?;
    /// }
    /// for entry in db.range("a".."c").rev() {
    ///     let (key, value) = entry?;
    ///     println!("{key:?} {value:?}");
    /// }
    /// # Ok(())
    /// # }
    /// ```
    pub fn range(&self, range: impl KeyRange) -> Iter {
        self.walk(range.into_bounds())
    }

    /// The entries whose keys begin with `prefix`, in key order, from both ends.
    pub fn prefix(&self, prefix: impl AsRef<[u8]>) -> Iter {
        self.walk(prefix_bounds(prefix.as_ref()))
    }

    fn walk(&self, bounds: Bounds) -> Iter {
        let store = self.store();
        Iter::new(store, None, bounds).refused_by(store.monitor().check_open())
    }

    /// All entries, in key order, from both ends.
    pub fn iter(&self) -> Iter {
        self.prefix(b"")
    }

    /// The first entry in key order; `None` when there is none. Costs what the first step of
    /// [`iter`](Self::iter) costs.
    ///
    /// # Errors
    ///
    /// As for the iterator.
    pub fn first(&self) -> Result<Option<(Slice, Slice)>> {
        self.iter().next().transpose()
    }

    /// The last entry in key order; `None` when there is none.
    ///
    /// # Errors
    ///
    /// As for the iterator.
    pub fn last(&self) -> Result<Option<(Slice, Slice)>> {
        self.iter().next_back().transpose()
    }

    /// Whether there is no entry. Costs what [`first`](Self::first) costs.
    ///
    /// # Errors
    ///
    /// As for the iterator.
    pub fn is_empty(&self) -> Result<bool> {
        Ok(self.first()?.is_none())
    }

    /// The exact number of entries. Walks over all of them: it reads every data block.
    /// [`approximate_len`](Self::approximate_len) reads nothing.
    ///
    /// # Errors
    ///
    /// As for the iterator.
    pub fn len(&self) -> Result<u64> {
        self.iter().count_entries()
    }

    /// The store as it is now, to be read later. A snapshot can still be read after
    /// [`Db::close`]. One that was taken after the close returns
    /// [`Error::Closed`](crate::Error::Closed) from every read.
    pub fn snapshot(&self) -> Snapshot {
        Snapshot::take(self.store())
    }

    /// Makes everything that was written before survive power loss. Concurrent calls share one
    /// fsync.
    ///
    /// # Errors
    ///
    /// As for [`Db::put`].
    pub fn sync(&self) -> Result<()> {
        self.store().sync()
    }

    /// Closes the store for all handles: everything written survives power loss, and the next
    /// `open` knows that nothing may be missing. Snapshots and iterators can still be read.
    ///
    /// # Errors
    ///
    /// When that could not be done. Whatever was acknowledged as synced is safe all the same.
    pub fn close(self) -> Result<()> {
        self.session.close()
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
            .field("path", &self.session.path())
            .finish_non_exhaustive()
    }
}
