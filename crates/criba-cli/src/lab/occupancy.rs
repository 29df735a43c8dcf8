//! How many bits of a small Bloom filter are set, as a whole distribution: the exact rate.
//!
//! Bose, Guo, Kranakis, Maheshwari, Morin, Morrison, Smid, Tang, "On the false-positive rate of Bloom
//! filters" (2008): the rate is the mean of `(X / m)^k` over the number `X` of bits that are set. That
//! is above `(1 - e^(-kn/m))^k`, the power of the mean, because the power is convex. The paper writes
//! the distribution of `X` with Stirling numbers; here it is calculated draw by draw, which needs no
//! numbers that a double cannot hold.

/// The part of the distribution that is left out at each end.
const NOTHING: f64 = 1e-25;

/// The distribution of the number of bits that are set.
pub(super) struct Occupancy {
    bits: f64,
    /// The fewest bits that may be set.
    first: usize,
    /// Probabilities from there on.
    shares: Vec<f64>,
}

impl Occupancy {
    /// The distribution of an empty filter.
    pub(super) fn new(bits: u64) -> Occupancy {
        Occupancy {
            bits: bits as f64,
            first: 0,
            shares: vec![1.0],
        }
    }

    /// After so many more random bits were set, each of them set before or not.
    pub(super) fn draw(&mut self, draws: u64) {
        for _ in 0..draws {
            // One bit more may be set, where there is one.
            if ((self.first + self.shares.len()) as f64) <= self.bits {
                self.shares.push(0.0);
            }
            for place in (0..self.shares.len()).rev() {
                let set = (self.first + place) as f64 / self.bits;
                let before = place.checked_sub(1).map_or(0.0, |one| self.shares[one]);
                let free = 1.0 - set + 1.0 / self.bits;
                self.shares[place] = self.shares[place] * set + before * free;
            }
            let leading = self.shares.iter().take_while(|share| **share < NOTHING);
            let leading = leading.count();
            self.shares.drain(..leading);
            self.first += leading;
            while self.shares.last().is_some_and(|share| *share < NOTHING) {
                self.shares.pop();
            }
        }
    }

    /// The mean of the share of set bits to this power.
    pub(super) fn moment(&self, power: u32) -> f64 {
        let places = (self.first..).zip(&self.shares);
        places
            .map(|(set, share)| share * (set as f64 / self.bits).powf(f64::from(power)))
            .sum()
    }

    /// The mean and the standard deviation of the rate with this number of probes.
    pub(super) fn rate(&self, probes: u32) -> (f64, f64) {
        let mean = self.moment(probes);
        let variance = self.moment(2 * probes) - mean * mean;
        (mean, variance.max(0.0).sqrt())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Two draws of three bits: one bit is set with 1/3, two with 2/3.
    #[test]
    fn small_filters_are_as_by_hand() {
        let mut three = Occupancy::new(3);
        three.draw(2);
        let (mean, deviation) = three.rate(2);
        assert!((mean - (1.0 / 27.0 + 8.0 / 27.0)).abs() < 1e-15);
        let square: f64 = 1.0 / 3.0 / 81.0 + 2.0 / 3.0 * 16.0 / 81.0;
        assert!((deviation - (square - mean * mean).sqrt()).abs() < 1e-12);
        three.draw(400);
        assert!((three.moment(5) - 1.0).abs() < 1e-12);
    }

    /// The formula of inclusion and exclusion for four probes that hit from one to four bits:
    /// an independent way to the same number.
    #[test]
    fn the_exact_rate_is_that_of_inclusion_and_exclusion() {
        let (bits, draws) = (1000.0_f64, 800);
        let mut occupancy = Occupancy::new(1000);
        occupancy.draw(draws);
        // Set partitions of four probes into so many bits.
        let ways = [1.0, 7.0, 6.0, 1.0];
        let mut expected = 0.0;
        for (hit, ways) in (1..=4_i32).zip(ways) {
            let distinct: f64 = (0..hit).map(|one| bits - f64::from(one)).product();
            let mut all_set = 0.0;
            let mut choose = 1.0;
            for out in 0..=hit {
                let sign = f64::from(1 - 2 * (out % 2));
                all_set += sign * choose * (1.0 - f64::from(out) / bits).powf(draws as f64);
                choose *= f64::from(hit - out) / f64::from(out + 1);
            }
            expected += ways * distinct / bits.powi(4) * all_set;
        }
        let (mean, _) = occupancy.rate(4);
        assert!((mean / expected - 1.0).abs() < 1e-9, "{mean} {expected}");
        // Above the formula of the textbook, by little.
        let formula = (1.0 - (-0.8_f64).exp()).powi(4);
        assert!(mean > formula && mean < 1.01 * formula);
    }
}
