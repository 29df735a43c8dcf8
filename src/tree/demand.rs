//! How often absent lookups ask a run, compared with the others: the weights of the filter budget.
//!
//! What counts of a segment is its lookups that ended "absent", for each lookup in the store while
//! the segment was live: so a young segment is not taken for one that nobody asks. A run, or a
//! part of one, has the *density* of what the whole run would meet if all of it were asked like
//! that; a run of which little is known has the mean of the others.

use std::sync::Arc;

use crate::segment::Segment;

/// Lookups after which what was counted weighs as much as what is assumed.
const LOOKUPS_ASSUMED: f64 = 1000.0;

/// A weight is at least 1 / this and at most this: four bits more or less than by size alone, so
/// that what was asked yesterday does not leave a run bare today.
const WEIGHT_MAX: f64 = 16.0;

/// What absent lookups do in a run.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(crate) struct Demand {
    /// Absent lookups in the whole run for each lookup in the store.
    density: f64,
    /// Lookups from which that is known.
    lookups: f64,
}

impl Demand {
    /// The demand of a run by these segments of it; `now` as for [`Segment::traffic`].
    pub(crate) fn of<'a>(
        segments: impl Iterator<Item = &'a Arc<Segment>>,
        run_keys: u64,
        now: u64,
    ) -> Demand {
        let (mut absent, mut keys, mut lookups) = (0.0, 0.0, 0.0);
        for segment in segments {
            let Some(traffic) = segment.traffic(now).filter(|known| known.lookups > 0) else {
                continue;
            };
            let met = traffic.negatives.saturating_add(traffic.false_positives);
            let own_keys = segment.counts().keys as f64;
            absent += met as f64 / traffic.lookups as f64;
            keys += own_keys;
            lookups += own_keys * traffic.lookups as f64;
        }
        if keys == 0.0 {
            return Demand::default();
        }
        Demand {
            density: absent * run_keys as f64 / keys,
            lookups: lookups / keys,
        }
    }

    /// How much of it is counted, not assumed: 0.0 to 1.0.
    fn certainty(self) -> f64 {
        self.lookups / (self.lookups + LOOKUPS_ASSUMED)
    }
}

/// The weights of runs: 1.0 for one that is asked as often as the mean. Powers of two, so that
/// filters do not change with every breath of the traffic.
pub(crate) fn weights(demands: &[Demand]) -> Vec<f64> {
    let certain: f64 = demands.iter().map(|one| one.certainty()).sum();
    let dense = demands.iter().map(|one| one.certainty() * one.density);
    let mean = dense.sum::<f64>() / certain;
    let weight = |one: &Demand| {
        let density = one.certainty() * one.density + (1.0 - one.certainty()) * mean;
        let weight = density / mean;
        if weight.is_nan() {
            1.0
        } else {
            weight
                .clamp(1.0 / WEIGHT_MAX, WEIGHT_MAX)
                .log2()
                .round()
                .exp2()
        }
    };
    demands.iter().map(weight).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(demands: &[(f64, f64)], expected: &[f64]) {
        let demand = |(density, lookups): &(f64, f64)| Demand {
            density: *density,
            lookups: *lookups,
        };
        let demands: Vec<Demand> = demands.iter().map(demand).collect();
        assert_eq!(weights(&demands), expected, "{demands:?}");
    }

    #[test]
    fn without_data_all_are_alike() {
        check(&[], &[]);
        check(&[(0.0, 0.0), (0.0, 0.0)], &[1.0, 1.0]);
        check(&[(0.0, 1e6), (0.0, 1e6)], &[1.0, 1.0]);
        check(&[(1.0, 1e6), (1.0, 1e6), (0.0, 0.0)], &[1.0, 1.0, 1.0]);
    }

    #[test]
    fn few_lookups_change_nothing() {
        check(&[(1.0, 20.0), (0.0, 20.0)], &[1.0, 1.0]);
    }

    #[test]
    fn what_is_asked_more_weighs_more_within_bounds() {
        check(&[(1.0, 1e6), (0.1, 1e6)], &[2.0, 0.25]);
        check(&[(1.0, 1e9), (0.0, 1e9)], &[2.0, 1.0 / 16.0]);
        let runs = [(30.0, 1e9), (0.0, 1e9), (0.0, 1e9), (0.0, 1e9)];
        check(&runs, &[4.0, 0.0625, 0.0625, 0.0625]);
    }
}
