//! What the allocator does with what it is given back; for all examples that say how much memory they
//! take.

/// Has blocks of 128 KiB or more go back to the system when they are freed.
///
/// glibc begins so, but after the first such block was freed it keeps blocks up to that size for itself,
/// in an arena of each thread: frames, memtables and the work space of merges then stay after they were
/// needed, which is a third of the memory of `io_fetcher ingest`. Elsewhere this does nothing.
pub fn give_back() {
    #[cfg(all(target_os = "linux", target_env = "gnu"))]
    #[expect(unsafe_code, reason = "there is no other way to tell the allocator")]
    {
        /// As glibc has it before it adapts.
        const LARGE_BYTES: libc::c_int = 128 << 10;
        // SAFETY: the call takes two numbers and keeps no pointer. It is made before there is a second
        // thread, and refused with a 0 if the numbers make no sense, which changes nothing.
        let _is_taken = unsafe { libc::mallopt(libc::M_MMAP_THRESHOLD, LARGE_BYTES) };
    }
}

/// The most memory that this process had, in bytes, where the system tells.
pub fn peak_bytes() -> Option<u64> {
    let text = std::fs::read_to_string("/proc/self/status").ok()?;
    let line = text.lines().find_map(|line| line.strip_prefix("VmHWM:"))?;
    let kib: u64 = line.trim().strip_suffix("kB")?.trim().parse().ok()?;
    Some(kib << 10)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_system_counts() {
        assert!(peak_bytes().is_some_and(|bytes| bytes > 1 << 20));
    }
}
