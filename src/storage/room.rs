//! Whether anything can be written to a directory: asked when a store is opened for writing, so
//! that a full disk or a missing right is reported there and not by a later write.

use std::ffi::CString;
use std::io::{self, ErrorKind};
use std::mem::MaybeUninit;
use std::os::unix::ffi::OsStrExt as _;
use std::path::Path;

/// Refuses a directory in which this process may not make files, and a file system without a free
/// block or a free file. Changes nothing.
#[expect(unsafe_code, reason = "the standard library has neither call")]
pub(super) fn check(directory: &Path) -> io::Result<()> {
    let path = CString::new(directory.as_os_str().as_bytes())?;
    let mode = libc::W_OK | libc::X_OK;
    // SAFETY: the pointer is that of a string with a zero at its end.
    if unsafe { libc::faccessat(libc::AT_FDCWD, path.as_ptr(), mode, libc::AT_EACCESS) } != 0 {
        return Err(with_advice("allow writing", &io::Error::last_os_error()));
    }
    let mut answer = MaybeUninit::<libc::statvfs>::zeroed();
    // SAFETY: the first pointer is as above, the second one that of such a structure.
    if unsafe { libc::statvfs(path.as_ptr(), answer.as_mut_ptr()) } != 0 {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: zeros are a valid value of it, and the system has filled it.
    let answer = unsafe { answer.assume_init() };
    // Some file systems count no blocks or no files: then all numbers are zero.
    let has_files = answer.f_files == 0 || answer.f_ffree > 0;
    let written = match answer.f_blocks == 0 || answer.f_bavail > 0 {
        true if has_files => Ok(()),
        true => Err(io::Error::from_raw_os_error(libc::ENOSPC)),
        // Some blocks may be kept for this user: only a write can tell.
        false => write_block(directory),
    };
    written.map_err(|error| with_advice("make room", &error))
}

/// Writes a block to a file without a name, which goes when it is closed.
#[cfg(target_os = "linux")]
#[expect(clippy::disallowed_methods, reason = "this folder touches files")]
fn write_block(directory: &Path) -> io::Result<()> {
    use std::io::Write as _;
    use std::os::unix::fs::OpenOptionsExt as _;
    let mut options = std::fs::OpenOptions::new();
    options
        .write(true)
        .mode(0o600)
        .custom_flags(libc::O_TMPFILE);
    match options.open(directory) {
        Ok(mut file) => file.write_all(&[1; 4096]),
        // Not every file system has files without a name.
        Err(error) if error.kind() == ErrorKind::StorageFull => Err(error),
        Err(_) => Ok(()),
    }
}

#[cfg(not(target_os = "linux"))]
fn write_block(_: &Path) -> io::Result<()> {
    Err(io::Error::from_raw_os_error(libc::ENOSPC))
}

fn with_advice(advice: &str, error: &io::Error) -> io::Error {
    let kind = match error.kind() {
        // There is a directory: `NotFound` would be taken for a store that is missing.
        ErrorKind::NotFound => ErrorKind::Other,
        kind => kind,
    };
    let what = format!("{error}; {advice}, or open the store for reading only");
    io::Error::new(kind, what)
}
