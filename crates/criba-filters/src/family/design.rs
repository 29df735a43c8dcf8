//! The size of a Bloom filter: bits and probes for so many keys at such a rate.
//!
//! Bloom, "Space/time trade-offs in hash coding with allowable errors" (1970); in the form used
//! here Broder, Mitzenmacher, "Network applications of Bloom filters: a survey" (2004), section 2.
//! The number of keys from the bits that are set: Swamidass, Baldi, "Mathematical correction for
//! fingerprint similarity measures" (2007).

use super::Hashing;
use super::bits::BITS_MAX;
use super::frame::{Fields, require};
use crate::error::{Error, Result};

/// The lowest rate that a 64-bit hash can keep for one key, 2^-64.
pub(super) const RATE_MIN: f64 = 1.0 / 18_446_744_073_709_551_616.0;
/// Most probes; the lowest rate needs 65.
const PROBES_MAX: u32 = 128;

/// Bits for so many keys at this rate: `ceil(-n ln p / ln(2)^2)`, at least 1.
#[must_use]
pub fn bits_for(keys: u64, rate: f64) -> u64 {
    use std::f64::consts::LN_2;
    // The cast saturates; so many bits are then refused.
    ((keys as f64 * -rate.ln() / (LN_2 * LN_2)).ceil() as u64).max(1)
}

/// The best number of probes for so many bits and keys: `ceil(m / n ln 2)`, 1 to 128.
#[must_use]
pub fn probes_for(bits: u64, keys: u64) -> u32 {
    let best = (bits as f64 / keys.max(1) as f64 * std::f64::consts::LN_2).ceil();
    best.clamp(1.0, f64::from(PROBES_MAX)) as u32
}

/// The rate with so many keys in it: `(1 - (1 - 1/m)^(kn))^k`.
#[must_use]
pub fn rate_for(bits: u64, probes: u32, keys: u64) -> f64 {
    if keys == 0 {
        return 0.0;
    }
    fill_for(bits, f64::from(probes) * keys as f64).powf(f64::from(probes))
}

/// Share of bits that are set when so many were drawn, with repetition: `1 - (1 - 1/m)^draws`.
pub(super) fn fill_for(bits: u64, draws: f64) -> f64 {
    -(draws * (-1.0 / bits.max(1) as f64).ln_1p()).exp_m1()
}

/// How many keys set so many of the bits: `-m/k ln(1 - X/m)`; infinite when all are set.
#[must_use]
pub fn estimate_for(bits: u64, probes: u32, ones: u64) -> f64 {
    let share = ones as f64 / bits.max(1) as f64;
    if share >= 1.0 {
        return f64::INFINITY;
    }
    -(bits as f64) / f64::from(probes.max(1)) * (-share).ln_1p()
}

/// Checks a rate.
pub(super) fn check_rate(rate: f64) -> Result<()> {
    if (RATE_MIN..1.0).contains(&rate) {
        return Ok(());
    }
    Error::invalid(format!(
        "a false-positive rate of {rate} cannot be had: choose one from {RATE_MIN:e} to below 1"
    ))
}

/// The shape of a Bloom filter.
///
/// ```
/// use criba_filters::Design;
///
/// let design = Design::for_rate(1_000, 0.01)?;
/// assert_eq!((design.bits, design.probes), (9_586, 7));
/// let fewer = Design { probes: 3, ..design }; // less work, a higher rate
/// assert!(fewer.rate() > design.rate());
/// # Ok::<(), criba_filters::Error>(())
/// ```
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Design {
    /// Keys it is made for; more raise the rate.
    pub keys: u64,
    /// Bits, at least 1.
    pub bits: u64,
    /// Bits that a key sets, 1 to 128.
    pub probes: u32,
    /// How a key's bits are chosen.
    pub hashing: Hashing,
}

impl Design {
    /// For so many keys (0 is taken as 1) at this rate.
    ///
    /// # Errors
    ///
    /// If the rate is not from 2^-64 to below 1, or if more than 2^36 bits would be needed.
    pub fn for_rate(keys: u64, rate: f64) -> Result<Self> {
        check_rate(rate)?;
        let bits = bits_for(keys.max(1), rate);
        Self::for_bits(keys, bits)
    }

    /// For so many keys in so many bits, with the best number of probes.
    ///
    /// # Errors
    ///
    /// If there is no bit, or more than 2^36.
    pub fn for_bits(keys: u64, bits: u64) -> Result<Self> {
        let design = Self {
            keys,
            bits,
            probes: probes_for(bits, keys),
            hashing: Hashing::default(),
        };
        design.check()?;
        Ok(design)
    }

    /// The same with another choice of bits for a key.
    #[must_use]
    pub fn hashed(self, hashing: Hashing) -> Self {
        Self { hashing, ..self }
    }

    /// Checks the bounds of all fields, which are public.
    pub(super) fn check(&self) -> Result<()> {
        if !(1..=BITS_MAX).contains(&self.bits) {
            return Error::invalid(format!(
                "a filter cannot have {} bits: choose from 1 to {BITS_MAX}, by fewer keys or a \
                 higher rate",
                self.bits
            ));
        }
        if !(1..=PROBES_MAX).contains(&self.probes) {
            return Error::invalid(format!(
                "a key cannot have {} probes: choose from 1 to {PROBES_MAX}",
                self.probes
            ));
        }
        let most = self.hashing.bits_max();
        if self.bits > most {
            return Error::invalid(format!(
                "{} reaches no more than {most} bits: choose xxh3",
                self.hashing.name()
            ));
        }
        Ok(())
    }

    /// The rate when it holds the keys it is made for.
    #[must_use]
    pub fn rate(&self) -> f64 {
        rate_for(self.bits, self.probes, self.keys)
    }

    /// All but the bits, which are stored with the array.
    pub(super) fn put(&self, payload: &mut Vec<u8>) {
        payload.push(self.hashing.to_u8());
        payload.extend(self.probes.to_le_bytes());
        payload.extend(self.keys.to_le_bytes());
        payload.extend(self.bits.to_le_bytes());
    }

    pub(super) fn read(fields: &mut Fields<'_>) -> Result<Self> {
        let hashing = Hashing::from_u8(fields.u8("the hashing is cut short")?)?;
        let design = Self {
            hashing,
            probes: fields.u32("the number of probes is cut short")?,
            keys: fields.u64("the capacity is cut short")?,
            bits: fields.u64("the number of bits is cut short")?,
        };
        require(design.check().is_ok(), "bits or probes are out of bounds")?;
        Ok(design)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_are_those_of_the_formulas() {
        assert_eq!(bits_for(1_000, 0.01), 9_586);
        assert_eq!(probes_for(9_586, 1_000), 7);
        assert_eq!(bits_for(0, 0.5), 1);
        let design = Design::for_rate(1_000, 0.01).unwrap();
        assert!((design.rate() - 0.01).abs() < 0.0002, "{}", design.rate());
        assert!((estimate_for(9_586, 7, 4_968) - 1_000.0).abs() < 1.0);
        assert!(estimate_for(10, 2, 10).is_infinite());
    }

    #[test]
    fn bounds_are_told() {
        for rate in [0.0, 1.0, -0.1, 1e-30, 2.0, f64::NAN, f64::INFINITY] {
            let error = Design::for_rate(10, rate).unwrap_err().to_string();
            assert!(error.contains("to below 1"), "{error}");
        }
        for rate in [RATE_MIN, 0.999_999] {
            let design = Design::for_rate(1, rate).unwrap();
            assert!(design.bits >= 1 && design.probes >= 1);
        }
        assert!(Design::for_rate(u64::MAX, 0.5).is_err());
        assert!(Design::for_bits(3, 0).is_err());
        let enhanced = Design::for_bits(1 << 32, 1 << 35).unwrap();
        assert!(enhanced.hashed(Hashing::Enhanced).check().is_err());
    }
}
