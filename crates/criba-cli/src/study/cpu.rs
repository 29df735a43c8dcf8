//! CPU time of a lookup, settings against each other in the same minutes.
//!
//! A machine that others use is fast and slow by turns. So the settings take turns in several
//! rounds, each round beginning with another one, and what is compared is the ratio within a round.

use std::hint::black_box;

use super::load::Loaded;
use super::workload::Workload;
use crate::clock::Clock;
use crate::exit::Failure;
use crate::progress::Progress;

/// Rounds of measurement.
pub(crate) const ROUNDS: usize = 7;

/// Most lookups of a sort, setting and round.
const ROUND_LOOKUPS: usize = 20_000;

/// Nanoseconds for each lookup, round by round.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Cpu {
    pub(crate) present: Vec<f64>,
    pub(crate) absent: Vec<f64>,
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn windows_lie_within() {
        let lookups: Vec<u32> = (0..50_001).collect();
        for round in 0..ROUNDS {
            assert_eq!(window(&lookups, round).len(), ROUND_LOOKUPS);
            assert_eq!(window(&lookups[..3], round).len(), 3);
        }
        assert_ne!(window(&lookups, 0)[0], window(&lookups, 1)[0]);
    }
}
