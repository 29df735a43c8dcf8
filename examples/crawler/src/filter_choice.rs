//! `--filter`: the filter of the seen set, by name.

use criba::{BloomierBits, FilterPolicy};

/// A filter policy from the command line.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct FilterChoice(pub(crate) FilterPolicy);

impl std::str::FromStr for FilterChoice {
    type Err = String;

    fn from_str(text: &str) -> Result<FilterChoice, String> {
        let bits = text.strip_prefix("bloom:");
        let bits = bits.and_then(|bits| bits.parse().ok());
        let policy = match (text, bits) {
            ("bloomier", _) => FilterPolicy::Bloomier(BloomierBits::Slot),
            ("none", _) => FilterPolicy::None,
            (_, Some(bits_per_key)) => FilterPolicy::Bloom { bits_per_key },
            _ => return Err("write `bloomier`, `bloom:BITS` or `none`".into()),
        };
        Ok(FilterChoice(policy))
    }
}
