//! What this process has read, by the books of the system, and how to make it read from the device.

use std::fs;
use std::io::{self, Read as _, Write as _};
use std::path::Path;

/// System calls of this thread that read, where the system counts them.
pub fn read_calls() -> Option<u64> {
    counter("/proc/thread-self/io", "syscr: ")
}

/// Bytes that this process had read from devices, background threads included, where the system
/// counts them. Bytes that the page cache had are not among them.
pub fn read_bytes() -> Option<u64> {
    counter("/proc/self/io", "read_bytes: ")
}

fn counter(path: &str, name: &str) -> Option<u64> {
    let text = fs::read_to_string(path).ok()?;
    let value = text.lines().find_map(|line| line.strip_prefix(name))?;
    value.trim().parse().ok()
}

/// Drops the files of a directory, and of those below it, from the page cache, so that they are read
/// from the device next time. Pages that are not written back stay, unless they are to be written
/// back first. Mapped pages stay, and so does everything on a file system without a device.
///
/// # Errors
///
/// When the directory cannot be read. A file that has vanished is no error.
#[expect(clippy::disallowed_methods, reason = "directories of any kind")]
pub fn forget(directory: &Path, write_back: bool) -> io::Result<()> {
    for entry in fs::read_dir(directory)? {
        let entry = entry?;
        match entry.file_type()? {
            kind if kind.is_dir() => forget(&entry.path(), write_back)?,
            kind if kind.is_file() => match forget_file(&entry.path(), write_back) {
                Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
                _ => {}
            },
            _ => {}
        }
    }
    Ok(())
}

#[expect(clippy::disallowed_methods, reason = "files of any kind")]
fn forget_file(path: &Path, write_back: bool) -> io::Result<()> {
    let file = fs::File::open(path)?;
    if write_back {
        file.sync_data()?;
    }
    advise_dont_need(&file);
    Ok(())
}

#[cfg(target_os = "linux")]
#[expect(unsafe_code, reason = "the standard library has no such call")]
fn advise_dont_need(file: &fs::File) {
    use std::os::fd::AsRawFd as _;
    // SAFETY: the call takes numbers only, and the file is open. Its answer is of no use: it is
    // advice, and the caller measures its effect.
    let _answer = unsafe { libc::posix_fadvise(file.as_raw_fd(), 0, 0, libc::POSIX_FADV_DONTNEED) };
}

#[cfg(not(target_os = "linux"))]
fn advise_dont_need(_file: &fs::File) {}

/// Whether reads of files in this directory are counted by [`read_bytes`]: tried with a file of a
/// megabyte.
#[expect(clippy::disallowed_methods, reason = "a file to try it with")]
pub fn is_counted(directory: &Path) -> bool {
    const BYTES: usize = 1 << 20;
    let path = directory.join(format!("device-{}.tmp", std::process::id()));
    let tried = || -> io::Result<bool> {
        fs::File::create(&path)?.write_all(&vec![1; BYTES])?;
        forget_file(&path, true)?;
        let before = read_bytes();
        fs::File::open(&path)?.read_exact(&mut vec![0; BYTES])?;
        let counted = before.zip(read_bytes());
        Ok(counted.is_some_and(|(before, after)| after - before >= BYTES as u64))
    };
    let is_counted = tried().unwrap_or(false);
    // A file that was not made cannot be removed.
    let _removed = fs::remove_file(&path);
    is_counted
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    #[expect(clippy::disallowed_methods, reason = "a file to try it with")]
    fn a_read_is_counted() {
        let path = std::env::temp_dir().join(format!("criba-calls-{}", std::process::id()));
        fs::write(&path, b"text").unwrap();
        let before = read_calls().unwrap();
        fs::read(&path).unwrap();
        assert!(read_calls().unwrap() > before);
        forget_file(&path, true).unwrap();
        assert_eq!(fs::read(&path).unwrap(), b"text");
        fs::remove_file(&path).unwrap();
        assert!(forget(&path, true).is_err());
        // Either answer is right; no file stays behind.
        let _counted = is_counted(&std::env::temp_dir());
    }
}
