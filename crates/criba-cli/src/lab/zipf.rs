//! Streams that follow Zipf's law: key number `n` comes with a frequency of `1 / n^exponent`.

use std::collections::BTreeMap;

use criba_filters::{KeyHash, hash_key};

use super::bench::{Bench, Key};

/// A stream of keys, and how often each came.
pub(crate) struct Stream {
    /// Numbers of keys, in the order in which they came.
    pub(crate) draws: Vec<u64>,
    pub(crate) counts: BTreeMap<u64, u64>,
}

/// Cumulated frequencies, from which to draw.
pub(crate) struct Zipf {
    sums: Vec<f64>,
}

impl Zipf {
    /// For so many keys; with an exponent of 0 all are alike.
    pub(crate) fn new(keys: u64, exponent: f64) -> Zipf {
        let mut sum = 0.0;
        let mut add = |key: u64| {
            sum += (key as f64).powf(-exponent);
            sum
        };
        Zipf {
            sums: (1..=keys).map(&mut add).collect(),
        }
    }

    /// The share of all draws that so many of the most frequent keys have.
    pub(crate) fn share(&self, keys: u64) -> f64 {
        let all = self.sums.last().copied().unwrap_or(1.0);
        let place = keys.min(self.sums.len() as u64) as usize;
        place
            .checked_sub(1)
            .map_or(0.0, |last| self.sums[last] / all)
    }

    /// Draws so many keys.
    pub(crate) fn draw(&self, bench: &Bench, count: u64) -> Vec<u64> {
        let mut random = bench.random(self.sums.len() as u64);
        let all = self.sums.last().copied().unwrap_or(0.0);
        let one = |_| {
            let place = (random.next() >> 11) as f64 / (1_u64 << 53) as f64 * all;
            self.sums.partition_point(|below| *below <= place) as u64
        };
        (0..count).map(one).collect()
    }
}

impl Stream {
    /// As many draws as the bench has keys, from a quarter as many keys.
    pub(crate) fn new(bench: &Bench, exponent: f64) -> Stream {
        let draws = Zipf::new(bench.keys / 4, exponent).draw(bench, bench.keys);
        let mut counts = BTreeMap::new();
        for key in &draws {
            *counts.entry(*key).or_insert(0) += 1;
        }
        Stream { draws, counts }
    }

    /// The hashes of all draws, in their order.
    pub(crate) fn hashes(&self, bench: &Bench) -> impl Iterator<Item = KeyHash> {
        self.draws
            .iter()
            .map(|number| hash(bench, &bench.key(*number)))
    }

    pub(crate) fn distinct(&self) -> u64 {
        self.counts.len() as u64
    }

    /// The sum of the squares of all counts.
    pub(crate) fn second_moment(&self) -> f64 {
        self.counts
            .values()
            .map(|count| (*count as f64).powi(2))
            .sum()
    }
}

/// The hash of a key under the seed of the bench.
pub(crate) fn hash(bench: &Bench, key: &Key) -> KeyHash {
    hash_key(bench.seed, key)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The first key comes with a share of 1 / H(n), the second with half of that.
    #[test]
    fn draws_follow_the_law() {
        let bench = Bench::new(3, 40_000);
        let stream = Stream::new(&bench, 1.0);
        let harmonic: f64 = (1..=10_000).map(|n| 1.0 / f64::from(n)).sum();
        for (key, share) in [
            (0, 1.0 / harmonic),
            (1, 0.5 / harmonic),
            (9, 0.1 / harmonic),
        ] {
            let expected = 40_000.0 * share;
            let found = stream.counts[&key] as f64;
            assert!(
                (found - expected).abs() < 5.0 * expected.sqrt(),
                "{key}: {found} {expected}"
            );
        }
        let law = Zipf::new(10_000, 1.0);
        assert!((law.share(2) - 1.5 / harmonic).abs() < 1e-12);
        assert_eq!((law.share(0), law.share(20_000)), (0.0, 1.0));
        let even = Stream::new(&bench, 0.0);
        assert!(even.counts.values().all(|count| *count < 25));
        assert_eq!(even.draws.len(), 40_000);
    }
}
