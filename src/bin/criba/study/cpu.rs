//! CPU time of a lookup, settings against each other in the same minutes.
//!
//! A machine that others use is fast and slow by turns. So the settings take turns in several
//! rounds, each round beginning with another one, and what is compared is the ratio within a round.
//! The clock is the time that the thread really ran, where the system tells it.

use std::hint::black_box;
use std::time::Instant;

use super::load::Loaded;
use super::workload::Workload;
use crate::exit::Failure;
use crate::progress::Progress;

/// Rounds of measurement.
pub(crate) const ROUNDS: usize = 7;

/// Most lookups of a sort, setting and round.
const ROUND_LOOKUPS: usize = 20_000;

/// Where the system tells how long a thread ran.
const SCHEDSTAT: &str = "/proc/thread-self/schedstat";

/// Nanoseconds for each lookup, round by round.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Cpu {
    pub(crate) present: Vec<f64>,
    pub(crate) absent: Vec<f64>,
}

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

/// Measures all settings.
///
/// # Errors
///
/// When a store fails.
pub(crate) fn measure(
    stores: &[Loaded],
    work: &Workload,
    clock: Clock,
    progress: &mut Progress,
) -> Result<Vec<Cpu>, Failure> {
    let mut times = vec![Cpu::default(); stores.len()];
    for round in 0..ROUNDS {
        let present = window(&work.present_lookups, round);
        let absent = window(&work.absent_lookups, round);
        for turn in 0..stores.len() {
            let place = (round + turn) % stores.len();
            let db = &stores[place].db;
            let taken = clock.time(|| {
                for &ordinal in present {
                    black_box(db.get(&work.present[ordinal as usize].key)?);
                }
                Ok(())
            })?;
            times[place].present.push(taken / present.len() as f64);
            let taken = clock.time(|| {
                for &ordinal in absent {
                    black_box(db.get(&work.absent[ordinal as usize])?);
                }
                Ok(())
            })?;
            times[place].absent.push(taken / absent.len() as f64);
            progress.steps((present.len() + absent.len()) as u64);
        }
    }
    Ok(times)
}

/// Steps of the progress bar for each setting.
pub(crate) fn steps(work: &Workload) -> u64 {
    let of = |lookups: &[u32]| lookups.len().min(ROUND_LOOKUPS) * ROUNDS;
    (of(&work.present_lookups) + of(&work.absent_lookups)) as u64
}

/// The lookups of a round: another part each time, as far as there are enough.
fn window(lookups: &[u32], round: usize) -> &[u32] {
    let len = lookups.len().min(ROUND_LOOKUPS);
    let starts = lookups.len() - len + 1;
    let start = (round * len) % starts;
    &lookups[start..start + len]
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
    fn windows_lie_within() {
        let lookups: Vec<u32> = (0..50_001).collect();
        for round in 0..ROUNDS {
            assert_eq!(window(&lookups, round).len(), ROUND_LOOKUPS);
            assert_eq!(window(&lookups[..3], round).len(), 3);
        }
        assert_ne!(window(&lookups, 0)[0], window(&lookups, 1)[0]);
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
