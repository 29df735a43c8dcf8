//! Files that the user names: opened before the first request, and whole when they are there.
//!
//! A file that cannot be written is known before anything is fetched. An older file of the name stays
//! until the new one is complete: that is written beside it, and takes the name at the end.

use std::fmt;
use std::fs::{File, Metadata, Permissions};
use std::io::{self, BufWriter, Write as _};
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};

use tempfile::NamedTempFile;

use crate::failure::Failure;

/// Rights of a new file, less the umask of the process.
const MODE: u32 = 0o666;

/// A file that is being written. Dropped without [`Output::finish`] it leaves nothing behind.
pub(crate) struct Output {
    writer: BufWriter<File>,
    /// `None` for a device or a pipe, which is written to as it is.
    beside: Option<Beside>,
    /// As the user has named it.
    path: PathBuf,
    /// The first write that failed. Nothing is written after it.
    failed: Option<io::Error>,
}

/// The file that takes the name of `target` at the end.
struct Beside {
    file: NamedTempFile,
    target: PathBuf,
}

impl Output {
    /// Opens a file for writing.
    pub(crate) fn create(path: &Path) -> Result<Output, Failure> {
        let (file, beside) = open(path).map_err(cannot_write(path))?;
        Ok(Output {
            writer: BufWriter::new(file),
            beside,
            path: path.to_owned(),
            failed: None,
        })
    }

    /// Writes a piece of text. An error is kept for [`Output::finish`].
    pub(crate) fn write(&mut self, text: impl fmt::Display) {
        if self.failed.is_none() {
            self.failed = write!(self.writer, "{text}").err();
        }
    }

    /// The file is whole, on disk and under its name when this returns.
    pub(crate) fn finish(self) -> Result<(), Failure> {
        let Output {
            mut writer,
            beside,
            path,
            failed,
        } = self;
        let written = failed.map_or(Ok(()), Err).and_then(|()| writer.flush());
        let named = written.and_then(|()| match beside {
            Some(Beside { file, target }) => {
                writer.get_ref().sync_all()?;
                file.persist(target).map_err(|refused| refused.error)?;
                Ok(())
            }
            None => Ok(()),
        });
        named.map_err(cannot_write(&path))
    }
}

/// For `map_err`: names the file.
pub(crate) fn cannot_write(path: &Path) -> impl FnOnce(io::Error) -> Failure {
    Failure::io(format!("cannot write {}", path.display()))
}

fn open(path: &Path) -> io::Result<(File, Option<Beside>)> {
    let found = match std::fs::metadata(path) {
        Ok(found) => Some(found),
        Err(error) if error.kind() == io::ErrorKind::NotFound => None,
        Err(error) => return Err(error),
    };
    if let Some(found) = &found {
        let file = append(path)?;
        // `/dev/stdout` may be a file, but its name is not one to take away.
        let is_device = ["/dev", "/proc"].iter().any(|top| path.starts_with(top));
        if is_device || !found.is_file() {
            return Ok((file, None));
        }
    }
    // A link stays a link: the file that it leads to is replaced.
    let target = match found {
        Some(_) => std::fs::canonicalize(path)?,
        None => path.to_owned(),
    };
    let file = beside(&target, found.as_ref())?;
    let target = Beside { target, file };
    Ok((target.file.as_file().try_clone()?, Some(target)))
}

/// Opens a file that is there, or a new one, to write at its end.
pub(crate) fn append(path: &Path) -> io::Result<File> {
    #[expect(clippy::disallowed_methods, reason = "the user names this file")]
    File::options().create(true).append(true).open(path)
}

/// A new file in the folder of `target`, with the rights of the file that it will replace.
fn beside(target: &Path, found: Option<&Metadata>) -> io::Result<NamedTempFile> {
    let name = target.file_name().ok_or(io::ErrorKind::IsADirectory)?;
    let folder = target.parent().filter(|path| !path.as_os_str().is_empty());
    let permissions = match found {
        Some(found) => found.permissions(),
        None => Permissions::from_mode(MODE),
    };
    let file = tempfile::Builder::new()
        .prefix(&format!(".{}.", name.to_string_lossy()))
        .suffix(".part")
        .permissions(permissions)
        .tempfile_in(folder.unwrap_or(Path::new(".")));
    // The text of the system is enough; the path is that of the user.
    file.map_err(|error| match error.raw_os_error() {
        Some(code) => io::Error::from_raw_os_error(code),
        None => error,
    })
}

#[cfg(test)]
#[expect(clippy::disallowed_methods, reason = "tests look at files")]
mod tests {
    use std::fs;

    use super::*;
    use crate::failure::Exit;

    fn refusal(path: &Path) -> String {
        let Err(failure) = Output::create(path) else {
            panic!("{} was opened", path.display());
        };
        assert_eq!(failure.exit(), Exit::Io);
        failure.to_string()
    }

    #[test]
    fn what_stood_there_stays_until_the_new_file_is_complete() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("list");
        fs::write(&path, "before").unwrap();
        fs::set_permissions(&path, Permissions::from_mode(0o640)).unwrap();
        let mut output = Output::create(&path).unwrap();
        output.write("x".repeat(1 << 20));
        assert_eq!(fs::read(&path).unwrap(), b"before");
        drop(output);
        assert_eq!(fs::read(&path).unwrap(), b"before");
        let mut output = Output::create(&path).unwrap();
        output.write("after");
        output.finish().unwrap();
        assert_eq!(fs::read(&path).unwrap(), b"after");
        let mode = fs::metadata(&path).unwrap().permissions().mode();
        assert_eq!(mode & 0o777, 0o640);
        // Nothing is left beside it.
        assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 1);
    }

    #[test]
    fn a_link_stays_a_link() {
        let dir = tempfile::tempdir().unwrap();
        let (path, link) = (dir.path().join("file"), dir.path().join("link"));
        fs::write(&path, "before").unwrap();
        std::os::unix::fs::symlink(&path, &link).unwrap();
        let mut output = Output::create(&link).unwrap();
        output.write("after");
        output.finish().unwrap();
        assert!(fs::symlink_metadata(&link).unwrap().is_symlink());
        assert_eq!(fs::read(&path).unwrap(), b"after");
    }

    #[test]
    fn what_cannot_be_written_is_named_at_once() {
        let dir = tempfile::tempdir().unwrap();
        let missing = dir.path().join("missing").join("list");
        assert!(refusal(&missing).contains("missing/list: No such file"));
        let folder = dir.path().display().to_string();
        assert!(refusal(dir.path()).starts_with(&format!("cannot write {folder}: ")));
    }

    #[test]
    fn a_full_device_is_named_at_the_end() {
        let full = Path::new("/dev/full");
        let mut output = Output::create(full).unwrap();
        output.write("x".repeat(1 << 20));
        let failure = output.finish().unwrap_err();
        assert_eq!(failure.exit(), Exit::Io);
        assert!(failure.to_string().starts_with("cannot write /dev/full: "));
        assert!(fs::symlink_metadata(full).is_ok_and(|found| !found.is_file()));
    }
}
