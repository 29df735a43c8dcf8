//! Transactions of one key.

use crate::error::{Error, Result};
use crate::slice::Slice;

use super::super::keyspace::Keyspace;

impl Keyspace {
    /// Makes a new value from the one that a key has, in one step: what others write to the key
    /// meanwhile is not lost. `new` gets the value, or `None` for an absent key, and returns the new
    /// one, or `None` to delete the key. Returns what `new` has returned.
    ///
    /// `new` may run several times, with another value each time. No lock is held while it runs. Costs
    /// what [`Keyspace::get`] and [`Keyspace::put`] cost, and as much again for each time that others were
    /// faster.
    ///
    /// ```
    /// # fn main() -> criba::Result<()> {
    /// # let dir = tempfile::tempdir().unwrap();
    /// # let db = criba::Db::open(dir.path().join("data"))?;
    /// let count = |key: &str| {
    ///     db.update(key, |old| {
    ///         let old = old.map_or(0, |old| u64::from_le_bytes(old.try_into().unwrap()));
    ///         Some((old + 1).to_le_bytes())
    ///     })
    /// };
    /// std::thread::scope(|scope| {
    ///     for _ in 0..4 {
    ///         scope.spawn(|| (0..100).for_each(|_| drop(count("visits").unwrap())));
    ///     }
    /// });
    /// assert_eq!(db.get("visits")?.unwrap(), 400_u64.to_le_bytes());
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    ///
    /// As for [`Keyspace::get`] and [`Keyspace::put`]; [`Error::Conflict`] when others were faster 100 times in a
    /// row.
    pub fn update<V: AsRef<[u8]>>(
        &self,
        key: impl AsRef<[u8]>,
        mut new: impl FnMut(Option<&[u8]>) -> Option<V>,
    ) -> Result<Option<V>> {
        let key = key.as_ref();
        self.transact(|tx| {
            let old = tx.get(key)?;
            let new = new(old.as_deref());
            match &new {
                Some(value) => tx.put(key, value)?,
                // Nothing is to be deleted where nothing is.
                None if old.is_none() => {}
                None => tx.delete(key)?,
            }
            Ok::<_, Error>(new)
        })
    }

    /// Gives a key a new value if it has the expected one. `None` stands for an absent key: nothing
    /// is expected, or the key is to be deleted. Returns whether it was done.
    ///
    /// ```
    /// # fn main() -> criba::Result<()> {
    /// # let dir = tempfile::tempdir().unwrap();
    /// # let db = criba::Db::open(dir.path().join("data"))?;
    /// assert!(db.compare_and_swap("leader", None, Some(b"alice"))?);
    /// assert!(!db.compare_and_swap("leader", None, Some(b"bob"))?);
    /// // Alice steps down, if she still leads.
    /// assert!(db.compare_and_swap("leader", Some(b"alice"), None)?);
    /// assert_eq!(db.get("leader")?, None);
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    ///
    /// As for [`Keyspace::update`].
    pub fn compare_and_swap(
        &self,
        key: impl AsRef<[u8]>,
        expected: Option<&[u8]>,
        new: Option<&[u8]>,
    ) -> Result<bool> {
        let key = key.as_ref();
        self.transact(|tx| {
            let is_expected = tx.get(key)?.as_deref() == expected;
            match new {
                _ if !is_expected => {}
                Some(value) => tx.put(key, value)?,
                None if expected.is_none() => {}
                None => tx.delete(key)?,
            }
            Ok::<_, Error>(is_expected)
        })
    }

    /// Gives a key a value if it has none. Returns the value that it has already, and `None` when it
    /// has the new one now.
    ///
    /// ```
    /// # fn main() -> criba::Result<()> {
    /// # let dir = tempfile::tempdir().unwrap();
    /// # let db = criba::Db::open(dir.path().join("data"))?;
    /// assert_eq!(db.put_if_absent("name/alice", "17")?, None);
    /// assert_eq!(db.put_if_absent("name/alice", "18")?.unwrap(), "17");
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    ///
    /// As for [`Keyspace::update`].
    pub fn put_if_absent(
        &self,
        key: impl AsRef<[u8]>,
        value: impl AsRef<[u8]>,
    ) -> Result<Option<Slice>> {
        let (key, value) = (key.as_ref(), value.as_ref());
        self.transact(|tx| {
            let old = tx.get(key)?;
            if old.is_none() {
                tx.put(key, value)?;
            }
            Ok::<_, Error>(old)
        })
    }
}
