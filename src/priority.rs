//! The priority of a background thread.

/// From now on the calling thread has a lower priority, by so many steps of niceness: where it and
/// others want one processor, each step is a fifth less for it. Only Linux knows that of threads, not
/// of processes; elsewhere nothing happens. A thread that may not do it goes on as before.
pub(crate) fn lower(steps: u8) {
    #[cfg(target_os = "linux")]
    if steps > 0 {
        lower_by(steps.into());
    }
    #[cfg(not(target_os = "linux"))]
    let _: u8 = steps;
}

#[cfg(target_os = "linux")]
#[expect(unsafe_code, reason = "the standard library knows no priorities")]
fn lower_by(steps: i32) {
    // SAFETY: takes no pointers; 0 stands for the calling thread.
    let was = unsafe { libc::getpriority(libc::PRIO_PROCESS, 0) };
    // SAFETY: as above.
    unsafe { libc::setpriority(libc::PRIO_PROCESS, 0, was + steps) };
}

#[cfg(test)]
#[cfg(target_os = "linux")]
mod tests {
    /// Of this thread.
    fn niceness() -> i32 {
        let stat = std::fs::read_to_string("/proc/thread-self/stat").unwrap();
        let (_, fields) = stat.rsplit_once(')').unwrap();
        fields.split_whitespace().nth(16).unwrap().parse().unwrap()
    }

    #[test]
    fn one_thread_comes_after_the_others() {
        let before = niceness();
        for (steps, expected) in [(0, before), (5, (before + 5).min(19))] {
            let lowered = std::thread::spawn(move || {
                super::lower(steps);
                niceness()
            });
            assert_eq!(lowered.join().unwrap(), expected);
        }
        assert_eq!(niceness(), before);
    }
}
