//! What the allocator does with what it is given back; for all examples that say how much memory they
//! take.

/// Has blocks of 128 KiB or more go back to the system when they are freed.
///
/// glibc begins so, but after the first such block was freed it keeps blocks up to that size for itself,
/// in an arena of each thread: frames, memtables and the work space of merges then stay after they were
/// needed, which is a third of the memory of `io_fetcher ingest`. Elsewhere this does nothing.
pub(crate) fn give_back() {
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
