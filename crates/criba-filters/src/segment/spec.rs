//! What kind of filter a segment gets and how many bits it may spend.
//!
//! The policy of the store (which may also choose "none") is decided elsewhere; this module holds the
//! choice for one segment, after the policy has spoken.

/// The kind of a filter block, stored beside its bytes.
///
/// These numbers are written to disk and must not be changed. A reader that meets another number works
/// without a filter: slower, never wrong.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
#[non_exhaustive]
pub enum FilterKind {
    /// Cache-line-blocked Bloom filter: says "no" or "maybe".
    Bloom = 1,
    /// Bumped ribbon that maps a key to its position: says "no" or where.
    #[doc(alias = "ribbon")]
    Bloomier = 2,
    /// One that the program brought: [`CustomFilter`](super::CustomFilter).
    // 3 to 12 were filters for comparison; a store that has them reads its segments without.
    Custom = 13,
}

impl FilterKind {
    /// Its name, in lower case.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Bloom => "bloom",
            Self::Bloomier => "bloomier",
            Self::Custom => "custom",
        }
    }

    /// The number on disk.
    #[must_use]
    pub fn to_u8(self) -> u8 {
        self as u8
    }

    /// The kind with this number on disk; `None` for a number this version does not know.
    #[must_use]
    pub fn from_u8(number: u8) -> Option<Self> {
        match number {
            1 => Some(Self::Bloom),
            2 => Some(Self::Bloomier),
            13 => Some(Self::Custom),
            _ => None,
        }
    }
}

/// The filter to build for one segment.
#[derive(Clone, Copy, PartialEq, Debug)]
pub enum FilterSpec {
    /// A blocked Bloom filter.
    Bloom {
        /// Bits per key, 1.0 to 64.0; fractions are honoured.
        bits_per_key: f64,
    },
    /// A Bloomier filter.
    Bloomier(BloomierBits),
    /// The first custom filter of the program.
    Custom,
}

/// The width of a Bloomier filter's values, in bits per key.
///
/// ```
/// use criba_filters::segment::{BloomierBits, FilterSpec};
///
/// // As many as the place of a key needs.
/// assert_eq!(FilterSpec::Bloomier(BloomierBits::Slot).check(), Ok(()));
/// // A number of one's own: 1 to 64, and fractions count.
/// assert_eq!(FilterSpec::Bloomier(BloomierBits::Rejecting(9.5)).check(), Ok(()));
/// assert!(FilterSpec::Bloomier(BloomierBits::BitsPerKey(0.5)).check().is_err());
/// ```
#[derive(Clone, Copy, PartialEq, Debug)]
pub enum BloomierBits {
    /// This many bits per key, 1.0 to 64.0; fractions are honoured on average. Block bits come first,
    /// then slot bits if all of them fit, then fingerprint bits.
    BitsPerKey(f64),
    /// This many bits per key, 1.0 to 64.0, every one of which rejects absent keys: block bits, then
    /// fingerprint bits. Slots are not stored, so a key that is there is searched for in its block.
    Rejecting(f64),
    /// As many as the block ordinal needs, at least 7 (the rest are fingerprint bits).
    Block,
    /// As many as block ordinal and slot need, and fingerprint bits so that block and fingerprint
    /// together are at least 7.
    Slot,
}

/// Fewest and most bits per key a filter may have.
const BITS_MIN: f64 = 1.0;
const BITS_MAX: f64 = 64.0;

impl FilterSpec {
    /// Checks that the bits per key are a number within 1.0 to 64.0.
    ///
    /// # Errors
    ///
    /// A sentence that names the setting and its bounds.
    pub fn check(&self) -> Result<(), String> {
        let bits = match *self {
            Self::Bloom { bits_per_key } => bits_per_key,
            Self::Bloomier(BloomierBits::BitsPerKey(bits) | BloomierBits::Rejecting(bits)) => bits,
            Self::Bloomier(BloomierBits::Block | BloomierBits::Slot) | Self::Custom => {
                return Ok(());
            }
        };
        if (BITS_MIN..=BITS_MAX).contains(&bits) {
            return Ok(());
        }
        Err(format!(
            "a filter cannot have {bits} bits per key: choose a number from {BITS_MIN:.1} to \
             {BITS_MAX:.1}, or no filter at all"
        ))
    }
}

/// The nearest allowed number of bits per key; the least one for what is not a number.
pub(crate) fn clamp_bits(bits: f64) -> f64 {
    if bits.is_nan() {
        BITS_MIN
    } else {
        bits.clamp(BITS_MIN, BITS_MAX)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn kinds_survive_the_disk() {
        for number in 0..=u8::MAX {
            let kind = FilterKind::from_u8(number);
            assert_eq!(kind.is_some(), [1, 2, 13].contains(&number));
            assert!(kind.is_none_or(|kind| kind.to_u8() == number));
        }
    }

    #[test]
    fn bits_are_checked() {
        fn check(bits: f64, good: bool) {
            let specs = [
                FilterSpec::Bloom { bits_per_key: bits },
                FilterSpec::Bloomier(BloomierBits::BitsPerKey(bits)),
                FilterSpec::Bloomier(BloomierBits::Rejecting(bits)),
            ];
            for spec in specs {
                assert_eq!(spec.check().is_ok(), good, "{spec:?}");
            }
            assert!((BITS_MIN..=BITS_MAX).contains(&clamp_bits(bits)));
        }
        check(1.0, true);
        check(64.0, true);
        check(10.3, true);
        check(0.99, false);
        check(64.01, false);
        check(-1.0, false);
        check(f64::NAN, false);
        check(f64::INFINITY, false);
        assert!(FilterSpec::Bloomier(BloomierBits::Block).check().is_ok());
        let message = FilterSpec::Bloom { bits_per_key: 0.0 }.check().unwrap_err();
        assert!(message.contains("from 1.0 to 64.0"), "{message}");
    }
}
