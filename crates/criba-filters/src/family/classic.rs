//! The Bloom filter: an array of bits, of which each key sets `k`.
//!
//! Bloom, "Space/time trade-offs in hash coding with allowable errors" (1970).
//!
//! **Memory** 1.44 log2(1/p) bits per key, 44 % above the least that is possible. **Cost** `k`
//! random accesses to insert, and for a key that is there; about two for one that is not, at half
//! of the bits set. **Can** take keys beyond its capacity (the rate rises), be united with and cut
//! with another of the same design, and tell about how many keys are in it. **Cannot** delete, list
//! its keys, or grow.

use super::bits::Bits;
use super::design::{Design, estimate_for, rate_for};
use super::frame::{self, Kind, require};
use crate::error::{Error, Result};
use crate::hash::mix_for;
use crate::{Insert, KeyHash, Membership, Merge};

const KIND: Kind = *b"CLAS";
const VERSION: u8 = 2;

/// A Bloom filter.
///
/// Formulas, use, what was measured and what it costs: `docs/filters/classic.md`.
///
/// ```
/// use criba_filters::{Classic, Design, Insert, Membership};
///
/// let mut seen = Classic::new(Design::for_rate(1_000, 0.01)?)?;
/// seen.insert("fruit/apple")?;
/// assert!(seen.may_contain("fruit/apple"));
/// assert_eq!(Classic::from_bytes(&seen.to_bytes())?, seen);
/// # Ok::<(), criba_filters::Error>(())
/// ```
#[doc(alias = "bloom")]
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Classic {
    /// Its number among filters that must be independent; 0 for one by itself.
    pub(super) salt: u64,
    pub(super) design: Design,
    pub(super) keys: u64,
    pub(super) bits: Bits,
}

impl Classic {
    /// An empty filter.
    ///
    /// # Errors
    ///
    /// If the design is out of bounds.
    pub fn new(design: Design) -> Result<Self> {
        Self::salted(0, design)
    }

    /// An empty filter that is independent of those of the same design and other salts.
    pub(super) fn salted(salt: u64, design: Design) -> Result<Self> {
        design.check()?;
        let bits = Bits::new(design.bits)?;
        Ok(Self {
            salt,
            design,
            keys: 0,
            bits,
        })
    }

    /// Its shape.
    #[must_use]
    pub fn design(&self) -> Design {
        self.design
    }

    /// Share of bits that are set, 0 to 1.
    #[must_use]
    pub fn fill(&self) -> f64 {
        self.bits.fill()
    }

    /// How many distinct keys are in it, from the bits that are set; infinite when all are.
    #[must_use]
    pub fn estimate(&self) -> f64 {
        self.estimate_of(self.bits.ones())
    }

    fn estimate_of(&self, ones: u64) -> f64 {
        estimate_for(self.design.bits, self.design.probes, ones)
    }

    /// How many distinct keys more it takes before its rate exceeds the one it was made for: its
    /// capacity less [`estimate`](Self::estimate).
    #[must_use]
    pub fn remaining_capacity(&self) -> u64 {
        // The cast saturates, at 0 below it.
        (self.design.keys as f64 - self.estimate()).round() as u64
    }

    /// The filter of all keys of either; exactly the one that they would give together. Where both
    /// have keys in common, [`merge`](Merge::merge) would count these twice; here the number of
    /// keys is estimated.
    ///
    /// # Errors
    ///
    /// If the designs differ.
    pub fn union(&self, other: &Self) -> Result<Self> {
        self.combine(other, |a, b| a | b)
    }

    /// A filter that no key of both is denied by. Its rate is at most that of either, but above
    /// that of a filter of the common keys alone: bits of different keys meet.
    ///
    /// # Errors
    ///
    /// If the designs differ.
    pub fn intersection(&self, other: &Self) -> Result<Self> {
        self.combine(other, |a, b| a & b)
    }

    /// Whether a key has the same bits in both.
    pub(super) fn check_alike(&self, other: &Self) -> Result<()> {
        if (self.salt, self.design) == (other.salt, other.design) {
            return Ok(());
        }
        Error::invalid(
            "filters of different design have nothing in common: build both with the same"
                .to_owned(),
        )
    }

    /// The number of keys in it is then estimated and no longer exact.
    fn combine(&self, other: &Self, with: impl Fn(u64, u64) -> u64) -> Result<Self> {
        self.check_alike(other)?;
        let bits = self.bits.zip(&other.bits, with);
        // The cast saturates where the estimate is infinite.
        let keys = self.estimate_of(bits.ones()).round() as u64;
        Ok(Self {
            bits,
            keys,
            ..*self
        })
    }

    /// How many distinct keys are in either.
    ///
    /// # Errors
    ///
    /// If the designs differ.
    pub fn estimate_union(&self, other: &Self) -> Result<f64> {
        Ok(self.union(other)?.estimate())
    }

    /// How many distinct keys are in both, by inclusion and exclusion; at least 0. Its error is
    /// that of the union, however few the common keys are.
    ///
    /// # Errors
    ///
    /// If the designs differ.
    pub fn estimate_intersection(&self, other: &Self) -> Result<f64> {
        let union = self.estimate_union(other)?;
        if union.is_infinite() {
            return Ok(f64::INFINITY);
        }
        Ok((self.estimate() + other.estimate() - union).max(0.0))
    }

    /// Number of bits that a lookup of this key reads, 1 to the number of probes.
    #[must_use]
    pub fn probes_read(&self, key: impl Into<KeyHash>) -> u32 {
        let clear = self.positions(key.into()).position(|at| !self.bits.get(at));
        clear.map_or(self.design.probes, |at| at as u32 + 1)
    }

    #[inline]
    fn positions(&self, hash: KeyHash) -> impl Iterator<Item = u64> + use<> {
        let Design {
            hashing,
            bits,
            probes,
            ..
        } = self.design;
        // At most 128 probes.
        hashing
            .positions(mix_for(hash, self.salt), bits)
            .take(probes as usize)
    }

    /// All but the bits.
    pub(super) fn put_head(&self, payload: &mut Vec<u8>) {
        payload.extend(self.salt.to_le_bytes());
        self.design.put(payload);
        payload.extend(self.keys.to_le_bytes());
    }

    /// What [`put_head`](Self::put_head) wrote, with bits that `read` gives.
    pub(super) fn read_with(
        fields: &mut frame::Fields<'_>,
        read: impl FnOnce(&mut frame::Fields<'_>, u64) -> Result<Bits>,
    ) -> Result<Self> {
        let salt = fields.u64("the salt is cut short")?;
        let design = Design::read(fields)?;
        let keys = fields.u64("the number of keys is cut short")?;
        let bits = read(fields, design.bits)?;
        require(bits.len() == design.bits, "there are more or fewer bits")?;
        fields.end()?;
        Ok(Self {
            salt,
            design,
            keys,
            bits,
        })
    }
}

impl Membership for Classic {
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
        rate_for(self.design.bits, self.design.probes, self.keys)
    }

    fn current_rate(&self) -> f64 {
        self.fill().powf(f64::from(self.design.probes))
    }

    fn to_bytes(&self) -> Vec<u8> {
        let mut payload = Vec::new();
        self.put_head(&mut payload);
        self.bits.put(&mut payload);
        frame::encode(KIND, VERSION, &payload)
    }

    fn from_bytes(bytes: &[u8]) -> Result<Self> {
        let mut fields = frame::decode(KIND, VERSION, bytes)?;
        Self::read_with(&mut fields, |fields, _| Bits::read(fields))
    }
}

impl Insert for Classic {
    #[inline]
    fn insert_hash(&mut self, hash: KeyHash) -> Result<()> {
        for at in self.positions(hash) {
            self.bits.set(at);
        }
        self.keys = self.keys.saturating_add(1);
        Ok(())
    }
}

impl Merge for Classic {
    /// Exactly the filter of both streams in one, if the designs are the same.
    fn merge(&mut self, other: &Self) -> Result<()> {
        self.check_alike(other)?;
        self.bits.unite(&other.bits);
        self.keys = self.keys.saturating_add(other.keys);
        Ok(())
    }
}
