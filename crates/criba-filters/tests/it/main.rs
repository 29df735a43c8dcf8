//! What sketches promise, measured on streams that a seed repeats: bounds of errors, counts that
//! are never too low, merging, bytes.
//!
//! Streams follow Zipf's law: key number `n` comes with a frequency of `1 / n^exponent`.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

mod bloom;
mod distinct;
mod format;
mod frequencies;
mod hostile;
mod top;

use std::collections::BTreeMap;
use std::fmt::Debug;

use criba_filters::{KeyHash, hash_key};

/// Steele, Lea, Flood 2014: a sequence of 64-bit numbers.
struct SplitMix(u64);

impl SplitMix {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut x = self.0;
        x = (x ^ (x >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        x = (x ^ (x >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        x ^ (x >> 31)
    }

    /// At least 0 and less than 1.
    fn unit(&mut self) -> f64 {
        (self.next() >> 11) as f64 / (1_u64 << 53) as f64
    }
}

/// A stream of key numbers, and how often each came.
struct Stream {
    seed: u64,
    draws: Vec<u64>,
    counts: BTreeMap<u64, u64>,
}

impl Stream {
    /// So many draws from so many keys.
    fn zipf(seed: u64, draws: usize, keys: u64, exponent: f64) -> Stream {
        let mut sums = Vec::new();
        let mut sum = 0.0;
        for key in 1..=keys {
            sum += (key as f64).powf(-exponent);
            sums.push(sum);
        }
        let mut random = SplitMix(seed);
        let draw = |_| sums.partition_point(|below| *below <= random.unit() * sum) as u64;
        let draws: Vec<u64> = (0..draws).map(draw).collect();
        let mut counts = BTreeMap::new();
        for key in &draws {
            *counts.entry(*key).or_insert(0) += 1;
        }
        Stream {
            seed,
            draws,
            counts,
        }
    }

    fn hash(&self, key: u64) -> KeyHash {
        hash(self.seed, key)
    }

    fn hashes(&self) -> impl Iterator<Item = KeyHash> {
        self.draws.iter().map(|key| self.hash(*key))
    }

    fn len(&self) -> f64 {
        self.draws.len() as f64
    }

    fn second_moment(&self) -> f64 {
        self.counts
            .values()
            .map(|count| (*count as f64).powi(2))
            .sum()
    }
}

fn hash(seed: u64, key: u64) -> KeyHash {
    hash_key(seed, &key.to_le_bytes())
}

/// Checks that a share of `count` trials, each of which succeeds with `expected`, is within five
/// standard deviations.
fn check_share(found: usize, count: usize, expected: f64) {
    let mean = count as f64 * expected;
    let deviation = (mean * (1.0 - expected)).sqrt();
    let off = (found as f64 - mean) / deviation;
    assert!(
        off.abs() < 5.0,
        "{found} of {count}, {mean} are expected: {off} deviations"
    );
}

/// What is written comes back; what was changed in any byte, cut, or extended does not.
fn check_bytes<T: PartialEq + Debug>(
    value: &T,
    to_bytes: impl Fn(&T) -> Vec<u8>,
    from_bytes: impl Fn(&[u8]) -> criba_filters::Result<T>,
) {
    let bytes = to_bytes(value);
    assert!(bytes.len() < 20_000, "small enough to try every byte");
    let back = from_bytes(&bytes).unwrap();
    assert_eq!(&back, value);
    assert_eq!(to_bytes(&back), bytes);
    for at in 0..bytes.len() {
        for change in [1, 0x80, 0xff] {
            let mut damaged = bytes.clone();
            damaged[at] ^= change;
            assert!(from_bytes(&damaged).is_err(), "byte {at}");
        }
        assert!(from_bytes(&bytes[..at]).is_err(), "cut at {at}");
    }
    assert!(from_bytes(&[bytes.as_slice(), &[0]].concat()).is_err());
    // Another structure, as whole.
    let other = criba_filters::SpaceSaving::with_counters(1)
        .unwrap()
        .to_bytes();
    let message = from_bytes(&other).map(|_| ()).unwrap_err().to_string();
    assert!(message.contains("read them as such"), "{message}");
}

/// An error that says what to do next.
fn check_refused<T: Debug>(result: criba_filters::Result<T>) {
    let message = result.unwrap_err().to_string();
    let advice = ["choose", "ask for", "make both", "build both"];
    assert!(
        advice.iter().any(|word| message.contains(word)),
        "{message}"
    );
}
