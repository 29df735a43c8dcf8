//! Several filters of one kind with different seeds, all of which must agree.

use super::frame;
use super::{Insert, Membership, parts};
use crate::error::Result;

/// A filter of which several can agree.
pub trait Member: Membership + Insert {
    /// What the bytes of several of them begin with. Written by
    /// [`to_bytes`](Membership::to_bytes); must not be changed.
    const KIND: [u8; 4];
}

/// The version of the bytes.
const VERSION: u8 = 1;

/// Filters that a key must pass all: [`Ensemble`](super::Ensemble), [`Hybrid`](super::Hybrid).
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Agreeing<F> {
    /// At least one.
    pub(super) filters: Vec<F>,
}

impl<F> Agreeing<F> {
    /// The filters, at least one.
    #[must_use]
    pub fn filters(&self) -> &[F] {
        &self.filters
    }
}

impl<F: Member> Membership for Agreeing<F> {
    #[inline]
    fn may_contain(&self, key: &[u8]) -> bool {
        self.filters.iter().all(|filter| filter.may_contain(key))
    }

    /// Insertions: a key put in twice counts twice.
    fn len(&self) -> u64 {
        self.filters.iter().map(Membership::len).max().unwrap_or(0)
    }

    /// As they are asked, not as they are stored.
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
        frame::encode(F::KIND, VERSION, &payload)
    }

    fn from_bytes(bytes: &[u8]) -> Result<Self> {
        let mut fields = frame::decode(F::KIND, VERSION, bytes)?;
        let filters = parts::read_all(&mut fields)?;
        fields.end()?;
        Ok(Self { filters })
    }
}

impl<F: Member> Insert for Agreeing<F> {
    fn insert(&mut self, key: &[u8]) -> Result<()> {
        self.filters
            .iter_mut()
            .try_for_each(|filter| filter.insert(key))
    }
}
