//! Writes that are made together.

use crate::error::Result;
use crate::options::Durability;
use crate::store::Operations;

use super::handle::Db;

impl Db {
    /// Begins a batch of writes that are committed together.
    pub fn batch(&self) -> Batch {
        Batch::new(self.clone())
    }
}

/// Writes that become visible and durable together or not at all.
///
/// Made by [`Db::batch`]. Nothing happens before [`Batch::commit`]; a dropped batch is forgotten.
/// Later operations on a key win over earlier ones. Keys and values are limited as for
/// [`Db::put`], the whole batch to a little less than 4 GiB and 2^28 operations; a batch beyond a
/// limit is refused by `commit` and nothing of it is written.
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
    pub fn put(&mut self, key: impl AsRef<[u8]>, value: impl AsRef<[u8]>) -> &mut Batch {
        self.operations.put(key.as_ref(), value.as_ref());
        self
    }

    /// Adds a delete. Deleting a key that is not there is no error.
    pub fn delete(&mut self, key: impl AsRef<[u8]>) -> &mut Batch {
        self.operations.delete(key.as_ref());
        self
    }

    /// Operations so far.
    pub fn len(&self) -> usize {
        self.operations.count() as usize
    }

    /// Whether there is nothing to commit.
    pub fn is_empty(&self) -> bool {
        self.operations.count() == 0
    }

    /// Commits with the durability of the store's options. The batch is empty afterwards and can be
    /// filled again; after an error it is as it was.
    ///
    /// ```
    /// # fn main() -> criba::Result<()> {
    /// # let dir = tempfile::tempdir().unwrap();
    /// # let db = criba::Db::open(dir.path().join("data"))?;
    /// db.batch().put("a", "1").delete("b").commit()?;
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
