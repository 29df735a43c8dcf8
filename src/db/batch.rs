//! Writes that are made together.

use crate::error::{Error, Result};
use crate::options::Durability;
use crate::store::Operations;
use crate::tree::Tree;

use super::keyspace::Keyspace;

impl Keyspace {
    /// Begins a batch of writes that are committed together.
    ///
    /// ```
    /// # fn main() -> criba::Result<()> {
    /// # let dir = tempfile::tempdir().unwrap();
    /// # let db = criba::Db::open(dir.path().join("data"))?;
    /// db.put("alice", "70")?;
    /// let mut transfer = db.batch();
    /// transfer.put("alice", "50").put("bob", "20");
    /// // Nobody sees a part of it.
    /// assert_eq!(db.get("alice")?.unwrap(), "70");
    /// transfer.commit()?;
    /// assert_eq!(db.get("alice")?.unwrap(), "50");
    /// assert_eq!(db.get("bob")?.unwrap(), "20");
    /// # Ok(())
    /// # }
    /// ```
    pub fn batch(&self) -> Batch {
        Batch::new(self)
    }
}

/// Writes that become visible and durable together or not at all.
///
/// Made by [`Keyspace::batch`]. Nothing happens before [`Batch::commit`]; a dropped batch is forgotten.
/// Later operations on a key win over earlier ones.
///
/// Keys and values are limited as for [`Keyspace::put`], the whole batch to a little less than 4 GiB and
/// 2^28 operations. `commit` refuses a batch beyond a limit and writes nothing of it.
///
/// ```
/// # fn main() -> criba::Result<()> {
/// # let dir = tempfile::tempdir().unwrap();
/// # let db = criba::Db::open(dir.path().join("data"))?;
/// let mut batch = db.batch();
/// for number in 0..1000 {
///     batch.put(format!("{number:04}"), "row");
/// }
/// batch.delete("0007");
/// batch.commit()?;
/// assert_eq!(db.len()?, 999);
/// // Each operation has a number of its own.
/// assert_eq!(db.stats().sequence, 1001);
/// # Ok(())
/// # }
/// ```
#[derive(Debug, Clone)]
pub struct Batch {
    /// That whose keys `put` and `delete` mean.
    keyspace: Keyspace,
    operations: Operations,
    /// Other keyspaces that are written.
    others: Vec<Keyspace>,
}

impl Batch {
    fn new(keyspace: &Keyspace) -> Batch {
        Batch {
            keyspace: keyspace.clone(),
            operations: Operations::default(),
            others: Vec::new(),
        }
    }

    /// The batch, for operations on another keyspace.
    ///
    /// ```
    /// # fn main() -> criba::Result<()> {
    /// # let dir = tempfile::tempdir().unwrap();
    /// # let db = criba::Db::open(dir.path().join("data"))?;
    /// let (todo, done) = (db.keyspace("todo")?, db.keyspace("done")?);
    /// todo.put("1", "write the letter")?;
    /// let mut batch = todo.batch();
    /// batch.delete("1");
    /// batch.keyspace(&done).put("1", "write the letter");
    /// batch.commit()?;
    /// assert!(todo.is_empty()? && done.contains_key("1")?);
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// With a keyspace of another store, the commit returns [`Error::Invalid`] and writes nothing.
    pub fn keyspace(&mut self, keyspace: &Keyspace) -> BatchKeyspace<'_> {
        if !keyspace.is_of_store(self.keyspace.store()) {
            let what = "a batch of one store cannot write to a keyspace of another";
            self.operations.refuse(Error::Invalid(what.into()));
        }
        let id = keyspace.tree().id();
        let mut known = std::iter::once(&self.keyspace).chain(&self.others);
        if !known.any(|one| one.tree().id() == id) {
            self.others.push(keyspace.clone());
        }
        BatchKeyspace {
            keyspace: keyspace.clone(),
            operations: &mut self.operations,
        }
    }

    /// Adds a put.
    ///
    /// ```
    /// # fn main() -> criba::Result<()> {
    /// # let dir = tempfile::tempdir().unwrap();
    /// # let db = criba::Db::open(dir.path().join("data"))?;
    /// let mut batch = db.batch();
    /// batch.put("apple", "green").put("apple", "red");
    /// batch.commit()?;
    /// assert_eq!(db.get("apple")?.unwrap(), "red");
    /// # Ok(())
    /// # }
    /// ```
    pub fn put(&mut self, key: impl AsRef<[u8]>, value: impl AsRef<[u8]>) -> &mut Batch {
        let id = self.keyspace.tree().id();
        self.operations.put(id, key.as_ref(), value.as_ref());
        self
    }

    /// Adds an operand, which the operator of the store combines with the older entries of the key:
    /// see [`Keyspace::merge`]. Without an operator `commit` refuses the batch.
    ///
    /// ```
    /// use criba::{Db, operator::Add};
    ///
    /// # fn main() -> criba::Result<()> {
    /// # let dir = tempfile::tempdir().unwrap();
    /// # let path = dir.path().join("data");
    /// let db = Db::builder(&path).operator(Add::i64()).open()?;
    /// let (one, less) = (1_i64.to_le_bytes(), (-1_i64).to_le_bytes());
    /// db.batch().merge("sold", one).merge("stock", less).commit()?;
    /// assert_eq!(Add::to_i64(&db.get("stock")?.unwrap()), Some(-1));
    /// # Ok(())
    /// # }
    /// ```
    pub fn merge(&mut self, key: impl AsRef<[u8]>, operand: impl AsRef<[u8]>) -> &mut Batch {
        let operations = &mut self.operations;
        merge_to(&self.keyspace, operations, key.as_ref(), operand.as_ref());
        self
    }

    /// Adds a delete. Deleting a key that is not there is no error.
    ///
    /// ```
    /// # fn main() -> criba::Result<()> {
    /// # let dir = tempfile::tempdir().unwrap();
    /// # let db = criba::Db::open(dir.path().join("data"))?;
    /// db.put("draft", "some text")?;
    /// db.batch().put("final", "some text").delete("draft").commit()?;
    /// assert!(!db.contains_key("draft")?);
    /// # Ok(())
    /// # }
    /// ```
    pub fn delete(&mut self, key: impl AsRef<[u8]>) -> &mut Batch {
        let id = self.keyspace.tree().id();
        self.operations.delete(id, key.as_ref());
        self
    }

    /// Operations so far.
    ///
    /// ```
    /// # fn main() -> criba::Result<()> {
    /// # let dir = tempfile::tempdir().unwrap();
    /// # let db = criba::Db::open(dir.path().join("data"))?;
    /// let mut batch = db.batch();
    /// batch.put("a", "1").put("a", "2").delete("b");
    /// assert_eq!(batch.len(), 3);
    /// # Ok(())
    /// # }
    /// ```
    pub fn len(&self) -> usize {
        self.operations.count() as usize
    }

    /// Whether there is nothing to commit.
    ///
    /// ```
    /// # fn main() -> criba::Result<()> {
    /// # let dir = tempfile::tempdir().unwrap();
    /// # let db = criba::Db::open(dir.path().join("data"))?;
    /// let mut batch = db.batch();
    /// assert!(batch.is_empty());
    /// batch.put("a", "1");
    /// assert!(!batch.is_empty());
    /// batch.commit()?;
    /// // It can be filled again.
    /// assert!(batch.is_empty());
    /// # Ok(())
    /// # }
    /// ```
    pub fn is_empty(&self) -> bool {
        self.operations.count() == 0
    }

    /// Commits with the durability of the store's options. The batch is empty afterwards and can be
    /// filled again. After an error it is as it was before.
    ///
    /// ```
    /// # fn main() -> criba::Result<()> {
    /// # let dir = tempfile::tempdir().unwrap();
    /// # let db = criba::Db::open(dir.path().join("data"))?;
    /// db.put("b", "2")?;
    /// db.batch().put("a", "1").delete("b").commit()?;
    /// assert!(db.contains_key("a")? && !db.contains_key("b")?);
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    ///
    /// As for [`Keyspace::put`].
    pub fn commit(&mut self) -> Result<()> {
        let durability = self.keyspace.store().options().durability;
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
    /// let mut batch = db.batch();
    /// batch.put("a", "1").put("b", "2");
    /// batch.commit_with(Durability::Sync)?;
    /// // Both are safe from power loss now, with everything before them.
    /// assert!(db.stats().syncs > before);
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    ///
    /// As for [`Keyspace::put`].
    pub fn commit_with(&mut self, durability: Durability) -> Result<()> {
        let payload = self.operations.payload()?;
        let all = std::iter::once(&self.keyspace).chain(&self.others);
        let trees: Vec<&Tree> = all.map(|one| &**one.tree()).collect();
        self.keyspace.store().commit(&trees, payload, durability)?;
        self.operations.clear();
        self.others.clear();
        Ok(())
    }
}

/// A batch, for operations on one of the keyspaces: see [`Batch::keyspace`].
///
/// ```
/// # fn main() -> criba::Result<()> {
/// # let dir = tempfile::tempdir().unwrap();
/// # let db = criba::Db::open(dir.path().join("data"))?;
/// let users = db.keyspace("users")?;
/// let mut batch = db.batch();
/// let mut of_users = batch.keyspace(&users);
/// for number in 0..10 {
///     of_users.put(format!("{number}"), "row");
/// }
/// batch.commit()?;
/// assert_eq!(users.len()?, 10);
/// # Ok(())
/// # }
/// ```
#[derive(Debug)]
pub struct BatchKeyspace<'a> {
    keyspace: Keyspace,
    operations: &'a mut Operations,
}

impl BatchKeyspace<'_> {
    /// Adds a put: see [`Batch::put`].
    ///
    /// ```
    /// # fn main() -> criba::Result<()> {
    /// # let dir = tempfile::tempdir().unwrap();
    /// # let db = criba::Db::open(dir.path().join("data"))?;
    /// let users = db.keyspace("users")?;
    /// let mut batch = db.batch();
    /// batch.keyspace(&users).put("1", "Ada").put("2", "Grace");
    /// batch.commit()?;
    /// assert_eq!(users.len()?, 2);
    /// # Ok(())
    /// # }
    /// ```
    pub fn put(&mut self, key: impl AsRef<[u8]>, value: impl AsRef<[u8]>) -> &mut Self {
        let id = self.keyspace.tree().id();
        self.operations.put(id, key.as_ref(), value.as_ref());
        self
    }

    /// Adds a delete: see [`Batch::delete`].
    ///
    /// ```
    /// # fn main() -> criba::Result<()> {
    /// # let dir = tempfile::tempdir().unwrap();
    /// # let db = criba::Db::open(dir.path().join("data"))?;
    /// let users = db.keyspace("users")?;
    /// users.put("1", "Ada")?;
    /// let mut batch = db.batch();
    /// batch.keyspace(&users).delete("1");
    /// batch.commit()?;
    /// assert!(users.is_empty()?);
    /// # Ok(())
    /// # }
    /// ```
    pub fn delete(&mut self, key: impl AsRef<[u8]>) -> &mut Self {
        let id = self.keyspace.tree().id();
        self.operations.delete(id, key.as_ref());
        self
    }

    /// Adds an operand, which the operator of the keyspace combines with what is there: see
    /// [`Batch::merge`].
    ///
    /// ```
    /// use criba::operator::Add;
    ///
    /// # fn main() -> criba::Result<()> {
    /// # let dir = tempfile::tempdir().unwrap();
    /// # let db = criba::Db::open(dir.path().join("data"))?;
    /// let counters = db.keyspace_with("counters", |options| options.operator(Add::u64()))?;
    /// let mut batch = db.batch();
    /// batch.put("order/17", "apples");
    /// batch.keyspace(&counters).merge("orders", 1_u64.to_le_bytes());
    /// batch.commit()?;
    /// assert_eq!(counters.get("orders")?.unwrap(), 1_u64.to_le_bytes());
    /// # Ok(())
    /// # }
    /// ```
    pub fn merge(&mut self, key: impl AsRef<[u8]>, operand: impl AsRef<[u8]>) -> &mut Self {
        merge_to(
            &self.keyspace,
            self.operations,
            key.as_ref(),
            operand.as_ref(),
        );
        self
    }
}

fn merge_to(keyspace: &Keyspace, operations: &mut Operations, key: &[u8], operand: &[u8]) {
    let tree = keyspace.tree();
    match keyspace.store().check_merges(tree) {
        Ok(()) => operations.merge(tree.id(), key, operand),
        Err(error) => operations.refuse(error),
    }
}
