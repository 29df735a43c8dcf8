//! A transaction, for the keys of one keyspace.

use std::sync::Arc;

use crate::bounds::{Bounds, KeyRange, prefix_bounds};
use crate::error::{Error, Result};
use crate::slice::Slice;
use crate::store::Store;
use crate::tree::{ReadSet, Tree, Write};

use super::super::snapshot::Snapshot;
use super::iter::TransactionIter;
use super::state::{Isolation, State, outcome};

/// A transaction, for reads of one keyspace: see [`Transaction::keyspace`](crate::Transaction::keyspace).
///
/// Of a keyspace of another store, each read returns [`Error::Invalid`].
///
/// ```
/// # fn main() -> criba::Result<()> {
/// # let dir = tempfile::tempdir().unwrap();
/// # let db = criba::Db::open(dir.path().join("data"))?;
/// let users = db.keyspace("users")?;
/// users.put("17", "Ada")?;
/// let tx = db.transaction();
/// let of_users = tx.keyspace(&users);
/// assert!(of_users.contains_key("17")?);
/// assert_eq!(of_users.iter().count(), 1);
/// # Ok(())
/// # }
/// ```
#[derive(Debug)]
pub struct TransactionKeyspace<'a> {
    state: &'a State,
    /// That of the transaction, in this keyspace.
    snapshot: Snapshot,
}

impl<'a> TransactionKeyspace<'a> {
    pub(super) fn new(state: &'a State, snapshot: Snapshot) -> TransactionKeyspace<'a> {
        TransactionKeyspace { state, snapshot }
    }

    /// The value of a key: see [`Transaction::get`](crate::Transaction::get).
    ///
    /// ```
    /// # fn main() -> criba::Result<()> {
    /// # let dir = tempfile::tempdir().unwrap();
    /// # let db = criba::Db::open(dir.path().join("data"))?;
    /// let users = db.keyspace("users")?;
    /// assert_eq!(db.transaction().keyspace(&users).get("17")?, None);
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    ///
    /// As for [`Transaction::get`](crate::Transaction::get).
    pub fn get(&self, key: impl AsRef<[u8]>) -> Result<Option<Slice>> {
        let key = key.as_ref();
        let stored = || {
            self.note_read(key);
            self.snapshot.get(key)
        };
        match self.own(key) {
            None => stored(),
            Some(write) => {
                self.snapshot.check()?;
                outcome(self.tree(), key, write, stored)
            }
        }
    }

    /// The values of many keys: see [`Transaction::get_many`](crate::Transaction::get_many).
    ///
    /// ```
    /// # fn main() -> criba::Result<()> {
    /// # let dir = tempfile::tempdir().unwrap();
    /// # let db = criba::Db::open(dir.path().join("data"))?;
    /// let users = db.keyspace("users")?;
    /// users.put("1", "Ada")?;
    /// let found = db.transaction().keyspace(&users).get_many(["1", "2"])?;
    /// assert!(found[0].is_some() && found[1].is_none());
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    ///
    /// As for [`Transaction::get`](crate::Transaction::get).
    pub fn get_many<K: AsRef<[u8]>>(
        &self,
        keys: impl IntoIterator<Item = K>,
    ) -> Result<Vec<Option<Slice>>> {
        let keys = Vec::from_iter(keys);
        let is_own = |key: &K| self.own(key.as_ref()).is_some();
        let others = keys.iter().filter(|key| !is_own(key));
        let others: Vec<&[u8]> = others.map(AsRef::as_ref).collect();
        for key in &others {
            self.note_read(key);
        }
        let mut found = self.snapshot.get_many(&others)?.into_iter();
        let value = |key: &K| match is_own(key) {
            true => self.get(key),
            false => Ok(found.next().flatten()),
        };
        keys.iter().map(value).collect()
    }

    /// Whether there is a value for the key.
    ///
    /// ```
    /// # fn main() -> criba::Result<()> {
    /// # let dir = tempfile::tempdir().unwrap();
    /// # let db = criba::Db::open(dir.path().join("data"))?;
    /// let users = db.keyspace("users")?;
    /// assert!(!db.transaction().keyspace(&users).contains_key("17")?);
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    ///
    /// As for [`Transaction::get`](crate::Transaction::get).
    pub fn contains_key(&self, key: impl AsRef<[u8]>) -> Result<bool> {
        Ok(self.get(key)?.is_some())
    }

    /// The entries of a range of keys, from both ends: see [`Transaction::range`](crate::Transaction::range).
    ///
    /// ```
    /// # fn main() -> criba::Result<()> {
    /// # let dir = tempfile::tempdir().unwrap();
    /// # let db = criba::Db::open(dir.path().join("data"))?;
    /// let users = db.keyspace("users")?;
    /// users.put("1", "Ada")?;
    /// let tx = db.transaction();
    /// assert_eq!(tx.keyspace(&users).range("1".."2").count(), 1);
    /// # Ok(())
    /// # }
    /// ```
    pub fn range(&self, range: impl KeyRange) -> TransactionIter<'a> {
        self.walk(range.into_bounds())
    }

    /// The entries whose keys begin with `prefix`.
    ///
    /// ```
    /// # fn main() -> criba::Result<()> {
    /// # let dir = tempfile::tempdir().unwrap();
    /// # let db = criba::Db::open(dir.path().join("data"))?;
    /// let users = db.keyspace("users")?;
    /// users.put("ada/1", "")?;
    /// let tx = db.transaction();
    /// assert_eq!(tx.keyspace(&users).prefix("ada/").count(), 1);
    /// # Ok(())
    /// # }
    /// ```
    pub fn prefix(&self, prefix: impl AsRef<[u8]>) -> TransactionIter<'a> {
        self.walk(prefix_bounds(prefix.as_ref()))
    }

    /// All entries.
    ///
    /// ```
    /// # fn main() -> criba::Result<()> {
    /// # let dir = tempfile::tempdir().unwrap();
    /// # let db = criba::Db::open(dir.path().join("data"))?;
    /// let users = db.keyspace("users")?;
    /// let tx = db.transaction();
    /// for entry in tx.keyspace(&users).iter() {
    ///     let (_key, _value) = entry?;
    /// }
    /// # Ok(())
    /// # }
    /// ```
    pub fn iter(&self) -> TransactionIter<'a> {
        self.prefix(b"")
    }

    fn walk(&self, bounds: Bounds) -> TransactionIter<'a> {
        let stored = self.snapshot.walk(bounds.clone());
        let is_checked = self.state.isolation == Isolation::Serializable;
        let reads = is_checked.then_some(&self.state.reads);
        let written = self.state.writes.get(&self.tree().id());
        let written = written.map(|(_, writes)| writes);
        TransactionIter::new((self.tree(), bounds), stored, written, reads)
    }

    fn tree(&self) -> &Arc<Tree> {
        self.snapshot.tree()
    }

    fn own(&self, key: &[u8]) -> Option<&'a Write> {
        let (_, writes) = self.state.writes.get(&self.tree().id())?;
        writes.get(key)
    }

    fn note_read(&self, key: &[u8]) {
        if self.state.isolation == Isolation::Serializable {
            let mut reads = self.state.reads.borrow_mut();
            let (_, reads) = reads.entry(self.tree().id()).or_insert_with(|| {
                let tree = Arc::clone(self.tree());
                (tree, ReadSet::default())
            });
            reads.add_key(key);
        }
    }
}

/// A transaction, for writes to one keyspace: see [`Transaction::keyspace_mut`](crate::Transaction::keyspace_mut).
///
/// ```
/// # fn main() -> criba::Result<()> {
/// # let dir = tempfile::tempdir().unwrap();
/// # let db = criba::Db::open(dir.path().join("data"))?;
/// let users = db.keyspace("users")?;
/// let mut tx = db.transaction();
/// let mut of_users = tx.keyspace_mut(&users);
/// of_users.put("1", "Ada")?;
/// of_users.put("2", "Grace")?;
/// tx.commit()?;
/// assert_eq!(users.len()?, 2);
/// # Ok(())
/// # }
/// ```
#[derive(Debug)]
pub struct TransactionKeyspaceMut<'a> {
    state: &'a mut State,
    store: Arc<Store>,
    tree: Arc<Tree>,
    /// The keyspace is one of another store.
    is_foreign: bool,
}

impl<'a> TransactionKeyspaceMut<'a> {
    /// For the keyspace of a tree in `store`, or in another one.
    pub(super) fn new(
        state: &'a mut State,
        store: &Arc<Store>,
        tree: &Arc<Tree>,
        is_foreign: bool,
    ) -> TransactionKeyspaceMut<'a> {
        TransactionKeyspaceMut {
            state,
            store: Arc::clone(store),
            tree: Arc::clone(tree),
            is_foreign,
        }
    }

    /// Sets the value of a key: see [`Transaction::put`](crate::Transaction::put).
    ///
    /// ```
    /// # fn main() -> criba::Result<()> {
    /// # let dir = tempfile::tempdir().unwrap();
    /// # let db = criba::Db::open(dir.path().join("data"))?;
    /// let users = db.keyspace("users")?;
    /// let mut tx = db.transaction();
    /// tx.keyspace_mut(&users).put("1", "Ada")?;
    /// tx.commit()?;
    /// assert_eq!(users.get("1")?.unwrap(), "Ada");
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    ///
    /// As for [`Transaction::put`](crate::Transaction::put); [`Error::Invalid`] for a keyspace of another store.
    pub fn put(&mut self, key: impl AsRef<[u8]>, value: impl AsRef<[u8]>) -> Result<()> {
        self.set(key.as_ref(), Some(value.as_ref()))
    }

    /// Deletes a key: see [`Transaction::delete`](crate::Transaction::delete).
    ///
    /// ```
    /// # fn main() -> criba::Result<()> {
    /// # let dir = tempfile::tempdir().unwrap();
    /// # let db = criba::Db::open(dir.path().join("data"))?;
    /// let users = db.keyspace("users")?;
    /// users.put("1", "Ada")?;
    /// let mut tx = db.transaction();
    /// tx.keyspace_mut(&users).delete("1")?;
    /// tx.commit()?;
    /// assert!(users.is_empty()?);
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    ///
    /// As for [`TransactionKeyspaceMut::put`].
    pub fn delete(&mut self, key: impl AsRef<[u8]>) -> Result<()> {
        self.set(key.as_ref(), None)
    }

    /// Adds an operand to a key: see [`Transaction::merge`](crate::Transaction::merge).
    ///
    /// ```
    /// use criba::operator::Add;
    ///
    /// # fn main() -> criba::Result<()> {
    /// # let dir = tempfile::tempdir().unwrap();
    /// # let db = criba::Db::open(dir.path().join("data"))?;
    /// let counters = db.keyspace_with("counters", |options| options.operator(Add::u64()))?;
    /// let mut tx = db.transaction();
    /// tx.keyspace_mut(&counters).merge("visits", 1_u64.to_le_bytes())?;
    /// tx.commit()?;
    /// assert_eq!(counters.get("visits")?.unwrap(), 1_u64.to_le_bytes());
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    ///
    /// As for [`Transaction::merge`](crate::Transaction::merge); [`Error::Invalid`] for a keyspace of
    /// another store.
    pub fn merge(&mut self, key: impl AsRef<[u8]>, operand: impl AsRef<[u8]>) -> Result<()> {
        self.check()?;
        self.store.check_merges(&self.tree)?;
        self.state.merge(&self.tree, key.as_ref(), operand.as_ref())
    }

    fn set(&mut self, key: &[u8], value: Option<&[u8]>) -> Result<()> {
        self.check()?;
        self.state.set(&self.tree, key, value)
    }

    fn check(&self) -> Result<()> {
        if self.is_foreign {
            let what = "a transaction of one store cannot write to a keyspace of another";
            return Err(Error::Invalid(what.into()));
        }
        Ok(())
    }
}
