//! CPU time, and the middle of several measurements.
//!
//! The clock is the time that the thread really ran, where the system reports it.

use std::time::Instant;

use crate::exit::Failure;

/// Where the system tells how long a thread ran.
const SCHEDSTAT: &str = "/proc/thread-self/schedstat";

/// What time is measured by.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Clock {
    /// Time the thread ran.
    Thread,
    /// Time that passed.
    Wall,
}

impl Clock {
    /// The best one that the system has.
    pub(crate) fn best() -> Clock {
        if thread_time().is_some() {
            Clock::Thread
        } else {
            Clock::Wall
        }
    }

    /// Its name in reports.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Clock::Thread => "thread",
            Clock::Wall => "wall",
        }
    }

    /// Nanoseconds that `work` took.
    ///
    /// # Errors
    ///
    /// When the work fails.
    pub(crate) fn time(self, work: impl FnOnce() -> Result<(), Failure>) -> Result<f64, Failure> {
        let wall = Instant::now();
        let start = self.thread_now();
        work()?;
        let taken = match (start, self.thread_now()) {
            (Some(start), Some(end)) => end.saturating_sub(start) as f64,
            _ => wall.elapsed().as_nanos() as f64,
        };
        Ok(taken)
    }

    fn thread_now(self) -> Option<u64> {
        match self {
            Clock::Thread => thread_time(),
            Clock::Wall => None,
        }
    }
}

/// Nanoseconds this thread has run. The system brings the number up to date when the thread is
/// scheduled, so it is asked to.
fn thread_time() -> Option<u64> {
    std::thread::yield_now();
    let text = std::fs::read_to_string(SCHEDSTAT).ok()?;
    text.split_ascii_whitespace().next()?.parse().ok()
}

/// The middle of the values; NaN for none.
pub(crate) fn median(values: &[f64]) -> f64 {
    let mut sorted = values.to_vec();
    sorted.sort_by(f64::total_cmp);
    match sorted.len() {
        0 => f64::NAN,
        len if len % 2 == 1 => sorted[len / 2],
        len => f64::midpoint(sorted[len / 2 - 1], sorted[len / 2]),
    }
}

/// How far the values lie apart: the middle half of them, as a part of the median.
pub(crate) fn spread(values: &[f64]) -> f64 {
    let mut sorted = values.to_vec();
    sorted.sort_by(f64::total_cmp);
    let quarter = sorted.len() / 4;
    match (sorted.get(quarter), sorted.iter().nth_back(quarter)) {
        (Some(low), Some(high)) => (high - low) / median(values),
        _ => f64::NAN,
    }
}

/// Each value over the one of the same round.
pub(crate) fn ratios(values: &[f64], base: &[f64]) -> Vec<f64> {
    values
        .iter()
        .zip(base)
        .map(|(value, base)| value / base)
        .collect()
}

#[cfg(test)]
mod tests {
    use std::hint::black_box;

    use super::*;

    #[test]
    fn middles() {
        assert_eq!(median(&[3.0, 1.0, 2.0]), 2.0);
        assert_eq!(median(&[4.0, 1.0, 2.0, 3.0]), 2.5);
        assert!(median(&[]).is_nan() && spread(&[]).is_nan());
        assert_eq!(
            spread(&[1.0, 9.0, 4.0, 5.0, 6.0, 0.0, 100.0]),
            (9.0 - 1.0) / 5.0
        );
        assert_eq!(ratios(&[1.0, 4.0], &[2.0, 2.0]), [0.5, 2.0]);
    }

    #[test]
    fn a_clock_runs_while_work_is_done() {
        for clock in [Clock::best(), Clock::Wall] {
            let taken = clock.time(|| {
                let mut sum = 0u64;
                for number in 0..3_000_000u64 {
                    sum = black_box(sum ^ number);
                }
                black_box(sum);
                Ok(())
            });
            assert!(taken.unwrap() > 100_000.0, "{clock:?}");
        }
    }
}
