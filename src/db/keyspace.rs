//! The handle of a keyspace.

use std::fmt;
use std::sync::Arc;

use crate::bounds::{Bounds, KeyRange, prefix_bounds};
use crate::error::Result;
use crate::format::batch::Operation;
use crate::options::Durability;
use crate::slice::Slice;
use crate::store::{Session, Store, check_limits};
use crate::tree::Tree;

use super::iter::Iter;

/// A map of keys to values in a store: one of many, by its name.
///
/// [`Db::keyspace`](crate::Db::keyspace) makes or opens one. The default keyspace is there in each store,
/// and a [`Db`](crate::Db) is a handle of it: all methods here can be called on a `Db`.
///
/// Each keyspace has its own keys, segments, filters and options. All share the journal, the caches and
/// the threads of the store. So a [`Batch`](crate::Batch) can write to several keyspaces at once, and a
/// [`Snapshot`](crate::Snapshot) sees all of them as of one moment.
///
/// A handle is cheap to clone and can be used from any number of threads. It keeps the store open. Once
/// the keyspace was dropped, each call returns
/// [`Error::KeyspaceDropped`](crate::Error::KeyspaceDropped).
///
/// An empty keyspace takes a few KB of memory and no file. Stores with thousands of keyspaces, one for
/// each tenant, are meant to be usual.
///
/// ```
/// # fn main() -> criba::Result<()> {
/// # let dir = tempfile::tempdir().unwrap();
/// # let db = criba::Db::open(dir.path().join("data"))?;
/// let users = db.keyspace("users")?;
/// let emails = db.keyspace("emails")?;
/// let mut batch = db.batch();
/// batch.keyspace(&users).put("17", "ada@example.org");
/// batch.keyspace(&emails).put("ada@example.org", "17");
/// batch.commit()?;
/// assert_eq!(emails.get("ada@example.org")?.unwrap(), "17");
/// assert_eq!(db.get("17")?, None);
/// # Ok(())
/// # }
/// ```
#[derive(Clone)]
pub struct Keyspace {
    session: Arc<Session>,
    tree: Arc<Tree>,
}

impl Keyspace {
    pub(super) fn new(session: &Arc<Session>, tree: &Arc<Tree>) -> Keyspace {
        Keyspace {
            session: Arc::clone(session),
            tree: Arc::clone(tree),
        }
    }

    pub(super) fn session(&self) -> &Arc<Session> {
        &self.session
    }

    #[inline]
    pub(crate) fn store(&self) -> &Arc<Store> {
        self.session.store()
    }

    #[inline]
    pub(super) fn tree(&self) -> &Arc<Tree> {
        &self.tree
    }

    /// Whether the other handle is one of the same store.
    pub(super) fn is_of_store(&self, store: &Arc<Store>) -> bool {
        Arc::ptr_eq(self.store(), store)
    }

    /// The name of the keyspace; that of the default one is `default`.
    ///
    /// ```
    /// # fn main() -> criba::Result<()> {
    /// # let dir = tempfile::tempdir().unwrap();
    /// # let db = criba::Db::open(dir.path().join("data"))?;
    /// assert_eq!(db.keyspace("users")?.name(), "users");
    /// assert_eq!(db.name(), "default");
    /// # Ok(())
    /// # }
    /// ```
    pub fn name(&self) -> &str {
        self.tree.name()
    }
}

// Writes.
impl Keyspace {
    /// Sets the value of a key, with the durability of the store's options.
    ///
    /// Keys have 0 to 65,535 bytes (the empty key is a key), values up to 1 GiB.
    ///
    /// A `get` followed by a `put` is not one step: of two threads that add to a counter in this way
    /// at once, one may overwrite what the other has put. [`Keyspace::update`] is one step, for one key,
    /// and [`Keyspace::transact`] for many.
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
    /// As for [`Keyspace::put`].
    pub fn put_with(
        &self,
        key: impl AsRef<[u8]>,
        value: impl AsRef<[u8]>,
        durability: Durability,
    ) -> Result<()> {
        let (key, value) = (key.as_ref(), value.as_ref());
        check_limits(key, value)?;
        let put = Operation::put(self.tree.id(), key, value);
        self.store().commit_one(&self.tree, put, durability)
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
    /// As for [`Keyspace::put`].
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
    /// As for [`Keyspace::put`].
    pub fn delete_with(&self, key: impl AsRef<[u8]>, durability: Durability) -> Result<()> {
        let key = key.as_ref();
        check_limits(key, &[])?;
        let deletion = Operation::delete(self.tree.id(), key);
        self.store().commit_one(&self.tree, deletion, durability)
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
    /// As for [`Keyspace::put`] and [`Keyspace::get`]. After an error of the write the key may be deleted or not.
    pub fn take(&self, key: impl AsRef<[u8]>) -> Result<Option<Slice>> {
        let key = key.as_ref();
        check_limits(key, &[])?;
        let durability = self.store().options().durability;
        self.store().take(&self.tree, key, durability)
    }
}

// Reads.
impl Keyspace {
    /// The value of a key.
    ///
    /// Reads at most one data block for each run whose filter does not rule the key out, and
    /// none for a key that is in a memtable; see [`Keyspace::explain`].
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
        self.tree.get(key.as_ref(), || store.visible())
    }

    /// The values of many keys, all as of one moment: as many as there are keys, in their order,
    /// `None` for a key that is absent or deleted.
    ///
    /// Reads at most as much as one call of [`Keyspace::get`] for each key, and a block that several keys
    /// need once. The blocks are read together: first those that the newest runs need whose filters do
    /// not rule the keys out, and then, for keys that were not there or have operands in older runs, the
    /// next ones. So a device that takes many requests at a time works on up to 64 of them, and a
    /// thousand cold keys take about as long as a few hundred calls. Keys that are in memory take as long
    /// as one call each. [`Stats::read_many_by`](crate::Stats::read_many_by) tells how the blocks were
    /// read: by io_uring, or by threads where the system lets the process have none of that.
    ///
    /// Takes some 40 bytes of memory for each key beside the values, and the blocks of up to 1,024 keys
    /// that wait for them, 16 MiB or little more in each round, until it returns. Each value may hold the
    /// memory of its block ([`Slice`]). Memtables and segments of the moment stay until it returns. For
    /// very many keys, ask a [`Snapshot`](crate::Snapshot) for some thousand at a time: it sees one moment, too.
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
    /// As for [`Keyspace::get`]: that of the first key that has one. To go on after it, ask key by key.
    pub fn get_many<K: AsRef<[u8]>>(
        &self,
        keys: impl IntoIterator<Item = K>,
    ) -> Result<Vec<Option<Slice>>> {
        let keys = Vec::from_iter(keys);
        let store = self.store();
        store.monitor().check_open()?;
        self.tree.get_many(&keys, || store.visible())
    }

    /// Whether the store has a value for the key. Costs as much as [`Keyspace::get`].
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
    /// As for [`Keyspace::get`].
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
        Iter::new(store, &self.tree, None, bounds).refused_by(store.monitor().check_open())
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
}

impl IntoIterator for &Keyspace {
    type Item = Result<(Slice, Slice)>;
    type IntoIter = Iter;

    fn into_iter(self) -> Iter {
        self.iter()
    }
}

impl fmt::Debug for Keyspace {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Keyspace")
            .field("name", &self.name())
            .finish_non_exhaustive()
    }
}
