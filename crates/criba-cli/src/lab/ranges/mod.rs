//! Range filters of the literature beside that of `criba_filters`, for the laboratory only.
//!
//! They answer as the published ones do. The bits of succinct structures are calculated from what the
//! structure would take, where this one holds its parts in plain vectors; each file says how.

pub(crate) mod grafite;
mod integers;
pub(crate) mod keys;
pub(crate) mod own;
pub(crate) mod prefix;
pub(crate) mod snarf;
pub(crate) mod surf;

/// A range of keys, both bounds included.
pub(crate) type KeyRange = (Vec<u8>, Vec<u8>);

/// A filter that can be asked for ranges.
pub(crate) trait RangeSet {
    /// `false` is certain.
    fn may_hold(&self, range: &KeyRange) -> bool;

    /// Bits that it takes.
    fn bits(&self) -> f64;

    /// The probability of a "maybe" for an empty range, or a bound of it, where theory has one.
    fn expected(&self, _range: &KeyRange) -> Option<f64> {
        None
    }
}

/// What belongs to so many bits in their last byte.
fn mask(bits: usize) -> u8 {
    match bits % 8 {
        0 => 0xff,
        some => !(0xff >> some),
    }
}

#[cfg(test)]
mod tests {
    use super::keys::{ALL, KeySet};
    use super::*;

    /// No filter denies a range that holds a key.
    #[test]
    fn no_range_with_a_key_is_denied() {
        for kind in ALL {
            let set = KeySet::new(kind, (1500, 3));
            let ranges = set.neighbours(200);
            let mut filters: Vec<Box<dyn RangeSet + '_>> = Vec::new();
            for bits in [6.0, 9.5, 16.0] {
                filters.push(Box::new(grafite::Grafite::new(&set.run, bits, 5)));
                filters.push(Box::new(grafite::Bucketing::new(&set.run, bits)));
                filters.push(Box::new(snarf::Snarf::new(&set.run, bits)));
                let prefixes = prefix::PrefixBloom::new(&set.run, bits, &ranges);
                filters.push(Box::new(prefixes.unwrap()));
                let own = own::Own::new(&set.run, bits).unwrap();
                filters.extend(own.map(|own| Box::new(own) as Box<dyn RangeSet>));
                let surf = surf::Surf::new(&set.run, bits + 20.0);
                filters.extend(surf.map(|surf| Box::new(surf) as Box<dyn RangeSet>));
            }
            assert!(filters.len() >= 15, "{kind:?}");
            for (at, filter) in filters.iter().enumerate() {
                for pair in set.all.windows(3).step_by(7) {
                    let range = (pair[0].clone(), pair[2].clone());
                    if pair.iter().any(|key| set.run.binary_search(key).is_ok()) {
                        assert!(filter.may_hold(&range), "{kind:?}, filter {at}: {range:?}");
                    }
                }
            }
        }
    }
}
