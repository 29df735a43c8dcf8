//! An ensemble: several Bloom filters with different salts, which must agree.
//!
//! To come from a rate `p` to a rate `D` takes `r = ceil(ln D / ln p)` filters, as independent
//! rates multiply.
//!
//! **Memory** `r` times 1.44 log2(1/p) bits per key, that is 1.44 log2(1/p^r): exactly what *one*
//! filter of the final rate takes, which is what makes one filter the better choice: it has the
//! same memory, the same number of probes, one mixed hash instead of `r`, and no rounding in each
//! part. What an ensemble is good for: filters that exist already, or that lie in different places.
//! **Cost** for a key that is there all `r k` probes; for one that is not mostly those of the first
//! filter. **Cannot** delete or grow.

use super::design::{check_rate, rate_for};
use super::{Agreeing, Classic, Design, Member, probes_for};
use crate::Membership;
use crate::error::{Error, Result};

/// Filters of rate `rate` that together have at most rate `target`: `ceil(ln target / ln rate)`, at
/// least 1; both between 0 and 1.
#[must_use]
pub fn filters_for(target: f64, rate: f64) -> u32 {
    // A hair less, so that powers that are exact do not take one more.
    (target.ln() / rate.ln() - 1e-9).ceil().max(1.0) as u32
}

/// Several Bloom filters that must agree.
///
/// Formulas, use, what was measured and what it costs: `docs/filters/ensemble.md`.
///
/// ```
/// use criba_filters::{Ensemble, Insert, Membership};
///
/// let mut all = Ensemble::new(100_000, 0.1, 0.001)?; // filters of 1/10, together 1/1,000
/// all.insert("fruit/apple")?;
/// assert!(all.may_contain("fruit/apple") && all.filters().len() == 3);
/// # Ok::<(), criba_filters::Error>(())
/// ```
pub type Ensemble = Agreeing<Classic>;

impl Member for Classic {
    const KIND: [u8; 4] = *b"ENSE";
}

impl Agreeing<Classic> {
    /// Empty filters of rate `rate`, as many as it takes to reach rate `target`, for so many keys.
    ///
    /// # Errors
    ///
    /// If a rate is not from 2^-64 to below 1, or a filter would need more than 2^36 bits.
    pub fn new(keys: u64, rate: f64, target: f64) -> Result<Self> {
        check_rate(target)?;
        let design = Design::for_rate(keys, rate)?;
        let filters = (0..members_for(target, rate)?)
            .map(|number| Classic::salted(number, design))
            .collect::<Result<_, _>>()?;
        Ok(Self { filters })
    }

    /// The rate of *one* filter with the same memory and the same keys, to compare with.
    #[must_use]
    pub fn rate_of_one(&self) -> f64 {
        let (bits, keys) = (self.bits(), self.len());
        rate_for(bits, probes_for(bits, keys), keys)
    }
}

/// Most filters of an ensemble; more are a rate close to 1, that is a mistake.
const MEMBERS_MAX: u32 = 1024;

/// [`filters_for`] as a number of filters to make.
pub(super) fn members_for(target: f64, rate: f64) -> Result<u64> {
    let count = filters_for(target, rate);
    if count > MEMBERS_MAX {
        return Error::invalid(format!(
            "{count} filters of rate {rate} are too many: choose a lower rate for each, so that at \
             most {MEMBERS_MAX} are needed"
        ));
    }
    Ok(u64::from(count))
}
