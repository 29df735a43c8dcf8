//! Writes that are made together.

use crate::error::Result;
use crate::options::Durability;
use crate::store::Operations;

use super::handle::Db;

impl Db {
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
        Batch::new(self.clone())
    }
}

/// Writes that become visible and durable together or not at all.
///
/// Made by [`Db::batch`]. Nothing happens before [`Batch::commit`]; a dropped batch is forgotten.
/// Later operations on a key win over earlier ones.
///
/// Keys and values are limited as for [`Db::put`], the whole batch to a little less than 4 GiB and
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
    db: Db,
    operations: Operations,
}

impl Batch {
    fn new(db: Db) -> Batch {
        Batch {
            db,
            operations: Operations::default(),
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
        self.operations.put(key.as_ref(), value.as_ref());
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
        self.operations.delete(key.as_ref());
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
    /// As for [`Db::put`].
    pub fn commit(&mut self) -> Result<()> {
        let durability = self.db.store().options().durability;
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
    /// As for [`Db::put`].
    pub fn commit_with(&mut self, durability: Durability) -> Result<()> {
        let payload = self.operations.payload()?;
        self.db.store().commit(payload, durability)?;
        self.operations.clear();
        Ok(())
    }
}
