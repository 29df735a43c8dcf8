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
        self.session.path()
    }

    /// Sets the value of a key, with the durability of the store's options.
    ///
    /// Keys have 0 to 65,535 bytes (the empty key is a key), values up to 1 GiB.
    ///
    /// A `get` followed by a `put` is not one step: of two threads that add to a counter in this way
    /// at once, one may overwrite what the other has put. Let one thread do it, or guard both calls
    /// with a lock of the program.
    ///
    /// ```
    /// use criba::{Error, MAX_KEY_BYTES};
    ///
    /// # fn main() -> criba::Result<()> {
    /// # let dir = tempfile::tempdir().unwrap();
    /// # let db = criba::Db::open(dir.path().join("data"))?;
    /// db.put("apple", "green")?;
    /// db.put("apple", "red")?;
    /// assert_eq!(db.get("apple")?.unwrap(), "red");
    /// let long = [0; MAX_KEY_BYTES + 1];
    /// assert!(matches!(db.put(long, ""), Err(Error::Invalid(_))));
    /// # Ok(())
    /// # }
    /// ```
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
    /// ```
    /// use criba::Durability;
    ///
    /// # fn main() -> criba::Result<()> {
    /// # let dir = tempfile::tempdir().unwrap();
    /// # let db = criba::Db::open(dir.path().join("data"))?;
    /// db.put("draft", "1")?;
    /// let before = db.stats().syncs;
    /// db.put_with("order", "17 apples", Durability::Sync)?;
    /// // Both writes survive power loss now.
    /// assert!(db.stats().syncs > before);
    /// # Ok(())
    /// # }
    /// ```
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
    /// ```
    /// # fn main() -> criba::Result<()> {
    /// # let dir = tempfile::tempdir().unwrap();
    /// # let db = criba::Db::open(dir.path().join("data"))?;
    /// db.put("apple", "red")?;
    /// db.delete("apple")?;
    /// db.delete("cherry")?;
    /// assert_eq!(db.get("apple")?, None);
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    ///
    /// As for [`Db::put`].
    pub fn delete(&self, key: impl AsRef<[u8]>) -> Result<()> {
        self.delete_with(key, self.store().options().durability)
    }

    /// Deletes a key, with this durability.
    ///
    /// ```
    /// use criba::Durability;
    ///
    /// # fn main() -> criba::Result<()> {
    /// # let dir = tempfile::tempdir().unwrap();
    /// # let db = criba::Db::open(dir.path().join("data"))?;
    /// db.put("password", "1234")?;
    /// db.delete_with("password", Durability::Sync)?;
    /// assert!(!db.contains_key("password")?);
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    ///
    /// As for [`Db::put`].
    pub fn delete_with(&self, key: impl AsRef<[u8]>, durability: Durability) -> Result<()> {
        let key = key.as_ref();
        check_limits(key, &[])?;
        self.store().commit_one(Operation::delete(key), durability)
    }

    /// Deletes a key and returns the value that it had, with the durability of the store's options.
    /// Of several threads that take a key, one gets the value.
    ///
    /// Writers wait while the key is looked up, which may take a read of the disk.
    ///
    /// ```
    /// # fn main() -> criba::Result<()> {
    /// # let dir = tempfile::tempdir().unwrap();
    /// # let db = criba::Db::open(dir.path().join("data"))?;
    /// db.put("job", "send the letter")?;
    /// assert_eq!(db.take("job")?.unwrap(), "send the letter");
    /// assert_eq!(db.take("job")?, None);
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    ///
    /// As for [`Db::put`] and [`Db::get`]. After an error of the write the key may be deleted or not.
    pub fn take(&self, key: impl AsRef<[u8]>) -> Result<Option<Slice>> {
        let key = key.as_ref();
        check_limits(key, &[])?;
        self.store().take(key, self.store().options().durability)
    }

    /// The value of a key.
    ///
    /// Reads at most one data block for each run whose filter does not rule the key out, and
    /// none for a key that is in a memtable; see [`Db::explain`].
    ///
    /// ```
    /// use criba::storage::ReadCause;
    ///
    /// # fn main() -> criba::Result<()> {
    /// # let dir = tempfile::tempdir().unwrap();
    /// # let db = criba::Db::open(dir.path().join("data"))?;
    /// db.put("apple", "red")?;
    /// db.flush()?;
    /// let before = db.stats().reads;
    /// assert_eq!(db.get("apple")?.unwrap(), "red");
    /// assert_eq!(db.get("zebra")?, None);
    /// // One read for the key that is there, none for the other.
    /// let reads = db.stats().reads.since(&before);
    /// assert_eq!(reads.get(ReadCause::Data).calls, 1);
    /// # Ok(())
    /// # }
    /// ```
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
    /// Reads as much as one call of [`Db::get`] for each key. It takes less time than those calls
    /// where filters are in memory but not in the processor's cache: it fetches the first words
    /// that sixteen keys need of the filters of up to twelve runs together. Keys in ascending order
    /// find their neighbours' blocks still in the cache.
    ///
    /// Takes some 40 bytes of memory for each key beside the values. Each value may hold the memory
    /// of its block ([`Slice`]). Memtables and segments of the moment stay until it returns. For
    /// very many keys, ask a [`Snapshot`] for some thousand at a time: it sees one moment, too.
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
    /// As for [`Db::get`]: that of the first key that has one. To go on after it, ask key by key.
    pub fn get_many<K: AsRef<[u8]>>(
        &self,
        keys: impl IntoIterator<Item = K>,
    ) -> Result<Vec<Option<Slice>>> {
        let keys = Vec::from_iter(keys);
        let store = self.store();
        store.monitor().check_open()?;
        store.tree().get_many(&keys, || store.visible())
    }

    /// Whether the store has a value for the key. Costs as much as [`Db::get`].
    ///
    /// ```
    /// # fn main() -> criba::Result<()> {
    /// # let dir = tempfile::tempdir().unwrap();
    /// # let db = criba::Db::open(dir.path().join("data"))?;
    /// db.put("apple", "")?;
    /// assert!(db.contains_key("apple")?);
    /// assert!(!db.contains_key("banana")?);
    /// # Ok(())
    /// # }
    /// ```
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
    /// let mut values = Vec::new();
    /// for entry in db.range("a".."c").rev() {
    ///     let (_key, value) = entry?;
    ///     values.push(value);
    /// }
    /// assert_eq!(values, ["2", "1"]);
    /// # Ok(())
    /// # }
    /// ```
    pub fn range(&self, range: impl KeyRange) -> Iter {
        self.walk(range.into_bounds())
    }

    /// The entries whose keys begin with `prefix`, in key order, from both ends.
    ///
    /// ```
    /// # fn main() -> criba::Result<()> {
    /// # let dir = tempfile::tempdir().unwrap();
    /// # let db = criba::Db::open(dir.path().join("data"))?;
    /// db.put("fruit/apple", "red")?;
    /// db.put("fruit/banana", "yellow")?;
    /// db.put("tree/ash", "grey")?;
    /// let mut fruit = db.prefix("fruit/");
    /// let (key, value) = fruit.next_back().unwrap()?;
    /// assert_eq!(key, "fruit/banana");
    /// assert_eq!(value, "yellow");
    /// assert_eq!(fruit.count(), 1);
    /// # Ok(())
    /// # }
    /// ```
    pub fn prefix(&self, prefix: impl AsRef<[u8]>) -> Iter {
        self.walk(prefix_bounds(prefix.as_ref()))
    }

    fn walk(&self, bounds: Bounds) -> Iter {
        let store = self.store();
        Iter::new(store, None, bounds).refused_by(store.monitor().check_open())
    }

    /// All entries, in key order, from both ends.
    ///
    /// ```
    /// # fn main() -> criba::Result<()> {
    /// # let dir = tempfile::tempdir().unwrap();
    /// # let db = criba::Db::open(dir.path().join("data"))?;
    /// db.put("b", "2")?;
    /// db.put("a", "1")?;
    /// let mut text = String::new();
    /// for entry in &db {
    ///     let (key, value) = entry?;
    ///     text += &format!("{key:?}={value:?} ");
    /// }
    /// assert_eq!(text, r#""a"="1" "b"="2" "#);
    /// # Ok(())
    /// # }
    /// ```
    pub fn iter(&self) -> Iter {
        self.prefix(b"")
    }

    /// The first entry in key order; `None` when there is none. Costs what the first step of
    /// [`iter`](Self::iter) costs.
    ///
    /// ```
    /// # fn main() -> criba::Result<()> {
    /// # let dir = tempfile::tempdir().unwrap();
    /// # let db = criba::Db::open(dir.path().join("data"))?;
    /// assert_eq!(db.first()?, None);
    /// db.put("2026-05-01", "sun")?;
    /// db.put("2026-04-30", "rain")?;
    /// let (day, weather) = db.first()?.unwrap();
    /// assert_eq!(day, "2026-04-30");
    /// assert_eq!(weather, "rain");
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    ///
    /// As for the iterator.
    pub fn first(&self) -> Result<Option<(Slice, Slice)>> {
        self.iter().next().transpose()
    }

    /// The last entry in key order; `None` when there is none.
    ///
    /// ```
    /// # fn main() -> criba::Result<()> {
    /// # let dir = tempfile::tempdir().unwrap();
    /// # let db = criba::Db::open(dir.path().join("data"))?;
    /// for number in 1..=300_u32 {
    ///     db.put(number.to_be_bytes(), "row")?;
    /// }
    /// let (key, _) = db.last()?.unwrap();
    /// assert_eq!(key, 300_u32.to_be_bytes());
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    ///
    /// As for the iterator.
    pub fn last(&self) -> Result<Option<(Slice, Slice)>> {
        self.iter().next_back().transpose()
    }

    /// Whether there is no entry. Costs what [`first`](Self::first) costs.
    ///
    /// ```
    /// # fn main() -> criba::Result<()> {
    /// # let dir = tempfile::tempdir().unwrap();
    /// # let db = criba::Db::open(dir.path().join("data"))?;
    /// assert!(db.is_empty()?);
    /// db.put("apple", "")?;
    /// assert!(!db.is_empty()?);
    /// # Ok(())
    /// # }
    /// ```
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
    /// ```
    /// # fn main() -> criba::Result<()> {
    /// # let dir = tempfile::tempdir().unwrap();
    /// # let db = criba::Db::open(dir.path().join("data"))?;
    /// db.put("a", "1")?;
    /// db.put("a", "2")?;
    /// db.put("b", "3")?;
    /// db.delete("b")?;
    /// assert_eq!(db.len()?, 1);
    /// # Ok(())
    /// # }
    /// ```
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
    ///
    /// ```
    /// # fn main() -> criba::Result<()> {
    /// # let dir = tempfile::tempdir().unwrap();
    /// # let db = criba::Db::open(dir.path().join("data"))?;
    /// db.put("apple", "green")?;
    /// let before = db.snapshot();
    /// db.put("apple", "red")?;
    /// db.close()?;
    /// assert_eq!(before.get("apple")?.unwrap(), "green");
    /// # Ok(())
    /// # }
    /// ```
    pub fn snapshot(&self) -> Snapshot {
        Snapshot::take(self.store())
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
    /// As for [`Db::put`].
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
