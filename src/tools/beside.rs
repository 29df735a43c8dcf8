//! Directories that get their name when they are whole.

use std::path::{Path, PathBuf};

use crate::error::{Error, Result};
use crate::storage;

/// The directory of this name with something appended.
pub(super) fn beside(path: &Path, suffix: &str) -> Result<PathBuf> {
    let Some(name) = path.file_name() else {
        let what = format!("{}: name the directory of the store", path.display());
        return Err(Error::Invalid(what));
    };
    let mut name = name.to_owned();
    name.push(suffix);
    Ok(path.with_file_name(name))
}

/// Refuses a path at which something is.
pub(super) fn check_free(path: &Path, advice: &str) -> Result<()> {
    if storage::is_there(path) {
        let what = format!("{} is there already; {advice}", path.display());
        return Err(Error::Invalid(what));
    }
    Ok(())
}

/// Gives a directory its name, durably.
pub(super) fn rename(from: &Path, to: &Path) -> Result<()> {
    storage::rename_directory(from, to).map_err(|error| Error::io(from, error))
}
