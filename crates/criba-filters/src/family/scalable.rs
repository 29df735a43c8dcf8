//! The scalable Bloom filter: a new, larger and stricter layer when the last is full.
//!
//! Almeida, Baquero, Preguiça, Hutchison, "Scalable Bloom filters" (2007). Layer `i` is made for
//! `n g^i` keys at the rate `p0 r^i`; the rates of all layers add up to less than `p0 / (1 - r)`,
//! however many there are.
//!
//! **Memory** more than a filter of the right size from the start: each layer takes `log2(1/r)`
//! bits per key times 1.44 more than the one before, and the last one may be nearly empty. **Cost**
//! of a lookup of an absent key: all layers, of which there are `log_g` of the keys. **Can** take
//! any number of keys, and be merged: layers of both are kept, so both rates add up. **Cannot**
//! delete.

use super::design::{Design, check_rate};
use super::frame::{self, Kind, require};
use super::{Classic, parts};
use crate::error::{Error, Result};
use crate::{Insert, KeyHash, Membership, Merge};

const KIND: Kind = *b"SCAL";
const VERSION: u8 = 2;

/// An upper bound of the rate of any number of layers: `p0 / (1 - r)`.
#[must_use]
pub fn compound_bound(first_rate: f64, tightening: f64) -> f64 {
    (first_rate / (1.0 - tightening)).min(1.0)
}

/// How layers follow each other.
///
/// ```
/// use criba_filters::Growth;
/// use criba_filters::formulas::compound_bound;
///
/// let growth = Growth { first_keys: 1_000, first_rate: 0.005, growth: 2.0, tightening: 0.5 };
/// assert!(compound_bound(growth.first_rate, growth.tightening) <= 0.01);
/// ```
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
    fn layer(&self, number: u64) -> Result<Design> {
        let keys = (self.first_keys as f64 * self.growth.powf(number as f64)).round() as u64;
        Design::for_rate(keys, self.rate(number))
    }

    /// The rate of a layer when it is full.
    fn rate(&self, number: u64) -> f64 {
        self.first_rate * self.tightening.powf(number as f64)
    }
}

/// A Bloom filter that grows.
///
/// Formulas, use, what was measured and what it costs: `docs/filters/scalable.md`.
///
/// ```
/// use criba_filters::{Growth, Insert, Membership, Scalable};
///
/// let growth = Growth { first_keys: 100, first_rate: 0.005, growth: 2.0, tightening: 0.5 };
/// let mut seen = Scalable::new(growth)?; // at most 1 %, for any number of keys
/// for key in 0..2_000_u64 {
///     seen.insert(&key.to_le_bytes())?;
/// }
/// assert!(seen.layers().len() > 3 && seen.expected_rate() < seen.bound());
/// # Ok::<(), criba_filters::Error>(())
/// ```
#[derive(Clone, PartialEq, Debug)]
pub struct Scalable {
    growth: Growth,
    /// At least one, in the order of their numbers, which are their salts. Each number once, unless
    /// filters were merged.
    layers: Vec<Classic>,
}

impl Scalable {
    /// An empty filter of one layer.
    ///
    /// # Errors
    ///
    /// If a parameter is out of its bounds.
    pub fn new(growth: Growth) -> Result<Self> {
        growth.check()?;
        let first = Classic::new(growth.layer(0)?)?;
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

    /// The rate that is not exceeded, whatever is inserted: that of one layer of each number, and
    /// of each layer more that came by merging.
    #[must_use]
    pub fn bound(&self) -> f64 {
        let once = compound_bound(self.growth.first_rate, self.growth.tightening);
        let pairs = self.layers.iter().zip(self.layers.iter().skip(1));
        let again = pairs.filter(|(one, next)| one.salt == next.salt);
        let more: f64 = again.map(|(one, _)| self.growth.rate(one.salt)).sum();
        (once + more).min(1.0)
    }

    /// Whether a layer holds as many keys as it is made for.
    fn is_full(layer: &Classic) -> bool {
        layer.keys >= layer.design.keys
    }

    /// Adds a layer of another filter, to one of its number if both together are not over-full.
    fn take(&mut self, layer: &Classic) -> Result<()> {
        let fits = |own: &&mut Classic| {
            let keys = own.keys.saturating_add(layer.keys);
            own.check_alike(layer).is_ok() && keys <= own.design.keys
        };
        if let Some(own) = self.layers.iter_mut().find(fits) {
            return own.merge(layer);
        }
        let place = self.layers.partition_point(|own| own.salt <= layer.salt);
        self.layers.insert(place, layer.clone());
        Ok(())
    }
}

impl Membership for Scalable {
    #[inline]
    fn may_contain_hash(&self, hash: KeyHash) -> bool {
        // The newest layer is the largest.
        let mut newest_first = self.layers.iter().rev();
        newest_first.any(|layer| layer.may_contain_hash(hash))
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
        let layers: Vec<Classic> = parts::read_all(&mut fields)?;
        fields.end()?;
        let sorted = layers.is_sorted_by_key(|layer| layer.salt);
        require(sorted, "layers are out of order")?;
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
    fn insert_hash(&mut self, hash: KeyHash) -> Result<()> {
        if self.may_contain_hash(hash) {
            return Ok(());
        }
        let open = |layer: &Classic| !Self::is_full(layer);
        let open = match self.layers.iter().rposition(open) {
            Some(open) => open,
            None => {
                let keys = self.len();
                let number = self
                    .layers
                    .last()
                    .map_or(0, |last| last.salt.saturating_add(1));
                let design = self.growth.layer(number).or(Err(Error::Full { keys }))?;
                self.layers.push(Classic::salted(number, design)?);
                self.layers.len() - 1
            }
        };
        self.layers[open].insert_hash(hash)
    }
}

impl Merge for Scalable {
    /// Keeps the layers of both, so that exactly those keys pass that either passed: rates and
    /// [`bound`](Scalable::bound)s add up. Layers of one number that are not full become one where
    /// that has room for the keys of both. Keys in both count twice.
    fn merge(&mut self, other: &Self) -> Result<()> {
        if self.growth != other.growth {
            return Error::invalid(format!(
                "layers from {} keys at {} cannot be merged with those from {} at {}: build both with \
                 one growth",
                self.growth.first_keys,
                self.growth.first_rate,
                other.growth.first_keys,
                other.growth.first_rate
            ));
        }
        other.layers.iter().try_for_each(|layer| self.take(layer))
    }
}
