//! The hybrid: an ensemble of filters made to be compressed.
//!
//! It has what both parts have, and nothing else: **memory** while it is asked more than that of one
//! Bloom filter of the same rate, **bytes** on the wire near the entropy of its bits, **cost** few
//! probes in each of several filters. One compressed filter with the memory of all does the same with
//! one hash. **Cannot** delete or grow.

use super::design::check_rate;
use super::ensemble::members_for;
use super::frame::{self, Kind, Unreadable};
use super::{Compressed, Design, Insert, Membership, Refused, parts};

const KIND: Kind = *b"HYBR";
const VERSION: u8 = 1;

/// Several compressed filters that must agree.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Hybrid {
    /// At least one.
    filters: Vec<Compressed>,
}

impl Hybrid {
    /// Empty filters, each with the bits of a Bloom filter of rate `rate`, so many that all together
    /// have at most rate `target` by theory. The rate of one is not `rate`: it has fewer probes.
    ///
    /// # Errors
    ///
    /// If a rate is not from 2^-64 to below 1, a filter would need more than 2^36 bits, or more than
    /// 1024 filters would be needed.
    pub fn new(seed: u64, keys: u64, rate: f64, target: f64) -> Result<Self, Refused> {
        check_rate(target)?;
        let first = Compressed::new(seed, keys, rate)?;
        let design: Design = first.filter().design();
        let own = super::rate_for(design.bits, design.probes, keys.max(1));
        let filters = (0..members_for(target, own.min(1.0 - f64::EPSILON))?)
            .map(|i| Compressed::with_bits(seed.wrapping_add(i), keys, design.bits))
            .collect::<Result<_, _>>()?;
        Ok(Self { filters })
    }

    /// The filters, at least one.
    #[must_use]
    pub fn filters(&self) -> &[Compressed] {
        &self.filters
    }
}

impl Membership for Hybrid {
    #[inline]
    fn may_contain(&self, key: &[u8]) -> bool {
        self.filters.iter().all(|filter| filter.may_contain(key))
    }

    /// Insertions: a key put in twice counts twice.
    fn len(&self) -> u64 {
        self.filters.iter().map(Membership::len).max().unwrap_or(0)
    }

    /// Uncompressed, as they are asked.
    fn bits(&self) -> u64 {
        self.filters.iter().map(Membership::bits).sum()
    }

    fn expected_rate(&self) -> f64 {
        self.filters.iter().map(Membership::expected_rate).product()
    }

    fn current_rate(&self) -> f64 {
        self.filters.iter().map(Membership::current_rate).product()
    }

    fn to_bytes(&self) -> Vec<u8> {
        let mut payload = Vec::new();
        parts::put_all(&mut payload, &self.filters);
        frame::encode(KIND, VERSION, &payload)
    }

    fn from_bytes(bytes: &[u8]) -> Result<Self, Unreadable> {
        let mut fields = frame::decode(KIND, VERSION, bytes)?;
        let filters = parts::read_all(&mut fields)?;
        fields.end()?;
        Ok(Self { filters })
    }
}

impl Insert for Hybrid {
    fn insert(&mut self, key: &[u8]) -> Result<(), Refused> {
        self.filters
            .iter_mut()
            .try_for_each(|filter| filter.insert(key))
    }
}
