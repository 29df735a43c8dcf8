//! Writes that an operator combines with what is there.

use crate::error::Result;
use crate::format::batch::Operation;
use crate::options::Durability;
use crate::slice::Slice;
use crate::store::check_limits;

use super::keyspace::Keyspace;

impl Keyspace {
    /// Writes an operand, with the durability of the store's options: the operator of the store
    /// ([`Builder::operator`](crate::Builder::operator)) combines it with the older entries of the key
    /// when the key is read, or earlier.
    ///
    /// Reads nothing, and is one step: of two threads that add to a counter, both are counted. An
    /// operand has the limits of a value. A lookup of the key goes on through older operands, up to
    /// one block for each run that has some, until it meets a value or the end; flushes and merges
    /// combine what they can.
    ///
    /// The operator does not look at the operand now. If it refuses it later, the lookup of this key
    /// fails until a value is put or the key is deleted.
    ///
    /// ```
    /// use criba::{Db, operator::Add};
    ///
    /// # fn main() -> criba::Result<()> {
    /// # let dir = tempfile::tempdir().unwrap();
    /// # let path = dir.path().join("data");
    /// let db = Db::builder(&path).operator(Add::u64()).open()?;
    /// std::thread::scope(|scope| {
    ///     for _ in 0..4 {
    ///         scope.spawn(|| (0..100).try_for_each(|_| db.merge("visits", 1_u64.to_le_bytes())));
    ///     }
    /// });
    /// assert_eq!(Add::to_u64(&db.get("visits")?.unwrap()), Some(400));
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    ///
    /// As for [`Keyspace::put`]; [`Error::Invalid`](crate::Error::Invalid) without an operator.
    pub fn merge(&self, key: impl AsRef<[u8]>, operand: impl AsRef<[u8]>) -> Result<()> {
        self.merge_with(key, operand, self.store().options().durability)
    }

    /// Writes an operand, with this durability.
    ///
    /// ```
    /// use criba::{Db, Durability, operator::Append};
    ///
    /// # fn main() -> criba::Result<()> {
    /// # let dir = tempfile::tempdir().unwrap();
    /// # let path = dir.path().join("data");
    /// let db = Db::builder(&path).operator(Append::with_delimiter(" ")).open()?;
    /// db.merge("log", "opened")?;
    /// db.merge_with("log", "paid", Durability::Sync)?;
    /// assert_eq!(db.get("log")?.unwrap(), "opened paid");
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    ///
    /// As for [`Keyspace::merge`].
    pub fn merge_with(
        &self,
        key: impl AsRef<[u8]>,
        operand: impl AsRef<[u8]>,
        durability: Durability,
    ) -> Result<()> {
        let (key, operand) = (key.as_ref(), operand.as_ref());
        self.store().check_merges(self.tree())?;
        check_limits(key, operand)?;
        let operation = Operation::merge(self.tree().id(), key, operand);
        self.store().commit_one(self.tree(), operation, durability)
    }

    /// What a key has, not combined: its value if there is one, and its operands, oldest first. Needs no
    /// operator; reads as much as [`Keyspace::get`].
    ///
    /// How many operands there are depends on what was combined before.
    ///
    /// ```
    /// use criba::{Db, Error, operator::Append};
    ///
    /// # fn main() -> criba::Result<()> {
    /// # let dir = tempfile::tempdir().unwrap();
    /// # let path = dir.path().join("data");
    /// let db = Db::builder(&path).operator(Append::new()).open()?;
    /// db.put("log", "a")?;
    /// db.merge("log", "b")?;
    /// db.merge("log", "c")?;
    /// db.close()?;
    /// // Opened without the operator.
    /// let db = Db::open(&path)?;
    /// assert!(matches!(db.get("log"), Err(Error::NoOperator { .. })));
    /// let (value, operands) = db.operands("log")?;
    /// assert_eq!(value.unwrap(), "a");
    /// assert_eq!(operands.concat(), b"bc");
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    ///
    /// As for [`Keyspace::get`], but for those of the operator.
    pub fn operands(&self, key: impl AsRef<[u8]>) -> Result<(Option<Slice>, Vec<Slice>)> {
        let store = self.store();
        store.monitor().check_open()?;
        self.tree().operands(key.as_ref(), || store.visible())
    }
}
