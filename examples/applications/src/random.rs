//! Random numbers that a seed repeats, and streams in which few keys come often.

/// Uniform 64-bit numbers: SplitMix64 (Steele, Lea, Flood 2014).
#[derive(Debug, Clone)]
pub struct Random(u64);

impl Random {
    /// Equal seeds and equal streams give equal numbers; streams of one seed are independent.
    pub fn new(seed: u64, stream: u64) -> Random {
        Random(mix(seed) ^ mix(stream.wrapping_add(1)))
    }

    /// The next number.
    #[expect(clippy::should_implement_trait, reason = "it never ends")]
    pub fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        mix(self.0)
    }

    /// A number below `bound`, which is not 0.
    pub fn below(&mut self, bound: u64) -> u64 {
        ((u128::from(self.next()) * u128::from(bound)) >> 64) as u64
    }

    /// A number from 0 to below 1.
    pub fn share(&mut self) -> f64 {
        (self.next() >> 11) as f64 / (1_u64 << 53) as f64
    }

    /// True with this probability.
    pub fn chance(&mut self, probability: f64) -> bool {
        self.share() < probability
    }

    /// Puts the items into random order.
    pub fn shuffle<T>(&mut self, items: &mut [T]) {
        for last in (1..items.len()).rev() {
            let other = self.below(last as u64 + 1) as usize;
            items.swap(last, other);
        }
    }
}

fn mix(mut bits: u64) -> u64 {
    bits = (bits ^ (bits >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    bits = (bits ^ (bits >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    bits ^ (bits >> 31)
}

/// Zipf's law: item `n`, counted from 0, comes with a frequency of `1 / (n + 1)^exponent`.
#[derive(Debug, Clone)]
pub struct Zipf {
    sums: Vec<f64>,
}

impl Zipf {
    /// For `items` items, of which there must be at least one. With an exponent of 0 all come alike.
    pub fn new(items: u64, exponent: f64) -> Zipf {
        let mut sum = 0.0;
        let add = |item: u64| {
            sum += (item as f64).powf(-exponent);
            sum
        };
        Zipf {
            sums: (1..=items).map(add).collect(),
        }
    }

    /// Draws an item.
    pub fn draw(&self, random: &mut Random) -> u64 {
        let all = self.sums.last().copied().unwrap_or(0.0);
        let place = random.share() * all;
        self.sums.partition_point(|below| *below <= place) as u64
    }

    /// The share of the draws that an item has; 0 for one that there is not.
    pub fn probability(&self, item: u64) -> f64 {
        let sum = |item: usize| self.sums.get(item).copied();
        let item = item as usize;
        let below = item.checked_sub(1).and_then(sum).unwrap_or(0.0);
        let all = self.sums.last().copied().unwrap_or(1.0);
        sum(item).map_or(0.0, |up_to| (up_to - below) / all)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn draws_follow_the_law() {
        let (zipf, mut random) = (Zipf::new(1_000, 1.0), Random::new(1, 0));
        let mut counts = vec![0_u32; 1_000];
        for _ in 0..100_000 {
            counts[zipf.draw(&mut random) as usize] += 1;
        }
        // The harmonic number of 1,000 is 7.485.
        for (item, expected) in [(0, 13_360.0), (1, 6_680.0), (9, 1_336.0_f64)] {
            let found = f64::from(counts[item]);
            assert!(
                (found - expected).abs() < 5.0 * expected.sqrt(),
                "{item}: {found}"
            );
            assert!((zipf.probability(item as u64) - expected / 1e5).abs() < 1e-5);
        }
        assert_eq!(zipf.probability(1_000), 0.0);
    }

    #[test]
    fn seeds_and_streams_repeat() {
        let numbers = |seed, stream| {
            let mut random = Random::new(seed, stream);
            [random.next(), random.below(10), random.next()]
        };
        assert_eq!(numbers(1, 2), numbers(1, 2));
        assert_ne!(numbers(1, 2), numbers(2, 1));
        assert_ne!(numbers(1, 2), numbers(1, 3));
    }
}
