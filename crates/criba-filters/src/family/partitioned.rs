//! The partitioned Bloom filter: each probe has a sub-array of its own.
//!
//! Mullin, "A second look at Bloom filters" (1983); Chang, Feng, Li, "Approximate caches for packet
//! classification" (2004).
//!
//! **Memory** that of a Bloom filter. **Cost** `k` random accesses, one to each part, so that parts
//! may be memories of their own and be asked at the same time. A key sets exactly `k` bits: no two
//! probes of it meet, and a little more bits are set than in one array, which makes the rate a
//! little higher (by a factor that tends to 1 as the filter grows). **Can** take keys beyond its
//! capacity. **Cannot** delete or grow.

use super::Hashing;
use super::bits::Bits;
use super::design::{Design, check_rate, fill_for};
use super::frame::{self, Kind, require};
use crate::error::{Error, Result};
use crate::hash::mix;
use crate::{Insert, KeyHash, Membership, Merge};

const KIND: Kind = *b"PART";
const VERSION: u8 = 2;
const PROBES_MAX: u32 = 128;

/// The rate of `probes` parts of so many bits with so many keys: `(1 - (1 - 1/part)^n)^k`.
#[must_use]
pub fn partitioned_rate(part_bits: u64, probes: u32, keys: u64) -> f64 {
    if keys == 0 {
        return 0.0;
    }
    fill_for(part_bits, keys as f64).powf(f64::from(probes))
}

/// A Bloom filter with a sub-array for each probe.
///
/// Formulas, use, what was measured and what it costs: `docs/filters/partitioned.md`.
///
/// ```
/// use criba_filters::{Insert, Membership, Partitioned};
///
/// let mut seen = Partitioned::new(100_000, 0.01)?;
/// seen.insert("fruit/apple")?;
/// assert!(seen.may_contain("fruit/apple"));
/// # Ok::<(), criba_filters::Error>(())
/// ```
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Partitioned {
    keys: u64,
    probes: u32,
    part_bits: u64,
    /// One part after the other.
    bits: Bits,
}

impl Partitioned {
    /// An empty filter for so many keys (0 is taken as 1) at this rate. Bits are those of a Bloom
    /// filter, rounded up to a multiple of the probes.
    ///
    /// # Errors
    ///
    /// If the rate is not from 2^-64 to below 1, or more than 2^36 bits would be needed.
    pub fn new(keys: u64, rate: f64) -> Result<Self> {
        check_rate(rate)?;
        let Design { bits, probes, .. } = Design::for_rate(keys, rate)?;
        let part_bits = bits.div_ceil(u64::from(probes));
        let bits = Bits::new(part_bits * u64::from(probes))?;
        Ok(Self {
            keys: 0,
            probes,
            part_bits,
            bits,
        })
    }

    /// Number of parts, that is of bits that a key sets.
    #[must_use]
    pub fn probes(&self) -> u32 {
        self.probes
    }

    /// Bits of one part.
    #[must_use]
    pub fn part_bits(&self) -> u64 {
        self.part_bits
    }

    #[inline]
    fn positions(&self, hash: KeyHash) -> impl Iterator<Item = u64> + use<> {
        let part_bits = self.part_bits;
        let within = Hashing::Xxh3.positions(mix(hash, 0), part_bits);
        (0..u64::from(self.probes))
            .zip(within)
            .map(move |(part, at)| part * part_bits + at)
    }
}

impl Membership for Partitioned {
    #[inline]
    fn may_contain_hash(&self, hash: KeyHash) -> bool {
        self.positions(hash).all(|at| self.bits.get(at))
    }

    /// Insertions: a key put in twice counts twice.
    fn len(&self) -> u64 {
        self.keys
    }

    fn bits(&self) -> u64 {
        self.bits.len()
    }

    fn expected_rate(&self) -> f64 {
        partitioned_rate(self.part_bits, self.probes, self.keys)
    }

    /// The product of the fills of all parts.
    fn current_rate(&self) -> f64 {
        let part = |part: u64| {
            let range = part * self.part_bits..(part + 1) * self.part_bits;
            let ones = range.filter(|at| self.bits.get(*at)).count();
            ones as f64 / self.part_bits as f64
        };
        (0..u64::from(self.probes)).map(part).product()
    }

    fn to_bytes(&self) -> Vec<u8> {
        let mut payload = Vec::new();
        payload.extend(self.keys.to_le_bytes());
        payload.extend(self.probes.to_le_bytes());
        self.bits.put(&mut payload);
        frame::encode(KIND, VERSION, &payload)
    }

    fn from_bytes(bytes: &[u8]) -> Result<Self> {
        let mut fields = frame::decode(KIND, VERSION, bytes)?;
        let keys = fields.u64("the number of keys is cut short")?;
        let probes = fields.u32("the number of probes is cut short")?;
        let bits = Bits::read(&mut fields)?;
        fields.end()?;
        let probes_fit = (1..=PROBES_MAX).contains(&probes);
        require(probes_fit, "a key has 1 to 128 probes")?;
        let part_bits = bits.len() / u64::from(probes);
        let whole = part_bits > 0 && part_bits * u64::from(probes) == bits.len();
        require(whole, "parts are not equally long")?;
        Ok(Self {
            keys,
            probes,
            part_bits,
            bits,
        })
    }
}

impl Insert for Partitioned {
    #[inline]
    fn insert_hash(&mut self, hash: KeyHash) -> Result<()> {
        for at in self.positions(hash) {
            self.bits.set(at);
        }
        self.keys = self.keys.saturating_add(1);
        Ok(())
    }
}

impl Merge for Partitioned {
    /// Exactly the filter of both streams in one, if parts are as many and as long.
    fn merge(&mut self, other: &Self) -> Result<()> {
        if (self.probes, self.part_bits) != (other.probes, other.part_bits) {
            return Error::invalid(format!(
                "{} parts of {} bits cannot be merged with {} of {}: build both for one number of keys \
                 and one rate",
                self.probes, self.part_bits, other.probes, other.part_bits
            ));
        }
        self.bits.unite(&other.bits);
        self.keys = self.keys.saturating_add(other.keys);
        Ok(())
    }
}
