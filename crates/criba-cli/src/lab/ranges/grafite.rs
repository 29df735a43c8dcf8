//! Grafite and Bucketing (Costa, Ferragina, Vinciguerra 2024, "Grafite: Taming Adversarial Queries with
//! Optimal Range Filters", sections 3 and 4).
//!
//! Grafite hashes integers so that neighbours stay neighbours: `h(x) = (q(x / r) + x) mod r` with `q` of
//! a pairwise independent family. An empty range of `l` integers meets the hash code of a key with a
//! probability of at most `n l / r`, wherever it lies: `l / 2^(B-2)` with `B` bits for each key, of
//! which an Elias-Fano code takes 2 beside `log2(r / n)`.
//!
//! Bucketing cuts the integers into buckets of equal length and remembers which of them hold a key.

use super::integers::{Integers, elias_fano_bits, has_between, universe_for};
use super::{KeyRange, RangeSet};
use crate::random::SplitMix;

/// The Mersenne prime 2^61 - 1.
const PRIME: u128 = (1 << 61) - 1;

/// Sorted hash codes, counted as Elias-Fano would take them.
pub(crate) struct Grafite {
    integers: Integers,
    /// Sorted, for what theory says.
    all: Vec<u64>,
    codes: Vec<u64>,
    /// Codes are below this one.
    universe: u64,
    /// Of `a x + b mod p mod r` (Carter and Wegman 1979).
    multiplier: u128,
    addend: u128,
    keys: usize,
}

impl Grafite {
    /// For sorted keys; the seed chooses the hash function.
    pub(crate) fn new(keys: &[Vec<u8>], bits_per_key: f64, seed: u64) -> Grafite {
        let integers = Integers::of(keys);
        let mut random = SplitMix::new(seed);
        let mut grafite = Grafite {
            universe: universe_for(keys.len(), bits_per_key) as u64,
            multiplier: u128::from(random.next()) % (PRIME - 1) + 1,
            addend: u128::from(random.next()) % PRIME,
            all: integers.all(keys),
            codes: Vec::new(),
            keys: keys.len(),
            integers,
        };
        let mut codes: Vec<u64> = grafite
            .all
            .iter()
            .map(|&number| grafite.code(number))
            .collect();
        codes.sort_unstable();
        codes.dedup();
        grafite.codes = codes;
        grafite
    }

    fn code(&self, number: u64) -> u64 {
        let block = u128::from(number / self.universe);
        let shift = (self.multiplier * block + self.addend) % PRIME % u128::from(self.universe);
        ((shift + u128::from(number)) % u128::from(self.universe)) as u64
    }

    /// Of integers of one block: their codes follow one another, and may begin again at 0.
    fn has_in_block(&self, (lower, upper): (u64, u64)) -> bool {
        let (from, to) = (self.code(lower), self.code(upper));
        match from <= to {
            true => has_between(&self.codes, (from, to)),
            false => {
                self.codes.first().is_some_and(|&first| first <= to)
                    || self.codes.last().is_some_and(|&last| last >= from)
            }
        }
    }
}

impl RangeSet for Grafite {
    fn may_hold(&self, range: &KeyRange) -> bool {
        let (lower, upper) = self.integers.range(range);
        if upper - lower >= self.universe - 1 {
            return true;
        }
        let (first, last) = (lower / self.universe, upper / self.universe);
        if first == last {
            return self.has_in_block((lower, upper));
        }
        let border = last * self.universe;
        self.has_in_block((lower, border - 1)) || self.has_in_block((border, upper))
    }

    fn bits(&self) -> f64 {
        elias_fano_bits(self.keys, self.universe as f64)
    }

    /// 1 if the range holds the integer of a key: the keys were longer.
    fn expected(&self, range: &KeyRange) -> Option<f64> {
        let (lower, upper) = self.integers.range(range);
        if has_between(&self.all, (lower, upper)) {
            return Some(1.0);
        }
        let values = (upper - lower) as f64 + 1.0;
        Some((values * self.keys as f64 / self.universe as f64).min(1.0))
    }
}

/// The numbers of the buckets that hold a key, counted as Elias-Fano would take them.
pub(crate) struct Bucketing {
    integers: Integers,
    least: u64,
    greatest: u64,
    bucket: f64,
    codes: Vec<u64>,
    bits: f64,
}

impl Bucketing {
    /// For sorted keys.
    pub(crate) fn new(keys: &[Vec<u8>], bits_per_key: f64) -> Bucketing {
        let integers = Integers::of(keys);
        let all = integers.all(keys);
        let least = all.first().copied().unwrap_or(0);
        let greatest = all.last().copied().unwrap_or(0);
        let span = (greatest - least) as f64 + 1.0;
        let make = |universe: f64| {
            let bucket = (span / universe).max(1.0);
            let mut codes: Vec<u64> = all.iter().map(|&x| number(x, least, bucket)).collect();
            codes.dedup();
            let bits = elias_fano_bits(codes.len(), span / bucket);
            (bucket, codes, bits)
        };
        // Where many keys are in one bucket, there is room for more buckets.
        let most = bits_per_key * keys.len() as f64;
        let mut universe = universe_for(keys.len(), bits_per_key);
        let mut best = make(universe);
        while best.0 > 1.0 {
            universe *= 1.1;
            let next = make(universe);
            if next.2 > most {
                break;
            }
            best = next;
        }
        let (bucket, codes, bits) = best;
        Bucketing {
            integers,
            least,
            greatest,
            bucket,
            codes,
            bits,
        }
    }

    /// The rate on keys that are spread evenly: a bound of the range lies in the bucket of a key
    /// at distances that are exponential, by a half for each of the two bounds.
    pub(crate) fn rate_on_uniform(&self) -> f64 {
        let buckets = (self.greatest - self.least) as f64 / self.bucket;
        (self.codes.len() as f64 / buckets).min(1.0)
    }
}

fn number(integer: u64, least: u64, bucket: f64) -> u64 {
    ((integer - least) as f64 / bucket) as u64
}

impl RangeSet for Bucketing {
    fn may_hold(&self, range: &KeyRange) -> bool {
        let (lower, upper) = self.integers.range(range);
        if upper < self.least || lower > self.greatest {
            return false;
        }
        let number = |integer: u64| {
            let integer = integer.clamp(self.least, self.greatest);
            number(integer, self.least, self.bucket)
        };
        has_between(&self.codes, (number(lower), number(upper)))
    }

    fn bits(&self) -> f64 {
        self.bits
    }
}
