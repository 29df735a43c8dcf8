//! A directory of the study's own, removed at the end, whatever the end is.

use std::fs::{self, DirBuilder};
use std::io::{self, Write as _};
use std::path::{Path, PathBuf};
use std::time::{SystemTime, UNIX_EPOCH};

use crate::exit::Failure;

/// The directory. Dropping it removes it and everything in it.
pub(crate) struct Scratch {
    path: PathBuf,
}

impl Scratch {
    /// A new directory, readable by its owner only, under `parent` or the system's temporary one.
    ///
    /// # Errors
    ///
    /// When it cannot be made.
    pub(crate) fn new(parent: Option<&Path>) -> Result<Scratch, Failure> {
        let parent = parent.map_or_else(std::env::temp_dir, Path::to_owned);
        let now = SystemTime::now()
            .duration_since(UNIX_EPOCH)
            .unwrap_or_default();
        let name = format!("criba-study-{}-{:x}", std::process::id(), now.as_nanos());
        let path = parent.join(name);
        let mut builder = DirBuilder::new();
        #[cfg(unix)]
        std::os::unix::fs::DirBuilderExt::mode(&mut builder, 0o700);
        builder.create(&path).map_err(|error| {
            Failure::io(
                format_args!("cannot make a directory in {}", parent.display()),
                &error,
            )
        })?;
        Ok(Scratch { path })
    }

    pub(crate) fn path(&self) -> &Path {
        &self.path
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        if let Err(error) = fs::remove_dir_all(&self.path) {
            let text = format!("warning: cannot remove {}: {error}", self.path.display());
            // Standard error may be gone; then nobody is there to be told.
            writeln!(io::stderr(), "{text}").ok();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_is_left() {
        let scratch = Scratch::new(None).unwrap();
        let path = scratch.path().to_owned();
        DirBuilder::new().create(path.join("inner")).unwrap();
        assert_ne!(Scratch::new(None).unwrap().path(), path);
        drop(scratch);
        assert!(!path.exists());
        assert!(Scratch::new(Some(&path)).is_err());
    }
}
