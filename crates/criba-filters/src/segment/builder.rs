//! Builds the filters of segments, of keys that come one by one.

use crate::mapped::MappedVec;

use super::{
    Answer, Build, Built, CustomFilters, Filter, FilterKind, FilterSpec, KeyHash, Lookup, Place,
};
use super::{blocked, bloomier, custom};

/// Keys whose part of the filter is on its way from memory while another is looked up.
const ASKED_AHEAD: usize = 8;

/// The keys of a segment, in key order, and the filter that is built from them.
///
/// One is used for segment after segment: all its memory anew for each would be a twentieth of the time
/// of a merge. For each key it takes 32 bytes for Bloomier, 8 for other kinds.
#[derive(Debug, Default)]
pub struct Builder {
    /// None where no filter is wanted.
    spec: Option<FilterSpec>,
    salt: u64,
    /// The keys of a filter that tells where they are, and of one that does not.
    placed: bloomier::Keys,
    hashes: MappedVec<KeyHash>,
}

impl Builder {
    /// Forgets all keys and begins another filter, if there is to be one.
    pub fn begin(&mut self, spec: Option<FilterSpec>, salt: u64) {
        (self.spec, self.salt) = (spec, salt);
        self.placed.begin(salt);
        self.hashes.truncate(0);
    }

    /// The next key is at this place.
    #[inline]
    pub fn add(&mut self, hash: KeyHash, place: Place) {
        match self.spec {
            Some(FilterSpec::Bloomier(_)) => self.placed.add(hash, place),
            Some(_) => self.hashes.push(hash),
            None => {}
        }
    }

    /// The filter of a segment of so many blocks; `None` if none is wanted. The keys stay, for
    /// [`Builder::are_all_found_by`].
    ///
    /// # Errors
    ///
    /// Why the program's own filter was not built. Other kinds always are.
    pub fn build(
        &mut self,
        block_count: u32,
        customs: &CustomFilters,
    ) -> Result<Option<Built>, String> {
        let Some(spec) = self.spec else {
            return Ok(None);
        };
        match spec {
            FilterSpec::Bloomier(bits) => Ok(Some(self.placed.build(bits, block_count))),
            FilterSpec::Custom => {
                let filter = customs.first();
                let filter = filter.ok_or("the program has brought no custom filter")?;
                custom::build(&**filter, &self.hashes).map(Some)
            }
            FilterSpec::Bloom { .. } => Ok(Some(build(&Build {
                spec,
                salt: self.salt,
                hashes: &self.hashes,
                places: &[],
                block_count,
                max_slot: 0,
            }))),
        }
    }

    /// Whether the filter that was built finds every key at its place. A custom filter was asked for
    /// every key when it was built.
    pub fn are_all_found_by(&self, built: &Built) -> bool {
        if built.kind == FilterKind::Custom {
            return true;
        }
        let Ok(filter) = Filter::parse(built.kind, &built.header, built.body.len() as u64) else {
            return false;
        };
        if let Some(FilterSpec::Bloomier(_)) = self.spec {
            return self.placed.are_all_found_by(&filter, &built.body);
        }
        let later = self.hashes.iter().skip(ASKED_AHEAD).map(Some);
        let mut later = later.chain(std::iter::repeat(None));
        self.hashes.iter().all(|hash| {
            if let Some(later) = later.next().flatten()
                && let Lookup::Window(window) = filter.locate(*later)
            {
                filter.prefetch(&window, &built.body);
            }
            filter.ask(*hash, &built.body) != Answer::No
        })
    }
}

/// Builds the filter of a segment.
///
/// It succeeds for any hashes: none, equal ones, or such as an adversary would choose (the filter is
/// then larger). Bits per key out of bounds are moved to the nearest bound. Takes about 34 bytes per key of
/// temporary memory for Bloomier and none for Bloom.
///
/// # Panics
///
/// For Bloomier, if `hashes` and `places` differ in length. For [`FilterSpec::Custom`], which only a
/// [`Builder`] builds.
#[must_use]
pub fn build(input: &Build<'_>) -> Built {
    match input.spec {
        FilterSpec::Bloom { bits_per_key } => blocked::build(input, bits_per_key),
        FilterSpec::Bloomier(bits) => bloomier::build(input, bits),
        FilterSpec::Custom => panic!("a custom filter is built by a Builder"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::segment::BloomierBits;

    const SLOT: FilterSpec = FilterSpec::Bloomier(BloomierBits::Slot);

    fn hash_of(key: u64) -> KeyHash {
        KeyHash(key.wrapping_mul(0x9e37_79b9_7f4a_7c15))
    }

    fn filter_of(
        builder: &mut Builder,
        spec: FilterSpec,
        keys: std::ops::Range<u64>,
        group_max: u32,
    ) -> Built {
        builder.begin(Some(spec), 7);
        for key in keys.clone() {
            let block = ((key - keys.start) / 40) as u32;
            let place = Place::of_group(block, key as u32 % (group_max + 1));
            builder.add(hash_of(key), place);
        }
        let blocks = (keys.end - keys.start).div_ceil(40) as u32;
        let built = builder
            .build(blocks, &CustomFilters::default())
            .unwrap()
            .unwrap();
        assert!(builder.are_all_found_by(&built));
        built
    }

    fn alone(spec: FilterSpec, keys: std::ops::Range<u64>, group_max: u32) -> Built {
        filter_of(&mut Builder::default(), spec, keys, group_max)
    }

    #[test]
    fn nothing_is_left_of_the_segment_before() {
        let mut used = Builder::default();
        let bloom = FilterSpec::Bloom { bits_per_key: 10.0 };
        let large = filter_of(&mut used, SLOT, 0..100_000, 9);
        filter_of(&mut used, SLOT, 3..700, 3);
        assert!(!used.are_all_found_by(&large));
        for (spec, keys, group_max) in [
            (SLOT, 3..700, 3),
            (bloom, 0..50_000, 3),
            (SLOT, 0..100_000, 9),
            (SLOT, 5..6, 0),
            (bloom, 10..20, 0),
        ] {
            let built = filter_of(&mut used, spec, keys.clone(), group_max);
            assert_eq!(built, alone(spec, keys, group_max));
        }
        used.begin(None, 7);
        used.add(hash_of(1), Place::default());
        assert_eq!(used.build(1, &CustomFilters::default()).unwrap(), None);
    }

    /// The check is what stands between a bug and a key that is not found.
    #[test]
    fn a_filter_without_a_key_or_with_another_place_is_noticed() {
        let mut builder = Builder::default();
        let others = |spec, group_max| alone(spec, 1..5001, group_max);
        for spec in [
            SLOT,
            FilterSpec::Bloomier(BloomierBits::Rejecting(9.5)),
            FilterSpec::Bloom { bits_per_key: 10.0 },
        ] {
            let built = filter_of(&mut builder, spec, 0..5000, 9);
            assert!(!builder.are_all_found_by(&others(spec, 9)), "{spec:?}");
            // The same keys, each in the block behind.
            let mut behind = Builder::default();
            behind.begin(Some(spec), 7);
            for key in 0..5000_u64 {
                let place = Place::of_group((key / 40) as u32 + 1, key as u32 % 10);
                behind.add(hash_of(key), place);
            }
            let behind = behind
                .build(126, &CustomFilters::default())
                .unwrap()
                .unwrap();
            let tells_places = built.kind == FilterKind::Bloomier;
            assert_eq!(builder.are_all_found_by(&behind), !tells_places, "{spec:?}");
        }
        let other_groups = alone(SLOT, 0..5000, 4);
        filter_of(&mut builder, SLOT, 0..5000, 9);
        assert!(!builder.are_all_found_by(&other_groups));
    }
}
