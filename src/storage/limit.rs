//! The limit on the size of files that the process runs under (`ulimit -f`).
//!
//! A write beyond it ends the process with SIGXFSZ unless a handler is installed, and a library
//! installs none. So every growth of a file asks for the limit first. It may change at any time.

use std::io;

/// Refuses a file of so many bytes if the limit is lower.
#[cfg(unix)]
#[expect(unsafe_code, reason = "the standard library has no getrlimit")]
pub(super) fn check(len: u64) -> io::Result<()> {
    let mut limit = libc::rlimit {
        rlim_cur: 0,
        rlim_max: 0,
    };
    // SAFETY: the pointer is that of a structure of this type, for the time of the call.
    if unsafe { libc::getrlimit(libc::RLIMIT_FSIZE, &raw mut limit) } != 0 {
        return Err(io::Error::last_os_error());
    }
    if limit.rlim_cur == libc::RLIM_INFINITY || len <= limit.rlim_cur {
        return Ok(());
    }
    let what = format!(
        "the file would grow to {len} bytes, and the process may write files of {} bytes at most \
         (RLIMIT_FSIZE, ulimit -f)",
        limit.rlim_cur
    );
    Err(io::Error::new(io::ErrorKind::FileTooLarge, what))
}

#[cfg(not(unix))]
pub(super) fn check(_: u64) -> io::Result<()> {
    Ok(())
}
