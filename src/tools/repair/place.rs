//! Where a repaired store goes: to a directory of its own, or in the place of the damaged one.

use std::io::ErrorKind;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use crate::error::{Error, Result};
use crate::options::Options;
use crate::storage::{self, DAMAGED, Disk, Storage};
use crate::store::LOCK;

use super::super::beside::{beside, check_free, rename};
use super::copy::{NewStore, Repaired, repair_from, repair_locked};
use super::survey;

/// What is appended to the name of a store until it is whole.
const UNDER_WAY: &str = ".repairing";

/// How directories are opened and renamed: tests end a repair at any of its calls.
struct Means<'a> {
    open: &'a dyn Fn(&Path) -> Arc<dyn Storage>,
    rename: &'a dyn Fn(&Path, &Path) -> Result<()>,
}

/// Makes a new store at `target` of what is intact at `source`. It has its name only when it is
/// whole; until then it is `NAME.repairing`, beside.
pub(crate) fn repair(
    source: PathBuf,
    target: &Path,
    options: Options,
    watch: &mut dyn FnMut(u64),
) -> Result<Repaired> {
    if target.starts_with(&source) {
        let what = format!(
            "{} lies inside the damaged store; choose another place",
            target.display()
        );
        return Err(Error::Invalid(what));
    }
    check_free(target, "choose another place")?;
    let io = options.io;
    let source: Arc<dyn Storage> = Arc::new(Disk::new(source, io));
    let under_way = free_beside(target)?;
    let new = NewStore {
        storage: Arc::new(Disk::new(&under_way, io)),
        path: under_way.clone(),
        options,
    };
    let repaired = repair_from(new, &source, watch)?;
    rename(&under_way, target)?;
    Ok(repaired)
}

/// Puts a repaired store in the place of the one at `path`. Returns where that is kept.
pub(crate) fn repair_in_place(
    path: &Path,
    options: Options,
    watch: &mut dyn FnMut(u64),
) -> Result<(Repaired, PathBuf)> {
    let io = options.io;
    let disk = Means {
        open: &|path| Arc::new(Disk::new(path, io)),
        rename: &rename,
    };
    exchange(path, options, &disk, watch)
}

fn exchange(
    path: &Path,
    options: Options,
    means: &Means<'_>,
    watch: &mut dyn FnMut(u64),
) -> Result<(Repaired, PathBuf)> {
    // A symbolic link stays: the new store lies beside the old one, where the link leads.
    let path = storage::real_path(path);
    let under_way = beside(&path, UNDER_WAY)?;
    if !storage::is_there(&path) && storage::is_there(&under_way) {
        let what = format!(
            "{} is not there: a repair was interrupted while it put {} in its place; rename that",
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
    let new = NewStore {
        path: free_beside(&path)?,
        storage: (means.open)(&under_way),
        options,
    };
    let repaired = repair_locked(new, &source, watch)?;
    let kept = (1_u64..)
        .map_while(|n| beside(&path, &format!("{DAMAGED}-{n}")).ok())
        .find(|kept| !storage::is_there(kept))
        .ok_or(Error::Cancelled)?;
    (means.rename)(&path, &kept)?;
    (means.rename)(&under_way, &path)?;
    drop(guard);
    Ok((repaired, kept))
}

/// The directory of the store that will have this name.
fn free_beside(target: &Path) -> Result<PathBuf> {
    let path = beside(target, UNDER_WAY)?;
    check_free(&path, "an interrupted repair has left it; remove it")?;
    Ok(path)
}

#[cfg(test)]
mod tests;
