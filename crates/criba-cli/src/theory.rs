//! What the literature says filters should do: formulas only, nothing measured.
//!
//! Kept apart from every measurement, so that a report can set one beside the other.

/// Bits in the cache line of a blocked Bloom filter.
const LINE_BITS: f64 = 512.0;

/// Most bits set for each key that are worth a try.
const PROBES_MAX: u32 = 24;

/// False-positive rate of a Bloom filter whose keys are dealt to lines of 512 bits, with the best
/// number of bits set for each key (Putze, Sanders, Singler 2007, section 3: the number of keys in
/// a line is Poisson distributed).
pub(crate) fn blocked_bloom_rate(bits_per_key: f64) -> f64 {
    if bits_per_key <= 0.0 {
        return 1.0;
    }
    (1..=PROBES_MAX)
        .map(|probes| blocked_bloom(bits_per_key, probes))
        .fold(1.0, f64::min)
}

fn blocked_bloom(bits_per_key: f64, probes: u32) -> f64 {
    let mean = LINE_BITS / bits_per_key;
    // Ten standard deviations above the mean leave nothing that a double could hold.
    let most = (mean + 10.0 * mean.sqrt() + 20.0) as u32;
    let mut sum = 0.0;
    let mut log_weight = -mean;
    for keys in 0..=most {
        if keys > 0 {
            log_weight += mean.ln() - f64::from(keys).ln();
        }
        let zero = (1.0 - 1.0 / LINE_BITS).powf(f64::from(probes) * f64::from(keys));
        sum += log_weight.exp() * (1.0 - zero).powf(f64::from(probes));
    }
    sum.min(1.0)
}

/// False-positive rate of a static function whose values have this many bits, all of which an
/// absent key must meet by chance (Chazelle, Kilian, Rubinfeld, Tal 2004).
pub(crate) fn bloomier_rate(bits_per_key: f64) -> f64 {
    (-bits_per_key).exp2().min(1.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rates_are_those_of_the_literature() {
        let rate = blocked_bloom_rate(10.0);
        assert!((0.0090..0.0105).contains(&rate), "{rate}");
        // The classic filter is a lower bound: 0.6185 to the power of bits per key.
        for bits in [2.0, 5.5, 10.0, 15.0, 20.0] {
            let rate = blocked_bloom_rate(bits);
            assert!(rate > 0.6185_f64.powf(bits) && rate < 1.0, "{bits} {rate}");
            assert!(rate > blocked_bloom_rate(bits + 1.0));
        }
        assert_eq!(blocked_bloom_rate(0.0), 1.0);
        assert_eq!(bloomier_rate(10.0), 1.0 / 1024.0);
        assert_eq!(bloomier_rate(0.0), 1.0);
    }
}
