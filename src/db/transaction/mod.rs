//! Reads and writes that happen as if at one moment, or not at all.

mod iter;
mod keyspace;
mod retry;
mod single;
mod state;

use std::fmt;

use crate::bounds::KeyRange;
use crate::error::Result;
use crate::options::Durability;
use crate::services::Reader;
use crate::slice::Slice;
use crate::store::Changes;
use crate::tree::Watched;

use super::keyspace::Keyspace;
use super::snapshot::Snapshot;

pub use iter::TransactionIter;
pub use keyspace::{TransactionKeyspace, TransactionKeyspaceMut};
pub use state::Isolation;

use state::State;

impl Keyspace {
    /// Begins a serializable transaction. It sees the store as it is now.
    ///
    /// ```
    /// use criba::Error;
    ///
    /// # fn main() -> criba::Result<()> {
    /// # let dir = tempfile::tempdir().unwrap();
    /// # let db = criba::Db::open(dir.path().join("data"))?;
    /// db.put("seat 17A", "free")?;
    /// let book = |name: &str| -> criba::Result<_> {
    ///     let mut booking = db.transaction();
    ///     assert_eq!(booking.get("seat 17A")?.unwrap(), "free");
    ///     booking.put("seat 17A", name)?;
    ///     Ok(booking)
    /// };
    /// let (alice, bob) = (book("Alice")?, book("Bob")?);
    /// alice.commit()?;
    /// assert!(matches!(bob.commit(), Err(Error::Conflict(_))));
    /// assert_eq!(db.get("seat 17A")?.unwrap(), "Alice");
    /// # Ok(())
    /// # }
    /// ```
    pub fn transaction(&self) -> Transaction {
        self.transaction_with(Isolation::default())
    }

    /// Begins a transaction of this level. It sees the store as it is now.
    ///
    /// ```
    /// use criba::Isolation;
    ///
    /// # fn main() -> criba::Result<()> {
    /// # let dir = tempfile::tempdir().unwrap();
    /// # let db = criba::Db::open(dir.path().join("data"))?;
    /// db.put("visits", "1")?;
    /// let mut report = db.transaction_with(Isolation::Snapshot);
    /// let visits = report.get("visits")?.unwrap();
    /// report.put("report", format!("{} visits", visits.escape_ascii()))?;
    /// // It has read what changes now, but does not write it.
    /// db.put("visits", "2")?;
    /// report.commit()?;
    /// assert_eq!(db.get("report")?.unwrap(), "1 visits");
    /// # Ok(())
    /// # }
    /// ```
    pub fn transaction_with(&self, isolation: Isolation) -> Transaction {
        Transaction {
            snapshot: Snapshot::take_for(self.store(), self.tree(), Reader::Transaction),
            state: State::new(isolation),
        }
    }
}

/// Reads of one moment and writes that are made together, if nothing that they rely on has changed.
///
/// Begun by [`Keyspace::transaction`]. It sees the store as it was then, with its own writes on top. Nobody
/// else sees its writes before [`Transaction::commit`]; one that is dropped is forgotten. No lock is
/// held while it runs: others read and write freely, and `commit` says [`Error::Conflict`] if one of
/// them was faster. [`Keyspace::transact`] runs it again in that case.
///
/// Its writes, and what it has read, stay in memory. From 16 MiB of keys on, neighbouring keys and
/// ranges that it has read are watched as one range, so it may meet conflicts that are none. While it
/// lives, versions that it sees are kept on disk, as for a [`Snapshot`]. It can be
/// sent to another thread, but not shared.
///
/// [`Error::Conflict`]: crate::Error::Conflict
///
/// ```
/// # fn main() -> criba::Result<()> {
/// # let dir = tempfile::tempdir().unwrap();
/// # let db = criba::Db::open(dir.path().join("data"))?;
/// db.put("queue/1", "wash")?;
/// db.put("queue/2", "iron")?;
/// // Takes the oldest job and notes that it is under way.
/// let mut tx = db.transaction();
/// let (job, what) = tx.prefix("queue/").next().unwrap()?;
/// tx.delete(&job)?;
/// tx.put("under way", &what)?;
/// assert_eq!(tx.prefix("queue/").count(), 1);
/// assert_eq!(db.prefix("queue/").count(), 2);
/// tx.commit()?;
/// assert_eq!(db.prefix("queue/").count(), 1);
/// assert_eq!(db.get("under way")?.unwrap(), "wash");
/// # Ok(())
/// # }
/// ```
pub struct Transaction {
    snapshot: Snapshot,
    state: State,
}

// Keyspaces.
impl Transaction {
    /// The transaction, for reads of another keyspace.
    ///
    /// ```
    /// # fn main() -> criba::Result<()> {
    /// # let dir = tempfile::tempdir().unwrap();
    /// # let db = criba::Db::open(dir.path().join("data"))?;
    /// let users = db.keyspace("users")?;
    /// users.put("17", "Ada")?;
    /// let tx = db.transaction();
    /// users.put("17", "Grace")?;
    /// assert_eq!(tx.keyspace(&users).get("17")?.unwrap(), "Ada");
    /// # Ok(())
    /// # }
    /// ```
    pub fn keyspace(&self, keyspace: &Keyspace) -> TransactionKeyspace<'_> {
        TransactionKeyspace::new(&self.state, self.snapshot.keyspace(keyspace))
    }

    /// The transaction, for writes to another keyspace.
    ///
    /// ```
    /// # fn main() -> criba::Result<()> {
    /// # let dir = tempfile::tempdir().unwrap();
    /// # let db = criba::Db::open(dir.path().join("data"))?;
    /// // A user has one address, and no other user has the same: a unique index.
    /// let (users, emails) = (db.keyspace("users")?, db.keyspace("emails")?);
    /// let added = db.transact(|tx| {
    ///     if tx.keyspace(&emails).contains_key("ada@example.org")? {
    ///         return Ok::<bool, criba::Error>(false);
    ///     }
    ///     tx.keyspace_mut(&users).put("17", "ada@example.org")?;
    ///     tx.keyspace_mut(&emails).put("ada@example.org", "17")?;
    ///     Ok(true)
    /// })?;
    /// assert!(added && emails.contains_key("ada@example.org")?);
    /// # Ok(())
    /// # }
    /// ```
    pub fn keyspace_mut(&mut self, keyspace: &Keyspace) -> TransactionKeyspaceMut<'_> {
        let is_foreign = !keyspace.is_of_store(self.snapshot.store());
        let store = self.snapshot.store();
        TransactionKeyspaceMut::new(&mut self.state, store, keyspace.tree(), is_foreign)
    }
}

// Reads.
impl Transaction {
    /// The value of a key: that which this transaction has put, or else the one of the moment at
    /// which it began. Costs what [`Keyspace::get`](crate::Keyspace::get) costs.
    ///
    /// ```
    /// # fn main() -> criba::Result<()> {
    /// # let dir = tempfile::tempdir().unwrap();
    /// # let db = criba::Db::open(dir.path().join("data"))?;
    /// db.put("apple", "green")?;
    /// let mut tx = db.transaction();
    /// db.put("apple", "brown")?;
    /// assert_eq!(tx.get("apple")?.unwrap(), "green");
    /// tx.put("apple", "red")?;
    /// assert_eq!(tx.get("apple")?.unwrap(), "red");
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    ///
    /// As for [`Keyspace::get`](crate::Keyspace::get).
    pub fn get(&self, key: impl AsRef<[u8]>) -> Result<Option<Slice>> {
        self.in_own().get(key)
    }

    /// The values of many keys, in their order: see [`Keyspace::get_many`](crate::Keyspace::get_many).
    ///
    /// ```
    /// # fn main() -> criba::Result<()> {
    /// # let dir = tempfile::tempdir().unwrap();
    /// # let db = criba::Db::open(dir.path().join("data"))?;
    /// db.put("a", "1")?;
    /// let mut tx = db.transaction();
    /// tx.put("b", "2")?;
    /// let values = tx.get_many(["a", "b", "c"])?;
    /// assert_eq!(values[0].as_deref(), Some(&b"1"[..]));
    /// assert_eq!(values[1].as_deref(), Some(&b"2"[..]));
    /// assert_eq!(values[2], None);
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
        self.in_own().get_many(keys)
    }

    /// Whether the key has a value. Costs as much as [`Transaction::get`].
    ///
    /// ```
    /// # fn main() -> criba::Result<()> {
    /// # let dir = tempfile::tempdir().unwrap();
    /// # let db = criba::Db::open(dir.path().join("data"))?;
    /// db.put("apple", "red")?;
    /// let mut tx = db.transaction();
    /// tx.delete("apple")?;
    /// assert!(!tx.contains_key("apple")?);
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    ///
    /// As for [`Transaction::get`].
    pub fn contains_key(&self, key: impl AsRef<[u8]>) -> Result<bool> {
        Ok(self.get(key)?.is_some())
    }

    /// The entries of a range of keys, in key order, from both ends: those of the moment at which
    /// the transaction began, with its own writes. To write while it is in use, collect first.
    ///
    /// The range counts as read up to the last entry that was returned, from either end, and as a
    /// whole once the iterator has ended. Others may write to the rest of it without a conflict.
    ///
    /// ```
    /// # fn main() -> criba::Result<()> {
    /// # let dir = tempfile::tempdir().unwrap();
    /// # let db = criba::Db::open(dir.path().join("data"))?;
    /// for name in ["alice", "bob", "carol"] {
    ///     db.put(name, "")?;
    /// }
    /// let mut tx = db.transaction();
    /// let (first, _) = tx.range("a"..).next().unwrap()?;
    /// tx.put("first", &first)?;
    /// // That comes behind what was read.
    /// db.put("dave", "")?;
    /// tx.commit()?;
    ///
    /// let mut tx = db.transaction();
    /// let count = tx.range("a".."f").count();
    /// tx.put("people", format!("{count}"))?;
    /// // That does not.
    /// db.put("eve", "")?;
    /// assert!(tx.commit().is_err());
    /// # Ok(())
    /// # }
    /// ```
    pub fn range(&self, range: impl KeyRange) -> TransactionIter<'_> {
        self.in_own().range(range)
    }

    /// The entries whose keys begin with `prefix`: see [`Transaction::range`].
    ///
    /// ```
    /// # fn main() -> criba::Result<()> {
    /// # let dir = tempfile::tempdir().unwrap();
    /// # let db = criba::Db::open(dir.path().join("data"))?;
    /// db.put("cart/apple", "3")?;
    /// let mut tx = db.transaction();
    /// tx.put("cart/banana", "1")?;
    /// let (last, _) = tx.prefix("cart/").next_back().unwrap()?;
    /// assert_eq!(last, "cart/banana");
    /// # Ok(())
    /// # }
    /// ```
    pub fn prefix(&self, prefix: impl AsRef<[u8]>) -> TransactionIter<'_> {
        self.in_own().prefix(prefix)
    }

    /// All entries: see [`Transaction::range`].
    ///
    /// ```
    /// # fn main() -> criba::Result<()> {
    /// # let dir = tempfile::tempdir().unwrap();
    /// # let db = criba::Db::open(dir.path().join("data"))?;
    /// db.put("a", "1")?;
    /// let mut tx = db.transaction();
    /// tx.put("b", "2")?;
    /// tx.delete("a")?;
    /// let keys = tx.iter().map(|entry| Ok(entry?.0));
    /// assert_eq!(keys.collect::<criba::Result<Vec<_>>>()?, ["b"]);
    /// # Ok(())
    /// # }
    /// ```
    pub fn iter(&self) -> TransactionIter<'_> {
        self.prefix(b"")
    }

    /// The keyspace from which the transaction was begun.
    fn in_own(&self) -> TransactionKeyspace<'_> {
        TransactionKeyspace::new(&self.state, self.snapshot.clone())
    }
}

impl<'a> IntoIterator for &'a Transaction {
    type Item = Result<(Slice, Slice)>;
    type IntoIter = TransactionIter<'a>;

    fn into_iter(self) -> TransactionIter<'a> {
        self.iter()
    }
}

// Writes.
impl Transaction {
    /// Sets the value of a key, for this transaction now, and for all once it is committed.
    ///
    /// ```
    /// # fn main() -> criba::Result<()> {
    /// # let dir = tempfile::tempdir().unwrap();
    /// # let db = criba::Db::open(dir.path().join("data"))?;
    /// let mut tx = db.transaction();
    /// tx.put("apple", "red")?;
    /// assert_eq!(db.get("apple")?, None);
    /// tx.commit()?;
    /// assert_eq!(db.get("apple")?.unwrap(), "red");
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    ///
    /// [`Error::Invalid`](crate::Error::Invalid) for a key or value beyond the limits of
    /// [`Keyspace::put`]: the transaction is as it was before.
    pub fn put(&mut self, key: impl AsRef<[u8]>, value: impl AsRef<[u8]>) -> Result<()> {
        self.set(key.as_ref(), Some(value.as_ref()))
    }

    /// Deletes a key, for this transaction now, and for all once it is committed. It is no error if
    /// the key is not there.
    ///
    /// ```
    /// # fn main() -> criba::Result<()> {
    /// # let dir = tempfile::tempdir().unwrap();
    /// # let db = criba::Db::open(dir.path().join("data"))?;
    /// db.put("draft", "text")?;
    /// let mut tx = db.transaction();
    /// tx.delete("draft")?;
    /// assert!(!tx.contains_key("draft")? && db.contains_key("draft")?);
    /// tx.commit()?;
    /// assert!(!db.contains_key("draft")?);
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    ///
    /// As for [`Transaction::put`].
    pub fn delete(&mut self, key: impl AsRef<[u8]>) -> Result<()> {
        self.set(key.as_ref(), None)
    }

    /// Adds an operand to a key: the operator of the keyspace combines it with what is there when the
    /// transaction commits. It reads nothing, so merges of several transactions do not conflict with
    /// each other. A lookup of the key within the transaction is a read, as of any other.
    ///
    /// ```
    /// use criba::operator::Add;
    ///
    /// # fn main() -> criba::Result<()> {
    /// # let dir = tempfile::tempdir().unwrap();
    /// # let path = dir.path().join("data");
    /// let db = criba::Db::builder(path).operator(Add::u64()).open()?;
    /// let mut tx = db.transaction();
    /// tx.put("order/17", "apples")?;
    /// tx.merge("orders", 1_u64.to_le_bytes())?;
    /// db.merge("orders", 1_u64.to_le_bytes())?;
    /// tx.commit()?;
    /// assert_eq!(db.get("orders")?.unwrap(), 2_u64.to_le_bytes());
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    ///
    /// As for [`Transaction::put`]; [`Error::Invalid`](crate::Error::Invalid) without an operator, and
    /// [`Error::Operator`](crate::Error::Operator) when it fails on a value that the transaction has
    /// put itself.
    pub fn merge(&mut self, key: impl AsRef<[u8]>, operand: impl AsRef<[u8]>) -> Result<()> {
        let tree = self.snapshot.tree();
        self.snapshot.store().check_merges(tree)?;
        self.state.merge(tree, key.as_ref(), operand.as_ref())
    }

    fn set(&mut self, key: &[u8], value: Option<&[u8]>) -> Result<()> {
        self.state.set(self.snapshot.tree(), key, value)
    }

    /// Makes the writes visible and durable together, with the durability of the store's options.
    /// One that has written nothing has nothing to commit: it succeeds, and waits for nobody.
    ///
    /// Costs no read of the disk for what was written before the transaction began. A key that was
    /// read costs at most one read for each run that has newer entries and whose filter does not rule
    /// the key out, a range the blocks of such runs that it covers. None of these reads is made under
    /// a lock.
    ///
    /// ```
    /// use criba::Error;
    ///
    /// # fn main() -> criba::Result<()> {
    /// # let dir = tempfile::tempdir().unwrap();
    /// # let db = criba::Db::open(dir.path().join("data"))?;
    /// db.put("stock", "1")?;
    /// let mut order = db.transaction();
    /// if order.get("stock")?.unwrap() == "1" {
    ///     order.put("stock", "0")?;
    ///     order.put("order", "one bicycle")?;
    /// }
    /// match order.commit() {
    ///     Ok(()) => {}
    ///     Err(Error::Conflict(conflict)) => eprintln!("{conflict} has changed; try again"),
    ///     Err(error) => return Err(error),
    /// }
    /// # assert!(db.contains_key("order")?);
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    ///
    /// [`Error::Conflict`](crate::Error::Conflict) with a key or range that others have changed, or,
    /// in a FIFO store that dropped newer entries than the transaction could see, may have changed:
    /// nothing is written.
    /// [`Error::Invalid`](crate::Error::Invalid) beyond the limits of a [`Batch`](crate::Batch),
    /// [`Error::Closed`](crate::Error::Closed) and [`Error::ReadOnly`](crate::Error::ReadOnly):
    /// nothing is written. [`Error::Poisoned`](crate::Error::Poisoned): the outcome is unknown until
    /// the store is opened again. Other errors as for [`Keyspace::get`] and [`Keyspace::put`]: nothing is written.
    pub fn commit(self) -> Result<()> {
        let durability = self.snapshot.store().options().durability;
        self.commit_with(durability)
    }

    /// Commits with this durability.
    ///
    /// ```
    /// use criba::Durability;
    ///
    /// # fn main() -> criba::Result<()> {
    /// # let dir = tempfile::tempdir().unwrap();
    /// # let db = criba::Db::open(dir.path().join("data"))?;
    /// let before = db.stats().syncs;
    /// let mut tx = db.transaction();
    /// tx.put("order", "17 apples")?;
    /// tx.commit_with(Durability::Sync)?;
    /// assert!(db.stats().syncs > before);
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    ///
    /// As for [`Transaction::commit`].
    pub fn commit_with(self, durability: Durability) -> Result<()> {
        self.snapshot.check()?;
        let Transaction { snapshot, state } = &self;
        let State {
            isolation,
            reads,
            writes,
        } = state;
        let reads = reads.borrow();
        let watched = match isolation {
            Isolation::Serializable => {
                let reads = reads.values();
                let watched = reads.map(|(tree, reads)| (&**tree, Watched::Reads(reads)));
                watched.collect()
            }
            Isolation::Snapshot => {
                let writes = writes.values();
                let watched = writes.map(|(tree, writes)| (&**tree, Watched::Writes(writes)));
                watched.collect()
            }
        };
        let changes = Changes {
            since: snapshot.at(),
            watched,
            writes,
        };
        snapshot.store().commit_changes(&changes, durability)
    }
}

#[cfg(test)]
impl Transaction {
    pub(crate) fn sequence(&self) -> crate::key::Sequence {
        self.snapshot.at()
    }
}

impl fmt::Debug for Transaction {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let writes: usize = self
            .state
            .writes
            .values()
            .map(|(_, writes)| writes.len())
            .sum();
        f.debug_struct("Transaction")
            .field("sequence", &self.snapshot.sequence())
            .field("isolation", &self.state.isolation)
            .field("writes", &writes)
            .finish_non_exhaustive()
    }
}
