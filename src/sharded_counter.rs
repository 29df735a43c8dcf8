//! Counters that many threads add to at once without waiting for each other.
//!
//! A counter has as many cache lines as the machine has processors, from 8 to 64. Most lines belong
//! to one thread each, for as long as it lives. The owner adds with a load and a store: a locked
//! instruction would wait for all that was read before. Threads that come while all of these are
//! taken share the remaining eighth of the lines, with locked additions. So on a machine of 64
//! processors, 56 threads count alone, and no more than one eighth of the others meet on a line.

use std::num::NonZero;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};

/// One of this many lines is shared.
const LINES_PER_SHARED: usize = 8;

/// Lines of each counter: a power of two.
pub(crate) fn lines() -> usize {
    static LINES: OnceLock<usize> = OnceLock::new();
    *LINES.get_or_init(|| {
        let processors = std::thread::available_parallelism().map_or(1, NonZero::get);
        processors.clamp(8, 64).next_power_of_two()
    })
}

/// A cache line of counters.
#[derive(Debug)]
#[repr(align(64))]
struct Line<const N: usize>([AtomicU64; N]);

/// `N` counters, at most eight, so that those of a thread lie on one line.
#[derive(Debug)]
pub(crate) struct ShardedCounter<const N: usize> {
    lines: Box<[Line<N>]>,
}

impl<const N: usize> Default for ShardedCounter<N> {
    fn default() -> ShardedCounter<N> {
        let line = |_| Line(std::array::from_fn(|_| AtomicU64::new(0)));
        ShardedCounter {
            lines: (0..lines()).map(line).collect(),
        }
    }
}

/// Lines that belong to a thread, a bit for each.
static TAKEN: AtomicU64 = AtomicU64::new(0);

/// The line of a thread, for as long as the thread lives.
#[derive(Clone, Copy, Debug)]
struct Place {
    line: usize,
    is_shared: bool,
}

impl Place {
    fn claim() -> Place {
        let owned = lines() - lines() / LINES_PER_SHARED;
        // Acquire, and release at the end: what the thread before has counted is seen by the next.
        let claimed = TAKEN.fetch_update(Ordering::Acquire, Ordering::Relaxed, |taken| {
            let free = taken.trailing_ones() as usize;
            (free < owned).then(|| taken | 1 << free)
        });
        match claimed {
            Ok(taken) => Place {
                line: taken.trailing_ones() as usize,
                is_shared: false,
            },
            Err(_) => Place::shared(),
        }
    }

    /// One of the shared lines, in turn.
    fn shared() -> Place {
        static NEXT: AtomicUsize = AtomicUsize::new(0);
        let shared = lines() / LINES_PER_SHARED;
        let line = lines() - shared + NEXT.fetch_add(1, Ordering::Relaxed) % shared;
        Place {
            line,
            is_shared: true,
        }
    }
}

/// A place that is given back when the thread ends.
struct Claimed(Place);

impl Drop for Claimed {
    fn drop(&mut self) {
        if !self.0.is_shared {
            TAKEN.fetch_and(!(1 << self.0.line), Ordering::Release);
        }
    }
}

#[inline]
fn place() -> Place {
    thread_local! {
        static MINE: Claimed = Claimed(Place::claim());
    }
    // A thread that is about to end has none of its own any more.
    MINE.try_with(|mine| mine.0)
        .unwrap_or_else(|_| Place::shared())
}

/// The line of this thread, below [`lines`].
#[inline]
pub(crate) fn line() -> usize {
    place().line
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
        let Place { line, is_shared } = place();
        Mine {
            line: &self.lines[line].0,
            is_shared,
        }
    }

    /// What all threads have added to each of the counters so far.
    pub(crate) fn sums(&self) -> [u64; N] {
        std::array::from_fn(|counter| {
            let of = |line: &Line<N>| line.0[counter].load(Ordering::Relaxed);
            self.lines.iter().map(of).sum()
        })
    }

    /// Lets them go on from these numbers. Nobody may add meanwhile.
    pub(crate) fn set(&self, sums: [u64; N]) {
        for (ordinal, line) in self.lines.iter().enumerate() {
            for (counter, sum) in line.0.iter().zip(sums) {
                let sum = if ordinal == 0 { sum } else { 0 };
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
            for thread in 0..3 * lines() as u64 {
                let counters = &counters;
                scope.spawn(move || {
                    for _ in 0..1000 {
                        counters.mine().add(0, 1);
                        counters.mine().add(4, thread);
                    }
                });
            }
        });
        let threads = 3 * lines() as u64;
        let sum = threads * (threads - 1) / 2 * 1000;
        assert_eq!(counters.sums(), [7 + threads * 1000, 0, 0, 0, 1 + sum]);
        assert_eq!(size_of::<Line<8>>(), 64);
    }
}
