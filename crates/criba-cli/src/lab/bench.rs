//! What every experiment works with: a seed, a size, keys, a clock.

use crate::clock::{Clock, median};
use crate::exit::Failure;
use crate::random::{SplitMix, mix};

/// A key of the experiments. The first 8 bytes are a permutation of its number, so all are different.
pub(crate) type Key = [u8; 16];

/// Rounds of a time measurement, of which the median is taken.
const ROUNDS: usize = 3;

/// Numbers of absent keys begin here.
pub(crate) const ABSENT: u64 = 1 << 40;

/// The setting of all experiments.
pub(crate) struct Bench {
    pub(crate) seed: u64,
    /// Keys of a set, draws of a stream.
    pub(crate) keys: u64,
    /// The filter of the experiment `bloom`.
    pub(crate) shape: Shape,
    pub(crate) clock: Clock,
}

/// Size of one Bloom filter.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Shape {
    pub(crate) bits: u64,
    pub(crate) probes: u32,
    pub(crate) keys: u64,
}

impl Default for Shape {
    /// That of the exercise.
    fn default() -> Shape {
        Shape {
            bits: 1000,
            probes: 4,
            keys: 200,
        }
    }
}

impl Bench {
    pub(crate) fn new(seed: u64, keys: u64) -> Bench {
        Bench {
            seed,
            keys,
            shape: Shape::default(),
            clock: Clock::best(),
        }
    }

    /// Key number `number`.
    pub(crate) fn key(&self, number: u64) -> Key {
        let first = mix(number ^ mix(self.seed));
        let mut key = [0; 16];
        key[..8].copy_from_slice(&first.to_le_bytes());
        key[8..].copy_from_slice(&mix(first ^ self.seed).to_le_bytes());
        key
    }

    /// The first keys.
    pub(crate) fn present(&self, count: u64) -> Vec<Key> {
        (0..count).map(|number| self.key(number)).collect()
    }

    /// As many keys as the bench has that are in no set.
    pub(crate) fn absent(&self) -> Vec<Key> {
        (ABSENT..ABSENT + self.keys)
            .map(|number| self.key(number))
            .collect()
    }

    pub(crate) fn random(&self, stream: u64) -> SplitMix {
        SplitMix::new(mix(self.seed ^ mix(stream)))
    }

    /// Nanoseconds that each of `count` calls took: the median of some rounds.
    ///
    /// # Errors
    ///
    /// When the work fails.
    pub(crate) fn time(
        &self,
        count: u64,
        mut work: impl FnMut() -> Result<(), Failure>,
    ) -> Result<f64, Failure> {
        let mut rounds = Vec::new();
        for _ in 0..ROUNDS {
            rounds.push(self.clock.time(&mut work)? / count.max(1) as f64);
        }
        Ok(median(&rounds))
    }
}

/// What a structure that cannot be made says of it.
///
/// # Errors
///
/// That.
pub(crate) fn made<T, E: std::fmt::Display>(result: Result<T, E>) -> Result<T, Failure> {
    result.map_err(|error| Failure::usage(error.to_string()))
}
