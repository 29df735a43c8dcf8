//! Where a repaired store goes: to a directory of its own, or in the place of the damaged one.

use std::io::ErrorKind;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use crate::error::{Error, Result};
use crate::storage::{self, DAMAGED, Disk, Storage};

use super::super::open::LOCK;
use super::{Builder, Repaired, survey};

/// What is appended to the name of a store until it is whole.
const UNDER_WAY: &str = ".repairing";

/// How directories are opened and renamed: tests end a repair at any of its calls.
struct Means<'a> {
    open: &'a dyn Fn(&Path) -> Arc<dyn Storage>,
    rename: &'a dyn Fn(&Path, &Path) -> Result<()>,
}

impl Builder {
    /// [`Builder::repair_from`] for the store in the directory `source`. The new store has its
    /// name only when it is whole; until then it is `NAME.repairing`, beside.
    ///
    /// # Errors
    ///
    /// As for [`Builder::repair_from`]; [`Error::Invalid`] when the new directory, or what an
    /// interrupted repair has left, is there already.
    pub fn repair(
        self,
        source: impl Into<PathBuf>,
        watch: &mut dyn FnMut(u64),
    ) -> Result<Repaired> {
        let source = source.into();
        let target = self.path.clone();
        if target.starts_with(&source) {
            let what = format!(
                "{} lies inside the damaged store; choose another place",
                target.display()
            );
            return Err(Error::Invalid(what));
        }
        check_free(&target, "choose another place")?;
        let source: Arc<dyn Storage> = Arc::new(Disk::new(source, self.options.io));
        let repaired = self.beside(&target)?.repair_from(&source, watch)?;
        rename(&beside(&target, UNDER_WAY)?, &target)?;
        Ok(repaired)
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
    pub fn repair_in_place(self, watch: &mut dyn FnMut(u64)) -> Result<(Repaired, PathBuf)> {
        let io = self.options.io;
        let disk = Means {
            open: &|path| Arc::new(Disk::new(path, io)),
            rename: &rename,
        };
        self.exchange(&disk, watch)
    }

    fn exchange(
        self,
        means: &Means<'_>,
        watch: &mut dyn FnMut(u64),
    ) -> Result<(Repaired, PathBuf)> {
        // A symbolic link stays: the new store lies beside the old one, where the link leads.
        let path = storage::real_path(&self.path);
        let under_way = beside(&path, UNDER_WAY)?;
        if !storage::is_there(&path) && storage::is_there(&under_way) {
            let what = format!(
                "{} is not there: a repair was interrupted while it put {} in its place; rename \
                 that",
                path.display(),
                under_way.display()
            );
            return Err(Error::Invalid(what));
        }
        let source = (means.open)(&path);
        survey::check(&source)?;
        let guard = source.lock(LOCK).map_err(|error| match error.kind() {
            ErrorKind::WouldBlock => Error::Locked {
                path: path.join(LOCK),
            },
            _ => Error::io(path.join(LOCK), error),
        })?;
        let target = self.beside(&path)?.storage((means.open)(&under_way));
        let repaired = target.repair_locked(&source, watch)?;
        let kept = (1_u64..)
            .map_while(|n| beside(&path, &format!("{DAMAGED}-{n}")).ok())
            .find(|kept| !storage::is_there(kept))
            .ok_or(Error::Cancelled)?;
        (means.rename)(&path, &kept)?;
        (means.rename)(&under_way, &path)?;
        drop(guard);
        Ok((repaired, kept))
    }

    /// The builder of the store that will have this name.
    fn beside(mut self, target: &Path) -> Result<Builder> {
        self.path = beside(target, UNDER_WAY)?;
        check_free(&self.path, "an interrupted repair has left it; remove it")?;
        self.storage = None;
        Ok(self)
    }
}

/// The directory of this name with something appended.
fn beside(path: &Path, suffix: &str) -> Result<PathBuf> {
    let Some(name) = path.file_name() else {
        let what = format!("{}: name the directory of the store", path.display());
        return Err(Error::Invalid(what));
    };
    let mut name = name.to_owned();
    name.push(suffix);
    Ok(path.with_file_name(name))
}

fn check_free(path: &Path, advice: &str) -> Result<()> {
    if storage::is_there(path) {
        let what = format!("{} is there already; {advice}", path.display());
        return Err(Error::Invalid(what));
    }
    Ok(())
}

fn rename(from: &Path, to: &Path) -> Result<()> {
    storage::rename_directory(from, to).map_err(|error| Error::io(from, error))
}

#[cfg(test)]
mod tests;
