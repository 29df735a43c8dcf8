//! The memory of this process: how much it has, and whether freed memory goes back to the system.

/// Has blocks of 128 KiB or more go back to the system when they are freed.
///
/// glibc begins so, but after the first such block was freed it keeps blocks up to that size for
/// itself, in an arena of each thread: frames, memtables and the work space of merges then stay
/// after they were needed, which is a third of the memory of `io_fetcher ingest`. Elsewhere this
/// does nothing.
pub fn give_back() {
    #[cfg(all(target_os = "linux", target_env = "gnu"))]
    #[expect(unsafe_code, reason = "there is no other way to tell the allocator")]
    {
        /// As glibc has it before it adapts.
        const LARGE_BYTES: libc::c_int = 128 << 10;
        // SAFETY: the call takes two numbers and keeps no pointer. It is made before there is a
        // second thread, and refused with a 0 if the numbers make no sense, which changes nothing.
        let _is_taken = unsafe { libc::mallopt(libc::M_MMAP_THRESHOLD, LARGE_BYTES) };
    }
}

/// The most memory that this process had, in bytes, where the system says it.
pub fn peak_bytes() -> Option<u64> {
    status_bytes("VmHWM:")
}

/// The memory that this process has, in bytes, where the system says it.
pub fn resident_bytes() -> Option<u64> {
    status_bytes("VmRSS:")
}

fn status_bytes(name: &str) -> Option<u64> {
    let text = std::fs::read_to_string("/proc/self/status").ok()?;
    let line = text.lines().find_map(|line| line.strip_prefix(name))?;
    let kib: u64 = line.trim().strip_suffix("kB")?.trim().parse().ok()?;
    Some(kib << 10)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_system_counts() {
        assert!(resident_bytes().unwrap() > 1 << 20);
        assert!(peak_bytes().unwrap() > 1 << 20);
    }
}
