//! A small filter in front of a large one.
//!
//! Both hold all keys. Most absent keys are denied by the small filter, which stays in a nearer
//! cache than the large one; those that pass are asked again.
//!
//! **Memory** that of both: for the product of the rates, as much as one filter of that rate, see
//! [`Ensemble`](super::Ensemble). **Cost** for an absent key mostly that of the small filter; for a
//! key that is there that of both, more than of one. It pays where most keys asked for are absent
//! and the large filter does not fit the cache that the small one fits. **Cannot** delete or grow.

use super::frame::{self, Kind};
use super::{Classic, Design, parts};
use crate::error::{Error, Result};
use crate::{Insert, KeyHash, Membership, Merge};

const KIND: Kind = *b"HIER";
const VERSION: u8 = 2;

/// Two filters, the small one asked first.
///
/// Formulas, use, what was measured and what it costs: `docs/filters/hierarchical.md`.
///
/// ```
/// use criba_filters::{Hierarchical, Insert, Membership};
///
/// let mut seen = Hierarchical::new(100_000, 0.1, 0.001)?; // a front of 1/10, together 1/1,000
/// seen.insert("fruit/apple")?;
/// assert!(seen.may_contain("fruit/apple"));
/// # Ok::<(), criba_filters::Error>(())
/// ```
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Hierarchical {
    front: Classic,
    back: Classic,
}

impl Hierarchical {
    /// Empty filters for so many keys: the front of rate `front_rate`, the back of so much that
    /// both together have `rate`, which is lower.
    ///
    /// # Errors
    ///
    /// If a rate is not from 2^-64 to below 1, if `rate` is not below `front_rate`, or a filter
    /// would need more than 2^36 bits.
    pub fn new(keys: u64, front_rate: f64, rate: f64) -> Result<Self> {
        super::design::check_rate(rate)?;
        let front = Design::for_rate(keys, front_rate)?;
        if rate >= front_rate {
            return Error::invalid(format!(
                "a front of rate {front_rate} leaves nothing to do for a rate of {rate}: choose a \
                 higher rate for the front"
            ));
        }
        let back = Design::for_rate(keys, rate / front_rate)?;
        Ok(Self {
            front: Classic::salted(0, front)?,
            back: Classic::salted(1, back)?,
        })
    }

    /// The filter that is asked first.
    #[must_use]
    pub fn front(&self) -> &Classic {
        &self.front
    }

    /// The filter that is asked when the first one says yes.
    #[must_use]
    pub fn back(&self) -> &Classic {
        &self.back
    }
}

impl Membership for Hierarchical {
    #[inline]
    fn may_contain_hash(&self, hash: KeyHash) -> bool {
        self.front.may_contain_hash(hash) && self.back.may_contain_hash(hash)
    }

    /// Insertions: a key put in twice counts twice.
    fn len(&self) -> u64 {
        self.front.len().max(self.back.len())
    }

    fn bits(&self) -> u64 {
        self.front.bits() + self.back.bits()
    }

    fn expected_rate(&self) -> f64 {
        self.front.expected_rate() * self.back.expected_rate()
    }

    fn current_rate(&self) -> f64 {
        self.front.current_rate() * self.back.current_rate()
    }

    fn to_bytes(&self) -> Vec<u8> {
        let mut payload = Vec::new();
        parts::put(&mut payload, &self.front);
        parts::put(&mut payload, &self.back);
        frame::encode(KIND, VERSION, &payload)
    }

    fn from_bytes(bytes: &[u8]) -> Result<Self> {
        let mut fields = frame::decode(KIND, VERSION, bytes)?;
        let front = parts::read(&mut fields)?;
        let back = parts::read(&mut fields)?;
        fields.end()?;
        Ok(Self { front, back })
    }
}

impl Insert for Hierarchical {
    #[inline]
    fn insert_hash(&mut self, hash: KeyHash) -> Result<()> {
        self.front.insert_hash(hash)?;
        self.back.insert_hash(hash)
    }
}

impl Merge for Hierarchical {
    /// Exactly the filter of both streams in one, if both parts have the same designs.
    fn merge(&mut self, other: &Self) -> Result<()> {
        self.back.check_alike(&other.back)?;
        self.front.merge(&other.front)?;
        self.back.merge(&other.back)
    }
}
