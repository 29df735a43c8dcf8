//! The blocked Bloom filter: all bits of a key lie in one cache line.
//!
//! Putze, Sanders, Singler, "Cache-, hash- and space-efficient Bloom filters" (2007). The filter
//! that segments carry as [`FilterKind::Bloom`](crate::segment::FilterKind::Bloom), here with
//! insertion.
//!
//! **Memory** that of a Bloom filter and some more for the same rate, as lines do not all get
//! equally many keys: at 1 % about 0.35 bits per key, at 0.1 % about 1.2. **Cost** one cache line
//! to insert and to look up, whatever the rate. **Can** take keys beyond its capacity. **Cannot**
//! delete or grow.

use super::bits::{BITS_MAX, Bits};
use super::frame::{self, Fields, Kind, require};
use crate::error::{Error, Result};
use crate::hash::{mix, start_of};
use crate::segment::blocked::{LINE_WORDS, line_count, probes};
use crate::segment::math::{PROBES_MAX, best_probes, blocked_rate};
use crate::{Insert, KeyHash, Membership, Merge};

const KIND: Kind = *b"BLOC";
const VERSION: u8 = 2;
const LINE_BITS: u64 = LINE_WORDS as u64 * 64;

/// A Bloom filter of cache lines.
///
/// Formulas, use, what was measured and what it costs: `docs/filters/blocked.md`.
///
/// ```
/// use criba_filters::{Blocked, Insert, Membership};
///
/// let mut seen = Blocked::new(100_000, 10.5)?;
/// seen.insert("fruit/apple")?;
/// assert!(seen.may_contain("fruit/apple"));
/// # Ok::<(), criba_filters::Error>(())
/// ```
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Blocked {
    keys: u64,
    probes: u8,
    /// Lines, a multiple of 512 bits, at least one.
    bits: Bits,
}

impl Blocked {
    /// An empty filter for so many keys (0 is taken as 1) at so many bits each, 1.0 to 64.0;
    /// fractions count, in whole lines.
    ///
    /// # Errors
    ///
    /// If the bits per key are out of bounds, or more than 2^36 bits would be needed.
    pub fn new(keys: u64, bits_per_key: f64) -> Result<Self> {
        if !(1.0..=64.0).contains(&bits_per_key) {
            return Error::invalid(format!(
                "a blocked filter cannot have {bits_per_key} bits per key: choose from 1 to 64"
            ));
        }
        let keys = keys.max(1);
        if keys as f64 * bits_per_key > BITS_MAX as f64 {
            return Error::invalid(format!(
                "{keys} keys of {bits_per_key} bits are more than one filter may have ({BITS_MAX} \
                 bits): build several"
            ));
        }
        let lines = u64::from(line_count(keys, bits_per_key));
        Ok(Self {
            keys: 0,
            probes: best_probes(keys, lines),
            bits: Bits::new(lines * LINE_BITS)?,
        })
    }

    /// The rate of a filter of so many bits per key when it holds its keys.
    #[must_use]
    pub fn rate_for(keys: u64, bits_per_key: f64) -> f64 {
        let lines = u64::from(line_count(keys, bits_per_key));
        blocked_rate(keys, lines, best_probes(keys, lines))
    }

    /// Bits that a key sets, 1 to 32, repetitions included.
    #[must_use]
    pub fn probes(&self) -> u32 {
        u32::from(self.probes)
    }

    #[inline]
    fn lines(&self) -> u64 {
        self.bits.len() / LINE_BITS
    }

    /// Positions of a key's bits among all.
    #[inline]
    fn positions(&self, hash: KeyHash) -> impl Iterator<Item = u64> + use<> {
        let mixed = mix(hash, 0);
        let first = start_of(mixed, self.lines()) * LINE_BITS;
        probes(mixed, self.probes)
            .map(move |(word, mask)| first + word as u64 * 64 + u64::from(mask.trailing_zeros()))
    }
}

impl Membership for Blocked {
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
        blocked_rate(self.keys, self.lines(), self.probes)
    }

    /// The mean over the lines of the rate of each.
    fn current_rate(&self) -> f64 {
        let lines = self.bits.words().chunks(LINE_WORDS);
        let rate = |line: &[u64]| {
            let ones: u32 = line.iter().map(|word| word.count_ones()).sum();
            (f64::from(ones) / LINE_BITS as f64).powi(i32::from(self.probes))
        };
        lines.map(rate).sum::<f64>() / self.lines() as f64
    }

    fn to_bytes(&self) -> Vec<u8> {
        let mut payload = Vec::new();
        payload.extend(self.keys.to_le_bytes());
        payload.push(self.probes);
        self.bits.put(&mut payload);
        frame::encode(KIND, VERSION, &payload)
    }

    fn from_bytes(bytes: &[u8]) -> Result<Self> {
        let mut fields: Fields<'_> = frame::decode(KIND, VERSION, bytes)?;
        let keys = fields.u64("the number of keys is cut short")?;
        let probes = fields.u8("the number of probes is cut short")?;
        let probes_fit = (1..=PROBES_MAX).contains(&probes);
        require(probes_fit, "a key has 1 to 32 probes")?;
        let bits = Bits::read(&mut fields)?;
        let whole = bits.len() > 0 && bits.len() % LINE_BITS == 0;
        require(whole, "there is no whole number of lines")?;
        fields.end()?;
        Ok(Self { keys, probes, bits })
    }
}

impl Insert for Blocked {
    #[inline]
    fn insert_hash(&mut self, hash: KeyHash) -> Result<()> {
        for at in self.positions(hash) {
            self.bits.set(at);
        }
        self.keys = self.keys.saturating_add(1);
        Ok(())
    }
}

impl Merge for Blocked {
    /// Exactly the filter of both streams in one, if lines and probes are as many.
    fn merge(&mut self, other: &Self) -> Result<()> {
        if (self.lines(), self.probes) != (other.lines(), other.probes) {
            return Error::invalid(format!(
                "{} lines with {} probes cannot be merged with {} and {}: build both for one number of \
                 keys",
                self.lines(),
                self.probes,
                other.lines(),
                other.probes
            ));
        }
        self.bits.unite(&other.bits);
        self.keys = self.keys.saturating_add(other.keys);
        Ok(())
    }
}
