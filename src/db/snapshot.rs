//! A moment of the store, which can be read for as long as one likes.

use std::fmt;
use std::sync::Arc;

use crate::bounds::{Bounds, KeyRange, prefix_bounds};
use crate::error::{Error, Result};
use crate::key::Sequence;
use crate::services::Reader;
use crate::slice::Slice;
use crate::store::Store;
use crate::tree::Tree;

use super::iter::Iter;
use super::keyspace::Keyspace;

/// The store as it was when the snapshot was taken: see [`Keyspace::snapshot`](crate::Keyspace::snapshot).
///
/// Cheap to take and to clone. While it lives, versions that it sees are kept on disk; drop it
/// when it is no longer needed.
///
/// ```
/// # fn main() -> criba::Result<()> {
/// # let dir = tempfile::tempdir().unwrap();
/// # let db = criba::Db::open(dir.path().join("data"))?;
/// db.put("apple", "green")?;
/// let before = db.snapshot();
/// db.put("apple", "red")?;
/// db.put("banana", "yellow")?;
/// // Every read of a snapshot sees the same moment.
/// assert_eq!(before.get("apple")?.unwrap(), "green");
/// assert_eq!(before.iter().count(), 1);
/// assert_eq!(db.iter().count(), 2);
/// # Ok(())
/// # }
/// ```
#[derive(Clone)]
pub struct Snapshot {
    held: Arc<Held>,
    tree: Arc<Tree>,
    /// The tree is one of another store.
    is_foreign: bool,
}

/// A registered sequence.
struct Held {
    store: Arc<Store>,
    reader: Reader,
    sequence: Sequence,
    /// Why it cannot be read: it was taken after the close, or in a forked child.
    refused: Option<Error>,
}

impl Held {
    fn check(&self) -> Result<()> {
        self.store.monitor().origin().check()?;
        self.refused.clone().map_or(Ok(()), Err)
    }
}

impl Drop for Held {
    fn drop(&mut self) {
        if self.store.monitor().origin().is_elsewhere() {
            return self.store.leak();
        }
        let snapshots = &self.store.services().snapshots;
        snapshots.release(self.reader, self.sequence);
    }
}

impl Keyspace {
    /// The store as it is now, to be read later. A snapshot can still be read after
    /// [`Db::close`](crate::Db::close). One that was taken after the close returns
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
        Snapshot::take(self.store(), self.tree())
    }
}

impl Snapshot {
    fn take(store: &Arc<Store>, tree: &Arc<Tree>) -> Snapshot {
        Snapshot::take_for(store, tree, Reader::Snapshot)
    }

    pub(super) fn take_for(store: &Arc<Store>, tree: &Arc<Tree>, reader: Reader) -> Snapshot {
        let monitor = store.monitor();
        let (sequence, refused) = match monitor.origin().check() {
            Ok(()) => {
                let sequence = store
                    .services()
                    .snapshots
                    .register(reader, || store.visible());
                (sequence, monitor.check_open().err())
            }
            Err(forked) => (store.visible(), Some(forked)),
        };
        Snapshot {
            held: Arc::new(Held {
                store: Arc::clone(store),
                reader,
                sequence,
                refused,
            }),
            tree: Arc::clone(tree),
            is_foreign: false,
        }
    }

    /// The same moment in another keyspace.
    ///
    /// ```
    /// # fn main() -> criba::Result<()> {
    /// # let dir = tempfile::tempdir().unwrap();
    /// # let db = criba::Db::open(dir.path().join("data"))?;
    /// let users = db.keyspace("users")?;
    /// users.put("17", "Ada")?;
    /// let before = db.snapshot();
    /// users.delete("17")?;
    /// assert_eq!(before.keyspace(&users).get("17")?.unwrap(), "Ada");
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// Of a keyspace of another store, each read returns [`Error::Invalid`].
    #[must_use]
    pub fn keyspace(&self, keyspace: &Keyspace) -> Snapshot {
        Snapshot {
            held: Arc::clone(&self.held),
            tree: Arc::clone(keyspace.tree()),
            is_foreign: !keyspace.is_of_store(&self.held.store),
        }
    }

    /// Refuses when it cannot be read.
    pub(super) fn check(&self) -> Result<()> {
        if self.is_foreign {
            let what = "a snapshot of one store was asked for a keyspace of another";
            return Err(Error::Invalid(what.into()));
        }
        self.held.check()
    }

    pub(super) fn store(&self) -> &Arc<Store> {
        &self.held.store
    }

    pub(super) fn tree(&self) -> &Arc<Tree> {
        &self.tree
    }

    /// The sequence at which it reads.
    pub(super) fn at(&self) -> Sequence {
        self.held.sequence
    }

    /// The value of a key. Cost and errors as for [`Keyspace::get`](crate::Keyspace::get).
    ///
    /// ```
    /// # fn main() -> criba::Result<()> {
    /// # let dir = tempfile::tempdir().unwrap();
    /// # let db = criba::Db::open(dir.path().join("data"))?;
    /// db.put("apple", "green")?;
    /// let before = db.snapshot();
    /// db.delete("apple")?;
    /// db.compact_all()?.wait()?;
    /// assert_eq!(before.get("apple")?.unwrap(), "green");
    /// assert_eq!(db.get("apple")?, None);
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    ///
    /// As for [`Keyspace::get`](crate::Keyspace::get).
    pub fn get(&self, key: impl AsRef<[u8]>) -> Result<Option<Slice>> {
        self.check()?;
        let held = &self.held;
        self.tree.get(key.as_ref(), || held.sequence)
    }

    /// The value and the operands of a key, not combined: see [`Keyspace::operands`](crate::Keyspace::operands).
    ///
    /// ```
    /// use criba::{Db, operator::Max};
    ///
    /// # fn main() -> criba::Result<()> {
    /// # let dir = tempfile::tempdir().unwrap();
    /// # let path = dir.path().join("data");
    /// let db = Db::builder(&path).operator(Max).open()?;
    /// db.merge("best", "0712")?;
    /// let before = db.snapshot();
    /// db.merge("best", "0650")?;
    /// let (value, operands) = before.operands("best")?;
    /// assert!(value.is_none());
    /// assert_eq!(operands, ["0712"]);
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    ///
    /// As for [`Keyspace::operands`](crate::Keyspace::operands).
    pub fn operands(&self, key: impl AsRef<[u8]>) -> Result<(Option<Slice>, Vec<Slice>)> {
        self.check()?;
        let held = &self.held;
        self.tree.operands(key.as_ref(), || held.sequence)
    }

    /// The values of many keys, in the order of the keys: see
    /// [`Keyspace::get_many`](crate::Keyspace::get_many).
    ///
    /// ```
    /// # fn main() -> criba::Result<()> {
    /// # let dir = tempfile::tempdir().unwrap();
    /// # let db = criba::Db::open(dir.path().join("data"))?;
    /// # for number in 0..3000 {
    /// #     db.put(format!("{number:04}"), "row")?;
    /// # }
    /// # let keys: Vec<String> = (0..3000).map(|number| format!("{number:04}")).collect();
    /// // All keys as of one moment, a thousand at a time.
    /// let snapshot = db.snapshot();
    /// let mut found = 0;
    /// for keys in keys.chunks(1000) {
    ///     found += snapshot.get_many(keys)?.iter().flatten().count();
    /// }
    /// assert_eq!(found, 3000);
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    ///
    /// As for [`Keyspace::get_many`](crate::Keyspace::get_many).
    pub fn get_many<K: AsRef<[u8]>>(
        &self,
        keys: impl IntoIterator<Item = K>,
    ) -> Result<Vec<Option<Slice>>> {
        let keys = Vec::from_iter(keys);
        self.check()?;
        let held = &self.held;
        self.tree.get_many(&keys, || held.sequence)
    }

    /// Whether the snapshot has a value for the key. Costs as much as [`Snapshot::get`].
    ///
    /// ```
    /// # fn main() -> criba::Result<()> {
    /// # let dir = tempfile::tempdir().unwrap();
    /// # let db = criba::Db::open(dir.path().join("data"))?;
    /// let before = db.snapshot();
    /// db.put("apple", "red")?;
    /// assert!(!before.contains_key("apple")?);
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    ///
    /// As for [`Keyspace::get`](crate::Keyspace::get).
    pub fn contains_key(&self, key: impl AsRef<[u8]>) -> Result<bool> {
        Ok(self.get(key)?.is_some())
    }

    /// The entries of a range of keys: see [`Keyspace::range`](crate::Keyspace::range).
    ///
    /// ```
    /// # fn main() -> criba::Result<()> {
    /// # let dir = tempfile::tempdir().unwrap();
    /// # let db = criba::Db::open(dir.path().join("data"))?;
    /// db.put("a", "1")?;
    /// db.put("b", "2")?;
    /// let before = db.snapshot();
    /// db.put("aa", "3")?;
    /// let keys = before.range(.."b").keys().collect::<criba::Result<Vec<_>>>()?;
    /// assert_eq!(keys, ["a"]);
    /// # Ok(())
    /// # }
    /// ```
    pub fn range(&self, range: impl KeyRange) -> Iter {
        self.walk(range.into_bounds())
    }

    /// The entries whose keys begin with `prefix`.
    ///
    /// ```
    /// # fn main() -> criba::Result<()> {
    /// # let dir = tempfile::tempdir().unwrap();
    /// # let db = criba::Db::open(dir.path().join("data"))?;
    /// db.put("fruit/apple", "red")?;
    /// db.put("tree/ash", "grey")?;
    /// let before = db.snapshot();
    /// db.put("fruit/banana", "yellow")?;
    /// assert_eq!(before.prefix("fruit/").count(), 1);
    /// # Ok(())
    /// # }
    /// ```
    pub fn prefix(&self, prefix: impl AsRef<[u8]>) -> Iter {
        self.walk(prefix_bounds(prefix.as_ref()))
    }

    pub(super) fn walk(&self, bounds: Bounds) -> Iter {
        let held = &self.held;
        Iter::new(&held.store, &self.tree, Some(held.sequence), bounds).refused_by(self.check())
    }

    /// All entries.
    ///
    /// ```
    /// # fn main() -> criba::Result<()> {
    /// # let dir = tempfile::tempdir().unwrap();
    /// # let db = criba::Db::open(dir.path().join("data"))?;
    /// db.put("a", "1")?;
    /// db.put("b", "2")?;
    /// let backup = db.snapshot();
    /// db.put("c", "3")?;
    /// let mut bytes = 0;
    /// for entry in &backup {
    ///     let (key, value) = entry?;
    ///     bytes += key.len() + value.len();
    /// }
    /// assert_eq!(bytes, 4);
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
    /// db.put("b", "2")?;
    /// let before = db.snapshot();
    /// db.put("a", "1")?;
    /// assert_eq!(before.first()?.unwrap().0, "b");
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
    /// db.put("b", "2")?;
    /// let before = db.snapshot();
    /// db.put("c", "3")?;
    /// assert_eq!(before.last()?.unwrap().0, "b");
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
    /// let before = db.snapshot();
    /// db.put("apple", "red")?;
    /// assert!(before.is_empty()?);
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
    ///
    /// ```
    /// # fn main() -> criba::Result<()> {
    /// # let dir = tempfile::tempdir().unwrap();
    /// # let db = criba::Db::open(dir.path().join("data"))?;
    /// db.put("a", "1")?;
    /// let before = db.snapshot();
    /// db.put("b", "2")?;
    /// assert_eq!(before.len()?, 1);
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

    /// Sequence of the newest write that the snapshot sees.
    ///
    /// ```
    /// # fn main() -> criba::Result<()> {
    /// # let dir = tempfile::tempdir().unwrap();
    /// # let db = criba::Db::open(dir.path().join("data"))?;
    /// db.put("a", "1")?;
    /// db.batch().put("b", "2").delete("a").commit()?;
    /// let snapshot = db.snapshot();
    /// assert_eq!(snapshot.sequence(), 3);
    /// // Nothing was written since.
    /// assert_eq!(snapshot.sequence(), db.stats().sequence);
    /// # Ok(())
    /// # }
    /// ```
    pub fn sequence(&self) -> u64 {
        self.held.sequence.0
    }
}

impl IntoIterator for &Snapshot {
    type Item = Result<(Slice, Slice)>;
    type IntoIter = Iter;

    fn into_iter(self) -> Iter {
        self.iter()
    }
}

impl fmt::Debug for Snapshot {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Snapshot")
            .field("sequence", &self.held.sequence.0)
            .finish()
    }
}
