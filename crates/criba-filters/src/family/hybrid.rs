//! The hybrid: an ensemble of filters made to be compressed.
//!
//! It has what both parts have, and nothing else: **memory** while it is asked more than that of
//! one Bloom filter of the same rate, **bytes** on the wire near the entropy of its bits, **cost**
//! few probes in each of several filters. One compressed filter with the memory of all does the
//! same with one hash. **Cannot** delete or grow.

use super::design::check_rate;
use super::ensemble::members_for;
use super::{Agreeing, Compressed, Design, Member};
use crate::error::Result;

/// Several compressed filters that must agree.
///
/// Formulas, use, what was measured and what it costs: `docs/filters/hybrid.md`.
///
/// ```
/// use criba_filters::{Hybrid, Insert, Membership};
///
/// let mut all = Hybrid::new(10_000, 0.05, 0.002)?; // arrays for 1/20, together at most 1/500
/// all.insert("fruit/apple")?;
/// assert!(all.may_contain("fruit/apple"));
/// # Ok::<(), criba_filters::Error>(())
/// ```
pub type Hybrid = Agreeing<Compressed>;

impl Member for Compressed {
    const KIND: [u8; 4] = *b"HYBR";
}

impl Agreeing<Compressed> {
    /// Empty filters, each with the bits of a Bloom filter of rate `rate`, so many that all
    /// together have at most rate `target` by theory. The rate of one is not `rate`: it has fewer
    /// probes.
    ///
    /// # Errors
    ///
    /// If a rate is not from 2^-64 to below 1, a filter would need more than 2^36 bits, or more
    /// than 1024 filters would be needed.
    pub fn new(keys: u64, rate: f64, target: f64) -> Result<Self> {
        check_rate(target)?;
        let first = Compressed::new(keys, rate)?;
        let design: Design = first.filter().design();
        let own = super::rate_for(design.bits, design.probes, keys.max(1));
        let filters = (0..members_for(target, own.min(1.0 - f64::EPSILON))?)
            .map(|number| Compressed::salted(number, keys, design.bits))
            .collect::<Result<_, _>>()?;
        Ok(Self { filters })
    }
}
