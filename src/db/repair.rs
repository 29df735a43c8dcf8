//! Repairs, as a [`Builder`] does them.

use std::path::PathBuf;
use std::sync::Arc;

use crate::error::Result;
use crate::storage::{Disk, Storage};
use crate::tools::Repaired;
use crate::tools::repair::{self, NewStore};

use super::builder::Builder;

impl Builder {
    /// Makes a new store, in this builder's storage and with its options, from all that is intact
    /// in the store `source`. Each key has the newest entry that can be read. Nothing in `source`
    /// is changed.
    ///
    /// Does its best without a lost or damaged `CURRENT`, manifest, index or journal: see
    /// [`Repaired::lost`] and [`Repaired::remarks`]. Where a block is lost, a key of it may have an
    /// older value again, also if the block deleted the key. A value that was never written does
    /// not appear.
    ///
    /// Reads everything once. Needs memory for the journals and for a block of each segment. Calls
    /// `watch` now and then with the number of keys written so far.
    ///
    /// ```
    /// use std::sync::Arc;
    /// use criba::Db;
    /// use criba::storage::{Disk, Io, Storage};
    ///
    /// # fn main() -> criba::Result<()> {
    /// # let dir = tempfile::tempdir().unwrap();
    /// # let path = dir.path().join("data");
    /// # let db = Db::open(&path)?;
    /// # db.put("apple", "red")?;
    /// # db.close()?;
    /// # std::fs::remove_file(path.join("CURRENT")).unwrap();
    /// let damaged: Arc<dyn Storage> = Arc::new(Disk::new(&path, Io::Pread));
    /// let new = dir.path().join("new");
    /// let repaired = Db::builder(&new).repair_from(&damaged, |_keys| ())?;
    /// assert_eq!(repaired.keys, 1);
    /// assert_eq!(Db::open(&new)?.get("apple")?.unwrap(), "red");
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    ///
    /// [`Error::NotAStore`](crate::Error::NotAStore) when `source` has no file of a store, or the
    /// new place is not empty; [`Error::Corrupt`](crate::Error::Corrupt) when no file says which
    /// store it belongs to; [`Error::Locked`](crate::Error::Locked); failures of writing. Bytes
    /// that cannot be read are no error but a loss.
    pub fn repair_from(
        self,
        source: &Arc<dyn Storage>,
        mut watch: impl FnMut(u64),
    ) -> Result<Repaired> {
        let disk = || Arc::new(Disk::new(&self.path, self.options.io)) as Arc<dyn Storage>;
        let target = NewStore {
            storage: self.storage.clone().unwrap_or_else(disk),
            path: self.path.clone(),
            options: self.options,
        };
        repair::repair_from(target, source, &mut watch)
    }

    /// [`Builder::repair_from`] for the store in the directory `source`. The new store gets its
    /// name when it is whole. Until then it is `NAME.repairing` in the same directory.
    ///
    /// ```
    /// use criba::Db;
    ///
    /// # fn main() -> criba::Result<()> {
    /// # let dir = tempfile::tempdir().unwrap();
    /// # let path = dir.path().join("data");
    /// # let db = Db::open(&path)?;
    /// # db.put("apple", "red")?;
    /// # db.close()?;
    /// # let damaged = path;
    /// std::fs::remove_file(damaged.join("CURRENT")).unwrap();
    /// assert!(Db::open(&damaged).is_err());
    /// let new = dir.path().join("new");
    /// let repaired = Db::builder(&new).repair(&damaged, |keys| println!("{keys}"))?;
    /// assert_eq!(repaired.keys, 1);
    /// assert!(repaired.lost[0].path.ends_with("CURRENT"));
    /// assert_eq!(Db::open(&new)?.get("apple")?.unwrap(), "red");
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    ///
    /// As for [`Builder::repair_from`]; [`Error::Invalid`](crate::Error::Invalid) when the new
    /// directory exists, or a `NAME.repairing` that an interrupted repair has left.
    pub fn repair(
        self,
        source: impl Into<PathBuf>,
        mut watch: impl FnMut(u64),
    ) -> Result<Repaired> {
        repair::repair(source.into(), &self.path, self.options, &mut watch)
    }

    /// Repairs the store in this builder's directory: makes the new one beside it, then renames the
    /// damaged one to `NAME.damaged-N`, with the first number that is free, and the new one to
    /// `NAME`. Returns where the damaged one is kept.
    ///
    /// Through a symbolic link, `NAME` is the directory that it leads to.
    ///
    /// A crash between the two renames leaves no store at `NAME`; the whole new one is
    /// `NAME.repairing` then, to be renamed by hand.
    ///
    /// ```
    /// use criba::Db;
    ///
    /// # fn main() -> criba::Result<()> {
    /// # let dir = tempfile::tempdir().unwrap();
    /// # let path = dir.path().join("data");
    /// # let db = Db::open(&path)?;
    /// # db.put("apple", "red")?;
    /// # db.close()?;
    /// std::fs::remove_file(path.join("CURRENT")).unwrap();
    /// let (repaired, kept) = Db::builder(&path).repair_in_place(|_keys| ())?;
    /// assert_eq!(repaired.keys, 1);
    /// assert_eq!(Db::open(&path)?.get("apple")?.unwrap(), "red");
    /// // The damaged store is still there, under another name.
    /// assert_eq!(kept, dir.path().join("data.damaged-1"));
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    ///
    /// As for [`Builder::repair`].
    pub fn repair_in_place(self, mut watch: impl FnMut(u64)) -> Result<(Repaired, PathBuf)> {
        repair::repair_in_place(&self.path, self.options, &mut watch)
    }
}
