//! Counters that many threads add to at once, each on a cache line of its own: threads that only
//! read must not wait for each other's counting.

use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};

/// Lines of a counter. Threads beyond share them, which is slower and counts no less.
const STRIPES: usize = 8;

/// A cache line of counters.
#[derive(Debug)]
#[repr(align(64))]
struct Line<const N: usize>([AtomicU64; N]);

/// `N` counters, at most eight, so that those of a thread lie on one line.
#[derive(Debug)]
pub(crate) struct Striped<const N: usize> {
    stripes: [Line<N>; STRIPES],
}

impl<const N: usize> Default for Striped<N> {
    fn default() -> Striped<N> {
        Striped {
            stripes: std::array::from_fn(|_| Line(std::array::from_fn(|_| AtomicU64::new(0)))),
        }
    }
}

/// The stripe of this thread: threads take turns as they come.
#[inline]
fn stripe() -> usize {
    static NEXT: AtomicUsize = AtomicUsize::new(0);
    thread_local! {
        static MINE: usize = NEXT.fetch_add(1, Ordering::Relaxed) % STRIPES;
    }
    // A thread that is about to end has no place for its own any more.
    MINE.try_with(|mine| *mine).unwrap_or(0)
}

impl<const N: usize> Striped<N> {
    /// The counters that this thread adds to.
    #[inline]
    pub(crate) fn mine(&self) -> &[AtomicU64; N] {
        &self.stripes[stripe()].0
    }

    /// What all threads have added to each of the counters so far.
    pub(crate) fn sums(&self) -> [u64; N] {
        std::array::from_fn(|counter| {
            let of = |line: &Line<N>| line.0[counter].load(Ordering::Relaxed);
            self.stripes.iter().map(of).sum()
        })
    }

    /// Lets them go on from these numbers. What is added meanwhile may be lost.
    pub(crate) fn set(&self, sums: [u64; N]) {
        for (stripe, line) in self.stripes.iter().enumerate() {
            for (counter, sum) in line.0.iter().zip(sums) {
                let sum = if stripe == 0 { sum } else { 0 };
                counter.store(sum, Ordering::Relaxed);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_is_lost_by_many_threads() {
        let counters = Striped::<5>::default();
        counters.set([7, 0, 0, 0, 1]);
        std::thread::scope(|scope| {
            for thread in 0..3 * STRIPES as u64 {
                let counters = &counters;
                scope.spawn(move || {
                    for _ in 0..1000 {
                        counters.mine()[0].fetch_add(1, Ordering::Relaxed);
                        counters.mine()[4].fetch_add(thread, Ordering::Relaxed);
                    }
                });
            }
        });
        let threads = 3 * STRIPES as u64;
        let sum = threads * (threads - 1) / 2 * 1000;
        assert_eq!(counters.sums(), [7 + threads * 1000, 0, 0, 0, 1 + sum]);
        assert_eq!(size_of::<Striped<8>>(), 64 * STRIPES);
    }
}
