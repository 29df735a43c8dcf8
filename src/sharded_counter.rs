//! Counters that many threads add to at once, each on a cache line of its own: threads that only
//! read must not wait for each other's counting, and what a thread counts alone takes no locked
//! instruction, which would wait for all that was read before.

use std::sync::atomic::{AtomicU8, AtomicU64, Ordering};

/// Lines of a counter.
pub(crate) const STRIPES: usize = 8;
/// The line of all threads that came while the others were taken; each of those has one thread.
const SHARED: usize = STRIPES - 1;

/// A cache line of counters.
#[derive(Debug)]
#[repr(align(64))]
struct Line<const N: usize>([AtomicU64; N]);

/// `N` counters, at most eight, so that those of a thread lie on one line.
#[derive(Debug)]
pub(crate) struct ShardedCounter<const N: usize> {
    stripes: [Line<N>; STRIPES],
}

impl<const N: usize> Default for ShardedCounter<N> {
    fn default() -> ShardedCounter<N> {
        ShardedCounter {
            stripes: std::array::from_fn(|_| Line(std::array::from_fn(|_| AtomicU64::new(0)))),
        }
    }
}

/// Lines that belong to a thread, a bit for each.
static TAKEN: AtomicU8 = AtomicU8::new(0);

/// The line of a thread, for as long as it lives.
struct Stripe(usize);

impl Stripe {
    fn claim() -> Stripe {
        // Acquire, and release at the end: what the thread before has counted is seen by the next.
        let claimed = TAKEN.fetch_update(Ordering::Acquire, Ordering::Relaxed, |taken| {
            let free = taken.trailing_ones() as usize;
            (free < SHARED).then(|| taken | 1 << free)
        });
        Stripe(claimed.map_or(SHARED, |taken| taken.trailing_ones() as usize))
    }
}

impl Drop for Stripe {
    fn drop(&mut self) {
        if self.0 != SHARED {
            TAKEN.fetch_and(!(1 << self.0), Ordering::Release);
        }
    }
}

/// The line of this thread, below [`STRIPES`]. The last is that of all threads without one of their
/// own.
#[inline]
pub(crate) fn stripe() -> usize {
    thread_local! {
        static MINE: Stripe = Stripe::claim();
    }
    // A thread that is about to end has none of its own any more.
    MINE.try_with(|mine| mine.0).unwrap_or(SHARED)
}

/// The counters that this thread adds to.
#[derive(Clone, Copy)]
pub(crate) struct Mine<'a, const N: usize> {
    line: &'a [AtomicU64; N],
    is_shared: bool,
}

impl<const N: usize> Mine<'_, N> {
    #[inline]
    pub(crate) fn add(&self, counter: usize, amount: u64) {
        self.before_adding(counter, amount);
    }

    /// Adds, and tells what the counter of this line was before.
    #[inline]
    pub(crate) fn before_adding(&self, counter: usize, amount: u64) -> u64 {
        let counter = &self.line[counter];
        if self.is_shared {
            return counter.fetch_add(amount, Ordering::Relaxed);
        }
        let before = counter.load(Ordering::Relaxed);
        counter.store(before.wrapping_add(amount), Ordering::Relaxed);
        before
    }
}

impl<const N: usize> ShardedCounter<N> {
    #[inline]
    pub(crate) fn mine(&self) -> Mine<'_, N> {
        let stripe = stripe();
        Mine {
            line: &self.stripes[stripe].0,
            is_shared: stripe == SHARED,
        }
    }

    /// What all threads have added to each of the counters so far.
    pub(crate) fn sums(&self) -> [u64; N] {
        std::array::from_fn(|counter| {
            let of = |line: &Line<N>| line.0[counter].load(Ordering::Relaxed);
            self.stripes.iter().map(of).sum()
        })
    }

    /// Lets them go on from these numbers. Nobody may add meanwhile.
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
        let counters = ShardedCounter::<5>::default();
        counters.set([7, 0, 0, 0, 1]);
        std::thread::scope(|scope| {
            for thread in 0..3 * STRIPES as u64 {
                let counters = &counters;
                scope.spawn(move || {
                    for _ in 0..1000 {
                        counters.mine().add(0, 1);
                        counters.mine().add(4, thread);
                    }
                });
            }
        });
        let threads = 3 * STRIPES as u64;
        let sum = threads * (threads - 1) / 2 * 1000;
        assert_eq!(counters.sums(), [7 + threads * 1000, 0, 0, 0, 1 + sum]);
        assert_eq!(size_of::<ShardedCounter<8>>(), 64 * STRIPES);
    }
}
