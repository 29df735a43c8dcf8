//! Several filters of one kind with different salts, all of which must agree.

use super::frame;
use super::parts;
use crate::error::{Error, Result};
use crate::{Insert, KeyHash, Membership, Merge};

/// A filter of which several can agree: [`Classic`](crate::Classic),
/// [`Compressed`](crate::Compressed).
pub trait Member: Membership + Insert {
    /// What the bytes of several of them begin with. Written by
    /// [`to_bytes`](Membership::to_bytes); must not be changed.
    const KIND: [u8; 4];
}

/// The version of the bytes.
const VERSION: u8 = 2;

/// Filters that a key must pass all: [`Ensemble`](super::Ensemble), [`Hybrid`](super::Hybrid).
///
/// ```
/// use criba_filters::{Agreeing, Classic, Insert, Membership};
///
/// let mut all = Agreeing::<Classic>::new(1_000, 0.1, 0.01)?;
/// all.insert("apple")?;
/// assert!(all.filters().iter().all(|filter| filter.may_contain("apple")));
/// # Ok::<(), criba_filters::Error>(())
/// ```
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
    fn may_contain_hash(&self, hash: KeyHash) -> bool {
        let mut filters = self.filters.iter();
        filters.all(|filter| filter.may_contain_hash(hash))
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
    fn insert_hash(&mut self, hash: KeyHash) -> Result<()> {
        let mut filters = self.filters.iter_mut();
        filters.try_for_each(|filter| filter.insert_hash(hash))
    }
}

impl<F: Member + Merge + Clone> Merge for Agreeing<F> {
    /// Exactly the filter of both streams in one, if filters are as many and of the same designs.
    fn merge(&mut self, other: &Self) -> Result<()> {
        if self.filters.len() != other.filters.len() {
            return Error::invalid(format!(
                "{} filters cannot be merged with {}: build both for one rate",
                self.filters.len(),
                other.filters.len()
            ));
        }
        // A copy, so that nothing is changed where a later filter differs.
        let mut merged = self.filters.clone();
        for (own, other) in merged.iter_mut().zip(&other.filters) {
            own.merge(other)?;
        }
        self.filters = merged;
        Ok(())
    }
}
