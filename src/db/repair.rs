//! Repairs, as a [`Builder`] does them.

use std::path::PathBuf;
use std::sync::Arc;

use crate::error::Result;
use crate::storage::{Disk, Storage};
use crate::tools::Repaired;
use crate::tools::repair::{self, NewStore};

use super::builder::Builder;

impl Builder {
    /// Makes a new store, in this builder's storage and with its options, of all that is intact in
    /// the store `source`: of each key the newest entry that can be read. Nothing in `source` is
    /// changed.
    ///
    /// A lost or damaged `CURRENT`, manifest, index or journal is got over as well as may be; see
    /// [`Repaired::lost`] and [`Repaired::remarks`]. Where a block is lost, an older value of a key
    /// that it held, or one that it deleted, may be back; a value that was never written is not.
    /// Reads everything once; needs memory for the journals and for a block of each segment.
    /// `watch` is told now and then how many keys were written.
    ///
    /// # Errors
    ///
    /// [`Error::NotAStore`](crate::Error::NotAStore) when nothing of a store is there, or the new
    /// place is not empty; [`Error::Corrupt`](crate::Error::Corrupt) when no file tells which store
    /// it belongs to; [`Error::Locked`](crate::Error::Locked); what writing gives. What cannot be
    /// read is no error but a loss.
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

    /// [`Builder::repair_from`] for the store in the directory `source`. The new store has its
    /// name only when it is whole; until then it is `NAME.repairing`, beside.
    ///
    /// # Errors
    ///
    /// As for [`Builder::repair_from`]; [`Error::Invalid`](crate::Error::Invalid) when the new
    /// directory, or what an interrupted repair has left, is there already.
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
    /// # Errors
    ///
    /// As for [`Builder::repair`].
    pub fn repair_in_place(self, mut watch: impl FnMut(u64)) -> Result<(Repaired, PathBuf)> {
        repair::repair_in_place(&self.path, self.options, &mut watch)
    }
}
