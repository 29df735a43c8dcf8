//! The rounds and bytes until two replicas agree, as calculated.

use criba_filters::formulas::{probes_for, rate_for};

use crate::divergence::{Divergence, key};
use crate::iblt::{CELL_BYTES, Iblt, STRATA_BYTES};
use crate::reconcile::Method;

/// Rounds until all differences are found. In each round a filter hides a difference with the
/// probability `rate`. One is left after `r` rounds with `1 - (1 - rate^r)^differences`. The sum over
/// all `r` from 0 is the mean number of rounds: that of the greatest of independent geometric numbers.
pub fn rounds(method: Method, differences: u64) -> f64 {
    let Method::Filters { bits, .. } = method else {
        return 1.0;
    };
    let terms = (0..).map(|round| is_left(rate(bits).powi(round), differences as f64));
    terms.take_while(|&term| term > 1e-9).sum()
}

/// The probability that at least one difference is left, when each of them is with `share`.
fn is_left(share: f64, differences: f64) -> f64 {
    1.0 - (1.0 - share).powf(differences)
}

/// The rate of a filter with `bits` bits for each of many elements.
pub fn rate(bits: u64) -> f64 {
    let elements = 100_000;
    let all = bits * elements;
    rate_for(all, probes_for(all, elements), elements)
}

/// Bytes of all messages but those with entries.
pub fn finding_bytes(method: Method, elements: u64, divergence: &Divergence) -> f64 {
    let differences = divergence.left_only + divergence.right_only;
    let asked = 8.0 * divergence.left_only as f64;
    // A seed and a sum for each round, and once more at the end.
    let opening = 16.0;
    match method {
        Method::Hashes => 2.0 * opening + 8.0 * elements as f64 + asked,
        Method::Sketch => {
            let cells = Iblt::cells_for(differences) as f64;
            2.0 * opening + STRATA_BYTES as f64 + 8.0 + cells * CELL_BYTES as f64 + asked
        }
        Method::Filters { bits, piece } => {
            let pieces = (elements as f64 / piece as f64).ceil();
            let end_bytes = key(0).len() as f64 + 1.0;
            let digests = opening + pieces * (8.0 + end_bytes + 1.0 / 8.0);
            let (rate, keys) = (rate(bits), divergence.keys as f64);
            let round = |share: f64| {
                let in_doubt = elements as f64 * is_left(1.0 / pieces, keys * share);
                is_left(share, keys) * digests + 2.0 * in_doubt * bits as f64 / 8.0
            };
            let shares = (0..).map(|round| rate.powi(round));
            shares
                .take_while(|&share| share * keys > 1e-6)
                .map(round)
                .sum()
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rounds_follow_from_the_rate() {
        let filters = |bits| Method::Filters { bits, piece: 250 };
        assert_eq!(rounds(Method::Sketch, 1_000), 1.0);
        // One difference is hidden in `r` rounds with `rate^r`: a geometric number.
        let geometric = 1.0 / (1.0 - rate(4));
        assert!((rounds(filters(4), 1) - geometric).abs() < 1e-6);
        assert!(rounds(filters(4), 100) > rounds(filters(8), 100) + 1.0);
    }
}
