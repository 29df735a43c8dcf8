//! Turns on a processor that others wait for.
//!
//! Where there are fewer processors than threads, the kernel lets one that computes go on for milliseconds,
//! and a writer whose put takes half a microsecond waits as long behind a merge. So work in the background
//! offers its place after each [`BYTES`] that it writes, or about as much of other work.

/// What is written between two offers, which takes about 0.2 ms.
pub(crate) const BYTES: u64 = 64 << 10;

/// Keys that a filter is asked for between two offers.
pub(crate) const KEYS: usize = 4096;

/// Offers the processor after each `every` steps, of which this is one; what has fewer never does.
#[inline]
pub(crate) fn after(step: usize, every: usize) {
    if (step + 1).is_multiple_of(every) {
        offer();
    }
}

/// Lets others have the processor first, if any wait for it; returns at once otherwise (0.3 to 0.5 us).
pub(crate) fn offer() {
    std::thread::yield_now();
}
