//! How long a call takes: the median of a few rounds of many calls.

use std::time::Instant;

/// Rounds of which the median counts.
const ROUNDS: usize = 5;

/// Nanoseconds of one call: the median of a few rounds, each of which makes `calls` of them.
pub fn nanos_per_call(calls: usize, mut round: impl FnMut()) -> f64 {
    let mut nanos: Vec<f64> = (0..ROUNDS)
        .map(|_| {
            let start = Instant::now();
            round();
            start.elapsed().as_nanos() as f64
        })
        .collect();
    nanos.sort_by(f64::total_cmp);
    nanos[ROUNDS / 2] / calls.max(1) as f64
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_rounds_are_made() {
        let mut rounds = 0;
        assert!(nanos_per_call(0, || rounds += 1) >= 0.0);
        assert_eq!(rounds, ROUNDS);
    }
}
