//! The scalable Bloom filter: a new, larger and stricter layer when the last is full.
//!
//! Almeida, Baquero, Preguiça, Hutchison, "Scalable Bloom filters" (2007). Layer `i` is made for
//! `n g^i` keys at the rate `p0 r^i`; the rates of all layers add up to less than `p0 / (1 - r)`,
//! however many there are.
//!
//! **Memory** more than a filter of the right size from the start: each layer takes `log2(1/r)` bits
//! per key times 1.44 more than the one before, and the last one may be nearly empty. **Cost** of a
//! lookup of an absent key: all layers, of which there are `log_g` of the keys. **Can** take any number
//! of keys. **Cannot** delete.

use super::design::{Design, check_rate};
use super::frame::{self, Kind, require};
use super::{Classic, Insert, Membership, parts};
use crate::error::{Error, Result};

const KIND: Kind = *b"SCAL";
const VERSION: u8 = 1;

/// An upper bound of the rate of any number of layers: `p0 / (1 - r)`.
#[must_use]
pub fn compound_bound(first_rate: f64, tightening: f64) -> f64 {
    (first_rate / (1.0 - tightening)).min(1.0)
}

/// How layers follow each other.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Growth {
    /// Keys of the first layer, at least 1.
    pub first_keys: u64,
    /// Rate of the first layer.
    pub first_rate: f64,
    /// Keys of a layer by those of the one before, 1.0 to 16.0; 2 is usual.
    pub growth: f64,
    /// Rate of a layer by that of the one before, above 0 and below 1; 0.5 to 0.9 are usual.
    pub tightening: f64,
}

impl Growth {
    fn check(&self) -> Result<()> {
        check_rate(self.first_rate)?;
        if self.first_keys == 0 {
            return Error::invalid("the first layer needs room for a key".to_owned());
        }
        if !(1.0..=16.0).contains(&self.growth) {
            return Error::invalid(format!(
                "layers cannot grow by {}: choose from 1 to 16",
                self.growth
            ));
        }
        if !(self.tightening > 0.0 && self.tightening < 1.0) {
            return Error::invalid(format!(
                "rates cannot shrink by {}: choose between 0 and 1, or the bound is infinite",
                self.tightening
            ));
        }
        Ok(())
    }

    /// The design of a layer.
    fn layer(&self, number: usize) -> Result<Design> {
        let power = number as f64;
        let keys = (self.first_keys as f64 * self.growth.powf(power)).round() as u64;
        Design::for_rate(keys, self.first_rate * self.tightening.powf(power))
    }
}

/// A Bloom filter that grows.
///
/// Formulas, use, what was measured and what it costs: `docs/filters/scalable.md`.
#[derive(Clone, PartialEq, Debug)]
pub struct Scalable {
    growth: Growth,
    /// At least one; all but the last are full.
    layers: Vec<Classic>,
}

impl Scalable {
    /// An empty filter of one layer.
    ///
    /// # Errors
    ///
    /// If a parameter is out of its bounds.
    pub fn new(seed: u64, growth: Growth) -> Result<Self> {
        growth.check()?;
        let first = Classic::new(seed, growth.layer(0)?)?;
        Ok(Self {
            growth,
            layers: vec![first],
        })
    }

    /// The layers, at least one, the newest last.
    #[must_use]
    pub fn layers(&self) -> &[Classic] {
        &self.layers
    }

    /// The rate that is not exceeded, whatever is inserted.
    #[must_use]
    pub fn bound(&self) -> f64 {
        compound_bound(self.growth.first_rate, self.growth.tightening)
    }
}

impl Membership for Scalable {
    #[inline]
    fn may_contain(&self, key: &[u8]) -> bool {
        // The newest layer is the largest.
        let mut newest_first = self.layers.iter().rev();
        newest_first.any(|layer| layer.may_contain(key))
    }

    /// Insertions of keys that were not answered with yes already.
    fn len(&self) -> u64 {
        let counts = self.layers.iter().map(Membership::len);
        counts.fold(0, u64::saturating_add)
    }

    fn bits(&self) -> u64 {
        self.layers.iter().map(Membership::bits).sum()
    }

    fn expected_rate(&self) -> f64 {
        parts::any(self.layers.iter().map(Membership::expected_rate))
    }

    fn current_rate(&self) -> f64 {
        parts::any(self.layers.iter().map(Membership::current_rate))
    }

    fn to_bytes(&self) -> Vec<u8> {
        let mut payload = Vec::new();
        payload.extend(self.growth.first_keys.to_le_bytes());
        payload.extend(self.growth.first_rate.to_le_bytes());
        payload.extend(self.growth.growth.to_le_bytes());
        payload.extend(self.growth.tightening.to_le_bytes());
        parts::put_all(&mut payload, &self.layers);
        frame::encode(KIND, VERSION, &payload)
    }

    fn from_bytes(bytes: &[u8]) -> Result<Self> {
        let mut fields = frame::decode(KIND, VERSION, bytes)?;
        let growth = Growth {
            first_keys: fields.u64("the capacity is cut short")?,
            first_rate: fields.f64("the rate is not a number")?,
            growth: fields.f64("the growth is not a number")?,
            tightening: fields.f64("the tightening is not a number")?,
        };
        require(growth.check().is_ok(), "the growth is out of bounds")?;
        let layers = parts::read_all(&mut fields)?;
        fields.end()?;
        Ok(Self { growth, layers })
    }
}

impl Insert for Scalable {
    /// Puts a key in, and a new layer before it if the last is full. A key that is already answered
    /// with yes is not put in again: it would fill layers for nothing.
    ///
    /// # Errors
    ///
    /// [`Error::Full`] when the next layer would be larger, or stricter, than a filter can be.
    fn insert(&mut self, key: &[u8]) -> Result<()> {
        if self.may_contain(key) {
            return Ok(());
        }
        let full = self
            .layers
            .last()
            .is_none_or(|last| last.keys >= last.design.keys);
        if full {
            let keys = self.len();
            let design = self.growth.layer(self.layers.len());
            let design = design.or(Err(Error::Full { keys }))?;
            let seed = self.layers.first().map_or(0, |first| first.seed);
            let seed = seed.wrapping_add(self.layers.len() as u64);
            self.layers.push(Classic::new(seed, design)?);
        }
        self.layers
            .iter_mut()
            .next_back()
            .map_or(Ok(()), |last| last.insert(key))
    }
}
