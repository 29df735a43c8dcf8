//! The false-positive rate of a blocked Bloom filter, and the number of probes that makes it least.
//!
//! Putze, Sanders, Singler, "Cache-, hash- and space-efficient Bloom filters" (2007), section 3.1: the
//! keys of a line are binomially distributed (Poisson in the limit), and the rate is the mean of the
//! rates of small Bloom filters of so many keys. Where the paper takes the small filter's rate as
//! `(1 - (1 - 1/m)^(ki))^k`, we add the second-order term for the spread of the number of set bits,
//! which matters in lines this small (Bose et al., "On the false-positive rate of Bloom filters", 2008).

/// Bits of a line, as a number to calculate with.
const LINE_BITS: f64 = 512.0;
/// Most probes per key. Written to disk as the bound of a field; must not be lowered.
pub(crate) const PROBES_MAX: u8 = 32;

/// The number of probes with the least rate for so many keys in so many lines.
pub(crate) fn best_probes(keys: u64, lines: u64) -> u8 {
    // In one large filter ln 2 bits per key are best, in a blocked one somewhat fewer: climb from there.
    let bits_per_key = lines as f64 * LINE_BITS / keys.max(1) as f64;
    let mut best = (bits_per_key * 0.6).clamp(1.0, f64::from(PROBES_MAX)) as u8;
    let mut best_rate = blocked_rate(keys, lines, best);
    for up in [false, true] {
        loop {
            let next = if up { best + 1 } else { best - 1 };
            let rate = blocked_rate(keys, lines, next);
            if !(1..=PROBES_MAX).contains(&next) || rate >= best_rate {
                break;
            }
            (best, best_rate) = (next, rate);
        }
    }
    best
}

/// Probability that a filter of `lines` lines with `keys` keys, `probes` bits each, says "maybe" to an
/// absent key. 1 when there is no line; a line with more keys than bits counts as full.
pub(crate) fn blocked_rate(keys: u64, lines: u64, probes: u8) -> f64 {
    if keys == 0 {
        return 0.0;
    }
    let load = keys as f64 / lines as f64;
    if lines == 0 || load > LINE_BITS * 1.25 {
        return 1.0;
    }
    if lines == 1 {
        return line_rate(keys as f64, probes);
    }
    // Terms of the binomial distribution, each from the one before it. The first is at least e^-640.
    let others = lines as f64 - 1.0;
    let mut share = (keys as f64 * (-1.0 / lines as f64).ln_1p()).exp();
    let last = (load + 12.0 * load.sqrt() + 12.0).min(keys as f64) as u64;
    let mut rate = 0.0;
    for count in 0..=last {
        let here = count as f64;
        rate += share * line_rate(here, probes);
        share *= (keys as f64 - here) / (here + 1.0) / others;
    }
    rate.min(1.0)
}

/// Rate of one line with so many keys: the mean of `x^k` over the share `x` of bits that are set,
/// expanded to the second order around the mean of `x`.
fn line_rate(keys: f64, probes: u8) -> f64 {
    let m = LINE_BITS;
    let draws = keys * f64::from(probes);
    let clear = (draws * (-1.0 / m).ln_1p()).exp();
    let clear_pairs = (draws * (-2.0 / m).ln_1p()).exp();
    let variance = ((1.0 - 1.0 / m) * clear_pairs + clear / m - clear * clear).max(0.0);
    let set = 1.0 - clear;
    let k = i32::from(probes);
    let curvature = if k < 2 {
        0.0
    } else {
        f64::from(k * (k - 1)) * set.powi(k - 2)
    };
    (set.powi(k) + 0.5 * curvature * variance).min(1.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ten_bits_cost_what_the_literature_says() {
        let lines = (10_000_000u64 * 10).div_ceil(512);
        let probes = best_probes(10_000_000, lines);
        let rate = blocked_rate(10_000_000, lines, probes);
        assert!((5..=7).contains(&probes), "{probes}");
        assert!((0.0085..=0.0110).contains(&rate), "{rate}");
    }

    #[test]
    fn no_other_number_of_probes_is_better() {
        for bits in [1.0, 2.5, 4.0, 8.0, 10.3, 16.0, 24.0, 40.0, 64.0] {
            for keys in [1u64, 100, 100_000] {
                let lines = ((keys as f64 * bits / LINE_BITS).ceil() as u64).max(1);
                let best = blocked_rate(keys, lines, best_probes(keys, lines));
                for probes in 1..=PROBES_MAX {
                    assert!(
                        best <= blocked_rate(keys, lines, probes),
                        "{bits} {keys} {probes}"
                    );
                }
            }
        }
    }

    #[test]
    fn extremes_stay_probabilities() {
        for keys in [0, 1, u64::MAX] {
            for lines in [0, 1, 2, u64::MAX] {
                for probes in [1, 2, PROBES_MAX] {
                    let rate = blocked_rate(keys, lines, probes);
                    assert!(
                        (0.0..=1.0).contains(&rate),
                        "{keys} {lines} {probes}: {rate}"
                    );
                }
            }
        }
    }
}
