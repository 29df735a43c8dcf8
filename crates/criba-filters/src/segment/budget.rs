//! How many bits each run's filter gets from a budget for the whole tree.
//!
//! A lookup of an absent key asks every run; what it reads in vain is the sum of their false
//! positive rates `p_i`. With `log2(1 / p_i)` bits for each of the `n_i` keys of run `i`, the sum
//! is least for a given number of bits when every `p_i` is proportional to `n_i` (Dayan,
//! Athanassoulis, Idreos: "Monkey: Optimal navigable key-value store", 2017, section 4): each
//! halving of a run's key count earns one bit more. A rate cannot exceed 1, so runs that would
//! get one go without a filter and the rest is shared by the others.
//!
//! If absent lookups do not ask all runs alike, what they read in vain is the sum of `w_i p_i`,
//! `w_i` being how often run `i` is asked. With `L` for the Lagrange multiplier of the memory
//! `sum n_i log2(1 / p_i)`, the derivative by `p_i` is zero where `w_i = L n_i / (p_i ln 2)`: `p_i`
//! is proportional to `n_i / w_i`, and a run that is asked twice as often earns one bit more.

/// Bits per key of each run, 0.0 for none, so that the tree has `bits_per_key` on average and the
/// expected number of wasted reads of an absent lookup is least. `most` bounds a single run.
///
/// Runs without keys get 0.0. O(runs) for each of 64 steps of bisection.
#[must_use]
pub fn allocate(bits_per_key: f64, keys: &[u64], most: f64) -> Vec<f64> {
    let runs: Vec<(u64, f64)> = keys.iter().map(|n| (*n, 1.0)).collect();
    allocate_weighted(bits_per_key, &runs, most)
}

/// What a filter takes besides its payload: the slots that stay empty and the bump thresholds, as a
/// share of it, and a tail, a stash and parameters that any filter has. Measured, and held against
/// real filters by a test; those of less than some thousand keys take more.
const OVERHEAD_SHARE: f64 = 0.013;
const OVERHEAD_BITS: f64 = 1430.0;

/// Parameters may take this share of a budget; in segments so small that they take more, what is
/// more comes on top.
const OVERHEAD_BITS_SHARE_MAX: f64 = 0.1;

/// Payload bits per key that a memory of `bits_per_key` has room for, in so many filters with so many
/// keys in all.
pub fn payload_bits(bits_per_key: f64, keys: u64, filters: u64) -> f64 {
    let fixed = OVERHEAD_BITS * filters as f64 / keys.max(1) as f64;
    let fixed = fixed.min(OVERHEAD_BITS_SHARE_MAX * bits_per_key);
    (bits_per_key - fixed) / (1.0 + OVERHEAD_SHARE)
}

/// [`allocate`] for runs, or parts of runs, with a weight beside their key count: how often absent
/// lookups ask it, compared with the others. A part that is asked in proportion to its keys, with
/// the weight that it has of the whole, gets the bits of the whole. Only the ratio of weights
/// counts; a weight that is not a positive number is 1.
#[must_use]
pub fn allocate_weighted(bits_per_key: f64, runs: &[(u64, f64)], most: f64) -> Vec<f64> {
    let total: f64 = runs.iter().map(|(n, _)| *n as f64).sum();
    let budget = bits_per_key * total;
    if total == 0.0 || budget.is_nan() || budget <= 0.0 {
        return vec![0.0; runs.len()];
    }
    let log_weight = |weight: f64| {
        if weight.is_normal() && weight > 0.0 {
            weight.log2()
        } else {
            0.0
        }
    };
    // `scale` is log2 of the factor of proportionality: p = n / w * 2^-scale.
    let bits_at = |scale: f64, (n, weight): (u64, f64)| {
        if n == 0 {
            0.0
        } else {
            (scale + log_weight(weight) - (n as f64).log2()).clamp(0.0, most)
        }
    };
    let spent = |scale: f64| -> f64 {
        let bits = runs.iter().map(|run| run.0 as f64 * bits_at(scale, *run));
        bits.sum()
    };
    let weights = runs.iter().map(|(_, weight)| log_weight(*weight));
    let (least, greatest) = weights.fold((0.0_f64, 0.0_f64), |(least, greatest), weight| {
        (least.min(weight), greatest.max(weight))
    });
    let (mut low, mut high) = (-greatest, 64.0 + most - least);
    for _ in 0..64 {
        let middle = f64::midpoint(low, high);
        if spent(middle) > budget {
            high = middle;
        } else {
            low = middle;
        }
    }
    runs.iter().map(|run| bits_at(low, *run)).collect()
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
    fn a_run_that_is_asked_twice_as_often_earns_one_bit() {
        let bits = allocate_weighted(
            10.0,
            &[(1 << 20, 1.0), (1 << 20, 2.0), (1 << 20, 0.25)],
            64.0,
        );
        assert!((bits[1] - bits[0] - 1.0).abs() < 1e-6, "{bits:?}");
        assert!((bits[0] - bits[2] - 2.0).abs() < 1e-6, "{bits:?}");
        let scaled = [(1 << 20, 3.0), (1 << 20, 6.0), (1 << 20, 0.75)];
        let same = allocate_weighted(10.0, &scaled, 64.0);
        assert!(bits.iter().zip(&same).all(|(a, b)| (a - b).abs() < 1e-6));
        assert_eq!(
            allocate_weighted(7.0, &[(10, 1.0), (500, 1.0)], 64.0),
            allocate(7.0, &[10, 500], 64.0)
        );
    }

    #[test]
    fn parts_that_are_asked_alike_get_the_bits_of_the_whole() {
        let whole = allocate_weighted(8.0, &[(1000, 1.0), (90_000, 2.0)], 64.0);
        let parts = [(1000, 1.0), (30_000, 2.0 / 3.0), (60_000, 4.0 / 3.0)];
        let parts = allocate_weighted(8.0, &parts, 64.0);
        for (part, whole) in parts.iter().zip([whole[0], whole[1], whole[1]]) {
            assert!((part - whole).abs() < 1e-6, "{parts:?} {whole:?}");
        }
    }

    #[test]
    fn a_weight_that_is_none_is_one() {
        let bits = |weight| allocate_weighted(10.0, &[(1000, weight), (100_000, 1.0)], 64.0);
        for weight in [0.0, -1.0, f64::NAN, f64::INFINITY] {
            assert_eq!(bits(weight), bits(1.0), "{weight}");
        }
    }

    /// The memory is spent, and moving any of it makes the weighted sum no smaller.
    #[test]
    fn weighted_shares_spend_the_budget_and_no_exchange_is_better() {
        let runs = [
            (1_000, 16.0),
            (50_000, 0.5),
            (400_000, 1.0),
            (2_000_000, 0.0625),
        ];
        let cost = |bits: &[f64]| -> f64 {
            let each = bits
                .iter()
                .zip(&runs)
                .map(|(bits, run)| run.1 * (-bits).exp2());
            each.sum()
        };
        for budget in [0.5, 2.0, 10.0] {
            let bits = allocate_weighted(budget, &runs, 64.0);
            let spent: f64 = bits
                .iter()
                .zip(&runs)
                .map(|(b, run)| b * run.0 as f64)
                .sum();
            let total: u64 = runs.iter().map(|run| run.0).sum();
            assert!((spent / total as f64 - budget).abs() < 1e-6, "{bits:?}");
            for from in 0..runs.len() {
                for to in (0..runs.len()).filter(|to| *to != from) {
                    let mut other = bits.clone();
                    let moved = (100.0 / runs[from].0 as f64).min(other[from]) * 0.01;
                    other[from] -= moved;
                    other[to] += moved * runs[from].0 as f64 / runs[to].0 as f64;
                    assert!(cost(&other) >= cost(&bits) - 1e-9, "{bits:?}");
                }
            }
        }
    }

    /// Memory as the statistics count it: the resident part and the body.
    #[test]
    fn payload_and_overhead_are_the_memory() {
        use super::super::{BloomierBits, Build, Filter, FilterSpec, KeyHash, Place, build};
        for (keys, tolerance) in [(12_500_u64, 0.012), (150_000, 0.01)] {
            for memory in [8.0, 10.0, 20.0] {
                let bits = payload_bits(memory, keys, 1);
                let hash = |n: u64| KeyHash(n.wrapping_mul(0x9e37_79b9_7f4a_7c15));
                let hashes: Vec<KeyHash> = (0..keys).map(hash).collect();
                let place = |n: u64| Place {
                    block: (n / 90) as u32,
                    slot: 0,
                };
                let places: Vec<Place> = (0..keys).map(place).collect();
                let built = build(&Build {
                    spec: FilterSpec::Bloomier(BloomierBits::Rejecting(bits)),
                    salt: 5,
                    hashes: &hashes,
                    places: &places,
                    block_count: 0,
                    max_slot: 0,
                });
                let words = built.body.len();
                let filter = Filter::parse(built.kind, &built.header, words as u64).unwrap();
                let bits_taken = (filter.resident_bytes() + 8 * words) as f64 * 8.0;
                let taken = bits_taken / keys as f64;
                assert!(
                    (taken / memory - 1.0).abs() < tolerance,
                    "{keys} keys: {taken} bits, not {memory}"
                );
            }
        }
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
