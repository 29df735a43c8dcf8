//! Whether a file may be written through a memory map.
//!
//! A store to a map cannot return an error: when its page has no room on the disk, the system ends
//! the process with SIGBUS. Room that was allocated before excludes that only where a page that was
//! written back keeps its place. A file system that copies on write (btrfs, ZFS, XFS with shared
//! extents) needs new room for it, and one on a network may find none later.
//!
//! So files are mapped only on the file systems of this list. `tests/it/full.rs` fills each of them.

use std::fs::File;

/// ext2, ext3 and ext4 share a number.
#[cfg(target_os = "linux")]
const EXT4: u32 = 0xef53;
#[cfg(target_os = "linux")]
const TMPFS: u32 = 0x0102_1994;

/// Asks the system; what it does not say counts as no.
#[cfg(target_os = "linux")]
#[expect(unsafe_code, reason = "the standard library has no fstatfs")]
pub(super) fn is_mappable(file: &File) -> bool {
    use std::mem::MaybeUninit;
    use std::os::fd::AsRawFd as _;
    let mut answer = MaybeUninit::<libc::statfs>::zeroed();
    // SAFETY: the descriptor is that of an open file, and the pointer that of such a structure.
    if unsafe { libc::fstatfs(file.as_raw_fd(), answer.as_mut_ptr()) } != 0 {
        return false;
    }
    // SAFETY: zeros are a valid value of it, and the system has filled it.
    let answer = unsafe { answer.assume_init() };
    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "the type differs between platforms, and the number has 32 bits"
    )]
    let kind = answer.f_type as u32;
    matches!(kind, EXT4 | TMPFS)
}

#[cfg(not(target_os = "linux"))]
pub(super) fn is_mappable(_: &File) -> bool {
    false
}
