//! How many absent keys a Bloom filter accepts, exactly: not only the mean, but how probable each number is.
//!
//! Bose, Guo, Kranakis, Maheshwari, Morin, Morrison, Smid, Tang, "On the false-positive rate of Bloom
//! filters" (2008), have the mean.

use criba_filters::Design;

/// How probable it is that a full filter accepts 0, 1, 2 or more of so many absent keys, over all hash
/// functions.
///
/// A filter with a given number of ones accepts each key with probability (ones / m)^k, so the number of
/// keys follows a binomial distribution. The number of ones is itself a matter of chance. The mean rate is
/// therefore the mean of (ones / m)^k. The usual formulas take the power of the mean instead, which is less
/// than the mean of the power.
pub fn accepted_distribution(design: &Design, keys: u64) -> Vec<f64> {
    let mut mixture = vec![0.0; keys as usize + 1];
    for (ones, probability) in (0_u32..).map(f64::from).zip(ones_distribution(design)) {
        let rate = (ones / design.bits as f64).powi(design.probes as i32);
        if rate >= 1.0 {
            // All bits are set, and all keys are accepted.
            mixture[keys as usize] += probability;
            continue;
        }
        let mut binomial = (1.0 - rate).powi(keys as i32);
        for (number, share) in (0_u32..).map(f64::from).zip(&mut mixture) {
            *share += probability * binomial;
            binomial *= (keys as f64 - number) / (number + 1.0) * rate / (1.0 - rate);
        }
    }
    mixture
}

/// How probable each number of ones is after k n independent probes, added one by one.
fn ones_distribution(design: &Design) -> Vec<f64> {
    let bits = design.bits as usize;
    let mut probability = vec![0.0; bits + 1];
    probability[0] = 1.0;
    for _ in 0..design.keys * u64::from(design.probes) {
        // From the top, so that the number below is still that of the probe before.
        for ones in (0..=bits).rev() {
            let meets_a_one = probability[ones] * ones as f64 / bits as f64;
            let meets_a_zero = match ones {
                0 => 0.0,
                _ => probability[ones - 1] * (bits - (ones - 1)) as f64 / bits as f64,
            };
            probability[ones] = meets_a_one + meets_a_zero;
        }
    }
    probability
}

/// The mean and the variance of a number, from the probability of each of its values.
pub fn moments(distribution: &[f64]) -> (f64, f64) {
    let numbered = || (0_u32..).map(f64::from).zip(distribution);
    let mean: f64 = numbered().map(|(number, share)| number * share).sum();
    let squares = numbered().map(|(number, share)| (number - mean).powi(2) * share);
    (mean, squares.sum())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn close(a: &[f64], b: &[f64]) {
        assert!(
            a.len() == b.len() && a.iter().zip(b).all(|(a, b)| (a - b).abs() < 1e-12),
            "{a:?} {b:?}"
        );
    }

    #[test]
    fn small_cases_are_those_by_hand() {
        let design = Design {
            bits: 2,
            probes: 1,
            ..Design::for_bits(2, 2).unwrap()
        };
        // Two probes into two bits meet with probability 1/2.
        close(&ones_distribution(&design), &[0.0, 0.5, 0.5]);
        // With one bit set, a key is accepted with probability 1/2; with both, always.
        close(&accepted_distribution(&design, 1), &[0.25, 0.75]);
        close(&accepted_distribution(&design, 2), &[0.125, 0.25, 0.625]);
        let (mean, variance) = moments(&[0.125, 0.25, 0.625]);
        close(&[mean, variance], &[1.5, 0.5]);
    }
}
