//! Turns on a processor that others wait for.
//!
//! Where there are fewer processors than threads, the kernel lets one that computes go on for milliseconds,
//! and a writer whose put takes half a microsecond waits as long behind a merge. So a merge offers its
//! place after each [`BYTES`] that it writes, or about as much of other work.
//!
//! A flush offers one in [`SPARING`] of its turns: whoever computes, nice or not, takes each offer, and as long
//! as it is under way there are two memtables in memory, which at full speed are filled in as little time as
//! it takes.

use std::cell::Cell;

thread_local! {
    /// Whether this thread comes last.
    static IS_LAST: Cell<bool> = const { Cell::new(false) };
    /// Turns that it had.
    static TURNS: Cell<u32> = const { Cell::new(0) };
}

/// Who does not come last keeps so many turns in a row, some 0.6 ms.
const SPARING: u32 = 3;

/// What is written between two offers, which takes about 0.2 ms.
pub(crate) const BYTES: u64 = 64 << 10;

/// From now on the calling thread offers all its turns, and gets a third of what others get of a processor that
/// both want; all of one that nobody else wants. The latter only where the kernel knows that of threads,
/// not of processes.
pub(crate) fn come_last() {
    IS_LAST.set(true);
    #[cfg(target_os = "linux")]
    lower_priority();
}

/// For merges can wait, and writers for flushes cannot. Each step of niceness is a fifth.
#[cfg(target_os = "linux")]
const NICENESS: i32 = 5;

/// A thread that may not do it, which is told to no one, goes on as before.
#[cfg(target_os = "linux")]
#[expect(unsafe_code, reason = "the standard library knows no priorities")]
fn lower_priority() {
    // SAFETY: takes no pointers; 0 stands for the calling thread.
    let was = unsafe { libc::getpriority(libc::PRIO_PROCESS, 0) };
    // SAFETY: as above.
    unsafe { libc::setpriority(libc::PRIO_PROCESS, 0, was + NICENESS) };
}

/// Lets others have the processor first, if it is time for that and any wait for it; returns at once
/// otherwise (0.3 to 0.5 us).
pub(crate) fn offer() {
    let turns = TURNS.get().wrapping_add(1);
    TURNS.set(turns);
    if IS_LAST.get() || turns.is_multiple_of(SPARING) {
        std::thread::yield_now();
    }
}

#[cfg(test)]
#[cfg(target_os = "linux")]
mod tests {
    /// Of this thread; no others of the process come last because one does.
    fn niceness() -> i32 {
        let stat = std::fs::read_to_string("/proc/thread-self/stat").unwrap();
        let (_, fields) = stat.rsplit_once(')').unwrap();
        fields.split_whitespace().nth(16).unwrap().parse().unwrap()
    }

    #[test]
    fn one_thread_comes_last_and_the_others_do_not() {
        let before = niceness();
        let merges = std::thread::spawn(|| {
            super::come_last();
            niceness()
        });
        assert_eq!(merges.join().unwrap(), (before + super::NICENESS).min(19));
        assert_eq!(niceness(), before);
    }
}
